/* What the samples of attention do not show: packed operands, lengths and masks that hide nothing have the bits of the
 * plain form, positions that are not there are not read, masks without meaning are refused, and what dropout draws. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "op/attention.h"
#include "op/attention_drop.h"
#include "part_case.h"

/* Copies between [rows, columns] and the columns of a packed [rows, all] from `first` on. */
static void columns_move(void *packed, void *alone, size_t element, int64_t rows, int64_t all, int64_t first,
                         int64_t columns, bool unpack) {
  for (int64_t r = 0; r < rows; r++) {
    char *in_packed = (char *)packed + (size_t)(r * all + first) * element;
    char *in_alone = (char *)alone + (size_t)(r * columns) * element;
    memcpy(unpack ? in_alone : in_packed, unpack ? in_packed : in_alone, (size_t)columns * element);
  }
}

/* attention of q, k and v in one operand, and its gradient, have the bits of the form with three. The samples of both
 * forms have the same sizes; q is operand `q`. */
static void packed_compare(const char *op, int alone_sample, int packed_sample, int q, uint32_t bf16) {
  op_case alone, packed;
  assert_true(case_create(&alone, hr__op_find(op), alone_sample, bf16));
  assert_true(case_create(&packed, hr__op_find(op), packed_sample, bf16 & ~(3u << (q + 1))));
  int64_t rows = hr_desc_rows(&alone.in[q]), all = hr_desc_columns(&packed.in[q]), first = 0;
  for (int i = 0; i < alone.sample->n_in; i++) {
    bool one_of_three = i >= q && i < q + 3;
    if (alone.in[i].rank == 0) continue;
    int64_t columns = hr_desc_columns(&alone.in[i]);
    if (one_of_three)
      columns_move(packed.value[q], alone.value[i], sizeof(double), rows, all, first, columns, false), first += columns;
    else
      memcpy(packed.value[i], alone.value[i], (size_t)hr_desc_count(&alone.in[i]) * sizeof(double));
  }
  assert_int_equal(first, all);
  run_result three = case_run(&alone, (run_options){.threads = 2}),
             one = case_run(&packed, (run_options){.threads = 2});
  bool backward = q == 1;
  first = 0;
  for (int j = 0; j < alone.op->n_out; j++) {
    int64_t columns = hr_desc_columns(&alone.out[j]);
    size_t bytes = hr_desc_bytes(&alone.out[j]);
    void *part = malloc(bytes);
    assert_non_null(part);
    if (backward)
      columns_move(one.data[0], part, hr_dtype_bytes(alone.out[j].dtype), rows, all, first, columns, true);
    else
      memcpy(part, one.data[j], bytes);
    assert_memory_equal(part, three.data[j], bytes);
    free(part);
    first += columns;
  }
  case_destroy(&alone);
  case_destroy(&packed);
}

static void test_packed_attention_has_the_same_bits(void **state) {
  (void)state;
  packed_compare("attention", 0, 3, 0, 0);
  packed_compare("attention", 2, 4, 0, 7);
  packed_compare("attention_bwd", 0, 2, 1, 0);
  packed_compare("attention_bwd", 1, 3, 1, 31);
}

static void masked_create(op_case *c, const char *op, const hr_sample *sample, hr_dtype dtype) {
  bool backward = sample->n_in == HR_ATTENTION_BWD_IN;
  uint32_t narrow = dtype == HR_F32 ? 0 : backward ? 1u << 0 | 1u << 1 | 1u << 4 : 1u << 0;
  assert_true(case_create_as(c, hr__op_find(op), sample, 90, narrow, dtype));
}

static void results_same(const op_case *c, const run_result *a, const run_result *b) {
  for (int j = 0; j < c->n_out; j++)
    assert_memory_equal(a->data[j], b->data[j], hr_desc_bytes(&c->out[j]));
}

/* y and lse, or dq (packed), of positions from the length on: element `at` of a result [B, T, columns] or [B, heads,
 * T].
 */
static bool is_behind(const hr_desc *desc, bool positions_last, const double *lengths, int64_t at) {
  int64_t position = positions_last ? at % desc->dim[2] : at / desc->dim[2] % desc->dim[1];
  return (double)position >= lengths[at / desc->dim[2] / desc->dim[1]];
}

