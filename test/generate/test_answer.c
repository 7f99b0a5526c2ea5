/* Where answers end, and what of them may be shown meanwhile. Tokens are bytes here. */
#include "generate/answer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const hr_codec bytes = {0};

/* Puts a text byte by byte; what is shown may only grow, and is all there in the end. */
static hr_answer answer_of(const hr_answer_rules *rules, const char *text) {
  hr_answer a;
  hr_error err = {0};
  char shown[256] = "";
  size_t before = 0;
  assert_int_equal(hr__answer_begin(&bytes, rules, &a, &err), HR_OK);
  for (const char *at = text; *at && a.end == HR_END_NONE; at++) {
    assert_int_equal(hr__answer_put(&a, (unsigned char)*at, &err), HR_OK);
    assert_true(a.shown >= before && a.shown <= a.text.count && a.shown < sizeof shown);
    if (a.shown > before) memcpy(shown + before, a.text.data + before, a.shown - before);
    before = a.shown;
  }
  if (a.end == HR_END_NONE) assert_int_equal(hr__answer_end(&a, HR_END_CONTEXT, &err), HR_OK);
  assert_int_equal(a.shown, a.text.count);
  if (before > 0) assert_memory_equal(shown, a.text.data, before);
  return a;
}

static void expect(const hr_answer_rules *rules, const char *put, const char *text, hr_end end) {
  hr_answer a = answer_of(rules, put);
  if (a.text.count != strlen(text) || memcmp(a.text.data ? a.text.data : "", text, a.text.count) != 0)
    fail_msg("'%s' gives '%.*s'", put, (int)a.text.count, a.text.data);
  assert_int_equal(a.end, end);
  hr__answer_destroy(&a);
}

static void test_stops(void **state) {
  (void)state;
  const char *const stops[] = {"END", "\n\nUser:", "EN!"};
  hr_answer_rules rules = {.stops = stops, .n_stops = 3, .tokens = 1000};
  expect(&rules, "abc", "abc", HR_END_CONTEXT);
  expect(&rules, "abcEND and more", "abc", HR_END_STOP);
  expect(&rules, "END", "", HR_END_STOP);
  expect(&rules, "ENENEND", "ENEN", HR_END_STOP);
  expect(&rules, "xEN!", "x", HR_END_STOP);
  expect(&rules, "so\n\nUser: hm", "so", HR_END_STOP);
  expect(&rules, "so\n\nUse", "so\n\nUse", HR_END_CONTEXT); /* only the beginning of one */
}

/* The beginning of a stop string is held back until it is none. */
static void test_held_back(void **state) {
  (void)state;
  const char *const stops[] = {"stop"};
  hr_answer_rules rules = {.stops = stops, .n_stops = 1, .tokens = 1000};
  hr_answer a;
  hr_error err = {0};
  assert_int_equal(hr__answer_begin(&bytes, &rules, &a, &err), HR_OK);
  static const struct {
    char byte;
    size_t shown;
  } steps[] = {{'a', 1}, {'s', 1}, {'t', 1}, {'o', 1}, {'s', 4}, {'t', 4}, {'a', 7}};
  for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
    assert_int_equal(hr__answer_put(&a, steps[i].byte, &err), HR_OK);
    assert_int_equal(a.shown, steps[i].shown);
  }
  hr__answer_destroy(&a);
}

static void test_tokens(void **state) {
  (void)state;
  const int32_t ends[] = {1, 2};
  hr_answer_rules rules = {.ends = ends, .n_ends = 2, .tokens = 5};
  expect(&rules, "ab\2cd", "ab", HR_END_TOKEN);
  expect(&rules, "\1", "", HR_END_TOKEN);
  expect(&rules, "abcdefgh", "abcde", HR_END_LENGTH);
}

/* Characters are shown whole; bytes that are none as U+FFFD. */
static void test_characters(void **state) {
  (void)state;
  hr_answer_rules rules = {.tokens = 1000};
  hr_answer a;
  hr_error err = {0};
  assert_int_equal(hr__answer_begin(&bytes, &rules, &a, &err), HR_OK);
  static const unsigned char euro[] = {0xe2, 0x82, 0xac};
  for (int i = 0; i < 3; i++) {
    assert_int_equal(a.shown, 0);
    assert_int_equal(hr__answer_put(&a, euro[i], &err), HR_OK);
  }
  assert_int_equal(a.shown, 3);
  hr__answer_destroy(&a);
  expect(&rules, "a\xe2\x82", "a\xef\xbf\xbd", HR_END_CONTEXT);
  expect(&rules,
         "a\xff"
         "b",
         "a\xef\xbf\xbd"
         "b",
         HR_END_CONTEXT);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_stops), cmocka_unit_test(test_held_back),
                                     cmocka_unit_test(test_tokens), cmocka_unit_test(test_characters)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
