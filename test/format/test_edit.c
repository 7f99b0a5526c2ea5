/* Values set in other people's configs: exactly their bytes change, or they are left alone for a stated reason. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "format/diff.h"
#include "format/edit.h"
#include "format/splice.h"

static hr_arena arena;

typedef struct edit_case {
  const char *text, *path;
  hr_literal value;
  const char *expected; /* the text afterwards; NULL: it stays */
  const char *reason;   /* where it stays: part of why; NULL: the value is there already */
} edit_case;

#define NUMBER(t)                                                                                                      \
  { HR_LITERAL_NUMBER, t }
#define BOOL(t)                                                                                                        \
  { HR_LITERAL_BOOL, t }
#define TEXT(t)                                                                                                        \
  { HR_LITERAL_TEXT, t }
#define FLOW(t)                                                                                                        \
  { HR_LITERAL_FLOW, t }

static hr_edit edit_one(const char *name, const edit_case *c, bool insert, const char **text, size_t *bytes) {
  hr_config config;
  hr_error err = {0};
  if (hr__config_parse(name, c->text, strlen(c->text), &arena, &config, &err) != HR_OK)
    fail_msg("%s: %s: %s", c->text, err.place, err.message);
  hr_edit edit = {.path = c->path, .value = c->value, .insert = insert};
  if (hr__config_edit(&config, &edit, 1, &arena, text, bytes, &err) != HR_OK)
    fail_msg("%s: %s: %s", c->text, err.place, err.message);
  return edit;
}

static void cases_check(const char *name, const edit_case *cases, size_t count, bool insert) {
  for (size_t i = 0; i < count; i++) {
    const edit_case *c = &cases[i];
    const char *text;
    size_t bytes;
    hr_edit edit = edit_one(name, c, insert, &text, &bytes);
    const char *expected = c->expected ? c->expected : c->text;
    if (bytes != strlen(expected) || memcmp(text, expected, bytes) != 0)
      fail_msg("%s\nbecame\n%.*s\ninstead of\n%s (%s)", c->text, (int)bytes, text, expected,
               edit.reason ? edit.reason : "");
    if (c->expected) {
      assert_int_equal(edit.outcome, insert ? HR_EDIT_INSERTED : HR_EDIT_WRITTEN);
    } else if (!c->reason) {
      assert_int_equal(edit.outcome, HR_EDIT_SAME);
    } else {
      assert_true(edit.outcome == HR_EDIT_LEFT || edit.outcome == HR_EDIT_MISSING);
      if (!strstr(edit.reason, c->reason)) fail_msg("%s: left because %s, not %s", c->text, edit.reason, c->reason);
    }
  }
}
#define CASES(name, list, insert) cases_check(name, list, sizeof list / sizeof list[0], insert)

