/* Order and rows of samples of one length: text and synthetic data. */
#include <string.h>
#include <unistd.h>

#include "base/random.h"
#include "part_data.h"

enum { LENGTH = 16, BYTES = 1000, WINDOWS = 62 }; /* (1000 - 1) / 16 */

static void fixture_open(fixture *f, bool eval) {
  hr_error err = {0};
  char text[BYTES];
  for (int i = 0; i < BYTES; i++)
    text[i] = (char)(i * 131 % 251);
  if (fixture_try(f, "text", text, sizeof text, 1, (const int64_t[]){LENGTH}, 1, eval, &err) != HR_OK)
    fail_msg("%s", err.message);
}

static hr_status row_read(const fixture *f, uint64_t sample, bool eval, int32_t *tokens, int32_t *targets,
                          hr_error *err) {
  hr_micro micro = hr__data_micro(f->data, sample, eval);
  return fill(f->data, &micro, tokens, targets, NULL, err);
}

static void test_order_is_a_permutation(void **state) {
  (void)state;
  fixture f;
  fixture_open(&f, false);
  assert_int_equal(hr__data_train_samples(f.data), WINDOWS);
  int moved = 0;
  uint64_t first[WINDOWS];
  for (uint64_t epoch = 0; epoch < 4; epoch++) {
    bool seen[WINDOWS] = {false};
    int same = 0;
    for (uint64_t i = 0; i < WINDOWS; i++) {
      uint64_t window = hr__data_entry(f.data, epoch * WINDOWS + i);
      assert_true(window < WINDOWS && !seen[window]);
      seen[window] = true;
      moved += window != i;
      if (epoch == 0) first[i] = window;
      same += first[i] == window;
    }
    if (epoch > 0) assert_true(same < WINDOWS / 2); /* every epoch has an order of its own */
  }
  assert_true(moved > 3 * WINDOWS);
  fixture_close(&f);
}

/* Measurements of source synthetic: element i is number i % 4 of the random block i / 4 of its sample, in [-1, 1). */
static void test_synthetic_values(void **state) {
  (void)state;
  enum { COUNT = 2 * 1024 + 7 };
  fixture f = {0};
  hr_error err = {0};
  hr_fields fields = {.count = 0};
  hr__field_add(&fields, (hr_field){.name = "x", .purpose = HR_FOR_VALUES, .desc = {HR_F32, 2, {1, COUNT}}});
  recipe_make(&f, "synthetic");
  hr_data_shape shape = {
      .seed = 5, .batch = 1, .buckets = (const int64_t[]){1}, .fields = &fields, .n_buckets = 1, .fillers = 1};
  if (hr__data_open(f.recipe, &shape, &f.data, &err) != HR_OK) fail_msg("%s", err.message);
  hr_random_key key = {5, hr__random_stream("data.synthetic.values") ^ hr__random_stream("x")};
  for (uint64_t sample = 0; sample < 3; sample++) {
    float x[COUNT];
    void *const at[HR_FIELDS] = {x};
    hr_micro micro = hr__data_micro(f.data, sample, false);
    assert_int_equal(hr__data_fill(f.data, &micro, 0, 1, 0, at, &err), HR_OK);
    for (int i = 0; i < COUNT; i++) {
      hr_random_block block = hr__random_at(key, sample, (uint64_t)i / 4);
      assert_true(x[i] == (float)(int32_t)block.word[i % 4] * 0x1p-31f);
    }
  }
  fixture_close(&f);
}

