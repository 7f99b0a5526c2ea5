/* Source events: vectors and orders against those of numpy, what is drawn, HDF5, files of prepare, buckets, memory. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "part_events.h"
#include "support/faults.h"

static const char golden[] = HR_SOURCE_DIR "/test/data/events/expected.safetensors";

static size_t expected_read(const char *name, void *out, size_t room) {
  hr_error err = {0};
  hr_safetensors *file = NULL;
  assert_int_equal(hr__safetensors_open(golden, &file, &err), HR_OK);
  const hr_safetensor *tensor = hr__safetensors_find(file, name);
  assert_non_null(tensor);
  size_t bytes = (size_t)(tensor->end - tensor->begin);
  assert_true(bytes <= room);
  assert_int_equal(hr__safetensors_read(file, tensor, 0, out, bytes, &err), HR_OK);
  hr__safetensors_close(file);
  return bytes;
}

/* numpy goes by the definition in f64, event by event; here sums of pixels are f32. */
static void test_vectors(void **state) {
  (void)state;
  static hr_event_code code = {.interval_ms = 200};
  static float expected[12][HR_EVENT_WIDTH], got[12][HR_EVENT_ROW];
  double numbers[80][4];
  int64_t wanted[12];
  uint32_t chosen[12];
  hr_event events[80];
  hr_error err = {0};
  expected_read("t", code.t, sizeof code.t);
  expected_read("x", code.x, sizeof code.x);
  expected_read("y", code.y, sizeof code.y);
  expected_read("events", numbers, sizeof numbers);
  expected_read("chosen", wanted, sizeof wanted);
  expected_read("vectors", expected, sizeof expected);
  for (int i = 0; i < 80; i++)
    events[i] = (hr_event){(int32_t)numbers[i][0], (int32_t)numbers[i][1], (int32_t)numbers[i][3], numbers[i][2]};
  for (int i = 0; i < 12; i++)
    chosen[i] = (uint32_t)wanted[i];
  hr__event_places(&code);
  hr_event_grid *grid = hr__event_grid_create();
  assert_int_equal(hr__event_grid_fill(grid, events, 80, &err), HR_OK);
  assert_int_equal(hr__event_vectors(grid, &code, 0, events, 80, chosen, 12, &got[0][0], &err), HR_OK);
  for (int i = 0; i < 12; i++) {
    for (int k = 0; k < HR_EVENT_WIDTH; k++)
      if (!(fabsf(got[i][k] - expected[i][k]) <= 1e-6F))
        fail_msg("vector %d, number %d: %.9g, not %.9g", i, k, (double)got[i][k], (double)expected[i][k]);
    for (int k = 0; k < 4; k++)
      assert_true(got[i][HR_EVENT_WIDTH + k] == (float)numbers[chosen[i]][k]);
  }
  hr__event_grid_destroy(grid);
}

static void test_orders(void **state) {
  (void)state;
  enum { N = 29, L = 32 };
  float places[3][N], wide[3][L] = {{0}};
  int32_t orders[HR_EVENT_ORDERS][N], inverses[HR_EVENT_ORDERS][N], got[HR_EVENT_ORDERS][L], back[HR_EVENT_ORDERS][L];
  expected_read("places", places, sizeof places);
  expected_read("orders", orders, sizeof orders);
  expected_read("inverses", inverses, sizeof inverses);
  for (int i = 0; i < 3; i++)
    memcpy(wide[i], places[i], sizeof places[i]);
  hr__event_orders(&wide[0][0], N, 0, L, &got[0][0], &back[0][0]);
  for (int k = 0; k < HR_EVENT_ORDERS; k++) {
    assert_memory_equal(got[k], orders[k], sizeof orders[k]);
    assert_memory_equal(back[k], inverses[k], sizeof inverses[k]);
    for (int i = N; i < L; i++)
      assert_true(got[k][i] == i && back[k][i] == i);
  }
}

