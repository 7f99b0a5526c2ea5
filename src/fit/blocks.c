/* blocks: see blocks.h. */
#include "fit/blocks.h"

enum { UNSET = UINT32_MAX };

/* Where a block's nodes lie in its program. */
typedef struct span {
  uint32_t forward_first, forward_last;
  uint32_t backward_first, backward_last;
} span;

typedef struct reading {
  const hr_plan *plan;
  hr_id program;
  uint32_t count; /* positions */
  uint64_t *live; /* per position: bytes of the device's transients */
  uint64_t *over; /* per position: bytes that are alive here and at the next one */
  hr_id *blocks;
  uint32_t *number; /* per block of the graph: which of `blocks` it is; UNSET */
  span *spans;
  size_t n_blocks;
  hr_arena arena;
} reading;

static bool program_trains(const hr_graph *graph, hr_id program) {
  const hr_program *p = &graph->programs[program];
  for (hr_id n = p->first; n < p->first + p->count; n++)
    if (graph->nodes[n].phase == HR_BACKWARD) return true;
  return false;
}

hr_status hr__blocks_count(const hr_graph *graph, hr_arena *arena, size_t *count, hr_error *err) {
  *count = 0;
  hr_id *blocks = hr__arena_array(arena, graph->n_blocks, sizeof *blocks);
  if (!blocks) return hr__nomem(err);
  for (hr_id p = 0; p < graph->n_programs && *count == 0; p++)
    if (program_trains(graph, p)) *count = hr__program_layers(graph, p, blocks);
  return HR_OK;
}

hr_status hr__blocks_init(hr_blocks *out, size_t n_blocks, hr_arena *arena, hr_error *err) {
  *out = (hr_blocks){.n_blocks = n_blocks, .blocks = hr__arena_array(arena, n_blocks, sizeof *out->blocks)};
  return out->blocks ? HR_OK : hr__nomem(err);
}

static void live_find(reading *r) {
  const hr_plan *plan = r->plan;
  for (size_t s = 0; s < plan->n_slots; s++) {
    const hr_slot *slot = &plan->slots[s];
    if (slot->program != r->program || slot->tier != HR_TIER_DEVICE) continue;
    r->live[slot->first] += slot->bytes;
    r->live[slot->last + 1] -= slot->bytes;
    r->over[slot->first] += slot->bytes;
    r->over[slot->last] -= slot->bytes;
  }
  for (uint32_t t = 1; t < r->count; t++) { /* sums wrap around on the way, and are right */
    r->live[t] += r->live[t - 1];
    r->over[t] += r->over[t - 1];
  }
}

static uint32_t block_number(const reading *r, const hr_node *node) {
  hr_id block = hr__block_numbered(r->plan->graph, node->block);
  return block == HR_NONE ? UNSET : r->number[block];
}

static void spans_find(reading *r) {
  const hr_graph *g = r->plan->graph;
  const hr_program *p = &g->programs[r->program];
  for (size_t i = 0; i < r->n_blocks; i++)
    r->spans[i] = (span){UNSET, UNSET, UNSET, UNSET};
  for (uint32_t t = 0; t < r->count; t++) {
    const hr_node *node = &g->nodes[p->first + t];
    uint32_t i = block_number(r, node);
    if (i == UNSET) continue;
    bool forward = node->phase == HR_FORWARD;
    uint32_t *first = forward ? &r->spans[i].forward_first : &r->spans[i].backward_first;
    if (*first == UNSET) *first = t;
    *(forward ? &r->spans[i].forward_last : &r->spans[i].backward_last) = t;
  }
  /* A block without nodes ends where the next one begins, or begins where the last one has ended. */
  for (size_t i = r->n_blocks - 1; i-- > 0;)
    if (r->spans[i].forward_first == UNSET) r->spans[i].forward_first = r->spans[i + 1].forward_first;
  for (size_t i = 0; i < r->n_blocks; i++) {
    if (r->spans[i].forward_last != UNSET) continue;
    if (r->spans[i].forward_first == UNSET) r->spans[i].forward_first = i ? r->spans[i - 1].forward_last + 1 : r->count;
    r->spans[i].forward_last = r->spans[i].forward_first - 1;
  }
}

static uint64_t most_live(const reading *r, uint32_t from, uint32_t end) {
  uint64_t most = 0;
  for (uint32_t t = from; t < end && t < r->count; t++)
    if (r->live[t] > most) most = r->live[t];
  return most;
}

static uint64_t beyond(uint64_t bytes, uint64_t base) {
  return bytes > base ? bytes - base : 0;
}

static void raise_to(uint64_t *bytes, uint64_t at_least) {
  if (*bytes < at_least) *bytes = at_least;
}

/* What is alive when block i begins; after the last block: when that has ended. */
static uint64_t bytes_before(const reading *r, size_t i) {
  if (i == r->n_blocks) return r->over[r->spans[i - 1].forward_last];
  uint32_t first = r->spans[i].forward_first;
  return first == 0 ? 0 : r->over[first - 1];
}

