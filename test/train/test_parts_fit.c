/* A model of parts as fit sees it: what can be left open, suggested, compared and climbed to part by part. Planning is
 * made up: the recipe is taken with the overrides as it would be, and every setting of a part has a peak of its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "compile/compile.h"
#include "fit/knobs.h"
#include "fit/ladder.h"
#include "fit/techniques.h"
#include "job/settings.h"
#include "part_tiny.h"
#include "part_trio.h"

enum { SETS = 12, BUDGET = 900 };

static hr_status recipe_parse(const char *const *sets, size_t count, hr_recipe **out, hr_error *err) {
  return hr__settings_parse("tiny.yaml", ".", tiny_text, strlen(tiny_text), sets, count, out, err);
}

static hr_recipe *recipe_open(const char *const *sets, size_t count) {
  hr_recipe *recipe = NULL;
  hr_error err = {0};
  if (recipe_parse(sets, count, &recipe, &err) != HR_OK) fail_msg("%s: %s", err.place, err.message);
  return recipe;
}

/* The recipe that is planned, and what was asked for. */
typedef struct world {
  const char *const *sets;
  size_t count;
  char asked[64][HR_CHANGE_TEXT];
  int n_asked;
} world;

/* 1000 bytes, less what the last override stands for: `smaller` of head in bf16, of text in NF4 or recomputed. */
static hr_status plan_made_up(void *user, const char *const *overrides, size_t count, hr_planned *out, hr_error *err) {
  world *w = user;
  const char *sets[SETS];
  hr_recipe *recipe;
  assert_true(w->count + count <= SETS && w->n_asked < 64);
  memcpy(sets, w->sets, w->count * sizeof *sets);
  memcpy(sets + w->count, overrides, count * sizeof *sets);
  HR_TRY(recipe_parse(sets, w->count + count, &recipe, err));
  hr_graph *graph;
  hr_status status = hr__compile(recipe, NULL, NULL, &graph, err);
  if (status == HR_OK) hr__graph_destroy(graph);
  hr__recipe_destroy(recipe);
  HR_TRY(status);
  snprintf(w->asked[w->n_asked++], HR_CHANGE_TEXT, "%s", overrides[0]);
  uint64_t bytes = 1000;
  for (size_t i = 0; i < count; i++) {
    bytes -= strcmp(overrides[i], "model.parts.head.precision=bf16-mixed") == 0 ? 110 : 0;
    bytes -= strcmp(overrides[i], "model.parts.text.quantize.kind=nf4") == 0 ? 120 : 0;
    bytes -= strcmp(overrides[i], "memory.checkpoint={text: every-layer, \"*\": none}") == 0 ? 130 : 0;
  }
  *out = (hr_planned){.peak_bytes = {bytes}, .step_seconds = 1.0, .fits = bytes <= BUDGET};
  return HR_OK;
}

static bool was_asked(const world *w, const char *override) {
  for (int i = 0; i < w->n_asked; i++)
    if (strcmp(w->asked[i], override) == 0) return true;
  return false;
}

#define BASE TRIO, "model.parts.text.quantize=null"

static void test_suggested(void **state) {
  (void)state;
  const char *const sets[] = {BASE};
  world w = {sets, 2, {{0}}, 0};
  hr_recipe *recipe = recipe_open(sets, 2);
  static hr_change changes[HR_SUGGESTIONS];
  int count = 0, head = 0, text = 0;
  hr_error err = {0};
  assert_int_equal(hr__suggest(recipe, HR_TIER_DEVICE, plan_made_up, &w, changes, &count, &err), HR_OK);
  for (int i = 0; i < count; i++)
    for (int o = 0; o < changes[i].n_overrides; o++) {
      head += strcmp(changes[i].override[o], "model.parts.head.precision=bf16-mixed") == 0;
      text += strcmp(changes[i].override[o], "model.parts.text.quantize.kind=nf4") == 0;
      assert_true(changes[i].changes_results);
    }
  assert_int_equal(head, 1);
  assert_int_equal(text, 1);
  assert_true(was_asked(&w, "model.parts.side.precision=bf16-mixed"));
  assert_true(was_asked(&w, "model.precision=bf16-mixed"));
  for (int i = 0; i < w.n_asked; i++) /* fresh weights are no base */
    assert_null(strstr(w.asked[i], "head.adapters"));
  hr__recipe_destroy(recipe);
}

