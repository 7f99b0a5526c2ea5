/* suggest: families of changes against a made-up planner whose peak and seconds are simple formulas. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fit/techniques.h"
#include "pass/checkpoint.h"
#include "pass/update.h"

static const char recipe_text[] = "model: { family: llama, config: { hidden_size: 16, num_hidden_layers: 1,\n"
                                  "         num_attention_heads: 4, intermediate_size: 24, vocab_size: 64 } }\n"
                                  "data: { sequence_length: 64 }\n"
                                  "training: { batch_size: 12, effective_batch: 24 }\n";

/* peak = (1000 + 10 x batch x length) bytes, halved by bf16; recomputing makes 4 of the 10 and costs 0.3 s, the
 * 8-bit optimizer takes 100 off; seconds grow with the number of micro-batches. */
static hr_status plan_formula(void *user, const char *const *overrides, size_t count, uint64_t *peak, double *seconds,
                              hr_error *err) {
  (void)err;
  int64_t batch = 12, length = 64, accumulation = 2, half = 0, again = 0, small = 0;
  for (size_t i = 0; i < count; i++) {
    sscanf(overrides[i], "training.batch_size=%ld", &batch);
    sscanf(overrides[i], "training.gradient_accumulation=%ld", &accumulation);
    sscanf(overrides[i], "data.sequence_length=%ld", &length);
    half |= strcmp(overrides[i], "model.precision=bf16-true") == 0;
    again |= strcmp(overrides[i], "memory.checkpoint=auto") == 0;
    small |= strcmp(overrides[i], "training.optimizer.kind=adamw8bit") == 0;
  }
  assert_int_equal(batch * accumulation, 24); /* the effective batch is kept */
  *peak = (uint64_t)(1000 - 100 * small + (again ? 4 : 10) * batch * length) >> half;
  *seconds =
      1.0 + 0.3 * (double)again + 0.01 * (double)accumulation - 0.001 * (double)(64 - length) + 0.5 * (double)half;
  ++*(int *)user;
  return HR_OK;
}

static void suggest_with(size_t n_tables, uint64_t budget, hr_change changes[HR_SUGGESTIONS], int *count, int *calls) {
  const hr_key_table tables[] = {hr_model_keys, *hr_model_llama.keys, hr_compile_keys, hr_update_keys,
                                 hr_checkpoint_keys};
  hr_recipe *recipe;
  hr_error err = {0};
  if (hr__recipe_parse("t.yaml", ".", recipe_text, sizeof recipe_text - 1, NULL, 0, tables, n_tables, &recipe, &err) !=
      HR_OK)
    fail_msg("%s", err.message);
  assert_int_equal(hr__suggest(recipe, budget, plan_formula, calls, changes, count, &err), HR_OK);
  hr__recipe_destroy(recipe);
}

/* Without the setting of checkpointing. */
static void suggest(uint64_t budget, hr_change changes[HR_SUGGESTIONS], int *count, int *calls) {
  suggest_with(4, budget, changes, count, calls);
}

static void test_mildest_member_of_each_family_sorted_by_time(void **state) {
  (void)state;
  hr_change changes[HR_SUGGESTIONS];
  int count, calls = 0;
  suggest(4900, changes, &count, &calls); /* unchanged: 8680 */
  assert_int_equal(count, 3);
  assert_string_equal(changes[0].override[0], "data.sequence_length=32");
  assert_string_equal(changes[1].override[0], "training.batch_size=6");
  assert_string_equal(changes[1].override[2], "training.gradient_accumulation=4");
  assert_string_equal(changes[2].override[0], "model.precision=bf16-true");
  assert_int_equal(changes[2].n_overrides, 1);
  for (int i = 0; i < count; i++)
    assert_true(changes[i].peak_bytes <= 4900);
}

static void test_stronger_members_when_needed(void **state) {
  (void)state;
  hr_change changes[HR_SUGGESTIONS];
  int count, calls = 0;
  suggest(1700, changes, &count, &calls);
  assert_int_equal(count, 2); /* even length 16 takes 2920 */
  assert_string_equal(changes[0].override[0], "training.batch_size=1");
  assert_string_equal(changes[1].override[0], "model.precision=bf16-true");
  assert_string_equal(changes[1].override[1], "training.batch_size=3");
}

