/* The Llama family: counts, names, blocks, starts and the dump of a small model. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/part_build.h"
#include "op/head_loss.h"
#include "op/rope.h"

#define TINY                                                                                                           \
  "model:\n  family: llama\n  config: { hidden_size: 8, intermediate_size: 12, num_hidden_layers: 2,"                  \
  " num_attention_heads: 2, num_key_value_heads: 1, vocab_size: 10, "

static int setup(void **state) {
  *state = calloc(1, sizeof(hr_built));
  return *state ? 0 : -1;
}

static int teardown(void **state) {
  hr__built_free(*state);
  free(*state);
  return 0;
}

static void build(hr_built *built, const char *text, int64_t batch, int64_t length) {
  hr__built_free(built);
  hr_status status = hr__built_recipe(built, "r.yaml", text, NULL, 0);
  if (status == HR_OK) status = hr__built_graph(built, batch, length);
  if (status != HR_OK) fail_msg("%s: %s (%s)", built->err.place, built->err.message, built->err.remedy);
}

static bool is_parameter(const hr_graph *g, size_t i) {
  return hr__graph_is_tensor(g, (hr_id)i) && g->buffers[g->values[i].buffer].role == HR_ROLE_PARAMETER;
}

static int64_t parameters(const hr_graph *g) {
  int64_t count = 0;
  for (size_t i = 0; i < g->n_values; i++) {
    if (is_parameter(g, i)) count += hr_desc_count(&g->values[i].desc);
  }
  return count;
}

static void counts(void **state) {
  static const struct {
    const char *config;
    int64_t count;
  } cases[] = {
      /* Llama-3.2-1B, 3.2-3B, 3.1-8B, 2-7B: as published */
      {"hidden_size: 2048, num_hidden_layers: 16, num_attention_heads: 32, num_key_value_heads: 8, head_dim: 64, "
       "intermediate_size: 8192, vocab_size: 128256, tie_word_embeddings: true",
       INT64_C(1235814400)},
      {"hidden_size: 3072, num_hidden_layers: 28, num_attention_heads: 24, num_key_value_heads: 8, head_dim: 128, "
       "intermediate_size: 8192, vocab_size: 128256, tie_word_embeddings: true",
       INT64_C(3212749824)},
      {"hidden_size: 4096, num_hidden_layers: 32, num_attention_heads: 32, num_key_value_heads: 8, "
       "intermediate_size: 14336, vocab_size: 128256",
       INT64_C(8030261248)},
      {"hidden_size: 4096", INT64_C(6738415616)},
      /* by hand: embedding 80, norm 8; layer: q 64, k 32, v 32, o 64, mlp 3 x 96, norms 16 = 496 */
      {"hidden_size: 8, intermediate_size: 12, num_hidden_layers: 1, num_attention_heads: 2, num_key_value_heads: 1, "
       "vocab_size: 10, tie_word_embeddings: true",
       80 + 8 + 496},
      {"hidden_size: 8, intermediate_size: 12, num_hidden_layers: 3, num_attention_heads: 2, num_key_value_heads: 1, "
       "vocab_size: 10",
       80 + 8 + 80 + 3 * 496},
      {"hidden_size: 8, intermediate_size: 12, num_hidden_layers: 1, num_attention_heads: 2, num_key_value_heads: 1, "
       "vocab_size: 10, attention_bias: true, mlp_bias: true",
       80 + 8 + 80 + 496 + (8 + 4 + 4 + 8) + (12 + 12 + 8)},
      /* heads wider than hidden / heads */
      {"hidden_size: 8, intermediate_size: 12, num_hidden_layers: 1, num_attention_heads: 2, head_dim: 6, vocab_size: "
       "10",
       80 + 8 + 80 + 4 * 96 + 3 * 96 + 16},
  };
  hr_built *built = *state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[512];
    snprintf(text, sizeof text, "model: { family: llama, config: { %s } }\n", cases[i].config);
    build(built, text, 1, 16);
    assert_int_equal(parameters(built->graph), cases[i].count);
  }
}

