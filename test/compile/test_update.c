/* The update: which parameters get a step, with which settings and states, and where; settings that contradict each
 * other. */
#include <string.h>

#include "grad/grad.h"
#include "op/adamw.h"
#include "op/found_inf.h"
#include "op/linear.h"
#include "op/mse.h"
#include "op/sgd.h"
#include "part_compiled.h"
#include "pass/update.h"

static void program_emit(hr_builder *b, hr_program_kind kind, hr_grad_mode mode) {
  hr_error err = {0};
  hr__program_begin(b, kind);
  hr_id x = hr__input(b, "x", hr__desc2(HR_F32, 3, 4)), target = hr__input(b, "t", hr__desc2(HR_F32, 3, 4));
  hr_id w = hr__parameter(b, "w", hr__desc2(HR_F32, 4, 4), (hr_init){.rule = HR_INIT_ONE});
  hr_id idle = hr__parameter(b, "idle", hr__desc2(HR_F32, 4, 4), (hr_init){.rule = HR_INIT_ONE});
  hr__linear(b, x, idle, HR_NONE);
  hr_loss loss = {.value = hr__mse(b, hr__linear(b, x, w, HR_NONE), target), .weight = 1.0f};
  hr__program_set_output(b, "loss", loss.value);
  if (hr__grad(b, &loss, 1, mode, &err) != HR_OK) fail_msg("%s: %s", err.place, err.message);
}

/* Under accumulation 2 an idle parameter is left alone. */
static void test_idle_parameter(void **state) {
  (void)state;
  hr_graph *graph;
  hr_builder b;
  hr_error err = {0};
  assert_int_equal(hr__graph_create(&graph, &err), HR_OK);
  hr__builder_init(&b, graph, HR_F32);
  program_emit(&b, HR_PROGRAM_MICRO_FIRST, HR_GRAD_WRITE);
  program_emit(&b, HR_PROGRAM_MICRO_NEXT, HR_GRAD_ACCUMULATE);
  hr__program_begin(&b, HR_PROGRAM_UPDATE);
  hr_update_settings settings = {.beta1 = 0.9f, .beta2 = 0.99f, .eps = 1e-8f, .weight_decay = 0.1f, .clip_norm = 1};
  assert_int_equal(hr__update_emit(&b, &settings, &err), HR_OK);
  assert_int_equal(hr__graph_verify(graph, &err), HR_OK);

  hr_id w = hr__graph_find_value(graph, "w"), idle = hr__graph_find_value(graph, "idle");
  int steps = 0;
  for (size_t n = 0; n < graph->n_nodes; n++) {
    if (graph->nodes[n].op != &hr_op_adamw) continue;
    assert_int_equal(graph->nodes[n].in[0], w);
    steps++;
  }
  assert_int_equal(steps, 1);
  assert_int_equal(graph->values[idle].gradient, HR_NONE);
  assert_int_equal(hr__graph_find_value(graph, "grad.idle"), HR_NONE);
  assert_int_equal(hr__graph_find_value(graph, "adam.m.idle"), HR_NONE);
  hr__graph_destroy(graph);
}

/* ---- recipes ---- */

static const char recipe_text[] = "model:\n"
                                  "  family: llama\n"
                                  "  config: { hidden_size: 64, num_hidden_layers: 2, num_attention_heads: 4,\n"
                                  "            num_key_value_heads: 2, intermediate_size: 96, vocab_size: 2048,\n"
                                  "            tie_word_embeddings: true }\n"
                                  "data: { sequence_length: 8 }\n"
                                  "training: { batch_size: 2 }\n";
/* q, k and v are stacked, and so are gate and up. */
enum { PARAMETERS = 2 * 6 + 2, VECTORS = 2 * 2 + 1 };

static hr_status compile(compiled *c, const char *const *overrides) {
  size_t n = 0;
  while (overrides[n])
    n++;
  return compiled_make(c, recipe_text, NULL, overrides, n);
}

#define OVERRIDES(...)                                                                                                 \
  (const char *const[]) {                                                                                              \
    __VA_ARGS__, NULL                                                                                                  \
  }

static compiled compile_ok(const char *const *overrides) {
  compiled c = {0};
  if (compile(&c, overrides) != HR_OK || hr__graph_verify(c.graph, &c.err) != HR_OK)
    fail_msg("%s: %s", c.err.place, c.err.message);
  return c;
}

