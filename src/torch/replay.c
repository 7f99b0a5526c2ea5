#include "torch/replay.h"

#include <string.h>

#include "base/sort.h"

enum { LOADED = 2 };

typedef struct replay {
  const hr_torch_events *events;
  hr_torch_allocator allocator;
  hr_torch_result *out;
  uint32_t *blocks;      /* by id */
  uint64_t *block_bytes; /* by id */
  hr_torch_moment now;
  uint32_t loads[LOADED]; /* calls that have not come yet; UINT32_MAX: they have, or never come */
  size_t steps_capacity;
  hr_arena *arena;
  hr_error *err;
} replay;

static void raise_peak(hr_torch_peak *peak, const hr_torch_use *use) {
  if (use->allocated_bytes > peak->allocated_bytes) peak->allocated_bytes = use->allocated_bytes;
  if (use->reserved_bytes > peak->reserved_bytes) peak->reserved_bytes = use->reserved_bytes;
}

/* After each event: is it a peak? */
static void moment_look(replay *r) {
  hr_torch_result *out = r->out;
  r->now.use = r->allocator.now;
  raise_peak(&out->phases[r->now.phase], &r->now.use);
  raise_peak(&out->steps[r->now.step], &r->now.use);
  if (r->now.use.allocated_bytes > out->allocated.use.allocated_bytes) out->allocated = r->now;
  if (r->now.use.reserved_bytes > out->reserved.use.reserved_bytes) out->reserved = r->now;
}

static hr_status step_begin(replay *r, uint32_t step) {
  hr_torch_result *out = r->out;
  while (out->n_steps <= step) {
    if (hr__arena_grow(r->arena, (void **)&out->steps, &r->steps_capacity, out->n_steps, sizeof *out->steps) != 0)
      return hr__nomem(r->err);
    out->steps[out->n_steps++] = (hr_torch_peak){0};
  }
  r->now.step = step;
  return HR_OK;
}

/* Code that the driver loads beside segments, when a call is the first of its kind: recorded on an H200. */
static const struct {
  const char *call;
  uint64_t bytes;
} loaded[LOADED] = {{"cublas workspace", UINT64_C(64) << 20},
                    {"aten::_scaled_dot_product_cudnn_attention", UINT64_C(10) << 20}};

static hr_status library_load(replay *r, const hr_torch_event *event) {
  for (size_t i = 0; i < LOADED; i++) {
    if (r->loads[i] != event->call) continue;
    r->loads[i] = UINT32_MAX;
    if (hr__torch_loaded(&r->allocator, loaded[i].bytes) != HR_OK) return hr__nomem(r->err);
  }
  return HR_OK;
}

/* The calls' numbers among the names of the events. */
static void loads_find(replay *r) {
  for (size_t i = 0; i < LOADED; i++) {
    r->loads[i] = UINT32_MAX;
    for (size_t name = 0; name < r->events->n_names; name++)
      if (strcmp(r->events->names[name], loaded[i].call) == 0) r->loads[i] = (uint32_t)name;
  }
}

static hr_status allocate(replay *r, const hr_torch_event *event) {
  HR_TRY(library_load(r, event));
  hr_status status = hr__torch_take(&r->allocator, event->bytes, event->stream, &r->blocks[event->id]);
  if (status == HR_NOMEM) return hr__nomem(r->err);
  if (status != HR_OK) {
    r->out->out_of_memory = true;
    r->out->failed = r->now;
    r->out->failed_bytes = r->allocator.failed_bytes;
    return HR_OK;
  }
  uint64_t bytes = hr__torch_block_bytes(&r->allocator, r->blocks[event->id]);
  r->block_bytes[event->id] = bytes;
  r->now.categories[event->category] += bytes;
  return HR_OK;
}

static hr_status event_play(replay *r, const hr_torch_event *event) {
  switch ((hr_torch_kind)event->kind) {
  case HR_TORCH_ALLOCATE:
    return allocate(r, event);
  case HR_TORCH_FREE: {
    const hr_torch_event *made = &r->events->items[r->events->lives[event->id].first];
    r->now.categories[made->category] -= r->block_bytes[event->id];
    hr__torch_give(&r->allocator, r->blocks[event->id]);
    return HR_OK;
  }
  case HR_TORCH_MARK:
    r->now.phase = (hr_torch_phase)event->phase;
    return step_begin(r, event->id);
  case HR_TORCH_EMPTY_CACHE:
    return hr__torch_empty_cache(&r->allocator) == HR_OK ? HR_OK : hr__nomem(r->err);
  }
  return HR_OK;
}

static hr_status events_play(replay *r) {
  HR_TRY(step_begin(r, 0));
  for (size_t i = 0; i < r->events->count && !r->out->out_of_memory; i++) {
    r->now.event = i;
    HR_TRY(event_play(r, &r->events->items[i]));
    moment_look(r);
  }
  r->out->requested_bytes = r->allocator.peak.requested_bytes;
  r->out->retries = r->allocator.retries;
  return HR_OK;
}

hr_status hr__torch_replay(const hr_torch_events *events, const hr_torch_rules *rules, hr_arena *arena,
                           hr_torch_result *out, hr_error *err) {
  HR_TRY(hr__torch_events_check(events, err));
  replay r = {.events = events, .out = out, .arena = arena, .err = err};
  *out = (hr_torch_result){.events = events};
  out->allocated.event = out->reserved.event = out->failed.event = SIZE_MAX;
  r.block_bytes = hr__arena_array(arena, events->n_ids + 1, sizeof *r.block_bytes);
  r.blocks = hr__alloc((events->n_ids + 1) * sizeof *r.blocks);
  if (r.block_bytes == NULL || r.blocks == NULL) {
    hr__free(r.blocks);
    return hr__nomem(err);
  }
  out->block_bytes = r.block_bytes;
  hr__torch_allocator_init(&r.allocator, rules);
  loads_find(&r);
  hr_status status = events_play(&r);
  hr__torch_allocator_fini(&r.allocator);
  hr__free(r.blocks);
  return status;
}

static int share_compare(const void *a, const void *b) {
  const hr_torch_share *x = a, *y = b;
  if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
  return strcmp(x->name, y->name);
}

hr_status hr__torch_shares(const hr_torch_result *result, const hr_torch_moment *moment, hr_torch_by by,
                           hr_arena *arena, hr_torch_share **shares, size_t *count, hr_error *err) {
  const hr_torch_events *events = result->events;
  size_t n_names = events->n_names ? events->n_names : 1, found = 0;
  hr_torch_share *all = hr__arena_array(arena, n_names, sizeof *all);
  const void **order = hr__arena_array(arena, 2 * n_names, sizeof *order);
  *shares = hr__arena_array(arena, n_names, sizeof **shares);
  if (all == NULL || order == NULL || *shares == NULL) return hr__nomem(err);
  for (size_t id = 0; id < events->n_ids && moment->event != SIZE_MAX; id++) {
    hr_torch_life life = events->lives[id];
    if (life.first > moment->event || life.end <= moment->event) continue;
    const hr_torch_event *event = &events->items[life.first];
    hr_torch_share *share = &all[by == HR_TORCH_BY_OWNER ? event->owner : event->call];
    share->bytes += result->block_bytes[id];
    share->count++;
  }
  for (size_t i = 0; i < n_names; i++) {
    all[i].name = events->n_names ? events->names[i] : "";
    if (all[i].bytes > 0) order[found++] = &all[i];
  }
  hr__sort(order, found, order + n_names, share_compare);
  for (size_t i = 0; i < found; i++)
    (*shares)[i] = *(const hr_torch_share *)order[i];
  *count = found;
  return HR_OK;
}
