/* The precision pass: types of parameters, nodes and gradients; where copies stand; settings it refuses. */
#include <stdio.h>
#include <string.h>

#include "op/copy.h"
#include "op/embedding.h"
#include "op/head_loss.h"
#include "op/linear.h"
#include "op/rmsnorm.h"
#include "part_compiled.h"
#include "pass/pass.h"

static const char recipe_text[] = "model:\n"
                                  "  family: llama\n"
                                  "  config: { hidden_size: 16, num_hidden_layers: 2, num_attention_heads: 4,\n"
                                  "            num_key_value_heads: 2, intermediate_size: 24, vocab_size: 64,\n"
                                  "            tie_word_embeddings: true, mlp_bias: true }\n"
                                  "data: { sequence_length: 8 }\n"
                                  "training: { batch_size: 2, eval_every: 1 }\n";

static hr_dtype dtype_of(const hr_graph *g, hr_id value) {
  return g->values[value].desc.dtype;
}

static int op_count(const hr_graph *g, hr_program_kind kind, const hr_op *op) {
  hr_id p = hr__graph_find_kind(g, kind);
  int count = 0;
  for (hr_id n = g->programs[p].first; n < g->programs[p].first + g->programs[p].count; n++)
    count += g->nodes[n].op == op;
  return count;
}

/* All parameters, their gradients and their buffers. */
static void parameters_expect(const compiled *c, hr_dtype stored) {
  const hr_graph *g = c->graph;
  for (hr_id v = 0; v < g->n_values; v++) {
    const hr_value *value = &g->values[v];
    if (!value->trained) continue;
    assert_int_equal(value->desc.dtype, stored);
    if (value->base != HR_NONE) continue; /* a member: it lies in its whole */
    assert_int_equal(g->buffers[value->buffer].bytes, hr_desc_bytes(&value->desc));
    assert_int_not_equal(value->gradient, HR_NONE);
    assert_int_equal(dtype_of(g, value->gradient), stored);
  }
  for (hr_id v = 0; v < g->n_values; v++)
    if (g->buffers[g->values[v].buffer].role == HR_ROLE_GRADIENT && g->buffers[g->values[v].buffer].programs)
      assert_int_equal(dtype_of(g, v), stored);
}

/* What products, norms and the loss of all programs read. */
static void nodes_expect(const compiled *c, hr_dtype compute, hr_dtype stored) {
  const hr_graph *g = c->graph;
  for (size_t n = 0; n < g->n_nodes; n++) {
    const hr_node *node = &g->nodes[n];
    if (node->op == &hr_op_linear || node->op == &hr_op_linear_dx) {
      assert_int_equal(dtype_of(g, node->in[0]), compute);
      assert_int_equal(dtype_of(g, node->in[1]), compute);
    } else if (node->op == &hr_op_linear_dw || node->op == &hr_op_linear_db) {
      assert_int_equal(dtype_of(g, node->in[0]), compute);
      assert_int_equal(dtype_of(g, node->out[0]), stored);
    } else if (node->op == &hr_op_rmsnorm) {
      assert_int_equal(dtype_of(g, node->in[0]), compute);
      assert_int_equal(dtype_of(g, node->in[1]), stored);
      assert_int_equal(dtype_of(g, node->out[0]), compute);
    } else if (node->op == &hr_op_head_loss || node->op == &hr_op_head_loss_bwd) {
      assert_int_equal(dtype_of(g, node->in[0]), compute);
      assert_int_equal(dtype_of(g, node->in[1]), compute);
      assert_int_equal(dtype_of(g, node->out[0]), HR_F32);
    } else if (node->op == &hr_op_embedding) {
      assert_int_equal(dtype_of(g, node->out[0]), stored);
    }
  }
}

/* 4 matrices and 2 biases in each layer, the tied table for the head, the embedding's result; backward: its gradient
 * made wide again. */
enum { LAYER_COPIES = 4 + 2, FORWARD_COPIES = 2 * LAYER_COPIES + 2, STEP_COPIES = FORWARD_COPIES + 1 };