/* As many as asked for, each once, in order; the same again; busy pixels more often than others. */
static void test_choose(void **state) {
  (void)state;
  enum { EVENTS = 400, CHOSEN = 100 };
  hr_event events[EVENTS];
  hr_error err = {0};
  uint32_t chosen[CHOSEN], again[CHOSEN];
  hr_random_key key = {1, 2};
  for (int i = 0; i < EVENTS; i++) /* half of them in one pixel */
    events[i] = (hr_event){.x = i % 2 ? 20 : i % 37, .y = i % 2 ? 20 : i % 19, .t = i};
  hr_event_grid *grid = hr__event_grid_create();
  assert_int_equal(hr__event_grid_fill(grid, events, EVENTS, &err), HR_OK);
  assert_int_equal(hr__event_grid_count(grid, 20, 20), EVENTS / 2);
  int busy = 0;
  for (uint64_t at = 0; at < 10; at++) {
    assert_int_equal(hr__events_choose(grid, events, EVENTS, CHOSEN, key, at, chosen, &err), HR_OK);
    for (int i = 0; i < CHOSEN; i++) {
      assert_true(chosen[i] < EVENTS && (i == 0 || chosen[i] > chosen[i - 1]));
      busy += chosen[i] % 2 != 0;
    }
  }
  assert_true(busy > 380 &&
              busy < 430); /* of 1000: four in ten go by activity, which is there; nothing changes around it */
  assert_int_equal(hr__events_choose(grid, events, EVENTS, CHOSEN, key, 9, again, &err), HR_OK);
  assert_memory_equal(chosen, again, sizeof chosen);
  uint32_t all[EVENTS];
  assert_int_equal(hr__events_choose(grid, events, EVENTS, EVENTS, key, 0, all, &err), HR_OK);
  for (uint32_t i = 0; i < EVENTS; i++)
    assert_int_equal(all[i], i);
  hr__event_grid_destroy(grid);
  assert_int_equal(hr__events_to_choose(0, 0.3), 0);
  assert_int_equal(hr__events_to_choose(1, 0.01), 1);
  assert_int_equal(hr__events_to_choose(10, 0.3), 3);
  assert_int_equal(hr__events_to_choose(7, 1), 7);
}

static void open_or_fail(events_data *o, const char *const *settings, const int64_t *buckets, int n_buckets,
                         bool eval) {
  hr_error err = {0};
  if (events_open(o, settings, buckets, n_buckets, eval, &err) != HR_OK)
    fail_msg("%s: %s (%s)", err.place, err.message, err.remedy);
}

static void batch_fill(const hr_data *data, uint64_t sample, bool eval, events_batch *b) {
  void *at[HR_FIELDS];
  hr_error err = {0};
  memset(b, 0xee, sizeof *b);
  events_places(b, at);
  hr_micro micro = hr__data_micro(data, sample, eval);
  assert_int_equal(hr__data_fill(data, &micro, 0, EVENTS_BATCH, 0, at, &err), HR_OK);
}

/* Positions of a row that have a weight; all weights of a scale sum to 1. */
static int length_of(const events_batch *b, int row) {
  int length = 0;
  for (int t = 0; t < EVENTS_LENGTH; t++)
    length += b->pooling[row][0][t] > 0;
  for (int s = 0; s < 3; s++) {
    double sum = 0;
    for (int t = 0; t < EVENTS_LENGTH; t++)
      sum += (double)b->pooling[row][s][t];
    assert_true(fabs(sum - 1) < 1e-6);
  }
  return length;
}

#define GENERATED "data.events.generate=24", "data.events.ratio_of_vectors=0.06"

/* Made-up streams: whole batches; an epoch draws anew and keeps lengths; what is held out stays as it is. */
static void test_samples(void **state) {
  (void)state;
  events_data o;
  static events_batch first, again, later;
  open_or_fail(&o, (const char *const[]){GENERATED, "data.eval_fraction=0.25", NULL}, NULL, 0, true);
  assert_int_equal(hr__data_train_samples(o.data), 18);
  assert_int_equal(hr__data_eval_samples(o.data), 6);
  int other = 0;
  for (uint64_t sample = 0; sample < 18; sample += EVENTS_BATCH) {
    batch_fill(o.data, sample, false, &first);
    batch_fill(o.data, sample, false, &again);
    assert_memory_equal(&first, &again, sizeof first);
    for (int row = 0; row < EVENTS_BATCH; row++) {
      uint64_t entry = hr__data_entry(o.data, sample + (uint64_t)row);
      int length = length_of(&first, row);
      assert_int_equal(first.labels[row], entry % 8);
      assert_true(length > 10 && length <= EVENTS_LENGTH);
      for (int k = 0; k < HR_EVENT_ORDERS; k++)
        for (int t = 0; t < EVENTS_LENGTH; t++) {
          assert_int_equal(first.inverses[row][k][first.orders[row][k][t]], t);
          assert_true(t < length || first.orders[row][k][t] == t);
        }
      for (int t = length; t < EVENTS_LENGTH; t++)
        for (int i = 0; i < HR_EVENT_WIDTH; i++)
          assert_true(first.vectors[row][t][i] == 0);
    }
    batch_fill(o.data, sample + 18, false, &later);
    other += memcmp(&first, &later, sizeof first) != 0;
  }
  assert_true(other == 9);
  batch_fill(o.data, 0, true, &first);
  batch_fill(o.data, 6, true, &again);
  assert_memory_equal(&first, &again, sizeof first);
  assert_int_equal(first.labels[0], 18 % 8);
  events_close(&o);
}

