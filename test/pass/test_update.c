/* The update under accumulation 2: parameters with a gradient get a step, an idle one is left alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "grad/grad.h"
#include "op/adamw.h"
#include "op/linear.h"
#include "op/mse.h"
#include "pass/update.h"

static void program_emit(hr_builder *b, const char *name, hr_grad_mode mode) {
  hr_error err = {0};
  hr__program_begin(b, name);
  hr_id x = hr__input(b, "x", hr__desc2(HR_F32, 3, 4)), target = hr__input(b, "t", hr__desc2(HR_F32, 3, 4));
  hr_id w = hr__parameter(b, "w", hr__desc2(HR_F32, 4, 4), (hr_init){HR_INIT_ONE, 0});
  hr_id idle = hr__parameter(b, "idle", hr__desc2(HR_F32, 4, 4), (hr_init){HR_INIT_ONE, 0});
  hr__linear(b, x, idle, HR_NONE);
  hr_loss loss = {.value = hr__mse(b, hr__linear(b, x, w, HR_NONE), target), .weight = 1.0f};
  hr__program_set_output(b, "loss", loss.value);
  if (hr__grad(b, &loss, 1, mode, &err) != HR_OK) fail_msg("%s: %s", err.place, err.message);
}

static void test_idle_parameter(void **state) {
  (void)state;
  hr_graph *graph;
  hr_builder b;
  hr_error err = {0};
  assert_int_equal(hr__graph_create(&graph, &err), HR_OK);
  hr__builder_init(&b, graph, HR_F32);
  program_emit(&b, "micro_first", HR_GRAD_WRITE);
  program_emit(&b, "micro_next", HR_GRAD_ACCUMULATE);
  hr__program_begin(&b, "update");
  hr_update_settings settings = {.beta1 = 0.9f, .beta2 = 0.99f, .eps = 1e-8f, .weight_decay = 0.1f, .clip_norm = 1};
  assert_int_equal(hr__update_emit(&b, &settings, &err), HR_OK);
  assert_int_equal(hr__graph_verify(graph, &err), HR_OK);

  hr_id w = hr__graph_find_value(graph, "w"), idle = hr__graph_find_value(graph, "idle");
  int steps = 0;
  for (size_t n = 0; n < graph->n_nodes; n++) {
    if (graph->nodes[n].op != &hr_op_adamw) continue;
    assert_int_equal(graph->nodes[n].in[0], w);
    steps++;
  }
  assert_int_equal(steps, 1);
  assert_int_equal(graph->values[idle].gradient, HR_NONE);
  assert_int_equal(hr__graph_find_value(graph, "grad.idle"), HR_NONE);
  assert_int_equal(hr__graph_find_value(graph, "adam.m.idle"), HR_NONE);
  hr__graph_destroy(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_idle_parameter)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