/* Made-up samples are whole where a field says so, and places go up to the largest. */
static void test_synthetic_whole_numbers(void **state) {
  (void)state;
  enum { COUNT = 6, BOUND = 9 };
  fixture f = {0};
  hr_error err = {0};
  hr_fields fields = {.count = 0};
  hr_desc numbers = {HR_I32, 2, {1, COUNT}}, mask = {HR_U8, 2, {1, COUNT}};
  hr_field count = {.name = "count", .purpose = HR_FOR_VALUES, .desc = numbers, .bound = BOUND};
  count.made_up = HR_MADE_LARGEST;
  hr_field place = count, own = count;
  place.name = "place";
  place.made_up = own.made_up = HR_MADE_IN_ORDER;
  own.name = "own";
  own.bound = COUNT;
  hr__field_add(&fields, count);
  hr__field_add(&fields, place);
  hr__field_add(&fields, own);
  hr__field_add(
      &fields,
      (hr_field){.name = "mask", .purpose = HR_FOR_VALUES, .desc = mask, .bound = 2, .made_up = HR_MADE_LARGEST});
  recipe_make(&f, "synthetic");
  hr_data_shape shape = {
      .seed = 5, .batch = 1, .buckets = (const int64_t[]){1}, .fields = &fields, .n_buckets = 1, .fillers = 1};
  if (hr__data_open(f.recipe, &shape, &f.data, &err) != HR_OK) fail_msg("%s", err.message);
  int32_t counts[COUNT], places[COUNT], owns[COUNT];
  uint8_t masks[COUNT];
  void *const at[HR_FIELDS] = {counts, places, owns, masks};
  hr_micro micro = hr__data_micro(f.data, 3, false);
  assert_int_equal(hr__data_fill(f.data, &micro, 0, 1, 0, at, &err), HR_OK);
  for (int i = 0; i < COUNT; i++) {
    assert_int_equal(counts[i], BOUND - 1);
    assert_int_equal(places[i], BOUND - COUNT + i);
    assert_int_equal(owns[i], i);
    assert_int_equal(masks[i], 1);
  }
  fixture_close(&f);
}

/* Where one field is looked at, as for counting what a mask lets through, no other is drawn: frames are megabytes. */
static void test_synthetic_one_field(void **state) {
  (void)state;
  enum { LARGE = 3 * 1024 + 5, SMALL = 9 };
  uint8_t large[LARGE], small[SMALL], whole[LARGE], mask[SMALL];
  void *source;
  hr_error err = {0};
  hr_fields fields = {.count = 0};
  hr__field_add(&fields, (hr_field){.name = "frames", .purpose = HR_FOR_VALUES, .desc = {HR_U8, 2, {1, LARGE}}});
  hr__field_add(&fields,
                (hr_field){.name = "mask", .purpose = HR_FOR_VALUES, .desc = {HR_U8, 2, {1, SMALL}}, .bound = 2});
  hr_source_request request = {.seed = 5};
  assert_int_equal(hr_source_synthetic.open(&request, &source, &err), HR_OK);
  hr_room room = {.fields = &fields, .at = {whole, mask}, .length = 1};
  assert_int_equal(hr_source_synthetic.fill(source, false, 7, &room, &err), HR_OK);
  for (int only = 0; only < 2; only++) {
    memset(large, 0xee, sizeof large);
    memset(small, 0xee, sizeof small);
    room = (hr_room){.fields = &fields, .at = {large, small}, .length = 1, .only = &fields.list[only]};
    assert_int_equal(hr_source_synthetic.fill(source, false, 7, &room, &err), HR_OK);
    for (int i = 0; i < LARGE; i++)
      assert_int_equal(large[i], only == 0 ? whole[i] : 0xee);
    for (int i = 0; i < SMALL; i++)
      assert_int_equal(small[i], only == 1 ? mask[i] : 0xee);
  }
  hr_source_synthetic.close(source);
}

static void test_rows(void **state) {
  (void)state;
  fixture f;
  fixture_open(&f, true);
  assert_int_equal(hr__data_eval_samples(f.data), 3); /* 5 % of 62 */
  assert_int_equal(hr__data_train_samples(f.data), WINDOWS - 3);
  int32_t tokens[LENGTH], targets[LENGTH];
  hr_error err = {0};
  for (uint64_t sample = 0; sample < 200; sample++) {
    assert_int_equal(row_read(&f, sample, false, tokens, targets, &err), HR_OK);
    int64_t begin = (int64_t)hr__data_entry(f.data, sample) * LENGTH;
    for (int t = 0; t < LENGTH; t++) {
      assert_int_equal(tokens[t], (begin + t) * 131 % 251);
      assert_int_equal(targets[t], (begin + t + 1) * 131 % 251);
    }
  }
  assert_int_equal(row_read(&f, 4, true, tokens, targets, &err), HR_OK); /* 4 mod 3: the second */
  assert_int_equal(tokens[0], (WINDOWS - 2) * LENGTH * 131 % 251);
  fixture_close(&f);
}

static void test_file_becomes_shorter(void **state) {
  (void)state;
  fixture f;
  fixture_open(&f, false);
  int32_t tokens[LENGTH], targets[LENGTH];
  hr_error err = {0};
  assert_int_equal(truncate(f.path, 8), 0);
  assert_int_equal(row_read(&f, 0, false, tokens, targets, &err), HR_BAD_INPUT);
  assert_non_null(strstr(err.message, "shorter"));
  fixture_close(&f);
}