static void test_mixed_keeps_masters(void **state) {
  compiled *c = *state;
  static const struct {
    const char *set;
    hr_dtype compute;
  } modes[] = {{"model.precision=bf16-mixed", HR_BF16}, {"model.precision=16-mixed", HR_F16}};
  for (int m = 0; m < 2; m++) {
    expect_ok(c, COMPILE(c, NULL, modes[m].set));
    parameters_expect(c, HR_F32);
    nodes_expect(c, modes[m].compute, HR_F32);
    assert_int_equal(op_count(c->graph, HR_PROGRAM_STEP, &hr_op_copy), STEP_COPIES);
    assert_int_equal(op_count(c->graph, HR_PROGRAM_EVAL, &hr_op_copy), FORWARD_COPIES);
  }
}

static void test_true_converts_nothing(void **state) {
  compiled *c = *state;
  static const struct {
    const char *set;
    hr_dtype dtype;
  } modes[] = {{"model.precision=32-true", HR_F32}, {"model.precision=bf16-true", HR_BF16}};
  for (int m = 0; m < 2; m++) {
    expect_ok(c, COMPILE(c, NULL, modes[m].set));
    parameters_expect(c, modes[m].dtype);
    nodes_expect(c, modes[m].dtype, modes[m].dtype);
    assert_int_equal(op_count(c->graph, HR_PROGRAM_STEP, &hr_op_copy), 0);
  }
}

/* With accumulation products write and add in the persistent f32 gradient itself. */
static void test_partial_sums_are_wide(void **state) {
  compiled *c = *state;
  expect_ok(c, COMPILE(c, NULL, "model.precision=bf16-mixed", "training.gradient_accumulation=2"));
  const hr_graph *g = c->graph;
  parameters_expect(c, HR_F32);
  int in_place = 0;
  for (size_t n = 0; n < g->n_nodes; n++) {
    const hr_node *node = &g->nodes[n];
    if (node->op != &hr_op_linear_dw) continue;
    const hr_buffer *buffer = &g->buffers[g->values[node->out[0]].buffer];
    assert_true(buffer->persistent && buffer->role == HR_ROLE_GRADIENT);
    if (g->programs[node->program].key.kind != HR_PROGRAM_MICRO_NEXT) continue;
    assert_int_equal(g->values[node->in[2]].buffer, g->values[node->out[0]].buffer);
    in_place++;
  }
  assert_int_equal(in_place, 8);
}

/* The wide form of the embedding's result dies at once; a weight is converted right before its first use. */
static void test_copies_stand_where_they_should(void **state) {
  compiled *c = *state;
  expect_ok(c, COMPILE(c, "precision", "model.precision=bf16-mixed"));
  const hr_graph *g = c->graph;
  for (hr_id n = 0; n < g->n_nodes; n++) {
    if (g->nodes[n].op == &hr_op_embedding) assert_ptr_equal(g->nodes[n + 1].op, &hr_op_copy);
    if (g->nodes[n].op != &hr_op_linear) continue;
    assert_ptr_equal(g->nodes[n - 1].op, &hr_op_copy);
    assert_string_equal(g->nodes[n - 1].module, g->nodes[n].module);
    assert_int_equal(g->nodes[n - 1].block, g->nodes[n].block);
  }
}

static void test_frozen_and_wide_parameters(void **state) {
  compiled *c = *state;
  expect_ok(c, COMPILE(c, "model", "model.precision=16-mixed"));
  hr_graph *g = c->graph;
  hr_id frozen = hr__graph_find_value(g, "model.layers.0.mlp.down_proj.weight");
  hr_id norm = hr__graph_find_value(g, "model.norm.weight");
  hr_id trained = hr__graph_find_value(g, "model.layers.1.mlp.down_proj.weight");
  g->values[frozen].trained = g->values[norm].trained = false;
  hr_builder b;
  hr__builder_init(&b, g, HR_F32);
  expect_ok(c, hr__pass_precision(&b, c->recipe, NULL, &c->err));
  assert_int_equal(dtype_of(g, frozen), HR_F16);
  assert_int_equal(dtype_of(g, norm), HR_F16);
  assert_int_equal(dtype_of(g, trained), HR_F32);

  expect_ok(c, COMPILE(c, "model", "model.precision=bf16-true"));
  g = c->graph;
  hr_id wide = hr__graph_find_value(g, "model.layers.0.mlp.down_proj.weight");
  g->values[wide].keep_f32 = true;
  hr__builder_init(&b, g, HR_F32);
  expect_ok(c, hr__pass_precision(&b, c->recipe, NULL, &c->err));
  assert_int_equal(dtype_of(g, wide), HR_F32);
  assert_int_equal(op_count(g, HR_PROGRAM_STEP, &hr_op_copy), 1);
}

