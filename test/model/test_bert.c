/* The BERT family: published sizes, names, blocks, the dump of a small model, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/bert.h"
#include "model/part_build.h"
#include "op/attention.h"
#include "op/dropout.h"
#include "op/gelu.h"
#include "op/head_loss.h"
#include "op/layernorm.h"

#define SMALL                                                                                                          \
  "hidden_size: 8, intermediate_size: 12, num_hidden_layers: 2, num_attention_heads: 2, vocab_size: 10, "              \
  "max_position_embeddings: 6"

static int setup(void **state) {
  *state = calloc(1, sizeof(hr_built));
  return *state ? 0 : -1;
}

static int teardown(void **state) {
  hr__built_free(*state);
  free(*state);
  return 0;
}

static hr_status small(hr_built *built, const char *more) {
  char text[512];
  hr__built_free(built);
  snprintf(text, sizeof text, "model: { family: bert, config: { %s%s } }\ndata: { sequence_length: 4 }\n", SMALL, more);
  HR_TRY(hr__built_recipe(built, "r.yaml", text, NULL, 0));
  return hr__built_graph(built, 2, 4);
}

static void small_ok(hr_built *built, const char *more) {
  if (small(built, more) != HR_OK) fail_msg("%s: %s (%s)", built->err.place, built->err.message, built->err.remedy);
}

static bool is_parameter(const hr_graph *g, size_t i) {
  return hr__graph_is_tensor(g, (hr_id)i) && g->buffers[g->values[i].buffer].role == HR_ROLE_PARAMETER;
}

static int64_t parameters(const hr_graph *g) {
  int64_t count = 0;
  for (size_t i = 0; i < g->n_values; i++)
    if (is_parameter(g, i)) count += hr_desc_count(&g->values[i].desc);
  return count;
}

static size_t nodes_of(const hr_graph *g, const hr_op *op) {
  size_t count = 0;
  for (size_t i = 0; i < g->n_nodes; i++)
    count += g->nodes[i].op == op;
  return count;
}

static const hr_node *node_of(const hr_graph *g, const hr_op *op) {
  for (size_t i = 0; i < g->n_nodes; i++)
    if (g->nodes[i].op == op) return &g->nodes[i];
  fail_msg("no node of %s", op->name);
  return NULL;
}

/* As the checkpoints' own files count them, without pooler and next-sentence head. */
static void published_sizes(void **state) {
  static const struct {
    const char *folder;
    int64_t count;
  } cases[] = {{"bert-base-uncased", 109514298}, {"bert-large-uncased", 335174458}};
  hr_built *built = *state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char path[512];
    hr__built_free(built);
    snprintf(path, sizeof path, "%s/test/model/configs/%s", HR_SOURCE_DIR, cases[i].folder);
    hr_status status = hr__built_recipe(built, path, NULL, NULL, 0);
    if (status == HR_OK) status = hr__built_graph(built, 1, 16);
    if (status != HR_OK) fail_msg("%s: %s (%s)", built->err.place, built->err.message, built->err.remedy);
    assert_int_equal(parameters(built->graph), cases[i].count);
  }
  hr__built_free(built);
  assert_int_equal(hr__built_recipe(built, "r.yaml", "model: { family: bert }\n", NULL, 0), HR_OK);
  assert_int_equal(hr__built_graph(built, 1, 16), HR_OK);
  assert_int_equal(parameters(built->graph), cases[0].count);
}

static void names(void **state) {
  static const char *const outside[] = {"bert.embeddings.word_embeddings.weight",
                                        "bert.embeddings.position_embeddings.weight",
                                        "bert.embeddings.token_type_embeddings.weight",
                                        "bert.embeddings.LayerNorm.weight",
                                        "bert.embeddings.LayerNorm.bias",
                                        "cls.predictions.bias",
                                        "cls.predictions.transform.dense.weight",
                                        "cls.predictions.transform.dense.bias",
                                        "cls.predictions.transform.LayerNorm.weight",
                                        "cls.predictions.transform.LayerNorm.bias"};
  static const char *const inside[] = {"attention.self.query",   "attention.self.key",        "attention.self.value",
                                       "attention.output.dense", "intermediate.dense",        "output.dense",
                                       "output.LayerNorm",       "attention.output.LayerNorm"};
  enum { OUTSIDE = sizeof outside / sizeof *outside, INSIDE = sizeof inside / sizeof *inside };
  hr_built *built = *state;
  small_ok(built, "");
  const hr_graph *g = built->graph;
  size_t count = 0;
  for (size_t i = 0; i < g->n_values; i++)
    count += is_parameter(g, i);
  assert_int_equal(count, OUTSIDE + 2 * 2 * INSIDE);
  for (int i = 0; i < OUTSIDE; i++)
    if (hr__graph_find_value(g, outside[i]) == HR_NONE) fail_msg("no %s", outside[i]);
  for (int i = 0; i < 2 * 2 * INSIDE; i++) {
    char name[128];
    snprintf(name, sizeof name, "bert.encoder.layer.%d.%s.%s", i / (2 * INSIDE), inside[i / 2 % INSIDE],
             i % 2 ? "weight" : "bias");
    if (hr__graph_find_value(g, name) == HR_NONE) fail_msg("no %s", name);
  }
}