static void test_synthetic(void **state) {
  (void)state;
  fixture f;
  hr_error err = {0};
  assert_int_equal(fixture_try(&f, "synthetic", NULL, 0, 1, (const int64_t[]){LENGTH}, 1, false, &err), HR_OK);
  int32_t a[2][LENGTH], b[2][LENGTH];
  assert_int_equal(row_read(&f, 11, false, a[0], a[1], &err), HR_OK);
  assert_int_equal(row_read(&f, 11, false, b[0], b[1], &err), HR_OK);
  assert_memory_equal(a, b, sizeof a);
  assert_memory_equal(a[0] + 1, a[1], (LENGTH - 1) * sizeof a[0][0]);
  for (int t = 0; t < LENGTH; t++)
    assert_true(a[0][t] >= 0 && a[0][t] < VOCABULARY && a[1][t] >= 0 && a[1][t] < VOCABULARY);
  assert_int_equal(row_read(&f, 12, false, b[0], b[1], &err), HR_OK);
  assert_memory_not_equal(a, b, sizeof a);
  fixture_close(&f);
}

/* A field whose batch is its second axis gets the same samples as one whose batch comes first, in pieces. */
static void test_fields_of_any_kind(void **state) {
  (void)state;
  enum { BATCH = 3, TIMES = 4, CHANNELS = 5 };
  fixture f = {0};
  hr_error err = {0};
  recipe_make(&f, "synthetic");
  hr_desc first = {HR_F32, 3, {BATCH, TIMES, CHANNELS}}, second = {HR_F32, 3, {TIMES, BATCH, CHANNELS}};
  float got[2][BATCH * TIMES * CHANNELS];
  uint8_t bytes[BATCH * 7];
  for (int k = 0; k < 2; k++) {
    hr_fields fields = {.count = 0};
    hr__field_add(&fields,
                  (hr_field){.name = "signal", .purpose = HR_FOR_VALUES, .desc = k ? second : first, .batch_axis = k});
    hr__field_add(&fields,
                  (hr_field){.name = "kind", .purpose = HR_FOR_VALUES, .desc = {HR_U8, 2, {BATCH, 7}}, .bound = 6});
    hr_data_shape shape = {
        .seed = 3, .batch = BATCH, .buckets = (const int64_t[]){1}, .fields = &fields, .n_buckets = 1, .fillers = 1};
    assert_int_equal(hr__data_open(f.recipe, &shape, &f.data, &err), HR_OK);
    hr_micro micro = hr__data_micro(f.data, 9, false);
    assert_int_equal(hr__data_fill(f.data, &micro, 0, BATCH, 0, (void *const[HR_FIELDS]){got[k], bytes}, &err), HR_OK);
    hr__data_close(f.data);
  }
  for (int row = 0; row < BATCH; row++)
    for (int t = 0; t < TIMES; t++)
      for (int c = 0; c < CHANNELS; c++) {
        float value = got[0][(row * TIMES + t) * CHANNELS + c];
        assert_true(value >= -1 && value < 1 && value != 0);
        assert_true(value == got[1][(t * BATCH + row) * CHANNELS + c]);
      }
  for (size_t i = 0; i < sizeof bytes; i++)
    assert_true(bytes[i] < 6);
  f.data = NULL;
  fixture_close(&f);
}

/* A source that cannot fill what the model reads is refused by name. */
static void test_fields_that_a_source_does_not_give(void **state) {
  (void)state;
  fixture f;
  fixture_open(&f, false);
  hr_fields fields = {.count = 0};
  hr_data *data = NULL;
  hr_error err = {0};
  hr__field_add(&fields, (hr_field){.name = "image", .purpose = HR_FOR_VALUES, .desc = {HR_F32, 2, {1, 8}}});
  hr_data_shape shape = {.batch = 1, .buckets = (const int64_t[]){1}, .fields = &fields, .n_buckets = 1, .fillers = 1};
  assert_int_equal(hr__data_open(f.recipe, &shape, &data, &err), HR_BAD_INPUT);
  assert_non_null(strstr(err.message, "image (values), which source text does not give"));
  fixture_close(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_order_is_a_permutation),
      cmocka_unit_test(test_synthetic_values),
      cmocka_unit_test(test_synthetic_whole_numbers),
      cmocka_unit_test(test_synthetic_one_field),
      cmocka_unit_test(test_rows),
      cmocka_unit_test(test_file_becomes_shorter),
      cmocka_unit_test(test_synthetic),
      cmocka_unit_test(test_fields_of_any_kind),
      cmocka_unit_test(test_fields_that_a_source_does_not_give),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
