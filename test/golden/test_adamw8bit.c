/* 8-bit AdamW against files made by PyTorch from the formulas: codes and scales bit for bit. */
#include <math.h>
#include <string.h>

#include "base/dynamic8.h"
#include "op/adamw8bit.h"
#include "part_golden.h"

static const char *const names[] = {"param", "m", "v", "m_absmax", "v_absmax"};
static const char *const types[] = {"F32", "U8", "U8", "F32", "F32"};
enum { TENSORS = 5, STEPS = 6 };

static hr_safetensors *file_open(const char *name) {
  char path[1024];
  hr_safetensors *file;
  hr_error err = {0};
  snprintf(path, sizeof path, "%s/test/golden/techniques/%s", HR_SOURCE_DIR, name);
  check(hr__safetensors_open(path, &file, &err), &err);
  return file;
}

static void test_codes(void **state) {
  golden g = {0};
  hr_safetensors *file = file_open("codes.safetensors");
  (void)state;
  assert_memory_equal(golden_tensor(&g, file, "signed", "F32", 4, NULL), hr__dynamic8_signed(), 256 * sizeof(float));
  assert_memory_equal(golden_tensor(&g, file, "unsigned", "F32", 4, NULL), hr__dynamic8_unsigned(),
                      256 * sizeof(float));
  hr__safetensors_close(file);
  hr__arena_fini(&g.arena);
}

/* The tensors of a step, before or after it. */
static void state_read(golden *g, hr_safetensors *file, const char *prefix, void **data, size_t *count) {
  for (int i = 0; i < TENSORS; i++) {
    char name[64];
    snprintf(name, sizeof name, "%s.%s", prefix, names[i]);
    data[i] = golden_tensor(g, file, name, types[i], strcmp(types[i], "U8") == 0 ? 1 : 4, &count[i]);
  }
}

static void step_compare(golden *g, hr_safetensors *file, int step) {
  static const hr_adamw8bit_args args = {
      .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8f, .weight_decay = 0.1f, .lr_scale = 1};
  static const int operand[TENSORS] = {0, 2, 3, 4, 5};
  char prefix[16], after[16], gradient[16];
  void *data[TENSORS], *expected[TENSORS];
  size_t count[TENSORS];
  snprintf(prefix, sizeof prefix, "%d", step);
  snprintf(after, sizeof after, "%d.after", step);
  snprintf(gradient, sizeof gradient, "%d.gradient", step);
  state_read(g, file, prefix, data, count);
  state_read(g, file, after, expected, count);
  hr_control control = {.step = (uint64_t)step,
                        .learning_rate = 1e-3f,
                        .bias_correction1 = (float)(1 - pow(0.9, step)),
                        .bias_correction2 = (float)(1 - pow(0.95, step)),
                        .loss_scale = 1};
  hr_device device = {.facts = {.kind = HR_CPU, .threads = 1}};
  hr_tensor in[8] = {0}, out[TENSORS];
  for (int i = 0; i < TENSORS; i++)
    out[i] = in[operand[i]] =
        (hr_tensor){.data = data[i],
                    .desc = hr__desc1(strcmp(types[i], "U8") == 0 ? HR_U8 : HR_F32, (int64_t)count[i]),
                    .stride = {1}};
  in[1] = (hr_tensor){.data = golden_tensor(g, file, gradient, "F32", 4, NULL), .desc = out[0].desc, .stride = {1}};
  in[6] = (hr_tensor){.data = &control, .desc = hr__desc1(HR_U8, (int64_t)sizeof control), .stride = {1}};
  hr_call call = {.in = in, .out = out, .n_in = 8, .n_out = TENSORS, .args = &args, .threads = 1, .device = &device};
  assert_int_equal(hr_op_adamw8bit.cpu.run(&call), HR_OK);
  for (int i = 1; i < TENSORS; i++)
    if (memcmp(data[i], expected[i], hr_desc_bytes(&out[i].desc)) != 0) fail_msg("step %d: %s differs", step, names[i]);
  /* the size of the step is computed from f32 here, from f64 there */
  for (size_t i = 0; i < count[0]; i++) {
    double got = (double)((float *)data[0])[i], want = (double)((float *)expected[0])[i];
    if (!(fabs(got - want) <= 5e-7 * (fabs(want) + 1e-1))) fail_msg("step %d: %.9g instead of %.9g", step, got, want);
  }
}

static void test_steps(void **state) {
  golden g = {0};
  hr_safetensors *file = file_open("adam8.safetensors");
  (void)state;
  for (int step = 1; step <= STEPS; step++)
    step_compare(&g, file, step);
  hr__safetensors_close(file);
  hr__arena_fini(&g.arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_codes), cmocka_unit_test(test_steps)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
