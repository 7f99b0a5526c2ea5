/* Lines as samples: the index, padding, buckets, the order of an epoch, and files that are no good. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "part_data.h"
#include "support/faults.h"

enum { LENGTH = 16, BATCH = 4 };

static const int64_t buckets[] = {4, 8, LENGTH};

static hr_status lines_try(fixture *f, const void *text, size_t bytes, int n_buckets, bool eval, hr_error *err) {
  return fixture_try(f, "lines", text, bytes, BATCH, buckets + 3 - n_buckets, n_buckets, eval, err);
}

/* Line i has 1 + i % 20 bytes, all of them the number of the line. */
enum { LINES = 101 };
static size_t lines_make(char *text) {
  size_t used = 0;
  for (int i = 0; i < LINES; i++) {
    if (i % 7 == 0) text[used++] = '\n'; /* empty: skipped */
    for (int k = 0; k < 1 + i % 20; k++)
      text[used++] = (char)(100 + i);
    text[used++] = '\n';
  }
  return used;
}

static void fixture_open(fixture *f, int n_buckets, bool eval) {
  char text[LINES * 24];
  hr_error err = {0};
  hr_status status = lines_try(f, text, lines_make(text), n_buckets, eval, &err);
  if (status != HR_OK) fail_msg("%s", err.message);
}

static void test_rows_are_padded(void **state) {
  (void)state;
  static const char text[] = "abc\n\n\nx\n0123456789abcdefgh\nend";
  fixture f;
  hr_error err = {0};
  assert_int_equal(lines_try(&f, text, sizeof text - 1, 1, false, &err), HR_OK);
  assert_int_equal(hr__data_train_samples(f.data), 4);
  assert_int_equal(hr__data_cut(f.data), 1);
  assert_int_equal(hr__data_epoch_rows(f.data), 4);
  hr_micro micro = hr__data_micro(f.data, 0, false);
  assert_int_equal(micro.length, LENGTH);
  assert_int_equal(micro.rows, 4);
  assert_int_equal(micro.tokens, 3 + 1 + 16 + 3);
  int32_t tokens[BATCH][LENGTH], targets[BATCH][LENGTH];
  assert_int_equal(fill(f.data, &micro, tokens[0], targets[0], NULL, &err), HR_OK);
  static const struct {
    const char *tokens, *targets;
  } expected[] = {{"abc", "bc\n"}, {"x", "\n"}, {"0123456789abcdef", "123456789abcdefg"}, {"end", "nd\n"}};
  for (int e = 0; e < 4; e++) {
    int row = 0;
    while (row < BATCH && tokens[row][0] != expected[e].tokens[0])
      row++;
    assert_true(row < BATCH);
    for (int t = 0, n = (int)strlen(expected[e].tokens); t < LENGTH; t++) {
      assert_int_equal(tokens[row][t], t < n ? expected[e].tokens[t] : 0);
      assert_int_equal(targets[row][t], t < n ? expected[e].targets[t] : -1);
    }
  }
  fixture_close(&f);
}

/* Every epoch takes every line once, in the shortest bucket that holds it, in an order of its own. */
static void test_epochs(void **state) {
  (void)state;
  fixture f;
  fixture_open(&f, 3, false);
  uint64_t rows = hr__data_epoch_rows(f.data);
  assert_int_equal(rows, BATCH * 26); /* 21 lines up to 4 bytes, 20 up to 8, 60 above: 6 + 5 + 15 */
  hr_error err = {0};
  int first_order[LINES], moved = 0;
  for (uint64_t epoch = 0; epoch < 3; epoch++) {
    int seen[LINES] = {0}, at = 0, order[LINES], short_batches = 0;
    for (uint64_t sample = 0; sample < rows; sample += BATCH) {
      hr_micro micro = hr__data_micro(f.data, epoch * rows + sample, false);
      int32_t tokens[BATCH * LENGTH], targets[BATCH * LENGTH];
      assert_int_equal(fill(f.data, &micro, tokens, targets, NULL, &err), HR_OK);
      assert_int_equal(micro.length, buckets[micro.bucket]);
      int64_t valid = 0;
      for (int64_t row = 0; row < BATCH; row++) {
        const int32_t *t = tokens + row * micro.length, *y = targets + row * micro.length;
        int64_t length = 0;
        while (length < micro.length && y[length] >= 0)
          length++;
        valid += length;
        assert_true((length > 0) == (row < micro.rows));
        if (length == 0) continue;
        int line = (unsigned char)t[0] - 100;
        seen[line]++;
        order[at++] = line;
        assert_int_equal(length, 1 + line % 20 > LENGTH ? LENGTH : 1 + line % 20);
        if (micro.bucket > 0) assert_true(length > buckets[micro.bucket - 1]);
      }
      assert_int_equal(valid, micro.tokens);
      short_batches += micro.rows < BATCH;
    }
    assert_int_equal(at, LINES);
    assert_int_equal(short_batches, 1);
    for (int i = 0; i < LINES; i++) {
      assert_int_equal(seen[i], 1);
      if (epoch == 0) first_order[i] = order[i];
      moved += first_order[i] != order[i];
    }
  }
  assert_true(moved > LINES);
  fixture_close(&f);
}

