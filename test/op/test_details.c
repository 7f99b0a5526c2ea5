/* What single ops promise beyond the properties of test_ops.c: edge values, rounding, predicates. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "base/simd_math.h"
#include "op/adamw.h"
#include "op/adamw8bit.h"
#include "op/rmsnorm.h"
#include "op/sgd.h"
#include "part_case.h"

static op_case *case_of(const char *op, int sample, uint32_t bf16) {
  static op_case c;
  assert_true(case_create(&c, hr__op_find(op), sample, bf16));
  return &c;
}

static void test_exp_is_close(void **state) {
  (void)state;
  for (double x = -87.3; x < 88.7; x += 0.00037) {
    double want = exp((double)(float)x);
    assert_true(fabs((double)hr__expf((float)x) - want) <= 2.0 * 0x1p-23 * want);
  }
  assert_true(hr__expf(0.0f) == 1.0f);
  assert_true(hr__expf(-90.0f) == 0.0f && hr__expf(-1e30f) == 0.0f && hr__expf(-INFINITY) == 0.0f);
  assert_true(hr__expf(89.0f) == INFINITY && hr__expf(1e30f) == INFINITY && hr__expf(INFINITY) == INFINITY);
  assert_true(isnan(hr__expf(NAN)));
}

/* The functions of formulas, within a few units in the last place of what C's library gives in f64, also near 0. */
static void test_functions_of_formulas(void **state) {
  static const struct {
    const char *name;
    float (*fast)(float);
    double (*exact)(double);
    double from, to, units;
  } functions[] = {{"expm1", hr__expm1f, expm1, -20.0, 80.0, 4}, {"log", hr__logf, log, 1e-30, 1e30, 3},
                   {"log1p", hr__log1pf, log1p, -0.99, 1e20, 4}, {"tanh", hr__tanhf, tanh, -12.0, 12.0, 6},
                   {"sinh", hr__sinhf, sinh, -80.0, 80.0, 8},    {"cosh", hr__coshf, cosh, -80.0, 80.0, 6},
                   {"asinh", hr__asinhf, asinh, -1e15, 1e15, 8}, {"acosh", hr__acoshf, acosh, 1.001, 1e15, 8}};
  (void)state;
  for (size_t f = 0; f < sizeof functions / sizeof *functions; f++)
    for (int i = 0; i <= 40000; i++) {
      /* evenly in the cube root, so that there are many near 0 and some far away */
      double low = cbrt(functions[f].from), high = cbrt(functions[f].to), root = low + (high - low) * i / 40000.0;
      float x = (float)(root * root * root);
      if ((double)x < functions[f].from) continue;
      double want = functions[f].exact((double)x), got = (double)functions[f].fast(x);
      if (fabs(want) < 1e-35) continue;
      if (!(fabs(got - want) <= functions[f].units * 0x1p-24 * fabs(want) * 2.0))
        fail_msg("%s(%.9g) is %.9g instead of %.9g", functions[f].name, (double)x, got, want);
    }
}

/* silu tends to 0 on the left and to its argument on the right, without inf * 0 on the way. */
static void test_swiglu_at_large_gates(void **state) {
  op_case *c = case_of("swiglu", 1, 0);
  (void)state;
  c->value[0][0] = 1e4, c->value[1][0] = 2.0;
  c->value[0][1] = -1e4, c->value[1][1] = 2.0;
  c->value[0][2] = -88.5, c->value[1][2] = 1.0;
  double *y = case_run(c, (run_options){.threads = 1}).value[0];
  assert_true(y[0] == 2e4 && y[1] == 0.0 && fabs(y[2]) < 1e-35);
  case_destroy(c);
}

