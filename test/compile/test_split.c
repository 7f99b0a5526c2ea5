/* split: which nodes are repeated, sliced, joined and shared; chunks of the loss head; settings that cannot be. What
 * the split graph computes is held against the whole one in test/run/test_split.c. */
#include <stdio.h>
#include <string.h>

#include "op/add.h"
#include "op/head_loss.h"
#include "op/linear.h"
#include "op/mse.h"
#include "op/pointwise.h"
#include "op/slice.h"
#include "part_compiled.h"
#include "pass/pass.h"

static const char recipe_text[] = "model:\n"
                                  "  family: llama\n"
                                  "  config: { hidden_size: 16, num_hidden_layers: 2, num_attention_heads: 4,\n"
                                  "            num_key_value_heads: 2, intermediate_size: 24, vocab_size: 64 }\n"
                                  "data: { sequence_length: 8 }\n"
                                  "training: { batch_size: 2 }\n";

static hr_status compile(compiled *c, const char *split, const char *more, const char *until) {
  char setting[256];
  snprintf(setting, sizeof setting, "memory.split=%s", split);
  const char *const overrides[] = {setting, more};
  return compiled_make(c, recipe_text, until, overrides, more ? 2 : 1);
}

static bool inside(const hr_graph *g, hr_id block, const char *name) {
  for (; block != HR_NONE; block = g->blocks[block].parent)
    if (strcmp(g->blocks[block].name, name) == 0) return true;
  return false;
}

/* Nodes of an op in a program, under a block where one is named. */
static int count(const hr_graph *g, hr_id program, const char *block, const hr_op *op) {
  int found = 0;
  for (size_t n = 0; n < g->n_nodes; n++)
    found += g->nodes[n].program == program && g->nodes[n].op == op && (!block || inside(g, g->nodes[n].block, block));
  return found;
}

static void test_a_block_is_repeated_for_every_slice(void **state) {
  compiled *c = *state;
  expect_ok(c, compile(c, "{layers.1.mlp: 2}", NULL, "split"));
  const hr_graph *g = c->graph;
  assert_int_equal(count(g, 0, "model.layers.1.mlp/slice.0", &hr_op_linear), 2);
  assert_int_equal(count(g, 0, "model.layers.1.mlp/slice.1", &hr_op_linear), 2);
  assert_int_equal(count(g, 0, "model.layers.1.mlp", &hr_op_linear), 4);
  assert_int_equal(count(g, 0, "model.layers.1", &hr_op_linear), 4 + 2);
  assert_int_equal(count(g, 0, NULL, &hr_op_slice), 2);
  assert_int_equal(count(g, 0, NULL, &hr_op_join), 2);
  for (size_t k = 0; k < g->n_blocks; k++)
    assert_int_equal(g->blocks[k].recompute, strstr(g->blocks[k].name, "/slice.") != NULL);
  for (size_t n = 0; n < g->n_nodes; n++) {
    bool in_slice = g->nodes[n].block != HR_NONE && g->blocks[g->nodes[n].block].recompute;
    if (in_slice) assert_int_equal(g->values[g->nodes[n].out[0]].desc.dim[0], 1);
    if (g->nodes[n].op == &hr_op_join) assert_false(in_slice); /* what leaves is kept, so it is no part of the slice */
    if (g->nodes[n].op == &hr_op_slice) assert_true(in_slice);
  }
}

static void test_inner_blocks_stay_nested(void **state) {
  compiled *c = *state;
  expect_ok(c, compile(c, "{\"layers.0\": 2}", NULL, "split"));
  const hr_graph *g = c->graph;
  int inner = 0;
  for (size_t k = 0; k < g->n_blocks; k++) {
    const hr_block *block = &g->blocks[k];
    if (strcmp(block->name, "model.layers.0.mlp") != 0 || !g->blocks[block->parent].recompute) continue;
    assert_int_equal(strncmp(g->blocks[block->parent].name, "model.layers.0/slice.", 21), 0);
    inner++;
  }
  assert_int_equal(inner, 2);
  assert_int_equal(count(g, 0, "model.layers.0/slice.1", &hr_op_linear), 4);
  assert_int_equal(count(g, 0, "model.layers.0", &hr_op_slice), 2); /* the rotary table is shared */
}

