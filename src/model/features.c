/* See features.h. */
#include "model/features.h"

#include "data/keys.h"
#include "model/generation.h"

bool hr__features_alone(const hr_recipe *recipe) {
  return hr__recipe_key(recipe, HR_CACHE_FEATURES) && hr__recipe_word_is(recipe, HR_CACHE_FEATURES, "make");
}

bool hr__features_cached(const hr_recipe *recipe) {
  if (!hr__recipe_key(recipe, HR_CACHE_FEATURES) || hr__features_alone(recipe)) return false;
  hr_model_part whole = hr__model_whole(recipe);
  return whole.model->features && whole.model->features->cached(&whole);
}

hr_status hr__features_check(const hr_model_part *whole, hr_error *err) {
  const hr_recipe *recipe = whole->scope.recipe;
  bool asked = hr__features_alone(recipe) || hr__recipe_word_is(recipe, HR_CACHE_FEATURES, "true");
  if (whole->model->features || !asked) return HR_OK;
  return hr__recipe_fail(recipe, HR_CACHE_FEATURES, "leave it out", err,
                         "data.cache_features: models of the family %s have no part whose features are made once",
                         whole->model->family);
}

bool hr__untrained(const hr_recipe *recipe) {
  return hr__generation_alone(recipe) || hr__features_alone(recipe);
}

bool hr__part_left_out(const hr_model_parts *parts, size_t p, const hr_graph *graph) {
  if (p == 0) return hr__features_alone(parts->part[p].scope.recipe);
  for (hr_id n = 0; n < graph->n_nodes; n++)
    if (hr__parts_of(parts, graph->nodes[n].module) == p) return false;
  return true;
}

bool hr__pattern_left_out(const hr_model_parts *parts, const char *pattern, const hr_graph *graph) {
  return hr__part_left_out(parts, hr__parts_of(parts, pattern), graph);
}

hr_fields hr__features_fields(const hr_model_part *whole, int64_t rows) {
  hr_fields fields = {.count = 0};
  hr__field_add(&fields, whole->model->features->field(whole, rows));
  return fields;
}

void hr__features_emit(hr_builder *b, const hr_model_part *whole, int64_t rows) {
  hr_fields fields = hr__features_fields(whole, rows);
  hr_model_batch batch = hr__batch_declare(b, &fields, rows, 1);
  hr_id made = whole->model->features->make(b, whole, &batch);
  if (b->status == HR_OK) hr__program_set_output(b, HR_OUTPUT_FEATURES, made);
}
