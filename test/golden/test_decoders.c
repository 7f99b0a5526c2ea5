/* Decoders against PyTorch: logits, loss, every gradient, and the losses of ten AdamW steps, from the files that
 * make_llama.py, make_families.py, make_gemma.py and make_mamba2.py wrote. The model is loaded the way a user loads a
 * checkpoint: a recipe with model.path. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "format/file.h"
#include "op/head_loss.h"
#include "op/linear.h"
#include "part_golden.h"

static const double LOGITS = 1e-5, LOSS = 1e-6, GRADIENT = 1e-4, STEPS = 1e-5;

/* Logits exist only here: the step itself never has them. Also the loss of the forward pass alone. */
static void logits_match(const char *name) {
  golden g;
  hr_error err;
  golden_open(&g, name, 1, NULL, 0);
  hr_model_part part = hr__model_whole(g.recipe);
  check(hr__model_check(g.recipe, &err), &err);
  check(hr__graph_create(&g.graph, &err), &err);
  hr_builder b;
  hr__builder_init(&b, g.graph, HR_F32);
  hr__program_begin(&b, HR_PROGRAM_EVAL);
  hr_desc desc = hr__desc2(HR_I32, g.batch, g.length);
  hr_model_batch batch = {.batch = g.batch, .length = g.length, .lengths = HR_NONE, .starts = HR_NONE};
  batch.tokens = hr__input(&b, "tokens", desc);
  batch.targets = hr__input(&b, "targets", desc);
  hr_id loss = part.model->forward(&b, &part, &batch);
  check(hr__builder_status(&b, &err), &err);
  const hr_node *head = &g.graph->nodes[g.graph->values[loss].producer];
  assert_ptr_equal(head->op, &hr_op_head_loss);
  hr_id logits = hr__linear(&b, head->in[0], head->in[1], HR_NONE);
  hr__program_set_output(&b, "loss", loss);
  hr__program_set_output(&b, "logits", logits);
  check(hr__builder_status(&b, &err), &err);
  golden_start(&g, 1);

  size_t count;
  const float *expected_loss = golden_tensor(&g, g.io, "loss", "F32", sizeof(float), NULL);
  const float *expected = golden_tensor(&g, g.io, "logits", "F32", sizeof(float), &count);
  expect_near(golden_run(&g, HR_PROGRAM_EVAL, 0, 1.0f), (double)*expected_loss, LOSS, "loss of the forward pass");
  float *got = hr__arena_array(&g.arena, count, sizeof *got);
  check(hr__run_read(g.run, logits, 0, got, count * sizeof *got, &err), &err);
  double largest = 0, error = 0;
  for (size_t i = 0; i < count; i++) {
    largest = fmax(largest, fabs((double)expected[i]));
    error = fmax(error, fabs((double)got[i] - (double)expected[i]));
    if (!isfinite(got[i])) fail_msg("logit %zu is not finite", i);
  }
  print_message("%s: logits within %.1e of PyTorch\n", name, error / largest);
  if (error / largest > LOGITS) fail_msg("logits are off by %.2e", error / largest);
  golden_close(&g);
}

/* With accumulation the gradients stay in memory after the program: grad.<parameter>. */
static void gradients_match(const char *name) {
  golden g;
  hr_error err;
  golden_open(&g, name, 2, NULL, 0);
  check(hr__compile(g.recipe, NULL, NULL, &g.graph, &err), &err);
  golden_start(&g, 2);
  const float *expected_loss = golden_tensor(&g, g.io, "loss", "F32", sizeof(float), NULL);
  double loss = golden_run(&g, HR_PROGRAM_MICRO_FIRST, 0, 1.0f);
  expect_near(loss, (double)*expected_loss, LOSS, "loss");

  size_t compared = 0;
  double worst = 0;
  for (size_t t = 0; t < hr__safetensors_count(g.io); t++) {
    const hr_safetensor *tensor = hr__safetensors_at(g.io, t);
    if (strncmp(tensor->name, "grad.", 5) != 0) continue;
    size_t count;
    const float *expected = golden_tensor(&g, g.io, tensor->name, "F32", sizeof(float), &count);
    hr_id parameter = hr__graph_find_value(g.graph, tensor->name + 5);
    if (parameter == HR_NONE) fail_msg("the model has no parameter %s", tensor->name + 5);
    hr_id gradient = hr__graph_find_value(g.graph, tensor->name);
    if (gradient == HR_NONE) fail_msg("%s has no gradient", tensor->name + 5);
    double error = golden_distance(&g, gradient, expected, count);
    if (!(error <= GRADIENT)) fail_msg("%s is off by %.2e (relative L2)", tensor->name, error);
    worst = fmax(worst, error);
    compared++;
  }
  size_t parameters = 0;
  for (hr_id v = 0; v < g.graph->n_values; v++)
    parameters += g.graph->values[v].trained && hr__graph_is_tensor(g.graph, v);
  assert_int_equal(compared, parameters);
  print_message("%s: loss within %.1e, %zu gradients within %.1e of PyTorch\n", name,
                fabs(loss - (double)*expected_loss) / (double)*expected_loss, compared, worst);
  golden_close(&g);
}