/* gelu tends to 0 on the left and to its argument on the right; its slope to 0 and 1. */
static void test_gelu_far_out(void **state) {
  static const double x[] = {1e4, -1e4, 12.0, -12.0, -38.0, 0x1p60, -0x1p60};
  enum { POINTS = sizeof x / sizeof *x };
  (void)state;
  for (int form = 0; form < 2; form++) {
    op_case *c = case_of("gelu", 2 + form, 0);
    memcpy(c->value[0], x, sizeof x);
    double *y = case_run(c, (run_options){.threads = 1}).value[0];
    for (int i = 0; i < POINTS; i++)
      if (fabs(y[i] - fmax(x[i], 0.0)) > (fabs(x[i]) > 13.0 ? 1e-30 : 1e-5)) fail_msg("gelu(%g) is %g", x[i], y[i]);
    case_destroy(c);
    c = case_of("gelu_bwd", 2 + form, 0);
    memcpy(c->value[1], x, sizeof x);
    for (int i = 0; i < POINTS; i++)
      c->value[0][i] = 1.0;
    y = case_run(c, (run_options){.threads = 1}).value[0];
    for (int i = 0; i < POINTS; i++)
      if (fabs(y[i] - (x[i] > 0)) > 1e-6) fail_msg("the slope at %g is %g", x[i], y[i]);
    case_destroy(c);
  }
}

/* The exact form keeps its relative precision in the tail, where 1 + erf would lose it. */
static void test_gelu_in_the_tail(void **state) {
  op_case *c = case_of("gelu", 2, 0);
  (void)state;
  enum { POINTS = 1200 };
  for (int i = 0; i < POINTS; i++)
    c->value[0][i] = (double)(float)(-0.01 * i);
  double *y = case_run(c, (run_options){.threads = 1}).value[0];
  for (int i = 1; i < POINTS; i++) {
    double x = c->value[0][i], want = x * erfc(-x / sqrt(2.0)) / 2.0;
    if (fabs(y[i] - want) > 1e-5 * fabs(want)) fail_msg("gelu(%g) is %g, expected %g", x, y[i], want);
  }
  case_destroy(c);
}

/* A row far from 0 has the variance of its differences, not what squares leave of it. */
static void test_layernorm_far_from_zero(void **state) {
  op_case *c = case_of("layernorm", 0, 0);
  int64_t columns = hr_desc_columns(&c->in[0]);
  (void)state;
  for (int64_t i = 0; i < columns; i++)
    c->value[0][i] = 4096.0 + (i % 2 ? 0.5 : -0.5);
  double *y = case_run(c, (run_options){.threads = 1}).value[0];
  for (int64_t i = 0; i < columns; i++) {
    double want = (i % 2 ? 1.0 : -1.0) / sqrt(1.0 + 4e-5) * c->value[1][i] + c->value[2][i];
    assert_true(fabs(y[i] - want) < 1e-5 * (1.0 + fabs(want)));
  }
  case_destroy(c);
}

static void test_tokens_outside_of_the_table(void **state) {
  op_case *c = case_of("embedding", 1, 0);
  int64_t columns = c->in[1].dim[1];
  (void)state;
  c->value[0][3] = -1.0;
  c->value[0][4] = (double)c->in[1].dim[0];
  double *y = case_run(c, (run_options){.threads = 1}).value[0];
  for (int64_t i = 3 * columns; i < 5 * columns; i++)
    assert_true(y[i] == 0.0);
  case_destroy(c);

  c = case_of("embedding_dw", 1, 0);
  double *before = case_run(c, (run_options){.threads = 1}).value[0];
  columns = c->out[0].dim[1];
  int64_t token = (int64_t)c->value[0][3];
  c->value[0][3] = -5.0;
  double *after = case_run(c, (run_options){.threads = 1}).value[0];
  for (int64_t i = 0; i < hr_desc_count(&c->out[0]); i++) {
    double lost = i / columns == token ? c->value[1][3 * columns + i % columns] : 0.0;
    assert_true(fabs(before[i] - after[i] - lost) < 1e-5);
  }
  case_destroy(c);
}