static void test_overrides(void **state) {
  compiled *c = *state;
  expect_ok(c, COMPILE(c, NULL, "model.precision=bf16-true",
                       "model.precision_overrides={layers.0.mlp.up_proj: 16-mixed, layers.0.mlp: 32-true, lm_head: "
                       "32-true, \"*norm\": bf16-mixed}"));
  const hr_graph *g = c->graph;
  for (size_t n = 0; n < g->n_nodes; n++) {
    const hr_node *node = &g->nodes[n];
    if (node->op == &hr_op_linear && strcmp(node->module, "model.layers.0.mlp.up_proj") == 0)
      assert_int_equal(dtype_of(g, node->in[0]), HR_F16);
    if (node->op == &hr_op_linear && strcmp(node->module, "model.layers.0.mlp.gate_proj") == 0)
      assert_int_equal(dtype_of(g, node->in[0]), HR_F32);
    if (node->op == &hr_op_linear && strcmp(node->module, "model.layers.1.mlp.up_proj") == 0)
      assert_int_equal(dtype_of(g, node->in[0]), HR_BF16);
    if (node->op == &hr_op_head_loss_bwd) assert_int_equal(dtype_of(g, node->in[1]), HR_F32);
  }
  assert_int_equal(dtype_of(g, hr__graph_find_value(g, "model.layers.0.mlp.up_proj.weight")), HR_F32);
  assert_int_equal(dtype_of(g, hr__graph_find_value(g, "model.layers.0.mlp.down_proj.weight")), HR_F32);
  assert_int_equal(dtype_of(g, hr__graph_find_value(g, "model.layers.1.mlp.up_proj.weight")), HR_BF16);
  assert_int_equal(dtype_of(g, hr__graph_find_value(g, "model.norm.weight")), HR_F32);
  /* the table is the embedding's, not the head's */
  assert_int_equal(dtype_of(g, hr__graph_find_value(g, "model.embed_tokens.weight")), HR_BF16);
}

static void test_bad_overrides(void **state) {
  compiled *c = *state;
  static const struct {
    const char *value, *message;
  } cases[] = {
      {"model.precision_overrides={lm_head: bf16}", "\"bf16\" is not a precision"},
      {"model.precision_overrides={lm_head: {a: 1}}", "\"a map or list\" is not a precision"},
      {"model.precision_overrides={no_such: 32-true}", "no module is left for the pattern \"no_such\""},
      {"model.precision_overrides={mlp: 32-true, layers.0.mlp: bf16-true}", "the pattern \"layers.0.mlp\""},
      {"model.precision_overrides=[lm_head]", "must be a section"},
      {"model.precision_overrides=32-true", "model.precision_overrides"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    c->err = (hr_error){0};
    assert_int_equal(COMPILE(c, NULL, cases[i].value), HR_BAD_INPUT);
    if (!strstr(c->err.message, cases[i].message)) fail_msg("%s: %s", cases[i].value, c->err.message);
    assert_true(c->err.place[0] != '\0' && c->err.remedy[0] != '\0');
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_mixed_keeps_masters, compiled_setup, compiled_teardown),
      cmocka_unit_test_setup_teardown(test_true_converts_nothing, compiled_setup, compiled_teardown),
      cmocka_unit_test_setup_teardown(test_partial_sums_are_wide, compiled_setup, compiled_teardown),
      cmocka_unit_test_setup_teardown(test_copies_stand_where_they_should, compiled_setup, compiled_teardown),
      cmocka_unit_test_setup_teardown(test_frozen_and_wide_parameters, compiled_setup, compiled_teardown),
      cmocka_unit_test_setup_teardown(test_overrides, compiled_setup, compiled_teardown),
      cmocka_unit_test_setup_teardown(test_bad_overrides, compiled_setup, compiled_teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
