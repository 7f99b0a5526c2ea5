/* The search against planning every setting: 200 random spaces, the same answer; the same again on several threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "fit/coupling.h"
#include "fit/part_world.h"
#include "graph/builder.h"
#include "op/add.h"
#include "op/mse.h"
#include "support/faults.h"

/* What may be open, and with which choices; a bit of a space's mask each. */
static const char *const lists[] = {
    "training.batch_size=auto",
    "model.precision=[bf16-true, 32-true]",
    "training.optimizer.kind=[adamw, sgd]",
    "memory.checkpoint=[every-layer, none]",
    "memory.checkpoint=auto",
    "memory.update=auto",
    "memory.offload.optimizer=[device, host]",
    "memory.offload.optimizer=auto",
    "memory.offload.parameters=[device, host]",
    "memory.offload.gradients=auto",
    "data.sequence_length=[16, 32]",
    "memory.split=auto",
};
enum { LISTS = sizeof lists / sizeof *lists, OPEN_MOST = 4 };

/* --- every setting, one by one ------------------------------------------------------------------------------------ */

typedef struct answer {
  bool any, fits, changes;
  size_t level;   /* of quality: 0 is the highest */
  double seconds; /* per token */
  uint64_t peak;
  char overrides[512];
} answer;

static bool answer_better(const answer *a, const answer *b) {
  if (!b->any) return true;
  if (a->fits != b->fits) return a->fits;
  if (!a->fits && a->peak != b->peak) return a->peak < b->peak;
  if (a->level != b->level) return a->level < b->level;
  if (a->seconds != b->seconds) return a->seconds < b->seconds;
  if (a->changes != b->changes) return b->changes;
  return a->peak < b->peak;
}

/* Knobs as digits, the last one fastest: settings come in the order of the choices. */
static bool digits_next(size_t *digits, const hr_knob *knobs, size_t count) {
  for (size_t k = count; k-- > 0;) {
    if (++digits[k] < knobs[k].n_choices) return true;
    digits[k] = 0;
  }
  return false;
}

static void setting_try(world *w, const hr_knob *knobs, size_t n_knobs, const size_t *digits, bool sliced, bool quick,
                        answer *best) {
  char texts[16][96];
  const char *overrides[16];
  answer a = {.any = true};
  int64_t slices = 1;
  for (size_t k = 0; k < n_knobs; k++) {
    snprintf(texts[k], sizeof texts[k], "%s=%s", knobs[k].path, knobs[k].choices[digits[k]]);
    overrides[k] = texts[k];
    strncat(a.overrides, texts[k], sizeof a.overrides - strlen(a.overrides) - 2);
    strcat(a.overrides, " ");
    a.changes |= knobs[k].changes[digits[k]];
    if (knobs[k].slices) slices = (int64_t)1 << digits[k];
    if (knobs[k].quality) a.level = a.level * knobs[k].n_choices + knobs[k].quality[digits[k]];
  }
  hr_recipe *recipe = NULL;
  hr_open open;
  hr_chosen chosen = {0};
  if ((slices > 1) != sliced) return;
  if (world_load(w, overrides, n_knobs, &recipe, &open, NULL) == HR_OK) {
    int64_t samples = hr__recipe_int(recipe, "training.batch_size");
    open.slices = slices < samples ? slices : samples;
    open.effort = quick ? HR_EFFORT_DRAFT : HR_EFFORT_RUN;
    if (slices < 2 * samples && hr__choose(&open, &chosen, NULL) == HR_OK) {
      const hr_tier_plan *tiers = chosen.plan->tiers;
      a.fits = tiers[HR_TIER_DEVICE].peak_bytes <= w->budget_bytes && tiers[HR_TIER_HOST].peak_bytes <= w->host_bytes;
      a.peak = tiers[HR_TIER_DEVICE].peak_bytes;
      a.seconds = chosen.plan->step_seconds /
                  ((double)samples * open.accumulation * (double)hr__recipe_int(recipe, "data.sequence_length"));
      if (answer_better(&a, best)) *best = a;
    }
  }
  hr__chosen_fini(&chosen);
  hr__recipe_destroy(recipe);
}

static answer exhaustive(world *w, const hr_knob *knobs, size_t n_knobs) {
  answer best = {0};
  size_t settings = 1, whole = 0;
  for (size_t k = 0; k < n_knobs; k++)
    settings *= knobs[k].n_choices;
  for (size_t k = 0; k < n_knobs; k++)
    if (knobs[k].slices) whole = settings / knobs[k].n_choices;
  bool many = (whole ? whole : settings) > 1;
  for (int sliced = 0; sliced < 2; sliced++) {
    size_t digits[16] = {0};
    do
      setting_try(w, knobs, n_knobs, digits, sliced, many || sliced, &best);
    while (digits_next(digits, knobs, n_knobs));
  }
  return best;
}

