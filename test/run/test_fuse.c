/* Random graphs of pointwise ops with others between them, planned and run as they are and fused: the same bits of the
 * loss and of every gradient, in every type, with and without gradients that hold a sum already. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "grad/grad.h"
#include "op/concat.h"
#include "op/copy.h"
#include "op/gather.h"
#include "op/pointwise.h"
#include "op/slice.h"
#include "op/topk.h"
#include "pass/pass.h"
#include "run/run.h"

enum {
  GRAPHS = 40,
  BROKEN = 20, /* graphs, and those with ops between that no chain goes through */
  ROWS = 21,
  COLUMNS = 67,
  VALUES = 24,
  BYTES = 1 << 18
};

static void must(hr_status status, const hr_error *err) {
  if (status != HR_OK) fail_msg("%s: %s: %s", hr_status_name(status), err->place, err->message);
}

/* The same draws for every way to make a graph. */
typedef struct dice {
  uint64_t graph, at;
} dice;

static int roll(dice *d, int below) {
  return (int)hr__random_below((hr_random_key){.seed = 5, .stream = d->graph}, 0, d->at++, (uint64_t)below);
}

typedef struct making {
  hr_builder b;
  dice dice;
  hr_id value[VALUES]; /* all [ROWS, COLUMNS] */
  int n;
} making;

static hr_id any_value(making *m) {
  int back = roll(&m->dice, 3); /* mostly late ones, so that there are chains */
  return m->value[back ? m->n - 1 : roll(&m->dice, m->n)];
}

static hr_id any_operand(making *m) {
  static const char *const names[] = {"row", "column", "cell", "whole"};
  static const int64_t sizes[][2] = {{1, COLUMNS}, {ROWS, 1}, {1, 1}, {ROWS, COLUMNS}};
  int which = roll(&m->dice, 6);
  if (which >= 4) return any_value(m);
  return hr__parameter(&m->b, names[which], hr__desc2(m->b.dtype, sizes[which][0], sizes[which][1]),
                       (hr_init){.rule = HR_INIT_NORMAL, .a = 0.5f});
}

static hr_id step_make(making *m) {
  static const hr_formula unary[] = {HR_FORMULA_sigmoid, HR_FORMULA_tanh, HR_FORMULA_relu,   HR_FORMULA_silu,
                                     HR_FORMULA_gelu,    HR_FORMULA_abs,  HR_FORMULA_affine, HR_FORMULA_softplus};
  static const hr_formula binary[] = {HR_FORMULA_add, HR_FORMULA_sub, HR_FORMULA_mul, HR_FORMULA_max};
  hr_builder *b = &m->b;
  int kind = roll(&m->dice, m->dice.graph < GRAPHS ? 8 : 11);
  hr_id x = any_value(m);
  if (kind < 3) return hr__unary(b, unary[roll(&m->dice, 8)], x, 0.7f, 0.1f);
  if (kind < 6) return hr__binary(b, binary[roll(&m->dice, 4)], x, any_operand(m));
  if (kind == 6) { /* there and back, something between */
    hr_id turned = hr__unary(b, HR_FORMULA_tanh, hr__permute(b, x, (const int[]){1, 0}), 0.0f, 0.0f);
    return hr__permute(b, turned, (const int[]){1, 0});
  }
  if (kind == 8) return hr__select(b, hr__binary(b, HR_FORMULA_less, any_operand(m), x), x, any_operand(m));
  if (kind == 9) { /* sorted, and back to where it came from */
    hr_id sorted = hr__topk(b, x, COLUMNS), places = hr__node_out(b, sorted, 1);
    return hr__scatter(b, places, hr__unary(b, HR_FORMULA_tanh, sorted, 0.0f, 0.0f), COLUMNS);
  }
  if (kind == 10) { /* sums of rows without their last axis, which is back afterwards */
    hr_id sums = hr__squeeze(b, hr__unary(b, HR_FORMULA_tanh, hr__reduce(b, HR_REDUCE_MEAN, x, 2), 0.0f, 0.0f), 2);
    sums = hr__unary(b, HR_FORMULA_affine, sums, 0.8f, 0.3f);
    return hr__binary(b, HR_FORMULA_mul, x, hr__reshape(b, sums, 2, (const int64_t[]){ROWS, 1}));
  }
  hr_id part = hr__window(b, x, 1, 3, COLUMNS - 10); /* cut, padded on both sides */
  return hr__window(b, hr__unary(b, HR_FORMULA_affine, part, 0.9f, 0.2f), 1, -5, COLUMNS);
}

