/* The recipe engine with a key table of its own: values, words, defaults, overrides, further files, JSON. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "recipe/recipe.h"

/* Further settings come from this text instead of a file. */
static const char *extra_text;
static char extra_path[256];

static hr_status extra_open(hr_recipe *recipe, hr_error *err) {
  hr_doc_node *doc;
  const char *path;
  HR_TRY(hr__recipe_early(recipe, "net.from", &path, err));
  if (!path) return HR_OK;
  snprintf(extra_path, sizeof extra_path, "%s", path);
  if (!extra_text) return HR_OK;
  HR_TRY(hr__json_parse("extra.json", extra_text, strlen(extra_text), hr__recipe_arena(recipe), &doc, err));
  return hr__recipe_later(recipe, "net", doc, "extra.json", err);
}

static const hr_key net_keys[] = {
    {.path = "net.name", .type = HR_KEY_TEXT, .required = true},
    {.path = "net.width", .type = HR_KEY_INT, .min = 1, .max = 1000, .fallback = "16"},
    {.path = "net.bias", .type = HR_KEY_BOOL, .fallback = "false"},
    {.path = "net.rope.theta", .type = HR_KEY_FLOAT, .min = 1, .max = 1e9},
    {.path = "net.from", .type = HR_KEY_PATH, .open = extra_open, .folder = "net.from"},
};
static const hr_key run_keys[] = {
    {.path = "run.lr", .type = HR_KEY_FLOAT, .min = 0, .max = 1, .fallback = "1e-3"},
    {.path = "run.betas", .type = HR_KEY_FLOATS, .length = 2, .min = 0, .max = 1, .fallback = "[0.9, 0.999]"},
    {.path = "run.kind", .type = HR_KEY_CHOICE, .choices = "adamw|sgd", .fallback = "adamw"},
    {.path = "run.steps", .type = HR_KEY_INT, .min = 1, .max = INFINITY, .choices = "auto", .fallback = "auto"},
    {.path = "run.budget", .type = HR_KEY_SIZE, .choices = "auto|%", .fallback = "1GiB"},
    {.path = "run.log", .type = HR_KEY_PATH},
    {.path = "run.split", .type = HR_KEY_CHOICE, .choices = "none|auto", .tree = true},
    {.path = "run.groups", .type = HR_KEY_TREE, .example = "[{ match: a }]"},
};
static const hr_key_table tables[] = {{net_keys, sizeof net_keys / sizeof *net_keys},
                                      {run_keys, sizeof run_keys / sizeof *run_keys}};

typedef struct fixture {
  hr_recipe *recipe;
  hr_error err;
} fixture;

static int setup(void **state) {
  fixture *f = calloc(1, sizeof *f);
  *state = f;
  extra_text = NULL;
  return f ? 0 : -1;
}

static int teardown(void **state) {
  fixture *f = *state;
  hr__recipe_destroy(f->recipe);
  free(f);
  return 0;
}

static hr_status parse_with(fixture *f, const char *text, const char *const *overrides, size_t count) {
  hr__recipe_destroy(f->recipe);
  f->recipe = NULL;
  memset(&f->err, 0, sizeof f->err);
  return hr__recipe_parse("r.yaml", "base", text, strlen(text), overrides, count, tables, 2, &f->recipe, &f->err);
}

static void parse_ok(fixture *f, const char *text) {
  if (parse_with(f, text, NULL, 0) != HR_OK) fail_msg("%s: %s", f->err.place, f->err.message);
}

static void set_ok(fixture *f, const char *text, const char *override) {
  if (parse_with(f, text, &override, 1) != HR_OK) fail_msg("%s: %s", f->err.place, f->err.message);
}

static void defaults(void **state) {
  fixture *f = *state;
  parse_ok(f, "net: { name: a }");
  assert_string_equal(hr__recipe_text(f->recipe, "net.name"), "a");
  assert_int_equal(hr__recipe_int(f->recipe, "net.width"), 16);
  assert_false(hr__recipe_bool(f->recipe, "net.bias"));
  assert_true(hr__recipe_float(f->recipe, "run.lr") == 1e-3);
  assert_true(hr__recipe_floats(f->recipe, "run.betas")[1] == 0.999);
  assert_true(hr__recipe_size(f->recipe, "run.budget") == UINT64_C(1) << 30);
  assert_true(hr__recipe_is_word(f->recipe, "run.steps"));
  assert_string_equal(hr__recipe_text(f->recipe, "run.steps"), "auto");
  assert_false(hr__recipe_has(f->recipe, "run.log"));
  assert_false(hr__recipe_has(f->recipe, "no.such.key"));
  assert_true(hr__recipe_given(f->recipe, "net"));
  assert_true(hr__recipe_given(f->recipe, "net.name"));
  assert_false(hr__recipe_given(f->recipe, "net.width"));
  assert_false(hr__recipe_given(f->recipe, "run"));
  assert_string_equal(hr__recipe_name(f->recipe), "r.yaml");
}

