/* Trunks: every branch is the graph that compiling the recipe with its choices gives, in whatever order they are made,
 * and a compacted one outlives the trunk. Choices that come to the same give the same branch. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "part_compiled.h"

static const char recipe_text[] =
    "model:\n"
    "  family: llama\n"
    "  config: { hidden_size: 256, num_hidden_layers: 3, num_attention_heads: 4, num_key_value_heads: 2,\n"
    "            intermediate_size: 512, vocab_size: 512 }\n"
    "data: { sequence_length: 64 }\n"
    "training: { batch_size: 2, gradient_accumulation: 2, clip_norm: 1.0 }\n"
    "memory: { checkpoint: auto, split: auto,\n"
    "          offload: { optimizer: auto, parameters: auto, gradients: auto, activations: auto } }\n";

enum { BLOCKS = 3, WAYS = 6 };
static const hr_keep keeps[WAYS][BLOCKS] = {
    {HR_KEEP_ALL, HR_KEEP_ALL, HR_KEEP_ALL},         {HR_KEEP_OFFLOADED, HR_KEEP_OFFLOADED, HR_KEEP_INPUT},
    {HR_KEEP_SELECTIVE, HR_KEEP_ALL, HR_KEEP_INPUT}, {HR_KEEP_INPUT, HR_KEEP_SELECTIVE, HR_KEEP_SELECTIVE},
    {HR_KEEP_INPUT, HR_KEEP_INPUT, HR_KEEP_INPUT},   {HR_KEEP_OFFLOADED, HR_KEEP_OFFLOADED, HR_KEEP_OFFLOADED},
};

/* Way w of keeping; in odd ones everything that may leave the device does. */
static hr_choices choices_of(int w, int64_t slices) {
  hr_choices choices = {.keep = keeps[w], .n_keep = BLOCKS, .slices = slices};
  for (int k = 0; k < HR_OFFLOAD_KINDS; k++) {
    choices.offload[k].resident_bytes = w % 2 ? 0 : UINT64_MAX;
    choices.offload[k].tier = w == 1 ? HR_TIER_HOST : HR_TIER_DISK;
  }
  return choices;
}

static char *text_of(const hr_graph *graph) {
  char *text = NULL;
  size_t bytes;
  FILE *to = open_memstream(&text, &bytes);
  assert_non_null(to);
  hr_error err;
  assert_int_equal(hr__graph_dump_text(graph, to, &err), HR_OK);
  fclose(to);
  return text;
}

static void expect_same(compiled *c, int w, int64_t slices, const hr_graph *branch) {
  hr_choices choices = choices_of(w, slices);
  hr_graph *whole;
  expect_ok(c, hr__compile(c->recipe, &choices, NULL, &whole, &c->err));
  char *expected = text_of(whole), *found = text_of(branch);
  assert_string_equal(found, expected);
  free(expected);
  free(found);
  hr__graph_destroy(whole);
}

static void branches_compare(compiled *c, int64_t slices) {
  hr_trunk *trunk;
  hr_graph *branches[WAYS], *first;
  expect_ok(c, hr__trunk_grow(c->recipe, slices, &trunk, &c->err));
  for (int w = 0; w < WAYS; w++) { /* all at once: none may touch what another reads */
    hr_choices choices = choices_of(w, slices);
    expect_ok(c, hr__trunk_branch(trunk, &choices, &first, &c->err)); /* the second lies on what the first has made */
    hr__graph_destroy(first);
    expect_ok(c, hr__trunk_branch(trunk, &choices, &branches[w], &c->err));
  }
  for (int w = 0; w < WAYS; w++)
    expect_same(c, w, slices, branches[w]);
  for (int w = 0; w < WAYS; w++)
    expect_ok(c, hr__graph_compact(branches[w], &c->err));
  hr__trunk_destroy(trunk);
  for (int w = 0; w < WAYS; w++) {
    expect_same(c, w, slices, branches[w]);
    hr__graph_destroy(branches[w]);
  }
}

static void test_branches_are_what_compiling_gives(void **state) {
  compiled *c = *state;
  expect_ok(c, COMPILE(c, NULL));
  branches_compare(c, 1);
}

static void test_branches_have_the_slices_of_the_trunk(void **state) {
  compiled *c = *state;
  expect_ok(c, COMPILE(c, NULL));
  branches_compare(c, 2);
}

static void test_branches_of_packed_weights(void **state) {
  compiled *c = *state;
  expect_ok(c, COMPILE(c, NULL, "model.adapters={kind: lora, rank: 4}", "model.quantize={kind: nf4}",
                       "training.optimizer.kind=adamw8bit"));
  assert_true(c->graph->n_packed > 0);
  branches_compare(c, 1);
}

