/* ladder: the rungs beside a recipe, against a made-up planner whose peak and seconds are simple formulas. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "data/keys.h"
#include "fit/ladder.h"
#include "pass/adapters.h"
#include "pass/pass.h"
#include "pass/update.h"

static const char recipe_text[] = "model: { family: llama, config: { hidden_size: 16, num_hidden_layers: 1,\n"
                                  "         num_attention_heads: 4, intermediate_size: 24, vocab_size: 64 } }\n"
                                  "data: { sequence_length: 64 }\n"
                                  "training: { batch_size: 12, gradient_accumulation: 2 }\n"
                                  "memory: { checkpoint: selective }\n";

/* Kept bytes per row of a micro-batch, and the price of recomputing the rest. */
typedef struct formula {
  uint64_t budget;
  double seconds_each; /* per micro-batch */
  bool refuse_batch, out_of_memory;
  hr_search search; /* empty: nothing was open */
} formula;

static hr_status plan_formula(void *user, const char *const *overrides, size_t count, hr_planned *out, hr_error *err) {
  const formula *f = user;
  int64_t batch = 12, accumulation = 2;
  int64_t each = 6;
  double again = 0.2;
  if (f->out_of_memory) return hr__nomem(err);
  for (size_t i = 0; i < count; i++) {
    sscanf(overrides[i], "training.batch_size=%ld", &batch);
    sscanf(overrides[i], "training.gradient_accumulation=%ld", &accumulation);
    if (strcmp(overrides[i], "memory.checkpoint=none") == 0) each = 10, again = 0;
    if (strcmp(overrides[i], "memory.checkpoint=every-layer") == 0) each = 3, again = 0.3;
  }
  if (f->refuse_batch && batch != 12) return HR_BAD_INPUT;
  assert_int_equal(batch * accumulation, 24); /* the effective batch is kept */
  *out = (hr_planned){.peak_bytes = {(uint64_t)(1000 + 100 * each * batch)},
                      .step_seconds = 1 + again + f->seconds_each * (double)accumulation};
  out->fits = out->peak_bytes[HR_TIER_DEVICE] <= f->budget;
  return HR_OK;
}

static hr_status climb(formula *f, hr_arena *arena, hr_ladder *ladder) {
  const hr_key_table tables[] = {hr_model_keys,   hr_train_set_keys, hr_data_keys,
                                 hr_compile_keys, hr_update_keys,    hr_checkpoint_keys};
  hr_recipe *recipe;
  hr_planned here;
  hr_error err = {0};
  if (hr__recipe_parse("t.yaml", ".", recipe_text, sizeof recipe_text - 1, NULL, 0, tables, 6, &recipe, &err) != HR_OK)
    fail_msg("%s", err.message);
  formula own = *f;
  own.out_of_memory = false;
  assert_int_equal(plan_formula(&own, NULL, 0, &here, &err), HR_OK);
  hr__arena_init(arena);
  hr_status status = hr__ladder(recipe, &f->search, &here, plan_formula, f, arena, ladder, &err);
  hr__recipe_destroy(recipe);
  return status;
}

/* Here: 8200 bytes, 1.2 s and two micro-batches. */
static void test_nearest_on_both_sides(void **state) {
  (void)state;
  hr_arena arena;
  hr_ladder ladder;
  formula f = {.budget = 9000, .seconds_each = 0.01};
  assert_int_equal(climb(&f, &arena, &ladder), HR_OK);
  /* a batch of 8 costs one more micro-batch, recomputing all costs 0.1 s */
  assert_int_equal(ladder.cheaper.n_overrides, 2);
  assert_string_equal(ladder.cheaper.overrides[0], "training.batch_size=8");
  assert_string_equal(ladder.cheaper.overrides[1], "training.gradient_accumulation=3");
  assert_int_equal(ladder.cheaper.planned.peak_bytes[HR_TIER_DEVICE], 5800);
  /* one micro-batch less is not a per cent faster; keeping all is, and takes more than the budget */
  assert_int_equal(ladder.faster.n_overrides, 1);
  assert_string_equal(ladder.faster.overrides[0], "memory.checkpoint=none");
  assert_false(ladder.faster.planned.fits || ladder.faster.changes_results);
  hr__arena_fini(&arena);
}

