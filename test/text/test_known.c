/* Splitters by hand against the regular expressions that they stand for, on random text of every kind of character, and
 * on each character there is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "text/known.h"
#include "text/regex.h"
#include "text/unicode.h"

static const char *const parts[] = {" ",
                                    "  ",
                                    "\n",
                                    "\r\n",
                                    "\t",
                                    "\xc2\xa0",
                                    "\xe3\x80\x80",
                                    "\xe1\xa0\x8e",
                                    "'s",
                                    "'S",
                                    "'ll",
                                    "'Re",
                                    "'\xc5\xbf",
                                    "'",
                                    "a",
                                    "ab",
                                    "A",
                                    "AB",
                                    "Ab",
                                    "\xc3\xa9",
                                    "\xc3\x89",
                                    "e\xcc\x81",
                                    "\xcc\x81",
                                    "1",
                                    "12",
                                    "1234",
                                    "\xc2\xbd",
                                    "\xd9\xa3",
                                    "\xe4\xbd\xa0",
                                    "\xc7\x85",
                                    "\xca\xb0",
                                    "\xe2\x81\xbf",
                                    ".",
                                    "..",
                                    "/",
                                    "_",
                                    "-",
                                    "$",
                                    "\xf0\x9f\x91\x8d",
                                    "\xe2\x80\x8d",
                                    "\xef\xb8\x8f",
                                    "\x01",
                                    "\xef\xbf\xbd",
                                    "\xc7\xb2",
                                    "\xe0\xb8\xb1",
                                    "x",
                                    "Z"};
enum { PARTS = sizeof parts / sizeof *parts };

static void same(const hr_known_pattern *pattern, const hr_regex *regex, hr_regex_room *room, const char *text,
                 size_t bytes) {
  hr_error err;
  for (size_t at = 0; at < bytes;) {
    size_t begin = 0, end = 0;
    assert_int_equal(hr__regex_find(regex, room, text, bytes, at, &begin, &end, &err), HR_OK);
    size_t by_hand = (size_t)(pattern->next(text + at, text + bytes) - text);
    if (begin != at || end != by_hand)
      fail_msg("%s: at byte %zu of '%.*s' by hand to %zu, by PCRE2 %zu to %zu", pattern->name, at, (int)bytes, text,
               by_hand, begin, end);
    at = end;
  }
}

static void pattern_check(const hr_known_pattern *pattern) {
  hr_error err = {0};
  hr_regex *regex = NULL;
  hr_regex_room *room = NULL;
  hr_dialect dialect = strcmp(pattern->name, "cl100k") == 0 ? HR_DIALECT_RUST : HR_DIALECT_ONIGURUMA;
  if (hr__regex_create(pattern->pattern, strlen(pattern->pattern), dialect, &regex, &err) != HR_OK)
    fail_msg("%s: %s", pattern->name, err.message);
  assert_int_equal(hr__regex_room_create(&room, &err), HR_OK);
  uint32_t seed = 1;
  for (int i = 0; i < 40000; i++) {
    char text[256];
    size_t bytes = 0;
    for (int count = 1 + i % 14; count > 0; count--) {
      seed = seed * 1664525 + 1013904223;
      const char *part = parts[(seed >> 8) % PARTS];
      memcpy(text + bytes, part, strlen(part));
      bytes += strlen(part);
    }
    same(pattern, regex, room, text, bytes);
  }
  for (uint32_t c = 0; c<0x110000; c += c> 0x32000 && c < 0xe0000 ? 97 : 1) {
    if (c >= 0xd800 && c < 0xe000) continue;
    char text[16] = "a";
    size_t bytes = 1 + hr__utf8_put(c, text + 1);
    memcpy(text + bytes, "B 1", 3);
    same(pattern, regex, room, text, bytes + 3);
  }
  hr__regex_room_destroy(room);
  hr__regex_destroy(regex);
}

static void known(void **state) {
  (void)state;
  hr__unicode_init();
  for (size_t i = 0; i < hr__known_count; i++)
    pattern_check(&hr__known_patterns[i]);
}

static void written(const char *pattern, hr_dialect dialect, const char *expected) {
  hr_error err = {0};
  hr_string out = {0};
  hr_status status = hr__dialect_write(pattern, strlen(pattern), dialect, &out, &err);
  if (expected) {
    assert_int_equal(status, HR_OK);
    assert_string_equal(out.data, expected);
  } else {
    assert_int_equal(status, HR_BAD_INPUT);
    assert_non_null(strstr(err.message, "not supported"));
  }
  hr__string_fini(&out);
}

static void dialects(void **state) {
  (void)state;
  written("a{1,3}+b", HR_DIALECT_ONIGURUMA, "(?:a{1,3})+b");
  written("(?:ab){1,3}+", HR_DIALECT_ONIGURUMA, "(?:(?:ab){1,3})+");
  written("[ab]{2}+", HR_DIALECT_ONIGURUMA, "(?:[ab]{2})+");
  written("a{1,3}+b", HR_DIALECT_RUST, "a{1,3}+b");
  written("\\h[\\h]", HR_DIALECT_ONIGURUMA, "[0-9A-Fa-f][0-9A-Fa-f]");
  written("\\u4e00", HR_DIALECT_ONIGURUMA, "\\x{4e00}");
  written("a{", HR_DIALECT_ONIGURUMA, "a\\{");
  static const char *const refused[] = {"[a&&b]", "(?<name>a)", "\\1", "[^\\W]", "(?m:.)",
                                        "a)",     "[a[b]]",     "\\K", "\\p{",   "\\"};
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
    written(refused[i], HR_DIALECT_ONIGURUMA, NULL);
  hr_error err = {0};
  hr_regex *regex = NULL;
  assert_int_equal(hr__regex_create("(a", 2, HR_DIALECT_RUST, &regex, &err), HR_BAD_INPUT);
  assert_non_null(strstr(err.message, "regular expression"));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(known), cmocka_unit_test(dialects)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