/* Rows that an index names beside its table are 0, and what is put there is lost, of its own sample only. */
static void test_rows_outside_of_a_sample(void **state) {
  op_case *c = case_of("gather", 0, 0);
  int64_t columns = c->in[1].dim[2], n = c->in[0].dim[1];
  (void)state;
  c->value[0][n + 3] = -1.0;
  c->value[0][n + 4] = (double)c->in[1].dim[1];
  double *y = case_run(c, (run_options){.threads = 1}).value[0];
  for (int64_t i = (n + 3) * columns; i < (n + 5) * columns; i++)
    assert_true(y[i] == 0.0);
  case_destroy(c);

  c = case_of("scatter", 0, 0);
  int64_t rows = c->out[0].dim[1];
  double *before = case_run(c, (run_options){.threads = 1}).value[0];
  int64_t row = rows + (int64_t)c->value[0][n + 3];
  c->value[0][n + 3] = (double)rows;
  double *after = case_run(c, (run_options){.threads = 1}).value[0];
  for (int64_t i = 0; i < hr_desc_count(&c->out[0]); i++) {
    double lost = i / columns == row ? c->value[1][(n + 3) * columns + i % columns] : 0.0;
    assert_true(fabs(before[i] - after[i] - lost) < 1e-5);
  }
  case_destroy(c);
}

/* NaN first, then infinity; of equal elements the first. */
static void test_topk_of_what_is_no_number(void **state) {
  op_case *c = case_of("topk", 0, 0);
  (void)state;
  for (int i = 0; i < 64; i++)
    c->value[0][i] = i % 4 == 1 ? 2.0 : -1.0;
  c->value[0][9] = INFINITY;
  c->value[0][40] = NAN;
  c->value[0][50] = NAN;
  double *index = case_run(c, (run_options){.threads = 1}).value[1];
  static const double want[] = {40, 50, 9, 1, 5, 13, 17, 21};
  for (int k = 0; k < 8; k++)
    assert_true(index[k] == want[k]);
  case_destroy(c);
}

/* Both norms share their arguments; one of them has no bias. */
static void test_rmsnorm_has_no_bias(void **state) {
  (void)state;
  const hr_sample *sample = &hr_op_rmsnorm_bwd.samples[0];
  hr_norm_bwd_args args = {.want_dx = true, .want_dw = true};
  hr_op_view view = {.in = sample->in, .n_in = sample->n_in, .n_out = hr_op_rmsnorm_bwd.n_out, .args = &args};
  hr_desc out[HR_OP_OPERANDS];
  hr_error err = {0};
  assert_int_equal(hr_op_rmsnorm_bwd.shape(&view, out, &err), HR_OK);
  args.want_db = true;
  assert_int_equal(hr_op_rmsnorm_bwd.shape(&view, out, &err), HR_BAD_INPUT);
}

/* Normalised, rounded to bf16, multiplied by the weight, rounded: bit for bit where f32 leaves no doubt. */
static void test_rmsnorm_rounds_before_the_weight(void **state) {
  op_case *c = case_of("rmsnorm", 0, 3);
  int64_t columns = hr_desc_columns(&c->in[0]), odd = 0;
  (void)state;
  run_result got = case_run(c, (run_options){.threads = 1});
  for (int64_t i = 0; i < hr_desc_count(&c->in[0]); i++) {
    float rstd = (float)got.value[1][i / columns];
    float normal = hr__bf16_to_f32(hr__f32_to_bf16((float)c->value[0][i] * rstd));
    float want = hr__bf16_to_f32(hr__f32_to_bf16(normal * (float)c->value[1][i % columns]));
    float once = hr__bf16_to_f32(hr__f32_to_bf16((float)c->value[0][i] * rstd * (float)c->value[1][i % columns]));
    assert_true((double)want == got.value[0][i]);
    odd += want != once;
  }
  assert_true(odd > 0); /* the order can be told apart here */
  case_destroy(c);
}

