/* Building a plan: lifetimes -> slots -> offsets -> peak and seconds. */
#include "plan/plan.h"

#include <string.h>

#include "plan/building.h"
#include "plan/fingerprint.h"
#include "plan/simulate.h"

const char *hr_category_name(hr_category category) {
  static const char *const names[HR_CAT_COUNT] = {
#define HR_CATEGORY_NAME(code, name) [code] = name,
      HR_CATEGORY_MAP(HR_CATEGORY_NAME)
#undef HR_CATEGORY_NAME
  };
  return names[category];
}

/* --- nodes: threads, seconds, workspace ------------------------------------------------------------------------- */

static hr_status kernel_check(const hr_building *b, const hr_node *node, const hr_op_view *view, hr_device_kind kind) {
  const hr_op *op = node->op;
  bool by_input = op->typed_by < view->n_in && view->in[op->typed_by].rank > 0;
  hr_dtype dtype = by_input ? view->in[op->typed_by].dtype : view->out[0].dtype;
  if (op->dtypes[kind] & HR_DTYPE_BIT(dtype)) {
    hr_error why = {0};
    hr_status status = op->limits ? op->limits(view, kind, &why) : HR_OK;
    return status == HR_OK ? HR_OK : hr__fail(b->err, status, node->module, why.remedy, "%s", why.message);
  }
  return hr__fail(b->err, HR_UNSUPPORTED, node->module, "choose another memory.device or model.precision",
                  "there is no %s kernel of '%s' for %s", hr_device_kind_name(kind), op->name, hr_dtype_name(dtype));
}

static hr_status node_plan(hr_building *b, hr_id id, uint32_t position, hr_desc *storage) {
  hr_plan *plan = b->plan;
  const hr_node *node = &b->graph->nodes[id];
  plan->workspace_of_node[id] = HR_NONE;
  if (b->options->effort == HR_EFFORT_SKETCH && node->op->transfer)
    return HR_OK; /* the simulation says how long they take */
  hr_op_view view = hr__node_view(b->graph, node, storage);
  hr_device_kind kind = node->place == HR_ON_HOST ? HR_CPU : plan->facts.kind;
  if (!node->op->transfer) HR_TRY(kernel_check(b, node, &view, kind));

  const hr_node *before = position > 0 ? node - 1 : NULL;
  view.follows = before && before->op == node->op && before->place == node->place;
  bool aside = kind == HR_CPU && b->rates->host; /* left to the CPU of a machine with a GPU */
  const hr_rates *rates = aside ? b->rates->host : b->rates;
  int available = aside ? rates->threads : plan->facts.threads;
  int threads = hr__rates_node(rates, node->op, &view, available, &plan->seconds_of_node[id]);
  plan->threads_of_node[id] = threads;
  if (plan->facts.compiled && node->op->products) node->op->products(&view, threads, &b->products);
  if (b->products.failed) return hr__nomem(b->err);

  size_t bytes = node->op->workspace ? node->op->workspace(&view, kind, threads) : 0;
  if (bytes == 0) return HR_OK;
  hr_slot slot = {.name = b->options->effort == HR_EFFORT_SKETCH
                              ? node->module
                              : hr__arena_format(&plan->arena, "%s:%s:workspace", node->module, node->op->name),
                  .module = node->module,
                  .tier = node->place == HR_ON_HOST ? HR_TIER_HOST : HR_TIER_DEVICE,
                  .category = HR_CAT_WORKSPACE,
                  .program = node->program,
                  .bytes = bytes,
                  .first = position,
                  .last = position};
  if (!slot.name) return hr__nomem(b->err);
  return hr__slot_add(b, slot, &plan->workspace_of_node[id]);
}

static hr_status segments_plan(hr_building *b, const hr_program *program, hr_program_plan *out) {
  out->segments = hr__arena_array(&b->plan->arena, program->count, sizeof *out->segments);
  if (!out->segments) return hr__nomem(b->err);
  for (hr_id n = program->first; n < program->first + program->count; n++) {
    hr_place place = b->graph->nodes[n].place;
    if (out->n_segments == 0 || out->segments[out->n_segments - 1].place != place)
      out->segments[out->n_segments++] = (hr_segment){.place = place, .first = n};
    out->segments[out->n_segments - 1].count++;
  }
  return HR_OK;
}

static hr_status program_plan(hr_building *b, hr_id id, hr_desc *storage) {
  hr_plan *plan = b->plan;
  const hr_program *program = &b->graph->programs[id];
  hr_program_plan *out = &plan->programs[id];
  HR_TRY(segments_plan(b, program, out));
  size_t from = plan->n_slots;
  HR_TRY(hr__slots_transient(b, id));
  for (hr_id i = 0; i < program->count; i++) {
    HR_TRY(node_plan(b, program->first + i, i, storage));
  }
  double *done = hr__arena_array(&b->scratch, b->graph->n_nodes + 1, sizeof *done);
  if (!done) return hr__nomem(b->err);
  out->seconds = hr__simulate(b->graph, id, b->rates, plan->seconds_of_node, done) + b->rates->gpu.program_seconds;
  HR_TRY(hr__offsets_find(b, from, id));
  out->peak_node = b->peaks[id][HR_TIER_DEVICE];
  hr__peak_name(b, id);
  return HR_OK;
}

/* The arena is taken and touched as a whole before anything is loaded and given back at the end; loading reads straight
 * into place and saving writes straight out of it. So every phase holds the same: the whole arena and the fixed costs.
 */