/* Without augmentation and with all vectors a sample is as it lies, its length the interval's; part of it is in order.
 */
static void test_draws(void **state) {
  (void)state;
  enum { N = 40, L = 16 };
  float rows[2 * N * HR_EVENT_ROW], vectors[2 * N * HR_EVENT_WIDTH], places[3 * 2 * N], room[N * 200];
  hr_event_interval intervals[] = {{0, N}, {N, 0}, {N, N}};
  hr_event_sample sample = {.n_intervals = 3};
  hr_events e = {.spill = -1, .rows = rows, .intervals = intervals, .n_intervals = 3, .most_rows = N};
  hr_error err = {0};
  for (int i = 0; i < 2 * N; i++)
    for (int k = 0; k < HR_EVENT_ROW; k++)
      rows[i * HR_EVENT_ROW + k] = (float)i;
  e.settings = (hr_events_settings){.train_ratio = 0.3, .eval_ratio = 1, .augment = true, .drop = 0.1};
  hr_event_draw d = {.events = &e, .sample = &sample, .key = {1, 1}, .high = 5, .length = 2 * N};
  assert_int_equal(hr__event_draw_length(&d), 2 * N);
  assert_int_equal(hr__event_draw(&d, room, vectors, places, &err), HR_OK);
  for (int i = 0; i < 2 * N; i++)
    assert_true(vectors[i * HR_EVENT_WIDTH] == (float)i && places[i] == (float)i);
  int seen[2 * N] = {0};
  d.training = true; /* 12 of each interval, of which 2 of 24 are dropped */
  for (d.high = 0; d.high < 400; d.high++) {
    assert_int_equal(hr__event_draw_length(&d), 22);
    assert_int_equal(hr__event_draw(&d, room, vectors, places, &err), HR_OK);
    int halves = 0;
    for (int i = 0; i < 22; i++) {
      int row = (int)vectors[i * HR_EVENT_WIDTH];
      assert_true(i == 0 || row > (int)vectors[(i - 1) * HR_EVENT_WIDTH]);
      halves += row < N;
      seen[row]++;
    }
    assert_true(halves >= 10 && halves <= 12);
    assert_true(vectors[22 * HR_EVENT_WIDTH] == 0);
  }
  for (int i = 0; i < 2 * N; i++) /* 110 in the mean, with a deviation of 9 */
    assert_true(seen[i] > 70 && seen[i] < 150);
  d.length = L;
  assert_int_equal(hr__event_draw_length(&d), L);
  assert_int_equal(hr__event_draw(&d, room, vectors, places, &err), HR_OK);
  for (int i = 1; i < L; i++)
    assert_true(vectors[i * HR_EVENT_WIDTH] > vectors[(i - 1) * HR_EVENT_WIDTH]);
}

static void test_buckets(void **state) {
  (void)state;
  events_data o;
  static const int64_t buckets[] = {19, 21, EVENTS_LENGTH};
  static events_batch b;
  int counts[3] = {0};
  open_or_fail(&o, (const char *const[]){GENERATED, "data.events.drop=0", "data.buckets=[19, 21, 24]", NULL}, buckets,
               3, true);
  uint64_t rows = hr__data_epoch_rows(o.data);
  for (uint64_t row = 0; row < 2 * rows; row += EVENTS_BATCH) {
    hr_micro micro = hr__data_micro(o.data, row, false);
    counts[micro.bucket]++;
    assert_int_equal(micro.length, buckets[micro.bucket]);
  }
  assert_true((counts[0] > 0) + (counts[1] > 0) + (counts[2] > 0) >= 2);
  batch_fill(o.data, 0, true, &b);
  events_close(&o);
}

