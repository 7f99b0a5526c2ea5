/* What choices came to: see choose.h. */
#include "fit/choose.h"

bool hr__chosen_divides(const hr_chosen *chosen, hr_offload_kind kind) {
  const hr_graph *g = chosen->graph;
  hr_role role = hr__offload_role(kind);
  if (!chosen->open[kind] || chosen->choices.offload[kind].resident_bytes == UINT64_MAX) return false;
  for (size_t b = 0; b < g->n_buffers; b++)
    if (g->buffers[b].role == role && g->buffers[b].home != HR_TIER_DEVICE) return true;
  return false;
}

bool hr__chosen_offloads(const hr_chosen *chosen, hr_offload_kind kind) {
  const hr_choices *choices = &chosen->choices;
  bool inputs = false;
  for (size_t i = 0; choices->keep && i < choices->n_keep; i++)
    inputs |= choices->keep[i] == HR_KEEP_OFFLOADED;
  return hr__chosen_divides(chosen, kind) || (kind == HR_OFFLOAD_ACTIVATIONS && inputs);
}

bool hr__chosen_recomputes(const hr_chosen *chosen) {
  for (size_t i = 0; chosen->choices.keep && i < chosen->choices.n_keep; i++)
    if (chosen->choices.keep[i] != HR_KEEP_ALL) return true;
  return false;
}
