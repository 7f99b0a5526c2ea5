#include "plan/usage.h"

#include <string.h>

_Static_assert(HR_CAT_GAPS == HR_CAT_COUNT - 2 && HR_CAT_FIXED == HR_CAT_COUNT - 1, "gaps and fixed are the last two");

hr_status hr__usage_owners(const hr_plan *plan, hr_tier tier, hr_arena *arena, hr_usage_owners *out, hr_error *err) {
  hr_module_owner *owners;
  size_t count;
  HR_TRY(hr__owners(plan, tier, arena, &owners, &count, err));
  out->count = 0;
  for (size_t i = 0; i < count && out->count < HR_USAGE_OWNERS; i++)
    if (owners[i].tensors > 0) memcpy(out->names[out->count++], owners[i].name, HR_MODULE_NAME);
  return HR_OK;
}

size_t hr__usage_category(const hr_tenant *tenant, const void *user) {
  (void)user;
  return tenant->category;
}

size_t hr__usage_owner(const hr_tenant *tenant, const void *user) {
  const hr_usage_owners *owners = user;
  char name[HR_MODULE_NAME];
  hr__owner_name(tenant->module, name);
  size_t i = 0;
  while (i < owners->count && strcmp(owners->names[i], name) != 0)
    i++;
  return i;
}

/* What a tenant is held for, as a half-open range of positions. */
static void span_of(const hr_tenant *tenant, bool persistent, size_t nodes, size_t *from, size_t *to) {
  *from = persistent ? 0 : tenant->first;
  *to = persistent ? nodes : (size_t)tenant->last + !tenant->passed_on;
}

hr_status hr__usage(const hr_plan *plan, const hr_tenants *tenants, hr_tier tier, hr_id program, size_t series,
                    hr_usage_series series_of, const void *user, hr_arena *arena, uint64_t **bytes, hr_error *err) {
  const hr_tier_plan *held = &plan->tiers[tier];
  size_t nodes = plan->graph->programs[program].count;
  if (nodes == 0) nodes = 1;
  /* Differences first, which wrap around and come right when they are summed. */
  uint64_t *table = hr__arena_array(arena, series * nodes, sizeof *table);
  if (!table) return hr__nomem(err);
  for (size_t i = 0; i < tenants->count; i++) {
    const hr_tenant *tenant = &tenants->list[i];
    const hr_slot *slot = &plan->slots[tenant->slot];
    if (slot->tier != tier || (slot->program != HR_NONE && slot->program != program)) continue;
    size_t from, to;
    span_of(tenant, slot->program == HR_NONE, nodes, &from, &to);
    if (from >= to) continue;
    uint64_t *row = table + series_of(tenant, user) * nodes;
    row[from] += slot->bytes;
    if (to < nodes) row[to] -= slot->bytes;
  }
  uint64_t *gaps = table + (series - 2) * nodes, *fixed = table + (series - 1) * nodes;
  for (size_t n = 0; n < nodes; n++) {
    uint64_t live = 0;
    for (size_t s = 0; s + 2 < series; s++) {
      uint64_t *row = table + s * nodes;
      if (n > 0) row[n] += row[n - 1];
      live += row[n];
    }
    gaps[n] = held->arena_bytes - live;
    fixed[n] = held->fixed_bytes;
  }
  *bytes = table;
  return HR_OK;
}