/* A mean, or rows summed and then all of it. */
static hr_id loss_make(making *m) {
  hr_builder *b = &m->b;
  hr_id last = hr__unary(b, HR_FORMULA_square, m->value[m->n - 1], 0.0f, 0.0f);
  if (roll(&m->dice, 2)) last = hr__reduce(b, HR_REDUCE_MEAN, last, 2);
  hr_id loss = hr__squeeze(b, hr__reduce(b, HR_REDUCE_MEAN, last, 3), 1);
  return hr__copy(b, loss, HR_F32);
}

static void program_make(making *m, hr_program_kind kind, uint64_t graph) {
  m->dice = (dice){graph, 0};
  m->n = 0;
  hr__program_begin(&m->b, kind);
  m->value[m->n++] = hr__input(&m->b, "x", hr__desc2(m->b.dtype, ROWS, COLUMNS));
  hr_id w =
      hr__parameter(&m->b, "whole", hr__desc2(m->b.dtype, ROWS, COLUMNS), (hr_init){.rule = HR_INIT_NORMAL, .a = 0.5f});
  m->value[m->n++] = hr__binary(&m->b, HR_FORMULA_mul, m->value[0], w);
  for (int steps = 4 + roll(&m->dice, 14); steps > 0; steps--) {
    m->value[m->n] = step_make(m);
    m->n++;
  }
  hr__program_set_output(&m->b, "loss", loss_make(m));
}

typedef struct outcome {
  unsigned char bytes[BYTES];
  size_t used, nodes;
} outcome;

static void value_keep(outcome *o, hr_run *run, const hr_graph *g, hr_id value) {
  hr_error err = {0};
  size_t bytes = hr_desc_bytes(&g->values[value].desc);
  assert_true(o->used + bytes <= BYTES);
  must(hr__run_read(run, value, 0, o->bytes + o->used, bytes, &err), &err);
  o->used += bytes;
}

static void graph_run(const hr_graph *g, outcome *o) {
  hr_error err = {0};
  hr_device *device;
  hr_rates rates;
  hr_plan *plan;
  hr_run *run;
  must(hr__cpu_open(&device, &err), &err);
  hr__rates_default(&device->facts, &rates);
  must(hr__plan_build(g, &device->facts, &rates, &(hr_plan_options){.accumulation = 2}, &plan, &err), &err);
  must(hr__run_create(plan, device, &(hr_run_options){.check_numerics = true}, &run, &err), &err);
  must(hr__run_init_values(run, 11, &err), &err);
  for (hr_id p = 0; p < g->n_programs; p++) {
    hr_id x = hr__program_input(g, p, "x");
    uint16_t half[ROWS * COLUMNS];
    float whole[ROWS * COLUMNS];
    hr_dtype dtype = g->values[x].desc.dtype;
    for (int i = 0; i < ROWS * COLUMNS; i++) {
      whole[i] = 0.01f * (float)((i * 37 + (int)p * 11) % 401 - 200);
      half[i] = dtype == HR_BF16 ? hr__f32_to_bf16(whole[i]) : hr__f32_to_f16(whole[i]);
    }
    hr_control control = {.seed = 1, .step = 1, .loss_weight = 1.0f, .loss_scale = 1.0f};
    must(hr__run_write(run, hr__graph_find_value(g, "control"), 0, &control, sizeof control, &err), &err);
    must(hr__run_write(run, x, 0, dtype == HR_F32 ? (void *)whole : (void *)half, hr_desc_bytes(&g->values[x].desc),
                       &err),
         &err);
    must(hr__run_program(run, p, &err), &err);
    value_keep(o, run, g, hr__program_output(g, p, "loss"));
  }
  for (hr_id v = 0; v < g->n_values; v++)
    if (g->values[v].trained && g->values[v].gradient != HR_NONE) value_keep(o, run, g, g->values[v].gradient);
  hr__run_destroy(run);
  hr__plan_destroy(plan);
  hr__rates_fini(&rates);
  hr__device_close(device);
}

