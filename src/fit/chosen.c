/* What choices came to: see choose.h. */
#include "fit/choose.h"

#include <string.h>

bool hr__chosen_divides(const hr_chosen *chosen, hr_offload_kind kind) {
  const hr_graph *g = chosen->graph;
  if (!chosen->open[kind] || chosen->choices.offload[kind].resident_bytes == UINT64_MAX) return false;
  for (size_t b = 0; b < g->n_buffers; b++)
    if (hr__offload_has(kind, g->buffers[b].role) && g->buffers[b].home != HR_TIER_DEVICE) return true;
  return false;
}

bool hr__chosen_offloads(const hr_chosen *chosen, hr_offload_kind kind) {
  const hr_choices *choices = &chosen->choices;
  bool inputs = false;
  for (size_t i = 0; choices->keep && i < choices->n_keep; i++)
    inputs |= choices->keep[i] == HR_KEEP_OFFLOADED;
  return hr__chosen_divides(chosen, kind) || (kind == HR_OFFLOAD_ACTIVATIONS && inputs);
}

static const char *checkpoint_word(const hr_choices *choices) {
  const char *word = "none";
  for (size_t i = 0; i < choices->n_keep; i++) {
    if (choices->keep[i] == HR_KEEP_INPUT || choices->keep[i] == HR_KEEP_OFFLOADED) return "every-layer";
    if (choices->keep[i] == HR_KEEP_SELECTIVE) word = "selective";
  }
  return word;
}

const char *hr__chosen_word(const hr_chosen *chosen, const char *path) {
  static const char offload[] = "memory.offload.";
  const hr_choices *choices = &chosen->choices;
  if (strcmp(path, "memory.checkpoint") == 0 && choices->keep) return checkpoint_word(choices);
  if (strcmp(path, "memory.split") == 0 && chosen->split) return choices->slices < 2 ? "none" : "auto";
  if (strncmp(path, offload, sizeof offload - 1) != 0) return NULL;
  for (int k = 0; k < HR_OFFLOAD_KINDS; k++) {
    if (!chosen->open[k] || strcmp(path + sizeof offload - 1, hr__offload_name((hr_offload_kind)k)) != 0) continue;
    bool stays = !hr__chosen_offloads(chosen, (hr_offload_kind)k);
    return hr_tier_name(stays ? HR_TIER_DEVICE : choices->offload[k].tier);
  }
  return NULL;
}
