/* Parts of a plan that no config of the call has a word for: see apply/applied.h. */
#include <string.h>

#include "apply/applied.h"

static bool any_says(const hr_applied *a, const char *setting) {
  for (size_t f = 0; f < a->n_files; f++)
    for (size_t i = 0; i < a->files[f].map->count; i++) {
      const char *own = a->files[f].map->keys[i].setting;
      if (own && a->files[f].map->keys[i].use == HR_MAP_BOTH && strcmp(own, setting) == 0) return true;
    }
  return false;
}

hr_status hr__applied_unsaid(hr_applied *a, hr_error *err) {
  for (int i = 0; i < HR_TECHNIQUE_KEYS; i++) {
    const hr_technique_key *technique = &hr_technique_keys[i];
    hr_map_key key = {.setting = technique->path};
    hr_literal value;
    if (!technique->shown || any_says(a, key.setting) || !hr__applied_value(a, &key, false, false, &value) ||
        strcmp(value.text, technique->plain) == 0)
      continue;
    const char *reason = hr__arena_format(
        a->arena, "no file has a key for it, so that its memory is not saved: --set %s=%s plans without", key.setting,
        technique->plain);
    if (!reason || hr__arena_grow(a->arena, (void **)&a->notes, &a->cap_notes, a->n_notes, sizeof *a->notes) != 0)
      return hr__nomem(err);
    a->notes[a->n_notes++] = (hr_applied_note){key.setting, value.text, "", reason};
  }
  return HR_OK;
}