static void parts(void **state) {
  hr_built *built = *state;
  small_ok(built, ", hidden_dropout_prob: 0, attention_probs_dropout_prob: 0, layer_norm_eps: 0.25");
  const hr_graph *g = built->graph;
  const hr_attention_args *attention = node_of(g, &hr_op_attention)->args;
  assert_true(attention->bidirectional && attention->window == 0 && attention->heads == 2 && attention->head_dim == 4);
  const hr_layernorm_args *norm = node_of(g, &hr_op_layernorm)->args;
  assert_true(norm->eps == 0.25f);
  assert_int_equal(nodes_of(g, &hr_op_layernorm), 1 + 2 * 2 + 1);
  assert_int_equal(nodes_of(g, &hr_op_dropout), 0);
  assert_true(attention->dropout == 0.0f);
  assert_false(((const hr_gelu_args *)node_of(g, &hr_op_gelu)->args)->tanh);
  const hr_node *head = node_of(g, &hr_op_head_loss);
  assert_string_equal(g->values[head->in[1]].name, "bert.embeddings.word_embeddings.weight");
  assert_string_equal(g->values[head->in[4]].name, "cls.predictions.bias");
  static const char *const by_tanh[] = {", hidden_act: gelu_new", ", hidden_act: gelu_pytorch_tanh"};
  for (int i = 0; i < 2; i++) {
    small_ok(built, by_tanh[i]);
    assert_true(((const hr_gelu_args *)node_of(built->graph, &hr_op_gelu)->args)->tanh);
  }
  small_ok(built, ""); /* the embeddings' result and the two halves of each layer */
  assert_int_equal(nodes_of(built->graph, &hr_op_dropout), 1 + 2 * 2);
  assert_true(((const hr_dropout_args *)node_of(built->graph, &hr_op_dropout)->args)->p == 0.1f);
  assert_true(((const hr_attention_args *)node_of(built->graph, &hr_op_attention)->args)->dropout == 0.1f);
}

static void blocks(void **state) {
  static const char *const names_of[] = {"bert.encoder.layer.0",           "bert.encoder.layer.0.attention",
                                         "bert.encoder.layer.0.mlp",       "bert.encoder.layer.1",
                                         "bert.encoder.layer.1.attention", "bert.encoder.layer.1.mlp"};
  hr_built *built = *state;
  small_ok(built, "");
  const hr_graph *g = built->graph;
  assert_int_equal(g->n_blocks, 6);
  for (hr_id k = 0; k < 6; k++) {
    assert_string_equal(g->blocks[k].name, names_of[k]);
    assert_int_equal(g->blocks[k].parent, k % 3 == 0 ? HR_NONE : k / 3 * 3);
  }
  for (size_t i = 0; i < g->n_nodes; i++)
    if (g->nodes[i].block != HR_NONE) assert_int_not_equal(g->nodes[i].block % 3, 0); /* a layer is its two halves */
}

static void refused(void **state) {
  static const struct {
    const char *more, *message;
  } cases[] = {
      {", hidden_act: silu", "hidden_act silu"},
      {", position_embedding_type: relative_key", "position_embedding_type \"relative_key\""},
      {", is_decoder: true", "is_decoder"},
      {", tie_word_embeddings: false", "tie_word_embeddings"},
      {", num_attention_heads: 5", "not a multiple of num_attention_heads"},
      {", max_position_embeddings: 3", "longer than the model is made for"},
      {", intermediate_size: 16777216, num_hidden_layers: 1024, hidden_size: 16777200", "parameters"},
      {", type_vocab_size: 0", "type_vocab_size"},
      {", type_vocab_size: null", "type_vocab_size has no value"},
      {", position_embedding_type: null", "position_embedding_type has no value"},
      {", num_key_value_heads: 1", "family bert have no model.config.num_key_value_heads"},
      {", rope_parameters: { rope_theta: 3 }", "family bert have no model.config.rope_parameters"},
  };
  hr_built *built = *state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[512];
    hr__built_free(built);
    snprintf(text, sizeof text, "model: { family: bert, config: { vocab_size: 10%s } }\ndata: { sequence_length: 4 }\n",
             cases[i].more);
    assert_int_equal(hr__built_recipe(built, "r.yaml", text, NULL, 0), HR_BAD_INPUT);
    if (!strstr(built->err.message, cases[i].message))
      fail_msg("\"%s\" does not say \"%s\"", built->err.message, cases[i].message);
    assert_non_null(strstr(built->err.place, "r.yaml:"));
    assert_true(built->err.remedy[0] != '\0');
  }
}

