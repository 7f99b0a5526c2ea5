/* Progress of long work where there is no terminal: a plain line with what is left, and nothing of quick work.
 * Terminals are test/cli/test_terminal.py's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/work.h"

static void test_quick_work_is_not_told(void **state) {
  (void)state;
  char *text = NULL;
  size_t bytes;
  FILE *to = open_memstream(&text, &bytes);
  hr_work outer, inner;
  hr__work_advance(5); /* of no task */
  hr__work_begin(&outer, to, "loading", 100);
  hr__work_advance(10);
  hr__work_begin(&inner, NULL, "nobody waits", 0);
  hr__work_advance(1000); /* not of the outer one */
  hr__work_end(&inner);
  hr__work_expect(100);
  hr__work_advance(20);
  assert_int_equal(outer.done, 30);
  assert_int_equal(outer.all, 200);
  hr__work_bytes(&outer, "making", 7, 9);
  assert_true(outer.done == 7 && outer.all == 9 && strcmp(outer.what, "making") == 0);
  hr__work_clear();
  hr__work_end(&outer);
  fclose(to);
  assert_string_equal(text, "");
  free(text);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_quick_work_is_not_told)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
