/* Building a plan: lifetimes -> slots -> offsets -> peak and seconds. */
#include "plan/plan.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "plan/fingerprint.h"
#include "plan/lifetimes.h"
#include "plan/pack.h"
#include "plan/simulate.h"

const char *hr_category_name(hr_category category) {
  static const char *const names[HR_CAT_COUNT] = {
#define HR_CATEGORY_NAME(code, name) [code] = name,
      HR_CATEGORY_MAP(HR_CATEGORY_NAME)
#undef HR_CATEGORY_NAME
  };
  return names[category];
}

typedef struct building {
  hr_plan *plan;
  const hr_graph *graph;
  const hr_rates *rates;
  uint64_t pack_effort;
  bool glance, draft, sketch;
  uint64_t budget_bytes;
  hr_arena scratch;
  hr_lifetime *lifetimes; /* per buffer */
  hr_error *err;
} building;

static hr_status size_refuse(const building *b, const char *name) {
  return hr__fail(b->err, HR_BAD_INPUT, name, "make the model or the batch smaller",
                  "the plan is larger than the address space");
}

/* Appends a slot; `bytes` is rounded up here. There is room for every buffer and every workspace. */
static hr_status slot_add(building *b, hr_slot slot, hr_id *id) {
  size_t alignment = slot.tier == HR_TIER_DISK ? HR_DISK_ALIGNMENT : b->plan->facts.alignment;
  if (!hr__round_up(slot.bytes, alignment, &slot.bytes)) return size_refuse(b, slot.name);
  *id = (hr_id)b->plan->n_slots;
  b->plan->slots[b->plan->n_slots++] = slot;
  return HR_OK;
}

/* --- nodes: threads, seconds, workspace ------------------------------------------------------------------------- */

static hr_status kernel_check(const building *b, const hr_node *node, const hr_op_view *view, hr_device_kind kind) {
  const hr_op *op = node->op;
  bool by_input = op->typed_by < view->n_in && view->in[op->typed_by].rank > 0;
  hr_dtype dtype = by_input ? view->in[op->typed_by].dtype : view->out[0].dtype;
  if (op->dtypes[kind] & HR_DTYPE_BIT(dtype)) return HR_OK;
  return hr__fail(b->err, HR_UNSUPPORTED, node->module, "choose another memory.device or model.precision",
                  "there is no %s kernel of '%s' for %s", hr_device_kind_name(kind), op->name, hr_dtype_name(dtype));
}

static hr_status node_plan(building *b, hr_id id, uint32_t position, hr_desc *storage) {
  hr_plan *plan = b->plan;
  const hr_node *node = &b->graph->nodes[id];
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

  plan->workspace_of_node[id] = HR_NONE;
  size_t bytes = node->op->workspace ? node->op->workspace(&view, kind, threads) : 0;
  if (bytes == 0) return HR_OK;
  hr_slot slot = {.name = b->sketch ? node->module
                                    : hr__arena_format(&plan->arena, "%s:%s:workspace", node->module, node->op->name),
                  .tier = node->place == HR_ON_HOST ? HR_TIER_HOST : HR_TIER_DEVICE,
                  .category = HR_CAT_WORKSPACE,
                  .program = node->program,
                  .bytes = bytes,
                  .first = position,
                  .last = position};
  if (!slot.name) return hr__nomem(b->err);
  return slot_add(b, slot, &plan->workspace_of_node[id]);
}

