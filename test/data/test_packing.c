/* Packing: bins that hold every document once and are full, samples with their starts and targets, what is held out,
 * and files of a text as documents. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/random.h"
#include "data/bins.h"
#include "part_data.h"
#include "support/faults.h"

enum { LENGTH = 8 };

static void bins_check(const uint32_t *lengths, uint64_t documents, uint32_t size, uint64_t expected) {
  hr_bins bins;
  assert_int_equal(hr__bins_fill(lengths, documents, size, &bins, NULL), HR_OK);
  bool *seen = calloc(documents + 1, sizeof *seen);
  uint64_t total = 0, held = 0;
  for (uint64_t b = 0; b < bins.count; b++) {
    uint64_t used = 0;
    assert_true(bins.begins[b] < bins.begins[b + 1]);
    for (uint64_t i = bins.begins[b]; i < bins.begins[b + 1]; i++) {
      assert_false(seen[bins.items[i]]);
      seen[bins.items[i]] = true;
      used += lengths[bins.items[i]];
      held++;
    }
    assert_true(used <= size);
  }
  for (uint64_t i = 0; i < documents; i++)
    total += lengths[i];
  assert_int_equal(held, documents);
  if (expected > 0) assert_int_equal(bins.count, expected);
  /* best-fit decreasing never takes more than 11/9 of the best and one bin */
  assert_true(9 * bins.count <= 11 * ((total + size - 1) / size) + 9 || expected > 0);
  free(seen);
  hr__bins_fini(&bins);
}

static void test_bins(void **state) {
  (void)state;
  bins_check((const uint32_t[]){8, 1, 7, 4, 4}, 5, 8, 3);
  bins_check((const uint32_t[]){5, 5, 5}, 3, 8, 3);
  bins_check((const uint32_t[]){0}, 0, 8, 0);
  bins_check((const uint32_t[]){1, 1, 1}, 3, 1, 3);
  enum { MANY = 20000 };
  uint32_t *lengths = malloc(MANY * sizeof *lengths);
  for (uint32_t size = 50; size < 100000; size *= 17) {
    hr_random_key key = {.seed = 5, .stream = size};
    for (uint64_t i = 0; i < MANY; i++)
      lengths[i] = 1 + (uint32_t)hr__random_below(key, 0, i, size / 3);
    bins_check(lengths, MANY, size, 0);
  }
  free(lengths);
}

typedef struct opening {
  const char *source, *path;
  bool eval;
  int64_t batch;
} opening;

static hr_status open_try(fixture *f, const opening *o, hr_error *err) {
  char path[9000], source[64];
  *f = (fixture){0};
  snprintf(path, sizeof path, "data.path=%s", o->path);
  snprintf(source, sizeof source, "data.source=%s", o->source);
  const hr_key_table tables[] = {hr_data_keys, hr_masking_keys};
  static const char text[] = "data: { sequence_length: 8, tokenizer: bytes, packing: true, eval_fraction: 0.4 }\n";
  HR_TRY(hr__recipe_parse("r.yaml", HR_BINARY_DIR, text, sizeof text - 1, (const char *const[]){path, source}, 2,
                          tables, 2, &f->recipe, err));
  static const int64_t buckets[] = {LENGTH};
  hr_fields fields[1];
  token_fields(fields, o->batch, buckets, 1, VOCABULARY, false);
  hr__field_add(fields,
                (hr_field){.name = "starts", .purpose = HR_FOR_STARTS, .desc = {HR_I32, 2, {o->batch, LENGTH}}});
  hr_data_shape shape = {.seed = 3,
                         .eval = o->eval,
                         .batch = o->batch,
                         .buckets = buckets,
                         .fields = fields,
                         .n_buckets = 1,
                         .fillers = 1};
  return hr__data_open(f->recipe, &shape, &f->data, err);
}

static char name[64], other[64];

static void put(const char *text, const char *more) {
  snprintf(name, sizeof name, "packing-%ld.txt", (long)getpid());
  snprintf(other, sizeof other, "packing-%ld-2.txt", (long)getpid());
  char path[4200];
  snprintf(path, sizeof path, "%s/%s", HR_BINARY_DIR, name);
  file_put(path, text, strlen(text));
  snprintf(path, sizeof path, "%s/%s", HR_BINARY_DIR, other);
  file_put(path, more, strlen(more));
}

static void gone(void) {
  char path[4200];
  snprintf(path, sizeof path, "%s/%s", HR_BINARY_DIR, name);
  unlink(path);
  snprintf(path, sizeof path, "%s/%s", HR_BINARY_DIR, other);
  unlink(path);
}

