/* See stages.h. */
#include "job/stages.h"

#include <stdio.h>
#include <string.h>

#include "job/settings.h"

static hr_status stage_source(const hr_job_source *given, hr_arena *arena, hr_stage *stage, hr_error *err) {
  const char **overrides = hr__arena_array(arena, given->n_overrides + 1, sizeof *overrides);
  char *chosen = hr__arena_format(arena, "%s=%s", HR_STAGE, stage->name);
  if (!overrides || !chosen) return hr__nomem(err);
  if (given->n_overrides > 0) memcpy(overrides, given->overrides, given->n_overrides * sizeof *overrides);
  overrides[given->n_overrides] = chosen;
  stage->source = (hr_job_source){given->path, overrides, given->n_overrides + 1};
  return HR_OK;
}

static hr_status stages_take(const hr_job_source *source, const hr_recipe *recipe, hr_arena *arena, hr_stage **out,
                             size_t *count, hr_error *err) {
  hr_recipe_stage *named;
  if (hr__recipe_has(recipe, HR_STAGE)) return HR_OK;
  HR_TRY(hr__recipe_stages(recipe, HR_STAGES, arena, &named, count, err));
  *out = hr__arena_array(arena, *count + 1, sizeof **out);
  if (!*out) return hr__nomem(err);
  for (size_t i = 0; i < *count; i++) {
    (*out)[i] =
        (hr_stage){.name = named[i].name, .from = named[i].from, .also = named[i].also, .n_also = named[i].n_also};
    HR_TRY(stage_source(source, arena, &(*out)[i], err));
  }
  return HR_OK;
}

hr_status hr__stages_list(const hr_job_source *source, hr_arena *arena, hr_stage **out, size_t *count, hr_error *err) {
  hr_recipe *recipe = NULL;
  *out = NULL;
  *count = 0;
  HR_TRY(hr__settings_load(source->path, source->overrides, source->n_overrides, &recipe, err));
  hr_status status = stages_take(source, recipe, arena, out, count, err);
  hr__recipe_destroy(recipe);
  return status;
}

static hr_status befores_name(const hr_recipe *recipe, hr_arena *arena, const char **out, hr_error *err) {
  hr_recipe_stage *named, *chosen = NULL;
  size_t count;
  if (!hr__recipe_has(recipe, HR_STAGE)) return HR_OK;
  HR_TRY(hr__recipe_stages(recipe, HR_STAGES, arena, &named, &count, err));
  for (size_t i = 0; i < count; i++)
    if (strcmp(named[i].name, hr__recipe_text(recipe, HR_STAGE)) == 0) chosen = &named[i];
  if (!chosen || chosen->from < 0) return HR_OK;
  *out = named[chosen->from].name;
  for (int i = 0; i < chosen->n_also && *out; i++) /* the last one stands first */
    *out = hr__arena_format(arena, "%s, %s", named[chosen->also[i]].name, *out);
  return *out ? HR_OK : hr__nomem(err);
}

hr_status hr__stage_befores(const hr_job_source *source, hr_arena *arena, const char **out, hr_error *err) {
  hr_recipe *recipe = NULL;
  *out = NULL;
  HR_TRY(hr__settings_load(source->path, source->overrides, source->n_overrides, &recipe, err));
  hr_status status = befores_name(recipe, arena, out, err);
  hr__recipe_destroy(recipe);
  return status;
}

static hr_status follow_fail(const hr_job *job, const hr_stage *stage, const char *remedy, hr_error *err,
                             const char *what, const char *tensor) {
  char place[HR_STAGE_NAME + 64];
  snprintf(place, sizeof place, "%s.%s", HR_STAGES, stage->name);
  return hr__recipe_fail(job->recipe, place, remedy, err, what, tensor, stage->name);
}

static hr_status tensor_follow(const hr_job *job, const hr_stage *stage, const char *name, const hr_desc *shape,
                               hr_error *err) {
  const hr_graph *g = job->graph;
  hr_id value = hr__graph_find_value(g, name);
  for (size_t i = 0; i < g->n_packed; i++)
    if (strcmp(g->packed[i].name, name) == 0)
      return follow_fail(job, stage, "leave it out of quantize in this stage, or train it in none", err,
                         "%s is trained in a stage before, and quantized in stage %s", name);
  if (value == HR_NONE)
    return follow_fail(job, stage,
                       "keep its part, or its adapters, in this stage as well; data.cache_features leaves a part out",
                       err, "%s is trained in a stage before, but stage %s does not have it", name);
  if (hr_desc_same_shape(&g->values[value].desc, shape)) return HR_OK;
  return follow_fail(job, stage, "give both the same sizes (rank, config)", err,
                     "%s is trained in a stage before, but has another shape in stage %s", name);
}

static hr_status left_add(hr_stage_left *left, const char *name, const hr_desc *shape, hr_arena *arena, hr_error *err) {
  left->names[left->count] = hr__arena_text(arena, name);
  left->shapes[left->count] = *shape;
  return left->names[left->count++] ? HR_OK : hr__nomem(err);
}

static bool left_has(const hr_stage_left *left, const char *name) {
  for (size_t i = 0; i < left->count; i++)
    if (strcmp(left->names[i], name) == 0) return true;
  return false;
}

/* What one of those that a stage begins from leaves, and is frozen in it. */
static hr_status left_follow(const hr_stage_left *from, const hr_job *job, const hr_stage *stage, hr_arena *arena,
                             hr_stage_left *out, hr_error *err) {
  const hr_graph *g = job->graph;
  for (size_t i = 0; i < from->count; i++) {
    HR_TRY(tensor_follow(job, stage, from->names[i], &from->shapes[i], err));
    hr_id value = hr__graph_find_value(g, from->names[i]);
    if (!g->values[value].trained && !left_has(out, from->names[i]))
      HR_TRY(left_add(out, from->names[i], &from->shapes[i], arena, err));
  }
  return HR_OK;
}

hr_status hr__stage_follow(const hr_stage_left *left, const hr_job *job, const hr_stage *stage, hr_arena *arena,
                           hr_stage_left *out, hr_error *err) {
  const hr_graph *g = job->graph;
  size_t most = g->n_values + (stage->from >= 0 ? left[stage->from].count : 0);
  for (int i = 0; i < stage->n_also; i++)
    most += left[stage->also[i]].count;
  *out = (hr_stage_left){.names = hr__arena_array(arena, most, sizeof *out->names),
                         .shapes = hr__arena_array(arena, most, sizeof *out->shapes)};
  if (!out->names || !out->shapes) return hr__nomem(err);
  if (stage->from >= 0) HR_TRY(left_follow(&left[stage->from], job, stage, arena, out, err));
  for (int i = 0; i < stage->n_also; i++)
    HR_TRY(left_follow(&left[stage->also[i]], job, stage, arena, out, err));
  for (hr_id v = 0; v < g->n_values; v++)
    if (g->values[v].trained && hr__graph_is_tensor(g, v))
      HR_TRY(left_add(out, g->values[v].name, &g->values[v].desc, arena, err));
  return HR_OK;
}