/* ---- adamw ---- */

enum { PARAM, GRAD, M, V, CONTROL };

static void control_write_at(op_case *c, int operand) {
  for (size_t i = 0; i < sizeof c->control; i++)
    c->value[operand][i] = (double)((const unsigned char *)&c->control)[i];
}

static void control_write(op_case *c) {
  control_write_at(c, CONTROL);
}

/* 16 bits for an element as adamw.h defines them; case_run takes the stream key 12345. */
static uint32_t random_bits(const op_case *c, uint64_t slot, int64_t element) {
  hr_random_key key = {.seed = c->control.seed, .stream = 12345};
  hr_random_block block = hr__random_at(key, c->control.step, (uint64_t)element / 8 + (slot << 62));
  return block.word[element % 8 / 2] >> (16 * (element % 2)) & 0xffffu;
}

/* The bf16 results are the f32 results of the same operands, rounded with those bits. */
static void test_adamw_rounds_by_its_key(void **state) {
  op_case *narrow = case_of("adamw", 1, 1u << PARAM | 1u << GRAD | 1u << M | 1u << V), wide;
  int64_t up = 0;
  (void)state;
  assert_true(case_create(&wide, hr__op_find("adamw"), 1, 0));
  for (int i = 0; i <= CONTROL; i++)
    memcpy(wide.value[i], narrow->value[i], (size_t)hr_desc_count(&wide.in[i]) * sizeof(double));
  run_result got = case_run(narrow, (run_options){.threads = 2}), want = case_run(&wide, (run_options){.threads = 1});
  for (int slot = 0; slot < 3; slot++) {
    for (int64_t i = 0; i < hr_desc_count(&narrow->out[slot]); i++) {
      uint32_t word, rounded = ((const uint16_t *)got.data[slot])[i];
      memcpy(&word, (const float *)want.data[slot] + i, sizeof word);
      assert_int_equal(rounded, (word + random_bits(narrow, (uint64_t)slot, i)) >> 16);
      up += rounded != word >> 16;
    }
  }
  assert_true(up > 0);
  case_destroy(&wide);
  case_destroy(narrow);
}

/* A decay far below half a unit of bf16 still moves the mean by what it should. */
static void test_adamw_rounding_is_unbiased(void **state) {
  op_case *c = case_of("adamw", 1, 1u << PARAM | 1u << GRAD);
  int64_t count = hr_desc_count(&c->in[PARAM]);
  double sum = 0.0;
  (void)state;
  for (int64_t i = 0; i < count; i++)
    c->value[PARAM][i] = 1.5, c->value[GRAD][i] = c->value[M][i] = 0.0;
  c->control.learning_rate = 0.1f; /* lr_scale is 0.5, weight_decay 0.01 */
  control_write(c);
  double *param = case_run(c, (run_options){.threads = 1}).value[0];
  for (int64_t i = 0; i < count; i++)
    sum += param[i];
  /* one unit is 2^-7, taken with probability 0.096 in 38147 draws: a standard deviation of 1.2e-5 */
  assert_true(fabs(sum / (double)count - 1.5 * (1.0 - 0.0005)) < 5e-5);
  case_destroy(c);
}

static void test_adamw_skips(void **state) {
  static const int from[] = {PARAM, M, V};
  (void)state;
  for (uint32_t in_place = 0; in_place < 8; in_place += 7) {
    op_case *c = case_of("adamw", 1, 1u << PARAM | 1u << GRAD);
    c->control.skip = 1;
    control_write(c);
    c->value[GRAD][0] = NAN;
    run_result got = case_run(c, (run_options){.threads = 1, .in_place = in_place});
    for (int j = 0; j < 3; j++)
      assert_memory_equal(got.value[j], c->value[from[j]], (size_t)hr_desc_count(&c->out[j]) * sizeof(double));
    case_destroy(c);
  }
}