static void values(void **state) {
  fixture *f = *state;
  parse_ok(f, "net: { name: '12', width: 7, bias: true, rope: { theta: 500000 } }\n"
              "run:\n  lr: 1e-4\n  betas: [0, 1]\n  kind: sgd\n  steps: 9000000000\n  budget: 1.5 GB\n  log: logs/a\n");
  assert_string_equal(hr__recipe_text(f->recipe, "net.name"), "12");
  assert_true(hr__recipe_bool(f->recipe, "net.bias"));
  assert_true(hr__recipe_float(f->recipe, "net.rope.theta") == 500000.0);
  assert_true(hr__recipe_float(f->recipe, "run.lr") == 1e-4);
  assert_true(hr__recipe_floats(f->recipe, "run.betas")[0] == 0.0);
  assert_string_equal(hr__recipe_text(f->recipe, "run.kind"), "sgd");
  assert_false(hr__recipe_is_word(f->recipe, "run.steps"));
  assert_int_equal(hr__recipe_int(f->recipe, "run.steps"), INT64_C(9000000000));
  assert_true(hr__recipe_size(f->recipe, "run.budget") == UINT64_C(1500000000));
  assert_string_equal(hr__recipe_text(f->recipe, "run.log"), "base/logs/a");
  assert_true(hr__recipe_given(f->recipe, "net.rope"));
}

static void floats_without_dot(void **state) {
  static const struct {
    const char *text;
    double value;
  } cases[] = {{"1e-4", 1e-4}, {"3e-4", 3e-4}, {"1E-4", 1e-4},  {"1e0", 1.0},    {".5", 0.5},
               {"0", 0.0},     {"1", 1.0},     {"+0.25", 0.25}, {"1.e-2", 0.01}, {"0x1", 1.0}};
  fixture *f = *state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[64];
    snprintf(text, sizeof text, "net: {name: a}\nrun: {lr: %s}", cases[i].text);
    parse_ok(f, text);
    assert_true(hr__recipe_float(f->recipe, "run.lr") == cases[i].value);
  }
}

static void words(void **state) {
  static const char *const good[] = {"auto", "0%", "50%", "12.5%", "100%"};
  static const char *const bad[] = {"%", "101%", "-5%", "5 %", "1e1%", "automatic", "nan%"};
  fixture *f = *state;
  char text[96];
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
    snprintf(text, sizeof text, "net: {name: a}\nrun: {budget: \"%s\"}", good[i]);
    parse_ok(f, text);
    assert_true(hr__recipe_is_word(f->recipe, "run.budget"));
    assert_string_equal(hr__recipe_text(f->recipe, "run.budget"), good[i]);
  }
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    snprintf(text, sizeof text, "net: {name: a}\nrun: {budget: \"%s\"}", bad[i]);
    assert_int_equal(parse_with(f, text, NULL, 0), HR_BAD_INPUT);
  }
}

