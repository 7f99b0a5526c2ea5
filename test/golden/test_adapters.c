/* LoRA and NF4 against PyTorch, from the files that make_techniques.py wrote: codes and scales bit for bit, gradients
 * of the adapters and the losses of ten steps, on plain and on packed weights. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/file.h"
#include "op/nf4.h"
#include "part_golden.h"

static const double LOSS = 1e-6, GRADIENT = 1e-4, STEPS = 1e-5;

static hr_safetensors *techniques_open(const char *format, const char *name) {
  hr_error err;
  hr_safetensors *file;
  char path[600], leaf[128];
  snprintf(leaf, sizeof leaf, format, name);
  snprintf(path, sizeof path, "%s/test/golden/techniques/%s", HR_SOURCE_DIR, leaf);
  check(hr__safetensors_open(path, &file, &err), &err);
  return file;
}

static void *part(golden *g, hr_safetensors *file, const char *name, const char *what, const char *dtype, size_t size,
                  size_t *count) {
  char full[128];
  snprintf(full, sizeof full, "%s.%s", name, what);
  return golden_tensor(g, file, full, dtype, size, count);
}

/* Packs a tensor whole, as formulas say. */
static void codes_match(golden *g, hr_safetensors *file, const char *name) {
  size_t count, blocks, bytes, outer;
  const float *weight = part(g, file, name, "weight", "F32", 4, &count);
  const float *absmax = part(g, file, name, "absmax", "F32", 4, &blocks);
  const float *nested = part(g, file, name, "nested_absmax", "F32", 4, &outer);
  const float *offset = part(g, file, name, "offset", "F32", 4, NULL);
  const uint8_t *codes = part(g, file, name, "codes", "U8", 1, &bytes);
  const uint8_t *small = part(g, file, name, "nested", "U8", 1, NULL);
  uint8_t *got = hr__arena_alloc(&g->arena, bytes), *got_small = hr__arena_alloc(&g->arena, blocks);
  float *scales = hr__arena_array(&g->arena, blocks, sizeof *scales);
  hr__nf4_scales(weight, (int64_t)count, scales);
  assert_memory_equal(scales, absmax, blocks * sizeof *scales);
  hr__nf4_codes(weight, (int64_t)count, scales, got);
  assert_memory_equal(got, codes, bytes);
  double total = 0;
  for (size_t i = 0; i < blocks; i++)
    total += (double)scales[i];
  assert_true((float)(total / (double)blocks) == *offset);
  for (size_t first = 0; first < blocks; first += HR_NF4_NESTED) {
    float largest;
    size_t n = blocks - first < HR_NF4_NESTED ? blocks - first : HR_NF4_NESTED;
    hr__nf4_nest(scales + first, (int64_t)n, *offset, got_small + first, &largest);
    assert_true(largest == nested[first / HR_NF4_NESTED]);
  }
  assert_memory_equal(got_small, small, blocks);
}

/* The op gives the same bits back, with and without double quantization. */
static void unpacked_match(golden *g, hr_safetensors *file, const char *name) {
  size_t count, blocks, bytes, outer;
  hr_error err;
  hr_device *device;
  const float *plain = part(g, file, name, "plain", "F32", 4, &count);
  const float *doubled = part(g, file, name, "double", "F32", 4, NULL);
  hr_tensor in[4] = {{.data = part(g, file, name, "codes", "U8", 1, &bytes)},
                     {.data = part(g, file, name, "nested", "U8", 1, &blocks)},
                     {.data = part(g, file, name, "nested_absmax", "F32", 4, &outer)},
                     {.data = part(g, file, name, "offset", "F32", 4, NULL)}};
  float *w = hr__arena_array(&g->arena, count, sizeof *w);
  hr_tensor out = {.data = w, .desc = hr__desc1(HR_F32, (int64_t)count)};
  in[1].desc = hr__desc1(HR_U8, (int64_t)blocks);
  check(hr__cpu_open(&device, &err), &err);
  hr_call call = {.in = in, .out = &out, .n_in = 4, .n_out = 1, .threads = 2, .device = device};
  assert_int_equal(hr_op_nf4_unpack.cpu.run(&call), HR_OK);
  assert_memory_equal(w, doubled, count * sizeof *w);
  in[1] =
      (hr_tensor){.data = part(g, file, name, "absmax", "F32", 4, NULL), .desc = hr__desc1(HR_F32, (int64_t)blocks)};
  in[2] = in[3] = (hr_tensor){0};
  assert_int_equal(hr_op_nf4_unpack.cpu.run(&call), HR_OK);
  assert_memory_equal(w, plain, count * sizeof *w);
  hr__device_close(device);
}

static void test_nf4(void **state) {
  static const char *const names[] = {"square", "zeros", "odd", "large"};
  (void)state;
  golden g = {0};
  hr_safetensors *file = techniques_open("nf4.safetensors%s", "");
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    codes_match(&g, file, names[i]);
    unpacked_match(&g, file, names[i]);
  }
  hr__safetensors_close(file);
  hr__arena_fini(&g.arena);
}