static void yaml_values(void **state) {
  (void)state;
  static const edit_case cases[] = {
      {"a: 1\n", "a", NUMBER("8"), "a: 8\n", NULL},
      {"a: 1", "a", NUMBER("8"), "a: 8", NULL},
      {"a:    1   # one\n", "a", NUMBER("12345"), "a:    12345   # one\n", NULL},
      {"a: {b: 1, c: 2}\n", "a.b", NUMBER("8"), "a: {b: 8, c: 2}\n", NULL},
      {"a: {b: 1}\n", "a.b", NUMBER("8"), "a: {b: 8}\n", NULL},
      {"a: {\"b\":1}\n", "a.b", NUMBER("8"), "a: {\"b\":8}\n", NULL},
      {"a:\r\n  b: 1\r\n  c: 2\r\n", "a.b", NUMBER("8"), "a:\r\n  b: 8\r\n  c: 2\r\n", NULL},
      {"a:\r  b: 1\rc: 2\r", "a.b", NUMBER("8"), "a:\r  b: 8\rc: 2\r", NULL},
      {"\xef\xbb\xbf# \xc3\xa9\xe6\xbc\xa2\xf0\x9f\x98\x80\na: 1\n", "a", NUMBER("8"),
       "\xef\xbb\xbf# \xc3\xa9\xe6\xbc\xa2\xf0\x9f\x98\x80\na: 8\n", NULL},
      {"\xc3\xa9: \xc3\xa9\na: \xc3\xa9 # \xc3\xa9\n", "a", TEXT("e"), "\xc3\xa9: \xc3\xa9\na: e # \xc3\xa9\n", NULL},
      {"--- # head\na: 1\n...\n", "a", NUMBER("8"), "--- # head\na: 8\n...\n", NULL},
      {"%YAML 1.1\n---\na: 1\n", "a", NUMBER("8"), "%YAML 1.1\n---\na: 8\n", NULL},
      {"? a\n: 1\n", "a", NUMBER("8"), "? a\n: 8\n", NULL},
      {"'a': 1\n\"b\" : 2\n", "b", NUMBER("8"), "'a': 1\n\"b\" : 8\n", NULL},
      {"a.b: 1\na:\n  b: 2\n", "a.b", NUMBER("8"), "a.b: 8\na:\n  b: 2\n", NULL},
      {"a:\n  b.c: 1\n", "a.b.c", NUMBER("8"), "a:\n  b.c: 8\n", NULL},
      {"a:\n- b: 1\nc: 1\n", "c", NUMBER("8"), "a:\n- b: 1\nc: 8\n", NULL},
      /* quotes stay, and so does what a quoted number is */
      {"a: \"16-mixed\"\n", "a", TEXT("bf16-mixed"), "a: \"bf16-mixed\"\n", NULL},
      {"a: '16-mixed'\n", "a", TEXT("bf16-mixed"), "a: 'bf16-mixed'\n", NULL},
      {"a: 'x'\n", "a", TEXT("it's"), "a: 'it''s'\n", NULL},
      {"a: \"x\"\n", "a", TEXT("\"\\\n"), "a: \"\\\"\\\\\\u000a\"\n", NULL},
      {"a: 16\n", "a", TEXT("16-mixed"), "a: 16-mixed\n", NULL},
      {"a: \"8\"\n", "a", NUMBER("16"), "a: \"16\"\n", NULL},
      {"a: '8'\n", "a", NUMBER("16"), "a: '16'\n", NULL},
      {"a: \"auto\"\n", "a", NUMBER("16"), "a: 16\n", NULL},
      {"a: auto\n", "a", NUMBER("16"), "a: 16\n", NULL},
      {"a: \"x\n  y\"\nb: 1\n", "a", TEXT("z"), "a: \"z\"\nb: 1\n", NULL},
      {"a: x\n  y\nb: 1\n", "a", TEXT("z"), "a: z\nb: 1\n", NULL},
      {"a: \"\\u00e9 # no comment\"  # one\n", "a", TEXT("z"), "a: \"z\"  # one\n", NULL},
      /* words that some reader of YAML takes for something else are quoted */
      {"a: x\n", "a", TEXT("no"), "a: \"no\"\n", NULL},
      {"a: x\n", "a", TEXT("Null"), "a: \"Null\"\n", NULL},
      {"a: x\n", "a", TEXT("1e5"), "a: \"1e5\"\n", NULL},
      {"a: x\n", "a", TEXT("0x1f"), "a: \"0x1f\"\n", NULL},
      {"a: x\n", "a", TEXT("2001-01-01"), "a: \"2001-01-01\"\n", NULL},
      {"a: x\n", "a", TEXT("12:30"), "a: \"12:30\"\n", NULL},
      {"a: x\n", "a", TEXT("- x"), "a: \"- x\"\n", NULL},
      {"a: x\n", "a", TEXT(""), "a: \"\"\n", NULL},
      {"a: x\n", "a", TEXT("x # y"), "a: \"x # y\"\n", NULL},
      {"a: x\n", "a", TEXT("torch.optim.AdamW"), "a: torch.optim.AdamW\n", NULL},
      {"a: x\n", "a", TEXT("32-true"), "a: 32-true\n", NULL},
      /* truth in the way it was written */
      {"a: True\n", "a", BOOL("false"), "a: False\n", NULL},
      {"a: FALSE\n", "a", BOOL("true"), "a: TRUE\n", NULL},
      {"a: yes\n", "a", BOOL("false"), "a: no\n", NULL},
      {"a: Off\n", "a", BOOL("true"), "a: On\n", NULL},
      {"a: \"true\"\n", "a", BOOL("false"), "a: \"false\"\n", NULL},
      {"a: auto\n", "a", BOOL("false"), "a: false\n", NULL},
      {"a: 0\n", "a", BOOL("true"), "a: true\n", NULL},
      /* empty values */
      {"a:\nb: 1\n", "a", NUMBER("8"), "a: 8\nb: 1\n", NULL},
      {"a:", "a", NUMBER("8"), "a: 8", NULL},
      {"a:   # none yet\nb: 1\n", "a", NUMBER("8"), "a: 8   # none yet\nb: 1\n", NULL},
      {"a:\r\nb: 1\r\n", "a", NUMBER("8"), "a: 8\r\nb: 1\r\n", NULL},
      {"x:\n  a:\n  b: 1\n", "x.a", NUMBER("8"), "x:\n  a: 8\n  b: 1\n", NULL},
      {"{a: , b: 1}\n", "a", NUMBER("8"), "{a: 8 , b: 1}\n", NULL},
      {"{a, b: 1}\n", "a", NUMBER("8"), "{a: 8, b: 1}\n", NULL},
      {"{b: 1, a}\n", "a", NUMBER("8"), "{b: 1, a: 8}\n", NULL},
      {"{a: }\n", "a", NUMBER("8"), "{a: 8 }\n", NULL},
      {"a: null # n\n", "a", NUMBER("8"), "a: 8 # n\n", NULL},
      {"a: ~\n", "a", NUMBER("8"), "a: 8\n", NULL},
      /* anchors: a value of its own keeps its anchor, an alias as value is replaced */
      {"a: &x 1\n", "a", NUMBER("8"), "a: &x 8\n", NULL},
      {"a: &x  'q'  # c\n", "a", TEXT("z"), "a: &x  'z'  # c\n", NULL},
      {"a: &x\n  1\nb: 2\n", "a", NUMBER("8"), "a: &x\n  8\nb: 2\n", NULL},
      {"a: &x # why\n  1\n", "a", NUMBER("8"), "a: &x # why\n  8\n", NULL},
      {"a: &x 1\nb: *x\n", "b", NUMBER("8"), "a: &x 1\nb: 8\n", NULL},
      {"a: &x [1]\nb: {c: *x, d: 1}\n", "b.d", NUMBER("8"), "a: &x [1]\nb: {c: *x, d: 8}\n", NULL},
      {"d: &d {k: 1}\ne: &e\n  k: 2\nt:\n  <<: [*d, *e]\n  n: 1\n", "t.n", NUMBER("8"),
       "d: &d {k: 1}\ne: &e\n  k: 2\nt:\n  <<: [*d, *e]\n  n: 8\n", NULL},
      {"t: !!map\n  n: 1\ns: !tag x\n", "t.n", NUMBER("8"), "t: !!map\n  n: 8\ns: !tag x\n", NULL},
      /* the same already */
      {"a: 8\n", "a", NUMBER("8"), NULL, NULL},
      {"a: 8.0\n", "a", NUMBER("8"), NULL, NULL},
      {"a: \"8\"\n", "a", NUMBER("8"), NULL, NULL},
      {"a: On\n", "a", BOOL("true"), NULL, NULL},
      {"a: 'z'\n", "a", TEXT("z"), NULL, NULL},
      {"b: &x 8\na: *x\n", "a", NUMBER("8"), NULL, NULL},
      /* left alone */
      {"a: ${b}\n", "a", NUMBER("8"), NULL, "interpolation"},
      {"a: \"${oc.env:BATCH,8}\"\n", "a", NUMBER("8"), NULL, "interpolation"},
      {"a: 'x-${b}-y'\n", "a", TEXT("z"), NULL, "interpolation"},
      {"a: \"{{ batch }}\"\n", "a", NUMBER("8"), NULL, "interpolation"},
      {"x: &x ${y}\na: *x\n", "a", NUMBER("8"), NULL, "interpolation"},
      {"a: \"$\\x7by}\"\n", "a", NUMBER("8"), NULL, "interpolation"},
      {"a: &x 1\nb: *x\n", "a", NUMBER("8"), NULL, "anchor &x"},
      {"d: &d {k: 1}\nt:\n  <<: *d\n", "d.k", NUMBER("8"), NULL, "anchor &d"},
      {"d: &d {k: 1}\nt: *d\n", "t.k", NUMBER("8"), NULL, "anchor &d"},
      {"d: &d {k: 1}\nt:\n  <<: *d\n", "t.k", NUMBER("8"), NULL, "<<"},
      {"d: &d {k: 1}\nt:\n  <<: [*d]\n", "t.k", NUMBER("8"), NULL, "<<"},
      {"a: !!int 1\n", "a", NUMBER("8"), NULL, "tag"},
      {"a: !env BATCH\n", "a", NUMBER("8"), NULL, "tag"},
      {"a: |\n  1\n", "a", NUMBER("8"), NULL, "block of text"},
      {"a: >-\n  1\n", "a", NUMBER("8"), NULL, "block of text"},
      {"a: {b: 1}\n", "a", NUMBER("8"), NULL, "section"},
      {"a:\n  b: 1\n", "a", NUMBER("8"), NULL, "section"},
      {"a: [1, 2]\n", "a", NUMBER("8"), NULL, "list"},
      {"a: &x\nb: 1\n", "a", NUMBER("8"), NULL, "anchor without a value"},
      {"b: 1\n", "a", NUMBER("8"), NULL, "no such key"},
      {"b: 1\n", "b.a", NUMBER("8"), NULL, "no such section"},
      {"b: [1]\n", "a.b", NUMBER("8"), NULL, "no such section"},
      {"", "a", NUMBER("8"), NULL, "no such key"},
      {"# only a comment\n", "a", NUMBER("8"), NULL, "no such key"},
      {"ab: 1\n", "a", NUMBER("8"), NULL, "no such key"},
  };
  CASES("t.yaml", cases, false);
}

