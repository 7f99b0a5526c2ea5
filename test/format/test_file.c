/* Files: what is read and refused; replacing is all or nothing under every failing call. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "format/file.h"
#include "format/part_folder.h"
#include "format/safetensors.h"
#include "support/file_faults.h"

static void reading(void **state) {
  (void)state;
  hr_arena arena = {0};
  hr_error err = {0};
  char *text = NULL;
  size_t bytes = 0;
  folder_write("words", "a\0b", 3);
  assert_int_equal(hr__file_read(folder_path("words"), 3, &arena, &text, &bytes, &err), HR_OK);
  assert_int_equal(bytes, 3);
  assert_memory_equal(text, "a\0b", 4); /* NUL-terminated */
  assert_int_equal(hr__file_read(folder_path("words"), 2, &arena, &text, &bytes, &err), HR_BAD_INPUT);
  assert_non_null(strstr(err.message, "at most 2 B"));
  assert_int_equal(hr__file_read(folder_path("absent"), 9, &arena, &text, &bytes, &err), HR_BAD_INPUT);
  assert_non_null(strstr(err.message, "no such file"));
  assert_int_equal(hr__file_read(folder_path("words/x"), 9, &arena, &text, &bytes, &err), HR_BAD_INPUT);
  assert_int_equal(hr__file_read(folder_path("."), 9, &arena, &text, &bytes, &err), HR_BAD_INPUT);
  assert_non_null(strstr(err.message, "folder"));
  assert_int_equal(hr__file_read("/dev/null", 9, &arena, &text, &bytes, &err), HR_BAD_INPUT);
  assert_non_null(strstr(err.message, "device"));
  assert_int_equal(mkfifo(folder_path("pipe"), 0600), 0); /* opening it for reading would wait for ever */
  assert_int_equal(hr__file_read(folder_path("pipe"), 9, &arena, &text, &bytes, &err), HR_BAD_INPUT);
  remove(folder_path("pipe"));
  folder_write("empty", "", 0);
  assert_int_equal(hr__file_read(folder_path("empty"), 0, &arena, &text, &bytes, &err), HR_OK);
  assert_int_equal(bytes, 0);
  hr__arena_fini(&arena);
  remove(folder_path("empty"));
  remove(folder_path("words"));
}

static const char new_text[] = "the new text of the file";

static hr_status replace_body(void *arg, hr_error *err) {
  (void)arg;
  folder_write("kept", "old", 3);
  return hr__file_replace(folder_path("kept"), new_text, strlen(new_text), err);
}

/* Old or new, never in between; HR_OK only with the new one. */
static void replace_check(void *arg, hr_status status) {
  (void)arg;
  const char *text = "";
  assert_true(folder_read("kept", &text) > 0);
  bool is_new = strcmp(text, new_text) == 0;
  assert_true(is_new || strcmp(text, "old") == 0);
  if (status == HR_OK) assert_true(is_new);
  if (status == HR_OK) assert_int_equal(folder_count(), 1); /* no .tmp left */
  remove(folder_path("kept.tmp"));
}

static void replacing(void **state) {
  (void)state;
  assert_true(hr_test_each_file_fault(replace_body, replace_check, NULL) >= 30);
  hr_error err;
  assert_int_equal(hr__file_replace(folder_path("no/such/file"), "x", 1, &err), HR_IO);
  assert_int_equal(hr__file_sync_folder(folder_path("absent"), &err), HR_IO);
  remove(folder_path("kept"));
}

static hr_status writer_body(void *arg, hr_error *err) {
  (void)arg;
  static unsigned char data[600000];
  const hr_safetensor tensor = {.name = "a", .dtype = "U8", .rank = 1, .dim = {700000}};
  hr_safetensors_writer *writer = NULL;
  char hex[HR_SHA256_HEX];
  uint64_t bytes;
  HR_TRY(hr__safetensors_writer_open(folder_path("w.safetensors"), &tensor, 1, NULL, &writer, err));
  hr_status status = hr__safetensors_writer_put(writer, data, 100000, err);
  if (status == HR_OK) status = hr__safetensors_writer_put(writer, data, 600000, err);
  if (status == HR_OK) status = hr__safetensors_writer_finish(writer, hex, &bytes, err);
  hr__safetensors_writer_destroy(writer);
  return status;
}

static void writer_check(void *arg, hr_status status) {
  (void)arg;
  hr_safetensors *open = NULL;
  hr_error err;
  if (status == HR_OK) assert_int_equal(hr__safetensors_open(folder_path("w.safetensors"), &open, &err), HR_OK);
  hr__safetensors_close(open);
  remove(folder_path("w.safetensors"));
}

static void writing(void **state) {
  (void)state;
  assert_true(hr_test_each_file_fault(writer_body, writer_check, NULL) >= 20);
}

int main(void) {
  hr_test_faults_install();
  const struct CMUnitTest tests[] = {cmocka_unit_test(reading), cmocka_unit_test(replacing), cmocka_unit_test(writing)};
  return cmocka_run_group_tests(tests, folder_setup, folder_teardown);
}
