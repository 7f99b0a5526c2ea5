/* The families of decoders: what distinguishes them in names, shapes, windows and defaults, and the published sizes. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/part_build.h"
#include "op/attention.h"
#include "op/rmsnorm.h"
#include "op/rope.h"

#define SMALL                                                                                                          \
  "hidden_size: 8, intermediate_size: 12, num_hidden_layers: 3, num_attention_heads: 2, num_key_value_heads: 1, "      \
  "vocab_size: 10"

static int setup(void **state) {
  *state = calloc(1, sizeof(hr_built));
  return *state ? 0 : -1;
}

static int teardown(void **state) {
  hr__built_free(*state);
  free(*state);
  return 0;
}

/* A model of this family with SMALL and further settings. */
static hr_status small(hr_built *built, const char *family, const char *more, int64_t length) {
  char text[512];
  hr__built_free(built);
  snprintf(text, sizeof text, "model: { family: %s, config: { %s%s } }\n", family, SMALL, more);
  HR_TRY(hr__built_recipe(built, "r.yaml", text, NULL, 0));
  return hr__built_graph(built, 2, length);
}

static void small_ok(hr_built *built, const char *family, const char *more, int64_t length) {
  if (small(built, family, more, length) != HR_OK)
    fail_msg("%s: %s (%s)", built->err.place, built->err.message, built->err.remedy);
}

static bool is_parameter(const hr_graph *g, size_t i) {
  return hr__graph_is_tensor(g, (hr_id)i) && g->buffers[g->values[i].buffer].role == HR_ROLE_PARAMETER;
}

static bool has(const hr_built *built, const char *name) {
  return hr__graph_find_value(built->graph, name) != HR_NONE;
}

static void count_is(const hr_built *built, const char *name, int64_t expected) {
  int64_t count = 0;
  for (size_t v = 0; v < built->graph->n_values; v++)
    if (is_parameter(built->graph, v)) count += hr_desc_count(&built->graph->values[v].desc);
  if (count != expected) print_error("%s\n", name);
  assert_int_equal(count, expected);
}

/* As the checkpoints' own files count them. */
static void published_sizes(void **state) {
  static const struct {
    const char *folder;
    int64_t count;
  } cases[] = {
      {"Llama-3.2-1B", 1235814400},
      {"TinyLlama-1.1B", 1100048384},
      {"Llama-3.1-8B", 8030261248},
      {"Llama-2-13B", 13015864320},
      {"Llama-3.1-70B", 70553706496},
      {"Mistral-7B-v0.1", 7241732096},
      {"Mistral-Nemo-12B", 12247782400},
      {"Mistral-Small-24B", 23572403200},
      {"Qwen2.5-0.5B", 494032768},
      {"Qwen2.5-1.5B", 1543714304},
      {"Qwen2.5-1.5B-Instruct", 1543714304},
      {"Qwen2.5-7B", 7615616512},
      {"Qwen2.5-72B", 72706203648},
      {"Qwen3-1.7B", 1720574976},
      {"Qwen3-8B", 8190735360},
      {"Qwen3-32B", 32762123264},
      {"gemma-3-270m", 268098176},
      {"gemma-3-1b-it", 999885952},
      {"gemma-3-4b-it", 3880263168}, /* of models that also see the text part */
      {"gemma-3-12b-it", 11766034176},
      {"gemma-3-27b-it", 27009346304},
  };
  hr_built *built = *state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char path[512];
    hr__built_free(built);
    snprintf(path, sizeof path, "%s/test/model/configs/%s", HR_SOURCE_DIR, cases[i].folder);
    hr_status status = hr__built_recipe(built, path, NULL, NULL, 0);
    if (status == HR_OK) status = hr__built_graph(built, 1, 16);
    if (status != HR_OK) fail_msg("%s: %s (%s)", built->err.place, built->err.message, built->err.remedy);
    count_is(built, cases[i].folder, cases[i].count);
  }
}

