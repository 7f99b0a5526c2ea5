/* Parts of a plan that no config of the call has a word for: see applied.h. */
#include <string.h>

#include "cli/applied.h"

static bool any_says(const hr_applied *a, const char *setting) {
  for (size_t f = 0; f < a->n_files; f++)
    for (size_t i = 0; i < a->files[f].map->count; i++) {
      const char *own = a->files[f].map->keys[i].setting;
      if (own && strcmp(own, setting) == 0) return true;
    }
  return false;
}

hr_status hr__applied_unsaid(hr_applied *a, hr_error *err) {
  static const struct {
    const char *setting, *plain;
  } techniques[] = {{"memory.offload.optimizer", "device"},
                    {"memory.offload.parameters", "device"},
                    {"memory.offload.gradients", "device"},
                    {"memory.offload.activations", "device"},
                    {"memory.update", "after-backward"}};
  for (size_t i = 0; i < sizeof techniques / sizeof *techniques; i++) {
    hr_map_key key = {.setting = techniques[i].setting};
    hr_literal value;
    if (any_says(a, key.setting) || !hr__applied_value(a, &key, false, false, &value) ||
        strcmp(value.text, techniques[i].plain) == 0)
      continue;
    const char *reason = hr__arena_format(
        a->arena, "no file has a key for it, so that its memory is not saved: --set %s=%s plans without", key.setting,
        techniques[i].plain);
    if (!reason || hr__arena_grow(a->arena, (void **)&a->notes, &a->cap_notes, a->n_notes, sizeof *a->notes) != 0)
      return hr__nomem(err);
    a->notes[a->n_notes++] = (hr_applied_note){key.setting, value.text, "", reason};
  }
  return HR_OK;
}
