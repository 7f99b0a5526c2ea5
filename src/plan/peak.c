/* The peak: which program sets it in a tier, where, and what is alive there. See building.h. */
#include "plan/building.h"

/* Half as long as their arguments is what programs of elements are when they are made ready (op/pointwise_parts.h). */
static uint64_t node_bytes(const hr_op *op) {
  return op->transfer ? HR_COPY_NODE_BYTES : HR_NODE_BYTES + op->args_bytes + op->args_bytes / 2;
}

uint64_t hr__peak_nodes_bytes(const hr_building *b) {
  const hr_graph *graph = b->graph;
  if (b->plan->facts.kind == HR_CUDA)
    return HR_CUDA_LIBRARY_BYTES + ((uint64_t)graph->n_nodes + b->launches) * HR_CUDA_NODE_BYTES;
  uint64_t bytes =
      hr__gemm_set_shapes(&b->products) * HR_CODE_BYTES + hr__gemm_set_workers(&b->products) * HR_DESK_BYTES;
  for (size_t n = 0; n < graph->n_nodes; n++)
    bytes += node_bytes(graph->nodes[n].op);
  return bytes;
}

void hr__peak_name(hr_building *b, hr_id program) {
  hr_plan *plan = b->plan;
  for (hr_id i = 0; i < b->graph->n_buffers; i++) {
    const hr_buffer *buffer = &b->graph->buffers[i];
    if (buffer->persistent || buffer->program != program) continue;
    if (!hr__lifetime_holds(&b->lifetimes[i], plan->programs[program].peak_node)) continue;
    hr_slot *slot = &plan->slots[plan->slot_of_buffer[i]];
    slot->name = buffer->name;
    slot->module = buffer->module;
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

hr_status hr__peak_finish(hr_building *b, hr_tier tier) {
  hr_plan *plan = b->plan;
  hr_tier_plan *out = &plan->tiers[tier];
  hr_id program = hr__plan_peak_program(plan, tier);
  uint32_t position = 0;
  size_t most_live = 0;
  for (hr_id p = 0; p < b->graph->n_programs; p++) {
    if (plan->programs[p].lower_bound_bytes[tier] > most_live) most_live = plan->programs[p].lower_bound_bytes[tier];
  }
  if (program != HR_NONE) position = b->peaks[program][tier];
  out->peak_node = position;
  out->arena_bytes = out->persistent_bytes + (program == HR_NONE ? 0 : plan->programs[program].transient_bytes[tier]);
  out->lower_bound_bytes = out->persistent_bytes + most_live;
  if (tier == HR_TIER_DEVICE) out->fixed_bytes = plan->facts.fixed_bytes + hr__peak_nodes_bytes(b);
  if (tier == HR_TIER_HOST && plan->facts.kind == HR_CUDA) out->fixed_bytes = HR_CUDA_HOST_BYTES;
  if (__builtin_add_overflow((uint64_t)out->arena_bytes, out->fixed_bytes, &out->peak_bytes))
    return hr__slots_refuse(b, hr_tier_name(tier));

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