static void outcome_make(outcome *o, uint64_t graph, hr_dtype dtype, bool fused) {
  hr_error err = {0};
  hr_graph *g;
  making m;
  static const hr_program_kind kinds[] = {HR_PROGRAM_MICRO_FIRST, HR_PROGRAM_MICRO_NEXT};
  static const hr_grad_mode modes[] = {HR_GRAD_WRITE, HR_GRAD_ACCUMULATE};
  *o = (outcome){.used = 0};
  must(hr__graph_create(&g, &err), &err);
  hr__builder_init(&m.b, g, dtype);
  for (int p = 0; p < 2; p++)
    program_make(&m, kinds[p], graph);
  must(hr__builder_status(&m.b, &err), &err);
  if (fused) must(hr__pass_fuse(&m.b, NULL, NULL, &err), &err);
  for (hr_id p = 0; p < 2; p++) {
    o->nodes += g->programs[p].count;
    m.b.program = p;
    hr_loss loss = {hr__program_output(g, p, "loss"), 1.0f};
    must(hr__grad(&m.b, &loss, 1, modes[p], &err), &err);
    must(hr__graph_regroup(g, &err), &err);
  }
  must(hr__graph_verify(g, &err), &err);
  graph_run(g, o);
  hr__graph_destroy(g);
}

static void same_bits(hr_dtype dtype) {
  static outcome apart, fused;
  size_t nodes = 0, left = 0;
  for (uint64_t graph = 0; graph < GRAPHS + BROKEN; graph++) {
    outcome_make(&apart, graph, dtype, false);
    outcome_make(&fused, graph, dtype, true);
    assert_int_equal(apart.used, fused.used);
    if (memcmp(apart.bytes, fused.bytes, apart.used) != 0) fail_msg("graph %d has other bits fused", (int)graph);
    nodes += graph < GRAPHS ? apart.nodes : 0;
    left += graph < GRAPHS ? fused.nodes : 0;
  }
  assert_true(left * 2 < nodes);
  print_message("%zu nodes became %zu\n", nodes, left);
}

static void test_f32(void **state) {
  (void)state;
  same_bits(HR_F32);
}

static void test_bf16(void **state) {
  (void)state;
  same_bits(HR_BF16);
}

static void test_f16(void **state) {
  (void)state;
  same_bits(HR_F16);
}

/* The only program of a graph, run as it is. */
static void step_run(const hr_graph *g, hr_id x, const void *in, hr_id y, void *out) {
  hr_error err = {0};
  hr_device *device;
  hr_rates rates;
  hr_plan *plan;
  hr_run *run;
  must(hr__cpu_open(&device, &err), &err);
  hr__rates_default(&device->facts, &rates);
  must(hr__plan_build(g, &device->facts, &rates, &(hr_plan_options){.accumulation = 1}, &plan, &err), &err);
  must(hr__run_create(plan, device, &(hr_run_options){0}, &run, &err), &err);
  must(hr__run_init_values(run, 7, &err), &err);
  must(hr__run_write(run, x, 0, in, hr_desc_bytes(&g->values[x].desc), &err), &err);
  must(hr__run_program(run, 0, &err), &err);
  must(hr__run_read(run, y, 0, out, hr_desc_bytes(&g->values[y].desc), &err), &err);
  hr__run_destroy(run);
  hr__plan_destroy(plan);
  hr__rates_fini(&rates);
  hr__device_close(device);
}

enum { COUNT = 64 };

/* A program y(x) of one dimension. */
static void once_run(hr_id (*make)(hr_builder *b, hr_id x), const float *in, float *out) {
  hr_error err = {0};
  hr_graph *g;
  hr_builder b;
  must(hr__graph_create(&g, &err), &err);
  hr__builder_init(&b, g, HR_F32);
  hr__program_begin(&b, HR_PROGRAM_STEP);
  hr_id x = hr__input(&b, "x", hr__desc1(HR_F32, COUNT)), y = make(&b, x);
  hr__program_set_output(&b, "y", y);
  must(hr__builder_status(&b, &err), &err);
  step_run(g, x, in, y, out);
  hr__graph_destroy(g);
}

