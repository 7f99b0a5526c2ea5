/* Every buffer and workspace as columns, in the order of `dump --after plan --json`. See laying.h. */
#include "plan/usage.h"
#include "report/laying.h"

typedef struct columns {
  hr_name_column name, module, shape;
  hr_column owner, tier, category, program, bytes, offset, first, length, slot;
} columns;

static hr_status tenant_add(hr_laying *l, columns *c, const hr_usage_owners *owners, const hr_tenant *tenant) {
  const hr_slot *slot = &l->plan->slots[tenant->slot];
  bool persistent = slot->program == HR_NONE;
  char shape[HR_SHAPE_TEXT];
  HR_TRY(hr__names_add(&l->names, tenant->name, &c->name, l->err));
  HR_TRY(hr__names_add(&l->names, tenant->module, &c->module, l->err));
  HR_TRY(hr__names_add(&l->names, hr__tenant_shape(l->plan, tenant, shape), &c->shape, l->err));
  hr__column_add(&c->owner, hr__usage_owner(tenant, &owners[slot->tier])); /* among those of layout_areas.c */
  hr__column_add(&c->tier, slot->tier);
  hr__column_add(&c->category, tenant->category);
  hr__column_add(&c->program, persistent ? 0 : (uint64_t)slot->program + 1);
  hr__column_add(&c->bytes, slot->bytes / l->unit);
  hr__column_add_next(&c->offset, slot->offset / l->unit);
  hr__column_add_next(&c->first, tenant->first);
  hr__column_add(&c->length, persistent ? 0 : tenant->last - tenant->first);
  hr__column_add_next(&c->slot, tenant->slot);
  return HR_OK;
}

hr_status hr__layout_buffers(hr_laying *l, json_t **out) {
  columns c = {0};
  hr_usage_owners owners[HR_TIER_COUNT];
  hr_status status = HR_OK;
  for (int t = 0; t < HR_TIER_COUNT; t++)
    HR_TRY(hr__usage_owners(l->plan, (hr_tier)t, &l->arena, &owners[t], l->err));
  for (size_t i = 0; i < l->tenants.count && status == HR_OK; i++)
    status = tenant_add(l, &c, owners, &l->tenants.list[i]);
  *out = json_pack("{s:I,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "count", (json_int_t)l->tenants.count,
                   "name", hr__name_column_end(&c.name), "module", hr__name_column_end(&c.module), "shape",
                   hr__name_column_end(&c.shape), "owner", hr__column_end(&c.owner), "tier", hr__column_end(&c.tier),
                   "category", hr__column_end(&c.category), "program", hr__column_end(&c.program), "bytes",
                   hr__column_end(&c.bytes), "offset", hr__column_end(&c.offset), "first", hr__column_end(&c.first),
                   "length", hr__column_end(&c.length), "home", hr__column_end(&c.slot));
  if (status == HR_OK && !*out) status = hr__nomem(l->err);
  if (status != HR_OK) json_decref(*out);
  return status;
}