static hr_status segments_plan(building *b, const hr_program *program, hr_program_plan *out) {
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

/* --- slots of buffers ------------------------------------------------------------------------------------------- */

typedef struct persistent_key {
  hr_role role;
  hr_id buffer;
} persistent_key;

static int persistent_compare(const void *a, const void *b) {
  const persistent_key *x = a, *y = b;
  if (x->role != y->role) return x->role < y->role ? -1 : 1;
  return x->buffer < y->buffer ? -1 : 1;
}

/* Persistent buffers, by role and then as the graph has them, one after another from the bottom of their tier. */
static hr_status persistent_plan(building *b) {
  const hr_graph *graph = b->graph;
  hr_plan *plan = b->plan;
  persistent_key *keys = hr__arena_array(&b->scratch, graph->n_buffers, sizeof *keys);
  if (!keys) return hr__nomem(b->err);
  size_t count = 0;
  for (hr_id i = 0; i < graph->n_buffers; i++)
    if (graph->buffers[i].persistent) keys[count++] = (persistent_key){graph->buffers[i].role, i};
  qsort(keys, count, sizeof *keys, persistent_compare);
  for (size_t k = 0; k < count; k++) {
    const hr_buffer *buffer = &graph->buffers[keys[k].buffer];
    size_t *bottom = &plan->tiers[buffer->home].persistent_bytes;
    hr_slot slot = {.name = buffer->name,
                    .tier = buffer->home,
                    .category = hr__role_category(buffer->role),
                    .program = HR_NONE,
                    .bytes = buffer->bytes,
                    .last = UINT32_MAX,
                    .offset = *bottom};
    hr_id *id = &plan->slot_of_buffer[keys[k].buffer];
    HR_TRY(slot_add(b, slot, id));
    if (!hr__add_size(*bottom, plan->slots[*id].bytes, bottom)) return size_refuse(b, buffer->name);
  }
  return HR_OK;
}

/* One slot per home of a program's buffers. A home comes before what took it over, so its slot exists by then. */
static hr_status transients_plan(building *b, hr_id program) {
  const hr_graph *graph = b->graph;
  hr_plan *plan = b->plan;
  for (hr_id i = 0; i < graph->n_buffers; i++) {
    const hr_buffer *buffer = &graph->buffers[i];
    const hr_lifetime *life = &b->lifetimes[i];
    if (buffer->persistent || buffer->program != program || !life->used || life->home != i) continue;
    hr_slot slot = {.name = buffer->name,
                    .tier = buffer->home,
                    .category = hr__role_category(buffer->role),
                    .program = program,
                    .bytes = buffer->bytes,
                    .first = life->first,
                    .last = life->last};
    HR_TRY(slot_add(b, slot, &plan->slot_of_buffer[i]));
  }
  for (hr_id i = 0; i < graph->n_buffers; i++) {
    if (!graph->buffers[i].persistent && graph->buffers[i].program == program && b->lifetimes[i].used)
      plan->slot_of_buffer[i] = plan->slot_of_buffer[b->lifetimes[i].home];
  }
  return HR_OK;
}

/* Fixed costs that grow with the graph. */
static uint64_t nodes_bytes(const hr_graph *graph, hr_device_kind kind) {
  if (kind == HR_CUDA) return HR_CUDA_LIBRARY_BYTES + (uint64_t)graph->n_nodes * HR_CUDA_NODE_BYTES;
  uint64_t bytes = 0;
  for (size_t n = 0; n < graph->n_nodes; n++)
    bytes += graph->nodes[n].op->transfer ? HR_COPY_NODE_BYTES : HR_NODE_BYTES;
  return bytes;
}

/* --- offsets ---------------------------------------------------------------------------------------------------- */

/* Enough for thousands of new layouts of a small program, for ten of a large one: 0.1 s at most. */
static uint64_t effort_default(size_t count) {
  return 90000000 / (count + 100);
}

/* What a layout is wanted for: one of at most `enough` is worth no more effort, one above `most` is of no use. */
typedef struct wanted {
  size_t enough, most;
} wanted;

enum {
  LARGE = 4096
}; /* intervals: the default effort for as many is one or two layouts, each of a tenth of a second */

/* With the default effort; and with more of it while the total is above what is wanted, each time also with crumbs
 * apart, which costs a little where the plain way meets the bound: the best of all. That is rare (layouts of training
 * steps meet their bound) and then takes seconds at worst, the most of them only where a budget hangs on it. The first
 * layout of a draft is good enough, and so is that of a set whose bound is too much. */
static hr_status pack_default(const hr_interval *intervals, size_t count, bool draft, size_t bound_bytes, wanted want,
                              hr_arena *scratch, size_t *offsets, hr_packing *packing, hr_error *err) {
  static const struct {
    uint64_t effort;
    bool apart;
  } attempts[] = {{6, false}, {6, true}, {12, false}, {12, true}, {48, false}, {48, true}};
  enum { USUAL = 2 };
  uint64_t first = count > LARGE && bound_bytes > want.most ? 0 : effort_default(count); /* 0: one layout */
  HR_TRY(hr__pack(intervals, count, first, offsets, packing, err));
  if (draft || bound_bytes > want.most) return HR_OK;
  size_t *tried = hr__arena_array(scratch, count, sizeof *tried);
  if (!tried) return hr__nomem(err);
  for (size_t i = 0; packing->total_bytes > want.enough && i < sizeof attempts / sizeof *attempts; i++) {
    if (i >= USUAL && packing->total_bytes <= want.most) break;
    hr_packing trial;
    uint64_t effort = attempts[i].effort * effort_default(count);
    HR_TRY((attempts[i].apart ? hr__pack_apart : hr__pack)(intervals, count, effort, tried, &trial, err));
    if (trial.total_bytes >= packing->total_bytes) continue;
    *packing = trial;
    memcpy(offsets, tried, count * sizeof *tried);
  }
  return HR_OK;
}

/* One layout, and only where that is above what is wanted, and quick to do, those of the default effort. */
static hr_status pack_glance(const hr_interval *intervals, size_t count, size_t most, size_t *offsets,
                             hr_packing *packing, hr_error *err) {
  HR_TRY(hr__pack(intervals, count, 0, offsets, packing, err));
  if (packing->total_bytes <= most || packing->lower_bound_bytes > most || count > LARGE) return HR_OK;
  return hr__pack(intervals, count, effort_default(count), offsets, packing, err);
}

/* The largest sum of live bytes in place of a layout. */
static hr_status tier_bound(building *b, size_t from, hr_tier tier, hr_program_plan *out) {
  const hr_plan *plan = b->plan;
  uint32_t count = b->graph->programs[out - plan->programs].count;
  size_t *change = hr__arena_array(&b->scratch, (size_t)count + 2, sizeof *change), live = 0;
  if (!change) return hr__nomem(b->err);
  for (size_t s = from; s < plan->n_slots; s++) {
    if (plan->slots[s].tier != tier) continue;
    change[plan->slots[s].first] += plan->slots[s].bytes;
    change[plan->slots[s].last + 1] -= plan->slots[s].bytes;
  }
  for (uint32_t i = 0; i < count; i++) { /* sums wrap around on the way, and are right */
    live += change[i];
    if (live > out->lower_bound_bytes[tier]) out->lower_bound_bytes[tier] = live;
  }
  out->transient_bytes[tier] = out->lower_bound_bytes[tier];
  return HR_OK;
}

/* Of a program's transients: 1 % above the bound, or what programs before this one need anyway; and no more than the
 * budget of the device leaves. Without a budget all the effort goes into the first. */
static wanted transients_wanted(const building *b, hr_tier tier, const hr_program_plan *program) {
  const hr_plan *plan = b->plan;
  size_t persistent = plan->tiers[tier].persistent_bytes, bound = program->lower_bound_bytes[tier];
  wanted want = {.enough = bound + (persistent + bound) / 100};
  for (const hr_program_plan *before = plan->programs; before < program; before++)
    if (before->transient_bytes[tier] > want.enough) want.enough = before->transient_bytes[tier];
  want.most = want.enough;
  if (b->budget_bytes == 0 || tier != HR_TIER_DEVICE) return want;
  uint64_t taken = persistent + plan->facts.fixed_bytes + nodes_bytes(b->graph, plan->facts.kind);
  want.most = taken < b->budget_bytes ? b->budget_bytes - taken : 0;
  if (want.most < want.enough) want.enough = want.most;
  return want;
}

/* Lays out slots[from..n_slots) of one tier above the persistent part. */
static hr_status tier_pack(building *b, size_t from, hr_tier tier, hr_program_plan *out) {
  hr_plan *plan = b->plan;
  size_t room = plan->n_slots - from, count = 0;
  hr_interval *intervals = hr__arena_array(&b->scratch, room, sizeof *intervals);
  size_t *offsets = hr__arena_array(&b->scratch, room, sizeof *offsets);
  if (!intervals || !offsets) return hr__nomem(b->err);
  for (size_t s = from; s < plan->n_slots; s++) {
    const hr_slot *slot = &plan->slots[s];
    if (slot->tier == tier && slot->bytes > 0) intervals[count++] = (hr_interval){slot->first, slot->last, slot->bytes};
  }
  hr_packing packing;
  wanted want = transients_wanted(b, tier, out);
  if (b->pack_effort)
    HR_TRY(hr__pack(intervals, count, b->pack_effort, offsets, &packing, b->err));
  else if (b->glance)
    HR_TRY(pack_glance(intervals, count, want.most, offsets, &packing, b->err));
  else
    HR_TRY(pack_default(intervals, count, b->draft, out->lower_bound_bytes[tier], want, &b->scratch, offsets, &packing,
                        b->err));
  out->transient_bytes[tier] = packing.total_bytes;
  out->lower_bound_bytes[tier] = packing.lower_bound_bytes;
  size_t bottom = plan->tiers[tier].persistent_bytes, top;
  if (!hr__add_size(bottom, packing.total_bytes, &top)) return size_refuse(b, hr_tier_name(tier));
  count = 0;
  for (size_t s = from; s < plan->n_slots; s++) {
    hr_slot *slot = &plan->slots[s];
    if (slot->tier == tier) slot->offset = bottom + (slot->bytes > 0 ? offsets[count++] : 0);
  }
  return HR_OK;
}

static hr_status program_plan(building *b, hr_id id, hr_desc *storage) {
  hr_plan *plan = b->plan;
  const hr_program *program = &b->graph->programs[id];
  hr_program_plan *out = &plan->programs[id];
  HR_TRY(segments_plan(b, program, out));
  size_t from = plan->n_slots;
  HR_TRY(transients_plan(b, id));
  for (hr_id i = 0; i < program->count; i++) {
    HR_TRY(node_plan(b, program->first + i, i, storage));
  }
  double *done = hr__arena_array(&b->scratch, b->graph->n_nodes + 1, sizeof *done);
  if (!done) return hr__nomem(b->err);
  out->seconds = hr__simulate(b->graph, id, b->rates, plan->seconds_of_node, done) + b->rates->gpu.program_seconds;
  for (int t = 0; t < HR_TIER_COUNT; t++)
    HR_TRY(tier_bound(b, from, (hr_tier)t, out));
  for (int t = 0; t < HR_TIER_COUNT && !b->sketch; t++)
    HR_TRY(tier_pack(b, from, (hr_tier)t, out));
  return HR_OK;
}

/* --- peak ------------------------------------------------------------------------------------------------------- */

/* First position of a program at which the most bytes of a tier are alive. */
static hr_status peak_find(building *b, hr_id program, hr_tier tier, uint32_t *peak) {
  uint32_t count = b->graph->programs[program].count;
  size_t *come = hr__arena_array(&b->scratch, (size_t)count + 2, sizeof *come);
  size_t *gone = hr__arena_array(&b->scratch, (size_t)count + 2, sizeof *gone);
  if (!come || !gone) return hr__nomem(b->err);
  for (size_t s = 0; s < b->plan->n_slots; s++) {
    const hr_slot *slot = &b->plan->slots[s];
    if (slot->program != program || slot->tier != tier) continue;
    come[slot->first] += slot->bytes;
    gone[slot->last + 1] += slot->bytes;
  }
  size_t live = 0, most = 0;
  *peak = 0;
  for (uint32_t i = 0; i < count; i++) {
    live += come[i] - gone[i];
    if (live > most) {
      most = live;
      *peak = i;
    }
  }
  return HR_OK;
}

/* A slot that buffers share by takeover is reported as what it holds at its program's peak. */
static void slots_name(building *b, hr_id program) {
  hr_plan *plan = b->plan;
  for (hr_id i = 0; i < b->graph->n_buffers; i++) {
    const hr_buffer *buffer = &b->graph->buffers[i];
    if (buffer->persistent || buffer->program != program) continue;
    if (!hr__lifetime_holds(&b->lifetimes[i], plan->programs[program].peak_node)) continue;
    hr_slot *slot = &plan->slots[plan->slot_of_buffer[i]];
    slot->name = buffer->name;
    slot->category = hr__role_category(buffer->role);
  }
}

hr_id hr__plan_peak_program(const hr_plan *plan, hr_tier tier) {
  hr_id peak = HR_NONE;
  for (hr_id p = 0; p < plan->graph->n_programs; p++) {
    if (peak == HR_NONE || plan->programs[p].transient_bytes[tier] > plan->programs[peak].transient_bytes[tier])
      peak = p;
  }
  return peak;
}

static hr_status tier_finish(building *b, hr_tier tier) {
  hr_plan *plan = b->plan;
  hr_tier_plan *out = &plan->tiers[tier];
  hr_id program = hr__plan_peak_program(plan, tier);
  uint32_t position = 0;
  size_t most_live = 0;
  for (hr_id p = 0; p < b->graph->n_programs; p++) {
    if (plan->programs[p].lower_bound_bytes[tier] > most_live) most_live = plan->programs[p].lower_bound_bytes[tier];
  }
  if (program != HR_NONE) HR_TRY(peak_find(b, program, tier, &position));
  out->peak_node = position;
  out->arena_bytes = out->persistent_bytes + (program == HR_NONE ? 0 : plan->programs[program].transient_bytes[tier]);
  out->lower_bound_bytes = out->persistent_bytes + most_live;
  if (tier == HR_TIER_DEVICE) out->fixed_bytes = plan->facts.fixed_bytes + nodes_bytes(b->graph, plan->facts.kind);
  if (tier == HR_TIER_HOST && plan->facts.kind == HR_CUDA) out->fixed_bytes = HR_CUDA_HOST_BYTES;
  if (__builtin_add_overflow((uint64_t)out->arena_bytes, out->fixed_bytes, &out->peak_bytes))
    return size_refuse(b, hr_tier_name(tier));

  uint64_t live = 0;
  for (size_t s = 0; s < plan->n_slots; s++) {
    const hr_slot *slot = &plan->slots[s];
    if (slot->tier != tier || !hr__slot_alive(slot, program, position)) continue;
    out->categories[slot->category] += slot->bytes;
    live += slot->bytes;
  }
  out->categories[HR_CAT_GAPS] = out->arena_bytes - live;
  out->categories[HR_CAT_FIXED] = out->fixed_bytes;
  return HR_OK;
}

/* The arena is taken and touched as a whole before anything is loaded and given back at the end; loading reads straight
 * into place and saving writes straight out of it. So every phase holds the same: the whole arena and the fixed costs.
 */
static void phases_finish(hr_plan *plan) {
  uint64_t all = plan->tiers[HR_TIER_DEVICE].peak_bytes;
  plan->phases = (hr_phases){all, all, all, all, all, all};
}

static double program_seconds(const hr_plan *plan, const char *name) {
  hr_id program = hr__graph_find_program(plan->graph, name);
  return program == HR_NONE ? 0 : plan->programs[program].seconds;
}

static double step_seconds(const hr_plan *plan, int accumulation) {
  return program_seconds(plan, "step") + program_seconds(plan, "micro_first") +
         (accumulation - 1) * program_seconds(plan, "micro_next") + program_seconds(plan, "update");
}

/* --- the whole -------------------------------------------------------------------------------------------------- */

/* Room for one slot per buffer that something touches, and per workspace. */
static hr_status slots_create(building *b) {
  size_t most = 1;
  for (size_t i = 0; i < b->graph->n_buffers; i++)
    most += b->graph->buffers[i].persistent || b->lifetimes[i].used;
  for (size_t n = 0; n < b->graph->n_nodes; n++)
    most += b->graph->nodes[n].op->workspace != NULL;
  b->plan->slots = hr__arena_array(&b->plan->arena, most, sizeof *b->plan->slots);
  return b->plan->slots ? HR_OK : hr__nomem(b->err);
}

static hr_status tables_create(building *b, hr_desc **storage) {
  const hr_graph *graph = b->graph;
  hr_plan *plan = b->plan;
  size_t operands = 1;
  for (size_t n = 0; n < graph->n_nodes; n++) {
    size_t has = (size_t)(graph->nodes[n].n_in + graph->nodes[n].n_out);
    if (has > operands) operands = has;
  }
  *storage = hr__arena_array(&b->scratch, operands, sizeof **storage);
  b->lifetimes = hr__arena_array(&b->scratch, graph->n_buffers, sizeof *b->lifetimes);
  plan->slot_of_buffer = hr__arena_array(&plan->arena, graph->n_buffers, sizeof *plan->slot_of_buffer);
  plan->workspace_of_node = hr__arena_array(&plan->arena, graph->n_nodes, sizeof *plan->workspace_of_node);
  plan->threads_of_node = hr__arena_array(&plan->arena, graph->n_nodes, sizeof *plan->threads_of_node);
  plan->seconds_of_node = hr__arena_array(&plan->arena, graph->n_nodes, sizeof *plan->seconds_of_node);
  plan->programs = hr__arena_array(&plan->arena, graph->n_programs, sizeof *plan->programs);
  if (!*storage || !b->lifetimes || !plan->slot_of_buffer || !plan->workspace_of_node || !plan->threads_of_node ||
      !plan->seconds_of_node || !plan->programs)
    return hr__nomem(b->err);
  for (size_t i = 0; i < graph->n_buffers; i++)
    plan->slot_of_buffer[i] = HR_NONE;
  return HR_OK;
}

static hr_status plan_make(building *b, const hr_plan_options *options) {
  hr_desc *storage;
  HR_TRY(tables_create(b, &storage));
  HR_TRY(hr__lifetimes(b->graph, b->plan->facts.kind, b->lifetimes, b->err));
  HR_TRY(slots_create(b));
  HR_TRY(persistent_plan(b));
  for (hr_id p = 0; p < b->graph->n_programs; p++) {
    HR_TRY(program_plan(b, p, storage));
    HR_TRY(peak_find(b, p, HR_TIER_DEVICE, &b->plan->programs[p].peak_node));
    slots_name(b, p);
  }
  for (int t = 0; t < HR_TIER_COUNT; t++)
    HR_TRY(tier_finish(b, (hr_tier)t));
  phases_finish(b->plan);
  b->plan->step_seconds = step_seconds(b->plan, options->accumulation);
  if (b->sketch) return HR_OK;
  return hr__plan_fingerprint(b->plan, b->plan->fingerprint, b->err);
}

hr_status hr__plan_build(const hr_graph *graph, const hr_facts *facts, const hr_rates *rates,
                         const hr_plan_options *options, hr_plan **out, hr_error *err) {
  hr_plan *plan = hr__alloc_zero(1, sizeof *plan);
  if (!plan) return hr__nomem(err);
  hr__arena_init(&plan->arena);
  plan->graph = graph;
  plan->facts = *facts;
  building b = {.plan = plan,
                .graph = graph,
                .rates = rates,
                .pack_effort = options->pack_effort,
                .glance = options->glance,
                .draft = options->draft,
                .sketch = options->sketch,
                .budget_bytes = options->budget_bytes,
                .err = err};
  hr__arena_init(&b.scratch);
  hr_status status = plan_make(&b, options);
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