/* The node that updates a parameter. */
static const hr_node *step_of(const compiled *c, const char *parameter) {
  hr_id value = hr__graph_find_value(c->graph, parameter);
  assert_int_not_equal(value, HR_NONE);
  for (size_t n = 0; n < c->graph->n_nodes; n++)
    if (c->graph->nodes[n].op->effect && c->graph->nodes[n].in[0] == value) return &c->graph->nodes[n];
  fail_msg("%s is not updated", parameter);
  return NULL;
}

static int op_count(const compiled *c, const char *op) {
  int count = 0;
  for (size_t n = 0; n < c->graph->n_nodes; n++)
    count += strcmp(c->graph->nodes[n].op->name, op) == 0;
  return count;
}

static const hr_desc *state_desc(const compiled *c, const char *name) {
  hr_id value = hr__graph_find_value(c->graph, name);
  if (value == HR_NONE) fail_msg("no state %s", name);
  assert_int_equal(c->graph->buffers[c->graph->values[value].buffer].role, HR_ROLE_OPTIMIZER);
  return &c->graph->values[value].desc;
}

static hr_tier state_home(const compiled *c, const char *name) {
  return c->graph->buffers[c->graph->values[hr__graph_find_value(c->graph, name)].buffer].home;
}

static void test_groups(void **state) {
  (void)state;
  compiled c = compile_ok(OVERRIDES("training.optimizer.lr=0.01", "training.optimizer.weight_decay=0.25",
                                    "training.optimizer.groups=[{match: layers.0.*norm, weight_decay: 0.5}, "
                                    "{match: [layers.0, q_proj], lr: 0.005}, {match: embed_tokens, lr: 0}]"));
  static const struct {
    const char *parameter;
    float lr_scale, weight_decay;
  } expected[] = {{"model.layers.0.input_layernorm.weight", 1.0f, 0.5f}, /* the first that matches */
                  {"model.layers.0.mlp.up_proj.weight", 0.5f, 0.25f},
                  {"model.layers.1.self_attn.q_proj.weight", 0.5f, 0.25f},
                  {"model.layers.1.self_attn.k_proj.weight", 1.0f, 0.25f},
                  {"model.layers.1.input_layernorm.weight", 1.0f, 0.0f},
                  {"model.embed_tokens.weight", 0.0f, 0.25f}};
  for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
    const hr_adamw_args *args = step_of(&c, expected[i].parameter)->args;
    assert_true(args->lr_scale == expected[i].lr_scale && args->weight_decay == expected[i].weight_decay);
  }
  compiled_close(&c);
}

static void test_states(void **state) {
  (void)state;
  compiled c = compile_ok(OVERRIDES("training.optimizer.state=bf16"));
  assert_int_equal(state_desc(&c, "adam.v.model.norm.weight")->dtype, HR_BF16);
  compiled_close(&c);

  c = compile_ok(OVERRIDES("training.optimizer.kind=adamw8bit"));
  /* k_proj and v_proj have 32 x 64 elements, states in f32, and so are not stacked with q_proj */
  assert_int_equal(op_count(&c, "adamw8bit"), 2 * 4 + 1);
  assert_int_equal(op_count(&c, "adamw"), VECTORS + 4);
  assert_int_equal(state_desc(&c, "adam8.m.model.embed_tokens.weight")->dtype, HR_U8);
  assert_int_equal(state_desc(&c, "adam8.v_absmax.model.embed_tokens.weight")->dim[0], 2048 * 64 / 256);
  assert_int_equal(state_desc(&c, "adam.m.model.norm.weight")->dtype, HR_F32);
  assert_int_equal(state_home(&c, "adam8.m.model.embed_tokens.weight"), HR_TIER_DEVICE);
  compiled_close(&c);

  c = compile_ok(OVERRIDES("training.optimizer.kind=sgd"));
  assert_int_equal(op_count(&c, "sgd_momentum"), PARAMETERS);
  assert_int_equal(state_desc(&c, "sgd.momentum.model.norm.weight")->dtype, HR_F32);
  compiled_close(&c);

  c = compile_ok(OVERRIDES("training.optimizer.kind=sgd", "training.optimizer.momentum=0"));
  assert_int_equal(op_count(&c, "sgd"), PARAMETERS);
  for (size_t b = 0; b < c.graph->n_buffers; b++)
    assert_int_not_equal(c.graph->buffers[b].role, HR_ROLE_OPTIMIZER);
  compiled_close(&c);
}