/* Further ones of the same families, by their sizes alone. */
static void published_shapes(void **state) {
  static const struct {
    const char *name, *family;
    int64_t hidden, inner, layers, heads, kv_heads, head_dim, vocab;
    bool tied;
    int64_t count;
  } cases[] = {
      {"Llama-2-7B", "llama", 4096, 11008, 32, 32, 32, 128, 32000, false, 6738415616},
      {"Llama-3.2-3B", "llama", 3072, 8192, 28, 24, 8, 128, 128256, true, 3212749824},
      {"CodeLlama-34B", "llama", 8192, 22016, 48, 64, 8, 128, 32000, false, 33743970304},
      {"Yi-1.5-6B", "llama", 4096, 11008, 32, 32, 4, 128, 64000, false, 6061035520},
      {"Yi-1.5-34B", "llama", 7168, 20480, 60, 56, 8, 128, 64000, false, 34388917248},
      {"deepseek-llm-7b", "llama", 4096, 11008, 30, 32, 32, 128, 102400, false, 6910365696},
      {"SmolLM2-135M", "llama", 576, 1536, 30, 9, 3, 64, 49152, true, 134515008},
      {"Mistral-7B-v0.3", "mistral", 4096, 14336, 32, 32, 8, 128, 32768, false, 7248023552},
      {"Ministral-8B", "mistral", 4096, 12288, 36, 32, 8, 128, 131072, false, 8019808256},
      {"Qwen1.5-110B", "qwen2", 8192, 49152, 80, 64, 8, 128, 152064, false, 111209914368},
      {"Qwen2-0.5B", "qwen2", 896, 4864, 24, 14, 2, 64, 151936, true, 494032768},
      {"Qwen2.5-14B", "qwen2", 5120, 13824, 48, 40, 8, 128, 152064, false, 14770033664},
      {"Qwen2.5-32B", "qwen2", 5120, 27648, 64, 40, 8, 128, 152064, false, 32763876352},
      {"Qwen3-0.6B", "qwen3", 1024, 3072, 28, 16, 8, 128, 151936, true, 596049920},
      {"Qwen3-4B", "qwen3", 2560, 9728, 36, 32, 8, 128, 151936, true, 4022468096},
      {"Qwen3-14B", "qwen3", 5120, 17408, 40, 40, 8, 128, 151936, false, 14768307200},
  };
  hr_built *built = *state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[512];
    hr__built_free(built);
    snprintf(text, sizeof text,
             "model: { family: %s, config: { hidden_size: %" PRId64 ", intermediate_size: %" PRId64
             ", num_hidden_layers: %" PRId64 ", num_attention_heads: %" PRId64 ", num_key_value_heads: %" PRId64
             ", head_dim: %" PRId64 ", vocab_size: %" PRId64 ", tie_word_embeddings: %s } }\n",
             cases[i].family, cases[i].hidden, cases[i].inner, cases[i].layers, cases[i].heads, cases[i].kv_heads,
             cases[i].head_dim, cases[i].vocab, cases[i].tied ? "true" : "false");
    hr_status status = hr__built_recipe(built, "r.yaml", text, NULL, 0);
    if (status == HR_OK) status = hr__built_graph(built, 1, 16);
    if (status != HR_OK) fail_msg("%s: %s (%s)", cases[i].name, built->err.message, built->err.remedy);
    count_is(built, cases[i].name, cases[i].count);
  }
}

static void biases(void **state) {
  static const char *const names[] = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
                                      "mlp.up_proj"};
  static const struct {
    const char *family, *more;
    bool biased[5];
  } cases[] = {
      {"llama", ", attention_bias: true", {true, true, true, true, false}},
      {"mistral", "", {false, false, false, false, false}},
      {"qwen2", "", {true, true, true, false, false}},
      {"qwen3", "", {false, false, false, false, false}},
      {"qwen3", ", attention_bias: true", {true, true, true, true, false}},
      {"gemma3", "", {false, false, false, false, false}},
  };
  hr_built *built = *state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    small_ok(built, cases[i].family, cases[i].more, 4);
    for (int k = 0; k < 5; k++) {
      char name[96];
      snprintf(name, sizeof name, "model.layers.2.%s.bias", names[k]);
      assert_int_equal(has(built, name), cases[i].biased[k]);
    }
  }
}

