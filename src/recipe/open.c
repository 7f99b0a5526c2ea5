/* Settings that are open: given as a list of choices. */
#include "recipe/internal.h"

static hr_status choices_read(const hr_setting *setting, hr_arena *arena, hr_recipe_open *out, hr_error *err) {
  *out = (hr_recipe_open){.path = hr__arena_text(arena, setting->key->path)}; /* a scope's paths are the recipe's */
  if (!out->path) return hr__nomem(err);
  size_t room = 0;
  for (const hr_doc_node *choice = setting->open->child; choice; choice = choice->next)
    room++;
  const char **choices = hr__arena_array(arena, room, sizeof *choices);
  if (!choices) return hr__nomem(err);
  for (const hr_doc_node *choice = setting->open->child; choice; choice = choice->next) {
    choices[out->n_choices] = hr__node_text(arena, choice);
    if (!choices[out->n_choices++]) return hr__nomem(err);
  }
  out->choices = choices;
  return HR_OK;
}

bool hr__recipe_is_open(const hr_recipe *recipe) {
  for (size_t i = 0; i < recipe->count; i++)
    if (recipe->settings[i].open) return true;
  return false;
}

hr_status hr__recipe_open(const hr_recipe *recipe, hr_arena *arena, const hr_recipe_open **out, size_t *count,
                          hr_error *err) {
  *count = 0;
  size_t room = 0;
  for (size_t i = 0; i < recipe->count; i++)
    room += recipe->settings[i].open != NULL;
  hr_recipe_open *all = hr__arena_array(arena, room + 1, sizeof *all);
  if (!all) return hr__nomem(err);
  for (size_t i = 0; i < recipe->count; i++)
    if (recipe->settings[i].open) HR_TRY(choices_read(&recipe->settings[i], arena, &all[(*count)++], err));
  *out = all;
  return HR_OK;
}