static void json_values(void **state) {
  (void)state;
  static const edit_case cases[] = {
      {"{\"a\": 1}", "a", NUMBER("8"), "{\"a\": 8}", NULL},
      {"{\"a\":1,\"b\":{\"a\":2}}\n", "b.a", NUMBER("8"), "{\"a\":1,\"b\":{\"a\":8}}\n", NULL},
      {"{\n\t\"a\" :\t1\n}\n", "a", NUMBER("8"), "{\n\t\"a\" :\t8\n}\n", NULL},
      {"{\"\\u0061\": 1}", "a", NUMBER("8"), "{\"\\u0061\": 8}", NULL},
      {"{\"x\": \"}{\\\"]\", \"a\": [1, {\"b\": 2}], \"c\": 1}", "c", NUMBER("8"),
       "{\"x\": \"}{\\\"]\", \"a\": [1, {\"b\": 2}], \"c\": 8}", NULL},
      {"{\"\xc3\xa9\": \"\xf0\x9f\x98\x80\", \"a\": \"auto\"}", "a", NUMBER("8"),
       "{\"\xc3\xa9\": \"\xf0\x9f\x98\x80\", \"a\": 8}", NULL},
      {"{\"a\": \"8\"}", "a", NUMBER("16"), "{\"a\": \"16\"}", NULL},
      {"{\"a\": 5e8}", "a", NUMBER("16"), "{\"a\": 16}", NULL},
      {"{\"a\": null}", "a", NUMBER("16"), "{\"a\": 16}", NULL},
      {"{\"a\": \"cpu\"}", "a", TEXT("none"), "{\"a\": \"none\"}", NULL},
      {"{\"a\": 1}", "a", TEXT("none"), "{\"a\": \"none\"}", NULL},
      {"{\"a\": true}", "a", BOOL("false"), "{\"a\": false}", NULL},
      {"{\"a\": \"auto\"}", "a", BOOL("false"), "{\"a\": false}", NULL},
      {"{\"a\": \"True\"}", "a", BOOL("false"), "{\"a\": \"False\"}", NULL},
      {"\xef\xbb\xbf{\"a\": 1}\r\n", "a", NUMBER("8"), "\xef\xbb\xbf{\"a\": 8}\r\n", NULL},
      {"// \"a\": 7, \xc3\xa9\r\n{\"a\": 1, // {[\r\n}\r\n// \"", "a", NUMBER("8"),
       "// \"a\": 7, \xc3\xa9\r\n{\"a\": 8, // {[\r\n}\r\n// \"", NULL},
      {"{\"x\": \"// # /* , }\", /* \"a\": 7,\n\n} */ \"a\":/**/1/* , */, # end\n}", "a", NUMBER("8"),
       "{\"x\": \"// # /* , }\", /* \"a\": 7,\n\n} */ \"a\":/**/8/* , */, # end\n}", NULL},
      {"{\"b\": [1, 2, ], \"c\": \"\\\\\", \"a\": \"\\\",}\" , }", "a", TEXT("x"),
       "{\"b\": [1, 2, ], \"c\": \"\\\\\", \"a\": \"x\" , }", NULL},
      {"{\"a\": 8.0}", "a", NUMBER("8"), NULL, NULL},
      {"{\"a\": \"${b}\"}", "a", NUMBER("8"), NULL, "interpolation"},
      {"{\"a\": {}}", "a", NUMBER("8"), NULL, "section"},
      {"{\"a\": []}", "a", NUMBER("8"), NULL, "list"},
      {"{}", "a", NUMBER("8"), NULL, "no such key"},
  };
  CASES("t.json", cases, false);
}