/* Every budget gets the answer of a plain search from mild to strong. */
static void test_halving_finds_the_mildest(void **state) {
  (void)state;
  static const int64_t batches[] = {6, 3, 1};
  for (uint64_t budget = 1600; budget < 8680; budget += 20) {
    hr_change changes[HR_SUGGESTIONS];
    int count, calls = 0, at = 0;
    suggest(budget, changes, &count, &calls);
    while (at < 3 && (uint64_t)(1000 + 10 * batches[at] * 64) > budget)
      at++;
    char expected[64] = "none";
    const char *got = "none";
    if (at < 3) snprintf(expected, sizeof expected, "training.batch_size=%ld", (long)batches[at]);
    for (int i = 0; i < count; i++)
      if (strncmp(changes[i].override[0], "training.batch_size", 19) == 0) got = changes[i].override[0];
    assert_string_equal(got, expected);
  }
}

static void test_nothing_helps(void **state) {
  (void)state;
  hr_change changes[HR_SUGGESTIONS];
  int count, calls = 0;
  suggest(100, changes, &count, &calls);
  assert_int_equal(count, 0);
  assert_true(calls <= 3 + 1 + 3 + 2); /* families of 3, 1, 4 and 2: the mildest, then halving */
}

static void test_recomputing_and_small_moments(void **state) {
  (void)state;
  hr_change changes[HR_SUGGESTIONS];
  int count, calls = 0;
  suggest_with(5, 4100, changes, &count, &calls); /* unchanged 8680; recomputing 4072, batch 3: 2920, bf16: 4340 */
  assert_int_equal(count, 5);
  bool found[3] = {false};
  for (int i = 0; i < count; i++) {
    bool again = strcmp(changes[i].override[0], "memory.checkpoint=auto") == 0;
    bool batch = strncmp(changes[i].override[0], "training.batch_size", 19) == 0;
    bool small = strcmp(changes[i].override[0], "training.optimizer.kind=adamw8bit") == 0;
    found[0] |= again;
    found[1] |= batch;
    found[2] |= small && strcmp(changes[i].override[1], "memory.checkpoint=auto") == 0;
    assert_int_equal(changes[i].changes_results, !again && !batch);
  }
  assert_true(found[0] && found[1] && found[2]);
}

/* --- techniques: the same recipe without each -----------------------------------------------------------------------
 */

static hr_status plan_without(void *user, const char *const *overrides, size_t count, uint64_t *peak, double *seconds,
                              hr_error *err) {
  (void)user;
  assert_int_equal(count, 1);
  if (strcmp(overrides[0], "model.precision=32-true") == 0) return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "no");
  assert_string_equal(overrides[0], "memory.checkpoint=none");
  *peak = 700;
  *seconds = 1.5;
  return HR_OK;
}

static void test_techniques(void **state) {
  (void)state;
  const hr_key_table tables[] = {hr_model_keys, *hr_model_llama.keys, hr_compile_keys, hr_update_keys,
                                 hr_checkpoint_keys};
  const char *const overrides[] = {"memory.checkpoint=every-layer", "model.precision=bf16-true"};
  for (size_t n = 0; n <= 2; n++) {
    hr_recipe *recipe;
    hr_error err = {0};
    hr_technique techniques[HR_TECHNIQUES];
    int count;
    assert_int_equal(
        hr__recipe_parse("t.yaml", ".", recipe_text, sizeof recipe_text - 1, overrides, n, tables, 5, &recipe, &err),
        HR_OK);
    assert_int_equal(hr__techniques(recipe, 500, 2.0, plan_without, NULL, techniques, &count, &err), HR_OK);
    assert_int_equal(count, n);
    for (int i = 0; i < count; i++) {
      bool precision = strcmp(techniques[i].name, "precision: bf16-true") == 0;
      assert_int_equal(techniques[i].known, !precision);
      if (precision) continue;
      assert_string_equal(techniques[i].name, "checkpoint: every-layer");
      assert_int_equal(techniques[i].saves_bytes, 200);
      assert_true(techniques[i].costs_seconds == 0.5);
    }
    hr__recipe_destroy(recipe);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_mildest_member_of_each_family_sorted_by_time),
      cmocka_unit_test(test_stronger_members_when_needed),
      cmocka_unit_test(test_halving_finds_the_mildest),
      cmocka_unit_test(test_nothing_helps),
      cmocka_unit_test(test_recomputing_and_small_moments),
      cmocka_unit_test(test_techniques),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
