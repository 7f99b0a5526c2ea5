/* Sizes, escapes, edit distance, error texts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "base/text.h"

static void size_texts(void **state) {
  (void)state;
  char out[HR_SIZE_TEXT];
  assert_string_equal(hr__size_text(0, out), "0 B");
  assert_string_equal(hr__size_text(1023, out), "1023 B");
  assert_string_equal(hr__size_text(1536, out), "1.50 KiB");
  assert_string_equal(hr__size_text((1 << 20) - 1, out), "1.00 MiB"); /* never 1024.00 KiB */
  assert_string_equal(hr__size_text((uint64_t)3 << 30, out), "3.00 GiB");
  assert_string_equal(hr__size_text(UINT64_MAX, out), "16.00 EiB");
}

static void size_parsing(void **state) {
  (void)state;
  static const struct {
    const char *text;
    uint64_t bytes;
  } good[] = {
      {"0", 0},
      {"1073741824", 1 << 30},
      {"512MiB", 512 << 20},
      {"1.5 GB", 1500000000},
      {"8G", (uint64_t)8 << 30},
      {"8g", (uint64_t)8 << 30},
      {"1kib", 1024},
      {"1KB", 1000},
      {"2k", 2048},
      {" 7 B ", 7},
      {"0.5MiB", 1 << 19},
      {"1.25T", (uint64_t)5 << 38},
      {"4E", (uint64_t)1 << 62},
      {"1.000000000000G", 1 << 30},
      {"4611686018427387904", (uint64_t)1 << 62},
      {"3Gi", (uint64_t)3 << 30},
      {"007M", 7 << 20},
  };
  static const char *const bad[] = {
      "",
      " ",
      "G",
      "-1",
      "-1G",
      "+1G",
      "1.G",
      ".5G",
      "1.5",
      "1.5B",
      "1e9",
      "0x10",
      "1 2",
      "1GG",
      "1GiBs",
      "1 G B",
      "nan",
      "inf",
      "4611686018427387905",
      "5E",
      "99999999999999999999999999",
      "1.0000000001G",
      "1,5G",
      "1\xc2\xa0G",
      "8Gb ps",
  };
  for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
    uint64_t bytes = 1;
    if (!hr__size_parse(good[i].text, &bytes) || bytes != good[i].bytes)
      fail_msg("\"%s\" gave %llu", good[i].text, (unsigned long long)bytes);
  }
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    uint64_t bytes;
    if (hr__size_parse(bad[i], &bytes)) fail_msg("\"%s\" was accepted", bad[i]);
  }
}

static void escapes(void **state) {
  (void)state;
  static const struct {
    const char *text, *expected;
  } cases[] = {
      {"plain text", "plain text"},
      {"tab\there\n", "tab\\x09here\\x0a"},
      {"\x1b[31mred\x1b]0;title\x07", "\\x1b[31mred\\x1b]0;title\\x07"},
      {"na\xc3\xafve \xe2\x82\xac \xf0\x9f\x98\x80", "na\xc3\xafve \xe2\x82\xac \xf0\x9f\x98\x80"},
      {"\x80\xff", "\\x80\\xff"},
      {"\xc3(", "\\xc3("},
      {"\xc0\xaf", "\\xc0\\xaf"},                   /* overlong */
      {"\xed\xa0\x80", "\\xed\\xa0\\x80"},          /* surrogate */
      {"\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"}, /* above U+10FFFF */
      {"\xc2\x9b"
       "31m",
       "\\xc2\\x9b"
       "31m"}, /* C1 control: CSI */
      {"a\xe2\x80\xae"
       "b",
       "a\\xe2\\x80\\xae"
       "b"}, /* right-to-left override */
      {"\x7f", "\\x7f"},
      {"cut \xe2\x82", "cut \\xe2\\x82"},
  };
  char out[128];
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    hr__text_escape(cases[i].text, strlen(cases[i].text), out, sizeof out);
    assert_string_equal(out, cases[i].expected);
  }
  hr__text_escape("a\0b", 3, out, sizeof out);
  assert_string_equal(out, "a\\x00b");
}

static void escapes_are_cut_whole(void **state) {
  (void)state;
  const char *text = "ab\xe2\x82\xac\x01z";
  for (size_t capacity = 1; capacity < 16; capacity++) {
    char out[32];
    memset(out, '#', sizeof out);
    hr__text_escape(text, strlen(text), out, capacity);
    size_t length = strlen(out);
    assert_true(length < capacity);
    assert_int_equal(out[capacity], '#');
    assert_true(length == 0 || length == 1 || length == 2 || length == 5 || length == 9 || length == 10);
  }
}

