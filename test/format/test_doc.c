/* YAML and JSON into the document tree: values, positions, and what is refused, with its place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/doc.h"
#include "support/faults.h"

static hr_arena arena;

static int arena_teardown(void **state) {
  (void)state;
  hr__arena_fini(&arena);
  return hr_test_live_bytes() ? -1 : 0;
}

static hr_doc_node *yaml_bytes(const char *text, size_t bytes) {
  hr_doc_node *root = NULL;
  hr_error err = {0};
  hr_status status = hr__yaml_parse("t.yaml", text, bytes, &arena, &root, &err);
  if (status != HR_OK) fail_msg("%s: %s: %s", text, err.place, err.message);
  return root;
}

static hr_doc_node *yaml(const char *text) {
  return yaml_bytes(text, strlen(text));
}

static void yaml_tree(void **state) {
  (void)state;
  hr_doc_node *root = yaml("# head\nmodel:\n  kind: llama\n  layers: [1, 'two', \"3\"]\ntrain: {steps: 10, lr: 3e-4}\n"
                           "empty:\ntext: |\n  a\n  b\n");
  assert_int_equal(root->kind, HR_DOC_MAP);
  hr_doc_node *model = hr__doc_get(root, "model");
  assert_int_equal(model->kind, HR_DOC_MAP);
  assert_int_equal(model->key_line, 2);
  assert_int_equal(model->key_column, 1);
  hr_doc_node *kind = hr__doc_get(model, "kind");
  assert_string_equal(kind->text, "llama");
  assert_string_equal(kind->key, "kind");
  assert_int_equal(kind->line, 3);
  assert_int_equal(kind->column, 9);
  hr_doc_node *layers = hr__doc_get(model, "layers");
  assert_int_equal(layers->kind, HR_DOC_LIST);
  assert_false(layers->child->quoted);
  assert_true(layers->child->next->quoted);
  assert_true(layers->child->next->next->quoted);
  assert_null(layers->child->next->next->next);
  assert_null(layers->child->key);
  assert_true(hr__doc_is_null(hr__doc_get(root, "empty")));
  assert_string_equal(hr__doc_get(root, "text")->text, "a\nb\n");
  assert_true(hr__doc_get(root, "text")->quoted);
  assert_null(hr__doc_get(root, "absent"));
  assert_null(hr__doc_get(layers, "kind"));
  assert_null(hr__doc_get(NULL, "kind"));
  char place[HR_DOC_PLACE];
  assert_string_equal(hr__doc_place("t.yaml", kind, false, place), "t.yaml:3:9");
  assert_string_equal(hr__doc_place("t.yaml", model, true, place), "t.yaml:2:1");
}

static void span_check(const char *text, size_t bytes, const char *path, const char *expected) {
  hr_doc_node *node = hr__doc_get(yaml_bytes(text, bytes), path);
  assert_non_null(node);
  assert_int_equal(node->end - node->begin, strlen(expected));
  assert_memory_equal(text + node->begin, expected, strlen(expected));
}

/* Byte ranges are exact whatever stands before: several bytes per character, byte order mark, CR LF, comments. */
static void yaml_spans(void **state) {
  (void)state;
  static const struct {
    const char *text, *key, *expected;
  } cases[] = {
      {"a: 12\n", "a", "12"},
      {"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80: 1 # \xc3\xb6\nb: zwei\n", "b", "zwei"},
      {"\xef\xbb\xbf"
       "a: 5\n",
       "a", "5"},
      {"\xef\xbb\xbf# \xc3\xa4\r\na: 5\r\nb: 77\r\n", "b", "77"},
      {"x: 1\r\nb: [1, 2]  # c\r\n", "b", "[1, 2]"},
      {"b: {c: 1}   \nd: 2", "b", "{c: 1}"},
      {"b: \"q\\\"\xc3\xa4\" \n", "b", "\"q\\\"\xc3\xa4\""},
      {"b:\n  c: 1\n  d: 23\n\n# behind\ne: 1\n", "b", "c: 1\n  d: 23"},
      {"b:\n- 1\n- 2\n", "b", "- 1\n- 2"},
      {"b:\n\nc: 1\n", "b", ""},
      {"b: two words  # c\n", "b", "two words"},
      {"b: [x: 1 ]\n", "b", "[x: 1 ]"},
      {"z: \"x\xc2\x85y\"\nb: 9\n", "b", "9"}, /* U+0085 ends a line for libyaml, not for editors */
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
    span_check(cases[i].text, strlen(cases[i].text), cases[i].key, cases[i].expected);
  hr_doc_node *root = yaml("\xef\xbb\xbf# \xc3\xa4\r\nb: 77\r\n");
  assert_int_equal(root->child->line, 2);
  assert_int_equal(root->child->column, 4);
  assert_int_equal(yaml("z: \"x\xc2\x85y\"\nb: 9\n")->child->next->line, 2);
  assert_int_equal(yaml("\xc3\xa4\xc3\xa4: x")->child->column, 5);
}

/* What is read as one word without a parser is what a parser makes of it, and nothing else is read so. */
static void yaml_words(void **state) {
  (void)state;
  static const char signs[] = "aZ019._/-+:#&*!|>'\"%@`,[]{}?~= \t\n\\\x7f\xc3\xa9";
  enum { SIGNS = sizeof signs - 1 };
  size_t words = 0;
  for (int number = 0; number < SIGNS * SIGNS * SIGNS; number++) {
    const char text[] = {signs[number / SIGNS / SIGNS], signs[number / SIGNS % SIGNS], signs[number % SIGNS], 0};
    hr_arena scratch;
    hr__arena_init(&scratch);
    hr_doc_node *own = NULL, *other = NULL;
    hr_error err = {0};
    if (hr__yaml_parse("t", text, 3, &scratch, &own, &err) == HR_OK) {
      assert_int_equal(hr__yaml_parse_any("t", text, 3, &scratch, &other, &err), HR_OK);
      assert_int_equal(own->kind, other->kind);
      if (own->kind == HR_DOC_SCALAR) {
        words++;
        assert_string_equal(own->text, other->text);
        assert_true(own->quoted == other->quoted && own->style == other->style && !own->next && !own->child);
        assert_true(own->line == other->line && own->column == other->column);
        assert_true(own->key_line == other->key_line && own->key_column == other->key_column);
        assert_true(own->begin == other->begin && own->end == other->end && own->key_begin == other->key_begin);
        assert_true(own->key == other->key && !own->anchor && !own->tag && !own->target);
      }
    }
    hr__arena_fini(&scratch);
  }
  assert_true(words > 5 * 9 * 9);
}

static void yaml_empty(void **state) {
  (void)state;
  static const char *const empty[] = {
      "", "\n\n", "# only words\n", "---\n", "--- # x\n...\n", "\xef\xbb\xbf", "%YAML 1.2\n---\n"};
  for (size_t i = 0; i < sizeof empty / sizeof empty[0]; i++) {
    hr_doc_node *root = yaml(empty[i]);
    assert_int_equal(root->kind, HR_DOC_MAP);
    assert_null(root->child);
  }
  assert_string_equal(yaml("word")->text, "word");
  assert_int_equal(yaml("- 1")->kind, HR_DOC_LIST);
}

static char *repeated(const char *piece, size_t count) {
  char *text = malloc(strlen(piece) * count + 1);
  assert_non_null(text);
  char *at = text;
  for (size_t i = 0; i < count; i++)
    at = stpcpy(at, piece);
  *at = '\0';
  return text;
}

static void refusal_check(const char *name, hr_status status, const hr_error *err, const char *place,
                          const char *message) {
  if (status != HR_BAD_INPUT || !strstr(err->message, message) || (place && strcmp(err->place, place) != 0))
    fail_msg("%s: %s: %s: %s", name, hr_status_name(status), err->place, err->message);
  for (const char *at = err->message; *at; at++)
    if ((unsigned char)*at < 0x20) fail_msg("%s: control byte in the message", name);
}

static void yaml_refusals(void **state) {
  (void)state;
  static const struct {
    const char *text, *place, *message;
    size_t bytes; /* 0: strlen */
  } cases[] = {
      {"a: 1\nb: 2\na: 3\n", "t.yaml:3:1", "\"a\" is repeated (first at line 1)", 0},
      {"a: {x: 1, 'x': 2}\n", "t.yaml:1:11", "repeated", 0},
      {"a: 1\n\"\\x61\": 2\n", "t.yaml:2:1", "repeated", 0},
      {"a: &x 1\n", "t.yaml:1:4", "anchors", 0},
      {"a: *x\n", "t.yaml:1:4", "anchors", 0},
      {"&x a: 1\n", "t.yaml:1:1", "anchors", 0},
      {"a: &x [1]\nb: *x\n", "t.yaml:1:4", "anchors", 0},
      {"a: !!int 1\n", "t.yaml:1:4", "tags", 0},
      {"a: !x {}\n", "t.yaml:1:4", "tags", 0},
      {"a: ! x\n", "t.yaml:1:4", "tags", 0},
      {"%TAG !e! tag:x\n---\na: 1\n", "t.yaml:1:1", "%TAG", 0},
      {"a: 1\n---\nb: 2\n", "t.yaml:2:1", "several documents", 0},
      {"a: 1\n...\n---\n...\n", "t.yaml:3:1", "several documents", 0},
      {"? [1, 2]\n: x\n", "t.yaml:1:3", "a key must be", 0},
      {"{{a: 1}: 2}\n", "t.yaml:1:2", "a key must be", 0},
      {"a: \"b\n", NULL, "unexpected end of stream", 0},
      {"a: [1, 2\n", NULL, "did not find expected", 0},
      {"a: b: c\n", "t.yaml:1:5", "mapping values are not allowed", 0},
      {"a:\n\tb: 1\n", "t.yaml:2:1", "cannot start any token", 0},
      {"a: @x\n", "t.yaml:1:4", "cannot start any token", 0},
      {"a: 1\n b: 2\n", NULL, "", 0},
      {"a: \xff\n", "t.yaml:1:4", "0xff is not valid UTF-8", 0},
      {"\xc3\xa4: \xc0\xaf\n", "t.yaml:1:4", "not valid UTF-8", 0},
      {"a: \xed\xa0\x80\n", "t.yaml:1:4", "not valid UTF-8", 0},
      {"a: 1\nb: \xe2\x82", "t.yaml:2:4", "not valid UTF-8", 0},
      {"a: \0\n", "t.yaml:1:4", "control character 0x00", 5},
      {"a: 1\nb: \x1b[2J\n", "t.yaml:2:4", "control character 0x1b", 0},
      {"a: \x7f\n", "t.yaml:1:4", "control character 0x7f", 0},
      {"a: \"\\0\"\n", "t.yaml:1:4", "NUL", 0},
      {"\xff\xfe"
       "a\0:\0",
       "t.yaml:1:1", "not valid UTF-8", 6},
      {"a: \xc2\x81\n", NULL, "control characters are not allowed", 0},
      {"%YAML 2.0\n---\na: 1\n", NULL, "", 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    hr_doc_node *root = NULL;
    hr_error err = {0};
    hr_status status = hr__yaml_parse("t.yaml", cases[i].text, cases[i].bytes ? cases[i].bytes : strlen(cases[i].text),
                                      &arena, &root, &err);
    refusal_check(cases[i].text, status, &err, cases[i].place, cases[i].message);
    assert_non_null(strstr(err.place, "t.yaml:"));
  }
}

/* Where libyaml gives up, what people mostly have done. */
static void yaml_remedies(void **state) {
  (void)state;
  static const char *const cases[][2] = {
      {"a:\n\tb: 1\n", "spaces"}, {"a: b: c\n", "in quotes"}, {"a: @x\n", "begins so"}, {"a: [1, 2\n", NULL}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    hr_doc_node *root = NULL;
    hr_error err = {0};
    assert_int_equal(hr__yaml_parse("t.yaml", cases[i][0], strlen(cases[i][0]), &arena, &root, &err), HR_BAD_INPUT);
    if (cases[i][1] ? !strstr(err.remedy, cases[i][1]) : *err.remedy) fail_msg("%s: %s", cases[i][0], err.remedy);
  }
}

static hr_status parse_free(bool json, char *text, hr_error *err) {
  hr_doc_node *root;
  hr_status status = (json ? hr__json_parse : hr__yaml_parse)("big", text, strlen(text), &arena, &root, err);
  free(text);
  return status;
}

static void caps(void **state) {
  (void)state;
  hr_error err = {0};
  refusal_check("deep flow", parse_free(false, repeated("[", 65), &err), &err, "big:1:65", "nested more than 64");
  refusal_check("deeper flow", parse_free(false, repeated("[", 100000), &err), &err, NULL, "nested more than 64");
  refusal_check("deep maps", parse_free(false, repeated("{a: ", 5000), &err), &err, NULL, "nested more than 64");
  refusal_check("deep block", parse_free(false, repeated("- ", 5000), &err), &err, NULL, "nested more than 64");
  refusal_check("deep keys", parse_free(false, repeated("? ", 5000), &err), &err, NULL, "a key must be");
  refusal_check("deep JSON", parse_free(true, repeated("[", 100000), &err), &err, NULL, "not valid JSON");
  char *text = repeated("[", 65);
  text = realloc(text, 200);
  memset(text + 65, ']', 65);
  text[130] = '\0';
  refusal_check("JSON of depth 65", parse_free(true, text, &err), &err, NULL, "nested more than 64");
  text = repeated("[", 64);
  text = realloc(text, 200);
  memset(text + 64, ']', 64);
  text[128] = '\0';
  char *copy = strdup(text);
  assert_int_equal(parse_free(true, text, &err), HR_OK);
  assert_int_equal(parse_free(false, copy, &err), HR_OK);
  refusal_check("YAML bytes", parse_free(false, repeated("#23456789abcdef\n", (HR_DOC_MAX_BYTES >> 4) + 1), &err), &err,
                "big", "more than 16777216 bytes");
  refusal_check("JSON bytes", parse_free(true, repeated("                ", (HR_DOC_MAX_BYTES >> 4) + 1), &err), &err,
                "big", "more than 16777216 bytes");
  text = repeated("[],", HR_DOC_MAX_NODES + 1);
  text[0] = '['; /* "[],[],...[],": begins a list of lists */
  text[1] = ' ';
  refusal_check("JSON nodes", (text[2] = ' ', text[strlen(text) - 1] = ']', parse_free(true, text, &err)), &err, "big",
                "more than 1048576");
}

/* A hostile map with many keys takes n log n time, and a repeated one among them is found. */
static void many_keys(void **state) {
  (void)state;
  enum { KEYS = 60000 };
  char *text = malloc(KEYS * 16), *at = text;
  assert_non_null(text);
  for (int i = 0; i < KEYS; i++)
    at += sprintf(at, "k%d: 1\n", i == KEYS - 1 ? 17 : i);
  hr_error err = {0};
  refusal_check("many keys", parse_free(false, text, &err), &err, "big:60000:1",
                "\"k17\" is repeated (first at line 18)");
}

static void json_tree(void **state) {
  (void)state;
  hr_doc_node *root = NULL;
  hr_error err = {0};
  const char *text = "{\"b\": [1, -2.5, 2.0, 1e300, true, false, null, \"3\"],\r\n \"a\": {\"\\u00e4\": \"\\t\"}, "
                     "\"i\": 9223372036854775807}";
  assert_int_equal(hr__json_parse("t.json", text, strlen(text), &arena, &root, &err), HR_OK);
  assert_string_equal(root->child->key, "b"); /* source order */
  static const char *const expected[] = {"1", "-2.5", "2.0", "1.0000000000000001e+300", "true", "false", "null", "3"};
  const hr_doc_node *item = root->child->child;
  for (size_t i = 0; i < 8; i++, item = item->next) {
    assert_string_equal(item->text, expected[i]);
    assert_int_equal(item->quoted, i == 7);
  }
  assert_null(item);
  assert_string_equal(hr__doc_get(hr__doc_get(root, "a"), "\xc3\xa4")->text, "\t");
  int64_t number;
  assert_true(hr__doc_int(hr__doc_get(root, "i"), &number) && number == INT64_MAX);
  /* where they stand, though jansson does not tell */
  item = hr__doc_get(hr__doc_get(root, "a"), "\xc3\xa4");
  assert_int_equal(root->line, 1);
  assert_int_equal(root->end, strlen(text));
  assert_int_equal(item->line, 2);
  assert_int_equal(item->column, 18);
  assert_int_equal(item->key_column, 8);
  assert_memory_equal(text + item->begin, "\"\\t\"", 4);
  assert_int_equal(item->end - item->begin, 4);
}

static void json_refusals(void **state) {
  (void)state;
  static const struct {
    const char *text, *place;
    size_t bytes;
  } cases[] = {
      {"", "t.json:1:0", 0},
      {"{\"a\":1,\"a\":2}", NULL, 0},
      {"{\"a\":1}x", NULL, 0},
      {"{\"a\":1}{}", NULL, 0},
      {"{\n\"a\" 1}", "t.json:2:5", 0},
      {"3", NULL, 0},
      {"\"text\"", NULL, 0},
      {"[1,]", NULL, 0},
      {"[01]", NULL, 0},
      {"[+1]", NULL, 0},
      {"[.5]", NULL, 0},
      {"[0x10]", NULL, 0},
      {"[NaN]", NULL, 0},
      {"[Infinity]", NULL, 0},
      {"[1e999]", NULL, 0},
      {"[99999999999999999999]", NULL, 0},
      {"[-9223372036854775809]", NULL, 0},
      {"[\"\\u0000\"]", NULL, 0},
      {"[\"\\ud800\"]", NULL, 0},
      {"[\"\\x41\"]", NULL, 0},
      {"[\"\n\"]", NULL, 0},
      {"[\"\xff\"]", NULL, 0},
      {"\xef\xbb\xbf{}", NULL, 0},
      {"{\0}", NULL, 3},
      {"[1]\0", NULL, 4},
      {"// note\n{}", NULL, 0},
      {"{'a': 1}", NULL, 0},
      {"{a: 1}", NULL, 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    hr_doc_node *root = NULL;
    hr_error err = {0};
    size_t bytes = cases[i].bytes ? cases[i].bytes : strlen(cases[i].text);
    hr_status status = hr__json_parse("t.json", cases[i].text, bytes, &arena, &root, &err);
    refusal_check(cases[i].text, status, &err, cases[i].place, "not valid JSON");
  }
}

static void scalars(void **state) {
  (void)state;
  static const struct {
    const char *text;
    int is_int, is_float, is_bool, is_null;
    int64_t whole;
    double real;
  } cases[] = {
      {"0", 1, 1, 0, 0, 0, 0},
      {"-17", 1, 1, 0, 0, -17, -17},
      {"+3", 1, 1, 0, 0, 3, 3},
      {"007", 1, 1, 0, 0, 7, 7},
      {"0x1F", 1, 1, 0, 0, 31, 31},
      {"0o17", 1, 1, 0, 0, 15, 15},
      {"9223372036854775807", 1, 1, 0, 0, INT64_MAX, 9223372036854775807.0},
      {"-9223372036854775808", 1, 1, 0, 0, INT64_MIN, -9223372036854775808.0},
      {"9223372036854775808", 0, 1, 0, 0, 0, 9223372036854775808.0},
      {"0xFFFFFFFFFFFFFFFFF", 0, 0, 0, 0, 0, 0},
      {"0x", 0, 0, 0, 0, 0, 0},
      {"0o8", 0, 0, 0, 0, 0, 0},
      {"-0x1", 0, 0, 0, 0, 0, 0},
      {"1_000", 0, 0, 0, 0, 0, 0},
      {"1e3", 0, 1, 0, 0, 0, 1000},
      {"1.5", 0, 1, 0, 0, 0, 1.5},
      {".5", 0, 1, 0, 0, 0, 0.5},
      {"5.", 0, 1, 0, 0, 0, 5},
      {"-1.5e-3", 0, 1, 0, 0, 0, -0.0015},
      {".", 0, 0, 0, 0, 0, 0},
      {"1e", 0, 0, 0, 0, 0, 0},
      {"e5", 0, 0, 0, 0, 0, 0},
      {"1.5x", 0, 0, 0, 0, 0, 0},
      {"0x1p4", 0, 0, 0, 0, 0, 0},
      {"1e999", 0, 0, 0, 0, 0, 0},
      {".inf", 0, 0, 0, 0, 0, 0},
      {"inf", 0, 0, 0, 0, 0, 0},
      {".nan", 0, 0, 0, 0, 0, 0},
      {"nan", 0, 0, 0, 0, 0, 0},
      {"true", 0, 0, 1, 0, 1, 0},
      {"FALSE", 0, 0, 1, 0, 0, 0},
      {"yes", 0, 0, 0, 0, 0, 0},
      {"on", 0, 0, 0, 0, 0, 0},
      {"tRue", 0, 0, 0, 0, 0, 0},
      {"~", 0, 0, 0, 1, 0, 0},
      {"null", 0, 0, 0, 1, 0, 0},
      {"", 0, 0, 0, 1, 0, 0},
      {"12 ", 0, 0, 0, 0, 0, 0},
      {"words", 0, 0, 0, 0, 0, 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    hr_doc_node node = {.kind = HR_DOC_SCALAR, .text = cases[i].text};
    int64_t whole = 0;
    double real = 0;
    bool yes = false;
    if (hr__doc_int(&node, &whole) != cases[i].is_int || (cases[i].is_int && whole != cases[i].whole) ||
        hr__doc_float(&node, &real) != cases[i].is_float || (cases[i].is_float && real != cases[i].real) ||
        hr__doc_bool(&node, &yes) != cases[i].is_bool || (cases[i].is_bool && yes != cases[i].whole) ||
        hr__doc_is_null(&node) != cases[i].is_null)
      fail_msg("\"%s\": %lld %g %d", cases[i].text, (long long)whole, real, yes);
    node.quoted = true; /* a quoted string is never anything else */
    assert_false(hr__doc_int(&node, &whole) || hr__doc_float(&node, &real) || hr__doc_bool(&node, &yes) ||
                 hr__doc_is_null(&node));
  }
}

int main(void) {
  hr_test_faults_install();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(yaml_tree, arena_teardown),
      cmocka_unit_test_teardown(yaml_spans, arena_teardown),
      cmocka_unit_test_teardown(yaml_words, arena_teardown),
      cmocka_unit_test_teardown(yaml_empty, arena_teardown),
      cmocka_unit_test_teardown(yaml_refusals, arena_teardown),
      cmocka_unit_test_teardown(yaml_remedies, arena_teardown),
      cmocka_unit_test_teardown(caps, arena_teardown),
      cmocka_unit_test_teardown(many_keys, arena_teardown),
      cmocka_unit_test_teardown(json_tree, arena_teardown),
      cmocka_unit_test_teardown(json_refusals, arena_teardown),
      cmocka_unit_test_teardown(scalars, arena_teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
