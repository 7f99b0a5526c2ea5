/* Lack of memory in format: every request of ours, jansson's and libyaml's fails in turn. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "format/doc.h"
#include "format/file.h"
#include "format/part_folder.h"
#include "format/safetensors.h"
#include "support/faults.h"

/* Long tokens, nesting, escapes, comments: each makes the libraries grow something. */
static const char yaml_text[] =
    "# comment\n%s: {b: [1, 2, {c: 'd'}], \"e\\u00e4\": \"folded\n  text\"}\nlist:\n- a\n- b: 1\n  c: 2\n- - x\n  - y\n"
    "block: |\n  literal text\n  more of it\nfold: >-\n  folded\n  words\n? complex\n: value\nq: 'it''s'\n";

static hr_status yaml_body(void *arg, hr_error *err) {
  hr_arena arena = {0};
  hr_doc_node *root;
  hr_status status = hr__yaml_parse("t", arg, strlen(arg), &arena, &root, err);
  hr__arena_fini(&arena);
  return status;
}

static hr_status json_body(void *arg, hr_error *err) {
  hr_arena arena = {0};
  hr_doc_node *root;
  hr_status status = hr__json_parse("t", arg, strlen(arg), &arena, &root, err);
  hr__arena_fini(&arena);
  return status;
}

static void documents(void **state) {
  (void)state;
  static char yaml[40000], json[40000], word[3000];
  memset(word, 'w', sizeof word - 1);
  int used = snprintf(yaml, sizeof yaml, yaml_text, "key");
  used += snprintf(yaml + used, sizeof yaml - (size_t)used, "long: %s\nquoted: \"%s\"\n", word, word);
  for (int i = 0; i < 60; i++)
    used += snprintf(yaml + used, sizeof yaml - (size_t)used, "k%d: [a, b, {c: %d}]\n", i, i);
  for (int i = 0; i < 30; i++)
    used += snprintf(yaml + used, sizeof yaml - (size_t)used, "%*sdeep%d:\n", i, "", i);
  assert_true(hr_test_each_fault(yaml_body, yaml) >= 10);
  size_t library = hr_test_each_library_fault(yaml_body, yaml);
#ifdef HR_TEST_WRAPPED
  assert_true(library >= 200);
#else
  assert_int_equal(library, 0);
#endif
  used = snprintf(json, sizeof json, "{\"%s\": [1, 2.5, true, null, \"%s\\n\"]", word, word);
  for (int i = 0; i < 300; i++)
    used += snprintf(json + used, sizeof json - (size_t)used, ",\"k%d\":{\"x\":[%d,\"abcdefghijklmnopq\"]}", i, i);
  snprintf(json + used, sizeof json - (size_t)used, "}");
  assert_true(hr_test_each_fault(json_body, json) >= 20);
}

static hr_status write_body(void *arg, hr_error *err) {
  const hr_safetensor tensors[] = {
      {.name = "a", .dtype = "F32", .rank = 2, .dim = {2, 3}},
      {.name = "b", .dtype = "U8", .rank = 1, .dim = {8}},
  };
  static const char *const metadata[] = {"format", "pt", NULL};
  static const unsigned char data[32];
  hr_safetensors_writer *writer = NULL;
  char hex[HR_SHA256_HEX];
  uint64_t bytes;
  HR_TRY(hr__safetensors_writer_open(arg, tensors, 2, metadata, &writer, err));
  hr_status status = hr__safetensors_writer_put(writer, data, sizeof data, err);
  if (status == HR_OK) status = hr__safetensors_writer_finish(writer, hex, &bytes, err);
  hr__safetensors_writer_destroy(writer);
  return status;
}

static hr_status open_body(void *arg, hr_error *err) {
  hr_safetensors *open = NULL;
  HR_TRY(hr__safetensors_open(arg, &open, err));
  float data[6];
  hr_status status = hr__safetensors_read(open, hr__safetensors_find(open, "a"), 0, data, sizeof data, err);
  hr__safetensors_close(open);
  return status;
}

static hr_status parse_body(void *arg, hr_error *err) {
  hr_safetensors *open = NULL;
  HR_TRY(hr__safetensors_parse("memory", arg, *(size_t *)arg + 8, *(size_t *)arg + 8, &open, err));
  hr__safetensors_close(open);
  return HR_OK;
}

static void safetensors(void **state) {
  (void)state;
  char path[512], index_path[512];
  snprintf(path, sizeof path, "%s", folder_path("a.safetensors"));
  snprintf(index_path, sizeof index_path, "%s", folder_path("a.safetensors.index.json"));
  assert_true(hr_test_each_fault(write_body, path) >= 6);
  assert_true(hr_test_each_fault(open_body, path) >= 6);
  const char *index = "{\"weight_map\":{\"a\":\"a.safetensors\",\"b\":\"a.safetensors\"}}";
  folder_write("a.safetensors.index.json", index, strlen(index));
  assert_true(hr_test_each_fault(open_body, index_path) >= 10);

  static char many[120000]; /* length word in front; grows every table */
  size_t used = 8 + (size_t)sprintf(many + 8, "{\"__metadata__\":{\"format\":\"pt\"}");
  for (int i = 0; i < 1000; i++)
    used +=
        (size_t)sprintf(many + used, ",\"layer.%d.weight\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}", i);
  used += (size_t)sprintf(many + used, "}");
  uint64_t length = used - 8;
  memcpy(many, &length, 8);
  assert_true(hr_test_each_fault(parse_body, many) >= 12);
}

static hr_status read_body(void *arg, hr_error *err) {
  hr_arena arena = {0};
  char *text;
  size_t bytes;
  hr_status status = hr__file_read(arg, 100, &arena, &text, &bytes, err);
  hr__arena_fini(&arena);
  return status;
}

static hr_status replace_body(void *arg, hr_error *err) {
  return hr__file_replace(arg, "text", 4, err);
}

static void files(void **state) {
  (void)state;
  char path[512];
  snprintf(path, sizeof path, "%s", folder_path("plain"));
  assert_true(hr_test_each_fault(replace_body, path) >= 2);
  assert_int_equal(hr_test_each_fault(read_body, path), 2);
}

int main(void) {
  hr_test_faults_install();
  const struct CMUnitTest tests[] = {cmocka_unit_test(documents), cmocka_unit_test(safetensors),
                                     cmocka_unit_test(files)};
  return cmocka_run_group_tests(tests, folder_setup, folder_teardown);
}
