/* GGUF: a file of the Python package, every type to the bit, and files that are wrong in every way. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "format/gguf.h"
#include "support/faults.h"

static const char golden[] = HR_SOURCE_DIR "/test/format/golden.gguf";

static int memory_is_back(void **state) {
  (void)state;
  return hr_test_live_bytes() ? -1 : 0;
}

static hr_gguf *opened(void) {
  hr_gguf *file = NULL;
  hr_error err = {0};
  if (hr__gguf_open(golden, &file, &err) != HR_OK) fail_msg("%s: %s", err.place, err.message);
  return file;
}

static void values(void **state) {
  (void)state;
  hr_gguf *file = opened();
  assert_int_equal(hr__gguf_version(file), 3);
  static const struct {
    const char *key;
    int64_t value;
  } integers[] = {{"k.u8", 200},         {"k.i8", -100},         {"k.u16", 60000},     {"k.i16", -30000},
                  {"k.u32", 4000000000}, {"k.i32", -2000000000}, {"k.u64", INT64_MAX}, {"k.i64", INT64_MIN}};
  int64_t integer;
  double real;
  bool truth;
  hr_gguf_text text;
  for (size_t i = 0; i < sizeof integers / sizeof integers[0]; i++) {
    const hr_gguf_value *value = hr__gguf_value(file, integers[i].key);
    assert_true(hr__gguf_integer(value, 0, &integer));
    assert_int_equal(integer, integers[i].value);
    assert_false(hr__gguf_integer(value, 1, &integer));
    assert_false(hr__gguf_string(value, 0, &text));
  }
  assert_true(hr__gguf_real(hr__gguf_value(file, "k.f32"), 0, &real) && real == (double)0.1f);
  assert_true(hr__gguf_real(hr__gguf_value(file, "k.f64"), 0, &real) && real == 0.1);
  assert_false(hr__gguf_integer(hr__gguf_value(file, "k.f64"), 0, &integer));
  assert_true(hr__gguf_bool(hr__gguf_value(file, "k.bool"), 0, &truth) && truth);
  assert_true(hr__gguf_string(hr__gguf_value(file, "k.string"), 0, &text));
  assert_int_equal(text.bytes, 7);
  assert_memory_equal(text.text, "Z\xc3\xbcrich", 7);
  const hr_gguf_value *numbers = hr__gguf_value(file, "k.numbers"), *texts = hr__gguf_value(file, "k.texts");
  assert_int_equal(numbers->count, 3);
  assert_true(hr__gguf_integer(numbers, 1, &integer) && integer == -2);
  assert_int_equal(texts->count, 3);
  assert_true(hr__gguf_string(texts, 1, &text) && text.bytes == 0);
  assert_true(hr__gguf_string(texts, 2, &text) && text.bytes == 3);
  assert_null(hr__gguf_value(file, "absent"));
  assert_false(hr__gguf_integer(NULL, 0, &integer));
  hr__gguf_close(file);
}

/* Every bit is that of the reference. */
static void types(void **state) {
  (void)state;
  hr_gguf *file = opened();
  size_t compared = 0;
  for (size_t i = 0; i < hr__gguf_count(file); i++) {
    const hr_gguf_tensor *tensor = hr__gguf_at(file, i), *reference;
    char name[64];
    snprintf(name, sizeof name, "%s.f32", tensor->name);
    if (!(reference = hr__gguf_find(file, name))) continue;
    assert_int_equal(tensor->rank, 2);
    assert_int_equal(tensor->dim[0], 3);
    assert_int_equal(tensor->elements, reference->elements);
    size_t bytes = (size_t)tensor->elements * sizeof(float);
    float *made = malloc(bytes), *expected = malloc(bytes);
    hr_error err = {0};
    if (hr__gguf_read_f32(file, tensor, 0, tensor->elements, made, &err) != HR_OK) fail_msg("%s", err.message);
    assert_int_equal(hr__gguf_read_f32(file, reference, 0, tensor->elements, expected, &err), HR_OK);
    if (memcmp(made, expected, bytes) != 0) fail_msg("%s differs", tensor->name);
    /* A row in the middle alone. */
    assert_int_equal(hr__gguf_read_f32(file, tensor, tensor->dim[1], tensor->dim[1], made, &err), HR_OK);
    assert_memory_equal(made, expected + tensor->dim[1], bytes / 3);
    assert_int_equal(hr__gguf_read_f32(file, tensor, tensor->dim[1], tensor->elements, made, &err), HR_USAGE);
    free(made);
    free(expected);
    compared++;
  }
  assert_int_equal(compared, 10);
  hr__gguf_close(file);
}