static bool listed(const hr_technique *list, int count, const char *name) {
  for (int i = 0; i < count; i++)
    if (strcmp(list[i].name, name) == 0) return true;
  return false;
}

static void test_compared(void **state) {
  (void)state;
  const char *const sets[] = {TRIO, "model.parts.head.precision=bf16-true",
                              "memory.checkpoint={text: every-layer, head: selective, side: none}"};
  world w = {sets, 3, {{0}}, 0};
  hr_recipe *recipe = recipe_open(sets, 3);
  static hr_technique list[HR_TECHNIQUES];
  int count;
  hr_error err = {0};
  assert_int_equal(hr__techniques(recipe, NULL, 1000, 1.0, plan_made_up, &w, list, &count, &err), HR_OK);
  static const char *const names[] = {"precision of head: bf16-true", "adapters of text", "quantize of text: nf4",
                                      "checkpoint of text: every-layer", "checkpoint of head: selective"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (!listed(list, count, names[i])) fail_msg("%s is not compared", names[i]);
  assert_int_equal(count, 5);
  static const char *const asked[] = {"model.parts.head.precision=32-true", "model.parts.text.adapters=null",
                                      "model.parts.text.quantize=null",
                                      "memory.checkpoint={text: none, head: selective, side: none}",
                                      "memory.checkpoint={text: every-layer, head: none, side: none}"};
  for (size_t i = 0; i < sizeof asked / sizeof *asked; i++)
    if (!was_asked(&w, asked[i])) fail_msg("%s was not planned", asked[i]);
  hr__recipe_destroy(recipe);
}

static void test_climbed(void **state) {
  (void)state;
  const char *const sets[] = {TRIO};
  world w = {sets, 1, {{0}}, 0};
  hr_recipe *recipe = recipe_open(sets, 1);
  hr_arena arena;
  hr_ladder ladder;
  hr_error err = {0};
  hr_search search = {.n_frontier = 0};
  hr_planned here = {.peak_bytes = {1000}, .step_seconds = 1.0, .fits = true};
  hr__arena_init(&arena);
  assert_int_equal(hr__ladder(recipe, &search, &here, plan_made_up, &w, &arena, &ladder, &err), HR_OK);
  assert_int_equal(ladder.cheaper.n_overrides, 1);
  assert_string_equal(ladder.cheaper.overrides[0], "memory.checkpoint={text: every-layer, \"*\": none}");
  assert_false(ladder.cheaper.changes_results);
  hr__arena_fini(&arena);
  hr__recipe_destroy(recipe);
}

static void test_open_precision(void **state) {
  (void)state;
  const char *const sets[] = {TRIO, "model.parts.head.precision=auto"};
  hr_recipe *recipe = recipe_open(sets, 2);
  hr_arena arena;
  const hr_knob *knobs;
  size_t count;
  hr_error err = {0};
  hr__arena_init(&arena);
  assert_true(hr__knobs_any(recipe));
  assert_int_equal(hr__knobs_find(recipe, false, &arena, &knobs, &count, &err), HR_OK);
  assert_int_equal(count, 1);
  assert_string_equal(knobs[0].path, "model.parts.head.precision");
  assert_int_equal(knobs[0].n_choices, 3);
  assert_true(knobs[0].by_hand && knobs[0].changes_results && !knobs[0].quality);
  /* --auto opens the whole's, which parts follow that say nothing */
  assert_int_equal(hr__knobs_find(recipe, true, &arena, &knobs, &count, &err), HR_OK);
  int whole = 0, parts = 0;
  for (size_t i = 0; i < count; i++) {
    whole += strcmp(knobs[i].path, "model.precision") == 0;
    parts += strstr(knobs[i].path, ".parts.") != NULL;
  }
  assert_int_equal(whole, 1);
  assert_int_equal(parts, 1);
  hr__arena_fini(&arena);
  hr__recipe_destroy(recipe);
}

static char *dump_text(const char *const *sets, size_t count, const hr_choices *choices) {
  hr_recipe *recipe = recipe_open(sets, count);
  hr_graph *graph;
  hr_error err = {0};
  char *text = NULL;
  size_t bytes;
  FILE *to = open_memstream(&text, &bytes);
  assert_non_null(to);
  if (hr__compile(recipe, choices, NULL, &graph, &err) != HR_OK) fail_msg("%s: %s", err.place, err.message);
  assert_int_equal(hr__graph_dump_text(graph, to, &err), HR_OK);
  fclose(to);
  hr__graph_destroy(graph);
  hr__recipe_destroy(recipe);
  return text;
}

/* What is chosen for a layer holds in every slice of its part, and says the same as the recipe's own words. */
static void test_chosen_in_slices(void **state) {
  (void)state;
  static const char split[] = "memory.split={text: 2}";
  static const struct {
    const char *word;
    hr_keep keep[4]; /* of two layers of text, one of side, one of head */
  } cases[] = {
      {"memory.checkpoint=none", {HR_KEEP_ALL, HR_KEEP_ALL, HR_KEEP_ALL, HR_KEEP_ALL}},
      {"memory.checkpoint=every-layer", {HR_KEEP_INPUT, HR_KEEP_INPUT, HR_KEEP_INPUT, HR_KEEP_INPUT}},
      {"memory.checkpoint={text.bert.encoder.layer.0: every-layer, head: selective}",
       {HR_KEEP_INPUT, HR_KEEP_ALL, HR_KEEP_ALL, HR_KEEP_SELECTIVE}},
      {"memory.checkpoint={layer.1: selective, side: every-layer}",
       {HR_KEEP_ALL, HR_KEEP_SELECTIVE, HR_KEEP_INPUT, HR_KEEP_ALL}},
  };
  char *before = NULL;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const char *const sets[] = {TRIO, split, cases[i].word}, *const open[] = {TRIO, split, "memory.checkpoint=auto"};
    char *said = dump_text(sets, 3, NULL);
    char *chosen = dump_text(open, 3, &(hr_choices){.keep = cases[i].keep, .n_keep = 4});
    assert_string_equal(said, chosen);
    if (before) assert_string_not_equal(before, said);
    free(before);
    free(chosen);
    before = said;
  }
  free(before);
}

