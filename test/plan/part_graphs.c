#include "plan/part_graphs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "dev/cpu/gemm_set.h"
#include "grad/grad.h"
#include "op/add.h"
#include "op/linear.h"
#include "op/mse.h"
#include "op/rmsnorm.h"
#include "op/rope.h"
#include "op/swiglu.h"
#include "pass/update.h"

hr_facts test_facts(void) {
  hr_facts facts = {.kind = HR_CPU,
                    .name = "test processor (2 threads)",
                    .memory_bytes = (uint64_t)8 << 30,
                    .fixed_bytes = 1000,
                    .alignment = 64,
                    .threads = 2,
                    .compiled = true};
  return facts;
}

hr_plan *test_plan(const hr_graph *graph, const hr_facts *facts, int accumulation) {
  hr_rates rates;
  hr_error err = {0};
  hr_plan *plan = NULL;
  hr__rates_default(facts, &rates);
  hr_status status =
      hr__plan_build(graph, facts, &rates, &(hr_plan_options){.accumulation = accumulation}, &plan, &err);
  hr__rates_fini(&rates);
  if (status != HR_OK) fail_msg("%s: %s", err.place, err.message);
  return plan;
}

uint64_t test_nodes_bytes(const hr_plan *plan) {
  const hr_graph *graph = plan->graph;
  hr_arena arena;
  hr_desc storage[64];
  uint64_t bytes = 0;
  hr__arena_init(&arena);
  hr_gemm_set set = {.arena = &arena};
  for (size_t n = 0; n < graph->n_nodes; n++) {
    const hr_op *op = graph->nodes[n].op;
    hr_op_view view = hr__node_view(graph, &graph->nodes[n], storage);
    bytes += op->transfer ? HR_COPY_NODE_BYTES : HR_NODE_BYTES + op->args_bytes + op->args_bytes / 2;
    if (op->products) op->products(&view, plan->threads_of_node[n], &set);
  }
  bytes += hr__gemm_set_shapes(&set) * HR_CODE_BYTES + hr__gemm_set_workers(&set) * HR_DESK_BYTES;
  hr__arena_fini(&arena);
  return bytes;
}

/* --- random graphs ---------------------------------------------------------------------------------------------- */

enum { POOL = 160, WIDTHS = 4 };

typedef struct pool {
  hr_builder *b;
  uint64_t graph, draws;
  int64_t rows, width[WIDTHS];
  hr_id value[POOL];
  bool used[POOL];
  int count, layers;
} pool;

static uint64_t draw(pool *p, uint64_t below) {
  return hr__random_below((hr_random_key){11, hr__random_stream("test.graphs")}, p->graph, p->draws++, below);
}

static int64_t value_width(const pool *p, int at) {
  return p->b->graph->values[p->value[at]].desc.dim[1];
}

static int pool_put(pool *p, hr_id value) {
  if (value == HR_NONE) fail_msg("graph %d: %s: %s", (int)p->graph, p->b->error.place, p->b->error.message);
  p->value[p->count] = value;
  p->used[p->count] = false;
  return p->count++;
}

/* Mostly one of the last values, sometimes a longer skip. */
static int pool_pick(pool *p) {
  uint64_t reach = draw(p, 12) ? 2 : 16;
  return p->count - 1 - (int)draw(p, (uint64_t)p->count < reach ? (uint64_t)p->count : reach);
}

static hr_id pool_linear(pool *p, int from, int64_t width) {
  char name[64];
  snprintf(name, sizeof name, "layers.%d.weight", p->layers++);
  p->used[from] = true;
  hr_id weight =
      hr__parameter(p->b, name, hr__desc2(HR_F32, width, value_width(p, from)), (hr_init){.rule = HR_INIT_ONE});
  return hr__linear(p->b, p->value[from], weight, HR_NONE);
}