/* Positions that are not there are not read, and give zeros; a length outside of [0, T] is one of its ends. */
static void lengths_check(const char *op, const hr_sample *sample, hr_dtype dtype) {
  op_case c;
  masked_create(&c, op, sample, dtype);
  bool backward = sample->n_in == HR_ATTENTION_BWD_IN;
  int bounds = sample->n_in - 2;
  double lengths[] = {20, -3, 70, 1000}, clamped[] = {20, 0, 70, 70};
  memcpy(c.value[bounds], clamped, sizeof clamped);
  run_result plain = case_run(&c, (run_options){.threads = 2});
  memcpy(c.value[bounds], lengths, sizeof lengths);
  for (int i = 0; i < (backward ? 2 : 1); i++)
    for (int64_t e = 0; e < hr_desc_count(&c.in[i]); e++)
      if (is_behind(&c.in[i], false, lengths, e)) c.value[i][e] = NAN;
  run_result same = case_run(&c, (run_options){.threads = 2});
  results_same(&c, &plain, &same);
  for (int j = 0; j < (backward ? 1 : 2); j++)
    for (int64_t e = 0; e < hr_desc_count(&c.out[j]); e++) {
      bool behind = is_behind(&c.out[j], j == 1, lengths, e);
      assert_true(behind ? same.value[j][e] == 0.0 : isfinite(same.value[j][e]));
    }
  case_destroy(&c);
}

/* Lengths of T, and a window of T, hide nothing: the bits are those of attention without. */
static void nothing_hidden_check(const char *op, const hr_sample *sample, hr_dtype dtype) {
  op_case c;
  int bounds = sample->n_in - 2;
  masked_create(&c, op, sample, dtype);
  for (int b = 0; b < 4; b++)
    c.value[bounds][b] = 70;
  run_result all = case_run(&c, (run_options){.threads = 2});
  run_result none = case_run(&c, (run_options){.threads = 2, .absent = 1u << bounds});
  results_same(&c, &all, &none);
  hr_attention_args args = *(const hr_attention_args *)sample->args;
  hr_sample windowed = *sample;
  if (!args.bidirectional) args.window = 70;
  windowed.args = &args;
  c.sample = &windowed;
  run_result wide = case_run(&c, (run_options){.threads = 2});
  results_same(&c, &all, &wide);
  case_destroy(&c);
}

static void test_attention_with_lengths(void **state) {
  (void)state;
  static const hr_attention_args causal = {.heads = 4, .kv_heads = 2, .head_dim = 8, .scale = 0.3f},
                                 window = {.heads = 4, .kv_heads = 2, .head_dim = 8, .scale = 0.3f, .window = 5},
                                 both = {
                                     .heads = 4, .kv_heads = 2, .head_dim = 8, .scale = 0.3f, .bidirectional = true};
  static const hr_dtype dtypes[] = {HR_F32, HR_BF16, HR_F16};
  const hr_attention_args *masks[] = {&causal, &both, &window};
  for (int m = 0; m < 3; m++)
    for (int d = 0; d < 3; d++) {
      hr_sample forward = {.n_in = HR_ATTENTION_IN,
                           .in = {{HR_F32, 3, {4, 70, 64}}, {0}, {0}, {HR_I32, 1, {4}}},
                           .args = masks[m],
                           .index_below = 71};
      hr_sample backward = {.n_in = HR_ATTENTION_BWD_IN,
                            .in = {{HR_F32, 3, {4, 70, 32}},
                                   {HR_F32, 3, {4, 70, 64}},
                                   {0},
                                   {0},
                                   {HR_F32, 3, {4, 70, 32}},
                                   {HR_F32, 3, {4, 4, 70}},
                                   {HR_I32, 1, {4}}},
                            .args = masks[m],
                            .index_below = 71};
      lengths_check("attention", &forward, dtypes[d]);
      lengths_check("attention_bwd", &backward, dtypes[d]);
      if (masks[m] == &window) continue;
      nothing_hidden_check("attention", &forward, dtypes[d]);
      nothing_hidden_check("attention_bwd", &backward, dtypes[d]);
    }
}