/* --- the test ----------------------------------------------------------------------------------------------------- */

static uint64_t draw(uint64_t space, uint64_t number, uint64_t below) {
  return hr__random_below((hr_random_key){5, 0x736561726368}, space, number, below);
}

/* Some of the lists, at most one per key, and a budget from below the smallest plan to above the largest. */
static void world_draw(world *w, uint64_t space) {
  w->n_overrides = 0;
  for (size_t i = 0; i < LISTS && w->n_overrides < OPEN_MOST; i++) {
    const char *last = w->n_overrides > 0 ? w->overrides[w->n_overrides - 1] : "=";
    bool again = strncmp(lists[i], last, strcspn(last, "=") + 1) == 0;
    if (draw(space, i, 100) < 35 && !again) w->overrides[w->n_overrides++] = lists[i];
  }
  bool gpu = w->facts.kind == HR_CUDA;
  if (gpu) world_enlarge(w);
  w->budget_bytes =
      w->facts.fixed_bytes + (gpu ? 40000000 + draw(space, 40, 90000000) : 200000 + draw(space, 40, 700000));
  w->host_bytes = draw(space, 41, 4) > 0 ? UINT64_MAX : gpu ? 40000000 : 20000;
}

/* Whether anything fits is the same where nothing else is asked for, and not all that is too large is planned. */
static void verdict_compare(world *w, const hr_recipe *open, bool fits) {
  hr_recipe *closed = NULL;
  hr_error err = {0};
  hr_search search;
  hr_chosen chosen = {0};
  hr_space s = {.recipe = open, .effort = HR_EFFORT_VERDICT, .threads = 1, .user = w, .load = world_load};
  if (hr__search(&s, &search, &closed, &chosen, &err) != HR_OK) fail_msg("%s: %s", err.place, err.message);
  assert_int_equal(search.chosen.fits, fits);
  hr__search_fini(&search);
  hr__chosen_fini(&chosen);
  hr__recipe_destroy(closed);
}

static void answers_compare(world *w, uint64_t space, int threads, size_t *pruned, size_t *fitting) {
  hr_recipe *open = NULL, *closed = NULL;
  hr_error err = {0};
  hr_search search;
  hr_chosen chosen = {0};
  if (world_load(w, NULL, 0, &open, NULL, &err) != HR_OK) fail_msg("%s", err.message);
  hr_space s = {.recipe = open, .threads = threads, .user = w, .load = world_load};
  if (hr__search(&s, &search, &closed, &chosen, &err) != HR_OK) fail_msg("%s: %s", err.place, err.message);
  answer best = exhaustive(w, search.knobs, search.n_knobs);
  char found[512] = "";
  for (size_t k = 0; k < search.chosen.n_overrides; k++) {
    strcat(found, search.chosen.overrides[k]);
    strcat(found, " ");
  }
  if (strcmp(found, best.overrides) != 0 || search.chosen.token_seconds != best.seconds)
    fail_msg("space %d: found %s(%g, %d), best %s(%g, %d)", (int)space, found, search.chosen.token_seconds,
             search.chosen.fits, best.overrides, best.seconds, best.fits);
  assert_int_equal(search.chosen.fits, best.fits);
  assert_int_equal(search.chosen.changes_results, best.changes);
  assert_ptr_equal(search.frontier[search.at].overrides, search.chosen.overrides);
  *pruned += search.n_pruned;
  *fitting += search.chosen.fits;
  verdict_compare(w, open, best.fits);
  hr__search_fini(&search);
  hr__chosen_fini(&chosen);
  hr__recipe_destroy(open);
  hr__recipe_destroy(closed);
}

static void spaces_compare(const char *gpu) {
  world w = {0};
  world_device(&w, gpu);
  size_t pruned = 0, fitting = 0;
  for (uint64_t space = 0; space < 200; space++) {
    world_draw(&w, space);
    answers_compare(&w, space, space % 4 == 0 ? 3 : 1, &pruned, &fitting);
  }
  printf("%zu settings pruned, %zu spaces with a plan that fits\n", pruned, fitting);
  assert_true(pruned > 100 && fitting > 80 && fitting < 200);
  hr__rates_fini(&w.rates);
}

static void test_equals_planning_every_setting(void **state) {
  (void)state;
  spaces_compare(NULL);
}

/* Where what is offloaded may be updated in two places. */
static void test_equals_planning_every_setting_of_a_gpu(void **state) {
  (void)state;
  spaces_compare("RTX 4090");
}

