/* Ten steps in every precision against PyTorch: autocast for the mixed ones, f16 with the scale that its scaler had,
 * bf16 weights with stochastic rounding (other random numbers there). */
#include <math.h>
#include <stdio.h>

#include "format/file.h"
#include "part_golden.h"

static const double LOSS_F32 = 1e-5, LOSS_16_BIT = 5e-3;

static const hr_doc_node *document_of(golden *g) {
  hr_error err;
  char *text;
  size_t bytes;
  hr_doc_node *document;
  static const char path[] = HR_SOURCE_DIR "/test/golden/techniques/losses.json";
  check(hr__file_read(path, 1 << 20, &g->arena, &text, &bytes, &err), &err);
  check(hr__json_parse(path, text, bytes, &g->arena, &document, &err), &err);
  return document;
}

static const hr_doc_node *list_of(const hr_doc_node *document, const char *name, const char *precision) {
  const hr_doc_node *list = hr__doc_get(hr__doc_get(document, name), precision);
  assert_non_null(list);
  return list->child;
}

static void steps_match(const char *name, const char *precision, double tolerance) {
  golden g;
  hr_error err;
  char set[64], what[128];
  snprintf(set, sizeof set, "model.precision=%s", precision);
  const char *overrides[] = {set};
  char folder[64];
  snprintf(folder, sizeof folder, "llama/%s", name);
  golden_open(&g, folder, 1, overrides, 1);
  check(hr__compile(g.recipe, NULL, NULL, &g.graph, &err), &err);
  golden_start(&g, 1);
  const hr_doc_node *document = document_of(&g), *loss = list_of(document, name, precision);
  bool scaled = hr__doc_get(hr__doc_get(document, name), "16-mixed scale") && precision[0] == '1';
  const hr_doc_node *scale = scaled ? list_of(document, name, "16-mixed scale") : NULL;
  double worst = 0;
  int64_t steps = 0;
  for (; loss; loss = loss->next, steps++) {
    double expected = 0, factor = 1;
    assert_true(hr__doc_float(loss, &expected) && (!scale || hr__doc_float(scale, &factor)));
    double got = golden_run(&g, HR_PROGRAM_STEP, steps, (float)factor);
    snprintf(what, sizeof what, "%s, loss of step %d", precision, (int)steps + 1);
    expect_near(got, expected, tolerance, what);
    worst = fmax(worst, fabs(got - expected) / expected);
    if (scale) scale = scale->next;
  }
  assert_int_equal(steps, g.steps);
  print_message("%s, %s: %d losses within %.1e of PyTorch\n", name, precision, (int)steps, worst);
  golden_close(&g);
}

static void test_steps(void **state) {
  steps_match(*state, "32-true", LOSS_F32);
  steps_match(*state, "bf16-mixed", LOSS_16_BIT);
  steps_match(*state, "16-mixed", LOSS_16_BIT);
  steps_match(*state, "bf16-true", LOSS_16_BIT);
}

int main(void) {
  static char *const names[] = {"grouped-tied", "grouped-untied-rope", "odd-untied", "odd-tied-bias-rope"};
  enum { NAMES = sizeof names / sizeof *names };
  struct CMUnitTest tests[NAMES];
  for (size_t i = 0; i < NAMES; i++)
    tests[i] = (struct CMUnitTest){.name = names[i], .test_func = test_steps, .initial_state = names[i]};
  return cmocka_run_group_tests_name("precisions against PyTorch", tests, NULL, NULL);
}
