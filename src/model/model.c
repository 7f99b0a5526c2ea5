/* The families, and the settings that all of them share. */
#include "model/parts.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static const hr_model *const shipped[] = {
#define HR_FAMILY(name) &hr_model_##name,
#include "model/families.def"
#undef HR_FAMILY
};
enum { SHIPPED = sizeof shipped / sizeof *shipped };

static const hr_model *registered[HR_REGISTERED];
static size_t n_registered;

const hr_model *hr__model_at(size_t i) {
  if (i < SHIPPED) return shipped[i];
  return i - SHIPPED < n_registered ? registered[i - SHIPPED] : NULL;
}

const hr_model *hr__model_named(const char *name) {
  const hr_model *model;
  for (size_t i = 0; (model = hr__model_at(i)); i++)
    if (strcmp(model->family, name) == 0) return model;
  return NULL;
}

size_t hr__model_tables(const hr_key_table **out, size_t capacity) {
  const hr_model *model;
  size_t count = 0;
  for (size_t i = 0; (model = hr__model_at(i)); i++)
    for (const hr_key_table *const *table = model->keys; *table; table++) {
      size_t k = 0;
      while (k < count && out[k] != *table)
        k++;
      if (k == count && count < capacity) out[count++] = *table;
    }
  return count;
}

void hr__model_register(const hr_model *model) {
  if (hr__model_named(model->family)) return;
  assert(n_registered < HR_REGISTERED);
  registered[n_registered++] = model;
}

void hr__model_families(char *out, size_t capacity) {
  const hr_model *model;
  size_t used = 0;
  for (size_t i = 0; (model = hr__model_at(i)) && used < capacity; i++)
    used += (size_t)snprintf(out + used, capacity - used, "%s%s", i ? ", " : "", model->family);
}

const char *hr__scope_precision(const hr_scope *scope) {
  return hr__scope_has(scope, "precision") ? hr__scope_text(scope, "precision")
                                           : hr__recipe_text(scope->recipe, "model.precision");
}

hr_model_part hr__model_whole(const hr_recipe *recipe) {
  hr_model_part whole = {.name = "", .scope = hr__scope(recipe, "model")};
  const char *family = hr__scope_text(&whole.scope, "family");
  bool by_hand = strcmp(family, hr_model_by_hand.family) == 0;
  whole.model = by_hand ? &hr_model_by_hand : hr__model_named(family);
  assert(whole.model); /* else its keys could not have been opened */
  return whole;
}

int64_t hr__model_vocabulary(const hr_recipe *recipe) {
  hr_model_part whole = hr__model_whole(recipe);
  return whole.model->vocabulary ? whole.model->vocabulary(&whole) : 0;
}

hr_status hr__model_check(const hr_recipe *recipe, hr_error *err) {
  hr_model_parts parts;
  hr__parts_read(recipe, &parts);
  for (size_t i = 0; i < parts.count; i++)
    if (parts.part[i].model->check) HR_TRY(parts.part[i].model->check(&parts.part[i], err));
  return HR_OK;
}

hr_id hr__model_forward(hr_builder *b, const hr_model_part *part, const hr_model_batch *batch) {
  const hr_model *model = part->model;
  hr_id hidden = model->body(b, part, model->embed(b, part, batch), batch);
  return model->loss(b, part, hidden, batch);
}
