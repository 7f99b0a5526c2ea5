/* Precisions, adapters and packed weights against PyTorch, from the files that make_techniques.py wrote. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "format/file.h"
#include "part_golden.h"

static const double ADAPTER_GRADIENT = 1e-4, MIXED = 1e-2, ADAPTER_STEPS = 1e-5;

/* A list of numbers of losses.json: losses[group][name]. */
static const hr_doc_node *losses_find(golden *g, const char *group, const char *name) {
  hr_error err;
  char path[600], *text;
  size_t bytes;
  hr_doc_node *document;
  snprintf(path, sizeof path, "%s/test/golden/techniques/losses.json", HR_SOURCE_DIR);
  check(hr__file_read(path, 1 << 20, &g->arena, &text, &bytes, &err), &err);
  check(hr__json_parse(path, text, bytes, &g->arena, &document, &err), &err);
  hr_doc_node *list = hr__doc_get(hr__doc_get(document, group), name);
  if (!list) fail_msg("%s: no %s of %s", path, name, group);
  return list->child;
}

/* Ten steps; returns the largest relative distance from the losses in the file. */
static double steps_compare(golden *g, const char *group, const char *name, double tolerance, float loss_scale) {
  const hr_doc_node *loss = losses_find(g, group, name);
  double worst = 0;
  for (int64_t step = 0; step < g->steps; step++, loss = loss->next) {
    double expected = 0;
    assert_true(loss && hr__doc_float(loss, &expected));
    double got = golden_run(g, "step", step, loss_scale);
    char what[96];
    snprintf(what, sizeof what, "%s: loss of step %d", name, (int)step + 1);
    expect_near(got, expected, tolerance, what);
    worst = fmax(worst, fabs(got - expected) / expected);
  }
  return worst;
}

static void precision_match(const char *name, const char *precision) {
  golden g;
  hr_error err;
  char setting[64];
  snprintf(setting, sizeof setting, "model.precision=%s", precision);
  const char *const overrides[] = {setting};
  golden_open(&g, name, 1, overrides, 1);
  check(hr__compile(g.recipe, NULL, NULL, &g.graph, &err), &err);
  golden_start(&g, 1);
  double worst = steps_compare(&g, name, precision, MIXED, strcmp(precision, "16-mixed") == 0 ? 65536.0f : 1.0f);
  print_message("%s %s: 10 losses within %.1e of PyTorch\n", name, precision, worst);
  golden_close(&g);
}

static void precisions(void **state) {
  static const char *const all[] = {"bf16-mixed", "16-mixed", "bf16-true"};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    precision_match(*state, all[i]);
}

/* The adapters of the file go into the run in place of their first values. */
static void adapters_load(golden *g, hr_safetensors *file) {
  hr_error err;
  size_t loaded = 0, there = 0;
  for (size_t t = 0; t < hr__safetensors_count(file); t++) {
    const hr_safetensor *tensor = hr__safetensors_at(file, t);
    if (!strstr(tensor->name, ".lora_") || strncmp(tensor->name, "grad.", 5) == 0) continue;
    size_t count;
    const float *data = golden_tensor(g, file, tensor->name, "F32", sizeof(float), &count);
    hr_id value = hr__graph_find_value(g->graph, tensor->name);
    if (value == HR_NONE) fail_msg("the model has no adapter %s", tensor->name);
    assert_int_equal(hr_desc_count(&g->graph->values[value].desc), count);
    check(hr__run_write(g->run, value, 0, data, count * sizeof *data, &err), &err);
    loaded++;
  }
  for (hr_id v = 0; v < g->graph->n_values; v++)
    there += g->graph->values[v].trained;
  assert_int_equal(loaded, there);
}

static void adapter_open(golden *g, hr_safetensors **file, const char *name, const char *kind, int accumulation) {
  hr_error err;
  char path[600];
  static const char *const overrides[] = {"model.adapters={kind: lora, rank: 4, alpha: 8, targets: [all-linear]}",
                                          "model.quantize={kind: nf4}"};
  golden_open(g, name, accumulation, overrides, strcmp(kind, "qlora") == 0 ? 2 : 1);
  snprintf(path, sizeof path, "%s/test/golden/techniques/%s-%s.safetensors", HR_SOURCE_DIR, kind, name);
  check(hr__safetensors_open(path, file, &err), &err);
  check(hr__compile(g->recipe, NULL, NULL, &g->graph, &err), &err);
  golden_start(g, accumulation);
  adapters_load(g, *file);
}

static void adapter_gradients(const char *name, const char *kind) {
  golden g;
  hr_safetensors *file;
  adapter_open(&g, &file, name, kind, 2);
  double loss = golden_run(&g, "micro_first", 0, 1.0f), worst = 0;
  expect_near(loss, (double)*(float *)golden_tensor(&g, file, "loss", "F32", sizeof(float), NULL), 1e-6, "loss");
  size_t compared = 0;
  for (size_t t = 0; t < hr__safetensors_count(file); t++) {
    const hr_safetensor *tensor = hr__safetensors_at(file, t);
    if (strncmp(tensor->name, "grad.", 5) != 0) continue;
    size_t count;
    const float *expected = golden_tensor(&g, file, tensor->name, "F32", sizeof(float), &count);
    hr_id gradient = hr__graph_find_value(g.graph, tensor->name);
    if (gradient == HR_NONE) fail_msg("%s has no gradient", tensor->name + 5);
    double error = golden_distance(&g, gradient, expected, count);
    if (!(error <= ADAPTER_GRADIENT)) fail_msg("%s is off by %.2e (relative L2)", tensor->name, error);
    worst = fmax(worst, error);
    compared++;
  }
  assert_true(compared > 0);
  print_message("%s %s: %zu gradients within %.1e of PyTorch\n", name, kind, compared, worst);
  hr__safetensors_close(file);
  golden_close(&g);
}

static void adapter_steps(const char *name, const char *kind) {
  golden g;
  hr_safetensors *file;
  adapter_open(&g, &file, name, kind, 1);
  double worst = steps_compare(&g, name, kind, ADAPTER_STEPS, 1.0f);
  print_message("%s %s: 10 losses within %.1e of PyTorch\n", name, kind, worst);
  hr__safetensors_close(file);
  golden_close(&g);
}

static void lora(void **state) {
  adapter_gradients(*state, "lora");
  adapter_steps(*state, "lora");
}

static void qlora(void **state) {
  adapter_gradients(*state, "qlora");
  adapter_steps(*state, "qlora");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_prestate(precisions, "grouped-tied"),
      cmocka_unit_test_prestate(precisions, "grouped-untied-rope"),
      cmocka_unit_test_prestate(precisions, "odd-untied"),
      cmocka_unit_test_prestate(precisions, "odd-tied-bias-rope"),
      cmocka_unit_test_prestate(lora, "grouped-tied"),
      cmocka_unit_test_prestate(lora, "odd-untied"),
      cmocka_unit_test_prestate(qlora, "grouped-tied"),
      cmocka_unit_test_prestate(qlora, "odd-untied"),
  };
  return cmocka_run_group_tests_name("techniques against PyTorch", tests, NULL, NULL);
}
