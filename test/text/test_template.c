/* Chat templates: small ones with the text that Jinja gives, and what is refused, with its line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/faults.h"
#include "text/template.h"

static hr_arena arena;

static int arena_teardown(void **state) {
  (void)state;
  hr__arena_fini(&arena);
  return hr_test_live_bytes() ? -1 : 0;
}

static hr_status render(const char *text, const char *variables, hr_template_limits limits, hr_rendered *out,
                        hr_error *err) {
  hr_doc_node *root = NULL;
  hr_template *parsed = NULL;
  HR_TRY(hr__json_parse("variables", variables, strlen(variables), &arena, &root, err));
  HR_TRY(hr__template_parse("t", text, strlen(text), &parsed, err));
  hr_template_call call = {.variables = root, .limits = limits, .now = 1767323045};
  hr_status status = hr__template_render(parsed, &call, &arena, out, err);
  hr__template_destroy(parsed);
  return status;
}

typedef struct sample {
  const char *text, *variables, *expected;
} sample;

static void samples_check(const sample *samples, size_t count) {
  for (size_t i = 0; i < count; i++) {
    hr_rendered made = {0};
    hr_error err = {0};
    hr_status status = render(samples[i].text, samples[i].variables ? samples[i].variables : "{}",
                              (hr_template_limits){0}, &made, &err);
    if (status != HR_OK) fail_msg("%s: %s: %s", samples[i].text, err.place, err.message);
    if (strcmp(made.text, samples[i].expected) != 0)
      fail_msg("%s gives '%s', not '%s'", samples[i].text, made.text, samples[i].expected);
    assert_int_equal(made.bytes, strlen(made.text));
  }
}
#define SAMPLES(name, ...)                                                                                             \
  static void name(void **state) {                                                                                     \
    (void)state;                                                                                                       \
    static const sample samples[] = {__VA_ARGS__};                                                                     \
    samples_check(samples, sizeof samples / sizeof samples[0]);                                                        \
  }

/* clang-format off */
SAMPLES(whitespace,
  {"a\r\nb\n", NULL, "a\nb"},
  {"a\n\n", NULL, "a\n"},
  {"x\n  {% if true %}\ny\n  {% endif %}\nz", NULL, "x\ny\nz"},
  {"x  {% if true %}y{% endif %}", NULL, "x  y"},
  {"x\n  {%+ if true %}\ny{% endif %}", NULL, "x\n  y"},
  {"x\n  {{ 1 }}\ny", NULL, "x\n  1\ny"},
  {"x \n {{- 1 -}} \n y", NULL, "x1y"},
  {"x \n {%- if true -%} \n y {%- endif %} z", NULL, "xy z"},
  {"a {# gone #}\nb", NULL, "a b"},
  {"a {#- gone -#}\nb", NULL, "ab"},
  {"  {# gone #}\nb", NULL, "b"},
  {"a {# gone +#}\nb", NULL, "a \nb"},
  {"{% if true +%}\na{% endif %}", NULL, "\na"},
  {"{% raw %}{{ x }}{% endraw %}", NULL, "{{ x }}"},
  {"{{ '}}' }}{{ {'a': {'b': 1}} }}", NULL, "}}{'a': {'b': 1}}"},
  {"\xc2\xa0{%- if true %}a{% endif %}", NULL, "a"})

SAMPLES(printing,
  {"{{ none }} {{ true }} {{ 1.0 }} {{ 1e16 }} {{ 1e-5 }} {{ 123456789.125 }}", NULL, "None True 1.0 1e+16 1e-05 123456789.125"},
  {"{{ x }}", "{\"x\": [1, \"a\", null, true, 2.5, {\"k\": []}]}", "[1, 'a', None, True, 2.5, {'k': []}]"},
  {"{{ (1,) }} {{ (1, 2) }} {{ () }}", NULL, "(1,) (1, 2) ()"},
  {"{{ x }}", "{\"x\": [\"it's\", \"a\\\"b'\", \"\\n\\t\\\\\", \"\\u00a0\\u200b\\ue000\\ud83d\\ude42\"]}",
   "[\"it's\", 'a\"b\\'', '\\n\\t\\\\', '\\xa0\\u200b\\ue000\xf0\x9f\x99\x82']"},
  {"{{ nowhere }}|{{ x.nothing }}", "{\"x\": {}}", "|"},
  {"{{ x.items() }} {{ x.keys() }} {{ range(3) }}", "{\"x\": {\"a\": 1}}", "dict_items([('a', 1)]) dict_keys(['a']) range(0, 3)"},
  {"{{ 'a' 'b' }}{{ '\\x41\\u00e9\\n' }}", NULL, "abA\xc3\xa9\n"})

