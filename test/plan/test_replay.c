/* Lifetimes against addresses: a compiled Llama is replayed over the planned arena, byte by byte.
 *
 * Every byte carries the stamp of what was written there last: a value, or a node's workspace. A node must find all its
 * operands whole, also after its workspace was written; its results may lie on an operand only where the op allows it;
 * results, workspace and other operands must be whole once all results are written. Nothing here knows of lifetimes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "compile/compile.h"
#include "pass/update.h"
#include "plan/part_graphs.h"

typedef struct replay {
  const hr_plan *plan;
  uint32_t *stamp; /* per byte of the device's arena; 0: never written */
  char fault[256]; /* what was wrong first; empty: nothing */
} replay;

typedef struct range {
  size_t begin, end;
} range;

static uint32_t value_stamp(hr_id value) {
  return value + 1;
}
static uint32_t workspace_stamp(const replay *r, hr_id node) {
  return (uint32_t)r->plan->graph->n_values + node + 1;
}

static range value_range(const replay *r, hr_id value) {
  assert_int_equal(hr__plan_value_tier(r->plan, value), HR_TIER_DEVICE);
  size_t begin = hr__plan_value_offset(r->plan, value);
  range at = {begin, begin + hr_desc_bytes(&r->plan->graph->values[value].desc)};
  assert_true(at.end <= r->plan->tiers[HR_TIER_DEVICE].arena_bytes);
  return at;
}

static range workspace_range(const replay *r, hr_id node) {
  hr_id slot = r->plan->workspace_of_node[node];
  if (slot == HR_NONE) return (range){0, 0};
  return (range){r->plan->slots[slot].offset, r->plan->slots[slot].offset + r->plan->slots[slot].bytes};
}

static void stamp_put(replay *r, range at, uint32_t stamp) {
  for (size_t i = at.begin; i < at.end; i++)
    r->stamp[i] = stamp;
}

static bool stamp_whole(const replay *r, range at, uint32_t stamp) {
  for (size_t i = at.begin; i < at.end; i++)
    if (r->stamp[i] != stamp) return false;
  return true;
}

static void expect_whole(replay *r, hr_id node, range at, uint32_t stamp, const char *what, int number) {
  if (r->fault[0] != '\0' || stamp_whole(r, at, stamp)) return;
  const hr_node *n = &r->plan->graph->nodes[node];
  snprintf(r->fault, sizeof r->fault, "node %u (%s, %s): %s %d", node, n->op->name, n->module, what, number);
}

/* Whether the op allows output `out` to lie on operand `in`, and it lies exactly there. */
static bool in_place(const replay *r, const hr_node *node, int in, int out) {
  range a = value_range(r, node->in[in]), b = value_range(r, node->out[out]);
  bool allowed = false;
  for (int i = 0; i < node->op->n_alias; i++)
    allowed |= node->op->alias[i].in == in && node->op->alias[i].out == out;
  return allowed && a.begin == b.begin && a.end == b.end;
}

static void node_replay(replay *r, hr_id id) {
  const hr_node *node = &r->plan->graph->nodes[id];
  range work = workspace_range(r, id);
  for (int i = 0; i < node->n_in; i++)
    if (node->in[i] != HR_NONE)
      expect_whole(r, id, value_range(r, node->in[i]), value_stamp(node->in[i]), "lost operand", i);
  stamp_put(r, work, workspace_stamp(r, id));
  for (int i = 0; i < node->n_in; i++)
    if (node->in[i] != HR_NONE)
      expect_whole(r, id, value_range(r, node->in[i]), value_stamp(node->in[i]), "workspace lies on operand", i);
  for (int j = 0; j < node->n_out; j++)
    stamp_put(r, value_range(r, node->out[j]), value_stamp(node->out[j]));
  expect_whole(r, id, work, workspace_stamp(r, id), "a result lies on the workspace", 0);
  for (int j = 0; j < node->n_out; j++)
    expect_whole(r, id, value_range(r, node->out[j]), value_stamp(node->out[j]), "results overlap", j);
  for (int i = 0; i < node->n_in; i++) {
    if (node->in[i] == HR_NONE) continue;
    bool taken = false;
    for (int j = 0; j < node->n_out; j++)
      taken |= in_place(r, node, i, j);
    if (!taken) expect_whole(r, id, value_range(r, node->in[i]), value_stamp(node->in[i]), "overwritten operand", i);
  }
}

static void program_replay(replay *r, hr_id program) {
  const hr_graph *graph = r->plan->graph;
  const hr_program *p = &graph->programs[program];
  memset(r->stamp, 0, r->plan->tiers[HR_TIER_DEVICE].arena_bytes * sizeof *r->stamp);
  for (hr_id v = 0; v < graph->n_values; v++) { /* what is there before: persistent values, and the host's inputs */
    const hr_buffer *buffer = &graph->buffers[graph->values[v].buffer];
    if (graph->values[v].producer == HR_NONE && graph->values[v].base == HR_NONE &&
        (buffer->persistent || buffer->program == program))
      stamp_put(r, value_range(r, v), value_stamp(v));
  }
  for (hr_id n = p->first; n < p->first + p->count; n++)
    node_replay(r, n);
  for (int i = 0; i < p->n_outputs; i++)
    expect_whole(r, p->first + p->count - 1, value_range(r, p->output[i].value), value_stamp(p->output[i].value),
                 "lost output of the program", i);
}

static const char *plan_replay(replay *r) {
  r->fault[0] = '\0';
  for (hr_id p = 0; p < r->plan->graph->n_programs; p++)
    program_replay(r, p);
  return r->fault;
}