static void pool_grow(pool *p) {
  int from = pool_pick(p);
  int64_t width = value_width(p, from);
  hr__module(p->b, "layers.%d", p->layers);
  switch (draw(p, 7)) {
  case 0:
  case 1:
    pool_put(p, pool_linear(p, from, p->width[draw(p, WIDTHS)]));
    break;
  case 2: {
    char name[64];
    snprintf(name, sizeof name, "layers.%d.weight", p->layers++);
    hr_id weight = hr__parameter(p->b, name, hr__desc1(HR_F32, width), (hr_init){.rule = HR_INIT_ONE});
    p->used[from] = true;
    pool_put(p, hr__rmsnorm(p->b, p->value[from], weight, 1e-5f));
    break;
  }
  case 3:
  case 4: { /* a gated pair of branches, back to the width it came from, with a residual */
    int64_t inner = p->width[draw(p, WIDTHS)];
    hr_id gate = pool_linear(p, from, inner), up = pool_linear(p, from, inner);
    int at = pool_put(p, hr__swiglu(p->b, gate, up));
    int down = pool_put(p, pool_linear(p, at, width));
    p->used[down] = true;
    pool_put(p, hr__add(p->b, p->value[from], p->value[down], 1.0f));
    break;
  }
  default: { /* join with any value of the same width */
    int other = pool_pick(p);
    if (value_width(p, other) != width) other = pool_put(p, pool_linear(p, other, width));
    p->used[from] = p->used[other] = true;
    pool_put(p, hr__add(p->b, p->value[from], p->value[other], 0.5f));
    break;
  }
  }
}

/* Everything nobody reads is brought to one width and summed, so that the loss depends on all of it. */
static hr_id pool_loss(pool *p, hr_id target) {
  int64_t width = p->width[0];
  int sum = -1;
  hr__module(p->b, "head");
  for (int i = 0, end = p->count; i < end; i++) {
    if (p->used[i]) continue;
    int at = value_width(p, i) == width ? i : pool_put(p, pool_linear(p, i, width));
    p->used[at] = true;
    sum = sum < 0 ? at : pool_put(p, hr__add(p->b, p->value[sum], p->value[at], 1.0f));
    p->used[sum] = true;
  }
  return hr__mse(p->b, p->value[sum], target);
}

static void program_build(hr_builder *b, uint64_t number, hr_program_kind kind, hr_grad_mode mode) {
  pool p = {.b = b, .graph = number};
  hr_error err = {0};
  hr__program_begin(b, kind);
  int steps = 3 + (int)draw(&p, 24);
  p.rows = 16 + 16 * (int64_t)draw(&p, 32);
  for (int i = 0; i < WIDTHS; i++)
    p.width[i] = 32 + 32 * (int64_t)draw(&p, 12);
  hr_dtype dtype = b->dtype;
  pool_put(&p, hr__input(b, "x", hr__desc2(dtype, p.rows, p.width[1])));
  hr_id target = hr__input(b, "target", hr__desc2(dtype, p.rows, p.width[0]));
  pool_put(&p, pool_linear(&p, 0, p.width[0]));
  for (int i = 0; i < steps; i++)
    pool_grow(&p);
  hr_loss loss = {pool_loss(&p, target), 1.0f};
  hr__program_set_output(b, "loss", loss.value);
  if (hr__grad(b, &loss, 1, mode, &err) != HR_OK) fail_msg("graph %d: %s %s", (int)number, err.place, err.message);
}

hr_graph *test_random_graph(uint64_t number) {
  static const hr_update_settings settings = {.beta1 = 0.9f, .beta2 = 0.99f, .eps = 1e-8f, .clip_norm = 1.0f};
  hr_graph *graph;
  hr_builder b;
  hr_error err = {0};
  assert_int_equal(hr__graph_create(&graph, &err), HR_OK);
  hr__builder_init(&b, graph, number % 4 == 3 ? HR_BF16 : HR_F32);
  if (number % 5 == 4) {
    program_build(&b, number, HR_PROGRAM_MICRO_FIRST, HR_GRAD_WRITE);
    program_build(&b, number, HR_PROGRAM_MICRO_NEXT, HR_GRAD_ACCUMULATE);
    hr__program_begin(&b, HR_PROGRAM_UPDATE);
  } else {
    program_build(&b, number, HR_PROGRAM_STEP, HR_GRAD_TRANSIENT);
  }
  if (number % 5 == 4 || number % 2 == 0) {
    if (hr__update_emit(&b, &settings, &err) != HR_OK) fail_msg("graph %d: %s", (int)number, err.message);
  }
  if (hr__graph_verify(graph, &err) != HR_OK) fail_msg("graph %d: %s %s", (int)number, err.place, err.message);
  return graph;
}

/* --- replay ----------------------------------------------------------------------------------------------------- */

typedef struct range {
  hr_tier tier;
  size_t begin, end;
} range;

typedef struct held {
  range at;
  hr_id value;
} held;

typedef struct replay {
  const hr_plan *plan;
  held *held;
  size_t count;
} replay;

static bool ranges_meet(range a, range b) {
  return a.tier == b.tier && a.begin < b.end && b.begin < a.end;
}

static range value_range(const hr_plan *plan, hr_id value) {
  const hr_value *v = &plan->graph->values[value];
  size_t begin = hr__plan_value_offset(plan, value);
  range at = {hr__plan_value_tier(plan, value), begin, begin + hr_desc_bytes(&v->desc)};
  assert_true(at.end <= plan->tiers[at.tier].arena_bytes);
  return at;
}