static hr_status search_body(void *arg, hr_error *err) {
  hr_recipe *open = NULL, *closed = NULL;
  hr_search search;
  hr_chosen chosen;
  hr_status status = world_load(arg, NULL, 0, &open, NULL, err);
  hr_space s = {.recipe = open, .threads = 1, .user = arg, .load = world_load};
  if (status == HR_OK) status = hr__search(&s, &search, &closed, &chosen, err);
  if (status == HR_OK) {
    hr__search_fini(&search);
    hr__chosen_fini(&chosen);
    hr__recipe_destroy(closed);
  }
  hr__recipe_destroy(open);
  return status;
}

static void test_search_survives_lack_of_memory(void **state) {
  (void)state;
  world w = {.overrides = {"memory.update=auto", "model.config.num_hidden_layers=1"}, .n_overrides = 2};
  hr__cpu_facts(&w.facts);
  hr__rates_default(&w.facts, &w.rates);
  w.budget_bytes = w.host_bytes = UINT64_MAX;
  assert_true(hr_test_each_fault(search_body, &w) > 100);
  hr__rates_fini(&w.rates);
}

/* Words and lists that mean nothing are told, at their place. */
static void test_open_settings_that_mean_nothing(void **state) {
  (void)state;
  static const struct {
    const char *override, *message;
  } cases[] = {
      {"training.gradient_accumulation=auto", "only beside training.effective_batch"},
      {"memory.split=[{'*': 2}, auto]", "cannot be one of several choices"},
      {"memory.gpu=[H100, H200]", "cannot be left open"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    world w = {.overrides = {"training.effective_batch=null", cases[i].override}, .n_overrides = 2};
    hr__cpu_facts(&w.facts);
    hr__rates_default(&w.facts, &w.rates);
    w.budget_bytes = w.host_bytes = UINT64_MAX;
    hr_error err = {0};
    assert_int_equal(search_body(&w, &err), HR_BAD_INPUT);
    if (!strstr(err.message, cases[i].message)) fail_msg("%s", err.message);
    hr__rates_fini(&w.rates);
  }
}

/* `auto` in a list is what it would try alone, in its place and without what the list names; the first choice tells
 * which of the others change results. */
static void test_auto_among_choices(void **state) {
  (void)state;
  static const struct {
    const char *override, *choices;
    bool changes;
  } cases[] = {
      {"training.batch_size=[1, auto]", "1 4 2", false},
      {"training.batch_size=[auto, 1, 3]", "4 2 1 3", false},
      {"data.sequence_length=[96, auto, auto]", "96 2048 1024 512 256 128", true},
      {"model.precision=[16-mixed, auto]", "16-mixed bf16-mixed bf16-true 32-true", true},
      {"model.precision=[auto, 32-true]", "bf16-mixed bf16-true 32-true", true},
      {"training.optimizer.kind=[sgd, auto]", "sgd adamw adamw8bit paged_adamw paged_adamw8bit", true},
      {"training.optimizer.state=[bf16, auto]", "bf16 f32", true},
      {"memory.update=[auto]", "after-backward in-backward", false},
      {"memory.split=[none, auto]", "auto", false}, /* one sample: no slices */
      {"memory.checkpoint=[none, auto]", "none auto", false},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    world w = {.overrides = {cases[i].override}, .n_overrides = 1, .budget_bytes = UINT64_MAX};
    hr_recipe *recipe = NULL;
    hr_arena arena = {0};
    const hr_knob *knobs;
    size_t count;
    hr_error err = {0};
    assert_int_equal(world_load(&w, NULL, 0, &recipe, NULL, &err), HR_OK);
    if (hr__knobs_find(recipe, false, &arena, &knobs, &count, &err) != HR_OK) fail_msg("%s", err.message);
    assert_int_equal(count, 1);
    char all[256] = "";
    for (size_t k = 0, at = 0; k < knobs->n_choices; k++)
      at += (size_t)snprintf(all + at, sizeof all - at, "%s%s", k ? " " : "", knobs->choices[k]);
    assert_string_equal(all, cases[i].choices);
    assert_int_equal(knobs->changes_results, cases[i].changes);
    assert_true(knobs->by_hand);
    hr__arena_fini(&arena);
    hr__recipe_destroy(recipe);
  }
}

/* The largest length that fits is taken, whatever its speed; with a byte less than its plan the next one of that length
 * that fits, and only where there is none a smaller length. */
static void test_quality_before_speed(void **state) {
  (void)state;
  world w = {.overrides = {"data.sequence_length=[16, 64, 32]", "memory.checkpoint=[every-layer, none]"},
             .n_overrides = 2};
  hr__cpu_facts(&w.facts);
  hr__rates_default(&w.facts, &w.rates);
  w.host_bytes = w.budget_bytes = UINT64_MAX;
  hr_recipe *open = NULL;
  hr_error err = {0};
  assert_int_equal(world_load(&w, NULL, 0, &open, NULL, &err), HR_OK);
  hr_space s = {.recipe = open, .threads = 1, .user = &w, .load = world_load};
  char lengths[64] = "";
  for (bool fits = true; fits;) {
    hr_recipe *closed;
    hr_search search;
    hr_chosen chosen;
    if (hr__search(&s, &search, &closed, &chosen, &err) != HR_OK) fail_msg("%s", err.message);
    fits = search.chosen.fits;
    int length = (int)hr__recipe_int(closed, "data.sequence_length");
    char text[16];
    snprintf(text, sizeof text, "%d ", length);
    if (fits && !strstr(lengths, text)) strcat(lengths, text); /* else another plan of that length */
    if (!fits) assert_int_equal(length, 16);                   /* then the smallest plan */
    w.budget_bytes = search.chosen.peak_bytes[HR_TIER_DEVICE] - 1;
    hr__search_fini(&search);
    hr__chosen_fini(&chosen);
    hr__recipe_destroy(closed);
  }
  assert_string_equal(lengths, "64 32 16 ");
  hr__recipe_destroy(open);
  hr__rates_fini(&w.rates);
}

/* --auto: what is not written is open, what changes results only as a last resort, and written settings stay. */
static void test_all_is_opened(void **state) {
  (void)state;
  world w = {.overrides = {"memory.checkpoint=none"}, .n_overrides = 1};
  hr__cpu_facts(&w.facts);
  w.facts.compiled = false; /* as in world_device */
  hr__rates_default(&w.facts, &w.rates);
  w.host_bytes = UINT64_MAX;
  hr_recipe *open = NULL;
  hr_error err = {0};
  assert_int_equal(world_load(&w, NULL, 0, &open, NULL, &err), HR_OK);
  hr_space s = {.recipe = open, .all = true, .threads = 1, .user = &w, .load = world_load};
  uint64_t small = w.facts.fixed_bytes + 600000;
  for (int i = 0; i < 2; i++) {
    hr_recipe *closed;
    hr_search search;
    hr_chosen chosen;
    w.budget_bytes = i == 0 ? UINT64_MAX : small;
    if (hr__search(&s, &search, &closed, &chosen, &err) != HR_OK) fail_msg("%s", err.message);
    bool batch = false;
    for (size_t k = 0; k < search.n_knobs; k++) {
      assert_false(search.knobs[k].by_hand);
      assert_string_not_equal(search.knobs[k].path, "memory.checkpoint");
      batch |= strcmp(search.knobs[k].path, "training.batch_size") == 0;
    }
    assert_true(batch);
    if (!search.chosen.fits) fail_msg("%d: %llu bytes", i, (unsigned long long)search.chosen.peak_bytes[0]);
    if (i == 0) assert_false(search.chosen.changes_results);
    assert_true(hr__recipe_word_is(closed, "memory.checkpoint", "none"));
    hr__search_fini(&search);
    hr__chosen_fini(&chosen);
    hr__recipe_destroy(closed);
  }
  hr__recipe_destroy(open);
  hr__rates_fini(&w.rates);
}

/* A mean over the batch that goes into what is computed next couples samples; the same at the end does not. */
static void test_coupled_samples(void **state) {
  (void)state;
  for (int further = 0; further < 2; further++) {
    hr_graph *graph;
    hr_builder b;
    hr_error err = {0};
    assert_int_equal(hr__graph_create(&graph, &err), HR_OK);
    hr__builder_init(&b, graph, HR_F32);
    hr__program_begin(&b, HR_PROGRAM_STEP);
    hr_id x = hr__input(&b, "x", hr__desc2(HR_F32, 4, 8)), y = hr__input(&b, "y", hr__desc2(HR_F32, 4, 8));
    hr_id mean = hr__mse(&b, x, y);
    if (further) hr__add(&b, mean, mean, 1.0f);
    assert_int_equal(hr__builder_status(&b, &err), HR_OK);
    bool coupled;
    assert_int_equal(hr__samples_coupled(graph, &coupled, &err), HR_OK);
    assert_int_equal(coupled, further);
    hr__graph_destroy(graph);
  }
}

int main(void) {
  hr_test_faults_install();
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_equals_planning_every_setting),
                                     cmocka_unit_test(test_equals_planning_every_setting_of_a_gpu),
                                     cmocka_unit_test(test_search_survives_lack_of_memory),
                                     cmocka_unit_test(test_open_settings_that_mean_nothing),
                                     cmocka_unit_test(test_auto_among_choices),
                                     cmocka_unit_test(test_quality_before_speed),
                                     cmocka_unit_test(test_all_is_opened),
                                     cmocka_unit_test(test_coupled_samples)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