/* Everything that the last passes read of choices, at random; much of it comes to the same. */
static hr_choices choices_draw(uint64_t number, const hr_keep *keep) {
  static const uint64_t bytes[] = {0, 300000, 2000000, 60000000, UINT64_MAX - 1, UINT64_MAX};
  const hr_random_key key = {11, 0x7472756e6b};
  hr_choices choices = {.keep = keep, .n_keep = BLOCKS, .slices = 1};
  for (int k = 0; k < HR_OFFLOAD_KINDS; k++) {
    uint64_t what = 10 * (uint64_t)k;
    bool persistent = k == HR_OFFLOAD_OPTIMIZER || k == HR_OFFLOAD_PARAMETERS; /* others are told apart by the byte */
    uint64_t drawn = hr__random_below(key, number, what, 6);
    choices.offload[k].resident_bytes = bytes[persistent ? drawn : drawn / 3 * 5];
    choices.offload[k].host_bytes = persistent ? bytes[hr__random_below(key, number, what + 1, 3)] : 0;
    choices.offload[k].tier = persistent && !hr__random_below(key, number, what + 2, 3) ? HR_TIER_DISK : HR_TIER_HOST;
  }
  choices.largest_stay = hr__random_below(key, number, 100, 2);
  choices.update_on_host = hr__random_below(key, number, 101, 2);
  choices.few_tiles = hr__random_below(key, number, 102, 2);
  return choices;
}

static void test_choices_that_come_to_the_same_give_the_same_branch(void **state) {
  enum { DRAWN = 120 };
  compiled *c = *state;
  hr_trunk *trunk;
  hr_arena arena;
  hr_offload_homes homes[DRAWN];
  char *texts[DRAWN];
  size_t same = 0;
  hr__arena_init(&arena);
  expect_ok(c, COMPILE(c, NULL, "model.adapters={kind: lora, rank: 4}"));
  expect_ok(c, hr__trunk_grow(c->recipe, 1, &trunk, &c->err));
  for (int i = 0; i < DRAWN; i++) {
    hr_graph *branch;
    hr_choices choices = choices_draw((uint64_t)i, keeps[0]);
    expect_ok(c, hr__trunk_homes(trunk, &choices, &arena, &homes[i], &c->err));
    expect_ok(c, hr__trunk_branch(trunk, &choices, &branch, &c->err));
    texts[i] = text_of(branch);
    hr__graph_destroy(branch);
    for (int k = 0; k < i; k++) {
      if (!hr__offload_homes_same(&homes[i], &homes[k])) continue;
      assert_string_equal(texts[i], texts[k]);
      same++;
    }
  }
  assert_true(same > DRAWN / 4);
  for (int i = 0; i < DRAWN; i++)
    free(texts[i]);
  hr__trunk_destroy(trunk);
  hr__arena_fini(&arena);
}

/* What fit/sketches takes for the same as well. */
static void test_offloaded_inputs_are_inputs_where_all_activations_are(void **state) {
  compiled *c = *state;
  hr_trunk *trunk;
  expect_ok(c, COMPILE(c, NULL));
  expect_ok(c, hr__trunk_grow(c->recipe, 1, &trunk, &c->err));
  for (int disk = 0; disk < 2; disk++) {
    char *texts[2];
    for (int offloaded = 0; offloaded < 2; offloaded++) {
      hr_graph *branch;
      hr_choices choices = choices_of(0, 1);
      choices.keep = keeps[offloaded ? 5 : 4];
      choices.offload[HR_OFFLOAD_ACTIVATIONS].resident_bytes = 0;
      choices.offload[HR_OFFLOAD_ACTIVATIONS].host_bytes = disk ? 300000 : 0;
      choices.offload[HR_OFFLOAD_ACTIVATIONS].tier = disk ? HR_TIER_DISK : HR_TIER_HOST;
      expect_ok(c, hr__trunk_branch(trunk, &choices, &branch, &c->err));
      texts[offloaded] = text_of(branch);
      hr__graph_destroy(branch);
    }
    assert_string_equal(texts[0], texts[1]);
    free(texts[0]);
    free(texts[1]);
  }
  hr__trunk_destroy(trunk);
}

static void test_a_recipe_that_contradicts_itself_has_no_trunk(void **state) {
  compiled *c = *state;
  assert_int_equal(COMPILE(c, NULL, "training.effective_batch=5"), HR_BAD_INPUT);
  hr_error err = c->err;
  hr_trunk *trunk;
  assert_int_equal(hr__trunk_grow(c->recipe, 1, &trunk, &c->err), HR_BAD_INPUT);
  assert_string_equal(c->err.message, err.message);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_branches_are_what_compiling_gives, compiled_setup, compiled_teardown),
      cmocka_unit_test_setup_teardown(test_branches_have_the_slices_of_the_trunk, compiled_setup, compiled_teardown),
      cmocka_unit_test_setup_teardown(test_branches_of_packed_weights, compiled_setup, compiled_teardown),
      cmocka_unit_test_setup_teardown(test_choices_that_come_to_the_same_give_the_same_branch, compiled_setup,
                                      compiled_teardown),
      cmocka_unit_test_setup_teardown(test_offloaded_inputs_are_inputs_where_all_activations_are, compiled_setup,
                                      compiled_teardown),
      cmocka_unit_test_setup_teardown(test_a_recipe_that_contradicts_itself_has_no_trunk, compiled_setup,
                                      compiled_teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