/* Rows that end inside of a task of the pool and are longer than a tile of it (op/stream.h). */
enum { LONG_ROWS = 25, LONG = 3 * 1024, LONG_BYTES = LONG_ROWS * LONG * 4 };

static void long_run(hr_dtype dtype, bool fused, const void *in, void *out) {
  hr_error err = {0};
  hr_graph *g;
  hr_builder b;
  hr_init init = {.rule = HR_INIT_NORMAL, .a = 0.5f};
  must(hr__graph_create(&g, &err), &err);
  hr__builder_init(&b, g, dtype);
  hr__program_begin(&b, HR_PROGRAM_STEP);
  hr_id x = hr__input(&b, "x", hr__desc2(dtype, LONG_ROWS, LONG));
  hr_id y = hr__binary(&b, HR_FORMULA_mul, x, hr__parameter(&b, "w", hr__desc1(dtype, LONG), init));
  y = hr__binary(&b, HR_FORMULA_add, y, hr__parameter(&b, "b", hr__desc1(dtype, LONG), init));
  y = hr__unary(&b, HR_FORMULA_clamp, y, -1.0f, 1.0f);
  y = hr__binary(&b, HR_FORMULA_sub, x, y);
  hr__program_set_output(&b, "y", y);
  must(hr__builder_status(&b, &err), &err);
  if (fused) must(hr__pass_fuse(&b, NULL, NULL, &err), &err);
  assert_int_equal(g->programs[0].count, fused ? 1 : 4);
  step_run(g, x, in, y, out);
  hr__graph_destroy(g);
}

static void test_long_rows(void **state) {
  static unsigned char in[LONG_BYTES], apart[LONG_BYTES], fused[LONG_BYTES];
  (void)state;
  static const hr_dtype dtypes[] = {HR_F32, HR_BF16, HR_F16};
  for (int d = 0; d < 3; d++) {
    for (int i = 0; i < LONG_ROWS * LONG; i++) {
      float value = 0.01f * (float)(i * 37 % 401 - 200);
      uint16_t half = dtypes[d] == HR_BF16 ? hr__f32_to_bf16(value) : hr__f32_to_f16(value);
      size_t bytes = hr_dtype_bytes(dtypes[d]);
      memcpy(in + (size_t)i * bytes, dtypes[d] == HR_F32 ? (void *)&value : (void *)&half, bytes);
    }
    long_run(dtypes[d], false, in, apart);
    long_run(dtypes[d], true, in, fused);
    assert_memory_equal(apart, fused, LONG_ROWS * LONG * hr_dtype_bytes(dtypes[d]));
  }
}

static hr_id log_of_positive(hr_builder *b, hr_id x) {
  hr_id none = hr__unary(b, HR_FORMULA_affine, x, 0.0f, 0.0f), mask = hr__binary(b, HR_FORMULA_less, none, x);
  return hr__select(b, mask, hr__unary(b, HR_FORMULA_log, x, 0.0f, 0.0f), x);
}

/* select(x > 0, log x, x): what the logarithm makes of the rest leaves no trace. */
static void test_select(void **state) {
  float in[COUNT], out[COUNT];
  (void)state;
  for (int i = 0; i < COUNT; i++)
    in[i] = 0.25f * (float)(i - COUNT / 2);
  once_run(log_of_positive, in, out);
  for (int i = 0; i < COUNT; i++)
    assert_true(in[i] > 0.0f ? fabsf(out[i] - logf(in[i])) < 1e-5f : out[i] == in[i]);
}

static hr_id reversed(hr_builder *b, hr_id x) {
  hr_id part[COUNT];
  for (int i = 0; i < COUNT; i++)
    part[i] = hr__window(b, x, 0, COUNT - 1 - i, 1);
  return hr__concat(b, part, COUNT, 0);
}