static void test_attention_refuses_masks_without_meaning(void **state) {
  (void)state;
  hr_attention_args args[] = {
      {.heads = 4, .kv_heads = 2, .head_dim = 8, .scale = 1, .window = -1},
      {.heads = 4, .kv_heads = 2, .head_dim = 8, .scale = 1, .window = 3, .bidirectional = true},
      {.heads = 4, .kv_heads = 2, .head_dim = 8, .scale = 1}};
  static const hr_desc lengths[] = {{0}, {0}, {HR_I32, 1, {3}}};
  for (int i = 0; i < 3; i++) {
    hr_desc in[] = {{HR_F32, 3, {2, 7, 64}}, {0}, {0}, lengths[i], {0}}, out[2];
    hr_op_view view = {.in = in, .n_in = HR_ATTENTION_IN, .n_out = 2, .args = &args[i]};
    hr_error err;
    assert_int_equal(hr__op_find("attention")->shape(&view, out, &err), HR_BAD_INPUT);
    in[3] = (hr_desc){0};
    args[i].window = 0;
    assert_int_equal(hr__op_find("attention")->shape(&view, out, &err), HR_OK);
  }
}

enum { ROWS = 512, KEYS = 512 }; /* of the mask that is counted */

/* Bit `key` of a row of the mask. */
static bool kept(uint64_t head, int64_t query, int64_t key, uint32_t limit) {
  return hr__drop_keeps(hr__dropout_key(7, 12345, 3, 0), head, query, key, limit);
}

/* Of `count` elements `hits` were to be a part of `rate`: within 5 standard deviations. */
static void expect_part(const char *what, double hits, double count, double rate) {
  double sigma = sqrt(count * rate * (1 - rate));
  if (fabs(hits - count * rate) > 5 * sigma)
    fail_msg("%s: %g of %g, expected %g +- %g", what, hits, count, count * rate, sigma);
}

/* Every rate is drawn as often as it says, and any two rows, heads or neighbouring keys are independent: both kept
 * as often as the product of their rates. */
static void test_mask_statistics(void **state) {
  (void)state;
  static const float rates[] = {0.001f, 0.1f, 0.25f, 0.5f, 0.9f, 0.999f};
  for (size_t r = 0; r < sizeof rates / sizeof *rates; r++) {
    uint32_t limit = hr__drop_limit(rates[r]);
    double part = 1.0 - (double)limit / HR_DROP_PARTS, count = (double)ROWS * KEYS;
    double all = 0, rows = 0, heads = 0, keys = 0, blocks = 0;
    assert_true(fabs(1.0 - part - (double)rates[r]) <= (rates[r] < 0.002f || rates[r] > 0.998f ? 1.0 : 0.5) / 256);
    assert_true(fabs((double)hr__drop_scale(limit) * part - 1.0) < 1e-6);
    for (int64_t q = 0; q < ROWS; q++)
      for (int64_t k = 0; k < KEYS; k++) {
        bool here = kept(9, q, k, limit);
        all += here;
        rows += here && kept(9, q + 1, k, limit);
        heads += here && kept(10, q, k, limit);
        keys += here && kept(9, q, k + 1, limit);
        blocks += here && kept(9, q, k + HR_DROP_KEYS, limit);
      }
    expect_part("kept", all, count, part);
    expect_part("kept in two rows", rows, count, part * part);
    expect_part("kept in two heads", heads, count, part * part);
    expect_part("kept, and the next key too", keys, count, part * part);
    expect_part("kept, and that of the next block too", blocks, count, part * part);
  }
  assert_int_equal(hr__drop_limit(0.0f), 0);
}

/* Values of 1 sum up to 1 on average: what is kept is scaled by the rate that is drawn. Scores are all equal, so that y
 * also tells how many keys of a row were kept; another step, sample or use draws another mask. */
