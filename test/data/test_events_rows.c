/* Source events with data.packing: each recording in a row is what it is alone, with the same draws; what is held out
 * has rows of its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "part_events.h"
#include "support/faults.h"

enum { ROWS = 2, LENGTH = 96, PIECES = 12, PIECE = LENGTH / PIECES, TRAIN = 18, HELD = 6 };

typedef struct rows {
  float vectors[ROWS][LENGTH][HR_EVENT_WIDTH];
  int32_t orders[ROWS][HR_EVENT_ORDERS][LENGTH], inverses[ROWS][HR_EVENT_ORDERS][LENGTH];
  float pooling[ROWS][3][LENGTH];
  int32_t labels[ROWS][PIECES];
  int32_t starts[ROWS][HR_EVENT_ORDERS][LENGTH], recordings[ROWS][PIECES]; /* with packing */
} rows;

static hr_fields fields_of(bool shared) {
  hr_fields out = events_fields(LENGTH);
  const hr_desc pieces = {HR_I32, 2, {ROWS, PIECES}}, starts = {HR_I32, 3, {ROWS, HR_EVENT_ORDERS, LENGTH}};
  out.list[4].desc = pieces; /* labels: alone the first is written */
  if (!shared) return out;
  hr__field_add(&out, (hr_field){.name = "starts", .purpose = HR_FOR_STARTS, .desc = starts});
  hr__field_add(&out, (hr_field){.name = "recordings", .purpose = HR_FOR_VALUES, .desc = pieces});
  return out;
}

static hr_status data_try(bool shared, const char *generate, events_data *out, hr_error *err) {
  static const int64_t length[] = {LENGTH};
  const char *const settings[] = {generate, "data.events.ratio_of_vectors=0.1", "data.eval_fraction=0.25",
                                  shared ? "data.packing=true" : NULL, NULL};
  hr_fields fields = fields_of(shared);
  hr_data_shape shape = {
      .seed = 3, .eval = true, .batch = ROWS, .buckets = length, .fields = &fields, .n_buckets = 1, .fillers = 1};
  *out = (events_data){0};
  HR_TRY(events_recipe(&out->recipe, settings, err));
  return hr__data_open(out->recipe, &shape, &out->data, err);
}

static events_data data_open(bool shared) {
  events_data out;
  hr_error err = {0};
  if (data_try(shared, "data.events.generate=24", &out, &err) != HR_OK) fail_msg("%s: %s", err.place, err.message);
  return out;
}

static hr_micro rows_fill(const hr_data *data, uint64_t sample, bool eval, rows *to) {
  void *at[HR_FIELDS] = {to->vectors, to->orders, to->inverses, to->pooling, to->labels, to->starts, to->recordings};
  hr_error err = {0};
  hr_micro micro = hr__data_micro(data, sample, eval);
  memset(to, 0xee, sizeof *to);
  assert_int_equal(hr__data_fill(data, &micro, 0, ROWS, 0, at, &err), HR_OK);
  return micro;
}

/* Positions of the recording that begins at `first`; alone all pieces have the number that was there before. */
static int length_of(const rows *r, int row, int first) {
  const int32_t *whose = r->recordings[row];
  int n = 0;
  while (first + n < LENGTH && r->pooling[row][0][first + n] > 0 && whose[(first + n) / PIECE] == whose[first / PIECE])
    n++;
  return n;
}

/* Whether a row has these vectors from `first` on. */
static bool is_same(const rows *shared, int row, int first, const rows *alone, int other) {
  int n = length_of(alone, other, 0);
  return length_of(shared, row, first) == n &&
         memcmp(shared->vectors[row][first], alone->vectors[other], sizeof(float) * HR_EVENT_WIDTH * (size_t)n) == 0;
}

