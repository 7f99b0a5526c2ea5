/* See packing.h. */
#include "data/packing.h"

static const char PACKING[] = "data.packing";

bool hr__packing(const hr_recipe *recipe) {
  return hr__recipe_bool(recipe, PACKING);
}

hr_status hr__packing_check(const hr_recipe *recipe, bool masked, hr_error *err) {
  if (!hr__packing(recipe)) return HR_OK;
  if (masked)
    return hr__recipe_fail(recipe, PACKING, "leave data.packing out; data.buckets saves padding as well", err,
                           "documents are packed for models that predict the next token only");
  const hr_source *source = hr__source_named(recipe);
  if (source->purposes >> HR_FOR_STARTS & 1 || source->scan || source->in_rows) return HR_OK;
  return hr__recipe_fail(recipe, PACKING, "use source lines, rows, text, ids or events", err,
                         "source %s has no documents to pack", source->name);
}
