#include "report/layout.h"

#include "report/laying.h"

static uint64_t divisor(uint64_t a, uint64_t b) {
  while (b > 0) {
    uint64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

/* The largest number of bytes that divides every size and offset. */
static uint64_t unit_find(const hr_plan *plan) {
  uint64_t unit = 0;
  for (size_t i = 0; i < plan->n_slots; i++)
    unit = divisor(divisor(unit, plan->slots[i].bytes), plan->slots[i].offset);
  for (int t = 0; t < HR_TIER_COUNT; t++)
    unit = divisor(unit, plan->tiers[t].arena_bytes);
  return unit > 0 ? unit : 1;
}

static json_t *category_names(void) {
  json_t *list = json_array();
  int failed = list == NULL;
  for (int c = 0; c < HR_CAT_COUNT && !failed; c++)
    failed = json_array_append_new(list, json_string(hr_category_name((hr_category)c)));
  if (!failed) return list;
  json_decref(list);
  return NULL;
}

static hr_status parts_make(hr_laying *l, json_t *object) {
  json_t *buffers = NULL, *tiers = json_array(), *programs = json_array();
  int failed = json_object_set_new(object, "tiers", tiers) | json_object_set_new(object, "programs", programs);
  if (failed) return hr__nomem(l->err);
  for (int t = 0; t < HR_TIER_COUNT; t++) {
    json_t *tier = NULL;
    if (l->plan->tiers[t].arena_bytes == 0) continue;
    HR_TRY(hr__layout_areas(l, (hr_tier)t, &tier));
    if (json_array_append_new(tiers, tier) != 0) return hr__nomem(l->err);
  }
  for (hr_id p = 0; p < l->plan->graph->n_programs; p++) {
    json_t *program = NULL;
    HR_TRY(hr__layout_program(l, p, &program));
    if (json_array_append_new(programs, program) != 0) return hr__nomem(l->err);
  }
  HR_TRY(hr__layout_buffers(l, &buffers));
  failed = json_object_set_new(object, "buffers", buffers);
  failed |= json_object_set_new(object, "names", hr__names_json(&l->names));
  failed |= json_object_set_new(object, "categories", category_names());
  failed |= json_object_set_new(object, "unit", json_integer((json_int_t)l->unit));
  return failed ? hr__nomem(l->err) : HR_OK;
}

hr_status hr__layout_json(const hr_job *job, json_t **out, hr_error *err) {
  hr_laying l = {.job = job, .plan = job->plan, .unit = unit_find(job->plan), .err = err};
  json_t *object = json_object();
  hr__arena_init(&l.arena);
  hr__names_init(&l.names);
  hr_status status = object ? hr__tenants(job->plan, &l.arena, &l.tenants, err) : hr__nomem(err);
  if (status == HR_OK) status = parts_make(&l, object);
  hr__names_fini(&l.names);
  hr__arena_fini(&l.arena);
  if (status == HR_OK)
    *out = object;
  else
    json_decref(object);
  return status;
}