SAMPLES(operators,
  {"{{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 * 3 - 1 }} {{ 1 ~ 2 + 'a' }}", NULL, "3 -4 2 3.5 5 12a"},
  {"{{ 'a' * 3 }} {{ [1] + [2] }} {{ 'a' ~ none ~ 1 }}", NULL, "aaa [1, 2] aNone1"},
  {"{{ 1 < 2 < 3 }} {{ 1 < 2 > 3 }} {{ 1 == 1.0 }} {{ true == 1 }} {{ 'a' < 'b' }}", NULL, "True False True True True"},
  {"{{ 'b' in 'abc' }} {{ 1 in [1] }} {{ 'k' not in x }} {{ not 1 in [2] }}", "{\"x\": {\"k\": 1}}", "True True False True"},
  {"{{ 0 or 'a' }} {{ '' and 1 }}|{{ 1 and 'b' }}", NULL, "a |b"},
  {"{{ 'y' if x else 'n' }}{{ 'y' if x }}", "{\"x\": []}", "n"},
  {"{{ -1 | abs }} {{ - x }} {{ +x }}", "{\"x\": 2}", "1 -2 2"},
  {"{{ x[0] }} {{ x[-1] }} {{ x[9] }}|{{ x[1:] }} {{ x[::-1] }} {{ x[:-1] }} {{ x[5:1:-2] }}", "{\"x\": [1, 2, 3, 4]}",
   "1 4 |[2, 3, 4] [4, 3, 2, 1] [1, 2, 3] [4]"},
  {"{{ x[1] }}{{ x[-1:] }}{{ x[::-1] }}{{ x | length }}", "{\"x\": \"a\\u00e9\\u6771\"}", "\xc3\xa9\xe6\x9d\xb1\xe6\x9d\xb1\xc3\xa9" "a3"},
  {"{{ x.items() | list }} {{ x['items'] }}", "{\"x\": {\"items\": 1}}", "[('items', 1)] 1"},
  {"{{ '%s is %d, %5.2f%%' % ('a', 3, 1.005) }} {{ '{} {} {n}'.format(1, 2, n=3) }}", NULL, "a is 3,  1.00% 1 2 3"})

SAMPLES(statements,
  {"{% for a in [1,2,3] %}{{ loop.index }}{{ loop.first }}{{ loop.last }}{{ loop.previtem }},{% endfor %}", NULL,
   "1TrueFalse,2FalseFalse1,3FalseTrue2,"},
  {"{% for a in [1,2,3,4] if a % 2 == 0 %}{{ loop.index0 }}/{{ loop.length }}:{{ a }} {% endfor %}", NULL, "0/2:2 1/2:4 "},
  {"{% for a in [] %}x{% else %}none{% endfor %}", NULL, "none"},
  {"{% for a in [1] %}x{% continue %}{% else %}left{% endfor %}", NULL, "xleft"},
  {"{% for a in [1,2,3,4] %}{% if a == 2 %}{% continue %}{% elif a == 4 %}{% break %}{% endif %}{{ a }}{% endfor %}", NULL, "13"},
  {"{% for k, v in x.items() %}{{ k }}={{ v }};{% endfor %}", "{\"x\": {\"b\": 1, \"a\": 2}}", "b=1;a=2;"},
  {"{% set x = 0 %}{% for a in [1,2] %}{{ x }}{% set x = x + a %}{% endfor %}{{ x }}", NULL, "000"},
  {"{% set n = namespace(x=0) %}{% for a in [1,2] %}{% set n.x = n.x + a %}{% endfor %}{{ n.x }}", NULL, "3"},
  {"{% if true %}{% set x = 1 %}{% endif %}{{ x }}", NULL, "1"},
  {"{% set x %}a{{ 1 }}{% endset %}{{ x | length }}{{ x }}", NULL, "2a1"},
  {"{% set x | upper %}a{% endset %}{{ x }}", NULL, "A"},
  {"{% filter trim | upper %} a {% endfilter %}", NULL, "A"},
  {"{% set a, b = 1, 2 %}{{ b }}{{ a }}", NULL, "21"},
  {"{% macro m(a, b='x') %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}{{ m(b=2, a=1) }}{{ m() }}", NULL, "1x12x"},
  {"{% macro m(n) %}{% if n %}{{ n }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(3) }}", NULL, "321"},
  {"{% set g = 1 %}{% macro m() %}{{ g }}{% endmacro %}{% set g = 2 %}{{ m() }}", NULL, "2"},
  {"{{ strftime_now('%Y') }} {{ dict(a=1) }} {{ range(1, 6, 2) | list }}", NULL, "2026 {'a': 1} [1, 3, 5]"})