static void test_every_program_is_split(void **state) {
  compiled *c = *state;
  const char more[] = "training={batch_size: 5, gradient_accumulation: 2, eval_every: 3}";
  expect_ok(c, compile(c, "{mlp: 3, self_attn: 1}", more, "grad"));
  const hr_graph *g = c->graph;
  static const hr_program_kind programs[] = {HR_PROGRAM_MICRO_FIRST, HR_PROGRAM_MICRO_NEXT, HR_PROGRAM_EVAL};
  for (int p = 0; p < 3; p++) {
    hr_id program = hr__graph_find_kind(g, programs[p]);
    bool trains = p < 2; /* there each slice and join has its gradient */
    assert_int_equal(count(g, program, NULL, &hr_op_slice), trains ? 12 : 6);
    assert_int_equal(count(g, program, NULL, &hr_op_join), trains ? 12 : 6);
  }
  int64_t rows[3] = {0};
  for (size_t n = 0; n < g->n_nodes; n++) {
    char *at = g->nodes[n].block == HR_NONE ? NULL : strstr(g->blocks[g->nodes[n].block].name, "/slice.");
    if (at && g->nodes[n].op == &hr_op_linear) rows[at[7] - '0'] = g->values[g->nodes[n].in[0]].desc.dim[0];
  }
  assert_int_equal(rows[0], 2);
  assert_int_equal(rows[1], 2);
  assert_int_equal(rows[2], 1);
}

static void test_the_head_takes_chunks(void **state) {
  compiled *c = *state;
  expect_ok(c, compile(c, "{lm_head: 3}", NULL, NULL));
  int heads = 0;
  for (size_t n = 0; n < c->graph->n_nodes; n++) {
    if (c->graph->nodes[n].op != &hr_op_head_loss_bwd) continue;
    assert_int_equal(((const hr_head_loss_bwd_args *)c->graph->nodes[n].args)->chunk_rows, 6); /* of 16 rows */
    heads++;
  }
  assert_int_equal(heads, 1);
  assert_int_equal(count(c->graph, 0, NULL, &hr_op_slice), 0);
}

static void test_none_and_auto_change_nothing(void **state) {
  compiled *c = *state;
  expect_ok(c, compile(c, "auto", NULL, NULL));
  assert_int_equal(count(c->graph, 0, NULL, &hr_op_slice), 0);
}

static void test_bad_settings(void **state) {
  (void)state;
  static const struct {
    const char *split, *message, *remedy;
  } cases[] = {
      {"{mpl: 2}", "memory.split.mpl names no block",
       "model.layers.*, model.layers.*.self_attn, model.layers.*.mlp, lm_head"},
      {"{mlp: 3}", "model.layers.0.mlp cannot be split into 3 slices: its batch has 2 rows", "fewer"},
      {"{lm_head: 17}", "lm_head cannot be taken in 17 chunks: it has 16 rows", "fewer"},
      {"{mlp: 0}", "memory.split.mlp is 0, but it must be at least 1", "whole"},
      {"{mlp: -2}", "at least 1", "whole"},
      {"{mlp: many}", "memory.split.mlp must be a number of slices", "mlp: 4"},
      {"{mlp: {up: 2}}", "memory.split.mlp must be a number of slices", "mlp: 4"},
      {"{mlp: 1.5}", "memory.split.mlp must be a number of slices", "mlp: 4"},
      {"[mlp]", "memory.split must be one of: none, auto, or a section", "mlp: 4"},
      {"{layers.*: 2, mlp: 2}", "memory.split.mlp names only blocks that another pattern takes", "outermost"},
      {"{mlp: 2, layers.1.mlp: 1}", "memory.split.layers.1.mlp names only blocks that another", "first pattern"},
      {"most", "memory.split must be one of: none, auto, or a section", "split: { mlp"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    compiled c = {0};
    hr_status status = compile(&c, cases[i].split, NULL, NULL);
    if (status != HR_BAD_INPUT || !strstr(c.err.message, cases[i].message) || !strstr(c.err.remedy, cases[i].remedy))
      fail_msg("%s: status %d, '%s', '%s'", cases[i].split, (int)status, c.err.message, c.err.remedy);
    if (!strstr(c.err.place, "memory.split=")) fail_msg("%s: no place in '%s'", cases[i].split, c.err.place);
    hr__recipe_destroy(c.recipe);
  }
}

/* ---- graphs by hand ---- */

typedef struct noise_args {
  float rate;
  int64_t sample;
} noise_args;

static hr_status noise_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  (void)err;
  out[0] = view->in[0];
  return HR_OK;
}