static void overrides(void **state) {
  fixture *f = *state;
  static const char text[] = "net: { name: a, width: 5, rope: { theta: 2 } }\nrun: { lr: 0.5 }\n";
  set_ok(f, text, "net.width=9");
  assert_int_equal(hr__recipe_int(f->recipe, "net.width"), 9);
  set_ok(f, text, "run.betas=[0.1, 0.2]");
  assert_true(hr__recipe_floats(f->recipe, "run.betas")[1] == 0.2);
  set_ok(f, text, "net.width=null");
  assert_int_equal(hr__recipe_int(f->recipe, "net.width"), 16);
  assert_false(hr__recipe_given(f->recipe, "net.width"));
  set_ok(f, text, "net.rope=null");
  assert_false(hr__recipe_has(f->recipe, "net.rope.theta"));
  assert_false(hr__recipe_given(f->recipe, "net.rope"));
  set_ok(f, text, "run=");
  assert_true(hr__recipe_float(f->recipe, "run.lr") == 1e-3);
  set_ok(f, text, "run={lr: 0.25, kind: sgd}");
  assert_true(hr__recipe_float(f->recipe, "run.lr") == 0.25);
  set_ok(f, text, "net.name=x=y");
  assert_string_equal(hr__recipe_text(f->recipe, "net.name"), "x=y");
  set_ok(f, "net: {name: a}\nrun:\n", "run.kind=sgd"); /* through an empty section */
  assert_string_equal(hr__recipe_text(f->recipe, "run.kind"), "sgd");
  set_ok(f, "{}", "net.name=b"); /* into nothing */
  assert_string_equal(hr__recipe_text(f->recipe, "net.name"), "b");
  set_ok(f, "net: {name: a, bogus: 1}", "net={name: c}"); /* what an override removes is not checked */
  assert_string_equal(hr__recipe_text(f->recipe, "net.name"), "c");

  const char *several[] = {"run={lr: 0.25}", "run.lr=0.125", "run.kind=sgd", "run.kind=adamw"};
  assert_int_equal(parse_with(f, text, several, 4), HR_OK);
  assert_true(hr__recipe_float(f->recipe, "run.lr") == 0.125);
  assert_string_equal(hr__recipe_text(f->recipe, "run.kind"), "adamw");
}