SAMPLES(filters,
  {"{{ x | tojson }}", "{\"x\": {\"a\": [1, 2.0, 1e20, null, true], \"b\": \"<\\u00e9\\\"\\n\\u001f\\u2028\"}}",
   "{\"a\": [1, 2.0, 1e+20, null, true], \"b\": \"<\xc3\xa9\\\"\\n\\u001f\xe2\x80\xa8\"}"},
  {"{{ x | tojson(indent=2) }}", "{\"x\": {\"a\": [1], \"b\": {}}}", "{\n  \"a\": [\n    1\n  ],\n  \"b\": {}\n}"},
  {"{{ x | tojson(ensure_ascii=true, separators=(',', ':'), sort_keys=true) }}", "{\"x\": {\"b\": 1, \"a\": \"\\ud83d\\ude42\"}}",
   "{\"a\":\"\\ud83d\\ude42\",\"b\":1}"},
  {"{{ ' a ' | trim }}|{{ 'xax' | trim('x') }}|{{ 'HELLO wORLD' | capitalize }}|{{ 'a-b c(d' | title }}", NULL, "a|a|Hello world|A-B C(D"},
  {"{{ x | upper }} {{ x | lower }}", "{\"x\": \"Stra\\u00dfe \\u0391\\u03a3\"}", "STRASSE \xce\x91\xce\xa3 stra\xc3\x9f" "e \xce\xb1\xcf\x82"},
  {"{{ y | default('d') }} {{ '' | default('d') }}|{{ '' | default('d', true) }}", NULL, "d |d"},
  {"{{ x | map(attribute='a') | join(',') }} {{ x | selectattr('a', 'equalto', 2) | list }}", "{\"x\": [{\"a\": 1}, {\"a\": 2}]}", "1,2 [{'a': 2}]"},
  {"{{ x | rejectattr('a') | list | length }} {{ [1,'a'] | select('string') | first }}", "{\"x\": [{\"a\": 0}, {\"a\": 2}]}", "1 a"},
  {"{{ x | dictsort }} {{ ['b', 'A'] | sort }} {{ [3, 1, 3] | unique | list }}", "{\"x\": {\"b\": 1, \"A\": 2}}",
   "[('A', 2), ('b', 1)] ['A', 'b'] [3, 1]"},
  {"{{ ('<b>' | safe) + '<' }} {{ 'a\nb\n\nc' | indent(2) }} {{ '42.7' | int }}", NULL, "<b>&lt; a\n  b\n\n  c 42"},
  {"{{ 'a,b,c'.split(',', 1) }} {{ ' a  b '.split() }} {{ 'a' in 'a b'.split(' ') }}", NULL, "['a', 'b,c'] ['a', 'b'] True"},
  {"{{ '\x1c a\xc2\xa0'.strip() }}|{{ 'xxa'.lstrip('x') }}|{{ 'ab'.replace('', '-') }}|{{ 'a'.endswith(('b', 'a')) }}", NULL, "a|a|-a-b-|True"})

SAMPLES(tests,
  {"{{ 'a' is iterable }} {{ 'a' is sequence }} {{ x is sequence }} {{ x is mapping }} {{ true is number }}", "{\"x\": {}}",
   "True True True True True"},
  {"{{ y is defined }} {{ y is undefined }} {{ x is none }} {{ x is not none }}", "{\"x\": null}", "False True True False"},
  {"{{ 4 is divisibleby 2 }} {{ 3 is odd }} {{ 1 is in [1] }} {{ 1.0 is float }} {{ 1 is true }}", NULL, "True True True True False"},
  {"{{ y.append is defined }} {{ x | unknown if false else 'ok' }}", "{\"y\": []}", "False ok"})
/* clang-format on */

typedef struct refusal {
  const char *text, *variables, *place, *message;
} refusal;

