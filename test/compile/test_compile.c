/* compile: programs by accumulation, gradients' homes, pruning, and settings that contradict each other. */
#include <stdio.h>
#include <string.h>

#include "op/adamw.h"
#include "part_compiled.h"
#include "pass/update.h"

static const char recipe_text[] = "model:\n"
                                  "  family: llama\n"
                                  "  config: { hidden_size: 16, num_hidden_layers: 2, num_attention_heads: 4,\n"
                                  "            num_key_value_heads: 2, intermediate_size: 24, vocab_size: 64,\n"
                                  "            tie_word_embeddings: true }\n"
                                  "data: { sequence_length: 8 }\n"
                                  "training: { batch_size: 2 }\n";

static int ops_of(const hr_graph *g, hr_id p, const char *op) {
  assert_int_not_equal(p, HR_NONE);
  int count = 0;
  for (hr_id n = g->programs[p].first; n < g->programs[p].first + g->programs[p].count; n++)
    count += strcmp(g->nodes[n].op->name, op) == 0;
  return count;
}

static int program_ops(const hr_graph *g, hr_program_kind kind, const char *op) {
  return ops_of(g, hr__graph_find_kind(g, kind), op);
}

static size_t role_count(const hr_graph *g, hr_role role, bool persistent) {
  size_t count = 0;
  for (size_t b = 0; b < g->n_buffers; b++)
    count += g->buffers[b].role == role && g->buffers[b].persistent == persistent && g->buffers[b].programs != 0;
  return count;
}

/* Two layers, final norm, tied embedding; q, k and v are stacked, and so are gate and up. */
enum { PARAMETERS = 2 * 6 + 2 };

static void test_one_program_with_transient_gradients(void **state) {
  compiled *c = *state;
  expect_ok(c, COMPILE(c, NULL));
  assert_int_equal(c->graph->n_programs, 1);
  assert_int_equal(program_ops(c->graph, HR_PROGRAM_STEP, "adamw"), PARAMETERS);
  assert_int_equal(role_count(c->graph, HR_ROLE_GRADIENT, true), 0);
  assert_int_equal(role_count(c->graph, HR_ROLE_OPTIMIZER, true), 2 * PARAMETERS);
  assert_int_equal(program_ops(c->graph, HR_PROGRAM_STEP, "head_loss"), 0); /* its backward gives the loss as well */
  assert_int_equal(program_ops(c->graph, HR_PROGRAM_STEP, "head_loss_bwd"), 1);
  hr_id loss = hr__program_output(c->graph, 0, "loss");
  assert_string_equal(c->graph->nodes[c->graph->values[loss].producer].op->name, "head_loss_bwd");
  assert_int_not_equal(hr__program_output(c->graph, 0, "grad_norm"), HR_NONE);
}

static void test_accumulation_has_three_programs_and_homes(void **state) {
  compiled *c = *state;
  expect_ok(c, COMPILE(c, NULL, "training.gradient_accumulation=4", "training.eval_every=5"));
  const hr_graph *g = c->graph;
  assert_int_equal(g->n_programs, 4);
  assert_int_equal(program_ops(g, HR_PROGRAM_MICRO_FIRST, "adamw"), 0);
  assert_int_equal(program_ops(g, HR_PROGRAM_UPDATE, "adamw"), PARAMETERS);
  assert_int_equal(program_ops(g, HR_PROGRAM_EVAL, "head_loss"), 1);
  assert_int_equal(program_ops(g, HR_PROGRAM_EVAL, "linear_dw"), 0);
  assert_int_equal(role_count(g, HR_ROLE_GRADIENT, true), PARAMETERS);
  assert_int_equal(role_count(g, HR_ROLE_GRADIENT, false), 0);
  /* no extra sums or copies: every gradient op writes or adds in its home */
  assert_int_equal(program_ops(g, HR_PROGRAM_MICRO_FIRST, "copy"), 0);
  assert_int_equal(program_ops(g, HR_PROGRAM_MICRO_NEXT, "copy"), 0);
  assert_int_equal(program_ops(g, HR_PROGRAM_MICRO_NEXT, "add"), program_ops(g, HR_PROGRAM_EVAL, "add"));
}

/* Each bucket has micro programs of its own, over the same weights, gradients and moments; one update serves all. */
static void test_buckets_share_what_lasts(void **state) {
  compiled *c = *state;
  expect_ok(c, COMPILE(c, NULL, "training.gradient_accumulation={0: 2, 3: 1}", "data.source=lines",
                       "data.buckets=[2, 4, 8]", "training.eval_every=5"));
  const hr_graph *g = c->graph;
  static const struct {
    hr_program_key key;
    const char *name;
  } programs[] = {{{HR_PROGRAM_MICRO_FIRST, 2, 0}, "micro_first@2"},
                  {{HR_PROGRAM_MICRO_NEXT, 2, 0}, "micro_next@2"},
                  {{HR_PROGRAM_MICRO_FIRST, 1, 0}, "micro_first@4"},
                  {{HR_PROGRAM_MICRO_NEXT, 1, 0}, "micro_next@4"},
                  {{HR_PROGRAM_MICRO_FIRST, 0, 0}, "micro_first"},
                  {{HR_PROGRAM_MICRO_NEXT, 0, 0}, "micro_next"},
                  {{HR_PROGRAM_EVAL, 0, 0}, "eval"},
                  {{HR_PROGRAM_UPDATE, 0, 0}, "update"}};
  static const int64_t lengths[] = {2, 2, 4, 4, 8, 8, 8};
  assert_int_equal(g->n_programs, 8);
  for (int i = 0; i < 8; i++) {
    hr_id p = hr__graph_find_program(g, programs[i].key);
    assert_int_equal(ops_of(g, p, "adamw"), i == 7 ? PARAMETERS : 0);
    assert_string_equal(g->programs[p].name, programs[i].name);
    if (i == 7) continue;
    assert_int_equal(g->values[hr__program_input(g, p, "tokens")].desc.dim[1], lengths[i]);
    assert_int_equal(ops_of(g, p, "linear_dw") > 0, i < 6);
  }
  assert_int_equal(role_count(g, HR_ROLE_PARAMETER, true), PARAMETERS);
  assert_int_equal(role_count(g, HR_ROLE_GRADIENT, true), PARAMETERS);
  assert_int_equal(role_count(g, HR_ROLE_OPTIMIZER, true), 2 * PARAMETERS);
}

