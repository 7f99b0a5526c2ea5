/* Columns of text, words that are wrapped, paths, clocks, and a line that is redrawn: whole on a terminal, nothing
 * elsewhere. test/cli/test_terminal.py has the program on terminals of many widths. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/line.h"
#include "base/text.h"

static void columns_of_text(void **state) {
  (void)state;
  static const struct {
    const char *text;
    size_t columns;
  } cases[] = {
      {"", 0},
      {"plain", 5},
      {"█▏·…", 4},
      {"größer", 6},
      {"模型", 4},             /* East Asian: two each */
      {"ｆｕｌｌ", 8},         /* full-width letters */
      {"e\xcc\x81", 1},        /* a combining accent */
      {"\xf0\x9f\x98\x80", 2}, /* a picture */
      {"\xff\x80", 2},         /* no UTF-8: a column for each byte */
      {"\xe6\xa8", 2},         /* cut off */
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
    assert_int_equal(hr__text_columns(cases[i].text), cases[i].columns);
}

static void wrapped(const char *text, size_t column, size_t indent, size_t columns, const char *expected) {
  char *written = NULL;
  size_t bytes = 0;
  FILE *to = open_memstream(&written, &bytes);
  assert_non_null(to);
  hr__text_wrap(text, column, indent, columns, to);
  fclose(to);
  assert_string_equal(written, expected);
  free(written);
}

static void wrapping(void **state) {
  (void)state;
  wrapped("", 5, 2, 10, "");
  wrapped("one two three", 0, 2, 80, "one two three");
  wrapped("one two three", 0, 2, 13, "one two three"); /* the last column may be used */
  wrapped("one two three", 0, 2, 12, "one two\n  three");
  wrapped("one two three", 6, 2, 12, "one\n  two three");
  wrapped("one two\nthree", 0, 1, 80, "one two\n three");
  wrapped("模型 模型 模型", 0, 0, 9, "模型 模型\n模型"); /* by columns, not bytes */
  wrapped("longer-than-the-line it is", 0, 2, 10, "longer-than-the-line\n  it is");
  wrapped("or so --set a=b now", 0, 0, 12, "or so\n--set a=b\nnow"); /* an option and its value */
  wrapped("with --auto, or", 0, 0, 12, "with --auto,\nor");
  wrapped("write: headroom plan a.yaml --gpu any; or not", 0, 2, 20,
          "write:\n  headroom plan a.yaml --gpu any;\n  or not"); /* to be copied */
}

static void clean_paths(void **state) {
  (void)state;
  static const char *const cases[][2] = {
      {"", ""},         {".", "."},           {"./", "."},          {"./.", "."},          {"/", "/"},
      {"//", "/"},      {"/.", "/"},          {"a", "a"},           {"./a", "./a"},        {"./a//b/./", "./a/b"},
      {".//a", "./a"},  {"a/", "a"},          {"a/.", "a"},         {"a//b/./c", "a/b/c"}, {"//a/./b//", "/a/b"},
      {"../a", "../a"}, {"a/../b", "a/../b"}, {".a/..b", ".a/..b"}, {"a./.b", "a./.b"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    char path[32];
    snprintf(path, sizeof path, "%s", cases[i][0]);
    hr__path_clean(path);
    assert_string_equal(path, cases[i][1]);
  }
}

static void clocks(void **state) {
  (void)state;
  char out[HR_CLOCK_TEXT];
  assert_string_equal(hr__clock_text(0, out), "0:00");
  assert_string_equal(hr__clock_text(-5, out), "0:00");
  assert_string_equal(hr__clock_text((double)NAN, out), "0:00");
  assert_string_equal(hr__clock_text(59.6, out), "1:00");
  assert_string_equal(hr__clock_text(245, out), "4:05");
  assert_string_equal(hr__clock_text(3723, out), "1:02:03");
  assert_string_equal(hr__clock_text(1e300, out), "100000:00:00");
}

/* What is drawn at a width, without what moves the cursor. */
static void drawn_at(unsigned short columns, double share, const hr_line_part *parts, size_t count, char out[512]) {
  int master = posix_openpt(O_RDWR | O_NOCTTY);
  assert_true(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
  FILE *to = fopen(ptsname(master), "w");
  struct winsize size = {.ws_col = columns, .ws_row = 24};
  assert_non_null(to);
  assert_int_equal(ioctl(fileno(to), TIOCSWINSZ, &size), 0);
  hr_line line;
  hr__line_begin(&line, to);
  assert_true(hr__line_due(&line));
  hr__line_draw(&line, share, parts, count);
  assert_false(hr__line_due(&line)); /* just drawn */
  char text[512];
  ssize_t bytes = read(master, text, sizeof text - 1);
  assert_true(bytes > 0);
  text[bytes] = '\0';
  const char *begin = strstr(text, "\x1b[?7l"), *end = strstr(text, "\x1b[J\x1b[?7h\r");
  assert_true(begin && end);
  snprintf(out, 512, "%.*s", (int)(end - begin - 5), begin + 5);
  fclose(to);
  close(master);
}

static void parts_by_worth(void **state) {
  (void)state;
  char out[512];
  setenv("TERM", "xterm", 1);
  hr_line_part parts[] = {{"first", 2}, {"", 9}, {NULL, 9}, {"模型模型", 3}, {"last", 1}};
  static const struct {
    unsigned short columns;
    const char *text;
  } cases[] = {
      {80, "  [##################....................]  first  模型模型  last"}, /* 21 columns of text, the bar 40 */
      {40, "  [####......]  first  模型模型  last"},
      {24, "  first  模型模型  last"},
      {23, "  first  模型模型"}, /* the last column stays free */
      {17, "  模型模型  last"},  /* "first" would need 18 */
      {11, "  模型模型"},
      {10, "  first"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    drawn_at(cases[i].columns, 0.48, parts, sizeof parts / sizeof parts[0], out);
    if (strcmp(out, cases[i].text) != 0) fail_msg("%d columns: '%s'", cases[i].columns, out);
  }
  drawn_at(40, -1, parts, 1, out);
  assert_string_equal(out, "  first"); /* no bar */
  drawn_at(0, -1, parts, 1, out);
  assert_string_equal(out, "  first"); /* a terminal that does not say: 80 */
}

static void nothing_elsewhere(void **state) {
  (void)state;
  FILE *file = tmpfile();
  hr_line line;
  hr_line_part part = {"text", 1};
  FILE *const places[] = {file, NULL};
  for (int i = 0; i < 2; i++) {
    hr__line_begin(&line, places[i]);
    assert_false(hr__line_due(&line));
    hr__line_draw(&line, 0.5, &part, 1);
    hr__line_clear(&line);
  }
  assert_int_equal(ftell(file), 0);
  assert_int_equal(hr__terminal_columns(file), 80);
  fclose(file);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(columns_of_text), cmocka_unit_test(wrapping),       cmocka_unit_test(clean_paths),
      cmocka_unit_test(clocks),          cmocka_unit_test(parts_by_worth), cmocka_unit_test(nothing_elsewhere),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