/* Position behind the last node of the backward of block i or a later one. */
static uint32_t backward_begin(const reading *r, size_t i) {
  for (size_t k = i + 1; k < r->n_blocks; k++)
    if (r->spans[k].backward_last != UNSET) return r->spans[k].backward_last + 1;
  for (size_t k = r->n_blocks; k-- > 0;)
    if (r->spans[k].backward_first != UNSET) return r->spans[k].backward_first;
  return r->count;
}

static void blocks_fill(hr_blocks *out, const reading *r, int variant) {
  for (size_t i = 0; i < r->n_blocks; i++) {
    hr_chain_variant *v = &out->blocks[i].variants[variant];
    const span *s = &r->spans[i];
    uint64_t before = bytes_before(r, i);
    raise_to(&v->kept_bytes, beyond(bytes_before(r, i + 1), before));
    raise_to(&v->forward_bytes, beyond(most_live(r, s->forward_first, s->forward_last + 1), before));
    if (s->backward_last != UNSET)
      raise_to(&v->work_bytes, beyond(most_live(r, backward_begin(r, i), s->backward_last + 1), before));
  }
  uint64_t persistent = r->plan->tiers[HR_TIER_DEVICE].persistent_bytes;
  uint32_t end = r->spans[r->n_blocks - 1].forward_last + 1, back = backward_begin(r, r->n_blocks - 1), done = 0;
  for (size_t i = r->n_blocks; i-- > 0;)
    if (r->spans[i].backward_last != UNSET) done = r->spans[i].backward_last + 1;
  raise_to(&out->base_bytes, persistent + bytes_before(r, 0));
  raise_to(&out->tail_bytes, beyond(most_live(r, end, back), bytes_before(r, r->n_blocks)));
  raise_to(&out->outside_bytes, persistent + most_live(r, 0, r->spans[0].forward_first));
  if (done > 0) raise_to(&out->outside_bytes, persistent + most_live(r, done, r->count));
}

static void seconds_add(hr_blocks *out, const reading *r, int variant, double runs) {
  const hr_graph *g = r->plan->graph;
  const hr_program *p = &g->programs[r->program];
  for (hr_id n = p->first; n < p->first + p->count; n++) {
    uint32_t i = block_number(r, &g->nodes[n]);
    if (i != UNSET) out->blocks[i].variants[variant].seconds += runs * r->plan->seconds_of_node[n];
  }
}

static hr_status program_read(hr_blocks *out, reading *r, int variant, int accumulation, hr_error *err) {
  const hr_graph *g = r->plan->graph;
  r->count = g->programs[r->program].count;
  r->live = hr__arena_array(&r->arena, (size_t)r->count + 1, sizeof *r->live);
  r->over = hr__arena_array(&r->arena, (size_t)r->count + 1, sizeof *r->over);
  r->blocks = hr__arena_array(&r->arena, g->n_blocks, sizeof *r->blocks);
  r->number = hr__arena_array(&r->arena, g->n_blocks, sizeof *r->number);
  r->spans = hr__arena_array(&r->arena, g->n_blocks, sizeof *r->spans);
  if (!r->live || !r->over || !r->blocks || !r->number || !r->spans) return hr__nomem(err);
  live_find(r);
  r->n_blocks = program_trains(g, r->program) ? hr__program_layers(g, r->program, r->blocks) : 0;
  if (r->n_blocks == 0 || r->n_blocks != out->n_blocks) {
    raise_to(&out->outside_bytes, r->plan->tiers[HR_TIER_DEVICE].persistent_bytes + most_live(r, 0, r->count));
    return HR_OK;
  }
  for (size_t block = 0; block < g->n_blocks; block++)
    r->number[block] = UNSET;
  for (uint32_t i = 0; i < r->n_blocks; i++)
    r->number[r->blocks[i]] = i;
  spans_find(r);
  blocks_fill(out, r, variant);
  seconds_add(out, r, variant, hr__program_runs(&g->programs[r->program], accumulation));
  return HR_OK;
}

hr_status hr__blocks_read(hr_blocks *out, const hr_plan *plan, int accumulation, hr_error *err) {
  if (out->n_blocks == 0) return HR_OK;
  int variant = out->blocks[0].n_variants;
  hr_status status = HR_OK;
  for (hr_id p = 0; status == HR_OK && p < plan->graph->n_programs; p++) {
    reading r = {.plan = plan, .program = p};
    status = program_read(out, &r, variant, accumulation, err);
    hr__arena_fini(&r.arena);
  }
  for (size_t i = 0; i < out->n_blocks; i++)
    out->blocks[i].n_variants = variant + 1;
  return status;
}

void hr__blocks_add(hr_blocks *out, const hr_blocks *other) {
  for (size_t i = 0; i < out->n_blocks; i++)
    for (int v = 0; v < other->blocks[i].n_variants; v++)
      out->blocks[i].variants[out->blocks[i].n_variants++] = other->blocks[i].variants[v];
  raise_to(&out->base_bytes, other->base_bytes);
  raise_to(&out->tail_bytes, other->tail_bytes);
  raise_to(&out->outside_bytes, other->outside_bytes);
}