static void missing_keys_put_in(void **state) {
  (void)state;
  static const edit_case yaml[] = {
      {"b: 1\n", "a", NUMBER("8"), "b: 1\na: 8\n", NULL},
      {"b: 1 # one", "a", NUMBER("8"), "b: 1 # one\na: 8", NULL},
      {"b:\r\n  c: 1\r\nd: 2\r\n", "b.a", NUMBER("8"), "b:\r\n  c: 1\r\n  a: 8\r\nd: 2\r\n", NULL},
      {"b:\n    c:\n      d: 1\n", "b.a", NUMBER("8"), "b:\n    a: 8\n    c:\n      d: 1\n", NULL},
      {"b:\n  c: |\n    text\n", "b.a", NUMBER("8"), "b:\n  a: 8\n  c: |\n    text\n", NULL},
      {"b:\n  c:\n", "b.a", NUMBER("8"), "b:\n  c:\n  a: 8\n", NULL},
      {"b: {c: 1}\n", "b.a", NUMBER("8"), "b: {c: 1, a: 8}\n", NULL},
      {"b: {}\n", "b.a", NUMBER("8"), "b: {a: 8}\n", NULL},
      {"b: {\n  c: 1,\n  d: 2\n}\n", "b.a", NUMBER("8"), "b: {\n  c: 1,\n  d: 2,\n  a: 8\n}\n", NULL},
      {"", "a", NUMBER("8"), "a: 8\n", NULL},
      {"# head", "a", NUMBER("8"), "# head\na: 8\n", NULL},
      {"d: &d {k: 1}\nt:\n  <<: *d\n", "t.k", NUMBER("8"), "d: &d {k: 1}\nt:\n  k: 8\n  <<: *d\n", NULL},
  };
  CASES("t.yaml", yaml, true);
  static const edit_case json[] = {
      {"{\"b\": 1}", "a", NUMBER("8"), "{\"b\": 1, \"a\": 8}", NULL},
      {"{\"b\": {\n    \"c\": 1\n  }\n}\n", "b.a", TEXT("x"), "{\"b\": {\n    \"c\": 1,\n    \"a\": \"x\"\n  }\n}\n",
       NULL},
      {"{}", "a", NUMBER("8"), "{\"a\": 8}", NULL},
      {"{ // none\n}", "a", NUMBER("8"), "{ // none\n\"a\": 8}", NULL},
      {"{\n  // b\n  \"b\": 1, // one\n}\n", "a", NUMBER("8"), "{\n  // b\n  \"b\": 1,\n  \"a\": 8, // one\n}\n", NULL},
  };
  CASES("t.json", json, true);
  static const edit_case shared = {"d: &d {k: 1}\nt: *d\n", "d.n", NUMBER("8"), NULL, "shared"};
  const char *text;
  size_t bytes;
  hr_edit edit = edit_one("t.yaml", &shared, true, &text, &bytes);
  assert_int_equal(edit.outcome, HR_EDIT_MISSING);
}

