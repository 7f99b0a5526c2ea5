/* Dumps of a graph when memory runs out: NULL, and nothing left behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "format/json.h"
#include "graph/builder.h"
#include "support/faults.h"

static hr_status first_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  (void)err;
  out[0] = view->in[0];
  return HR_OK;
}

static const hr_op toy_sum = {.name = "toy_sum", .n_in = 2, .n_out = 1, .optional = 2u, .shape = first_shape};

static hr_status json_body(void *arg, hr_error *err) {
  json_t *json = hr__graph_json(arg);
  if (!json) return hr__nomem(err);
  json_decref(json);
  return HR_OK;
}

static void test_json(void **state) {
  (void)state;
  hr_graph *graph;
  hr_builder b;
  hr_error err = {0};
  assert_int_equal(hr__graph_create(&graph, &err), HR_OK);
  hr__builder_init(&b, graph, HR_F32);
  hr__program_begin(&b, HR_PROGRAM_STEP);
  hr__block_begin(&b, "layer.%d", 0);
  hr_id w = hr__parameter(&b, "w", hr__desc2(HR_F32, 4, 2), (hr_init){0});
  hr_id x = hr__input(&b, "x", hr__desc2(HR_F32, 4, 2));
  hr_id y = hr__emit(&b, &toy_sum, (hr_id[]){x, w}, 2, NULL);
  y = hr__emit(&b, &toy_sum, (hr_id[]){y, HR_NONE}, 2, NULL);
  hr__block_end(&b);
  hr__program_set_output(&b, "y", y);
  assert_int_equal(hr__builder_status(&b, &err), HR_OK);
  assert_true(hr_test_each_fault(json_body, graph) > 50);
  hr__graph_destroy(graph);
}

int main(void) {
  hr_test_faults_install();
  hr__json_init();
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_json)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
