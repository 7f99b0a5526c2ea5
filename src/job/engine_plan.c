/* See engine_plan.h. */
#include "job/engine_plan.h"

#include <stdlib.h>
#include <string.h>

#include "compile/compile.h"

/* Words of the allocator for those of a plan. */
static const hr_category categories[HR_TORCH_CATEGORIES] = {
    [HR_TORCH_PARAMETERS] = HR_CAT_PARAMETERS, [HR_TORCH_GRADIENTS] = HR_CAT_GRADIENTS,
    [HR_TORCH_OPTIMIZER] = HR_CAT_OPTIMIZER,   [HR_TORCH_ACTIVATIONS] = HR_CAT_ACTIVATIONS,
    [HR_TORCH_WORKSPACE] = HR_CAT_WORKSPACE,   [HR_TORCH_INPUTS] = HR_CAT_INPUTS,
    [HR_TORCH_OTHER] = HR_CAT_STATE,
};

hr_status hr__engine_budget(const hr_recipe *recipe, const hr_facts *facts, hr_budget *out, hr_error *err) {
  enum { PER_CENT = 3 };
  HR_TRY(hr__memory_budget(recipe, facts, out, err));
  if (out->margin_default) out->margin_bytes = out->budget_bytes / 100 * PER_CENT;
  return HR_OK;
}

/* An allocation that is alive at the peak. */
typedef struct alive {
  const hr_torch_event *made;
  uint64_t bytes;
} alive;

static int alive_compare(const void *a, const void *b) {
  const hr_torch_event *x = ((const alive *)a)->made, *y = ((const alive *)b)->made;
  if (x->owner != y->owner) return x->owner < y->owner ? -1 : 1;
  if (x->call != y->call) return x->call < y->call ? -1 : 1;
  return (x->category > y->category) - (x->category < y->category);
}

static hr_status slot_add(hr_plan *plan, const hr_torch_events *events, const alive *a, hr_error *err) {
  const char *owner = events->names[a->made->owner], *call = events->names[a->made->call];
  hr_slot *slot = &plan->slots[plan->n_slots++];
  *slot = (hr_slot){.name = hr__arena_format(&plan->arena, "%s%s%s", owner, *owner ? " " : "", call),
                    .module = hr__arena_text(&plan->arena, owner),
                    .tier = HR_TIER_DEVICE,
                    .category = categories[a->made->category],
                    .program = HR_NONE,
                    .last = UINT32_MAX};
  return slot->name && slot->module ? HR_OK : hr__nomem(err);
}

/* What is alive at the peak, what has the same owner and comes of the same call together. */
static hr_status slots_fill(hr_plan *plan, const hr_engine_run *run, hr_error *err) {
  const hr_torch_events *events = &run->events;
  size_t peak = run->result.allocated.event, count = 0;
  alive *list = hr__arena_array(&plan->arena, events->n_ids + 1, sizeof *list);
  if (!list) return hr__nomem(err);
  for (size_t id = 0; id < events->n_ids; id++) {
    const hr_torch_life *life = &events->lives[id];
    if (life->first <= peak && life->end > peak) /* HR_TORCH_ALWAYS is behind all */
      list[count++] = (alive){&events->items[life->first], run->result.block_bytes[id]};
  }
  qsort(list, count, sizeof *list, alive_compare);
  plan->slots = hr__arena_array(&plan->arena, count + 1, sizeof *plan->slots);
  if (!plan->slots) return hr__nomem(err);
  for (size_t i = 0; i < count; i++) {
    if (i == 0 || alive_compare(&list[i - 1], &list[i]) != 0) HR_TRY(slot_add(plan, events, &list[i], err));
    plan->slots[plan->n_slots - 1].bytes += list[i].bytes;
  }
  return HR_OK;
}

static void tier_fill(hr_tier_plan *tier, const hr_engine_run *run) {
  const hr_torch_moment *peak = &run->result.allocated;
  uint64_t reserved = run->result.reserved.use.reserved_bytes;
  for (int c = 0; c < HR_TORCH_CATEGORIES; c++)
    tier->categories[categories[c]] += peak->categories[c];
  tier->categories[HR_CAT_GAPS] = reserved - peak->use.allocated_bytes;
  tier->categories[HR_CAT_FIXED] = tier->fixed_bytes = run->context_bytes;
  tier->arena_bytes = reserved;
  tier->lower_bound_bytes = reserved;
  tier->persistent_bytes = peak->categories[HR_TORCH_PARAMETERS] + peak->categories[HR_TORCH_OPTIMIZER];
  tier->peak_bytes = run->driver_bytes;
}

static void host_fill(hr_tier_plan *tier, const hr_zero_host *host) {
  tier->categories[HR_CAT_PARAMETERS] = host->parameters;
  tier->categories[HR_CAT_GRADIENTS] = host->gradients;
  tier->categories[HR_CAT_OPTIMIZER] = host->optimizer;
  tier->arena_bytes = host->parameters + host->gradients + host->optimizer;
  tier->lower_bound_bytes = tier->persistent_bytes = tier->peak_bytes = tier->arena_bytes;
}

/* Only what was run: evaluations and saves are not. */
static void phases_fill(hr_phases *phases, const hr_engine_run *run) {
  const hr_torch_result *r = &run->result;
  for (size_t i = 0; i < r->n_steps; i++) {
    uint64_t bytes = r->steps[i].reserved_bytes + run->context_bytes;
    uint64_t *phase = i == 0 ? &phases->load : i == 1 ? &phases->first_step : &phases->steady;
    if (bytes > *phase) *phase = bytes;
  }
}

static hr_status plan_fill(hr_plan *plan, const hr_recipe *recipe, const hr_facts *facts, const hr_rates *rates,
                           const hr_graph *graph, const hr_engine_run *run, hr_error *err) {
  hr_training_shape shape;
  HR_TRY(hr__training_shape(recipe, &shape, err));
  plan->graph = graph;
  plan->facts = *facts;
  plan->programs = hr__arena_array(&plan->arena, graph->n_programs + 1, sizeof *plan->programs);
  if (!plan->programs) return hr__nomem(err);
  tier_fill(&plan->tiers[HR_TIER_DEVICE], run);
  host_fill(&plan->tiers[HR_TIER_HOST], &run->host);
  phases_fill(&plan->phases, run);
  plan->step_seconds = hr__engine_seconds(run, rates, shape.accumulation);
  return slots_fill(plan, run, err);
}

hr_status hr__engine_plan(const hr_recipe *recipe, const hr_facts *facts, const hr_rates *rates,
                          const hr_engine_run *run, hr_chosen *chosen, hr_error *err) {
  HR_TRY(hr__compile(recipe, NULL, "quantize", &chosen->graph, err));
  chosen->plan = hr__alloc_zero(1, sizeof *chosen->plan);
  if (!chosen->plan) return hr__nomem(err);
  hr__arena_init(&chosen->plan->arena);
  return plan_fill(chosen->plan, recipe, facts, rates, chosen->graph, run, err);
}