static const hr_op noise = {.name = "noise",
                            .n_in = 1,
                            .n_out = 1,
                            .args_bytes = sizeof(noise_args),
                            .random = true,
                            .sample_at = offsetof(noise_args, sample),
                            .axes = HR_AXES_ALL,
                            .shape = noise_shape};
static const hr_op blind_noise = {.name = "blind_noise",
                                  .n_in = 1,
                                  .n_out = 1,
                                  .args_bytes = sizeof(noise_args),
                                  .random = true,
                                  .axes = HR_AXES_ALL,
                                  .shape = noise_shape};

/* x [4, 6] -> block { linear, `op` } -> add with x. */
static hr_status noise_split(compiled *c, const hr_op *op) {
  hr_builder b;
  assert_int_equal(compile(c, "{region: 2}", NULL, "model"), HR_OK);
  hr__graph_destroy(c->graph);
  assert_int_equal(hr__graph_create(&c->graph, &c->err), HR_OK);
  hr__builder_init(&b, c->graph, HR_F32);
  hr__program_begin(&b, HR_PROGRAM_STEP);
  hr_id x = hr__input(&b, "x", hr__desc2(HR_F32, 4, 6));
  hr_id w = hr__parameter(&b, "w", hr__desc2(HR_F32, 6, 6), (hr_init){.rule = HR_INIT_ONE});
  hr__block_begin(&b, "region");
  hr_id y = hr__linear(&b, x, w, HR_NONE);
  y = op == &hr_op_mse ? hr__mse(&b, y, x) : hr__emit(&b, op, &y, 1, &(noise_args){0.5f, 10});
  hr__block_end(&b);
  hr__program_set_output(&b, "y", op == &hr_op_mse ? y : hr__add(&b, x, y, 1.0f));
  assert_int_equal(hr__builder_status(&b, &c->err), HR_OK);
  return hr__pass_split(&b, c->recipe, NULL, &c->err);
}

static void test_random_ops_know_their_samples(void **state) {
  compiled *c = *state;
  expect_ok(c, noise_split(c, &noise));
  int64_t samples[2] = {0};
  int found = 0;
  for (size_t n = 0; n < c->graph->n_nodes; n++)
    if (c->graph->nodes[n].op == &noise) samples[found++] = ((const noise_args *)c->graph->nodes[n].args)->sample;
  assert_int_equal(found, 2);
  assert_int_equal(samples[0], 10);
  assert_int_equal(samples[1], 12);
}

static void expect_coupled(compiled *c, const hr_op *op) {
  char message[128];
  assert_int_equal(noise_split(c, op), HR_BAD_INPUT);
  snprintf(message, sizeof message, "region cannot be split: %s in ", op->name);
  if (!strstr(c->err.message, message) || !strstr(c->err.message, "couples the batch")) fail_msg("%s", c->err.message);
}

static void test_random_ops_that_know_no_sample_are_refused(void **state) {
  expect_coupled(*state, &blind_noise);
}

static void test_ops_that_couple_the_batch_are_refused(void **state) {
  expect_coupled(*state, &hr_op_mse);
}

/* What leaves the block may be what the program gives. */
static void test_outputs_of_the_program_are_joined(void **state) {
  compiled *c = *state;
  hr_builder b;
  assert_int_equal(compile(c, "{region: 4}", NULL, "model"), HR_OK);
  hr__graph_destroy(c->graph);
  assert_int_equal(hr__graph_create(&c->graph, &c->err), HR_OK);
  hr__builder_init(&b, c->graph, HR_F32);
  hr__program_begin(&b, HR_PROGRAM_STEP);
  hr_id x = hr__input(&b, "x", hr__desc2(HR_F32, 4, 6));
  hr__block_begin(&b, "region");
  hr__program_set_output(&b, "y", hr__add(&b, x, x, 1.0f));
  hr__block_end(&b);
  expect_ok(c, hr__pass_split(&b, c->recipe, NULL, &c->err));
  const hr_graph *g = c->graph;
  hr_id y = hr__program_output(g, 0, "y");
  assert_true(g->nodes[g->values[y].producer].op == &hr_op_join);
  assert_int_equal(g->buffers[g->values[y].buffer].role, HR_ROLE_OUTPUT);
  assert_int_equal(g->values[y].desc.dim[0], 4);
}