/* Several at once, in any order; one key asked for twice. */
static void several(void **state) {
  (void)state;
  static const char text[] = "a: 1\nb: {c: 2, d: 3}\ne: ${x}\n";
  hr_config config;
  hr_error err = {0};
  assert_int_equal(hr__config_parse("t.yaml", text, strlen(text), &arena, &config, &err), HR_OK);
  hr_edit edits[] = {
      {.path = "b.d", .value = NUMBER("33")},
      {.path = "a", .value = NUMBER("11")},
      {.path = "e", .value = NUMBER("5")},
      {.path = "b.c", .value = NUMBER("22")},
      {.path = "a", .value = NUMBER("11")},
      {.path = "a", .value = NUMBER("12")},
      {.path = "b.x", .value = NUMBER("7"), .insert = true},
      {.path = "b.w", .value = TEXT("z"), .insert = true},
  };
  const char *out;
  size_t bytes;
  assert_int_equal(hr__config_edit(&config, edits, 8, &arena, &out, &bytes, &err), HR_OK);
  assert_string_equal(out, "a: 11\nb: {c: 22, d: 33, x: 7, w: z}\ne: ${x}\n");
  static const hr_edit_outcome outcomes[] = {HR_EDIT_WRITTEN, HR_EDIT_WRITTEN, HR_EDIT_LEFT,     HR_EDIT_WRITTEN,
                                             HR_EDIT_SAME,    HR_EDIT_LEFT,    HR_EDIT_INSERTED, HR_EDIT_INSERTED};
  for (size_t i = 0; i < 8; i++)
    assert_int_equal(edits[i].outcome, outcomes[i]);
  assert_int_equal(edits[0].line, 2);
  assert_string_equal(edits[0].old, "3");
  assert_string_equal(edits[0].now, "33");
}