static void refusals(void **state) {
  (void)state;
  static const refusal rows[] = {
      {"a\n{{ 1 + 'a' }}", NULL, "t:2", "there is no + of values of types int and str"},
      {"{{ x.a.b }}", "{\"x\": {}}", "t:1", "'a' is undefined"},
      {"{{ x[0].a }}", "{\"x\": []}", "t:1", "'item 0' is undefined"},
      {"\n{{ raise_exception('no tools') }}", NULL, "t:2", "the template refuses this conversation: no tools"},
      {"{% include 'x' %}", NULL, "t:1", "{% include %} is not supported in chat templates"},
      {"{{ 2 ** 3 }}", NULL, "t:1", "the operator ** is not supported in chat templates"},
      {"\n{{ x | unknown }}", NULL, "t:2", "the filter 'unknown' does not exist or is not supported"},
      {"{{ 'a'.zfill(3) }}", NULL, "t:1", "'zfill' is not supported in chat templates"},
      {"{{ x.append(1) }}", "{\"x\": []}", "t:1", "'append' is undefined"},
      {"{% if x %}", NULL, "t:1", "{% elif %} is expected, but here is the end of the template"},
      {"{{ (1 }}", NULL, "t:1", "'}' where ')' is expected"},
      {"\n\n{{ 'a }}", NULL, "t:3", "a text that begins with ' is not closed"},
      {"{{ a b }}", NULL, "t:1", "'}}' is expected, but here is 'b'"},
      {"{# x", NULL, "t:1", "a comment ({#) is not closed by #}"},
      {"{% break %}", NULL, "t:1", "'break' outside of a loop"},
      {"{% for a in none %}{% endfor %}", NULL, "t:1", "a value of type None cannot be gone through item by item"},
      {"{% set x.y = 1 %}", "{\"x\": {}}", "t:1", "'x' is no namespace: only those have members that can be set"},
      {"{{ undefined_name() }}", NULL, "t:1", "'undefined_name' is undefined"},
      {"{{ y | tojson }}", NULL, "t:1", "'y' is undefined"},
      {"{{ 9223372036854775807 + 1 }}", NULL, "t:1", "a result of + has more than 64 bits"},
      {"{{ 1 % 0 }}", NULL, "t:1", "division by zero"},
      {"{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}", NULL, "t:1",
       "the macro 'm' gets arguments that it has no names for"},
      {"{{ 'a'.strip(1) }}", NULL, "t:1", "what is stripped is a str, not a value of type int"},
      {"{{ '{} {1}'.format(1, 2) }}", NULL, "t:1", "format has both {} and {1}"},
      {"{{ range(200000) }}", NULL, "t:1", "a range of more than 100000 numbers"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    hr_rendered made = {0};
    hr_error err = {0};
    hr_status status =
        render(rows[i].text, rows[i].variables ? rows[i].variables : "{}", (hr_template_limits){0}, &made, &err);
    if (status == HR_OK) fail_msg("%s is rendered: %s", rows[i].text, made.text);
    assert_string_equal(err.message, rows[i].message);
    assert_string_equal(err.place, rows[i].place);
  }
}

/* A template of a stranger ends, whatever it does. */
static void limits(void **state) {
  (void)state;
  static const char *const endless[] = {
      "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
      "{% set n = namespace(x='a') %}{% for a in range(99) %}{% set n.x = n.x + n.x %}{% endfor %}",
      "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
      "{{ 'a' * 99999999999 }}",
      "{{ [0] * 99999999999 }}",
      "{% set n = namespace(x=[]) %}{% for a in range(500) %}{% set n.x = [n.x] %}{% endfor %}{{ n.x }}",
      "{% set n = namespace() %}{% set n.n = n %}{{ n }}",
      "{{ '%99999d' % 1 }}",
      "{% for a in 'aaaaaaaaaaaaaaaa' * 65536 %}{{ ('b' * 1048576)[1] }}{% endfor %}",
  };
  for (size_t i = 0; i < sizeof endless / sizeof endless[0]; i++) {
    hr_rendered made = {0};
    hr_error err = {0};
    hr_template_limits small = {.steps = 1000000, .output_bytes = 4 << 20, .memory_bytes = 64 << 20};
    if (render(endless[i], "{}", small, &made, &err) == HR_OK) fail_msg("%s is rendered", endless[i]);
    hr__arena_fini(&arena);
    hr__arena_init(&arena);
  }
  char deep[4000];
  memset(deep, '(', sizeof deep);
  memcpy(deep, "{{", 2);
  deep[sizeof deep - 1] = 0;
  hr_rendered made = {0};
  hr_error err = {0};
  assert_int_equal(render(deep, "{}", (hr_template_limits){0}, &made, &err), HR_BAD_INPUT);
}

/* Ranges are bytes of the text, and a block has variables of its own. */
static void generation(void **state) {
  (void)state;
  hr_rendered made = {0};
  hr_error err = {0};
  const char *text =
      "{% set x = 1 %}{% for m in messages %}\xc3\xa9{% if m.role == 'a' %}{% generation %}{{ m.content }}"
      "{% set x = 2 %}{% endgeneration %}{% endif %}{% endfor %}{{ x }}";
  assert_int_equal(render(text,
                          "{\"messages\": [{\"role\": \"u\", \"content\": \"q\"}, {\"role\": \"a\", \"content\": "
                          "\"\\u00e9!\"}, {\"role\": \"a\", \"content\": \"\"}]}",
                          (hr_template_limits){0}, &made, &err),
                   HR_OK);
  assert_string_equal(made.text, "\xc3\xa9\xc3\xa9\xc3\xa9!\xc3\xa9"
                                 "1");
  assert_int_equal(made.generated_count, 2);
  assert_int_equal(made.generated[0].begin, 4);
  assert_int_equal(made.generated[0].end, 7);
  assert_int_equal(made.generated[1].begin, 9);
  assert_int_equal(made.generated[1].end, 9);
}

static hr_status render_once(void *arg, hr_error *err) {
  (void)arg;
  static const char text[] = "{% macro m(a) %}{{ a | tojson(indent=1) }}{% endmacro %}{% set n = namespace(x=[]) %}"
                             "{% for k, v in x | dictsort %}{% set n.x = n.x + [k] %}{% generation %}{{ m(v) }}"
                             "{% endgeneration %}{% endfor %}{{ n.x }}{{ x.a.split(' ') | map('upper') | join }}";
  hr_rendered made = {0};
  hr_arena kept = arena;
  hr__arena_init(&arena);
  hr_status status = render(text, "{\"x\": {\"b\": [1.5, null], \"a\": \"p q\"}}", (hr_template_limits){0}, &made, err);
  hr__arena_fini(&arena);
  arena = kept;
  return status;
}

static void memory_runs_out(void **state) {
  (void)state;
  assert_true(hr_test_each_fault(render_once, NULL) > 4);
}

static void file_put(const char *folder, const char *name, const char *text) {
  char path[512];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fputs(text, file);
  fclose(file);
}

static void folder_check(const char *folder, bool tools, const char *expected) {
  const char *text = NULL, *name = NULL;
  size_t bytes = 0;
  hr_error err = {0};
  hr_status status = hr__template_of_folder(folder, tools, &arena, &text, &bytes, &name, &err);
  if (status != HR_OK) fail_msg("%s: %s", err.place, err.message);
  if (!expected) {
    assert_null(text);
    return;
  }
  assert_non_null(text);
  assert_int_equal(bytes, strlen(expected));
  assert_memory_equal(text, expected, bytes);
}

static void folders(void **state) {
  (void)state;
  char folder[] = "/tmp/hr_template_XXXXXX", path[512];
  assert_non_null(mkdtemp(folder));
  folder_check(folder, false, NULL);
  file_put(folder, "tokenizer_config.json", "{\"bos_token\": \"<s>\"}");
  folder_check(folder, false, NULL);
  file_put(folder, "tokenizer_config.json", "{\"chat_template\": \"one\"}");
  folder_check(folder, true, "one");
  file_put(folder, "tokenizer_config.json",
           "{\"chat_template\": [{\"name\": \"default\", \"template\": \"plain\"}, {\"name\": \"tool_use\", "
           "\"template\": \"tools\"}]}");
  folder_check(folder, false, "plain");
  folder_check(folder, true, "tools");
  file_put(folder, "chat_template.jinja", "file\n");
  folder_check(folder, true, "file\n");
  snprintf(path, sizeof path, "%s/chat_template.jinja", folder);
  unlink(path);
  file_put(folder, "tokenizer_config.json", "{\"chat_template\": 5}");
  const char *text, *name;
  size_t bytes;
  hr_error err = {0};
  assert_int_equal(hr__template_of_folder(folder, false, &arena, &text, &bytes, &name, &err), HR_BAD_INPUT);
  assert_non_null(strstr(err.message, "neither a text nor a list"));
  snprintf(path, sizeof path, "%s/tokenizer_config.json", folder);
  unlink(path);
  rmdir(folder);
}

int main(void) {
  hr_test_faults_install();
  const struct CMUnitTest all[] = {
      cmocka_unit_test_teardown(whitespace, arena_teardown),      cmocka_unit_test_teardown(printing, arena_teardown),
      cmocka_unit_test_teardown(operators, arena_teardown),       cmocka_unit_test_teardown(statements, arena_teardown),
      cmocka_unit_test_teardown(filters, arena_teardown),         cmocka_unit_test_teardown(tests, arena_teardown),
      cmocka_unit_test_teardown(refusals, arena_teardown),        cmocka_unit_test_teardown(limits, arena_teardown),
      cmocka_unit_test_teardown(generation, arena_teardown),      cmocka_unit_test_teardown(folders, arena_teardown),
      cmocka_unit_test_teardown(memory_runs_out, arena_teardown),
  };
  return cmocka_run_group_tests(all, NULL, NULL);
}