static void test_dropout_keeps_the_mean(void **state) {
  (void)state;
  enum { T = 256, HEADS = 8 };
  hr_attention_args args = {.heads = HEADS, .kv_heads = HEADS, .head_dim = 1, .scale = 1, .bidirectional = true};
  args.dropout = 0.1f;
  hr_sample sample = {.n_in = HR_ATTENTION_IN,
                      .in = {{HR_F32, 3, {1, T, 3 * HEADS}}, {0}, {0}, {0}, {HR_U8, 1, {sizeof(hr_control)}}},
                      .args = &args};
  op_case c;
  static float y[5][T * HEADS];
  assert_true(case_create_as(&c, hr__op_find("attention"), &sample, 91, 0, HR_F32));
  for (int64_t e = 0; e < hr_desc_count(&c.in[0]); e++)
    c.value[0][e] = e % (3 * HEADS) < 2 * HEADS ? 0.0 : 1.0;
  for (int way = 0; way < 5; way++) { /* the same; other step, sample, use, row of the batch */
    hr_control control = c.control;
    if (way == 1) control.step++;
    if (way == 2) control.sample++;
    args.use = way == 3;
    args.first = way == 4;
    for (size_t i = 0; i < sizeof control; i++)
      c.value[4][i] = (double)((const unsigned char *)&control)[i];
    run_result got = case_run(&c, (run_options){.threads = 2});
    double scale = 256.0 / 230.0, sum = 0;
    for (int64_t e = 0; e < T * HEADS; e++) {
      double keys = got.value[0][e] / scale * T;
      assert_true(fabs(keys - round(keys)) < 1e-2);
      sum += round(keys);
    }
    expect_part("kept", sum, (double)T * T * HEADS, 230.0 / 256.0);
    memcpy(y[way], got.data[0], sizeof y[way]);
  }
  for (int way = 1; way < 5; way++)
    assert_int_not_equal(memcmp(y[0], y[way], sizeof y[way]), 0);
  assert_memory_equal(y[2], y[4], sizeof y[2]); /* the same sample, wherever its batch begins */
  case_destroy(&c);
}

/* A longer row that holds more padding drops the same: T is no part of what names an element. */
static void test_dropout_does_not_depend_on_padding(void **state) {
  (void)state;
  enum { SHORT = 40, LONG = 300, COLUMNS = 3 * 4 };
  static const hr_attention_args args = {
      .heads = 1, .kv_heads = 1, .head_dim = 4, .scale = 1, .bidirectional = true, .dropout = 0.5f};
  double y[2][SHORT * 4];
  for (int longer = 0; longer < 2; longer++) {
    hr_sample sample = {.n_in = HR_ATTENTION_IN,
                        .in = {{HR_F32, 3, {1, longer ? LONG : SHORT, COLUMNS}},
                               {0},
                               {0},
                               {HR_I32, 1, {1}},
                               {HR_U8, 1, {sizeof(hr_control)}}},
                        .args = &args,
                        .index_below = 2};
    op_case c;
    assert_true(case_create_as(&c, hr__op_find("attention"), &sample, 92, 0, HR_F32));
    for (int64_t e = 0; e < SHORT * COLUMNS; e++)
      c.value[0][e] = (double)sinf((float)e);
    c.value[3][0] = SHORT;
    run_result got = case_run(&c, (run_options){.threads = 2});
    memcpy(y[longer], got.value[0], sizeof y[longer]);
    case_destroy(&c);
  }
  for (int e = 0; e < SHORT * 4; e++)
    assert_true(fabs(y[0][e] - y[1][e]) < 1e-5);
}

/* Dropout without the block that says what to draw, and the other way around. */
static void test_dropout_goes_with_control(void **state) {
  (void)state;
  for (int drops = 0; drops < 2; drops++)
    for (int there = 0; there < 2; there++) {
      hr_attention_args args = {.heads = 1, .kv_heads = 1, .head_dim = 8, .scale = 1, .dropout = drops ? 0.1f : 0.0f};
      hr_desc in[HR_ATTENTION_IN] = {{HR_F32, 3, {2, 7, 24}}}, out[2];
      if (there) in[4] = (hr_desc){HR_U8, 1, {sizeof(hr_control)}};
      hr_op_view view = {.in = in, .n_in = HR_ATTENTION_IN, .n_out = 2, .args = &args};
      hr_error err;
      assert_int_equal(hr__op_find("attention")->shape(&view, out, &err), drops == there ? HR_OK : HR_BAD_INPUT);
      args.dropout = 1.0f;
      assert_int_equal(hr__op_find("attention")->shape(&view, out, &err), HR_BAD_INPUT);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_packed_attention_has_the_same_bits),
      cmocka_unit_test(test_attention_with_lengths),
      cmocka_unit_test(test_attention_refuses_masks_without_meaning),
      cmocka_unit_test(test_mask_statistics),
      cmocka_unit_test(test_dropout_keeps_the_mean),
      cmocka_unit_test(test_dropout_does_not_depend_on_padding),
      cmocka_unit_test(test_dropout_goes_with_control),
  };
  return cmocka_run_group_tests(tests, device_setup, device_teardown);
}
