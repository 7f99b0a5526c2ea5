#include "part_compiled.h"

#include <string.h>

hr_status compiled_make(compiled *c, const char *recipe_text, const char *until, const char *const *overrides,
                        size_t n) {
  hr_key_table tables[HR_COMPILE_TABLES];
  hr__compile_tables(tables);
  compiled_close(c);
  HR_TRY(hr__recipe_parse("test.yaml", ".", recipe_text, strlen(recipe_text), overrides, n, tables, HR_COMPILE_TABLES,
                          &c->recipe, &c->err));
  return hr__compile(c->recipe, NULL, until, &c->graph, &c->err);
}

void compiled_close(compiled *c) {
  hr__graph_destroy(c->graph);
  hr__recipe_destroy(c->recipe);
  *c = (compiled){0};
}

void expect_ok(compiled *c, hr_status status) {
  if (status != HR_OK || hr__graph_verify(c->graph, &c->err) != HR_OK) fail_msg("%s: %s", c->err.place, c->err.message);
}

int compiled_setup(void **state) {
  *state = hr__alloc_zero(1, sizeof(compiled));
  return *state ? 0 : -1;
}

int compiled_teardown(void **state) {
  compiled_close(*state);
  hr__free(*state);
  return 0;
}
