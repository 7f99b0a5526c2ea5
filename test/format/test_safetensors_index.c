/* Sharded safetensors: index and shards must agree, and an index cannot lead out of its folder. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "format/part_folder.h"
#include "format/safetensors.h"
#include "support/faults.h"

/* Writes a shard whose tensors are single letters, one byte each: its own name. */
static void shard_write(const char *name, const char *letters, const char *note) {
  char names[8][2] = {0};
  hr_safetensor tensors[8];
  size_t count = strlen(letters);
  const char *const metadata[] = {"format", "pt", "note", note, NULL};
  for (size_t i = 0; i < count; i++) {
    names[i][0] = letters[i];
    tensors[i] = (hr_safetensor){.name = names[i], .dtype = "U8", .rank = 1, .dim = {1}};
  }
  hr_safetensors_writer *writer = NULL;
  hr_error err;
  char hex[HR_SHA256_HEX];
  uint64_t bytes;
  assert_int_equal(hr__safetensors_writer_open(folder_path(name), tensors, count, metadata, &writer, &err), HR_OK);
  assert_int_equal(hr__safetensors_writer_put(writer, letters, count, &err), HR_OK);
  assert_int_equal(hr__safetensors_writer_finish(writer, hex, &bytes, &err), HR_OK);
  hr__safetensors_writer_destroy(writer);
}

static hr_status index_open(const char *json, hr_safetensors **open, hr_error *err) {
  folder_write("m.safetensors.index.json", json, strlen(json));
  return hr__safetensors_open(folder_path("m.safetensors.index.json"), open, err);
}

#define MAP(entries) "{\"metadata\":{\"total_size\":5},\"weight_map\":{" entries "}}"

static void joined(void **state) {
  (void)state;
  shard_write("s1.safetensors", "ca", "first");
  shard_write("s2.safetensors", "dbe", "second");
  hr_safetensors *open = NULL;
  hr_error err = {0};
  const char *json = MAP("\"d\":\"s2.safetensors\",\"a\":\"s1.safetensors\",\"b\":\"s2.safetensors\","
                         "\"c\":\"s1.safetensors\",\"e\":\"s2.safetensors\"");
  assert_int_equal(index_open(json, &open, &err), HR_OK);
  assert_int_equal(hr__safetensors_count(open), 5);
  for (size_t i = 0; i < 5; i++) {
    const hr_safetensor *tensor = hr__safetensors_at(open, i);
    char byte = 0;
    assert_int_equal(tensor->name[0], "abcde"[i]);
    assert_int_equal(hr__safetensors_read(open, tensor, 0, &byte, 1, &err), HR_OK);
    assert_int_equal(byte, "abcde"[i]);
    assert_ptr_equal(hr__safetensors_find(open, tensor->name), tensor);
  }
  assert_string_equal(hr__safetensors_metadata(open, "format"), "pt");
  assert_string_equal(hr__safetensors_metadata(open, "note"), "first");
  hr__safetensors_close(open);
  assert_int_equal(hr_test_live_bytes(), 0);
}

static void refused(void **state) {
  (void)state;
  shard_write("s1.safetensors", "ca", "1");
  shard_write("s2.safetensors", "dbe", "2");
  shard_write("s3.safetensors", "a", "3");
  folder_write("bad.safetensors", "\x02\0\0\0\0\0\0\0{}x", 11);
  static const struct {
    const char *json, *expected;
  } cases[] = {
      {MAP("\"a\":\"../s3.safetensors\""), "plain .safetensors file name"},
      {MAP("\"a\":\"/etc/s3.safetensors\""), "plain .safetensors file name"},
      {MAP("\"a\":\"./s3.safetensors\""), "plain .safetensors file name"},
      {MAP("\"a\":\"x/s3.safetensors\""), "plain .safetensors file name"},
      {MAP("\"a\":\"..\\\\s3.safetensors\""), "plain .safetensors file name"},
      {MAP("\"a\":\"..\""), "plain .safetensors file name"},
      {MAP("\"a\":\"\""), "plain .safetensors file name"},
      {MAP("\"a\":\".safetensors\""), "plain .safetensors file name"},
      {MAP("\"a\":\"s3.bin\""), "plain .safetensors file name"},
      {MAP("\"a\":\"m.safetensors.index.json\""), "plain .safetensors file name"},
      {MAP("\"a\":\"s3.safetensors\\u0000\""), "not valid JSON"},
      {MAP("\"a\":\"missing.safetensors\""), "no such file"},
      {MAP("\"a\":\"bad.safetensors\""), "holds 1 bytes"},
      {MAP("\"x\":\"s3.safetensors\""), "where the index puts it"},
      {MAP("\"a\":\"s2.safetensors\",\"b\":\"s2.safetensors\""), "where the index puts it"},
      {MAP("\"a\":\"s1.safetensors\""), "duplicate or stray"},
      {MAP("\"a\":\"s1.safetensors\",\"c\":\"s1.safetensors\",\"a\":\"s3.safetensors\""), "duplicate"},
      {MAP("\"a\":3"), "not a string"},
      {MAP("\"a\":[\"s3.safetensors\"]"), "not a string"},
      {MAP(""), "lists no tensor"},
      {"{\"metadata\":{}}", "\"weight_map\" is missing"},
      {"{\"weight_map\":[]}", "\"weight_map\" is missing"},
      {"[]", "\"weight_map\" is missing"},
      {"", "not valid JSON"},
      {"{", "not valid JSON"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    hr_safetensors *open = NULL;
    hr_error err = {0};
    hr_status status = index_open(cases[i].json, &open, &err);
    if (status != HR_BAD_INPUT || !strstr(err.message, cases[i].expected))
      fail_msg("%s: %s: %s", cases[i].json, hr_status_name(status), err.message);
    assert_null(open);
    assert_int_equal(hr_test_live_bytes(), 0);
  }
  /* The same tensor in two shards, each listed for one: the second copy is a stray. */
  hr_safetensors *open = NULL;
  hr_error err = {0};
  const char *json = MAP("\"a\":\"s3.safetensors\",\"c\":\"s1.safetensors\"");
  assert_int_equal(index_open(json, &open, &err), HR_BAD_INPUT);
  assert_non_null(strstr(err.message, "duplicate or stray"));
}

int main(void) {
  hr_test_faults_install();
  const struct CMUnitTest tests[] = {cmocka_unit_test(joined), cmocka_unit_test(refused)};
  return cmocka_run_group_tests(tests, folder_setup, folder_teardown);
}
