/* suggest: families of changes against a made-up planner whose peak and seconds are simple formulas. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "data/keys.h"
#include "fit/techniques.h"
#include "pass/adapters.h"
#include "pass/pass.h"
#include "pass/update.h"

static const char recipe_text[] = "model: { family: llama, config: { hidden_size: 16, num_hidden_layers: 1,\n"
                                  "         num_attention_heads: 4, intermediate_size: 24, vocab_size: 64 } }\n"
                                  "data: { sequence_length: 64 }\n"
                                  "training: { batch_size: 12, effective_batch: 24 }\n";

/* peak = (1000 + 10 x batch x length) bytes, halved by bf16; recomputing makes 4 of the 10 and costs 0.3 s, the
 * 8-bit optimizer takes 100 off; seconds grow with the number of micro-batches. */
typedef struct formula {
  uint64_t budget;
  int calls;
} formula;

static hr_status plan_formula(void *user, const char *const *overrides, size_t count, hr_planned *out, hr_error *err) {
  (void)err;
  formula *f = user;
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
  *out = (hr_planned){
      .peak_bytes = {(uint64_t)(1000 - 100 * small + (again ? 4 : 10) * batch * length) >> half},
  };
  out->step_seconds =
      1.0 + 0.3 * (double)again + 0.01 * (double)accumulation - 0.001 * (double)(64 - length) + 0.5 * (double)half;
  out->fits = out->peak_bytes[HR_TIER_DEVICE] <= f->budget;
  f->calls++;
  return HR_OK;
}

static void suggest_with(size_t n_tables, uint64_t budget, hr_change changes[HR_SUGGESTIONS], int *count, int *calls) {
  const hr_key_table tables[] = {hr_model_keys,   hr_train_set_keys, hr_data_keys,
                                 hr_compile_keys, hr_update_keys,    hr_checkpoint_keys};
  hr_recipe *recipe;
  hr_error err = {0};
  if (hr__recipe_parse("t.yaml", ".", recipe_text, sizeof recipe_text - 1, NULL, 0, tables, n_tables, &recipe, &err) !=
      HR_OK)
    fail_msg("%s", err.message);
  formula f = {.budget = budget};
  assert_int_equal(hr__suggest(recipe, HR_TIER_DEVICE, plan_formula, &f, changes, count, &err), HR_OK);
  *calls = f.calls;
  hr__recipe_destroy(recipe);
}

/* Without the setting of checkpointing. */
static void suggest(uint64_t budget, hr_change changes[HR_SUGGESTIONS], int *count, int *calls) {
  suggest_with(5, budget, changes, count, calls);
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
    assert_true(changes[i].planned.fits && changes[i].planned.peak_bytes[HR_TIER_DEVICE] <= 4900);
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
  assert_true(calls <= 3 + 1 + 1 + 4 + 2); /* families of 3, 1, 1, 5 and 2: the mildest, then halving */
}

static void test_recomputing_and_small_moments(void **state) {
  (void)state;
  hr_change changes[HR_SUGGESTIONS];
  int count, calls = 0;
  suggest_with(6, 4100, changes, &count, &calls); /* unchanged 8680; recomputing 4072, batch 3: 2920, bf16: 4340 */
  assert_int_equal(count, 6);
  bool found[4] = {false};
  for (int i = 0; i < count; i++) {
    bool again = strcmp(changes[i].override[0], "memory.checkpoint=auto") == 0;
    bool batch = strncmp(changes[i].override[0], "training.batch_size", 19) == 0;
    bool small = strcmp(changes[i].override[0], "training.optimizer.kind=adamw8bit") == 0;
    found[0] |= again;
    found[1] |= batch;
    bool at_once = strcmp(changes[i].override[0], "memory.update=in-backward") == 0;
    found[2] |= small && strcmp(changes[i].override[1], "memory.checkpoint=auto") == 0;
    found[3] |= at_once && strcmp(changes[i].override[1], "memory.checkpoint=auto") == 0;
    assert_int_equal(changes[i].changes_results, !again && !batch && !at_once);
  }
  assert_true(found[0] && found[1] && found[2] && found[3]);
}

/* --- with offload, adapters and the tiers below ------------------------------------------------------------------- */

/* A plan fits that has all of the overrides of `user`. */
static hr_status plan_needs(void *user, const char *const *overrides, size_t count, hr_planned *out, hr_error *err) {
  (void)err;
  const char *const *needs = user;
  *out = (hr_planned){.step_seconds = (double)count, .fits = true};
  for (size_t n = 0; needs[n]; n++) {
    bool there = false;
    for (size_t i = 0; i < count; i++)
      there |= strcmp(overrides[i], needs[n]) == 0;
    out->fits &= there;
  }
  return HR_OK;
}