/* By choice the outermost blocks that can be split are: of a component that couples its samples the layers. */
static void test_what_couples_stays_whole_by_choice(void **state) {
  compiled *c = *state;
  hr_builder b;
  assert_int_equal(compile(c, "auto", NULL, "model"), HR_OK);
  hr__graph_destroy(c->graph);
  assert_int_equal(hr__graph_create(&c->graph, &c->err), HR_OK);
  hr__builder_init(&b, c->graph, HR_F32);
  hr__program_begin(&b, HR_PROGRAM_STEP);
  hr_id x = hr__input(&b, "x", hr__desc2(HR_F32, 4, 6));
  hr_id w = hr__parameter(&b, "w", hr__desc2(HR_F32, 6, 6), (hr_init){.rule = HR_INIT_ONE});
  for (int part = 0; part < 2; part++) {
    hr__component_begin(&b, "part.%d", part);
    for (int layer = 0; layer < 2; layer++) {
      hr__block_begin(&b, "part.%d.layer.%d", part, layer);
      x = hr__linear(&b, x, w, HR_NONE);
      if (part == 1 && layer == 1) /* a norm over the batch */
        x = hr__binary(&b, HR_FORMULA_sub, x, hr__reduce(&b, HR_REDUCE_MEAN, x, 1));
      hr__block_end(&b);
    }
    hr__block_end(&b);
  }
  hr__program_set_output(&b, "y", x);
  assert_int_equal(hr__pass_split(&b, c->recipe, &(hr_choices){.slices = 5}, &c->err), HR_BAD_INPUT);
  assert_non_null(strstr(c->err.message, "no block of the model can be split into 5 slices"));
  expect_ok(c, hr__pass_split(&b, c->recipe, &(hr_choices){.slices = 2}, &c->err));
  const hr_graph *g = c->graph;
  assert_int_equal(count(g, 0, "part.0/slice.1", &hr_op_linear), 2);
  assert_int_equal(count(g, 0, "part.1.layer.0/slice.1", &hr_op_linear), 1);
  assert_int_equal(count(g, 0, "part.1.layer.1", &hr_op_linear), 1);
  for (size_t k = 0; k < g->n_blocks; k++) /* slices of a component are components, so that layers stay layers */
    assert_int_equal(g->blocks[k].component, !strstr(g->blocks[k].name, ".layer."));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_a_block_is_repeated_for_every_slice, compiled_setup, compiled_teardown),
      cmocka_unit_test_setup_teardown(test_inner_blocks_stay_nested, compiled_setup, compiled_teardown),
      cmocka_unit_test_setup_teardown(test_every_program_is_split, compiled_setup, compiled_teardown),
      cmocka_unit_test_setup_teardown(test_the_head_takes_chunks, compiled_setup, compiled_teardown),
      cmocka_unit_test_setup_teardown(test_none_and_auto_change_nothing, compiled_setup, compiled_teardown),
      cmocka_unit_test(test_bad_settings),
      cmocka_unit_test_setup_teardown(test_random_ops_know_their_samples, compiled_setup, compiled_teardown),
      cmocka_unit_test_setup_teardown(test_random_ops_that_know_no_sample_are_refused, compiled_setup,
                                      compiled_teardown),
      cmocka_unit_test_setup_teardown(test_ops_that_couple_the_batch_are_refused, compiled_setup, compiled_teardown),
      cmocka_unit_test_setup_teardown(test_outputs_of_the_program_are_joined, compiled_setup, compiled_teardown),
      cmocka_unit_test_setup_teardown(test_what_couples_stays_whole_by_choice, compiled_setup, compiled_teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
