/* The row of the padding token gets no gradient from being read; all other rows get what they get without one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "part_session.h"

enum { TOKENS = 8, WIDTH = 16, PADDING = 5 };

/* The table of embeddings before and after one step, in which every token is read. */
static void table_step(const char *padding, float before[TOKENS * WIDTH], float after[TOKENS * WIDTH]) {
  const char *const overrides[] = {"model.config.vocab_size=8",
                                   "training.optimizer={kind: sgd, lr: 0.5, weight_decay: 0}",
                                   "training.schedule.warmup_steps=0",
                                   "training.batch_size=8",
                                   "training.clip_norm=null",
                                   padding,
                                   NULL};
  desk d;
  desk_open(&d, ".", overrides);
  hr_id table = hr__graph_find_value(hr__run_graph(d.session.run), "model.embed_tokens.weight");
  size_t bytes = TOKENS * WIDTH * sizeof(float);
  assert_int_equal(hr__run_read(d.session.run, table, 0, before, bytes, NULL), HR_OK);
  desk_steps(&d, 1, 1);
  assert_int_equal(hr__run_read(d.session.run, table, 0, after, bytes, NULL), HR_OK);
  desk_close(&d);
}

static void padding_check(const char *setting) {
  static float first[2][TOKENS * WIDTH], plain[TOKENS * WIDTH], padded[TOKENS * WIDTH];
  table_step("model.config.pad_token_id=null", first[0], plain);
  table_step(setting, first[1], padded);
  assert_memory_equal(first[0], first[1], sizeof first[0]);
  for (int token = 0; token < TOKENS; token++) {
    size_t at = (size_t)token * WIDTH, bytes = WIDTH * sizeof(float);
    assert_true(memcmp(plain + at, first[0] + at, bytes) != 0); /* it was read */
    assert_memory_equal(padded + at, token == PADDING ? first[0] + at : plain + at, bytes);
  }
}

static void test_its_row_stays(void **state) {
  (void)state;
  padding_check("model.config.pad_token_id=5");
  padding_check("model.config.pad_token_id=-3"); /* counted from the end */
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_its_row_stays)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