/* A node has any number of operands. */
static void test_many_operands(void **state) {
  float in[COUNT], out[COUNT];
  (void)state;
  for (int i = 0; i < COUNT; i++)
    in[i] = (float)i;
  once_run(reversed, in, out);
  for (int i = 0; i < COUNT; i++)
    assert_true(out[i] == in[COUNT - 1 - i]);
}

/* An image in bytes: scaled, less a mean, bounded; joined with the bits of single nodes, and read where it lies. */
static void bytes_run(hr_dtype in_type, bool fused, const void *in, float *out) {
  hr_error err = {0};
  hr_graph *g;
  hr_builder b;
  must(hr__graph_create(&g, &err), &err);
  hr__builder_init(&b, g, HR_F32);
  hr__program_begin(&b, HR_PROGRAM_STEP);
  hr_id x = hr__input(&b, "x", hr__desc2(in_type, LONG_ROWS, LONG));
  hr_id mean = hr__parameter(&b, "mean", hr__desc1(HR_F32, LONG), (hr_init){.rule = HR_INIT_CONSTANT, .a = 0.25f});
  hr_id y = hr__unary(&b, HR_FORMULA_affine, x, 1.0f / 255.0f, 0.0f);
  y = hr__unary(&b, HR_FORMULA_relu, hr__binary(&b, HR_FORMULA_sub, y, mean), 0.0f, 0.0f);
  hr__program_set_output(&b, "y", y);
  must(hr__builder_status(&b, &err), &err);
  assert_int_equal(g->values[y].desc.dtype, HR_F32);
  if (fused) must(hr__pass_fuse(&b, NULL, NULL, &err), &err);
  assert_int_equal(g->programs[0].count, fused ? 1 : 3);
  step_run(g, x, in, y, out);
  hr__graph_destroy(g);
}

static void test_bytes(void **state) {
  enum { COUNT_LONG = LONG_ROWS * LONG };
  static float apart[COUNT_LONG], fused[COUNT_LONG];
  static uint8_t bytes[COUNT_LONG];
  static int32_t whole[COUNT_LONG];
  (void)state;
  for (int i = 0; i < COUNT_LONG; i++)
    whole[i] = bytes[i] = (uint8_t)(i * 37 % 256);
  for (int type = 0; type < 2; type++) {
    bytes_run(type ? HR_I32 : HR_U8, false, type ? (void *)whole : (void *)bytes, apart);
    bytes_run(type ? HR_I32 : HR_U8, true, type ? (void *)whole : (void *)bytes, fused);
    assert_memory_equal(apart, fused, sizeof apart);
    for (int i = 0; i < COUNT_LONG; i++) {
      float expected = (float)bytes[i] / 255.0f - 0.25f;
      assert_true(fabsf(fused[i] - (expected > 0.0f ? expected : 0.0f)) < 1e-6f);
    }
  }
}

/* What backward takes as given stays a value of its own. */
static void test_detached(void **state) {
  (void)state;
  for (int detached = 0; detached < 2; detached++) {
    hr_error err = {0};
    hr_graph *g;
    hr_builder b;
    must(hr__graph_create(&g, &err), &err);
    hr__builder_init(&b, g, HR_F32);
    hr__program_begin(&b, HR_PROGRAM_STEP);
    hr_id x = hr__unary(&b, HR_FORMULA_square, hr__input(&b, "x", hr__desc1(HR_F32, COUNT)), 0.0f, 0.0f);
    if (detached) x = hr__detached(&b, x);
    hr__program_set_output(&b, "y", hr__unary(&b, HR_FORMULA_exp, x, 0.0f, 0.0f));
    must(hr__pass_fuse(&b, NULL, NULL, &err), &err);
    assert_int_equal(g->programs[0].count, 1 + detached);
    hr__graph_destroy(g);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_f32),           cmocka_unit_test(test_bf16),
                                     cmocka_unit_test(test_f16),           cmocka_unit_test(test_select),
                                     cmocka_unit_test(test_many_operands), cmocka_unit_test(test_long_rows),
                                     cmocka_unit_test(test_bytes),         cmocka_unit_test(test_detached)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