/* A small file, written by hand. */
typedef struct image {
  unsigned char bytes[4096];
  size_t count;
} image;

static void put(image *to, uint64_t value, size_t bytes) {
  for (size_t i = 0; i < bytes; i++)
    to->bytes[to->count++] = (unsigned char)(value >> 8 * i & 0xff);
}
static void put_text(image *to, const char *text) {
  put(to, strlen(text), 8);
  memcpy(to->bytes + to->count, text, strlen(text));
  to->count += strlen(text);
}
static void put_tensor(image *to, const char *name, uint64_t first, uint64_t second, uint32_t type, uint64_t offset) {
  put_text(to, name);
  put(to, 2, 4);
  put(to, first, 8);
  put(to, second, 8);
  put(to, type, 4);
  put(to, offset, 8);
}
static image begin(uint32_t version, uint64_t tensors, uint64_t keys) {
  image made = {.count = 0};
  put(&made, 0x46554747, 4);
  put(&made, version, 4);
  put(&made, tensors, 8);
  put(&made, keys, 8);
  return made;
}
static void data(image *to, size_t bytes) {
  while (to->count % 32)
    put(to, 0, 1);
  to->count += bytes;
}

static void refused(const image *file, hr_status expected, const char *message) {
  hr_gguf *parsed = NULL;
  hr_error err = {0};
  hr_status status = hr__gguf_parse("t.gguf", file->bytes, file->count, file->count, &parsed, &err);
  if (status != expected || !strstr(err.message, message))
    fail_msg("%s: '%s' instead of '%s'", hr_status_name(status), err.message, message);
  assert_null(parsed);
  assert_string_equal(err.place, "t.gguf");
}

static void refusals(void **state) {
  (void)state;
  image file = begin(3, 0, 0);
  file.bytes[0] = 'g';
  refused(&file, HR_BAD_INPUT, "not a GGUF file");
  file = begin(1, 0, 0);
  refused(&file, HR_UNSUPPORTED, "GGUF version 1; 2 and 3 are read");
  file = begin(0x03000000, 0, 0);
  refused(&file, HR_UNSUPPORTED, "a big-endian GGUF file");
  file = begin(3, 1ull << 40, 0);
  refused(&file, HR_BAD_INPUT, "1099511627776 tensors");
  file = begin(3, 0, 1);
  refused(&file, HR_BAD_INPUT, "the header ends at byte 24");
  put(&file, UINT64_MAX, 8);
  refused(&file, HR_BAD_INPUT, "a text of 18446744073709551615 bytes");
  file = begin(3, 0, 1);
  put_text(&file, "k");
  put(&file, 13, 4);
  refused(&file, HR_BAD_INPUT, "\"k\" is of type 13, which is unknown");
  file = begin(3, 0, 1);
  put_text(&file, "k");
  put(&file, HR_GGUF_ARRAY, 4);
  put(&file, HR_GGUF_STRING, 4);
  put(&file, 1 << 20, 8);
  refused(&file, HR_BAD_INPUT, "the header ends before its 1048576 texts do");
  file = begin(3, 0, 1);
  put_text(&file, "k");
  put(&file, HR_GGUF_ARRAY, 4);
  put(&file, HR_GGUF_ARRAY, 4);
  put(&file, 1, 8);
  refused(&file, HR_BAD_INPUT, "an array of arrays");
  file = begin(3, 0, 1);
  put_text(&file, "k");
  put(&file, HR_GGUF_BOOL, 4);
  put(&file, 2, 1);
  refused(&file, HR_BAD_INPUT, "neither true nor false");
  file = begin(3, 0, 1);
  put_text(&file, "\xff");
  refused(&file, HR_BAD_INPUT, "a key is not UTF-8 text");
  file = begin(3, 0, 2);
  for (int i = 0; i < 2; i++) {
    put_text(&file, "k");
    put(&file, HR_GGUF_U8, 4);
    put(&file, 1, 1);
  }
  refused(&file, HR_BAD_INPUT, "key \"k\" is there twice");
  file = begin(3, 0, 1);
  put_text(&file, "general.alignment");
  put(&file, HR_GGUF_U32, 4);
  put(&file, 24, 4);
  refused(&file, HR_BAD_INPUT, "general.alignment is not a power of two");
}