/* q and k apart, each with a norm as wide as a head. */
static void head_norms(void **state) {
  hr_built *built = *state;
  small_ok(built, "qwen3", ", head_dim: 6", 4);
  const hr_graph *g = built->graph;
  hr_id q = hr__graph_find_value(g, "model.layers.1.self_attn.q_norm.weight");
  hr_id k = hr__graph_find_value(g, "model.layers.1.self_attn.k_norm.weight");
  assert_true(q != HR_NONE && k != HR_NONE && q != k);
  assert_true(g->values[q].init.rule == (HR_INIT_ONE));
  int found = 0;
  for (size_t i = 0; i < g->n_nodes; i++) {
    const hr_node *node = &g->nodes[i];
    if (node->op != &hr_op_rmsnorm || (node->in[1] != q && node->in[1] != k)) continue;
    assert_int_equal(hr_desc_columns(&g->values[node->in[0]].desc), node->in[1] == q ? 12 : 6);
    assert_int_equal(g->values[node->in[1]].desc.dim[0], 6);
    found++;
  }
  assert_int_equal(found, 2);
  small_ok(built, "qwen2", "", 4);
  assert_false(has(built, "model.layers.1.self_attn.q_norm.weight"));
  assert_true(has(built, "model.layers.1.self_attn.q_proj+k_proj+v_proj.weight"));
}

/* Two bases of rotary positions: layers with a window turn by one, the others by the other, which may be stretched. */
static void local_positions(void **state) {
  hr_built *built = *state;
  small_ok(built, "gemma3",
           ", sliding_window: 5, sliding_window_pattern: 2, rope_theta: 5000.0, rope_local_base_freq: 77.0,"
           " rope_scaling: {rope_type: linear, factor: 8.0}, query_pre_attn_scalar: 25",
           16);
  const hr_graph *g = built->graph;
  double expected[] = {77, 77, 5000, 5000, 77, 77}; /* q and k of each layer */
  int turned = 0;
  for (size_t i = 0; i < g->n_nodes; i++) {
    const hr_node *node = &g->nodes[i];
    if (node->op == &hr_op_attention) assert_true(((const hr_attention_args *)node->args)->scale == 0.2f);
    if (node->op != &hr_op_rope) continue;
    const hr_rope_table_args *table = g->nodes[g->values[node->in[1]].producer].args;
    assert_true(turned < 6 && table->theta == expected[turned]);
    assert_true(table->scaled == (expected[turned] > 100));
    turned++;
  }
  assert_int_equal(turned, 6);
  assert_true(has(built, "model.layers.1.pre_feedforward_layernorm.weight"));
  hr_id norm = hr__graph_find_value(g, "model.layers.1.post_feedforward_layernorm.weight");
  assert_true(norm != HR_NONE && g->values[norm].init.rule == (HR_INIT_ZERO));
}

static void windows_are(const hr_built *built, const int64_t expected[3]) {
  const hr_graph *g = built->graph;
  int layer = 0;
  for (size_t i = 0; i < g->n_nodes; i++) {
    if (g->nodes[i].op != &hr_op_attention) continue;
    assert_int_equal(((const hr_attention_args *)g->nodes[i].args)->window, expected[layer++]);
  }
  assert_int_equal(layer, 3);
}

static void windows(void **state) {
  static const struct {
    const char *family, *more;
    int64_t window[3];
  } cases[] = {
      {"llama", "", {0, 0, 0}},
      {"mistral", ", sliding_window: 5", {5, 5, 5}},
      {"mistral", ", sliding_window: 16", {0, 0, 0}}, /* as long as the sample */
      {"mistral", ", sliding_window: null", {0, 0, 0}},
      {"mistral", "", {0, 0, 0}}, /* 4096 */
      {"qwen2", ", sliding_window: 5, max_window_layers: 1", {0, 0, 0}},
      {"qwen2", ", use_sliding_window: true, sliding_window: 5, max_window_layers: 1", {0, 5, 5}},
      {"qwen2", ", use_sliding_window: true, sliding_window: 5", {0, 0, 0}}, /* from layer 28 on */
      {"qwen3",
       ", use_sliding_window: true, sliding_window: 5, layer_types: [sliding_attention, full_attention, "
       "sliding_attention]",
       {5, 0, 5}},
      {"gemma3", ", sliding_window: 5", {5, 5, 5}}, /* the sixth layer would see all */
      {"gemma3", ", sliding_window: 5, sliding_window_pattern: 2", {5, 0, 5}},
      {"gemma3", ", sliding_window: 5, layer_types: [full_attention, full_attention, sliding_attention]", {0, 0, 5}},
  };
  hr_built *built = *state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    small_ok(built, cases[i].family, cases[i].more, 16);
    windows_are(built, cases[i].window);
  }
}

