/* The reader: whatever is read ahead, by however many threads, batches are the same; and faults are told by the batch
 * that has them. */
#include <string.h>
#include <unistd.h>

#include "data/reader.h"
#include "part_data.h"
#include "support/faults.h"

enum { LENGTH = 16, BATCH = 5, SLOT = 2 * BATCH * LENGTH * 4 + 128 };
static const int64_t buckets[] = {4, 8, LENGTH};

typedef struct desk {
  fixture f;
  hr_reader *reader;
  _Alignas(64) char slots[HR_BATCH_SLOTS][SLOT];
} desk;

static void text_make(char *text, size_t bytes) {
  for (size_t i = 0; i < bytes; i++)
    text[i] = i % 11 == 10 || i % 31 == 5 ? '\n' : (char)('a' + i % 23);
}

static void desk_open(desk *d, const char *source, int workers) {
  char text[700];
  hr_error err = {0};
  bool lines = strcmp(source, "lines") == 0;
  text_make(text, sizeof text);
  hr_fields fields[3];
  d->f = (fixture){0};
  recipe_make(&d->f, source);
  file_put(d->f.path, text, sizeof text);
  const int64_t *lengths = lines ? buckets : buckets + 2;
  int count = lines ? 3 : 1;
  token_fields(fields, BATCH, lengths, count, VOCABULARY, false);
  hr_data_shape shape = {.seed = 3,
                         .eval = true,
                         .batch = BATCH,
                         .buckets = lengths,
                         .fields = fields,
                         .n_buckets = count,
                         .fillers = workers > 0 ? workers : 1};
  assert_int_equal(hr__data_open(d->f.recipe, &shape, &d->f.data, &err), HR_OK);
  char *const slots[] = {d->slots[0], d->slots[1]};
  assert_int_equal(hr__reader_create(d->f.data, BATCH, workers, slots, &d->reader, &err), HR_OK);
}

static void desk_close(desk *d) {
  hr__reader_destroy(d->reader);
  fixture_close(&d->f);
}

/* The slot holds what filling the micro-batch by itself gives. */
static void slot_expect(desk *d, const hr_micro *micro, int slot) {
  int32_t tokens[BATCH * LENGTH], targets[BATCH * LENGTH];
  hr_error err = {0};
  assert_int_equal(fill(d->f.data, micro, tokens, targets, NULL, &err), HR_OK);
  size_t begin[HR_FIELDS], bytes = (size_t)(BATCH * micro->length) * sizeof *tokens;
  hr__fields_place(hr__data_fields(d->f.data, micro->bucket), begin);
  assert_memory_equal(d->slots[slot] + begin[0], tokens, bytes);
  assert_memory_equal(d->slots[slot] + begin[1], targets, bytes);
}

static void get(desk *d, const hr_micro *micro, int *slot) {
  hr_error err = {0};
  if (hr__reader_get(d->reader, micro, slot, &err) != HR_OK) fail_msg("%s", err.message);
  slot_expect(d, micro, *slot);
}

/* In order, out of order, with evaluation between, with what was read in vain. */
static void test_same_by_any_number_of_threads(void **state) {
  (void)state;
  static const char *const sources[] = {"synthetic", "text", "lines"};
  static const int workers[] = {0, 1, 3, 8};
  for (int s = 0; s < 3; s++)
    for (int w = 0; w < 4; w++) {
      desk d;
      desk_open(&d, sources[s], workers[w]);
      for (uint64_t i = 0; i < 12; i++) {
        int slot;
        hr_micro now = hr__data_micro(d.f.data, i * BATCH, false);
        hr_micro behind = hr__data_micro(d.f.data, (i + 1) * BATCH, false);
        get(&d, &now, &slot);
        hr__reader_ahead(d.reader, &behind);
        slot_expect(&d, &now, slot); /* what was given stays while the next one is read */
        if (i % 4 == 1) {
          hr_micro eval = hr__data_micro(d.f.data, i * BATCH, true);
          get(&d, &eval, &slot);
        }
        if (i % 4 == 2) {
          hr_micro other = hr__data_micro(d.f.data, (i + 9) * BATCH, false);
          hr__reader_ahead(d.reader, &other);
        }
      }
      desk_close(&d);
    }
}

/* A file that becomes shorter is told by the batch that misses it, not by the one before; put back, it can be read. */
static void test_faults_belong_to_their_batch(void **state) {
  (void)state;
  for (int workers = 0; workers < 3; workers++) {
    desk d;
    char text[700];
    int slot;
    hr_error err = {0};
    desk_open(&d, "text", workers);
    hr_micro first = hr__data_micro(d.f.data, 0, false), second = hr__data_micro(d.f.data, BATCH, false);
    get(&d, &first, &slot);
    assert_int_equal(truncate(d.f.path, 20), 0);
    assert_int_equal(hr__reader_get(d.reader, &first, &slot, &err), HR_OK); /* there already: not read again */
    hr__reader_ahead(d.reader, &second);
    assert_int_equal(hr__reader_get(d.reader, &second, &slot, &err), HR_BAD_INPUT);
    assert_non_null(strstr(err.message, "shorter"));
    text_make(text, sizeof text);
    int same = truncate(d.f.path, 0);
    assert_int_equal(same, 0);
    file_put(d.f.path, text, sizeof text);
    get(&d, &second, &slot);
    desk_close(&d);
  }
}

static hr_status create_body(void *arg, hr_error *err) {
  desk *d = arg;
  char *const slots[] = {d->slots[0], d->slots[1]};
  hr_reader *reader;
  HR_TRY(hr__reader_create(d->f.data, BATCH, 2, slots, &reader, err));
  hr__reader_destroy(reader);
  return HR_OK;
}

static void test_out_of_memory(void **state) {
  (void)state;
  desk d;
  desk_open(&d, "synthetic", 2);
  hr_test_each_fault(create_body, &d);
  desk_close(&d);
}

int main(void) {
  hr_test_faults_install();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_same_by_any_number_of_threads),
      cmocka_unit_test(test_faults_belong_to_their_batch),
      cmocka_unit_test(test_out_of_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