static void other_names(void **state) {
  (void)state;
  char name[HR_TENSOR_NAME];
  assert_string_equal(hr__bert_other_name("bert.a.LayerNorm.weight", 0, name), "bert.a.LayerNorm.gamma");
  assert_null(hr__bert_other_name("bert.a.LayerNorm.weight", 1, name));
  assert_string_equal(hr__bert_other_name("a.LayerNorm.bias", 0, name), "a.LayerNorm.beta");
  assert_null(hr__bert_other_name("a.LayerNorm.bias", 1, name));
  assert_null(hr__bert_other_name("model.norm.weight", 0, name));
  const hr_model_part whole = {.name = "", .model = &hr_model_bert}, text = {.name = "text", .model = &hr_model_bert};
  static const struct {
    const char *tensor;
    hr_unused whole, part;
  } cases[] = {
      {"bert.embeddings.position_ids", HR_UNUSED_AGAIN, HR_UNUSED_AGAIN},
      {"cls.predictions.decoder.weight", HR_UNUSED_AGAIN, HR_UNUSED_AGAIN},
      {"bert.encoder.layer.3.output.LayerNorm.gamma", HR_UNUSED_AGAIN, HR_UNUSED_AGAIN},
      {"bert.pooler.dense.weight", HR_UNUSED_KEPT, HR_UNUSED_KEPT},
      {"pooler.dense.bias", HR_UNUSED_KEPT, HR_UNUSED_KEPT},
      {"cls.seq_relationship.bias", HR_UNUSED_KEPT, HR_UNUSED_KEPT},
      {"cls.predictions.bias", HR_UNUSED_WRONG, HR_UNUSED_KEPT},
      {"cls.predictions.transform.LayerNorm.gamma", HR_UNUSED_AGAIN, HR_UNUSED_KEPT},
      {"bert.encoder.layer.3.output.LayerNorm.weight", HR_UNUSED_WRONG, HR_UNUSED_WRONG},
      {"classifier.weight", HR_UNUSED_WRONG, HR_UNUSED_WRONG},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    assert_int_equal(hr__bert_unused(&whole, cases[i].tensor), cases[i].whole);
    assert_int_equal(hr__bert_unused(&text, cases[i].tensor), cases[i].part);
  }
}

static void config_write(const hr_built *built, char out[2048]) {
  json_t *config = built->part.model->config_json(&built->part);
  assert_non_null(config);
  size_t bytes = json_dumpb(config, out, 2047, JSON_SORT_KEYS);
  json_decref(config);
  assert_in_range(bytes, 1, 2047);
  out[bytes] = '\0';
}

/* What is written is what is read. */
static void config_json(void **state) {
  hr_built *built = *state;
  char folder[64], before[2048], after[2048];
  small_ok(built, ", hidden_act: gelu_new, layer_norm_eps: 1e-5, hidden_dropout_prob: 0.25,"
                  " attention_probs_dropout_prob: 0.5, type_vocab_size: 1");
  config_write(built, before);
  static const char *const expected[] = {"\"architectures\": [\"BertForMaskedLM\"]",
                                         "\"model_type\": \"bert\"",
                                         "\"hidden_act\": \"gelu_new\"",
                                         "\"hidden_dropout_prob\": 0.25",
                                         "\"attention_probs_dropout_prob\": 0.5",
                                         "\"tie_word_embeddings\": true",
                                         "\"max_position_embeddings\": 6"};
  for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
    if (!strstr(before, expected[i])) fail_msg("no %s in %s", expected[i], before);
  hr__folder_make(folder);
  hr__folder_put(folder, "config.json", before);
  hr__built_free(built);
  hr_status status = hr__built_recipe(built, folder, NULL, (const char *[]){"data.sequence_length=4"}, 1);
  hr__folder_remove(folder);
  if (status != HR_OK) fail_msg("%s: %s", built->err.place, built->err.message);
  config_write(built, after);
  assert_string_equal(before, after);
}

/* Nothing is dropped where the model is only evaluated. */
static void evaluation(void **state) {
  hr_built *built = *state;
  small_ok(built, "");
  hr_graph *g;
  hr_builder b;
  assert_int_equal(hr__graph_create(&g, &built->err), HR_OK);
  hr__builder_init(&b, g, HR_F32);
  hr__program_begin(&b, HR_PROGRAM_EVAL);
  hr_desc desc = hr__desc2(HR_I32, 2, 4);
  hr_model_batch batch = {.batch = 2, .length = 4, .starts = HR_NONE};
  batch.tokens = hr__input(&b, "tokens", desc);
  batch.targets = hr__input(&b, "targets", desc);
  batch.lengths = hr__input(&b, "lengths", hr__desc1(HR_I32, 2));
  built->part.model->forward(&b, &built->part, &batch);
  assert_int_equal(hr__builder_status(&b, &built->err), HR_OK);
  assert_int_equal(nodes_of(g, &hr_op_dropout), 0);
  assert_int_equal(node_of(g, &hr_op_attention)->in[3], batch.lengths);
  assert_int_equal(node_of(g, &hr_op_attention)->in[4], HR_NONE); /* nor inside of attention */
  hr__graph_destroy(g);
}

int main(void) {
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
  const struct CMUnitTest tests[] = {CASE(published_sizes), CASE(names),       CASE(parts),       CASE(blocks),
                                     CASE(refused),         CASE(other_names), CASE(config_json), CASE(evaluation)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
