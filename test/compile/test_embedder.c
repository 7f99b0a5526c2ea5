/* The embedder: its size with encoders of MiniLM's shape, one copy of frozen weights for all channels, what is f32 in
 * every precision, and settings that contradict each other. */
#include <stdio.h>
#include <string.h>

#include "model/parts.h"
#include "op/copy.h"
#include "part_compiled.h"
#include "pass/adapters.h"

/* All four channels, each with this beside its path. */
#define ENCODER(name, more) "    " name ": { path: " HR_SOURCE_DIR "/recipes/minilm-l6" more " }\n"
#define LORA                ", adapters: { rank: 8, targets: [all-linear] }"

#define POOLER(name) "model.parts." name ".config.add_pooling_layer=true"

static const char recipe_text[] =
    "model:\n"
    "  family: embedder\n"
    "  parts:\n" ENCODER("title", LORA) ENCODER("description", LORA) ENCODER("excluded", LORA)
        ENCODER("examples",
                LORA) "data: { source: taxonomy, sequence_length: 32, taxonomy: { n_negatives: 3, title_length: 8 } }\n"
                      "training: { batch_size: 2 }\n";

enum {
  POOLER_ELEMENTS = 384 * 385,
  ENCODER_ELEMENTS = 22713216 - POOLER_ELEMENTS, /* MiniLM */
  ADAPTERS = 4 * 331776,                         /* 36 linears of each channel, rank 8 */
  EXPERTS = 4 * (1536 * 1024 + 1024 + 1024 * 1536 + 1536) + 1536 * 4 + 4,
  PROJECTIONS = 1536 * 384 + 384 + 384 * 385 + 385,
  TRAINED = 14664837,
  TRAINED_WITH_POOLERS = 14689413 /* as the system has them, with adapters on poolers that nothing reads */
};
_Static_assert(ADAPTERS + EXPERTS + PROJECTIONS == TRAINED, "as the system has them");

static int64_t elements(const hr_graph *g, bool trained) {
  int64_t count = 0;
  for (hr_id v = 0; v < g->n_values; v++)
    if (hr__graph_is_tensor(g, v) && g->buffers[g->values[v].buffer].role == HR_ROLE_PARAMETER &&
        g->values[v].trained == trained)
      count += hr_desc_count(&g->values[v].desc);
  return count;
}

static void test_sizes(void **state) {
  compiled *c = *state;
  expect_ok(c, COMPILE(c, NULL));
  assert_int_equal(elements(c->graph, true), TRAINED);
  assert_int_equal(elements(c->graph, false), ENCODER_ELEMENTS); /* once for all channels */
  expect_ok(c, COMPILE(c, NULL, POOLER("title"), POOLER("description"), POOLER("excluded"), POOLER("examples")));
  assert_int_equal(elements(c->graph, true), TRAINED_WITH_POOLERS);
  assert_int_equal(elements(c->graph, false), ENCODER_ELEMENTS + POOLER_ELEMENTS);
}

/* Parts that load one folder and train adapters alone read the weights of the first; others have their own. */
static void test_shared_weights(void **state) {
  static const struct {
    const char *set[2];
    int64_t copies;    /* that are frozen */
    size_t weights[5]; /* of each part */
  } cases[] = {
      {{"model.parts.description.adapters=null", "model.parts.description.train=none"}, 2, {0, 1, 2, 1, 1}},
      {{"model.parts.description.train=[query]"}, 2, {0, 1, 2, 1, 1}},
      {{"model.parts.title.quantize={kind: nf4}"}, 2, {0, 1, 2, 2, 2}},
      {{POOLER("excluded"), POOLER("examples")}, 2, {0, 1, 1, 3, 3}},
      {{"model.parts.description.precision=bf16-true", "model.parts.examples.precision=bf16-true"}, 2, {0, 1, 2, 1, 2}},
  };
  compiled *c = *state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    hr_model_parts parts;
    expect_ok(c, cases[i].set[1] ? COMPILE(c, "adapters", cases[i].set[0], cases[i].set[1])
                                 : COMPILE(c, "adapters", cases[i].set[0]));
    hr__parts_read(c->recipe, &parts);
    for (size_t p = 0; p < parts.count; p++)
      assert_int_equal(hr__parts_weights(&parts, p), cases[i].weights[p]);
    hr_id own = hr__graph_find_value(c->graph, "description.bert.embeddings.word_embeddings.weight");
    assert_int_equal(own != HR_NONE, cases[i].weights[2] == 2);
  }
}

/* What stands behind the encoders is f32; they are not. */
static void test_wide_modules(void **state) {
  compiled *c = *state;
  expect_ok(c, COMPILE(c, "precision", "model.precision=bf16-mixed"));
  int wide = 0, narrow = 0;
  for (size_t n = 0; n < c->graph->n_nodes; n++) {
    const hr_node *node = &c->graph->nodes[n];
    hr_dtype dtype = c->graph->values[node->out[0]].desc.dtype;
    bool is_wide = strncmp(node->module, "hyperbolic", 10) == 0 || strncmp(node->module, "losses", 6) == 0 ||
                   strncmp(node->module, "moe.", 4) == 0 || strncmp(node->module, "projection.", 11) == 0;
    if (node->op == &hr_op_copy) continue;
    if (is_wide && dtype != HR_I32) assert_int_equal(dtype, HR_F32);
    wide += is_wide;
    if (!strstr(node->module, ".intermediate.dense")) continue;
    assert_int_equal(dtype, HR_BF16);
    narrow++;
  }
  assert_true(wide > 20 && narrow > 0);
}

static void test_refused(void **state) {
  static const struct {
    const char *set, *message;
  } cases[] = {
      {"model.config.experts_per_code=5", "5 experts are chosen of 4"},
      {"model.parts.excluded.config.vocab_size=99", "a vocabulary of 99 tokens"},
      {"model.parts.text.family=bert", "text"},
      {"data.taxonomy.n_negatives=0", "n_negatives"},
      {"data.taxonomy.title_length=0", "title_length"},
  };
  compiled *c = *state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    assert_int_equal(COMPILE(c, NULL, cases[i].set), HR_BAD_INPUT);
    if (!strstr(c->err.message, cases[i].message)) fail_msg("%s: %s", cases[i].set, c->err.message);
  }
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, compiled_setup, compiled_teardown)
  const struct CMUnitTest tests[] = {
      TEST(test_sizes),
      TEST(test_shared_weights),
      TEST(test_wide_modules),
      TEST(test_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