static void test_adamw_keeps_nan_visible(void **state) {
  op_case *c = case_of("adamw", 1, 1u << PARAM | 1u << GRAD);
  (void)state;
  c->value[GRAD][5] = NAN;
  c->value[PARAM][6] = INFINITY;
  double *param = case_run(c, (run_options){.threads = 1}).value[0];
  assert_true(isnan(param[5]) && isinf(param[6]) && isfinite(param[7]));
  case_destroy(c);
}

/* A norm below the limit changes nothing; above it the gradient is scaled to the limit. */
static void test_adamw_clips_only_above_the_limit(void **state) {
  op_case *c = case_of("adamw", 1, 0);
  (void)state;
  c->value[5][0] = 0.5; /* over loss_scale 4: 0.125, limit 0.25 */
  double *small = case_run(c, (run_options){.threads = 1}).value[1];
  c->value[5][0] = 0x1p-10;
  double *smaller = case_run(c, (run_options){.threads = 1}).value[1];
  c->value[5][0] = 2.0; /* 0.5 */
  double *large = case_run(c, (run_options){.threads = 1}).value[1];
  double kept = 0.9 * c->value[M][0];
  assert_true(small[0] == smaller[0]);
  assert_true(fabs((large[0] - kept) / (small[0] - kept) - 0.5) < 1e-4);
  case_destroy(c);
}

/* ---- adamw8bit ---- */

enum { M8_ABSMAX = 4, V8_ABSMAX, CONTROL8 };

/* A gradient that is not finite leaves its weight alone, empties its moments and does not reach its neighbours. */
static void test_adamw8bit_passes_over_what_is_not_finite(void **state) {
  op_case *c = case_of("adamw8bit", 0, 0);
  (void)state;
  c->value[GRAD][0] = 0.0;
  run_result plain = case_run(c, (run_options){.threads = 1});
  c->value[GRAD][0] = NAN;
  c->value[GRAD][1] = -INFINITY;
  run_result got = case_run(c, (run_options){.threads = 1});
  for (int i = 0; i < 2; i++) {
    assert_true(got.value[0][i] == c->value[PARAM][i]);
    assert_true(got.value[1][i] == 127.0 && got.value[2][i] == 0.0); /* 0 in both codes */
  }
  for (int64_t i = 2; i < hr_desc_count(&c->out[0]); i++)
    assert_true(got.value[0][i] == plain.value[0][i]);
  case_destroy(c);
}

static void test_adamw8bit_skips(void **state) {
  static const int from[] = {PARAM, M, V, M8_ABSMAX, V8_ABSMAX};
  (void)state;
  for (uint32_t in_place = 0; in_place < 32; in_place += 31) {
    op_case *c = case_of("adamw8bit", 1, 1u << PARAM | 1u << GRAD);
    c->control.skip = 1;
    control_write_at(c, CONTROL8);
    c->value[GRAD][0] = NAN;
    run_result got = case_run(c, (run_options){.threads = 1, .in_place = in_place});
    for (int j = 0; j < 5; j++)
      assert_memory_equal(got.value[j], c->value[from[j]], (size_t)hr_desc_count(&c->out[j]) * sizeof(double));
    case_destroy(c);
  }
}