static void names(void **state) {
  static const char *const expected[] = {
      "model.embed_tokens.weight",
      "model.layers.0.input_layernorm.weight",
      "model.layers.0.self_attn.q_proj.weight",
      "model.layers.0.self_attn.k_proj.weight",
      "model.layers.0.self_attn.v_proj.weight",
      "model.layers.0.self_attn.o_proj.weight",
      "model.layers.0.post_attention_layernorm.weight",
      "model.layers.0.mlp.gate_proj.weight",
      "model.layers.0.mlp.up_proj.weight",
      "model.layers.0.mlp.down_proj.weight",
      "model.layers.1.input_layernorm.weight",
      "model.layers.1.self_attn.q_proj.weight",
      "model.layers.1.self_attn.k_proj.weight",
      "model.layers.1.self_attn.v_proj.weight",
      "model.layers.1.self_attn.o_proj.weight",
      "model.layers.1.post_attention_layernorm.weight",
      "model.layers.1.mlp.gate_proj.weight",
      "model.layers.1.mlp.up_proj.weight",
      "model.layers.1.mlp.down_proj.weight",
      "model.norm.weight",
      "lm_head.weight",
  };
  enum { EXPECTED = sizeof expected / sizeof *expected };
  hr_built *built = *state;
  for (int tied = 0; tied < 2; tied++) {
    build(built, tied ? TINY "tie_word_embeddings: true }" : TINY "tie_word_embeddings: false }", 1, 4);
    size_t count = 0;
    for (size_t i = 0; i < built->graph->n_values; i++)
      count += is_parameter(built->graph, i);
    assert_int_equal(count, EXPECTED - tied);
    for (int i = 0; i < EXPECTED - tied; i++) {
      assert_int_not_equal(hr__graph_find_value(built->graph, expected[i]), HR_NONE);
    }
  }
}

static void biases(void **state) {
  static const char *const expected[] = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
                                         "mlp.gate_proj",    "mlp.up_proj",      "mlp.down_proj"};
  hr_built *built = *state;
  build(built, TINY "attention_bias: true, mlp_bias: true }", 1, 4);
  for (int i = 0; i < 14; i++) {
    char name[96];
    snprintf(name, sizeof name, "model.layers.%d.%s.bias", i / 7, expected[i % 7]);
    hr_id id = hr__graph_find_value(built->graph, name);
    assert_int_not_equal(id, HR_NONE);
    assert_true(built->graph->values[id].init.rule == (HR_INIT_ZERO));
  }
  build(built, TINY "attention_bias: true }", 1, 4);
  assert_int_equal(hr__graph_find_value(built->graph, "model.layers.0.mlp.up_proj.bias"), HR_NONE);
  assert_int_not_equal(hr__graph_find_value(built->graph, "model.layers.0.self_attn.o_proj.bias"), HR_NONE);
}

static void starts(void **state) {
  hr_built *built = *state;
  build(built, TINY "initializer_range: 0.5 }", 1, 4);
  const hr_graph *g = built->graph;
  for (size_t i = 0; i < g->n_values; i++) {
    if (!is_parameter(g, i)) continue;
    const hr_value *v = &g->values[i];
    assert_true(v->trained);
    assert_true(v->init.rule == (strstr(v->name, "norm") ? HR_INIT_ONE : HR_INIT_NORMAL));
    if (v->init.rule == HR_INIT_NORMAL) assert_true(v->init.a == 0.5f);
  }
}

