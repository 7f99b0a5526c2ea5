/* 8-bit codes, NF4 and 8-bit AdamW against a reference written in PyTorch from the formulas (make_techniques.py): codes
 * bit for bit, scales bit for bit, parameters to two units in the last place of them or of the step. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/dynamic8.h"
#include "op/adamw8bit.h"
#include "op/nf4.h"
#include "part_golden.h"

static hr_safetensors *file_open(golden *g, const char *name) {
  hr_error err;
  hr_safetensors *file;
  *g = (golden){0};
  hr__arena_init(&g->arena);
  snprintf(g->folder, sizeof g->folder, "%s/test/golden/techniques/%s", HR_SOURCE_DIR, name);
  check(hr__safetensors_open(g->folder, &file, &err), &err);
  return file;
}

static void file_close(golden *g, hr_safetensors *file) {
  hr__safetensors_close(file);
  hr__arena_fini(&g->arena);
}

static void dynamic_codes(void **state) {
  (void)state;
  golden g;
  hr_safetensors *file = file_open(&g, "codes.safetensors");
  assert_memory_equal(hr__dynamic8_signed(), golden_tensor(&g, file, "signed", "F32", 4, NULL), 1024);
  assert_memory_equal(hr__dynamic8_unsigned(), golden_tensor(&g, file, "unsigned", "F32", 4, NULL), 1024);
  file_close(&g, file);
}

static void *named(golden *g, hr_safetensors *file, const char *tensor, const char *part, const char *dtype,
                   size_t *count) {
  char name[96];
  snprintf(name, sizeof name, "%s.%s", tensor, part);
  return golden_tensor(g, file, name, dtype, strcmp(dtype, "U8") == 0 ? 1 : 4, count);
}

/* One value of a graph of its own, with data to begin with. */
static hr_id value_add(hr_builder *b, const char *name, hr_dtype dtype, size_t count) {
  return hr__persistent(b, name, HR_ROLE_OPTIMIZER, hr__desc1(dtype, (int64_t)count), (hr_init){0});
}

static void graph_begin(golden *g, hr_builder *b) {
  hr_error err;
  check(hr__graph_create(&g->graph, &err), &err);
  hr__builder_init(b, g->graph, HR_F32);
  hr__program_begin(b, "step");
}

static void graph_start(golden *g, hr_builder *b) {
  hr_error err;
  hr_rates rates;
  hr_plan_options options = {.accumulation = 1};
  check(hr__builder_status(b, &err), &err);
  check(hr__cpu_open(&g->device, &err), &err);
  hr__rates_default(&g->device->facts, &rates);
  check(hr__plan_build(g->graph, &g->device->facts, &rates, &options, &g->plan, &err), &err);
  hr__rates_fini(&rates);
  check(hr__run_create(g->plan, g->device, NULL, &g->run, &err), &err);
}

static void graph_end(golden *g) {
  hr__run_destroy(g->run);
  hr__plan_destroy(g->plan);
  hr__device_close(g->device);
  hr__graph_destroy(g->graph);
}

static void value_put(golden *g, hr_id value, const void *data, size_t bytes) {
  hr_error err;
  check(hr__run_write(g->run, value, 0, data, bytes, &err), &err);
}

static void *value_get(golden *g, hr_id value) {
  hr_error err;
  size_t bytes = hr_desc_bytes(&g->graph->values[value].desc);
  void *data = hr__arena_alloc(&g->arena, bytes);
  assert_non_null(data);
  check(hr__run_read(g->run, value, 0, data, bytes, &err), &err);
  return data;
}

