/* The adapters and quantize passes: what they add, what they freeze, and what they refuse. */
#include <stdio.h>
#include <string.h>

#include "op/linear.h"
#include "op/lora_down.h"
#include "op/lora_up.h"
#include "op/nf4.h"
#include "part_compiled.h"
#include "pass/adapters.h"

static const char recipe_text[] = "model:\n"
                                  "  family: llama\n"
                                  "  config: { hidden_size: 16, num_hidden_layers: 2, num_attention_heads: 4,\n"
                                  "            num_key_value_heads: 2, intermediate_size: 24, vocab_size: 64,\n"
                                  "            tie_word_embeddings: true, attention_bias: true }\n"
                                  "data: { sequence_length: 8 }\n"
                                  "training: { batch_size: 2 }\n";
enum { LAYERS = 2, LINEARS = 7, PRODUCTS = 4 /* q, k and v; o; gate and up; down */ };

static void expect_refused(compiled *c, hr_status status, const char *message, const char *remedy) {
  assert_int_equal(status, HR_BAD_INPUT);
  if (!strstr(c->err.message, message)) fail_msg("%s", c->err.message);
  if (!strstr(c->err.remedy, remedy)) fail_msg("%s", c->err.remedy);
}

static int program_ops(const hr_graph *g, hr_program_kind kind, const hr_op *op) {
  hr_id p = hr__graph_find_kind(g, kind);
  assert_int_not_equal(p, HR_NONE);
  int count = 0;
  for (hr_id n = g->programs[p].first; n < g->programs[p].first + g->programs[p].count; n++)
    count += g->nodes[n].op == op;
  return count;
}

/* Backward unpacks again what it needs. */
static int forward_unpacked(const hr_graph *g, hr_program_kind kind) {
  hr_id p = hr__graph_find_kind(g, kind);
  int count = 0;
  for (hr_id n = g->programs[p].first; n < g->programs[p].first + g->programs[p].count; n++)
    count += g->nodes[n].op == &hr_op_nf4_unpack && g->nodes[n].phase == HR_FORWARD;
  return count;
}

static size_t trained_count(const hr_graph *g) {
  size_t count = 0;
  for (size_t v = 0; v < g->n_values; v++)
    count += g->values[v].trained && hr__graph_is_tensor(g, (hr_id)v);
  return count;
}

static void test_nothing_without_the_setting(void **state) {
  compiled *c = *state;
  expect_ok(c, COMPILE(c, "quantize"));
  assert_int_equal(program_ops(c->graph, HR_PROGRAM_STEP, &hr_op_linear), LAYERS * PRODUCTS);
  assert_int_equal(program_ops(c->graph, HR_PROGRAM_STEP, &hr_op_nf4_unpack), 0);
  assert_int_equal(hr__graph_find_value(c->graph, "model.layers.0.self_attn.q_proj.lora_A.weight"), HR_NONE);
}

static void test_default_targets(void **state) {
  compiled *c = *state;
  expect_ok(c, COMPILE(c, NULL, "model.adapters={}"));
  const hr_graph *g = c->graph;
  assert_int_equal(trained_count(g), 2 * 4 * LAYERS);
  hr_id a = hr__graph_find_value(g, "model.layers.1.self_attn.k_proj.lora_A.weight");
  hr_id b = hr__graph_find_value(g, "model.layers.1.self_attn.k_proj.lora_B.weight");
  assert_true(a != HR_NONE && b != HR_NONE);
  const hr_desc *da = &g->values[a].desc, *db = &g->values[b].desc;
  assert_true(da->dim[0] == 8 && da->dim[1] == 16 && db->dim[0] == 8 && db->dim[1] == 8);
  assert_true(g->values[a].init.rule == HR_INIT_UNIFORM && g->values[a].init.a == 0.25f);
  assert_true(g->values[b].init.rule == HR_INIT_ZERO);
  assert_true(g->values[a].keep_f32 && g->values[b].keep_f32);
  assert_int_equal(hr__graph_find_value(g, "model.layers.1.mlp.up_proj.lora_A.weight"), HR_NONE);
}

/* Frozen weights have no gradients, no state, and nothing of theirs is kept: the only values of the forward pass that
 * linear_dw reads are the inputs of adapters. */
