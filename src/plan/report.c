#include "plan/report.h"

#include "format/json.h"
#include "plan/tenants.h"

static json_t *bytes_json(uint64_t bytes) {
  return json_integer((json_int_t)bytes);
}

void hr__report_parameters(const hr_graph *graph, uint64_t *parameters, uint64_t *trainable) {
  *parameters = *trainable = 0;
  for (size_t v = 0; v < graph->n_values; v++) {
    const hr_value *value = &graph->values[v];
    if (!hr__graph_is_tensor(graph, (hr_id)v) || graph->buffers[value->buffer].role != HR_ROLE_PARAMETER) continue;
    uint64_t count = (uint64_t)hr_desc_count(&value->desc);
    if (!hr__graph_is_packed(graph, (hr_id)v)) *parameters += count;
    if (value->trained) *trainable += count;
  }
  for (size_t i = 0; i < graph->n_packed; i++)
    *parameters += (uint64_t)hr_desc_count(&graph->packed[i].desc);
}

/* Each has two matrices. */
static json_t *adapters_json(const hr_graph *graph) {
  json_int_t matrices = 0;
  for (size_t v = 0; v < graph->n_values; v++) {
    const hr_value *value = &graph->values[v];
    bool parameter = graph->buffers[value->buffer].role == HR_ROLE_PARAMETER;
    matrices += parameter && value->keep_f32 && hr__graph_is_tensor(graph, (hr_id)v);
  }
  return matrices ? json_integer(matrices / 2) : json_null();
}

static json_t *categories_json(const hr_tier_plan *tier) {
  json_t *object = json_object();
  int failed = object == NULL;
  for (int c = 0; c < HR_CAT_COUNT && !failed; c++)
    failed = json_object_set_new(object, hr_category_name((hr_category)c), bytes_json(tier->categories[c]));
  if (!failed) return object;
  json_decref(object);
  return NULL;
}

/* {"peak_bytes", "arena_bytes", "persistent_bytes", "fixed_bytes", "lower_bound_bytes", "categories"} */
static json_t *tier_json(const hr_tier_plan *tier) {
  return json_pack("{s:o,s:o,s:o,s:o,s:o,s:o}", "peak_bytes", bytes_json(tier->peak_bytes), "arena_bytes",
                   bytes_json(tier->arena_bytes), "persistent_bytes", bytes_json(tier->persistent_bytes), "fixed_bytes",
                   bytes_json(tier->fixed_bytes), "lower_bound_bytes", bytes_json(tier->lower_bound_bytes),
                   "categories", categories_json(tier));
}

static json_t *device_json(const hr_plan *plan, const hr_verdict *verdict) {
  json_t *object = tier_json(&plan->tiers[HR_TIER_DEVICE]);
  if (!object) return NULL;
  int failed = json_object_set_new(object, "name", json_string(plan->facts.name));
  failed |= json_object_set_new(object, "kind", json_string(hr_device_kind_name(plan->facts.kind)));
  failed |= json_object_set_new(object, "budget_bytes", bytes_json(verdict->budget_bytes));
  failed |= json_object_set_new(object, "margin_bytes", bytes_json(verdict->margin_bytes));
  failed |= json_object_set_new(object, "present", json_boolean(!plan->facts.absent));
  failed |= json_object_set_new(object, "fixed_margin_bytes", bytes_json(plan->facts.margin_bytes));
  if (!failed) return object;
  json_decref(object);
  return NULL;
}

/* What is free now is no part of a plan: a budget that is `auto` is null. */
static json_t *below_json(const hr_plan *plan, const hr_verdict *verdict, const hr_recipe *recipe, hr_tier tier) {
  const char *path = tier == HR_TIER_HOST ? "memory.host_budget" : "memory.disk_budget";
  bool given = recipe && hr__recipe_has(recipe, path) && !hr__recipe_is_word(recipe, path);
  json_t *budget = given ? bytes_json(verdict->below_bytes[tier]) : json_null();
  json_t *object = tier_json(&plan->tiers[tier]);
  if (!object) {
    json_decref(budget);
    return NULL;
  }
  if (json_object_set_new(object, "budget_bytes", budget) == 0) return object;
  json_decref(object);
  return NULL;
}

