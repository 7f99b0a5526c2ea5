/* Memory that runs out at every request while a map is read, a config is edited, and the difference is shown. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "format/diff.h"
#include "recipe/maps.h"
#include "support/faults.h"

static const hr_key keys[] = {{.path = "training.batch_size"}, {.path = "model.precision"}};
static const hr_key_table table = {keys, sizeof keys / sizeof keys[0]};

static const char map_text[] = "map: lightning\n"
                               "keys: {training.batch_size: [a, b.c], model.precision: {key: d, values: {x: y}}}\n"
                               "values: {n: 16}\n";
static const char yaml_text[] = "d: &d {k: 1}\nb:\n  c: 1 # one\n  e: *d\nl:\n- 1\nq: 'x'\ni: ${b}\n";
static const char json_text[] = "{\"b\": {\"c\": 1}, \"l\": [1], \"q\": \"x\", \"i\": \"${b}\"}";

static hr_status edits_do(const char *name, const char *source, hr_arena *arena, hr_error *err) {
  hr_config config;
  HR_TRY(hr__config_parse(name, source, strlen(source), arena, &config, err));
  hr_edit edits[] = {
      {.path = "b.c", .value = {HR_LITERAL_NUMBER, "8"}},
      {.path = "q", .value = {HR_LITERAL_TEXT, "it's"}},
      {.path = "l", .value = {HR_LITERAL_FLOW, "[1, 2]"}, .lists = true},
      {.path = "i", .value = {HR_LITERAL_NUMBER, "8"}},
      {.path = "b.n", .value = {HR_LITERAL_BOOL, "true"}, .insert = true},
  };
  const char *text, *diff;
  size_t bytes, diff_bytes;
  HR_TRY(hr__config_edit(&config, edits, sizeof edits / sizeof edits[0], arena, &text, &bytes, err));
  HR_TRY(hr__diff("a", source, strlen(source), "b", text, bytes, arena, &diff, &diff_bytes, err));
  assert_true(diff_bytes > 0);
  return HR_OK;
}

static hr_status body(void *arg, hr_error *err) {
  (void)arg;
  hr_arena arena = {0};
  hr_map *map;
  hr_status status = hr__map_parse("m.yaml", map_text, strlen(map_text), &table, 1, &arena, &map, err);
  if (status == HR_OK) status = edits_do("t.yaml", yaml_text, &arena, err);
  if (status == HR_OK) status = edits_do("t.json", json_text, &arena, err);
  hr__arena_fini(&arena);
  return status;
}

static void memory(void **state) {
  (void)state;
  size_t injected = hr_test_each_fault(body, NULL);
  size_t library = hr_test_each_library_fault(body, NULL);
  print_message("%zu faults, %zu in libyaml\n", injected, library);
  assert_true(injected > 10);
}

int main(void) {
  hr_test_faults_install();
  const struct CMUnitTest tests[] = {cmocka_unit_test(memory)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