static void test_base_is_frozen(void **state) {
  compiled *c = *state;
  expect_ok(c, COMPILE(c, NULL, "model.adapters.targets=[q_proj, down_proj]", "model.adapters.alpha=16"));
  const hr_graph *g = c->graph;
  assert_int_equal(trained_count(g), 2 * 2 * LAYERS);
  assert_int_equal(program_ops(g, HR_PROGRAM_STEP, &hr_op_linear_dw), 2 * LAYERS);
  assert_int_equal(program_ops(g, HR_PROGRAM_STEP, &hr_op_lora_up_bwd), 2 * LAYERS);
  assert_int_equal(program_ops(g, HR_PROGRAM_STEP, &hr_op_linear_db), 0);
  for (size_t n = 0; n < g->n_nodes; n++)
    if (g->nodes[n].op == &hr_op_linear_dw && !strstr(g->nodes[n].module, ".lora_"))
      fail_msg("a gradient of the frozen %s", g->nodes[n].module);
  for (size_t v = 0; v < g->n_values; v++)
    if (g->buffers[g->values[v].buffer].role == HR_ROLE_OPTIMIZER && !strstr(g->values[v].name, ".lora_"))
      fail_msg("state of a frozen weight: %s", g->values[v].name);
  assert_int_equal(hr__graph_untrained(g, NULL, 0), 0);
}

/* All programs read the same matrices; only those that train drop. */
static void test_programs_share(void **state) {
  compiled *c = *state;
  expect_ok(c, COMPILE(c, NULL, "model.adapters.targets=all-linear", "model.adapters.dropout=0.1",
                       "training.gradient_accumulation=2", "training.eval_every=1"));
  const hr_graph *g = c->graph;
  assert_int_equal(trained_count(g), 2 * LAYERS * LINEARS);
  static const hr_program_kind programs[] = {HR_PROGRAM_MICRO_FIRST, HR_PROGRAM_MICRO_NEXT, HR_PROGRAM_EVAL};
  for (int p = 0; p < 3; p++) {
    size_t dropped = programs[p] == HR_PROGRAM_EVAL ? 0 : LAYERS * PRODUCTS;
    assert_int_equal(program_ops(g, programs[p], &hr_op_linear), 2 * LAYERS * PRODUCTS - dropped);
    assert_int_equal(program_ops(g, programs[p], &hr_op_lora_down), dropped);
    assert_int_equal(program_ops(g, programs[p], &hr_op_lora_down_dw), dropped);
    /* Layer 0 reads the frozen embedding, where nothing flows back to from q, k and v. */
    assert_int_equal(program_ops(g, programs[p], &hr_op_lora_down_dx), dropped ? dropped - 1 : 0);
    assert_int_equal(program_ops(g, programs[p], &hr_op_lora_up), LAYERS * PRODUCTS);
  }
}

/* The adapter of a module stands right behind it, and its sum is what others read. */
static void test_sum_is_what_others_read(void **state) {
  compiled *c = *state;
  expect_ok(c, COMPILE(c, "adapters", "model.adapters.targets=layers.0.self_attn.v_proj"));
  const hr_graph *g = c->graph;
  size_t sums = 0;
  for (size_t n = 0; n < g->n_nodes; n++) {
    const hr_node *node = &g->nodes[n];
    if (node->op != &hr_op_lora_up) continue;
    sums++;
    hr_id base = node->in[2];
    const hr_lora_up_args *args = node->args;
    assert_true(args->groups == 1 && args->first[0] == 16 + 8 && args->rows[0] == 8); /* q, k, v: 16, 8, 8 columns */
    assert_string_equal(node->module, "model.layers.0.self_attn.v_proj.lora_B");
    assert_string_equal(g->nodes[g->values[base].producer].module, "model.layers.0.self_attn.q_proj+k_proj+v_proj");
    assert_int_equal(node->block, g->nodes[g->values[base].producer].block);
    for (size_t m = 0; m < g->n_nodes; m++)
      for (int i = 0; i < g->nodes[m].n_in; i++)
        if (g->nodes[m].in[i] == base) assert_int_equal(m, n);
  }
  assert_int_equal(sums, 1);
}

static double lora_scale(const hr_recipe *recipe) {
  hr_model_part part = hr__model_whole(recipe);
  return hr__lora_read(&part).scale;
}

static void test_scale(void **state) {
  compiled *c = *state;
  expect_ok(c, COMPILE(c, "adapters", "model.adapters.rank=4", "model.adapters.alpha=16"));
  assert_true(lora_scale(c->recipe) == 4.0);
}

static void test_scale_rank_stabilised(void **state) {
  compiled *c = *state;
  expect_ok(c, COMPILE(c, "adapters", "model.adapters.rank=4", "model.adapters.alpha=16",
                       "model.adapters.rank_stabilised=true"));
  assert_true(lora_scale(c->recipe) == 8.0);
}