/* Without accumulation there is nothing to add to. */
static void test_buckets_without_accumulation(void **state) {
  compiled *c = *state;
  expect_ok(c, COMPILE(c, NULL, "data.source=lines", "data.buckets=[4, 8]"));
  assert_int_equal(c->graph->n_programs, 3);
  assert_int_not_equal(hr__graph_find_program(c->graph, (hr_program_key){HR_PROGRAM_MICRO_FIRST, .bucket = 1}),
                       HR_NONE);
  assert_int_equal(hr__graph_find_kind(c->graph, HR_PROGRAM_MICRO_NEXT), HR_NONE);
}

static void test_decay_is_for_matrices(void **state) {
  compiled *c = *state;
  expect_ok(c, COMPILE(c, NULL, "training.optimizer.weight_decay=0.25"));
  for (size_t n = 0; n < c->graph->n_nodes; n++) {
    const hr_node *node = &c->graph->nodes[n];
    if (node->op != &hr_op_adamw) continue;
    const hr_adamw_args *args = node->args;
    bool matrix = c->graph->values[node->in[0]].desc.rank == 2;
    assert_true(args->weight_decay == (matrix ? 0.25f : 0.0f));
  }
}

static void test_stages_stop_where_asked(void **state) {
  compiled *c = *state;
  expect_ok(c, COMPILE(c, "model"));
  assert_int_equal(program_ops(c->graph, HR_PROGRAM_STEP, "head_loss"), 1);
  assert_int_equal(program_ops(c->graph, HR_PROGRAM_STEP, "linear_dw"), 0);
}

static void test_grad_stage_keeps_both_heads(void **state) {
  compiled *c = *state;
  expect_ok(c, COMPILE(c, "grad"));
  assert_int_equal(program_ops(c->graph, HR_PROGRAM_STEP, "head_loss"), 1);
  assert_int_equal(program_ops(c->graph, HR_PROGRAM_STEP, "head_loss_bwd"), 1);
  assert_int_equal(program_ops(c->graph, HR_PROGRAM_STEP, "adamw"), 0);
}

static void test_bf16_reaches_weights_and_gradients(void **state) {
  compiled *c = *state;
  expect_ok(c, COMPILE(c, NULL, "model.precision=bf16-true"));
  for (size_t v = 0; v < c->graph->n_values; v++) {
    const hr_value *value = &c->graph->values[v];
    if (value->trained) {
      assert_int_equal(value->desc.dtype, HR_BF16);
      if (value->base == HR_NONE) assert_int_equal(c->graph->values[value->gradient].desc.dtype, HR_BF16);
    }
    if (c->graph->buffers[value->buffer].role == HR_ROLE_OPTIMIZER) assert_int_equal(value->desc.dtype, HR_F32);
  }
}

static void expect_refused(compiled *c, hr_status status, hr_status expected, const char *fragment) {
  assert_int_equal(status, expected);
  if (!strstr(c->err.message, fragment)) fail_msg("message '%s' lacks '%s'", c->err.message, fragment);
}

static void test_unknown_stage(void **state) {
  compiled *c = *state;
  expect_refused(c, COMPILE(c, "melt"), HR_USAGE, "no stage 'melt'");
}

static void test_effective_batch_must_divide(void **state) {
  compiled *c = *state;
  expect_refused(c, COMPILE(c, NULL, "training.effective_batch=5"), HR_BAD_INPUT, "not a multiple");
}

static void test_effective_batch_must_agree(void **state) {
  compiled *c = *state;
  expect_refused(c, COMPILE(c, NULL, "training.effective_batch=8", "training.gradient_accumulation=2"), HR_BAD_INPUT,
                 "contradicts");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_one_program_with_transient_gradients, compiled_setup, compiled_teardown),
      cmocka_unit_test_setup_teardown(test_accumulation_has_three_programs_and_homes, compiled_setup,
                                      compiled_teardown),
      cmocka_unit_test_setup_teardown(test_buckets_share_what_lasts, compiled_setup, compiled_teardown),
      cmocka_unit_test_setup_teardown(test_buckets_without_accumulation, compiled_setup, compiled_teardown),
      cmocka_unit_test_setup_teardown(test_decay_is_for_matrices, compiled_setup, compiled_teardown),
      cmocka_unit_test_setup_teardown(test_stages_stop_where_asked, compiled_setup, compiled_teardown),
      cmocka_unit_test_setup_teardown(test_grad_stage_keeps_both_heads, compiled_setup, compiled_teardown),
      cmocka_unit_test_setup_teardown(test_bf16_reaches_weights_and_gradients, compiled_setup, compiled_teardown),
      cmocka_unit_test_setup_teardown(test_unknown_stage, compiled_setup, compiled_teardown),
      cmocka_unit_test_setup_teardown(test_effective_batch_must_divide, compiled_setup, compiled_teardown),
      cmocka_unit_test_setup_teardown(test_effective_batch_must_agree, compiled_setup, compiled_teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