static void same_check(const rows *shared, int row, int number, int first, const rows *alone, int other) {
  int n = length_of(alone, other, 0), pieces = (n + PIECE - 1) / PIECE;
  assert_int_equal(shared->labels[row][number], alone->labels[other][0]);
  for (int t = 0; t < pieces * PIECE; t++) {
    assert_int_equal(shared->recordings[row][(first + t) / PIECE], number);
    for (int s = 0; s < 3; s++)
      assert_true(shared->pooling[row][s][first + t] == alone->pooling[other][s][t]);
    for (int k = 0; k < HR_EVENT_ORDERS; k++) {
      assert_int_equal(shared->starts[row][k][first + t], first);
      assert_int_equal(shared->orders[row][k][first + t], first + alone->orders[other][k][t]);
      assert_int_equal(shared->inverses[row][k][first + t], first + alone->inverses[other][k][t]);
    }
    for (int i = 0; i < HR_EVENT_WIDTH; i++)
      assert_true(shared->vectors[row][first + t][i] == (t < n ? alone->vectors[other][t][i] : 0));
  }
}

/* Position of recording `number` of a row; -1: there is none. */
static int first_of(const rows *r, int row, int number) {
  for (int i = 0; i < PIECES; i++)
    if (r->recordings[row][i] == number) return i * PIECE;
  return -1;
}

static int count_of(const rows *r, int row) {
  int count = 0;
  while (first_of(r, row, count) >= 0)
    count++;
  return count;
}

static void test_rows(void **state) {
  (void)state;
  static rows shared, alone[TRAIN / ROWS];
  events_data one = data_open(false), several = data_open(true);
  int64_t count = hr__data_train_samples(several.data), filled = 0;
  int met[TRAIN] = {0};
  assert_int_equal(hr__data_train_samples(one.data), TRAIN);
  assert_true(count < TRAIN / 2);
  assert_non_null(strstr(hr__data_remark(several.data, false), "18 recordings are packed into"));
  for (int i = 0; i < TRAIN / ROWS; i++)
    assert_int_equal(rows_fill(one.data, (uint64_t)(i * ROWS), false, &alone[i]).samples, ROWS);
  for (int64_t sample = 0; sample < count; sample++) { /* the first row of each batch */
    hr_micro micro = rows_fill(several.data, (uint64_t)sample, false, &shared);
    assert_int_equal(micro.samples, count_of(&shared, 0) + count_of(&shared, 1));
    for (int number = 0, first; (first = first_of(&shared, 0, number)) >= 0; number++, filled++)
      for (int i = 0; i < TRAIN; i++) {
        if (!is_same(&shared, 0, first, &alone[i / ROWS], i % ROWS)) continue;
        same_check(&shared, 0, number, first, &alone[i / ROWS], i % ROWS);
        met[i]++;
      }
  }
  assert_int_equal(filled, TRAIN);
  for (int i = 0; i < TRAIN; i++)
    assert_int_equal(met[i], 1);
  events_close(&one);
  events_close(&several);
}

static void test_held_out(void **state) {
  (void)state;
  static rows shared, alone;
  events_data one = data_open(false), several = data_open(true);
  assert_int_equal(hr__data_eval_samples(several.data), HELD);
  for (uint64_t sample = 0; sample < HELD; sample += ROWS) {
    rows_fill(one.data, sample, true, &alone);
    assert_int_equal(rows_fill(several.data, sample, true, &shared).samples, ROWS);
    for (int row = 0; row < ROWS; row++) {
      assert_true(is_same(&shared, row, 0, &alone, row));
      same_check(&shared, row, 0, 0, &alone, row);
      assert_int_equal(first_of(&shared, row, 1), -1);
    }
  }
  events_close(&one);
  events_close(&several);
}

static hr_status open_body(void *arg, hr_error *err) {
  events_data o;
  (void)arg;
  hr_status status = data_try(true, "data.events.generate=4", &o, err);
  events_close(&o);
  return status;
}

static void test_faults(void **state) {
  (void)state;
  assert_true(hr_test_each_fault(open_body, NULL) > 20);
}

int main(void) {
  hr_test_faults_install();
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows), cmocka_unit_test(test_held_out),
                                     cmocka_unit_test(test_faults)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
