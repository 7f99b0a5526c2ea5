/* Tokens that were made elsewhere: every way they lie in files, documents by their end token, and files that are no
 * good. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "part_data.h"
#include "support/faults.h"

enum { LENGTH = 4, COUNT = 9 };

static char name[128];

/* Ids 100, 101, ... with 7 at places 3 and 4, as numbers of `width` bytes, with a header of .npy or without. */
static void ids_put(const char *ending, const char *type, size_t width, const char *shape) {
  unsigned char bytes[512] = {0};
  size_t used = 0;
  char path[4300];
  if (strcmp(ending, "npy") == 0) {
    char head[256];
    int length = snprintf(head, sizeof head, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }", type, shape);
    memcpy(bytes, "\x93NUMPY\x01\x00", 8);
    memset(bytes + 10, ' ', 118);
    memcpy(bytes + 10, head, (size_t)length);
    bytes[8] = 118;
    bytes[127] = '\n';
    used = 128;
  }
  for (int i = 0; i < COUNT; i++, used += width) {
    uint64_t id = i == 3 || i == 4 ? 7 : 100 + (uint64_t)i;
    memcpy(bytes + used, &id, width);
  }
  snprintf(name, sizeof name, "ids-%ld.%s", (long)getpid(), ending);
  snprintf(path, sizeof path, "%s/%s", HR_BINARY_DIR, name);
  file_put(path, bytes, used);
}

static void gone(void) {
  char path[4300];
  snprintf(path, sizeof path, "%s/%s", HR_BINARY_DIR, name);
  unlink(path);
}

typedef struct opening {
  const char *settings; /* behind "data: { source: ids, sequence_length: 4, " */
  int64_t vocabulary;
  bool starts;
} opening;

static hr_status open_try(fixture *f, const opening *o, hr_error *err) {
  char text[512];
  *f = (fixture){0};
  int length =
      snprintf(text, sizeof text, "data: { source: ids, sequence_length: 4, path: %s, %s }\n", name, o->settings);
  const hr_key_table tables[] = {hr_data_keys, hr_masking_keys};
  HR_TRY(hr__recipe_parse("r.yaml", HR_BINARY_DIR, text, (size_t)length, NULL, 0, tables, 2, &f->recipe, err));
  static const int64_t buckets[] = {LENGTH};
  hr_fields fields[1];
  token_fields(fields, 1, buckets, 1, o->vocabulary, false);
  if (o->starts)
    hr__field_add(fields, (hr_field){.name = "starts", .purpose = HR_FOR_STARTS, .desc = {HR_I32, 2, {1, LENGTH}}});
  hr_data_shape shape = {.seed = 3, .batch = 1, .buckets = buckets, .fields = fields, .n_buckets = 1, .fillers = 1};
  return hr__data_open(f->recipe, &shape, &f->data, err);
}

static void row_is(const fixture *f, uint64_t sample, const int32_t *tokens, const int32_t *targets,
                   const int32_t *starts) {
  int32_t in[3][LENGTH];
  hr_micro micro = hr__data_micro(f->data, sample, false);
  assert_int_equal(hr__data_fill(f->data, &micro, 0, 1, 0, (void *const[HR_FIELDS]){in[0], in[1], in[2]}, NULL), HR_OK);
  assert_memory_equal(in[0], tokens, sizeof in[0]);
  assert_memory_equal(in[1], targets, sizeof in[1]);
  if (starts) assert_memory_equal(in[2], starts, sizeof in[2]);
  int64_t counted = 0;
  for (int t = 0; t < LENGTH; t++)
    counted += targets[t] >= 0;
  assert_int_equal(micro.targets, counted);
}