static json_t *owners_json(const hr_owner *owners, int count) {
  json_t *list = json_array();
  int failed = list == NULL;
  for (int i = 0; i < count && !failed; i++)
    failed = json_array_append_new(
        list, json_pack("{s:s,s:o}", "name", owners[i].name, "bytes", bytes_json(owners[i].bytes)));
  if (!failed) return list;
  json_decref(list);
  return NULL;
}

static json_t *phases_json(const hr_phases *phases) {
  return json_pack("{s:o,s:o,s:o,s:o,s:o,s:o}", "load", bytes_json(phases->load), "first_step",
                   bytes_json(phases->first_step), "steady", bytes_json(phases->steady), "eval",
                   bytes_json(phases->eval), "save", bytes_json(phases->save), "resume", bytes_json(phases->resume));
}

static json_t *host_phases_json(const hr_host_phases *phases) {
  return json_pack("{s:o,s:o,s:o,s:o}", "prepare", bytes_json(phases->prepare), "load", bytes_json(phases->load),
                   "train", bytes_json(phases->train), "save", bytes_json(phases->save));
}

/* Names of trained parameters that nothing flows back to. */
static json_t *untrained_json(const hr_graph *graph) {
  json_t *list = json_array();
  size_t count = hr__graph_untrained(graph, NULL, 0);
  hr_id *values = hr__alloc_zero(count + 1, sizeof *values);
  int failed = list == NULL || values == NULL;
  if (!failed) hr__graph_untrained(graph, values, count);
  for (size_t i = 0; i < count && !failed; i++)
    failed = json_array_append_new(list, json_string(graph->values[values[i]].name));
  hr__free(values);
  if (!failed) return list;
  json_decref(list);
  return NULL;
}

static json_t *model_json(const hr_plan *plan, const hr_recipe *recipe) {
  uint64_t parameters, trainable;
  hr__report_parameters(plan->graph, &parameters, &trainable);
  const char *family =
      recipe && hr__recipe_has(recipe, "model.family") ? hr__recipe_text(recipe, "model.family") : NULL;
  json_t *object = json_pack("{s:s?,s:o,s:o,s:o}", "family", family, "parameters", bytes_json(parameters),
                             "trainable_parameters", bytes_json(trainable), "adapters", adapters_json(plan->graph));
  if (!object || hr__graph_untrained(plan->graph, NULL, 0) == 0) return object;
  if (json_object_set_new(object, "without_gradient", untrained_json(plan->graph)) == 0) return object;
  json_decref(object);
  return NULL;
}

json_t *hr__report_json(const hr_plan *plan, const hr_verdict *verdict, const hr_recipe *recipe) {
  hr__json_init();
  return json_pack("{s:i,s:b,s:s,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:[],s:f,s:o,s:o}", "schema", 1, "fits", verdict->fits,
                   "fingerprint", plan->fingerprint, "settings", recipe ? hr__recipe_json(recipe) : json_object(),
                   "model", model_json(plan, recipe), "device", device_json(plan, verdict), "host",
                   below_json(plan, verdict, recipe, HR_TIER_HOST), "disk",
                   below_json(plan, verdict, recipe, HR_TIER_DISK), "phases", phases_json(&plan->phases), "host_phases",
                   host_phases_json(&verdict->phases), "techniques", "step_seconds", plan->step_seconds,
                   "largest_categories", owners_json(verdict->categories, verdict->n_categories), "largest_buffers",
                   owners_json(verdict->buffers, verdict->n_buffers));
}

/* --- the buffer list -------------------------------------------------------------------------------------------- */