static void distances(void **state) {
  (void)state;
  assert_int_equal(hr__text_distance("", ""), 0);
  assert_int_equal(hr__text_distance("kitten", "sitting"), 3);
  assert_int_equal(hr__text_distance("batch", "batsh"), 1);
  assert_int_equal(hr__text_distance("abc", ""), 3);
  char longer[400];
  memset(longer, 'a', sizeof longer - 1);
  longer[sizeof longer - 1] = '\0';
  assert_true(hr__text_distance(longer, "a") > 200);
}

static void colours(void **state) {
  (void)state;
  assert_true(hr__text_colors(HR_COLOR_ALWAYS, stdout));
  assert_false(hr__text_colors(HR_COLOR_NEVER, stdout));
  FILE *file = tmpfile();
  assert_non_null(file);
  assert_false(hr__text_colors(HR_COLOR_AUTO, file));
  fclose(file);
}

static void failures_are_escaped(void **state) {
  (void)state;
  hr_error err;
  assert_int_equal(hr__fail(&err, HR_BAD_INPUT, "a\x1b.yaml:1:2", "try\n", "name %s", "\x1b[2J"), HR_BAD_INPUT);
  assert_int_equal(err.status, HR_BAD_INPUT);
  assert_string_equal(err.place, "a\\x1b.yaml:1:2");
  assert_string_equal(err.message, "name \\x1b[2J");
  assert_string_equal(err.remedy, "try\\x0a");
  /* Arguments from the error itself, and texts that are too long. */
  hr__fail(&err, HR_IO, err.place, NULL, "again: %s", err.message);
  assert_string_equal(err.message, "again: name \\x1b[2J");
  assert_string_equal(err.remedy, "");
  char longer[3000];
  memset(longer, 'x', sizeof longer - 1);
  longer[sizeof longer - 1] = '\0';
  hr__fail(&err, HR_FAILURE, longer, longer, "%s", longer);
  assert_int_equal(strlen(err.message), sizeof err.message - 1);
  assert_int_equal(strlen(err.place), sizeof err.place - 1);
  assert_int_equal(hr__fail(NULL, HR_IO, NULL, NULL, "nobody listens"), HR_IO);
}

static void name_patterns(void **state) {
  (void)state;
  const char *name = "model.layers.1.self_attn.q_proj.weight";
  static const char *const fit[] = {"q_proj", "layers.1",       "layers.*.self_attn",      "*proj",    "model", "*",
                                    "weight", "model.*.weight", "self_attn.q_proj.weight", "layers.*", "layers"};
  static const char *const miss[] = {"", "q_pro", "proj", "layers.11", "ayers.1", "q_proj.w", "*.bias", "."};
  for (size_t i = 0; i < sizeof fit / sizeof *fit; i++)
    assert_true(hr__name_matches(name, fit[i]));
  for (size_t i = 0; i < sizeof miss / sizeof *miss; i++)
    assert_false(hr__name_matches(name, miss[i]));
}

static void failures_by_errno(void **state) {
  (void)state;
  hr_error err;
  assert_int_equal(hr__fail_errno(&err, "x", "write", EIO), HR_IO);
  assert_int_equal(hr__fail_errno(&err, "x", "write", EDQUOT), HR_NO_SPACE);
  assert_int_equal(hr__fail_errno(&err, "x", "write", EFBIG), HR_NO_SPACE);
  assert_non_null(strstr(err.remedy, "ulimit -f"));
  assert_int_equal(hr__fail_errno(&err, "x", "write", ENOSPC), HR_NO_SPACE);
  assert_non_null(strstr(err.message, "cannot write: No space left"));
  assert_non_null(strstr(err.remedy, "room"));
  assert_int_equal(hr__fail_errno(&err, "x", "write", ENOMEM), HR_NOMEM);
  assert_string_equal(err.message, "out of memory");
  assert_int_equal(hr__nomem(NULL), HR_NOMEM);
}

static void status_table(void **state) {
  (void)state;
  assert_string_equal(hr_status_name(HR_NO_FIT), "HR_NO_FIT");
  assert_int_equal(hr_status_exit_code(HR_OK), 0);
  assert_int_equal(hr_status_exit_code(HR_NO_FIT), 3);
  assert_int_equal(hr_status_exit_code(HR_BAD_INPUT), 5);
  assert_int_equal(hr_status_exit_code(HR_INTERRUPTED), 130);
  assert_string_equal(hr_status_text((hr_status)999), "failure");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(size_texts),
      cmocka_unit_test(size_parsing),
      cmocka_unit_test(escapes),
      cmocka_unit_test(escapes_are_cut_whole),
      cmocka_unit_test(distances),
      cmocka_unit_test(colours),
      cmocka_unit_test(failures_are_escaped),
      cmocka_unit_test(name_patterns),
      cmocka_unit_test(failures_by_errno),
      cmocka_unit_test(status_table),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