static void windows_are(const opening *o) {
  fixture f;
  hr_error err = {0};
  if (open_try(&f, o, &err) != HR_OK) fail_msg("%s: %s", err.place, err.message);
  assert_int_equal(hr__data_train_samples(f.data), 2);
  uint64_t first = hr__data_entry(f.data, 0) == 0 ? 0 : 1;
  row_is(&f, first, (const int32_t[]){100, 101, 102, 7}, (const int32_t[]){101, 102, 7, 7}, NULL);
  row_is(&f, 1 - first, (const int32_t[]){7, 105, 106, 107}, (const int32_t[]){105, 106, 107, 108}, NULL);
  fixture_close(&f);
}

static void test_every_kind(void **state) {
  (void)state;
  static const struct {
    const char *type;
    size_t width;
  } kinds[] = {{"|u1", 1}, {"<u2", 2}, {"<i2", 2}, {"<u4", 4}, {"<i4", 4}, {"<i8", 8}, {"<u8", 8}};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    ids_put("npy", kinds[i].type, kinds[i].width, i % 2 ? "(9,)" : "(3, 3)");
    windows_are(&(opening){.settings = "workers: 1", .vocabulary = 109});
  }
  gone();
  ids_put("bin", "", 2, "");
  windows_are(&(opening){.settings = "id_type: u16", .vocabulary = 109});
  ids_put("bin", "", 4, "");
  windows_are(&(opening){.settings = "id_type: u32", .vocabulary = 109});
  gone();
}

/* An end token ends a document; one by itself is a document of one token. */
static void test_documents(void **state) {
  (void)state;
  fixture f;
  opening o = {.settings = "id_type: u16, packing: true, end_id: 7", .vocabulary = 200, .starts = true};
  ids_put("bin", "", 2, "");
  assert_int_equal(open_try(&f, &o, NULL), HR_OK);
  uint64_t first = hr__data_entry(f.data, 0) == 0 ? 0 : 1;
  row_is(&f, first, (const int32_t[]){100, 101, 102, 7}, (const int32_t[]){101, 102, 7, -1},
         (const int32_t[]){0, 0, 0, 0});
  row_is(&f, 1 - first, (const int32_t[]){7, 105, 106, 107}, (const int32_t[]){-1, 106, 107, 108},
         (const int32_t[]){0, 1, 1, 1});
  fixture_close(&f);
  o.settings = "id_type: u16, packing: true, tokenizer: bytes"; /* no end token is known: the file is one document */
  assert_int_equal(open_try(&f, &o, NULL), HR_OK);
  row_is(&f, first, (const int32_t[]){100, 101, 102, 7}, (const int32_t[]){101, 102, 7, 7},
         (const int32_t[]){0, 0, 0, 0});
  fixture_close(&f);
  gone();
}

static void fails(const char *settings, int64_t vocabulary, const char *message) {
  fixture f;
  hr_error err = {0};
  assert_int_equal(open_try(&f, &(opening){.settings = settings, .vocabulary = vocabulary}, &err), HR_BAD_INPUT);
  if (!strstr(err.message, message) || !strstr(err.place, "ids-")) fail_msg("%s: %s", err.place, err.message);
  fixture_close(&f);
}

static void test_refused(void **state) {
  (void)state;
  ids_put("bin", "", 2, "");
  fails("workers: 1", 200, "does not say how wide");
  fails("id_type: u32", 200, "18 bytes are no whole number of ids");
  fails("id_type: u16", 108, "id number 8 is 108");
  gone();
  ids_put("npy", "<u2", 2, "(99,)"); /* cut off */
  fails("workers: 1", 200, "");
  ids_put("npy", "<f4", 4, "(9,)");
  fails("workers: 1", 200, "");
  ids_put("npy", "<i2", 2, "(3,)"); /* fewer than a window, with bytes that are not its own */
  fails("workers: 1", 200, "");
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
  ids_put("npy", "<u2", 2, "(9,)");
  opening o = {.settings = "packing: true, end_id: 7", .vocabulary = 200, .starts = true};
  assert_true(hr_test_each_fault(open_and_close, &o) > 10);
  gone();
}

int main(void) {
  hr_test_faults_install();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_kind),
      cmocka_unit_test(test_documents),
      cmocka_unit_test(test_refused),
      cmocka_unit_test(test_faults),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