/* Only large moments are paged: the embedding has 131072 elements. */
static void test_paged_states(void **state) {
  (void)state;
  compiled c = {0};
  hr_builder b;
  hr_update_settings settings = {.optimizer = HR_OPTIMIZER_ADAMW8BIT, .paged = true};
  assert_int_equal(hr__graph_create(&c.graph, &c.err), HR_OK);
  hr__builder_init(&b, c.graph, HR_F32);
  hr__program_begin(&b, HR_PROGRAM_STEP);
  hr_id x = hr__input(&b, "x", hr__desc2(HR_F32, 3, 200)), target = hr__input(&b, "t", hr__desc2(HR_F32, 3, 100));
  hr_id large = hr__parameter(&b, "large", hr__desc2(HR_F32, 500, 200), (hr_init){.rule = HR_INIT_ONE});
  hr_id small = hr__parameter(&b, "small", hr__desc2(HR_F32, 100, 500), (hr_init){.rule = HR_INIT_ONE});
  hr_id y = hr__linear(&b, hr__linear(&b, x, large, HR_NONE), small, HR_NONE);
  hr_loss loss = {.value = hr__mse(&b, y, target), .weight = 1.0f};
  hr__program_set_output(&b, "loss", loss.value);
  assert_int_equal(hr__grad(&b, &loss, 1, HR_GRAD_TRANSIENT, &c.err), HR_OK);
  assert_int_equal(hr__update_emit(&b, &settings, &c.err), HR_OK);
  assert_int_equal(state_home(&c, "adam8.m.large"), HR_TIER_HOST);
  assert_int_equal(state_home(&c, "adam8.v.large"), HR_TIER_HOST);
  assert_int_equal(state_home(&c, "adam8.m_absmax.large"), HR_TIER_DEVICE);
  assert_int_equal(state_home(&c, "adam8.m.small"), HR_TIER_DEVICE);
  hr__graph_destroy(c.graph);
}

/* With loss scaling the steps read the control block that found_inf has written. */
static void test_guarded_steps(void **state) {
  (void)state;
  hr_graph *graph;
  hr_builder b;
  hr_error err = {0};
  hr_update_settings settings = {.optimizer = HR_OPTIMIZER_SGD, .clip_norm = 1, .guarded = true};
  assert_int_equal(hr__graph_create(&graph, &err), HR_OK);
  hr__builder_init(&b, graph, HR_F32);
  program_emit(&b, HR_PROGRAM_STEP, HR_GRAD_TRANSIENT);
  assert_int_equal(hr__update_emit(&b, &settings, &err), HR_OK);
  if (hr__graph_verify(graph, &err) != HR_OK) fail_msg("%s: %s", err.place, err.message);
  const hr_node *step = &graph->nodes[graph->n_nodes - 1], *found = step - 1, *norm = step - 2;
  assert_ptr_equal(step->op, &hr_op_sgd);
  assert_ptr_equal(found->op, &hr_op_found_inf);
  assert_int_equal(step->in[2], found->out[0]);
  assert_int_equal(step->in[3], norm->out[0]);
  assert_int_equal(found->in[1], norm->out[0]);
  assert_int_equal(graph->values[found->out[0]].buffer, graph->values[hr__control(&b)].buffer);
  hr__graph_destroy(graph);
}