/* A file as GestureRecognitionNew writes it; where there is no libhdf5 a message says what to install. */
static void test_hdf5(void **state) {
  (void)state;
  events_data o;
  hr_error err = {0};
  static events_batch b;
  hr_status status = events_open(
      &o,
      (const char *const[]){"data.path=" HR_SOURCE_DIR "/test/data/events/small.h5", "data.events.augment=false", NULL},
      NULL, 0, false, &err);
  if (status == HR_UNSUPPORTED) {
    assert_non_null(strstr(err.remedy, "libhdf5-"));
    events_close(&o);
    print_message("skipped: %s\n", err.message);
    skip();
  }
  if (status != HR_OK) fail_msg("%s: %s", err.place, err.message);
  assert_int_equal(hr__data_train_samples(o.data), 3);
  bool seen[3] = {false};
  for (uint64_t sample = 0; sample < 3; sample++) {
    static const int lengths[3] = {5, 2, 5}, labels[3] = {1, 0, 2};
    uint64_t entry = hr__data_entry(o.data, sample) & 0xff;
    batch_fill(o.data, sample, false, &b);
    seen[entry] = true;
    assert_int_equal(length_of(&b, 0), lengths[entry]);
    assert_int_equal(b.labels[0], labels[entry]);
    assert_true(b.vectors[0][0][1] == (float)(1000 * entry + 1) &&
                b.vectors[0][0][HR_EVENT_DIM + 1] == -b.vectors[0][0][1]);
  }
  assert_true(seen[0] && seen[1] && seen[2]);
  events_close(&o);
}

/* What prepare writes gives the samples that streams in memory give. */
static void test_prepared(void **state) {
  (void)state;
  events_data made, read;
  hr_recipe *recipe = NULL;
  hr_error err = {0};
  hr_prepared prepared;
  hr_arena arena = {0};
  char folder[4096], path[4200], eval_path[4200];
  static events_batch a, b;
  static const char *const settings[] = {GENERATED, "data.eval_fraction=0.25", NULL};
  snprintf(folder, sizeof folder, "%s/events-%ld", HR_BINARY_DIR, (long)getpid());
  assert_int_equal(events_recipe(&recipe, settings, &err), HR_OK);
  assert_int_equal(hr__events_prepare(recipe, 3, folder, &prepared, &arena, &err), HR_OK);
  assert_true(prepared.train.samples == 18 && prepared.held.samples == 6 && prepared.train.vectors > 18 * 10);
  snprintf(path, sizeof path, "data.path=%s", prepared.train.path);
  snprintf(eval_path, sizeof eval_path, "data.eval_path=%s", prepared.held.path);
  open_or_fail(&made, settings, NULL, 0, true);
  open_or_fail(&read, (const char *const[]){path, eval_path, NULL}, NULL, 0, true);
  assert_int_equal(hr__data_train_samples(read.data), 18);
  for (uint64_t sample = 0; sample < 36; sample += EVENTS_BATCH) {
    batch_fill(made.data, sample, false, &a);
    batch_fill(read.data, sample, false, &b);
    assert_memory_equal(&a, &b, sizeof a);
  }
  int64_t of_a_row;
  assert_int_equal(hr__data_items(made.data, &of_a_row), 6);
  assert_int_equal(hr__data_items(read.data, &of_a_row), 6);
  for (uint64_t i = 0; i < 6; i++)
    assert_string_equal(hr__data_item(read.data, i), hr_event_motions[(18 + i) % 8]);
  /* A classifier that is right but for one sample, the third. */
  float logits[6][EVENTS_CLASSES] = {{0}};
  for (int i = 0; i < 6; i++)
    logits[i][i == 2 ? 7 : (18 + i) % 8] = 1;
  hr_judged judged;
  assert_int_equal(hr__data_judge(read.data, &logits[0][0], EVENTS_CLASSES, &judged, &err), HR_OK);
  assert_string_equal(judged.metric[0].name, "accuracy");
  assert_true(fabs(judged.metric[0].value - 5.0 / 6) < 1e-12);
  assert_int_equal(judged.confusion->counts[4][7], 1);
  assert_int_equal(judged.confusion->counts[3][3], 1);
  assert_string_equal(judged.confusion->names[4], "clockwise");
  events_close(&made);
  events_close(&read);
  unlink(prepared.train.path);
  unlink(prepared.held.path);
  rmdir(folder);
  hr__arena_fini(&arena);
  hr__recipe_destroy(recipe);
}

static hr_status open_body(void *arg, hr_error *err) {
  events_data o;
  hr_status status = events_open(&o, arg, NULL, 0, true, err);
  events_close(&o);
  return status;
}

static void test_faults(void **state) {
  (void)state;
  static const char *const settings[] = {"data.events.generate=4", "data.events.ratio_of_vectors=0.02", NULL};
  assert_true(hr_test_each_fault(open_body, (void *)settings) > 20);
}

int main(void) {
  hr_test_faults_install();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_vectors), cmocka_unit_test(test_orders),   cmocka_unit_test(test_choose),
      cmocka_unit_test(test_samples), cmocka_unit_test(test_draws),    cmocka_unit_test(test_buckets),
      cmocka_unit_test(test_hdf5),    cmocka_unit_test(test_prepared), cmocka_unit_test(test_faults),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