/* Zero bytes with absmax 0 are moments of zero; a gradient of zero leaves them so, without NaN from 0 / 0. */
static void test_adamw8bit_begins_at_zero(void **state) {
  op_case *c = case_of("adamw8bit", 0, 0);
  int64_t count = hr_desc_count(&c->in[PARAM]), blocks = hr_desc_count(&c->in[M8_ABSMAX]);
  (void)state;
  for (int64_t i = 0; i < count; i++)
    c->value[M][i] = c->value[V][i] = c->value[GRAD][i] = 0.0;
  for (int64_t i = 0; i < blocks; i++)
    c->value[M8_ABSMAX][i] = c->value[V8_ABSMAX][i] = 0.0;
  c->value[GRAD][256] = -8.0; /* over loss_scale 4 */
  run_result got = case_run(c, (run_options){.threads = 1});
  assert_true(got.value[3][0] == 0.0 && got.value[4][0] == 0.0);
  assert_true(got.value[3][1] == (double)((float)(1.0 - 0.9) * 2.0f));
  assert_true(got.value[1][256] == 0.0 && got.value[2][256] == 255.0); /* no -1: -0.99296875; and 1 */
  for (int64_t i = 0; i < count; i++) {
    float decay = 1.0f - 0.01f * 0.1f;
    if (i == 256) continue;
    assert_true(got.value[1][i] == 127.0 && got.value[2][i] == 0.0);
    assert_true(got.value[0][i] == (double)((float)c->value[PARAM][i] * decay));
  }
  case_destroy(c);
}

/* A negative moment keeps its sign however small it is next to the largest of its block. */
static void test_adamw8bit_repairs_signs(void **state) {
  op_case *c = case_of("adamw8bit", 0, 0);
  (void)state;
  for (int64_t i = 0; i < 256; i++)
    c->value[M][i] = 127.0, c->value[GRAD][i] = i % 2 ? 0x1p-30 : -0x1p-30;
  c->value[GRAD][255] = 4.0;
  run_result got = case_run(c, (run_options){.threads = 1});
  for (int64_t i = 0; i < 255; i++)
    assert_true(got.value[1][i] == (i % 2 ? 127.0 : 126.0));
  assert_true(got.value[1][255] == 255.0);
  case_destroy(c);
}

/* ---- parts ---- */

/* Takes elements [first, first + n) of all operands that have one or one per block for each; returns what was there. */
static op_case part_take(op_case *c, hr_sample *sample, unsigned char *args, size_t first_at, int64_t first,
                         int64_t n) {
  op_case kept = *c;
  int64_t count = hr_desc_count(&c->in[PARAM]), blocks = (count + 255) / 256;
  hr_error err;
  for (int i = 0; i < c->sample->n_in; i++) {
    int64_t own = c->in[i].rank ? hr_desc_count(&c->in[i]) : 0;
    if (own != count && own != blocks) continue;
    c->value[i] += own == count ? first : first / 256;
    c->in[i] = hr__desc1(c->in[i].dtype, own == count ? n : (n + 255) / 256);
  }
  memcpy(args, c->sample->args, c->op->args_bytes);
  memcpy(args + first_at, &first, sizeof first);
  *sample = *c->sample;
  sample->args = args;
  c->sample = sample;
  hr_op_view view = case_view(c);
  assert_int_equal(c->op->shape(&view, c->out, &err), HR_OK);
  return kept;
}

static void parts_compare(const char *op, uint32_t bf16, size_t first_at) {
  enum { PART = 8192 };
  op_case *c = case_of(op, 1, bf16);
  int64_t count = hr_desc_count(&c->in[PARAM]);
  run_result whole = case_run(c, (run_options){.threads = 2});
  for (int64_t first = 0; first < count; first += PART) {
    hr_sample sample;
    unsigned char args[64];
    assert_true(c->op->args_bytes <= sizeof args);
    int64_t n = first + PART < count ? PART : count - first;
    op_case kept = part_take(c, &sample, args, first_at, first, n);
    run_result part = case_run(c, (run_options){.threads = 2});
    for (int j = 0; j < c->n_out; j++) {
      bool per_block = hr_desc_count(&kept.out[j]) != count;
      size_t begin = (size_t)(per_block ? first / 256 : first) * hr_dtype_bytes(c->out[j].dtype);
      if (memcmp(part.data[j], (char *)whole.data[j] + begin, hr_desc_bytes(&c->out[j])) != 0)
        case_fail(c, "output %d of the part from element %d on has other bits", j, (int)first);
    }
    c->sample = kept.sample;
    memcpy(c->in, kept.in, sizeof kept.in);
    memcpy(c->out, kept.out, sizeof kept.out);
    memcpy(c->value, kept.value, sizeof kept.value);
  }
  case_destroy(c);
}