/* A sample as three lines: tokens ('.': 0), targets ('-': none), starts. */
static void sample_is(const fixture *f, uint64_t sample, bool eval, const char *tokens, const char *targets,
                      const char *starts, int64_t own, int64_t counted) {
  int32_t in[3][LENGTH];
  char found[3][LENGTH + 1] = {{0}};
  hr_micro micro = hr__data_micro(f->data, sample, eval);
  assert_int_equal(micro.tokens, own);
  assert_int_equal(micro.targets, counted);
  assert_int_equal(hr__data_fill(f->data, &micro, 0, 1, 0, (void *const[HR_FIELDS]){in[0], in[1], in[2]}, NULL), HR_OK);
  for (int t = 0; t < LENGTH; t++) {
    found[0][t] = in[0][t] == 0 ? '.' : (char)in[0][t];
    found[1][t] = in[1][t] < 0 ? '-' : in[1][t] == '\n' ? '/' : (char)in[1][t];
    found[2][t] = (char)('0' + in[2][t]);
  }
  assert_string_equal(found[0], tokens);
  assert_string_equal(found[1], targets);
  assert_string_equal(found[2], starts);
}

static void test_samples(void **state) {
  (void)state;
  put("abc\ndefgh\n\nijklmnopqrst\n", "");
  fixture f;
  opening o = {.source = "lines", .path = name, .batch = 1};
  assert_int_equal(open_try(&f, &o, NULL), HR_OK);
  assert_int_equal(hr__data_train_samples(f.data), 2);
  uint64_t cut = hr__data_entry(f.data, 0) == 0 ? 0 : 1; /* the order of the epoch */
  sample_is(&f, cut, false, "ijklmnop", "jklmnopq", "00000000", 8, 8);
  sample_is(&f, 1 - cut, false, "defghabc", "efgh/bc/", "00000555", 8, 8);
  assert_non_null(strstr(hr__data_remark(f.data, false), "3 lines are packed into 2 samples, which are 100.0 % full"));
  assert_non_null(strstr(hr__data_remark(f.data, false), "1 are longer"));
  fixture_close(&f);
  gone();
}

static void test_padding_and_held_out(void **state) {
  (void)state;
  put("abc\nde\nfghij\nkl\nm\n", "");
  fixture f;
  opening o = {.source = "lines", .path = name, .batch = 1, .eval = true};
  assert_int_equal(open_try(&f, &o, NULL), HR_OK);
  assert_int_equal(hr__data_train_samples(f.data), 2); /* 5 + 3, and 2: those held out are not packed with them */
  assert_int_equal(hr__data_eval_samples(f.data), 1);
  uint64_t full = hr__data_entry(f.data, 0) == 0 ? 0 : 1;
  sample_is(&f, full, false, "fghijabc", "ghij/bc/", "00000555", 8, 8);
  sample_is(&f, 1 - full, false, "de......", "e/------", "00222222", 2, 2);
  sample_is(&f, 0, true, "klm.....", "l//-----", "00233333", 3, 3);
  fixture_close(&f);
  gone();
}

static void test_files_of_a_text(void **state) {
  (void)state;
  put("abcdef", "ghijklmnopq");
  char both[200];
  snprintf(both, sizeof both, "[%s, %s]", name, other);
  fixture f;
  opening o = {.source = "text", .path = both, .batch = 1};
  assert_int_equal(open_try(&f, &o, NULL), HR_OK);
  uint64_t first = hr__data_entry(f.data, 0) == 0 ? 0 : 1;
  sample_is(&f, first, false, "abcdefgh", "bcdef-hi", "00000066", 8, 7);
  sample_is(&f, 1 - first, false, "ijklmnop", "jklmnopq", "00000000", 8, 8);
  fixture_close(&f);
  gone();
}

static hr_status open_and_close(void *user, hr_error *err) {
  fixture f;
  hr_status status = open_try(&f, user, err);
  fixture_close(&f);
  return status;
}

static void test_faults(void **state) {
  (void)state;
  put("abc\ndefgh\n\nijklmnopqrst\n", "");
  opening o = {.source = "lines", .path = name, .batch = 1, .eval = true};
  assert_true(hr_test_each_fault(open_and_close, &o) > 10);
  gone();
}

int main(void) {
  hr_test_faults_install();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_bins),
      cmocka_unit_test(test_samples),
      cmocka_unit_test(test_padding_and_held_out),
      cmocka_unit_test(test_files_of_a_text),
      cmocka_unit_test(test_faults),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
