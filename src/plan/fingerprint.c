#include "plan/fingerprint.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Names go in whole, whatever their length; numbers through a short line. */
static hr_status name_put(hr_hash *hash, const char *name, hr_error *err) {
  return hr__hash_update(hash, name, strlen(name) + 1, err);
}

__attribute__((format(printf, 3, 4))) static hr_status line_put(hr_hash *hash, hr_error *err, const char *format, ...) {
  char line[192];
  va_list list;
  va_start(list, format);
  int length = vsnprintf(line, sizeof line, format, list);
  va_end(list);
  return hr__hash_update(hash, line, (size_t)length, err);
}

static hr_status operand_put(hr_hash *hash, const hr_plan *plan, hr_id value, hr_error *err) {
  if (value == HR_NONE) return line_put(hash, err, " -");
  return line_put(hash, err, " %d:%zu", (int)hr__plan_value_tier(plan, value), hr__plan_value_offset(plan, value));
}

static hr_status nodes_put(hr_hash *hash, const hr_plan *plan, hr_error *err) {
  const hr_graph *graph = plan->graph;
  for (size_t n = 0; n < graph->n_nodes; n++) {
    const hr_node *node = &graph->nodes[n];
    HR_TRY(name_put(hash, node->op->name, err));
    HR_TRY(name_put(hash, node->module, err));
    HR_TRY(line_put(hash, err, "%d %d %d", (int)node->phase, (int)node->place, plan->threads_of_node[n]));
    for (int i = 0; i < node->n_in; i++)
      HR_TRY(operand_put(hash, plan, node->in[i], err));
    HR_TRY(line_put(hash, err, " >"));
    for (int j = 0; j < node->n_out; j++)
      HR_TRY(operand_put(hash, plan, node->out[j], err));
    HR_TRY(line_put(hash, err, "\n"));
  }
  return HR_OK;
}

static hr_status plan_put(hr_hash *hash, const hr_plan *plan, hr_error *err) {
  const hr_graph *graph = plan->graph;
  HR_TRY(line_put(hash, err, "plan 1 %s %zu\n", hr_device_kind_name(plan->facts.kind), plan->facts.alignment));
  for (size_t p = 0; p < graph->n_programs; p++) {
    HR_TRY(name_put(hash, graph->programs[p].name, err));
    HR_TRY(line_put(hash, err, "%u %u\n", graph->programs[p].first, graph->programs[p].count));
  }
  HR_TRY(nodes_put(hash, plan, err));
  for (size_t s = 0; s < plan->n_slots; s++) {
    const hr_slot *slot = &plan->slots[s];
    HR_TRY(name_put(hash, slot->name, err));
    HR_TRY(line_put(hash, err, "%d %d %u %zu %u %u %zu\n", (int)slot->tier, (int)slot->category, slot->program,
                    slot->bytes, slot->first, slot->last, slot->offset));
  }
  return HR_OK;
}

hr_status hr__plan_fingerprint(const hr_plan *plan, char out[HR_XXH_HEX], hr_error *err) {
  hr_hash *hash;
  HR_TRY(hr__hash_create(HR_HASH_XXH128, &hash, err));
  hr_status status = plan_put(hash, plan, err);
  char hex[HR_SHA256_HEX];
  if (status == HR_OK) status = hr__hash_hex(hash, hex, err);
  hr__hash_destroy(hash);
  if (status == HR_OK) memcpy(out, hex, HR_XXH_HEX);
  return status;
}