static void nf4_unpacks(golden *g, hr_safetensors *file, const char *tensor, bool twice) {
  hr_builder b;
  size_t count, n_codes, n_scales, n_nested;
  const float *weight = named(g, file, tensor, twice ? "double" : "plain", "F32", &count);
  const uint8_t *codes = named(g, file, tensor, "codes", "U8", &n_codes);
  const void *scales = named(g, file, tensor, twice ? "nested" : "absmax", twice ? "U8" : "F32", &n_scales);
  const float *nested = named(g, file, tensor, "nested_absmax", "F32", &n_nested);
  const float *offset = named(g, file, tensor, "offset", "F32", NULL);
  graph_begin(g, &b);
  hr_id c = value_add(&b, "codes", HR_U8, n_codes), s = value_add(&b, "absmax", twice ? HR_U8 : HR_F32, n_scales);
  hr_id a = twice ? value_add(&b, "nested", HR_F32, n_nested) : HR_NONE;
  hr_id o = twice ? value_add(&b, "offset", HR_F32, 1) : HR_NONE;
  hr_id w = hr__nf4_unpack(&b, c, s, a, o, hr__desc2(HR_F32, 1, (int64_t)count));
  hr__program_set_output(&b, "weight", w);
  graph_start(g, &b);
  value_put(g, c, codes, n_codes);
  value_put(g, s, scales, n_scales * (twice ? 1 : sizeof(float)));
  if (twice) value_put(g, a, nested, n_nested * sizeof *nested);
  if (twice) value_put(g, o, offset, sizeof *offset);
  hr_error err;
  check(hr__run_program(g->run, 0, &err), &err);
  const float *got = value_get(g, w);
  for (size_t i = 0; i < count; i++) {
    /* The nested scale is a product and a sum, which a processor may round once or twice. */
    float room = twice ? 2e-7f * fabsf(weight[i]) : 0.0f;
    if (!(fabsf(got[i] - weight[i]) <= room))
      fail_msg("%s[%zu] is %.9g, expected %.9g", tensor, i, (double)got[i], (double)weight[i]);
  }
  graph_end(g);
}

static void nf4_matches(void **state) {
  golden g;
  hr_safetensors *file = file_open(&g, "nf4.safetensors");
  const char *tensor = *state;
  size_t count, blocks;
  const float *weight = named(&g, file, tensor, "weight", "F32", &count);
  const float *absmax = named(&g, file, tensor, "absmax", "F32", &blocks);
  const float *offset = named(&g, file, tensor, "offset", "F32", NULL);
  assert_int_equal(hr__nf4_blocks((int64_t)count), blocks);
  float *scales = hr__arena_array(&g.arena, blocks, sizeof *scales);
  uint8_t *codes = hr__arena_alloc(&g.arena, count / 2 + 1), *nested = hr__arena_alloc(&g.arena, blocks);
  hr__nf4_scales(weight, (int64_t)count, scales);
  assert_memory_equal(scales, absmax, blocks * sizeof *scales);
  hr__nf4_codes(weight, (int64_t)count, scales, codes);
  size_t n_codes;
  const uint8_t *expected = named(&g, file, tensor, "codes", "U8", &n_codes);
  assert_int_equal(n_codes, (count + 1) / 2);
  assert_memory_equal(codes, expected, count / 2);
  if (count % 2) assert_int_equal(codes[count / 2] >> 4, expected[count / 2] >> 4);

  double sum = 0;
  for (size_t i = 0; i < blocks; i++)
    sum += (double)scales[i];
  assert_true((float)(sum / (double)blocks) == *offset);
  const float *nested_absmax = named(&g, file, tensor, "nested_absmax", "F32", NULL);
  for (size_t first = 0; first < blocks; first += HR_NF4_NESTED) {
    size_t n = blocks - first < HR_NF4_NESTED ? blocks - first : HR_NF4_NESTED;
    float most;
    hr__nf4_nest(scales + first, (int64_t)n, *offset, nested + first, &most);
    assert_true(most == nested_absmax[first / HR_NF4_NESTED]);
  }
  assert_memory_equal(nested, named(&g, file, tensor, "nested", "U8", NULL), blocks);
  nf4_unpacks(&g, file, tensor, false);
  nf4_unpacks(&g, file, tensor, true);
  file_close(&g, file);
}