/* What is suggested where only a plan with all of `needs` fits: the first overrides of the suggestions. */
static int suggest_all(const char *const *given, size_t n_given, hr_tier tier, const char *const *needs,
                       hr_change changes[HR_SUGGESTIONS]) {
  hr_key_table tables[HR_COMPILE_TABLES];
  hr__compile_tables(tables);
  hr_recipe *recipe;
  hr_error err = {0};
  int count;
  if (hr__recipe_parse("t.yaml", ".", recipe_text, sizeof recipe_text - 1, given, n_given, tables, HR_COMPILE_TABLES,
                       &recipe, &err) != HR_OK)
    fail_msg("%s", err.message);
  assert_int_equal(hr__suggest(recipe, tier, plan_needs, (void *)needs, changes, &count, &err), HR_OK);
  hr__recipe_destroy(recipe);
  return count;
}

static void test_offload_and_adapters(void **state) {
  (void)state;
  hr_change changes[HR_SUGGESTIONS];
  const char *const state_down[] = {"memory.offload.optimizer=disk", "memory.offload.parameters=disk", NULL};
  assert_int_equal(suggest_all(NULL, 0, HR_TIER_DEVICE, state_down, changes), 1);
  assert_int_equal(changes[0].n_overrides, 4); /* with gradients, and recomputing */
  assert_false(changes[0].changes_results);
  const char *const lora[] = {"model.adapters.kind=lora", NULL}, *const four_bits[] = {"model.quantize.kind=nf4", NULL};
  assert_int_equal(suggest_all(NULL, 0, HR_TIER_DEVICE, lora, changes), 0); /* no checkpoint to adapt */
  const char *const adapted[] = {"model.adapters.kind=lora"};
  assert_int_equal(suggest_all(adapted, 1, HR_TIER_DEVICE, four_bits, changes), 1);
  assert_int_equal(changes[0].n_overrides, 1);
  assert_true(changes[0].changes_results);
}

static void test_tiers_below(void **state) {
  (void)state;
  hr_change changes[HR_SUGGESTIONS];
  const char *const given[] = {"memory.offload.optimizer=host", "memory.offload.activations=disk"};
  const char *const back[] = {"memory.offload.optimizer=auto", "memory.offload.activations=auto", NULL};
  const char *const down[] = {"memory.offload.optimizer=disk", NULL};
  assert_int_equal(suggest_all(given, 2, HR_TIER_HOST, back, changes), 1);
  assert_int_equal(suggest_all(given, 2, HR_TIER_HOST, down, changes), 1);
  assert_int_equal(changes[0].n_overrides, 1);
  assert_int_equal(suggest_all(given, 2, HR_TIER_DISK, back, changes), 1);
  assert_int_equal(suggest_all(given, 2, HR_TIER_DISK, down, changes), 0);
}

/* --- techniques: the same recipe without each --------------------------------------------------------------------- */

static hr_status plan_without(void *user, const char *const *overrides, size_t count, hr_planned *out, hr_error *err) {
  (void)user;
  assert_int_equal(count, 1);
  if (strcmp(overrides[0], "model.precision=32-true") == 0) return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "no");
  assert_string_equal(overrides[0], "memory.checkpoint=none");
  *out = (hr_planned){{700}, 1.5, true};
  return HR_OK;
}

static void test_techniques(void **state) {
  (void)state;
  const hr_key_table tables[] = {hr_model_keys,   hr_train_set_keys, hr_data_keys,
                                 hr_compile_keys, hr_update_keys,    hr_checkpoint_keys};
  const char *const overrides[] = {"memory.checkpoint=every-layer", "model.precision=bf16-true"};
  for (size_t n = 0; n <= 2; n++) {
    hr_recipe *recipe;
    hr_error err = {0};
    hr_technique techniques[HR_TECHNIQUES];
    int count;
    assert_int_equal(
        hr__recipe_parse("t.yaml", ".", recipe_text, sizeof recipe_text - 1, overrides, n, tables, 6, &recipe, &err),
        HR_OK);
    assert_int_equal(hr__techniques(recipe, NULL, 500, 2.0, plan_without, NULL, techniques, &count, &err), HR_OK);
    assert_int_equal(count, n);
    for (int i = 0; i < count; i++) {
      bool precision = strcmp(techniques[i].name, "precision: bf16-true") == 0;
      assert_int_equal(techniques[i].bytes_known && techniques[i].seconds_known, !precision);
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
      cmocka_unit_test(test_offload_and_adapters),
      cmocka_unit_test(test_tiers_below),
      cmocka_unit_test(test_techniques),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