static void phases_finish(hr_plan *plan) {
  uint64_t all = plan->tiers[HR_TIER_DEVICE].peak_bytes;
  plan->phases = (hr_phases){all, all, all, all, all, all};
}

double hr__program_runs(const hr_program *program, int64_t accumulation) {
  hr_program_kind kind = program->key.kind;
  if (program->key.bucket > 0) return 0;
  if (kind == HR_PROGRAM_MICRO_NEXT) return (double)(accumulation - 1);
  return kind == HR_PROGRAM_STEP || kind == HR_PROGRAM_MICRO_FIRST || kind == HR_PROGRAM_UPDATE ||
         kind == HR_PROGRAM_FEATURES;
}

/* Where nothing is trained, a step is one token of each sequence: the program for the shortest samples. */
static double step_seconds(const hr_plan *plan, int accumulation) {
  double seconds = 0, token = 0;
  bool trains = false;
  int shortest = -1;
  for (size_t p = 0; p < plan->graph->n_programs; p++) {
    const hr_program *program = &plan->graph->programs[p];
    trains |= program->key.kind != HR_PROGRAM_GENERATE;
    seconds += hr__program_runs(program, accumulation) * plan->programs[p].seconds;
    if (program->key.bucket > shortest) {
      shortest = program->key.bucket;
      token = plan->programs[p].seconds;
    }
  }
  return trains ? seconds : token;
}

/* --- the whole -------------------------------------------------------------------------------------------------- */

static hr_status tables_create(hr_building *b, hr_desc **storage) {
  const hr_graph *graph = b->graph;
  hr_plan *plan = b->plan;
  size_t operands = 1;
  for (size_t n = 0; n < graph->n_nodes; n++) {
    size_t has = (size_t)(graph->nodes[n].n_in + graph->nodes[n].n_out);
    if (has > operands) operands = has;
  }
  *storage = hr__arena_array(&b->scratch, operands, sizeof **storage);
  b->lifetimes = hr__arena_array(&b->scratch, graph->n_buffers, sizeof *b->lifetimes);
  b->peaks = hr__arena_array(&b->scratch, graph->n_programs, sizeof *b->peaks);
  plan->slot_of_buffer = hr__arena_array(&plan->arena, graph->n_buffers, sizeof *plan->slot_of_buffer);
  plan->workspace_of_node = hr__arena_array(&plan->arena, graph->n_nodes, sizeof *plan->workspace_of_node);
  plan->threads_of_node = hr__arena_array(&plan->arena, graph->n_nodes, sizeof *plan->threads_of_node);
  plan->seconds_of_node = hr__arena_array(&plan->arena, graph->n_nodes, sizeof *plan->seconds_of_node);
  plan->programs = hr__arena_array(&plan->arena, graph->n_programs, sizeof *plan->programs);
  if (!*storage || !b->lifetimes || !b->peaks || !plan->slot_of_buffer || !plan->workspace_of_node ||
      !plan->threads_of_node || !plan->seconds_of_node || !plan->programs)
    return hr__nomem(b->err);
  for (size_t i = 0; i < graph->n_buffers; i++)
    plan->slot_of_buffer[i] = HR_NONE;
  return HR_OK;
}

static hr_status plan_make(hr_building *b) {
  hr_desc *storage;
  HR_TRY(tables_create(b, &storage));
  HR_TRY(hr__lifetimes(b->graph, b->plan->facts.kind, b->lifetimes, b->err));
  HR_TRY(hr__slots_create(b));
  HR_TRY(hr__slots_persistent(b));
  for (hr_id p = 0; p < b->graph->n_programs; p++)
    HR_TRY(program_plan(b, p, storage));
  for (int t = 0; t < HR_TIER_COUNT; t++)
    HR_TRY(hr__peak_finish(b, (hr_tier)t));
  phases_finish(b->plan);
  b->plan->step_seconds = step_seconds(b->plan, b->options->accumulation);
  if (b->options->effort == HR_EFFORT_SKETCH || b->options->nameless) return HR_OK;
  return hr__plan_fingerprint(b->plan, b->plan->fingerprint, b->err);
}

hr_status hr__plan_build(const hr_graph *graph, const hr_facts *facts, const hr_rates *rates,
                         const hr_plan_options *options, hr_plan **out, hr_error *err) {
  hr_plan *plan = hr__alloc_zero(1, sizeof *plan);
  if (!plan) return hr__nomem(err);
  hr__arena_init(&plan->arena);
  plan->graph = graph;
  plan->facts = *facts;
  hr_building b = {.plan = plan, .graph = graph, .rates = rates, .options = options, .err = err};
  hr__arena_init(&b.scratch);
  b.products.arena = &b.scratch;
  hr_status status = plan_make(&b);
  hr__arena_fini(&b.scratch);
  if (status != HR_OK) {
    hr__plan_destroy(plan);
    return status;
  }
  *out = plan;
  return HR_OK;
}

void hr__plan_destroy(hr_plan *plan) {
  if (!plan) return;
  hr__arena_fini(&plan->arena);
  hr__free(plan);
}

size_t hr__plan_value_offset(const hr_plan *plan, hr_id value) {
  const hr_value *v = &plan->graph->values[value];
  return plan->slots[plan->slot_of_buffer[v->buffer]].offset + v->offset;
}

hr_tier hr__plan_value_tier(const hr_plan *plan, hr_id value) {
  return plan->graph->buffers[plan->graph->values[value].buffer].home;
}
