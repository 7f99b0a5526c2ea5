/* Generation by caches against the whole forward pass made again for every token, in every family of decoders; rows of
 * a batch against each alone; prompts read in pieces of any length. */
#include <string.h>

#include "part_speaker.h"

/* Chunks that prompts are longer and shorter than. */
#define SCAN "expand: 2, num_heads: 8, head_dim: 12, n_groups: 2, state_size: 10, chunk_size: 16"

static const speaker_kind kinds[] = {
    {"llama", "", "", NULL},
    {"llama", "tie_word_embeddings: true, attention_bias: true, mlp_bias: true", "", NULL},
    {"llama",
     "rope_scaling: {rope_type: llama3, factor: 4, low_freq_factor: 1, high_freq_factor: 4, "
     "original_max_position_embeddings: 64}",
     "", NULL},
    {"mistral", "sliding_window: 19", "", NULL},
    {"qwen2", "use_sliding_window: true, sliding_window: 24, max_window_layers: 1", "", NULL},
    {"qwen3", "", "", NULL},
    {"gemma3", "sliding_window: 19, sliding_window_pattern: 2, tie_word_embeddings: false", "", NULL},
    {"mamba2", "", "", SCAN},
    {"mamba2", "conv_kernel: 3, use_conv_bias: false, use_bias: true, tie_word_embeddings: true", "", SCAN},
};
enum { KINDS = sizeof kinds / sizeof *kinds, TOKENS = 128, PROMPT = 40, CONTEXT = PROMPT + TOKENS };

static void test_caches_give_what_the_whole_gives(void **state) {
  (void)state;
  for (int k = 0; k < KINDS; k++) {
    speaker cached, whole;
    int32_t ids[CONTEXT];
    speaker_open(&cached, &kinds[k], 1, CONTEXT, &HR_GREEDY);
    speaker_open_whole(&whole, &kinds[k], CONTEXT);
    speaker_prompt(ids, PROMPT, k);
    speaker_continue(&cached, ids, PROMPT, ids + PROMPT, TOKENS);
    int different = 0;
    for (int i = PROMPT; i < CONTEXT; i++) {
      if (speaker_next_by_whole(&whole, ids, i) != ids[i])
        fail_msg("%s (%s): token %d is another one", kinds[k].family, kinds[k].config, i - PROMPT);
      different += ids[i] != ids[i - 1];
    }
    if (different < 10) fail_msg("%s: the text is too plain to tell anything", kinds[k].family);
    speaker_close(&cached);
    speaker_close(&whole);
  }
}

/* However a prompt is cut, what follows is the same, in every precision. */
static void test_pieces(void **state) {
  (void)state;
  static const char *const precisions[] = {"  precision: 32-true", "  precision: bf16-true", "  precision: 16-mixed"};
  static const int64_t pieces[] = {1, 5, 32, 33, 300};
  enum { LONG = 300, AFTER = 20, FAMILIES = 2, TRIED = FAMILIES * sizeof precisions / sizeof *precisions };
  for (size_t tried = 0; tried < TRIED; tried++) {
    speaker s;
    int32_t prompt[LONG], first[AFTER], other[AFTER];
    size_t p = tried / FAMILIES;
    speaker_kind families[FAMILIES] = {{"mistral", "sliding_window: 150", precisions[p], NULL},
                                       {"mamba2", "", precisions[p], SCAN}};
    speaker_open(&s, &families[tried % FAMILIES], 1, LONG + AFTER, &HR_GREEDY);
    speaker_prompt(prompt, LONG, 1);
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
      hr_error err = {0};
      hr_fed row = {0};
      hr__generator_begin(s.generator, 0, 0, NULL, 0);
      for (int64_t at = 0; at < LONG; at += pieces[i]) {
        row = (hr_fed){.ids = prompt + at, .count = LONG - at < pieces[i] ? LONG - at : pieces[i]};
        assert_int_equal(hr__generator_feed(s.generator, &row, &err), HR_OK);
      }
      for (int t = 0; t < AFTER; t++) {
        (i == 0 ? first : other)[t] = row.next;
        int32_t next = row.next;
        row = (hr_fed){.ids = &next, .count = 1};
        assert_int_equal(hr__generator_feed(s.generator, &row, &err), HR_OK);
      }
      if (i > 0 && memcmp(first, other, sizeof first) != 0)
        fail_msg("%s, %s: pieces of %d give another text", families[tried % FAMILIES].family, precisions[p],
                 (int)pieces[i]);
    }
    speaker_close(&s);
  }
}

/* Rows begin and rest at different times, and each is as if it were alone. */
static void batch_equals_alone(const speaker_kind *kind) {
  enum { ROWS = 4, AFTER = 40 };
  static const int64_t lengths[ROWS] = {1, 70, 33, 8};
  speaker alone, batch;
  int32_t prompts[ROWS][128], want[ROWS][AFTER], got[ROWS][AFTER];
  hr_fed rows[ROWS] = {{0}};
  hr_error err = {0};
  speaker_open(&alone, kind, 1, 128, &HR_GREEDY);
  speaker_open(&batch, kind, ROWS, 128, &HR_GREEDY);
  for (int r = 0; r < ROWS; r++) {
    speaker_prompt(prompts[r], lengths[r], r);
    speaker_continue(&alone, prompts[r], lengths[r], want[r], AFTER);
    hr__generator_begin(batch.generator, r, 0, NULL, 0);
  }
  int done[ROWS] = {0};
  for (int step = 0; step < AFTER + ROWS; step++) {
    for (int r = 0; r < ROWS; r++) { /* row r begins r calls later */
      bool works = step >= r && done[r] < AFTER;
      rows[r] = (hr_fed){.ids = done[r] > 0 ? &got[r][done[r] - 1] : prompts[r],
                         .count = works ? (done[r] > 0 ? 1 : lengths[r]) : 0};
    }
    assert_int_equal(hr__generator_feed(batch.generator, rows, &err), HR_OK);
    for (int r = 0; r < ROWS; r++)
      if (rows[r].count > 0) got[r][done[r]++] = rows[r].next;
  }
  assert_memory_equal(got, want, sizeof want);
  speaker_close(&alone);
  speaker_close(&batch);
}