/* Every step directly behind the sums of squares, these behind the last node that needs parameter or gradient. */
static void test_in_backward_places(void **state) {
  (void)state;
  compiled c = compile_ok(OVERRIDES("memory.update=in-backward", "training.eval_every=5"));
  const hr_graph *g = c.graph;
  hr_id first_step = HR_NONE, last_backward = HR_NONE;
  assert_int_equal(op_count(&c, "adamw"), PARAMETERS);
  assert_int_equal(op_count(&c, "grad_squares"), PARAMETERS);
  const hr_program *program = &g->programs[hr__graph_find_kind(g, HR_PROGRAM_STEP)];
  for (hr_id n = program->first; n < program->first + program->count; n++) {
    if (g->nodes[n].phase == HR_BACKWARD) last_backward = n;
    if (g->nodes[n].op != &hr_op_adamw) continue;
    if (first_step == HR_NONE) first_step = n;
    hr_id parameter = g->nodes[n].in[0], gradient = g->nodes[n].in[1], before = n - 1;
    assert_string_equal(g->nodes[before].op->name, "grad_squares");
    assert_int_equal(g->nodes[before].in[0], gradient);
    while (g->nodes[before].phase == HR_UPDATE)
      before--;
    bool needs = g->values[gradient].producer == before;
    for (int i = 0; i < g->nodes[before].n_in; i++)
      needs |= g->nodes[before].in[i] == parameter;
    assert_true(needs);
  }
  assert_true(first_step < last_backward);
  assert_string_equal(g->nodes[program->first + program->count - 1].op->name, "grad_norm");
  /* the tied embedding takes its last contribution from the first layer of all */
  const hr_node *tied = step_of(&c, "model.embed_tokens.weight");
  assert_true((size_t)(tied - g->nodes) > last_backward);
  compiled_close(&c);
}

static void test_contradictions(void **state) {
  static const struct {
    const char *overrides[4], *message, *place;
  } cases[] = {
      {{"memory.update=in-backward", "training.clip_norm=1"}, "clipping", "memory.update"},
      {{"memory.update=in-backward", "training.gradient_accumulation=2"}, "accumulation", "memory.update"},
      {{"memory.update=in-backward", "training.effective_batch=4"}, "accumulation", "memory.update"},
      {{"training.optimizer.kind=sgd", "training.optimizer.betas=[0.9, 0.99]"}, "sgd has no", "betas"},
      {{"training.optimizer.momentum=0.5"}, "adamw has no", "momentum"},
      {{"training.optimizer.kind=sgd", "training.optimizer.state=bf16"}, "type of the state", "state"},
      {{"training.optimizer.kind=adamw8bit", "training.optimizer.state=bf16"}, "type of the state", "state"},
      {{"training.optimizer.kind=sgd", "training.optimizer.momentum=0", "training.optimizer.nesterov=true"},
       "without momentum",
       "nesterov"},
      {{"training.optimizer.groups={match: q_proj}"}, "list", "groups"},
      {{"training.optimizer.groups=[q_proj]"}, "must be a section", "groups"},
      {{"training.optimizer.groups=[{lr: 1}]"}, "which parameters", "groups"},
      {{"training.optimizer.groups=[{match: [], lr: 1}]"}, "empty", "groups"},
      {{"training.optimizer.groups=[{match: {a: b}, lr: 1}]"}, "must be a pattern", "groups"},
      {{"training.optimizer.groups=[{match: [q_proj, r_proj]}]"}, "'r_proj' matches no", "groups"},
      {{"training.optimizer.groups=[{match: q_proj, rate: 1}]"}, "unknown setting 'rate'", "groups"},
      {{"training.optimizer.groups=[{match: q_proj, lr: fast}]"}, "must be a number", "groups"},
      {{"training.optimizer.groups=[{match: q_proj, lr: -1}]"}, "must be a number", "groups"},
      {{"training.optimizer.groups=[{match: q_proj, weight_decay: 1e9}]"}, "must be a number", "groups"},
      {{"training.optimizer.groups=[{match: q_proj, lr: 1}]", "training.optimizer.lr=0"}, "which is 0", "groups"},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    compiled c = {0};
    assert_int_equal(compile(&c, cases[i].overrides), HR_BAD_INPUT);
    if (!strstr(c.err.message, cases[i].message)) fail_msg("'%s' lacks '%s'", c.err.message, cases[i].message);
    if (!strstr(c.err.place, cases[i].place)) fail_msg("%s: place '%s'", cases[i].message, c.err.place);
    assert_true(c.err.remedy[0] != '\0');
    compiled_close(&c);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_idle_parameter),
      cmocka_unit_test(test_groups),
      cmocka_unit_test(test_states),
      cmocka_unit_test(test_paged_states),
      cmocka_unit_test(test_in_backward_places),
      cmocka_unit_test(test_guarded_steps),
      cmocka_unit_test(test_contradictions),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