/* With layers in slices `auto` finds what lies between all and nothing kept, and its plan fits. */
static void test_auto_in_slices(void **state) {
  (void)state;
  uint64_t bytes[2];
  static const char *const words[] = {"memory.checkpoint=none", "memory.checkpoint=every-layer"};
  const char *wide = "model.parts.text.config.num_hidden_layers=6", *split = "memory.split={text: 2}",
             *many = "training.batch_size=16", *tokens = "data.sequence_length=64";
  tiny t;
  hr_error err = {0};
  for (int i = 0; i < 2; i++) {
    const char *const sets[] = {TRIO, wide, split, many, tokens, words[i], NULL};
    if (tiny_open(&t, sets, &err) != HR_OK) fail_msg("%s: %s", err.place, err.message);
    bytes[i] = t.plan->tiers[HR_TIER_DEVICE].peak_bytes;
    tiny_close(&t);
  }
  assert_true(bytes[1] < bytes[0]);
  const char *const sets[] = {TRIO, wide, split, many, tokens, "memory.checkpoint=auto", NULL};
  if (tiny_open(&t, sets, &err) != HR_OK) fail_msg("%s: %s", err.place, err.message);
  double slowest = 0;
  for (int part = 0; part <= 4; part++) {
    hr_open open = {.recipe = t.recipe,
                    .facts = &t.device->facts,
                    .rates = &t.rates,
                    .accumulation = 1,
                    .host_bytes = 1 << 30,
                    .budget_bytes = bytes[1] + (bytes[0] - bytes[1]) * (uint64_t)part / 4};
    hr_chosen chosen;
    if (hr__choose(&open, &chosen, &err) != HR_OK) fail_msg("%s", err.message);
    assert_true(chosen.plan->tiers[HR_TIER_DEVICE].peak_bytes <= open.budget_bytes);
    assert_true(part == 0 || chosen.plan->step_seconds <= slowest);
    slowest = chosen.plan->step_seconds;
    if (part == 4)
      for (size_t i = 0; i < chosen.choices.n_keep; i++)
        assert_int_equal(chosen.choices.keep[i], HR_KEEP_ALL);
    hr__chosen_fini(&chosen);
  }
  tiny_close(&t);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_chosen_in_slices), cmocka_unit_test(test_auto_in_slices),
                                     cmocka_unit_test(test_suggested),        cmocka_unit_test(test_compared),
                                     cmocka_unit_test(test_climbed),          cmocka_unit_test(test_open_precision)};
  trio_register();
  return cmocka_run_group_tests(tests, NULL, NULL);
}