static void test_parts_of_a_parameter_give_the_same_bits(void **state) {
  (void)state;
  for (uint32_t bf16 = 0; bf16 < 4; bf16++) { /* parameter, gradient */
    parts_compare("adamw", bf16, offsetof(hr_adamw_args, first));
    parts_compare("adamw8bit", bf16, offsetof(hr_adamw8bit_args, first));
    parts_compare("sgd", bf16, offsetof(hr_sgd_args, first));
    parts_compare("sgd_momentum", bf16, offsetof(hr_sgd_args, first));
  }
  parts_compare("adamw", 1u << PARAM | 1u << GRAD | 1u << M | 1u << V, offsetof(hr_adamw_args, first));
}

static void test_parts_begin_at_tiles(void **state) {
  op_case *c = case_of("adamw8bit", 1, 0);
  hr_adamw8bit_args args = {.lr_scale = 1, .first = 4096 + 256};
  hr_desc out[HR_OP_OPERANDS];
  hr_error err = {0};
  hr_op_view view = case_view(c);
  (void)state;
  view.args = &args;
  assert_int_equal(c->op->shape(&view, out, &err), HR_BAD_INPUT);
  assert_non_null(strstr(err.message, "multiple of 4096"));
  case_destroy(c);
}

/* ---- found_inf ---- */

static void test_found_inf(void **state) {
  static const double norms[] = {1.0, INFINITY, NAN, 0.0};
  (void)state;
  for (size_t i = 0; i < sizeof norms / sizeof norms[0]; i++) {
    op_case *c = case_of("found_inf", 0, 0);
    c->control.skip = i == 3; /* one that was left behind */
    control_write_at(c, 0);
    c->value[1][0] = norms[i];
    run_result got = case_run(c, (run_options){.threads = 1, .in_place = 1});
    hr_control after;
    memcpy(&after, got.data[0], sizeof after);
    assert_int_equal(after.skip, !isfinite(norms[i]));
    after.skip = c->control.skip;
    assert_memory_equal(&after, &c->control, sizeof after);
    case_destroy(c);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_exp_is_close),
      cmocka_unit_test(test_functions_of_formulas),
      cmocka_unit_test(test_swiglu_at_large_gates),
      cmocka_unit_test(test_gelu_far_out),
      cmocka_unit_test(test_gelu_in_the_tail),
      cmocka_unit_test(test_layernorm_far_from_zero),
      cmocka_unit_test(test_tokens_outside_of_the_table),
      cmocka_unit_test(test_rows_outside_of_a_sample),
      cmocka_unit_test(test_topk_of_what_is_no_number),
      cmocka_unit_test(test_rmsnorm_has_no_bias),
      cmocka_unit_test(test_rmsnorm_rounds_before_the_weight),
      cmocka_unit_test(test_adamw_rounds_by_its_key),
      cmocka_unit_test(test_adamw_rounding_is_unbiased),
      cmocka_unit_test(test_adamw_skips),
      cmocka_unit_test(test_adamw_keeps_nan_visible),
      cmocka_unit_test(test_adamw_clips_only_above_the_limit),
      cmocka_unit_test(test_adamw8bit_passes_over_what_is_not_finite),
      cmocka_unit_test(test_adamw8bit_skips),
      cmocka_unit_test(test_adamw8bit_begins_at_zero),
      cmocka_unit_test(test_adamw8bit_repairs_signs),
      cmocka_unit_test(test_parts_of_a_parameter_give_the_same_bits),
      cmocka_unit_test(test_parts_begin_at_tiles),
      cmocka_unit_test(test_found_inf),
  };
  return cmocka_run_group_tests(tests, device_setup, device_teardown);
}
