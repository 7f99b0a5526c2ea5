/* Masking: how many tokens are asked for, which, and what is shown in their place. */
#include <string.h>

#include "part_data.h"

#define DATA "data: { source: synthetic, sequence_length: 64 }\n"

enum { LENGTH = 1000, WIDTH = 1010, TOKENS = 300 };

static hr_masking masking_of(const char *const *overrides, size_t count) {
  hr_recipe *recipe = recipe_parse(DATA, overrides, count);
  hr_masking masking;
  hr_error err = {0};
  if (hr__masking_read(recipe, true, TOKENS, 7, &masking, &err) != HR_OK) fail_msg("%s", err.message);
  hr__recipe_destroy(recipe);
  return masking;
}

static void row_fill(int32_t *tokens, int32_t *targets) {
  for (int t = 0; t < WIDTH; t++) {
    tokens[t] = t < LENGTH ? t % 251 : 0;
    targets[t] = 12345;
  }
}

static void test_counts(void **state) {
  (void)state;
  hr_masking m = masking_of(NULL, 0);
  static const int64_t expected[][2] = {{0, 0}, {1, 1}, {3, 1}, {10, 2}, {20, 3}, {100, 15}, {1000, 150}};
  for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
    assert_int_equal(hr__masking_count(&m, expected[i][0]), expected[i][1]);
  m = masking_of((const char *[]){"data.masking.part=1"}, 1);
  assert_int_equal(hr__masking_count(&m, 77), 77);
}

/* Over many rows: the number asked for in each, targets that are the tokens, and the ways in their parts. */
static void test_parts(void **state) {
  (void)state;
  enum { ROWS = 100, ASKED = 150 };
  hr_masking m = masking_of(NULL, 0);
  int32_t tokens[WIDTH], before[WIDTH], targets[WIDTH];
  int masked = 0, kept = 0, other = 0, first_half = 0;
  for (int row = 0; row < ROWS; row++) {
    row_fill(tokens, targets);
    memcpy(before, tokens, sizeof tokens);
    hr__masking_apply(&m, false, (uint64_t)row, LENGTH, WIDTH, tokens, targets);
    int asked = 0;
    for (int t = 0; t < WIDTH; t++) {
      if (targets[t] < 0) {
        assert_int_equal(targets[t], -1);
        assert_int_equal(tokens[t], before[t]);
        continue;
      }
      assert_true(t < LENGTH && tokens[t] >= 0 && tokens[t] < TOKENS);
      assert_int_equal(targets[t], before[t]);
      asked++;
      first_half += t < LENGTH / 2;
      masked += tokens[t] == 256;
      kept += tokens[t] == before[t];
      other += tokens[t] != 256 && tokens[t] != before[t];
    }
    assert_int_equal(asked, ASKED);
  }
  assert_in_range(masked, 11500, 12500); /* 0.8 of 15000, give or take four times the root of their variance */
  assert_in_range(kept, 1300, 1700);
  assert_in_range(other, 1300, 1700);
  assert_in_range(first_half, 7100, 7900);
}

static void test_rows_differ_and_come_again(void **state) {
  (void)state;
  hr_masking m = masking_of(NULL, 0);
  int32_t tokens[3][WIDTH], targets[4][WIDTH], again[WIDTH];
  static const struct {
    bool eval;
    uint64_t row;
  } rows[] = {{false, 5}, {false, 6}, {true, 5}};
  for (int i = 0; i < 3; i++) {
    row_fill(tokens[i], targets[i]);
    hr__masking_apply(&m, rows[i].eval, rows[i].row, LENGTH, WIDTH, tokens[i], targets[i]);
    for (int k = 0; k < i; k++)
      assert_memory_not_equal(targets[i], targets[k], sizeof targets[i]);
  }
  row_fill(again, targets[3]);
  hr__masking_apply(&m, false, 5, LENGTH, WIDTH, again, targets[3]);
  assert_memory_equal(again, tokens[0], sizeof again);
  assert_memory_equal(targets[3], targets[0], sizeof targets[0]);
}

static void test_settings(void **state) {
  (void)state;
  hr_masking m = masking_of((const char *[]){"data.masking={part: 0.5, token: 9, random: 0, keep: 0}"}, 1);
  int32_t tokens[WIDTH], targets[WIDTH];
  row_fill(tokens, targets);
  hr__masking_apply(&m, false, 0, LENGTH, WIDTH, tokens, targets);
  int asked = 0;
  for (int t = 0; t < LENGTH; t++) {
    asked += targets[t] >= 0;
    if (targets[t] >= 0) assert_int_equal(tokens[t], 9);
  }
  assert_int_equal(asked, LENGTH / 2);
}

static void refused(const char *text, const char *override, bool masked, const char *message) {
  hr_recipe *recipe = recipe_parse(text, &override, 1);
  hr_masking masking;
  hr_error err = {0};
  assert_int_equal(hr__masking_read(recipe, masked, TOKENS, 7, &masking, &err), HR_BAD_INPUT);
  if (!strstr(err.message, message)) fail_msg("\"%s\" does not say \"%s\"", err.message, message);
  hr__recipe_destroy(recipe);
}

static void test_refused(void **state) {
  (void)state;
  refused(DATA, "data.masking.token=300", true, "mask token 300");
  refused(DATA, "data.masking={random: 0.6, keep: 0.5}", true, "more than 1");
  refused(DATA, "data.masking.part=0.2", false, "next token");
}

/* What a micro-batch says before it is read is what it then holds. */
static void test_micro_batches_know_their_targets(void **state) {
  (void)state;
  enum { BATCH = 3, ROW = 21 };
  hr_recipe *recipe = recipe_parse(DATA, NULL, 0);
  hr_error err = {0};
  hr_data *data = NULL;
  const int64_t bucket = ROW;
  hr_fields fields;
  token_fields(&fields, BATCH, &bucket, 1, TOKENS, true);
  hr_data_shape shape = {.seed = 7,
                         .batch = BATCH,
                         .buckets = &bucket,
                         .fields = &fields,
                         .n_buckets = 1,
                         .fillers = 1,
                         .masking = masking_of(NULL, 0)};
  assert_int_equal(hr__data_open(recipe, &shape, &data, &err), HR_OK);
  hr_micro micro = hr__data_micro(data, 6, false);
  assert_int_equal(micro.tokens, BATCH * ROW);
  assert_int_equal(micro.targets, BATCH * 3);
  int32_t tokens[BATCH * ROW], targets[BATCH * ROW], lengths[BATCH];
  assert_int_equal(fill(data, &micro, tokens, targets, lengths, &err), HR_OK);
  int count = 0;
  for (int i = 0; i < BATCH * ROW; i++)
    count += targets[i] >= 0;
  assert_int_equal(count, micro.targets);
  for (int row = 0; row < BATCH; row++)
    assert_int_equal(lengths[row], ROW);
  hr__data_close(data);
  hr__recipe_destroy(recipe);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_counts),
      cmocka_unit_test(test_parts),
      cmocka_unit_test(test_rows_differ_and_come_again),
      cmocka_unit_test(test_settings),
      cmocka_unit_test(test_refused),
      cmocka_unit_test(test_micro_batches_know_their_targets),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