static void test_batch_equals_alone(void **state) {
  (void)state;
  batch_equals_alone(&kinds[3]);
  batch_equals_alone(&kinds[KINDS - 1]);
}

/* Goes on by `count` tokens from ids[0..n), of which the caches hold the first `kept`. */
static void kept_continue(speaker *s, const int32_t *ids, int64_t kept, int64_t n, int32_t *out, int64_t count) {
  hr_error err = {0};
  hr_fed row = {.ids = ids + kept, .count = n - kept};
  hr__generator_begin(s->generator, 0, 0, ids, kept);
  for (int64_t i = 0; i < count; i++) {
    assert_int_equal(hr__generator_feed(s->generator, &row, &err), HR_OK);
    out[i] = row.next;
    row = (hr_fed){.ids = &out[i], .count = 1};
  }
}

/* One that goes on from states may only go on, or begin anew. */
static void test_only_onward(void **state) {
  (void)state;
  enum { AFTER = 12 };
  speaker s;
  int32_t ids[64], want[AFTER], got[AFTER];
  speaker_open(&s, &kinds[KINDS - 1], 1, 64, &HR_GREEDY);
  speaker_prompt(ids, 40, 5);
  speaker_continue(&s, ids, 30, want, AFTER);
  speaker_continue(&s, ids, 20, got, 1); /* the states are those behind 20 tokens now */
  assert_int_equal(hr__generator_keeps(s.generator, 0, 19), 0);
  assert_int_equal(hr__generator_keeps(s.generator, 0, 20), 20);
  kept_continue(&s, ids, 20, 30, got, AFTER);
  assert_memory_equal(got, want, sizeof want);
  speaker_close(&s);
}

/* A sequence over caches of keys and values may be taken back to any of its positions. */
static void test_taking_back(void **state) {
  (void)state;
  enum { AFTER = 12 };
  speaker s;
  int32_t ids[64], want[AFTER], got[AFTER];
  speaker_open(&s, &kinds[0], 1, 64, &HR_GREEDY);
  speaker_prompt(ids, 40, 5);
  speaker_continue(&s, ids, 30, want, AFTER);
  speaker_continue(&s, ids, 40, got, AFTER); /* the caches hold another continuation now */
  assert_int_equal(hr__generator_keeps(s.generator, 0, 20), 20);
  kept_continue(&s, ids, 20, 30, got, AFTER);
  assert_memory_equal(got, want, sizeof want);
  speaker_close(&s);
}

static void test_context_ends(void **state) {
  (void)state;
  speaker s;
  int32_t ids[40];
  hr_error err = {0};
  speaker_open(&s, &kinds[0], 1, 33, &HR_GREEDY);
  speaker_prompt(ids, 40, 2);
  hr__generator_begin(s.generator, 0, 0, NULL, 0);
  hr_fed row = {.ids = ids, .count = 33};
  assert_int_equal(hr__generator_feed(s.generator, &row, &err), HR_OK); /* full */
  row.count = 1;
  assert_int_equal(hr__generator_feed(s.generator, &row, &err), HR_FAILURE);
  assert_non_null(strstr(err.message, "34"));
  speaker_close(&s);
}

/* The plan has the caches to the byte, and training nothing of them. */
static void test_caches_in_the_plan(void **state) {
  (void)state;
  speaker s;
  enum { BATCH = 3, LENGTH = 77, LAYERS = 3, WIDTH = 24 };
  speaker_open(&s, &(speaker_kind){"qwen3", "", "  precision: bf16-true", NULL}, BATCH, LENGTH, &HR_GREEDY);
  uint64_t bytes = 0, alignment = s.device->facts.alignment, one = BATCH * LENGTH * WIDTH * 2;
  for (size_t i = 0; i < s.graph->n_buffers; i++)
    if (s.graph->buffers[i].role == HR_ROLE_CACHE) bytes += s.graph->buffers[i].bytes;
  assert_int_equal(bytes, 2 * LAYERS * one);
  uint64_t slot = (one + alignment - 1) / alignment * alignment;
  assert_int_equal(s.plan->tiers[HR_TIER_DEVICE].categories[HR_CAT_CACHE], 2 * LAYERS * slot);
  speaker_close(&s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_caches_give_what_the_whole_gives),
      cmocka_unit_test(test_pieces),
      cmocka_unit_test(test_batch_equals_alone),
      cmocka_unit_test(test_taking_back),
      cmocka_unit_test(test_only_onward),
      cmocka_unit_test(test_context_ends),
      cmocka_unit_test(test_caches_in_the_plan),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