static void test_unknown_target(void **state) {
  compiled *c = *state;
  expect_refused(c, COMPILE(c, NULL, "model.adapters.targets=[q_proj, lm_head]"),
                 "the target \"lm_head\" matches no linear module", "q_proj, k_proj, v_proj, o_proj, gate_proj");
}

static void test_rank_too_large(void **state) {
  compiled *c = *state;
  expect_refused(c, COMPILE(c, NULL, "model.adapters.rank=9"),
                 "rank 9 is more than model.layers.0.self_attn.k_proj has", "smaller rank");
}

static void test_packed_weights(void **state) {
  compiled *c = *state;
  expect_ok(c, COMPILE(c, NULL, "model.adapters.targets=q_proj", "model.quantize.kind=nf4", "training.eval_every=1"));
  const hr_graph *g = c->graph;
  assert_int_equal(g->n_packed, LAYERS * LINEARS);
  assert_int_equal(forward_unpacked(g, HR_PROGRAM_STEP), LAYERS * LINEARS);
  assert_int_equal(forward_unpacked(g, HR_PROGRAM_EVAL), LAYERS * LINEARS);
  const hr_packed *p = &g->packed[0];
  assert_string_equal(p->name, "model.layers.0.self_attn.q_proj.weight");
  assert_true(p->desc.dim[0] == 16 && p->desc.dim[1] == 16 && p->init.rule == HR_INIT_NORMAL);
  assert_int_equal(hr__graph_find_value(g, p->name), HR_NONE);
  assert_int_equal(hr__graph_find_value(g, "model.layers.0.self_attn.q_proj.weight.nf4"), p->codes);
  assert_int_equal(hr_desc_count(&g->values[p->codes].desc), 128);
  assert_int_equal(hr_desc_bytes(&g->values[p->absmax].desc), 4);
  assert_int_equal(hr_desc_bytes(&g->values[p->nested_absmax].desc), 4);
  assert_int_equal(hr_desc_bytes(&g->values[p->nested_offset].desc), 4);
  assert_true(hr__graph_is_packed(g, p->codes) && hr__graph_is_packed(g, p->nested_offset));
  /* What stays as it is: the adapters, norms, biases and the embedding. */
  for (size_t v = 0; v < g->n_values; v++)
    if (g->values[v].trained && hr__graph_is_packed(g, (hr_id)v)) fail_msg("a trained value is packed");
  assert_int_not_equal(hr__graph_find_value(g, "model.embed_tokens.weight"), HR_NONE);
  /* Nothing holds the weights themselves any more. */
  for (size_t b = 0; b < g->n_buffers; b++)
    if (g->buffers[b].persistent && strcmp(g->buffers[b].name, p->name) == 0) fail_msg("%s is still stored", p->name);
}

static void test_packed_once(void **state) {
  compiled *c = *state;
  expect_ok(c, COMPILE(c, NULL, "model.adapters={}", "model.quantize.double=false", "model.quantize.targets=[mlp.*]"));
  const hr_graph *g = c->graph;
  assert_int_equal(g->n_packed, 3 * LAYERS);
  assert_int_equal(g->packed[0].nested_absmax, HR_NONE);
  assert_int_equal(hr_desc_bytes(&g->values[g->packed[0].absmax].desc), 16 * 24 / 64 * 4);
}

static void test_trained_weights_are_not_packed(void **state) {
  compiled *c = *state;
  expect_refused(c, COMPILE(c, NULL, "model.quantize.kind=nf4"), "NF4 is for frozen weights", "add model.adapters");
}

static void test_nothing_to_pack(void **state) {
  compiled *c = *state;
  expect_refused(c, COMPILE(c, NULL, "model.adapters={}", "model.quantize.targets=norm"), "matches no linear",
                 "q_proj");
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, compiled_setup, compiled_teardown)
  const struct CMUnitTest tests[] = {
      TEST(test_nothing_without_the_setting),
      TEST(test_default_targets),
      TEST(test_base_is_frozen),
      TEST(test_programs_share),
      TEST(test_sum_is_what_others_read),
      TEST(test_scale),
      TEST(test_scale_rank_stabilised),
      TEST(test_unknown_target),
      TEST(test_rank_too_large),
      TEST(test_packed_weights),
      TEST(test_packed_once),
      TEST(test_trained_weights_are_not_packed),
      TEST(test_nothing_to_pack),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