/* The values whose absence the memory plan lives from: scores of attention and logits of all rows. */
static void nothing_square(void **state) {
  enum { T = 37, V = 101 };
  hr_built *built = *state;
  build(built,
        "model: { family: llama, config: { hidden_size: 8, intermediate_size: 12, num_hidden_layers: 2, "
        "num_attention_heads: 2, vocab_size: 101 } }",
        2, T);
  const hr_graph *g = built->graph;
  for (size_t i = 0; i < g->n_values; i++) {
    const hr_desc *d = &g->values[i].desc;
    if (is_parameter(g, i)) continue;
    int lengths = 0;
    for (int k = 0; k < d->rank; k++) {
      lengths += d->dim[k] == T;
      assert_int_not_equal(d->dim[k], V);
    }
    assert_true(lengths <= 1);
  }
}

static void blocks(void **state) {
  hr_built *built = *state;
  build(built, TINY "}", 1, 4);
  const hr_graph *g = built->graph;
  static const char *const names[] = {"model.layers.0", "model.layers.0.self_attn", "model.layers.0.mlp",
                                      "model.layers.1", "model.layers.1.self_attn", "model.layers.1.mlp"};
  assert_int_equal(g->n_blocks, 6);
  for (hr_id k = 0; k < 6; k++) {
    assert_string_equal(g->blocks[k].name, names[k]);
    assert_int_equal(g->blocks[k].parent, k % 3 == 0 ? HR_NONE : k / 3 * 3);
  }
  size_t inside[6] = {0}, outside = 0;
  for (size_t i = 0; i < g->n_nodes; i++) {
    if (g->nodes[i].block == HR_NONE) {
      outside++;
    } else {
      inside[g->nodes[i].block]++;
      assert_non_null(strstr(g->nodes[i].module, g->blocks[g->nodes[i].block / 3 * 3].name));
    }
  }
  assert_int_equal(inside[0] + inside[3], 0); /* a layer is its two halves */
  assert_int_equal(inside[1], inside[4]);
  assert_int_equal(inside[2], inside[5]);
  assert_int_equal(outside, 4); /* embedding, rotary table, last norm, head */
}

static const hr_node *node_of(const hr_graph *g, const hr_op *op) {
  for (size_t i = 0; i < g->n_nodes; i++) {
    if (g->nodes[i].op == op) return &g->nodes[i];
  }
  return NULL;
}

static void tied_head(void **state) {
  hr_built *built = *state;
  build(built, TINY "tie_word_embeddings: true }", 1, 4);
  const hr_node *head = node_of(built->graph, &hr_op_head_loss);
  assert_string_equal(built->graph->values[head->in[1]].name, "model.embed_tokens.weight");
  build(built, TINY "}", 1, 4);
  head = node_of(built->graph, &hr_op_head_loss);
  assert_string_equal(built->graph->values[head->in[1]].name, "lm_head.weight");
}

#define STRETCH                                                                                                        \
  "rope_type: llama3, factor: 32, low_freq_factor: 1, high_freq_factor: 4, original_max_position_embeddings: 64"

static void rotary(void **state) {
  hr_built *built = *state;
  build(built, TINY "}", 1, 4);
  const hr_rope_table_args *args = node_of(built->graph, &hr_op_rope_table)->args;
  assert_true(args->theta == 10000.0 && !args->scaled && args->length == 4 && args->head_dim == 4);
  static const char *const both[] = {TINY "rope_theta: 500000, rope_scaling: { " STRETCH " } }",
                                     TINY "rope_parameters: { rope_theta: 500000, " STRETCH " } }"};
  for (int i = 0; i < 2; i++) {
    build(built, both[i], 1, 4);
    args = node_of(built->graph, &hr_op_rope_table)->args;
    assert_true(args->theta == 500000.0 && args->scaled && args->factor == 32 && args->low == 1 && args->high == 4);
    assert_int_equal(args->original_length, 64);
  }
  build(built, TINY "rope_parameters: { rope_type: default, rope_theta: 7 } }", 1, 4);
  args = node_of(built->graph, &hr_op_rope_table)->args;
  assert_true(args->theta == 7 && !args->scaled);
}