/* One step from the reference's state. */
static void adam8_step(golden *g, hr_safetensors *file, int step) {
  enum { PARAM, GRADIENT, M, V, M_ABSMAX, V_ABSMAX, TENSORS };
  static const char *const names[] = {"param", "gradient", "m", "v", "m_absmax", "v_absmax"};
  hr_builder b;
  hr_id id[TENSORS];
  const void *data[TENSORS];
  size_t count[TENSORS];
  char prefix[16], after[16];
  snprintf(prefix, sizeof prefix, "%d", step);
  snprintf(after, sizeof after, "%d.after", step);
  graph_begin(g, &b);
  for (int t = 0; t < TENSORS; t++) {
    bool bytes = t == M || t == V;
    data[t] = named(g, file, prefix, names[t], bytes ? "U8" : "F32", &count[t]);
    id[t] = value_add(&b, names[t], bytes ? HR_U8 : HR_F32, count[t]);
  }
  hr_adamw8bit_args args = {.beta1 = 0.9f, .beta2 = 0.95f, .eps = 1e-8f, .weight_decay = 0.1f, .lr_scale = 1.0f};
  hr_id control = hr__control(&b);
  hr_adamw8bit_state moments = {id[M], id[V], id[M_ABSMAX], id[V_ABSMAX]};
  hr__adamw8bit(&b, id[PARAM], id[GRADIENT], moments, control, HR_NONE, &args);
  graph_start(g, &b);
  for (int t = 0; t < TENSORS; t++)
    value_put(g, id[t], data[t], hr_desc_bytes(&g->graph->values[id[t]].desc));
  hr_control block = {.seed = 1,
                      .step = (uint64_t)step,
                      .learning_rate = 1e-3f,
                      .bias_correction1 = (float)(1.0 - pow(0.9, step)),
                      .bias_correction2 = (float)(1.0 - pow(0.95, step)),
                      .loss_scale = 1.0f};
  value_put(g, control, &block, sizeof block);
  hr_error err;
  check(hr__run_program(g->run, 0, &err), &err);

  for (int t = M; t < TENSORS; t++) {
    const void *expected = named(g, file, after, names[t], t < M_ABSMAX ? "U8" : "F32", NULL),
               *got = value_get(g, id[t]);
    size_t wrong = 0;
    for (size_t i = 0; i < count[t]; i++)
      wrong += t < M_ABSMAX ? ((const uint8_t *)got)[i] != ((const uint8_t *)expected)[i]
                            : ((const float *)got)[i] != ((const float *)expected)[i];
    if (wrong > 0) fail_msg("step %d: %zu of %zu elements of %s differ", step, wrong, count[t], names[t]);
  }
  const float *param = named(g, file, after, "param", "F32", NULL), *got = value_get(g, id[PARAM]);
  for (size_t i = 0; i < count[PARAM]; i++)
    if (!(fabsf(got[i] - param[i]) <= 2.4e-7f * (fabsf(param[i]) + 5e-3f)))
      fail_msg("step %d: parameter %zu is %.9g, expected %.9g", step, i, (double)got[i], (double)param[i]);
  graph_end(g);
}

static void adam8_matches(void **state) {
  (void)state;
  golden g;
  hr_safetensors *file = file_open(&g, "adam8.safetensors");
  for (int step = 1; step <= 6; step++)
    adam8_step(&g, file, step);
  file_close(&g, file);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(dynamic_codes),
      cmocka_unit_test_prestate(nf4_matches, "square"),
      cmocka_unit_test_prestate(nf4_matches, "zeros"),
      cmocka_unit_test_prestate(nf4_matches, "odd"),
      cmocka_unit_test_prestate(nf4_matches, "large"),
      cmocka_unit_test(adam8_matches),
  };
  return cmocka_run_group_tests_name("codes against PyTorch", tests, NULL, NULL);
}
