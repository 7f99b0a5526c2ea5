/* Values of large JSON files with the way to them, base64, and protobuf fields. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "format/base64.h"
#include "format/item.h"
#include "format/protobuf.h"

static const char text[] = "{\n \"a\": {\"list\": [1, \"two\\\"]\", {\"deep\": true}]},\n"
                           " \"\\u00e4\": null,\n \"text\": \"x\\u0000y\",\n   \"last\": -5\n}\n";

static void items(void **state) {
  (void)state;
  hr_arena arena = {0};
  hr_item_file file;
  hr_error err = {0};
  assert_int_equal(hr__item_parse("file", text, sizeof text - 1, &arena, &file, &err), HR_OK);
  hr_item root = hr__item_root(&file), a = hr__item_get(&root, "a"), list = hr__item_get(&a, "list"),
          third = hr__item_at(&list, 2), deep = hr__item_get(&third, "deep"), last = hr__item_get(&root, "last"),
          word = hr__item_get(&root, "text"), none = hr__item_get(&third, "none");
  assert_int_equal(hr__item_count(&list), 3);
  bool flag = false;
  int64_t number = 0;
  const char *found = NULL;
  size_t bytes = 0;
  assert_int_equal(hr__item_bool(&deep, false, &flag, &err), HR_OK);
  assert_true(flag);
  assert_int_equal(hr__item_int(&last, false, -9, 9, &number, &err), HR_OK);
  assert_int_equal(number, -5);
  assert_int_equal(hr__item_text(&word, false, &found, &bytes, &err), HR_OK);
  assert_int_equal(bytes, 3);
  assert_memory_equal(found, "x\0y", 3);
  assert_int_equal(hr__item_bool(&none, true, &flag, &err), HR_OK);
  /* Errors have the place of the value, or of what it is missing in. */
  assert_int_equal(hr__item_int(&deep, false, 0, 9, &number, &err), HR_BAD_INPUT);
  assert_string_equal(err.place, "file:2:39");
  assert_int_equal(hr__item_int(&last, false, 0, 9, &number, &err), HR_BAD_INPUT);
  assert_string_equal(err.place, "file:5:12");
  assert_non_null(strstr(err.message, "from 0 to 9"));
  assert_int_equal(hr__item_text(&none, false, &found, &bytes, &err), HR_BAD_INPUT);
  assert_string_equal(err.place, "file:2:30");
  assert_non_null(strstr(err.message, "'none' is missing"));
  assert_int_equal(hr__item_list(&a, &err), HR_BAD_INPUT);
  assert_int_equal(hr__item_object(&list, &err), HR_BAD_INPUT);
  assert_int_equal(hr__item_parse("file", "{\"a\":\n 1,}", 10, &arena, &file, &err), HR_BAD_INPUT);
  assert_non_null(strstr(err.place, "file:2"));
  hr__arena_fini(&arena);
}

static void base64(void **state) {
  (void)state;
  static const char *const good[][2] = {{"", ""}, {"QQ==", "A"}, {"QUI=", "AB"}, {"QUJD", "ABC"}, {"QUJDRA", "ABCD"}};
  static const char *const bad[] = {"Q", "Q===", "QU I", "=", "QQ=A", "Q\xff\xff="};
  char out[64];
  size_t count;
  hr_error err = {0};
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
    assert_int_equal(hr__base64_read(good[i][0], strlen(good[i][0]), out, &count, &err), HR_OK);
    assert_int_equal(count, strlen(good[i][1]));
    assert_memory_equal(out, good[i][1], count);
  }
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    assert_int_equal(hr__base64_read(bad[i], strlen(bad[i]), out, &count, &err), HR_BAD_INPUT);
}

static void protobuf(void **state) {
  (void)state;
  static const char whole[] = "\x0a\x03"
                              "abc"
                              "\x10\xac\x02"
                              "\x1d\x00\x00\x80\x3f"
                              "\x21\x01\x00\x00\x00\x00\x00\x00\x00";
  hr_protobuf message = hr__protobuf(whole, sizeof whole - 1);
  hr_protobuf_field field;
  assert_true(hr__protobuf_next(&message, &field));
  assert_true(field.number == 1 && field.type == 2 && field.count == 3 && memcmp(field.bytes, "abc", 3) == 0);
  assert_true(hr__protobuf_next(&message, &field) && field.number == 2 && field.value == 300);
  assert_true(hr__protobuf_next(&message, &field) && field.number == 3);
  assert_true(hr__protobuf_float(&field) == 1.0f);
  assert_true(hr__protobuf_next(&message, &field) && field.number == 4 && field.value == 1);
  assert_true(!hr__protobuf_next(&message, &field) && !message.damaged);
  static const char *const bad[] = {
      "\x0a\x05zzz", "\x10", "\x1d\x01", "\x0b", "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80", "\x06\x01"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    message = hr__protobuf(bad[i], strlen(bad[i]));
    assert_true(!hr__protobuf_next(&message, &field) && message.damaged);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(items), cmocka_unit_test(base64), cmocka_unit_test(protobuf)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