static void test_same_again(void **state) {
  (void)state;
  fixture f, g;
  hr_error err = {0};
  fixture_open(&f, 3, false);
  for (uint64_t sample = 0; sample < 3 * 26 * BATCH; sample += 5 * BATCH) {
    fixture_open(&g, 3, false); /* opened anew and asked at once */
    hr_micro a = hr__data_micro(f.data, sample, false), b = hr__data_micro(g.data, sample, false);
    int32_t rows[4][BATCH * LENGTH] = {{0}};
    assert_int_equal(fill(f.data, &a, rows[0], rows[1], NULL, &err), HR_OK);
    assert_int_equal(fill(g.data, &b, rows[2], rows[3], NULL, &err), HR_OK);
    assert_memory_equal(rows[0], rows[2], 2 * sizeof rows[0]);
    fixture_close(&g);
    char text[LINES * 24]; /* the other one removed the file */
    file_put(f.path, text, lines_make(text));
  }
  fixture_close(&f);
}

static void test_held_out(void **state) {
  (void)state;
  fixture f;
  hr_error err = {0};
  fixture_open(&f, 3, true);
  assert_int_equal(hr__data_eval_samples(f.data), 5); /* 5 % of 101 */
  assert_int_equal(hr__data_train_samples(f.data), LINES - 5);
  hr_micro micro = hr__data_micro(f.data, BATCH, true); /* the fifth, then the first again */
  int32_t tokens[BATCH][LENGTH], targets[BATCH][LENGTH];
  assert_int_equal(micro.length, LENGTH);
  assert_int_equal(fill(f.data, &micro, tokens[0], targets[0], NULL, &err), HR_OK);
  assert_int_equal((unsigned char)tokens[0][0], 100 + LINES - 1);
  assert_int_equal((unsigned char)tokens[1][0], 100 + LINES - 5);
  fixture_close(&f);
}

static void test_bad_files(void **state) {
  (void)state;
  fixture f;
  hr_error err = {0};
  assert_int_equal(lines_try(&f, "\n\n\n", 3, 1, false, &err), HR_BAD_INPUT);
  assert_non_null(strstr(err.message, "0 lines with text are too few: one needed"));
  fixture_close(&f);
  assert_int_equal(lines_try(&f, "", 0, 1, false, &err), HR_BAD_INPUT);
  fixture_close(&f);
  assert_int_equal(lines_try(&f, "one\n", 4, 1, true, &err), HR_BAD_INPUT);
  assert_non_null(strstr(err.message, "1 lines with text are too few: two"));
  fixture_close(&f);
  fixture_open(&f, 3, false);
  hr_micro micro = hr__data_micro(f.data, 0, false);
  int32_t tokens[BATCH * LENGTH], targets[BATCH * LENGTH];
  assert_int_equal(truncate(f.path, 1), 0);
  assert_int_equal(fill(f.data, &micro, tokens, targets, NULL, &err), HR_BAD_INPUT);
  assert_non_null(strstr(err.message, "shorter"));
  fixture_close(&f);
}

/* Lines longer than what is read at once, and one at its very border. */
static void test_long_lines(void **state) {
  (void)state;
  size_t first = (1 << 16) - 1, second = 200000, bytes = first + 1 + second;
  char *text = malloc(bytes);
  assert_non_null(text);
  memset(text, 'a', bytes);
  text[first] = '\n';
  text[first + 1] = 'b';
  fixture f;
  hr_error err = {0};
  assert_int_equal(lines_try(&f, text, bytes, 3, false, &err), HR_OK);
  free(text);
  assert_int_equal(hr__data_train_samples(f.data), 2);
  assert_int_equal(hr__data_cut(f.data), 2);
  hr_micro micro = hr__data_micro(f.data, 0, false);
  int32_t tokens[BATCH][LENGTH], targets[BATCH][LENGTH];
  assert_int_equal(fill(f.data, &micro, tokens[0], targets[0], NULL, &err), HR_OK);
  assert_int_equal(tokens[0][0] + tokens[1][0], 'a' + 'b');
  assert_int_equal(targets[0][LENGTH - 1], 'a');
  fixture_close(&f);
}

static hr_status open_body(void *arg, hr_error *err) {
  const fixture *f = arg;
  hr_fields fields[3];
  token_fields(fields, BATCH, buckets, 3, VOCABULARY, false);
  hr_data_shape shape = {.seed = 3, .batch = BATCH, .buckets = buckets, .fields = fields, .n_buckets = 3, .fillers = 1};
  hr_data *data;
  HR_TRY(hr__data_open(f->recipe, &shape, &data, err));
  hr__data_close(data);
  return HR_OK;
}

static void test_out_of_memory(void **state) {
  (void)state;
  fixture f;
  fixture_open(&f, 3, false);
  assert_true(hr_test_each_fault(open_body, &f) >= 6); /* data, lines, three windows, the index */
  fixture_close(&f);
}

int main(void) {
  hr_test_faults_install();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_rows_are_padded), cmocka_unit_test(test_epochs),    cmocka_unit_test(test_same_again),
      cmocka_unit_test(test_held_out),        cmocka_unit_test(test_bad_files), cmocka_unit_test(test_long_lines),
      cmocka_unit_test(test_out_of_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