static void tensors_refused(void **state) {
  (void)state;
  image file = begin(2, 1, 0);
  put_tensor(&file, "a", 4, 2, 0, 0);
  data(&file, 32);
  hr_gguf *parsed = NULL;
  hr_error err = {0};
  assert_int_equal(hr__gguf_parse("t.gguf", file.bytes, file.count, file.count, &parsed, &err), HR_OK);
  const hr_gguf_tensor *tensor = hr__gguf_find(parsed, "a");
  assert_int_equal(tensor->dim[0], 2); /* the other way round than in the file */
  assert_int_equal(tensor->dim[1], 4);
  float out[8];
  assert_int_equal(hr__gguf_read_f32(parsed, tensor, 0, 8, out, &err), HR_USAGE); /* only a header */
  hr__gguf_close(parsed);
  file.count--;
  refused(&file, HR_BAD_INPUT, "tensor \"a\" ends at data byte 32, but the file has 31: it is cut off");
  file = begin(3, 1, 0);
  put_tensor(&file, "a", 4, 2, 77, 0);
  refused(&file, HR_UNSUPPORTED, "tensor \"a\" is of type 77, which is unknown");
  file = begin(3, 1, 0);
  put_tensor(&file, "a", 33, 2, 8, 0);
  refused(&file, HR_BAD_INPUT, "rows of 33 elements do not fill blocks of 32 (Q8_0)");
  file = begin(3, 1, 0);
  put_tensor(&file, "a", 1ull << 40, 1ull << 40, 0, 0);
  refused(&file, HR_BAD_INPUT, "more elements than can be counted");
  file = begin(3, 1, 0);
  put_tensor(&file, "a", 1ull << 31, 1ull << 31, 0, UINT64_MAX - 31);
  refused(&file, HR_BAD_INPUT, "more bytes than can be counted");
  file = begin(3, 1, 0);
  put_tensor(&file, "a", 4, 2, 0, 8);
  data(&file, 64);
  refused(&file, HR_BAD_INPUT, "begins at data byte 8, which is no multiple of 32");
  file = begin(3, 2, 0);
  put_tensor(&file, "a", 4, 4, 0, 0);
  put_tensor(&file, "b", 4, 2, 0, 32);
  data(&file, 64);
  refused(&file, HR_BAD_INPUT, "tensor \"b\" overlaps another one");
  file = begin(3, 2, 0);
  put_tensor(&file, "a", 4, 2, 0, 0);
  put_tensor(&file, "a", 4, 2, 0, 32);
  data(&file, 64);
  refused(&file, HR_BAD_INPUT, "tensor \"a\" is there twice");
  file = begin(3, 1, 0);
  put_text(&file, "a");
  put(&file, 5, 4);
  refused(&file, HR_BAD_INPUT, "tensor \"a\" has 5 dims");
}

/* However long the header is, and wherever the file is cut. */
static void cut_anywhere(void **state) {
  (void)state;
  FILE *whole = fopen(golden, "rb");
  static unsigned char bytes[1 << 15];
  size_t count = fread(bytes, 1, sizeof bytes, whole);
  fclose(whole);
  for (size_t cut = 0; cut < count; cut += cut < 1500 ? 1 : 97) {
    hr_gguf *file = NULL;
    hr_error err = {0};
    unsigned char *exact = malloc(cut + 1);
    memcpy(exact, bytes, cut);
    assert_int_equal(hr__gguf_parse("t.gguf", exact, cut, cut, &file, &err), HR_BAD_INPUT);
    free(exact);
  }
}

