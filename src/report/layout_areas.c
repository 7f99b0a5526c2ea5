/* Memory of a tier over the nodes of its programs. Fixed costs, the last series, are one number. See laying.h. */
#include "format/json.h"
#include "plan/usage.h"
#include "report/laying.h"

/* The changes of one series: how many nodes on each is, and by how much. */
static json_t *series_json(const hr_laying *l, const uint64_t *bytes, size_t nodes) {
  hr_column on = {0}, by = {0};
  uint64_t before = 0;
  size_t at = 0;
  for (size_t n = 0; n < nodes; n++) {
    if (bytes[n] == before) continue;
    hr__column_add(&on, n - at);
    hr__column_add_signed(&by, (int64_t)(bytes[n] - before) / (int64_t)l->unit);
    before = bytes[n];
    at = n;
  }
  return json_pack("[o, o]", hr__column_end(&on), hr__column_end(&by));
}

static json_t *table_json(const hr_laying *l, const uint64_t *bytes, size_t series, size_t nodes) {
  json_t *list = json_array();
  int failed = list == NULL;
  for (size_t s = 0; s < series && !failed; s++)
    failed = json_array_append_new(list, series_json(l, bytes + s * nodes, nodes));
  if (!failed) return list;
  json_decref(list);
  return NULL;
}

static hr_status program_areas(hr_laying *l, hr_tier tier, hr_id program, const hr_usage_owners *owners, json_t *list) {
  uint64_t *categories, *modules;
  size_t nodes = l->plan->graph->programs[program].count, n_owners = owners->count + 3;
  if (nodes == 0) nodes = 1;
  HR_TRY(hr__usage(l->plan, &l->tenants, tier, program, HR_CAT_COUNT, hr__usage_category, NULL, &l->arena, &categories,
                   l->err));
  HR_TRY(
      hr__usage(l->plan, &l->tenants, tier, program, n_owners, hr__usage_owner, owners, &l->arena, &modules, l->err));
  json_t *entry = json_pack("{s:o,s:o}", "categories", table_json(l, categories, HR_CAT_COUNT - 1, nodes), "owners",
                            table_json(l, modules, n_owners - 1, nodes));
  return json_array_append_new(list, entry) == 0 ? HR_OK : hr__nomem(l->err);
}

static json_t *owner_names(const hr_usage_owners *owners) {
  json_t *list = json_array();
  int failed = list == NULL;
  for (size_t i = 0; i < owners->count && !failed; i++)
    failed = json_array_append_new(list, hr__json_string(owners->names[i]));
  static const char *const behind[] = {"others", "gaps", "fixed"};
  for (size_t i = 0; i < 3 && !failed; i++)
    failed = json_array_append_new(list, json_string(behind[i]));
  if (!failed) return list;
  json_decref(list);
  return NULL;
}

hr_status hr__layout_areas(hr_laying *l, hr_tier tier, json_t **out) {
  const hr_tier_plan *held = &l->plan->tiers[tier];
  hr_usage_owners owners;
  json_t *programs = json_array();
  hr_status status = programs ? hr__usage_owners(l->plan, tier, &l->arena, &owners, l->err) : hr__nomem(l->err);
  for (hr_id p = 0; p < l->plan->graph->n_programs && status == HR_OK; p++)
    status = program_areas(l, tier, p, &owners, programs);
  if (status == HR_OK) {
    hr_id peak = hr__plan_peak_program(l->plan, tier);
    *out = json_pack("{s:s,s:I,s:I,s:I,s:I,s:o,s:O}", "name", hr_tier_name(tier), "peak_bytes",
                     (json_int_t)held->peak_bytes, "fixed_bytes", (json_int_t)held->fixed_bytes, "peak_program",
                     peak == HR_NONE ? (json_int_t)-1 : (json_int_t)peak, "peak_node", (json_int_t)held->peak_node,
                     "owners", owner_names(&owners), "programs", programs);
    if (!*out) status = hr__nomem(l->err);
  }
  json_decref(programs);
  return status;
}