static void test_price_decides(void **state) {
  (void)state;
  hr_arena arena;
  hr_ladder ladder;
  formula f = {.budget = 9000, .seconds_each = 0.2}; /* micro-batches are dear */
  assert_int_equal(climb(&f, &arena, &ladder), HR_OK);
  assert_string_equal(ladder.cheaper.overrides[0], "memory.checkpoint=every-layer");
  assert_string_equal(ladder.faster.overrides[0], "memory.checkpoint=none"); /* 13000 bytes, a batch of 24: 15400 */
  hr__arena_fini(&arena);
}

static void test_refused_neighbours_are_none(void **state) {
  (void)state;
  hr_arena arena;
  hr_ladder ladder;
  formula f = {.budget = 9000, .seconds_each = 0.01, .refuse_batch = true};
  assert_int_equal(climb(&f, &arena, &ladder), HR_OK);
  assert_string_equal(ladder.cheaper.overrides[0], "memory.checkpoint=every-layer");
  hr__arena_fini(&arena);
  f = (formula){.budget = 1000, .refuse_batch = true}; /* nothing fits */
  assert_int_equal(climb(&f, &arena, &ladder), HR_OK);
  assert_int_equal(ladder.cheaper.n_overrides, 0);
  hr__arena_fini(&arena);
}

/* What was open has a frontier: its rungs, where it has some, come before neighbours. Those nearer than a hundredth are
 * none, and a result is other than that of the chosen setting, not than that of the recipe. */
static void test_frontier(void **state) {
  (void)state;
  static const char *const texts[6][2] = {{"training.batch_size=12", "model.precision=bf16-true"},
                                          {"training.batch_size=24", "model.precision=bf16-mixed"},
                                          {"training.batch_size=12", "model.precision=bf16-mixed"},
                                          {"training.batch_size=8", "model.precision=bf16-mixed"},
                                          {"training.batch_size=6", "model.precision=bf16-mixed"},
                                          {"training.batch_size=3", "model.precision=bf16-mixed"}};
  static const bool kept[2] = {false, false}, mixed[2] = {false, true};
  static const uint64_t peaks[6] = {9000, 8050, 8000, 7950, 7000, 6000};
  static const double seconds[6] = {1, 1.995, 2, 2.5, 3, 4};
  hr_found frontier[6];
  for (int i = 0; i < 6; i++)
    frontier[i] = (hr_found){.overrides = texts[i],
                             .changes = i == 0 ? kept : mixed,
                             .n_overrides = 2,
                             .changes_results = i > 0,
                             .fits = i > 1 && i != 4, /* i == 4: less on the device, too much on the host */
                             .peak_bytes = {peaks[i]},
                             .step_seconds = seconds[i]};
  formula f = {.budget = 8000, .seconds_each = 0.01};
  f.search = (hr_search){.frontier = frontier, .n_frontier = 6, .at = 2, .chosen = frontier[2]};
  hr_arena arena;
  hr_ladder ladder;
  assert_int_equal(climb(&f, &arena, &ladder), HR_OK);
  assert_int_equal(ladder.cheaper.n_overrides, 1);
  assert_string_equal(ladder.cheaper.overrides[0], "training.batch_size=3");
  assert_int_equal(ladder.cheaper.planned.peak_bytes[HR_TIER_DEVICE], 6000);
  assert_false(ladder.cheaper.changes_results);
  assert_string_equal(ladder.faster.overrides[0], "model.precision=bf16-true");
  assert_true(ladder.faster.changes_results && !ladder.faster.planned.fits);
  hr__arena_fini(&arena);
  f.search.n_frontier = 4; /* nothing behind the chosen one: a neighbour */
  assert_int_equal(climb(&f, &arena, &ladder), HR_OK);
  assert_string_equal(ladder.cheaper.overrides[0], "training.batch_size=8");
  assert_string_equal(ladder.faster.overrides[0], "model.precision=bf16-true");
  hr__arena_fini(&arena);
}

static void test_lack_of_memory_is_told(void **state) {
  (void)state;
  hr_arena arena;
  hr_ladder ladder;
  formula f = {.budget = 9000, .out_of_memory = true};
  assert_int_equal(climb(&f, &arena, &ladder), HR_NOMEM);
  hr__arena_fini(&arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_nearest_on_both_sides),       cmocka_unit_test(test_price_decides),
      cmocka_unit_test(test_refused_neighbours_are_none), cmocka_unit_test(test_frontier),
      cmocka_unit_test(test_lack_of_memory_is_told),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