/* Settings and tensors behind long lists, with the lists and without; and of a file that ends anywhere. */
static void lists_expect(const char *path, bool lean, int texts) {
  hr_gguf *parsed = NULL;
  hr_error err = {0};
  hr_gguf_text text;
  int64_t number;
  hr_status status = lean ? hr__gguf_open_lean(path, &parsed, &err) : hr__gguf_open(path, &parsed, &err);
  if (status != HR_OK) fail_msg("%s", err.message);
  const hr_gguf_value *words = hr__gguf_value(parsed, "texts"), *numbers = hr__gguf_value(parsed, "numbers");
  assert_true(words->kind == HR_GGUF_ARRAY && words->item == HR_GGUF_STRING);
  assert_int_equal(words->count, lean ? 0 : texts);
  assert_int_equal(hr__gguf_string(words, (size_t)texts - 1, &text), !lean);
  if (!lean) assert_memory_equal(text.text, "words", 5);
  assert_int_equal(hr__gguf_integer(numbers, (size_t)texts - 1, &number), !lean);
  assert_true(hr__gguf_integer(hr__gguf_value(parsed, "layers"), 1, &number) && number == 9);
  assert_int_equal(hr__gguf_count(parsed), 1);
  unsigned char data[32];
  assert_int_equal(hr__gguf_read(parsed, hr__gguf_find(parsed, "a"), 0, data, sizeof data, &err), HR_OK);
  hr__gguf_close(parsed);
}

/* A header longer than the window it is read through. */
static void long_header(void **state) {
  (void)state;
  char path[] = "/tmp/hr_gguf_XXXXXX";
  int fd = mkstemp(path);
  image file = begin(3, 1, 3);
  put_text(&file, "texts");
  put(&file, HR_GGUF_ARRAY, 4);
  put(&file, HR_GGUF_STRING, 4);
  enum { COUNT = 200000 };
  put(&file, COUNT, 8);
  assert_int_equal(write(fd, file.bytes, file.count), (ssize_t)file.count);
  image items = {.count = 0};
  for (int i = 0; i < 250; i++)
    put_text(&items, "words");
  for (int i = 0; i < COUNT / 250; i++)
    assert_int_equal(write(fd, items.bytes, items.count), (ssize_t)items.count);
  off_t before = lseek(fd, 0, SEEK_CUR);
  image behind = {.count = 0};
  put_text(&behind, "numbers");
  put(&behind, HR_GGUF_ARRAY, 4);
  put(&behind, HR_GGUF_U16, 4);
  put(&behind, COUNT, 8);
  assert_int_equal(write(fd, behind.bytes, behind.count), (ssize_t)behind.count);
  assert_int_equal(lseek(fd, 2 * COUNT, SEEK_CUR), before + (off_t)behind.count + 2 * COUNT); /* zeros */
  behind.count = 0;
  put_text(&behind, "layers");
  put(&behind, HR_GGUF_ARRAY, 4);
  put(&behind, HR_GGUF_U32, 4);
  put(&behind, 2, 8);
  put(&behind, 7, 4);
  put(&behind, 9, 4);
  put_tensor(&behind, "a", 4, 2, 0, 0);
  assert_int_equal(write(fd, behind.bytes, behind.count), (ssize_t)behind.count);
  off_t header = lseek(fd, 0, SEEK_CUR), whole = (header + 31) / 32 * 32 + 32;
  assert_int_equal(ftruncate(fd, whole), 0);
  lists_expect(path, false, COUNT);
  lists_expect(path, true, COUNT);
  for (off_t cut = whole - 1; cut > 0; cut -= cut > header - 300 ? 1 : 70001) {
    hr_gguf *parsed = NULL;
    hr_error err = {0};
    assert_int_equal(ftruncate(fd, cut), 0);
    assert_int_equal(hr__gguf_open_lean(path, &parsed, &err), HR_BAD_INPUT);
    assert_int_equal(hr__gguf_open(path, &parsed, &err), HR_BAD_INPUT);
  }
  close(fd);
  unlink(path);
}

static hr_status open_once(void *arg, hr_error *err) {
  (void)arg;
  hr_gguf *file = NULL;
  hr_status status = hr__gguf_open(golden, &file, err);
  hr__gguf_close(file);
  return status;
}

static void memory_runs_out(void **state) {
  (void)state;
  assert_true(hr_test_each_fault(open_once, NULL) > 4);
}

int main(void) {
  hr_test_faults_install();
  const struct CMUnitTest all[] = {
      cmocka_unit_test_teardown(values, memory_is_back),
      cmocka_unit_test_teardown(types, memory_is_back),
      cmocka_unit_test_teardown(refusals, memory_is_back),
      cmocka_unit_test_teardown(tensors_refused, memory_is_back),
      cmocka_unit_test_teardown(cut_anywhere, memory_is_back),
      cmocka_unit_test_teardown(long_header, memory_is_back),
      cmocka_unit_test_teardown(memory_runs_out, memory_is_back),
  };
  return cmocka_run_group_tests(all, NULL, NULL);
}
