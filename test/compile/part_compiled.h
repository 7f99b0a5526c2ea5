/* What tests of passes share: a recipe of their own, compiled with overrides. */
#ifndef HR_TEST_COMPILED_H
#define HR_TEST_COMPILED_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "compile/compile.h"

typedef struct compiled {
  hr_recipe *recipe;
  hr_graph *graph;
  hr_error err;
} compiled;

/* Takes the place of what was compiled before. `until`: as for hr__compile. */
hr_status compiled_make(compiled *c, const char *recipe_text, const char *until, const char *const *overrides,
                        size_t n);
void compiled_close(compiled *c);
void expect_ok(compiled *c, hr_status status); /* and the graph is sound */

/* As setup and teardown of a test whose state is a `compiled`. */
int compiled_setup(void **state);
int compiled_teardown(void **state);

/* compiled_make with overrides as further arguments, for the recipe_text of the test. */
#define COMPILE(c, until, ...)                                                                                         \
  compiled_make((c), recipe_text, (until), (const char *const[]){__VA_ARGS__ __VA_OPT__(, ) NULL},                     \
                sizeof((const char *const[]){__VA_ARGS__ __VA_OPT__(, ) NULL}) / sizeof(char *) - 1)

#endif