/* Words that mean the value already; lists of choices where they may be replaced; maps as values. */
static void further(void **state) {
  (void)state;
  static const struct {
    const char *text;
    hr_edit edit;
    const char *expected;
  } cases[] = {
      {"a: adamw_hf\n", {.value = TEXT("adamw_torch"), .same = "adamw_torch_fused,adamw_hf"}, "a: adamw_hf\n"},
      {"a: adamw\n", {.value = TEXT("adamw_torch"), .same = "adamw_torch_fused,adamw_hf"}, "a: adamw_torch\n"},
      {"a: [1, 2] # c\n", {.value = NUMBER("2"), .lists = true}, "a: 2 # c\n"},
      {"a: # c\n  - x\n  # d\n  - v\nb: 1\n", {.value = TEXT("v"), .lists = true}, "a: v\nb: 1\n"},
      {"a:\n- x\n- y # c\nb: 1\n", {.value = TEXT("x"), .lists = true}, "a: x # c\nb: 1\n"},
      {"\"a\":\n- x\n", {.value = TEXT("x"), .lists = true}, "\"a\": x\n"},
      {"a: auto\n", {.value = FLOW("{\"0\": 4, \"8\": 2}")}, "a: {\"0\": 4, \"8\": 2}\n"},
      {"a: [1]\n", {.value = FLOW("[1, 2]"), .lists = true}, "a: [1, 2]\n"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    hr_config config;
    hr_error err = {0};
    hr_edit edit = cases[i].edit;
    edit.path = "a";
    const char *out;
    size_t bytes;
    assert_int_equal(hr__config_parse("t.yaml", cases[i].text, strlen(cases[i].text), &arena, &config, &err), HR_OK);
    if (hr__config_edit(&config, &edit, 1, &arena, &out, &bytes, &err) != HR_OK)
      fail_msg("%s: %s", cases[i].text, err.message);
    assert_string_equal(out, cases[i].expected);
  }
}

static void refused(void **state) {
  (void)state;
  static const struct {
    const char *text, *message;
  } cases[] = {
      {"a: 1\na: 2\n", "repeated"},
      {"a: 1\n---\na: 2\n", "several documents"},
      {"a: *x\n", "no value with the anchor"},
      {"a: &x [*x]\n", "inside of itself"},
      {"? [a]\n: 1\n", "a key must be"},
      {"k: &k 1\n*k : 1\n", "a key must be"},
      {"a: {b: 1\n", "flow"},
      {"a: \xff\n", "UTF-8"},
      {"a: 1\x01\n", "control"},
      {"\tb: 1\n", "token"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    hr_config config;
    hr_error err = {0};
    assert_int_equal(hr__config_parse("t.yaml", cases[i].text, strlen(cases[i].text), &arena, &config, &err),
                     HR_BAD_INPUT);
    if (!strstr(err.message, cases[i].message)) fail_msg("%s: %s", cases[i].text, err.message);
    assert_memory_equal(err.place, "t.yaml:", 7);
  }
}

/* The check behind the splice: anything but the intended is found. */
static void check_finds(void **state) {
  (void)state;
  static const char old[] = "d: &d {k: 1}\nt: *d\na: 1\nb: x\n";
  static const char *const wrong[] = {
      "d: &d {k: 1}\nt: *d\na: 9\nb: x\n",       /* another value */
      "d: &d {k: 1}\nt: *d\na: 8\nb: y\n",       /* another key too */
      "d: &d {k: 1}\nt: *d\na: 8\n",             /* a key less */
      "d: &d {k: 1}\nt: *d\na: 8\nb: x\nc: 1\n", /* a key more */
      "d: &d {k: 2}\nt: *d\na: 8\nb: x\n",       /* through an alias */
      "d: &d {k: 1}\nt: {k: 1}\na: 8\nb: x\n",   /* no alias any more */
      "d: &e {k: 1}\nt: *e\na: 8\nb: x\n",       /* another anchor */
      "d: &d {k: 1}\nt: *d\na: '8'\nb: 'x'\n",   /* quotes */
      "d: &d {k: 1}\nt: *d\nb: x\na: 8\n",       /* another order */
      "d: &d {k: 1}\nt: *d\na: !x 8\nb: x\n",    /* a tag */
      "d: &d {k: 1}\nt: *d\na: [8]\nb: x\n",     /* a list */
      "d: &d {k: 1}\nt: *d\na: 8\nb: x\n---\n",  /* not valid */
  };
  hr_config config;
  hr_error err = {0};
  assert_int_equal(hr__config_parse("t.yaml", old, strlen(old), &arena, &config, &err), HR_OK);
  hr_edit edit = {.path = "a", .value = NUMBER("8")};
  const char *text;
  size_t bytes;
  assert_int_equal(hr__config_edit(&config, &edit, 1, &arena, &text, &bytes, &err), HR_OK);
  assert_int_equal(hr__splice_check(&config, &edit, 1, text, bytes, &err), HR_OK);
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
    if (hr__splice_check(&config, &edit, 1, wrong[i], strlen(wrong[i]), &err) != HR_FAILURE)
      fail_msg("not found: %s", wrong[i]);
}

/* A small file whose aliases stand for a billion values: the check gives up instead of walking them. */
static void aliases_without_end(void **state) {
  (void)state;
  char text[2048] = "a0: &a0 [1,1,1,1,1,1,1,1,1,1]\n";
  for (int i = 1; i < 12; i++) {
    size_t used = strlen(text);
    used += (size_t)snprintf(text + used, sizeof text - used, "a%d: &a%d [", i, i);
    for (int k = 0; k < 10; k++)
      used += (size_t)snprintf(text + used, sizeof text - used, "%s*a%d", k ? "," : "", i - 1);
    snprintf(text + used, sizeof text - used, "]\n");
  }
  strcat(text, "b: 1\n");
  hr_config config;
  hr_error err = {0};
  assert_int_equal(hr__config_parse("t.yaml", text, strlen(text), &arena, &config, &err), HR_OK);
  hr_edit edit = {.path = "b", .value = NUMBER("8")};
  const char *out;
  size_t bytes;
  assert_int_equal(hr__config_edit(&config, &edit, 1, &arena, &out, &bytes, &err), HR_FAILURE);
}

static void diff(void **state) {
  (void)state;
  static const struct {
    const char *old, *new, *expected;
  } cases[] = {
      {"a\n", "a\n", ""},
      {"a\n", "b\n", "--- f\n+++ g\n@@ -1,1 +1,1 @@\n-a\n+b\n"},
      {"a", "b\n", "--- f\n+++ g\n@@ -1,1 +1,1 @@\n-a\n\\ No newline at end of file\n+b\n"},
      {"", "b\n", "--- f\n+++ g\n@@ -0,0 +1,1 @@\n+b\n"},
      {"1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n2\n3\n4\nx\n6\n7\n8\n9\n",
       "--- f\n+++ g\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+x\n 6\n 7\n 8\n"},
      {"1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n13\n", "x\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n13\ny\n",
       "--- f\n+++ g\n@@ -1,4 +1,4 @@\n-1\n+x\n 2\n 3\n 4\n@@ -11,3 +11,4 @@\n 11\n 12\n 13\n+y\n"},
      {"1\n2\n3\n4\n5\n6\n7\n8\n", "x\n2\n3\n4\n5\n6\n7\ny\n",
       "--- f\n+++ g\n@@ -1,8 +1,8 @@\n-1\n+x\n 2\n 3\n 4\n 5\n 6\n 7\n-8\n+y\n"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    const char *text;
    size_t bytes;
    hr_error err = {0};
    assert_int_equal(hr__diff("f", cases[i].old, strlen(cases[i].old), "g", cases[i].new, strlen(cases[i].new), &arena,
                              &text, &bytes, &err),
                     HR_OK);
    assert_string_equal(text, cases[i].expected);
    assert_int_equal(bytes, strlen(cases[i].expected));
  }
}

static int arena_free(void **state) {
  (void)state;
  hr__arena_fini(&arena);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(yaml_values, arena_free),
      cmocka_unit_test_teardown(json_values, arena_free),
      cmocka_unit_test_teardown(missing_keys_put_in, arena_free),
      cmocka_unit_test_teardown(several, arena_free),
      cmocka_unit_test_teardown(further, arena_free),
      cmocka_unit_test_teardown(refused, arena_free),
      cmocka_unit_test_teardown(check_finds, arena_free),
      cmocka_unit_test_teardown(aliases_without_end, arena_free),
      cmocka_unit_test_teardown(diff, arena_free),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