/* --- the model -------------------------------------------------------------------------------------------------- */

static const char recipe_text[] = "model:\n"
                                  "  family: llama\n"
                                  "  config: { hidden_size: 16, num_hidden_layers: 2, num_attention_heads: 4,\n"
                                  "            num_key_value_heads: 2, intermediate_size: 24, vocab_size: 32 }\n"
                                  "data: { sequence_length: 8 }\n"
                                  "training: { batch_size: 2, clip_norm: 1 }\n";

typedef struct model {
  hr_recipe *recipe;
  hr_graph *graph;
  hr_plan *plan;
  replay r;
} model;

static void model_open(model *m, const char *const *overrides, size_t n) {
  hr_key_table tables[HR_COMPILE_TABLES];
  hr__compile_tables(tables);
  hr_facts facts = test_facts();
  hr_error err = {0};
  *m = (model){0};
  if (hr__recipe_parse("t.yaml", ".", recipe_text, sizeof recipe_text - 1, overrides, n, tables, HR_COMPILE_TABLES,
                       &m->recipe, &err) != HR_OK ||
      hr__compile(m->recipe, NULL, "offload", &m->graph, &err) != HR_OK)
    fail_msg("%s: %s", err.place, err.message);
  m->plan = test_plan(m->graph, &facts, 1);
  m->r.plan = m->plan;
  m->r.stamp = hr__alloc_zero(m->plan->tiers[HR_TIER_DEVICE].arena_bytes, sizeof *m->r.stamp);
  assert_non_null(m->r.stamp);
}

static void model_close(model *m) {
  hr__free(m->r.stamp);
  hr__plan_destroy(m->plan);
  hr__graph_destroy(m->graph);
  hr__recipe_destroy(m->recipe);
}

static void test_llama(void **state) {
  (void)state;
  static const char *const precisions[] = {"model.precision=32-true", "model.precision=bf16-true"};
  static const char *const batches[] = {"training.gradient_accumulation=1", "training.gradient_accumulation=2"};
  for (int p = 0; p < 2; p++) {
    for (int b = 0; b < 2; b++) {
      model m;
      model_open(&m, (const char *const[]){precisions[p], batches[b], "training.eval_every=3"}, 3);
      assert_int_equal(m.graph->n_programs, b == 0 ? 2 : 4);
      if (plan_replay(&m.r)[0]) fail_msg("%s %s: %s", precisions[p], batches[b], m.r.fault);
      model_close(&m);
    }
  }
}

/* Whether a node from `first` to the end of its program reads the value. */
static bool read_from(const hr_graph *g, hr_id value, hr_id first) {
  const hr_program *p = &g->programs[g->nodes[first - 1].program];
  for (hr_id n = first; n < p->first + p->count; n++)
    for (int i = 0; i < g->nodes[n].n_in; i++)
      if (g->nodes[n].in[i] == value) return true;
  return false;
}

/* Puts a result onto an operand that is still read later, for every such pair: each must be noticed. */
static void test_wrong_takeovers_are_found(void **state) {
  (void)state;
  model m;
  model_open(&m, NULL, 0);
  const hr_graph *g = m.graph;
  int planted = 0;
  for (hr_id n = 0; n < g->n_nodes; n++) {
    const hr_node *node = &g->nodes[n];
    for (int i = 0; i < node->n_in; i++) {
      hr_id in = node->in[i], out = node->out[0];
      if (in == HR_NONE || g->buffers[g->values[out].buffer].persistent || !read_from(g, in, n + 1)) continue;
      size_t bytes = hr_desc_bytes(&g->values[out].desc);
      if (bytes == 0 || bytes != hr_desc_bytes(&g->values[in].desc)) continue;
      hr_id *slot = &m.plan->slot_of_buffer[g->values[out].buffer], right = *slot;
      *slot = m.plan->slot_of_buffer[g->values[in].buffer];
      if (plan_replay(&m.r)[0] == '\0') fail_msg("node %u: result 0 on operand %d was not noticed", n, i);
      *slot = right;
      planted++;
    }
  }
  assert_true(planted >= 10);
  assert_string_equal(plan_replay(&m.r), "");
  model_close(&m);
}

/* Moves slots one alignment down, onto whatever lies below: what is alive there must be missed. */
static void test_wrong_offsets_are_found(void **state) {
  (void)state;
  model m;
  model_open(&m, NULL, 0);
  int planted = 0, found = 0;
  for (size_t s = 0; s < m.plan->n_slots; s++) {
    hr_slot *slot = &m.plan->slots[s];
    bool on_another = false;
    for (size_t o = 0; o < m.plan->n_slots; o++) {
      const hr_slot *below = &m.plan->slots[o];
      on_another |= below->bytes > 0 && below->offset + below->bytes == slot->offset && below->program != HR_NONE &&
                    slot->program == below->program && below->first < slot->first && slot->last < below->last;
    }
    if (!on_another || slot->bytes == 0) continue;
    slot->offset -= m.plan->facts.alignment;
    found += plan_replay(&m.r)[0] != '\0';
    slot->offset += m.plan->facts.alignment;
    planted++;
  }
  assert_true(planted >= 5);
  /* the last bytes of a slot can be rounding, which nobody misses */
  assert_true(2 * found > planted);
  model_close(&m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_llama),
      cmocka_unit_test(test_wrong_takeovers_are_found),
      cmocka_unit_test(test_wrong_offsets_are_found),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