static void overflow(void **state) {
  hr_built *built = *state;
  assert_int_equal(hr__built_recipe(built, "r.yaml", TINY "}", NULL, 0), HR_OK);
  assert_int_equal(hr__built_graph(built, INT64_C(1) << 40, INT64_C(1) << 30), HR_BAD_INPUT);
}

static void config_json(void **state) {
  hr_built *built = *state;
  char folder[64], before[4096], after[4096];
  hr__folder_make(folder);
  build(built,
        TINY "rms_norm_eps: 1e-5, tie_word_embeddings: true, attention_bias: true, rope_theta: 500000,"
             " rope_scaling: { " STRETCH " } }\n  precision: bf16-true\n",
        1, 4);
  json_t *config = built->part.model->config_json(&built->part);
  assert_non_null(config);
  size_t bytes = json_dumpb(config, before, sizeof before - 1, JSON_SORT_KEYS);
  json_decref(config);
  before[bytes < sizeof before ? bytes : 0] = '\0';
  static const char *const parts[] = {"\"architectures\": [\"LlamaForCausalLM\"]",
                                      "\"model_type\": \"llama\"",
                                      "\"torch_dtype\": \"bfloat16\"",
                                      "\"num_key_value_heads\": 1",
                                      "\"head_dim\": 4",
                                      "\"tie_word_embeddings\": true",
                                      "\"attention_bias\": true",
                                      "\"mlp_bias\": false",
                                      "\"rope_theta\": 500000.0",
                                      "\"rope_type\": \"llama3\"",
                                      "\"factor\": 32.0",
                                      "\"original_max_position_embeddings\": 64",
                                      "\"hidden_act\": \"silu\"",
                                      "\"vocab_size\": 10"};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
    assert_non_null(strstr(before, parts[i]));

  /* what is written is what is read */
  hr__folder_put(folder, "config.json", before);
  hr__built_free(built);
  const char *set = "model.precision=bf16-true";
  hr_status status = hr__built_recipe(built, folder, NULL, &set, 1);
  hr__folder_remove(folder);
  assert_int_equal(status, HR_OK);
  config = built->part.model->config_json(&built->part);
  bytes = json_dumpb(config, after, sizeof after - 1, JSON_SORT_KEYS);
  json_decref(config);
  after[bytes < sizeof after ? bytes : 0] = '\0';
  assert_string_equal(before, after);
}

/* HR_GOLDEN=update writes the file anew. */
static void dump(void **state) {
  hr_built *built = *state;
  build(built, TINY "mlp_bias: true, tie_word_embeddings: true }\n", 2, 4);
  char *text = NULL;
  size_t bytes = 0;
  FILE *memory = open_memstream(&text, &bytes);
  assert_non_null(memory);
  assert_int_equal(hr__graph_dump_text(built->graph, memory, &built->err), HR_OK);
  fclose(memory);
  static const char path[] = HR_SOURCE_DIR "/test/model/golden/llama.txt";
  const char *mode = getenv("HR_GOLDEN");
  bool update = mode && strcmp(mode, "update") == 0;
  FILE *file = fopen(path, update ? "w" : "r");
  assert_non_null(file);
  char *golden = calloc(1, bytes + 2);
  assert_non_null(golden);
  if (update) {
    fwrite(text, 1, bytes, file);
    memcpy(golden, text, bytes);
  } else {
    golden[fread(golden, 1, bytes + 1, file)] = '\0';
  }
  fclose(file);
  bool same = strcmp(golden, text) == 0;
  if (!same) print_error("--- expected\n%s--- got\n%s", golden, text);
  free(golden);
  free(text);
  assert_true(same);
}

int main(void) {
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
  const struct CMUnitTest tests[] = {
      CASE(counts), CASE(names),     CASE(biases), CASE(starts),   CASE(nothing_square), CASE(blocks),
      CASE(rotary), CASE(tied_head), CASE(dump),   CASE(overflow), CASE(config_json),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