static void replay_write(replay *r, range at, hr_id value) {
  size_t kept = 0;
  for (size_t i = 0; i < r->count; i++)
    if (!ranges_meet(r->held[i].at, at)) r->held[kept++] = r->held[i];
  r->count = kept;
  if (value != HR_NONE) r->held[r->count++] = (held){at, value};
}

static void replay_read(const replay *r, hr_id value, hr_id node) {
  if (hr_desc_bytes(&r->plan->graph->values[value].desc) == 0) return;
  const hr_value *v = &r->plan->graph->values[value];
  if (v->base != HR_NONE && v->producer == HR_NONE) value = v->base; /* a field of a batch */
  for (size_t i = 0; i < r->count; i++)
    if (r->held[i].value == value) return;
  fail_msg("node %u: %s is gone", node, r->plan->graph->values[value].name);
}

static bool alias_allowed(const hr_op *op, int in, int out) {
  for (int a = 0; a < op->n_alias; a++)
    if (op->alias[a].in == in && op->alias[a].out == out) return true;
  return false;
}

static void replay_node(replay *r, hr_id id) {
  const hr_plan *plan = r->plan;
  const hr_node *node = &plan->graph->nodes[id];
  range work = {HR_TIER_DEVICE, 0, 0};
  if (plan->workspace_of_node[id] != HR_NONE) {
    const hr_slot *slot = &plan->slots[plan->workspace_of_node[id]];
    work = (range){slot->tier, slot->offset, slot->offset + slot->bytes};
  }
  for (int i = 0; i < node->n_in; i++) {
    if (node->in[i] == HR_NONE) continue;
    replay_read(r, node->in[i], id);
    assert_false(ranges_meet(work, value_range(plan, node->in[i])));
  }
  for (int j = 0; j < node->n_out; j++) {
    range at = value_range(plan, node->out[j]);
    assert_false(ranges_meet(work, at));
    for (int k = 0; k < j; k++)
      assert_false(ranges_meet(at, value_range(plan, node->out[k])));
    for (int i = 0; i < node->n_in; i++) {
      if (node->in[i] == HR_NONE || !ranges_meet(at, value_range(plan, node->in[i]))) continue;
      assert_true(alias_allowed(node->op, i, j));
      assert_int_equal(at.begin, value_range(plan, node->in[i]).begin);
    }
  }
  replay_write(r, work, HR_NONE);
  for (int j = 0; j < node->n_out; j++)
    replay_write(r, value_range(plan, node->out[j]), node->out[j]);
}

/* Values that are there before a program starts: persistent ones, and the program's inputs. */
static bool value_given(const hr_graph *graph, hr_id value, hr_id program) {
  const hr_value *v = &graph->values[value];
  const hr_buffer *buffer = &graph->buffers[v->buffer];
  return v->producer == HR_NONE && v->base == HR_NONE && (buffer->persistent || buffer->program == program);
}

static void replay_program(replay *r, hr_id id) {
  const hr_plan *plan = r->plan;
  const hr_graph *graph = plan->graph;
  const hr_program *program = &graph->programs[id];
  r->count = 0;
  for (hr_id v = 0; v < graph->n_values; v++) {
    if (!value_given(graph, v, id)) continue;
    range at = value_range(plan, v);
    for (size_t i = 0; i < r->count; i++)
      assert_false(ranges_meet(r->held[i].at, at));
    r->held[r->count++] = (held){at, v};
  }
  for (hr_id n = program->first; n < program->first + program->count; n++)
    replay_node(r, n);
  for (int i = 0; i < program->n_outputs; i++)
    replay_read(r, program->output[i].value, program->first + program->count);
  for (hr_id b = 0; b < graph->n_buffers; b++) { /* state is still held by a value of its own buffer */
    if (!graph->buffers[b].persistent) continue;
    size_t bytes = 0;
    for (size_t i = 0; i < r->count; i++)
      if (graph->values[r->held[i].value].buffer == b) bytes += r->held[i].at.end - r->held[i].at.begin;
    assert_int_equal(bytes, graph->buffers[b].bytes);
  }
}

void test_replay(const hr_plan *plan) {
  replay r = {.plan = plan, .held = hr__alloc_zero(plan->graph->n_values + 1, sizeof(held))};
  assert_non_null(r.held);
  for (hr_id p = 0; p < plan->graph->n_programs; p++)
    replay_program(&r, p);
  hr__free(r.held);
}