/* A path that goes on behind a key: what was meant, not the key's own name again. */
static void overrides_too_long(void **state) {
  fixture *f = *state;
  static const char *const cases[][3] = {
      {"run.split.net.0=2", "run.split is a setting", "write --set 'run.split={net.0: 2}'"},
      {"run.groups.a=1", "run.groups is a setting", "write --set 'run.groups=[{ match: a }]'"},
      {"run.steps.x.y=3", "run.steps is a setting", "write --set 'run.steps=auto'"},
      {"net.rope.theta.x=", "net.rope.theta is a setting", "write --set 'net.rope.theta=1'"},
      {"run.spilt.a=1", "unknown key \"spilt\" in section run", "did you mean \"split\"?"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    assert_int_equal(parse_with(f, "net: {name: a}", &cases[i][0], 1), HR_BAD_INPUT);
    if (!strstr(f->err.message, cases[i][1])) fail_msg("%s", f->err.message);
    assert_string_equal(f->err.remedy, cases[i][2]);
  }
}

/* A file named by a key: gives way to the recipe, and to null in the recipe; its unknown keys do not matter. */
static void further_file(void **state) {
  fixture *f = *state;
  extra_text =
      "{\"name\": \"file\", \"width\": 33, \"rope\": {\"theta\": 7, \"x\": 1}, \"other\": [1], \"bias\": null}";
  parse_ok(f, "net: { from: dir }");
  assert_string_equal(extra_path, "base/dir");
  assert_string_equal(hr__recipe_text(f->recipe, "net.name"), "file");
  assert_int_equal(hr__recipe_int(f->recipe, "net.width"), 33);
  assert_false(hr__recipe_given(f->recipe, "net.width"));
  assert_true(hr__recipe_has(f->recipe, "net.rope.theta"));
  parse_ok(f, "net: { from: /dir, width: 4 }");
  assert_string_equal(extra_path, "/dir");
  assert_int_equal(hr__recipe_int(f->recipe, "net.width"), 4);
}

static void further_file_null(void **state) {
  fixture *f = *state;
  extra_text = "{\"name\": \"file\", \"width\": 33, \"rope\": {\"theta\": 7}}";
  parse_ok(f, "net: { from: dir, width: ~, rope: null }");
  assert_int_equal(hr__recipe_int(f->recipe, "net.width"), 16);
  assert_false(hr__recipe_has(f->recipe, "net.rope.theta"));
  extra_text = "{\"name\": \"file\", \"width\": \"wide\"}";
  assert_int_equal(parse_with(f, "net: { from: dir }", NULL, 0), HR_BAD_INPUT);
  assert_string_equal(f->err.place, "extra.json:1:27");
  assert_non_null(strstr(f->err.message, "net.width must be a whole number"));
  extra_text = "{\"name\": \"file\", \"rope\": 3}";
  assert_int_equal(parse_with(f, "net: { from: dir }", NULL, 0), HR_BAD_INPUT);
  assert_non_null(strstr(f->err.message, "net.rope must be a section"));
}

/* A folder stands for a recipe with only the key that takes settings from a folder. */
static void folder_as_recipe(void **state) {
  fixture *f = *state;
  extra_text = "{\"name\": \"file\"}";
  const char *override = "net.width=3";
  char folder[] = "/tmp/headroom_recipe_XXXXXX";
  assert_non_null(mkdtemp(folder));
  hr_status status = hr__recipe_load(folder, &override, 1, tables, 2, &f->recipe, &f->err);
  rmdir(folder);
  assert_int_equal(status, HR_OK);
  assert_string_equal(hr__recipe_text(f->recipe, "net.from"), folder);
  assert_int_equal(hr__recipe_int(f->recipe, "net.width"), 3);
  assert_int_equal(hr__recipe_load("/nonexistent/r.yaml", NULL, 0, tables, 2, &(hr_recipe *){NULL}, &f->err),
                   HR_BAD_INPUT);
  hr_recipe *none = NULL;
  assert_int_equal(hr__recipe_load("/tmp", NULL, 0, tables + 1, 1, &none, &f->err), HR_BAD_INPUT);
  assert_null(none);
  assert_non_null(strstr(f->err.message, "folder"));
}

static void file_as_recipe(void **state) {
  fixture *f = *state;
  char folder[] = "/tmp/headroom_recipe_XXXXXX", path[64];
  assert_non_null(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/r.yaml", folder);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fputs("net: {name: a}\nrun: {log: here}\n", file);
  fclose(file);
  hr_status status = hr__recipe_load(path, NULL, 0, tables, 2, &f->recipe, &f->err);
  unlink(path);
  rmdir(folder);
  assert_int_equal(status, HR_OK);
  snprintf(path, sizeof path, "%s/here", folder);
  assert_string_equal(hr__recipe_text(f->recipe, "run.log"), path);
  assert_string_equal(hr__recipe_name(f->recipe) + strlen(folder), "/r.yaml");
}

static void json(void **state) {
  fixture *f = *state;
  parse_ok(f, "net: { name: a, rope: { theta: 2 } }\nrun: { budget: 50% }\n");
  json_t *settings = hr__recipe_json(f->recipe);
  assert_non_null(settings);
  char *text = json_dumps(settings, JSON_SORT_KEYS | JSON_COMPACT);
  json_decref(settings);
  static const char expected[] =
      "{\"net\":{\"bias\":false,\"name\":\"a\",\"rope\":{\"theta\":2.0},\"width\":16},"
      "\"run\":{\"betas\":[0.90000000000000002,0.999],\"budget\":\"50%\",\"kind\":\"adamw\",\"lr\":0.001,"
      "\"steps\":\"auto\"}}";
  char seen[512];
  snprintf(seen, sizeof seen, "%s", text ? text : "");
  json_malloc_t take;
  json_free_t give;
  json_get_alloc_funcs(&take, &give);
  give(text);
  assert_string_equal(seen, expected);
}

static void fail_places(void **state) {
  fixture *f = *state;
  parse_ok(f, "net:\n  name: a\n  width: 5\n");
  assert_int_equal(hr__recipe_fail(f->recipe, "net.width", "do", &f->err, "no %d", 5), HR_BAD_INPUT);
  assert_string_equal(f->err.place, "r.yaml:3:10");
  assert_string_equal(f->err.message, "no 5");
  assert_string_equal(f->err.remedy, "do");
  hr__recipe_fail(f->recipe, "net.bias", NULL, &f->err, "x");
  assert_string_equal(f->err.place, "r.yaml:1:1");
  hr__recipe_fail(f->recipe, "run.lr", NULL, &f->err, "x");
  assert_string_equal(f->err.place, "r.yaml");
}

/* Text that is not checked by anyone before it comes here. */
static void hostile_keys(void **state) {
  fixture *f = *state;
  char text[1000] = "net: {name: a, ";
  memset(text + 15, 'k', 900);
  strcpy(text + 915, ": 1}");
  assert_int_equal(parse_with(f, text, NULL, 0), HR_BAD_INPUT);
  assert_string_equal(f->err.place, "r.yaml:1:16");
  char override[1200];
  memset(override, 'a', sizeof override);
  memcpy(override + 1190, "=1", 3);
  const char *set = override;
  assert_int_equal(parse_with(f, "{}", &set, 1), HR_BAD_INPUT);
}

int main(void) {
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
  const struct CMUnitTest tests[] = {
      CASE(defaults),           CASE(values),
      CASE(floats_without_dot), CASE(words),
      CASE(overrides),          CASE(overrides_too_long),
      CASE(further_file_null),  CASE(folder_as_recipe),
      CASE(file_as_recipe),     CASE(json),
      CASE(fail_places),        CASE(hostile_keys),
      CASE(further_file),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
