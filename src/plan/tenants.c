#include "plan/tenants.h"

#include <inttypes.h>

#include "plan/lifetimes.h"

/* The value with the most elements of each buffer that is no view of another. */
static void values_find(const hr_graph *graph, hr_id *value_of_buffer) {
  for (size_t b = 0; b < graph->n_buffers; b++)
    value_of_buffer[b] = HR_NONE;
  for (hr_id v = 0; v < graph->n_values; v++) {
    const hr_value *value = &graph->values[v];
    if (value->buffer == HR_NONE || value->base != HR_NONE) continue;
    hr_id *best = &value_of_buffer[value->buffer];
    if (*best == HR_NONE || hr_desc_bytes(&value->desc) > hr_desc_bytes(&graph->values[*best].desc)) *best = v;
  }
}

static void buffers_list(const hr_plan *plan, const hr_lifetime *lifetimes, const hr_id *values, hr_tenants *out) {
  const hr_graph *graph = plan->graph;
  for (size_t b = 0; b < graph->n_buffers; b++) {
    if (plan->slot_of_buffer[b] == HR_NONE) continue;
    const hr_buffer *buffer = &graph->buffers[b];
    const hr_lifetime *life = &lifetimes[b];
    out->list[out->count++] = (hr_tenant){.name = buffer->name,
                                          .module = buffer->module,
                                          .slot = plan->slot_of_buffer[b],
                                          .category = hr__role_category(buffer->role),
                                          .first = buffer->persistent ? 0 : life->first,
                                          .last = buffer->persistent ? UINT32_MAX : life->own_last,
                                          .passed_on = !buffer->persistent && life->passed_on,
                                          .value = values[b]};
  }
}

static void workspaces_list(const hr_plan *plan, hr_tenants *out) {
  for (size_t n = 0; n < plan->graph->n_nodes; n++) {
    hr_id id = plan->workspace_of_node[n];
    if (id == HR_NONE) continue;
    const hr_slot *slot = &plan->slots[id];
    out->list[out->count++] = (hr_tenant){.name = slot->name,
                                          .module = slot->module,
                                          .slot = id,
                                          .category = slot->category,
                                          .first = slot->first,
                                          .last = slot->last,
                                          .value = HR_NONE};
  }
}

/* Lifetimes are a pure function of the graph and the kind of device, so the list finds them anew. */
hr_status hr__tenants(const hr_plan *plan, hr_arena *arena, hr_tenants *out, hr_error *err) {
  const hr_graph *graph = plan->graph;
  hr_lifetime *lifetimes = hr__arena_array(arena, graph->n_buffers + 1, sizeof *lifetimes);
  hr_id *values = hr__arena_array(arena, graph->n_buffers + 1, sizeof *values);
  *out = (hr_tenants){.list = hr__arena_array(arena, graph->n_buffers + graph->n_nodes + 1, sizeof *out->list)};
  if (!lifetimes || !values || !out->list) return hr__nomem(err);
  HR_TRY(hr__lifetimes(graph, plan->facts.kind, lifetimes, err));
  values_find(graph, values);
  buffers_list(plan, lifetimes, values, out);
  workspaces_list(plan, out);
  return HR_OK;
}

const char *hr__tenant_shape(const hr_plan *plan, const hr_tenant *tenant, char out[HR_SHAPE_TEXT]) {
  out[0] = '\0';
  if (tenant->value == HR_NONE) return out;
  const hr_desc *desc = &plan->graph->values[tenant->value].desc;
  int used = snprintf(out, HR_SHAPE_TEXT, "%s[", hr_dtype_name(desc->dtype));
  for (int i = 0; i < desc->rank; i++)
    used += snprintf(out + used, (size_t)(HR_SHAPE_TEXT - used), "%s%" PRId64, i > 0 ? "," : "", desc->dim[i]);
  snprintf(out + used, (size_t)(HR_SHAPE_TEXT - used), "]");
  return out;
}