static void steps_match(const char *name) {
  golden g;
  hr_error err;
  golden_open(&g, name, 1, NULL, 0);
  check(hr__compile(g.recipe, NULL, NULL, &g.graph, &err), &err);
  golden_start(&g, 1);

  char path[600], *text;
  size_t bytes;
  hr_doc_node *document;
  snprintf(path, sizeof path, "%s/steps.json", g.folder);
  check(hr__file_read(path, 1 << 20, &g.arena, &text, &bytes, &err), &err);
  check(hr__json_parse(path, text, bytes, &g.arena, &document, &err), &err);
  hr_doc_node *losses = hr__doc_get(document, "losses"), *norms = hr__doc_get(document, "norms");
  assert_non_null(losses);
  assert_non_null(norms);
  const hr_doc_node *loss = losses->child, *norm = norms->child;
  hr_id norm_value = hr__program_output(g.graph, hr__graph_find_kind(g.graph, HR_PROGRAM_STEP), "grad_norm");
  double worst = 0;
  for (int64_t step = 0; step < g.steps; step++, loss = loss->next, norm = norm->next) {
    double expected = 0, expected_norm = 0;
    assert_true(loss && hr__doc_float(loss, &expected) && norm && hr__doc_float(norm, &expected_norm));
    double got = golden_run(&g, HR_PROGRAM_STEP, step, 1.0f);
    char what[64];
    snprintf(what, sizeof what, "loss of step %d", (int)step + 1);
    expect_near(got, expected, STEPS, what);
    worst = fmax(worst, fabs(got - expected) / expected);
    float got_norm;
    check(hr__run_read(g.run, norm_value, 0, &got_norm, sizeof got_norm, &err), &err);
    expect_near((double)got_norm, expected_norm, GRADIENT, "gradient norm");
  }
  print_message("%s: %d AdamW losses within %.1e of PyTorch\n", name, (int)g.steps, worst);
  golden_close(&g);
}

static void test_logits(void **state) {
  logits_match(*state);
}
static void test_gradients(void **state) {
  gradients_match(*state);
}
static void test_steps(void **state) {
  steps_match(*state);
}

int main(void) {
  static char *const names[] = {"llama/grouped-tied", "llama/grouped-untied-rope",
                                "llama/odd-untied",   "llama/odd-tied-bias-rope",
                                "mistral/window",     "mistral/plain",
                                "qwen2/tied",         "qwen2/window",
                                "qwen3/untied",       "qwen3/window-bias",
                                "gemma3/text",        "gemma3/seeing",
                                "mamba2/tied",        "mamba2/groups"};
  enum { NAMES = sizeof names / sizeof *names, KINDS = 3 };
  static const struct {
    const char *name;
    CMUnitTestFunction function;
  } kinds[KINDS] = {{"logits", test_logits}, {"gradients", test_gradients}, {"steps", test_steps}};
  struct CMUnitTest tests[NAMES * KINDS];
  char titles[NAMES * KINDS][64];
  for (size_t i = 0; i < NAMES * KINDS; i++) {
    snprintf(titles[i], sizeof titles[i], "%s %s", names[i / KINDS], kinds[i % KINDS].name);
    tests[i] = (struct CMUnitTest){
        .name = titles[i], .test_func = kinds[i % KINDS].function, .initial_state = names[i / KINDS]};
  }
  return cmocka_run_group_tests_name("decoders against PyTorch", tests, NULL, NULL);
}