/* A llama case with adapters on all linears, holding the golden A and B. */
static void adapted_open(golden *g, const char *name, bool packed, int accumulation, hr_safetensors **file) {
  static const char *const overrides[] = {"model.adapters.rank=4", "model.adapters.alpha=8",
                                          "model.adapters.targets=all-linear", "model.quantize.kind=nf4"};
  hr_error err;
  char folder[64];
  snprintf(folder, sizeof folder, "llama/%s", name);
  golden_open(g, folder, accumulation, overrides, packed ? 4 : 3);
  check(hr__compile(g->recipe, NULL, NULL, &g->graph, &err), &err);
  golden_start(g, accumulation);
  *file = techniques_open(packed ? "qlora-%s.safetensors" : "lora-%s.safetensors", name);
  size_t loaded = 0, trained = 0;
  for (size_t t = 0; t < hr__safetensors_count(*file); t++) {
    const hr_safetensor *tensor = hr__safetensors_at(*file, t);
    if (strncmp(tensor->name, "grad.", 5) == 0 || strcmp(tensor->name, "loss") == 0) continue;
    hr_id value = hr__graph_find_value(g->graph, tensor->name);
    if (value == HR_NONE) fail_msg("there is no adapter %s", tensor->name);
    size_t count;
    const float *data = golden_tensor(g, *file, tensor->name, "F32", sizeof(float), &count);
    check(hr__run_write(g->run, value, 0, data, count * sizeof *data, &err), &err);
    loaded++;
  }
  for (hr_id v = 0; v < g->graph->n_values; v++)
    trained += g->graph->values[v].trained && hr__graph_is_tensor(g->graph, v);
  assert_int_equal(loaded, trained);
}

static void gradients_match(const char *name, bool packed) {
  golden g;
  hr_safetensors *file;
  adapted_open(&g, name, packed, 2, &file);
  const float *loss = golden_tensor(&g, file, "loss", "F32", sizeof(float), NULL);
  expect_near(golden_run(&g, HR_PROGRAM_MICRO_FIRST, 0, 1.0f), (double)*loss, LOSS, "loss");
  double worst = 0;
  size_t compared = 0;
  for (size_t t = 0; t < hr__safetensors_count(file); t++) {
    const hr_safetensor *tensor = hr__safetensors_at(file, t);
    if (strncmp(tensor->name, "grad.", 5) != 0) continue;
    size_t count;
    const float *expected = golden_tensor(&g, file, tensor->name, "F32", sizeof(float), &count);
    hr_id gradient = hr__graph_find_value(g.graph, tensor->name);
    if (gradient == HR_NONE) fail_msg("%s is missing", tensor->name);
    double error = golden_distance(&g, gradient, expected, count);
    if (!(error <= GRADIENT)) fail_msg("%s is off by %.2e (relative L2)", tensor->name, error);
    worst = fmax(worst, error);
    compared++;
  }
  assert_true(compared > 0);
  print_message("%s, %s: %zu gradients within %.1e of PyTorch\n", name, packed ? "packed" : "plain", compared, worst);
  hr__safetensors_close(file);
  golden_close(&g);
}

static void steps_match(const char *name, bool packed) {
  golden g;
  hr_error err;
  hr_safetensors *file;
  adapted_open(&g, name, packed, 1, &file);
  char path[600], *text;
  size_t bytes;
  hr_doc_node *document;
  snprintf(path, sizeof path, "%s/test/golden/techniques/losses.json", HR_SOURCE_DIR);
  check(hr__file_read(path, 1 << 20, &g.arena, &text, &bytes, &err), &err);
  check(hr__json_parse(path, text, bytes, &g.arena, &document, &err), &err);
  const hr_doc_node *losses = hr__doc_get(hr__doc_get(document, name), packed ? "qlora" : "lora");
  assert_non_null(losses);
  const hr_doc_node *loss = losses->child;
  double worst = 0;
  for (int64_t step = 0; step < g.steps; step++, loss = loss->next) {
    double expected = 0;
    assert_true(loss && hr__doc_float(loss, &expected));
    double got = golden_run(&g, HR_PROGRAM_STEP, step, 1.0f);
    expect_near(got, expected, STEPS, "loss of a step");
    worst = fmax(worst, fabs(got - expected) / expected);
  }
  print_message("%s, %s: %d losses within %.1e of PyTorch\n", name, packed ? "packed" : "plain", (int)g.steps, worst);
  hr__safetensors_close(file);
  golden_close(&g);
}

static void test_lora(void **state) {
  gradients_match(*state, false);
  steps_match(*state, false);
}

static void test_qlora(void **state) {
  gradients_match(*state, true);
  steps_match(*state, true);
}

int main(void) {
  static char grouped[] = "grouped-tied", odd[] = "odd-untied";
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_nf4),
      cmocka_unit_test_prestate(test_lora, grouped),
      cmocka_unit_test_prestate(test_lora, odd),
      cmocka_unit_test_prestate(test_qlora, grouped),
      cmocka_unit_test_prestate(test_qlora, odd),
  };
  return cmocka_run_group_tests_name("adapters and packed weights against PyTorch", tests, NULL, NULL);
}