/* A file's null is not filled by the family's default; what the file leaves out is. */
static void defaults(void **state) {
  static const struct {
    const char *config;
    int64_t window, kv_heads;
  } cases[] = {
      {"{\"model_type\": \"mistral\", \"sliding_window\": null, \"num_key_value_heads\": null}", 0, 32},
      {"{\"model_type\": \"mistral\"}", 4096, 8},
      {"{\"model_type\": \"mistral\", \"sliding_window\": 77, \"num_key_value_heads\": 4}", 77, 4},
  };
  hr_built *built = *state;
  char folder[64];
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    hr__built_free(built);
    hr__folder_make(folder);
    hr__folder_put(folder, "config.json", cases[i].config);
    hr_status status = hr__built_recipe(built, folder, NULL, NULL, 0);
    hr__folder_remove(folder);
    assert_int_equal(status, HR_OK);
    json_t *config = built->part.model->config_json(&built->part);
    assert_int_equal(json_integer_value(json_object_get(config, "sliding_window")), cases[i].window);
    assert_int_equal(json_integer_value(json_object_get(config, "num_key_value_heads")), cases[i].kv_heads);
    assert_int_equal(json_integer_value(json_object_get(config, "intermediate_size")), 14336);
    json_decref(config);
  }
}

static void not_of_the_family(void **state) {
  static const struct {
    const char *family, *more, *key;
  } cases[] = {
      {"mistral", ", mlp_bias: true", "mlp_bias"},
      {"qwen2", ", attention_bias: true", "attention_bias"},
      {"llama", ", sliding_window: 4", "sliding_window"},
      {"mistral", ", use_sliding_window: true", "use_sliding_window"},
      {"llama", ", max_window_layers: 4", "max_window_layers"},
      {"mistral", ", layer_types: [full_attention]", "layer_types"},
      {"gemma3", ", use_sliding_window: true", "use_sliding_window"},
      {"qwen3", ", query_pre_attn_scalar: 64", "query_pre_attn_scalar"},
  };
  hr_built *built = *state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    assert_int_equal(small(built, cases[i].family, cases[i].more, 4), HR_BAD_INPUT);
    assert_non_null(strstr(built->err.message, cases[i].key));
    assert_non_null(strstr(built->err.message, cases[i].family));
    assert_non_null(strstr(built->err.place, "r.yaml:1:"));
  }
}

/* What a run writes is what it reads. */
static void config_json(void **state) {
  static const char *const cases[][2] = {
      {"mistral", ", sliding_window: 7"},
      {"mistral", ", sliding_window: null"},
      {"qwen2", ""},
      {"qwen2", ", use_sliding_window: true, sliding_window: 5, max_window_layers: 2"},
      {"qwen3", ", attention_bias: true, tie_word_embeddings: true, use_sliding_window: true, sliding_window: 5,"
                " layer_types: [full_attention, sliding_attention, full_attention]"},
      {"gemma3", ""},
      {"gemma3", ", sliding_window: 5, sliding_window_pattern: 2, query_pre_attn_scalar: 9, rope_local_base_freq: 77.0,"
                 " rope_theta: 5000.0, rope_scaling: {rope_type: linear, factor: 8.0}, tie_word_embeddings: false"},
  };
  hr_built *built = *state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char folder[64];
    small_ok(built, cases[i][0], cases[i][1], 16);
    json_t *before = built->part.model->config_json(&built->part);
    char *text = json_dumps(before, 0);
    assert_non_null(text);
    assert_non_null(strstr(text, cases[i][0]));
    hr__folder_make(folder);
    hr__folder_put(folder, "config.json", text);
    free(text);
    hr__built_free(built);
    hr_status status = hr__built_recipe(built, folder, NULL, NULL, 0);
    hr__folder_remove(folder);
    assert_int_equal(status, HR_OK);
    json_t *after = built->part.model->config_json(&built->part);
    assert_true(json_equal(before, after));
    json_decref(before);
    json_decref(after);
  }
}

int main(void) {
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
  const struct CMUnitTest tests[] = {
      CASE(published_sizes), CASE(published_shapes),  CASE(biases),
      CASE(head_norms),      CASE(windows),           CASE(defaults),
      CASE(config_json),     CASE(not_of_the_family), CASE(local_positions),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
