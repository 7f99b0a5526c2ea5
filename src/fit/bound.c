/* bound: see bound.h. */
#include "fit/bound.h"

#include <stdio.h>

/* What a setting leaves to fit/choose. */
typedef struct freedom {
  bool moved[HR_OFFLOAD_KINDS]; /* a kind may leave the device, or has its home below it */
  bool any_moved;
} freedom;

static freedom freedom_of(const hr_recipe *recipe) {
  freedom f = {.any_moved = false};
  for (int k = 0; k < HR_OFFLOAD_KINDS; k++) {
    char path[64];
    snprintf(path, sizeof path, "memory.offload.%s", hr__offload_name((hr_offload_kind)k));
    f.moved[k] = hr__recipe_has(recipe, path) && !hr__recipe_word_is(recipe, path, "device");
    f.any_moved |= f.moved[k];
  }
  return f;
}

/* Nodes that run on the device whatever is chosen. */
static bool node_stays(const hr_graph *g, const freedom *f, const hr_node *node) {
  if (node->op->transfer != HR_TRANSFER_NONE || node->place == HR_ON_HOST) return false;
  if (node->phase != HR_UPDATE) return true;
  for (int i = 0; i < node->n_in; i++)
    if (node->in[i] != HR_NONE && g->buffers[g->values[node->in[i]].buffer].home != HR_TIER_DEVICE) return false;
  return !f->any_moved;
}

static double seconds_sum(const hr_open *open, const hr_plan *plan, const freedom *f) {
  const hr_graph *g = plan->graph;
  double seconds = 0;
  for (hr_id p = 0; p < g->n_programs; p++) {
    double own = open->rates->gpu.program_seconds;
    for (hr_id n = g->programs[p].first; n < g->programs[p].first + g->programs[p].count; n++)
      if (node_stays(g, f, &g->nodes[n])) own += plan->seconds_of_node[n];
    seconds += hr__program_runs(&g->programs[p], open->accumulation) * own;
  }
  return seconds;
}

static bool buffer_fixed(const hr_buffer *buffer, const freedom *f) {
  if (!buffer->persistent || buffer->home != HR_TIER_DEVICE) return false;
  for (int k = 0; k < HR_OFFLOAD_KINDS; k++)
    if (f->moved[k] && hr__offload_has((hr_offload_kind)k, buffer->role)) return false;
  return true;
}

/* Whether slices of a batch leave a value as it is: what belongs to the model, not to the batch. */
static bool role_uncut(hr_role role) {
  return role == HR_ROLE_PARAMETER || role == HR_ROLE_GRADIENT || role == HR_ROLE_OPTIMIZER || role == HR_ROLE_STATE ||
         role == HR_ROLE_AVERAGE || role == HR_ROLE_CACHE;
}

/* Bytes of operands beyond what is counted anyway, each buffer once. */
static uint64_t operands_bytes(const hr_graph *g, const freedom *f, bool uncut, const hr_id *values, int count) {
  uint64_t bytes = 0;
  for (int i = 0; i < count; i++) {
    if (values[i] == HR_NONE) continue;
    hr_id buffer = g->values[values[i]].buffer;
    bool seen = buffer_fixed(&g->buffers[buffer], f) || g->buffers[buffer].home != HR_TIER_DEVICE;
    seen |= uncut && !role_uncut(g->buffers[buffer].role);
    for (int k = 0; k < i && !seen; k++)
      seen = values[k] != HR_NONE && g->values[values[k]].buffer == buffer;
    if (!seen) bytes += g->buffers[buffer].bytes;
  }
  return bytes;
}

/* uncut: only of what slices leave as it is. */
static uint64_t bytes_least(const hr_graph *g, const freedom *f, bool uncut) {
  uint64_t fixed = 0, most = 0;
  for (size_t b = 0; b < g->n_buffers; b++)
    if (buffer_fixed(&g->buffers[b], f) && (!uncut || role_uncut(g->buffers[b].role))) fixed += g->buffers[b].bytes;
  for (size_t n = 0; n < g->n_nodes; n++) {
    const hr_node *node = &g->nodes[n];
    if (!node_stays(g, f, node)) continue;
    uint64_t in = operands_bytes(g, f, uncut, node->in, node->n_in);
    uint64_t out = operands_bytes(g, f, uncut, node->out, node->n_out);
    if (in > most) most = in;
    if (out > most) most = out;
  }
  return fixed + most;
}

hr_status hr__bound(const hr_open *open, hr_bound *out, hr_error *err) {
  freedom f = freedom_of(open->recipe);
  hr_choices choices = {.slices = open->slices};
  for (int k = 0; k < HR_OFFLOAD_KINDS; k++)
    choices.offload[k].resident_bytes = UINT64_MAX;
  hr_trunk *trunk;
  hr_graph *graph = NULL;
  hr_plan *plan;
  HR_TRY(hr__trunk_grow(open->recipe, open->slices, &trunk, err));
  hr_plan_options options = {.accumulation = open->accumulation, .effort = HR_EFFORT_SKETCH};
  hr_status status = hr__trunk_branch(trunk, &choices, &graph, err);
  if (status == HR_OK) status = hr__plan_build(graph, open->facts, open->rates, &options, &plan, err);
  if (status == HR_OK) {
    out->step_seconds = seconds_sum(open, plan, &f);
    out->device_bytes = open->facts->fixed_bytes + bytes_least(graph, &f, false);
    out->uncut_bytes = open->facts->fixed_bytes + bytes_least(graph, &f, true);
    out->n_nodes = graph->n_nodes;
    out->resting_bytes = plan->tiers[HR_TIER_DEVICE].peak_bytes;
    hr__plan_destroy(plan);
  }
  hr__graph_destroy(graph);
  hr__trunk_destroy(trunk);
  return status;
}