/* `home` is the number of the slot: buffers with the same one share its bytes, one after another. */
static json_t *entry_json(const hr_plan *plan, const hr_tenant *tenant) {
  const hr_slot *slot = &plan->slots[tenant->slot];
  bool persistent = slot->program == HR_NONE;
  char shape[HR_SHAPE_TEXT];
  hr__tenant_shape(plan, tenant, shape);
  return json_pack("{s:o,s:s,s:s,s:s?,s:o,s:I,s:o,s:o,s:I,s:o,s:s?}", "name", hr__json_string(tenant->name), "tier",
                   hr_tier_name(slot->tier), "category", hr_category_name(tenant->category), "program",
                   persistent ? NULL : plan->graph->programs[slot->program].name, "bytes", bytes_json(slot->bytes),
                   "first", (json_int_t)tenant->first, "last",
                   persistent ? json_null() : json_integer((json_int_t)tenant->last), "offset",
                   bytes_json(slot->offset), "home", (json_int_t)tenant->slot, "module",
                   hr__json_string(tenant->module), "shape", shape[0] ? shape : NULL);
}

static json_t *entries_json(const hr_plan *plan, const hr_tenants *tenants) {
  json_t *list = json_array();
  int failed = list == NULL;
  for (size_t i = 0; i < tenants->count && !failed; i++)
    failed = json_array_append_new(list, entry_json(plan, &tenants->list[i]));
  if (!failed) return list;
  json_decref(list);
  return NULL;
}

static json_t *buffers_json(const hr_plan *plan) {
  hr_arena arena;
  hr_tenants tenants;
  hr__arena_init(&arena);
  json_t *list = hr__tenants(plan, &arena, &tenants, NULL) == HR_OK ? entries_json(plan, &tenants) : NULL;
  hr__arena_fini(&arena);
  return list;
}

static json_t *program_json(const hr_plan *plan, size_t id) {
  const hr_program_plan *program = &plan->programs[id];
  return json_pack("{s:s,s:I,s:o,s:o,s:I,s:f}", "name", plan->graph->programs[id].name, "nodes",
                   (json_int_t)plan->graph->programs[id].count, "transient_bytes",
                   bytes_json(program->transient_bytes[HR_TIER_DEVICE]), "lower_bound_bytes",
                   bytes_json(program->lower_bound_bytes[HR_TIER_DEVICE]), "peak_node", (json_int_t)program->peak_node,
                   "seconds", program->seconds);
}

json_t *hr__report_buffers_json(const hr_plan *plan) {
  hr__json_init();
  json_t *root = json_pack("{s:i,s:s,s:o,s:{},s:[],s:o}", "schema", 1, "fingerprint", plan->fingerprint, "alignment",
                           bytes_json(plan->facts.alignment), "arena_bytes", "programs", "buffers", buffers_json(plan));
  if (!root) return NULL;
  json_t *arenas = json_object_get(root, "arena_bytes");
  int failed = 0;
  for (int t = 0; t < HR_TIER_COUNT; t++)
    failed |= json_object_set_new(arenas, hr_tier_name((hr_tier)t), bytes_json(plan->tiers[t].arena_bytes));
  for (size_t p = 0; p < plan->graph->n_programs; p++)
    failed |= json_array_append_new(json_object_get(root, "programs"), program_json(plan, p));
  if (!failed) return root;
  json_decref(root);
  return NULL;
}

/* --- text ------------------------------------------------------------------------------------------------------- */

void hr__report_buffers_text(const hr_plan *plan, FILE *to) {
  fprintf(to, "plan %s\n", plan->fingerprint);
  for (size_t s = 0; s < plan->n_slots; s++) {
    const hr_slot *slot = &plan->slots[s];
    const char *program = slot->program == HR_NONE ? "-" : plan->graph->programs[slot->program].name;
    fprintf(to, "%-6s %12zu %12zu  %-12s ", hr_tier_name(slot->tier), slot->offset, slot->bytes, program);
    if (slot->program == HR_NONE) {
      fprintf(to, "%5s %5s", "-", "-");
    } else {
      fprintf(to, "%5u %5u", slot->first, slot->last);
    }
    fprintf(to, "  %-11s %s\n", hr_category_name(slot->category), slot->name);
  }
}
