/* See part_bits.h. */
#include "part_bits.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "op/pointwise.h"
#include "run/run.h"

enum { ALL = 1 << 16, ROWS = 96 };

typedef struct formula_case {
  hr_formula formula;
  bool binary;
  float p, q;
} formula_case;
static const formula_case cases[] = {
    {HR_FORMULA_add, true, 0, 0},
    {HR_FORMULA_sub, true, 0, 0},
    {HR_FORMULA_mul, true, 0, 0},
    {HR_FORMULA_square, false, 0, 0},
    {HR_FORMULA_relu, false, 0, 0},
    {HR_FORMULA_clamp, false, -1, 1},
    {HR_FORMULA_clamp, false, 0.3f, 6.1f},
    {HR_FORMULA_clamp, false, 0, 6},
    {HR_FORMULA_clamp, false, -1, 0},
    {HR_FORMULA_clamp, false, 2, -2},
    {HR_FORMULA_clamp, false, 1e-44f, 1e9f},
    {HR_FORMULA_affine, false, 0.3f, 2},
};

static void must(hr_status status, const hr_error *err) {
  if (status != HR_OK) fail_msg("%s: %s", err->place, err->message);
}

/* Other operands: zeros, infinities, NaNs, subnormals, ones, ties, and numbers of all sizes. */
static uint16_t other(int row) {
  static const uint16_t special[] = {0x0000, 0x8000, 0x7f80, 0xff80, 0x7fc0, 0xffc1, 0x7f81, 0x0001,
                                     0x8001, 0x007f, 0x0080, 0x3f80, 0xbf80, 0x3f81, 0x3f00, 0x7f7f,
                                     0xff7f, 0x4049, 0x3c01, 0x4300, 0x4380, 0x1f81, 0x20ff, 0x9fff};
  enum { SPECIAL = sizeof special / sizeof *special };
  return row < SPECIAL ? special[row] : (uint16_t)((unsigned)row * 40503u + 77u);
}

/* The formula for ROWS x `columns` elements; x is every bf16 in turn. */
static uint16_t *formula_run(hr_device *device, const formula_case *c, int64_t columns) {
  hr_error err = {0};
  hr_graph *g;
  hr_builder b;
  hr_rates rates;
  hr_plan *plan;
  hr_run *run;
  must(hr__graph_create(&g, &err), &err);
  hr__builder_init(&b, g, HR_BF16);
  hr__program_begin(&b, HR_PROGRAM_STEP);
  hr_desc desc = hr__desc2(HR_BF16, ROWS, columns);
  hr_id x = hr__parameter(&b, "x", desc, (hr_init){0}), y = hr__parameter(&b, "y", desc, (hr_init){0});
  hr_id made = c->binary ? hr__binary(&b, c->formula, x, y) : hr__unary(&b, c->formula, x, c->p, c->q);
  hr__program_set_output(&b, "made", made);
  must(hr__builder_status(&b, &err), &err);
  hr__rates_default(&device->facts, &rates);
  must(hr__plan_build(g, &device->facts, &rates, &(hr_plan_options){.accumulation = 1}, &plan, &err), &err);
  must(hr__run_create(plan, device, &(hr_run_options){0}, &run, &err), &err);
  size_t bytes = hr_desc_bytes(&desc);
  uint16_t *data = malloc(bytes);
  assert_non_null(data);
  for (int64_t i = 0; i < ROWS * columns; i++)
    data[i] = (uint16_t)(i % columns);
  must(hr__run_write(run, x, 0, data, bytes, &err), &err);
  for (int64_t i = 0; i < ROWS * columns; i++)
    data[i] = other((int)(i / columns));
  if (c->binary) must(hr__run_write(run, y, 0, data, bytes, &err), &err);
  must(hr__run_program(run, 0, &err), &err);
  must(hr__run_read(run, made, 0, data, bytes, &err), &err);
  hr__run_destroy(run);
  hr__plan_destroy(plan);
  hr__rates_fini(&rates);
  hr__graph_destroy(g);
  return data;
}

static bool is_nan(uint16_t bits) {
  return (bits & 0x7fff) > 0x7f80;
}

static float expected(const formula_case *c, float a, float b) {
  switch (c->formula) {
  case HR_FORMULA_add:
    return hr__value_add(a, b, 0, 0);
  case HR_FORMULA_sub:
    return hr__value_sub(a, b, 0, 0);
  case HR_FORMULA_mul:
    return hr__value_mul(a, b, 0, 0);
  case HR_FORMULA_square:
    return hr__value_square(a, 0, 0, 0);
  case HR_FORMULA_relu:
    return hr__value_relu(a, 0, 0, 0);
  case HR_FORMULA_clamp:
    return hr__value_clamp(a, 0, c->p, c->q);
  default:
    return __builtin_fmaf(c->p, a, c->q);
  }
}

void bits_check(hr_device *device, int64_t odd) {
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    const formula_case *c = &cases[k];
    uint16_t *whole = formula_run(device, c, ALL), *other_size = formula_run(device, c, odd);
    for (int row = 0; row < ROWS; row++)
      for (int64_t i = 0; i < ALL; i++) {
        uint16_t got = whole[row * ALL + i], also = i < odd ? other_size[row * odd + i] : got;
        float value = expected(c, hr__bf16_to_f32((uint16_t)i), hr__bf16_to_f32(other(row)));
        uint16_t want = hr__f32_to_bf16(value);
        if (got == also && (got == want || (is_nan(got) && is_nan(want)))) continue;
        fail_msg("case %zu of %04x and %04x: %04x, in rows of %lld %04x, in f32 %04x", k, (unsigned)i,
                 (unsigned)other(row), (unsigned)got, (long long)odd, (unsigned)also, (unsigned)want);
      }
    free(whole);
    free(other_size);
  }
}
