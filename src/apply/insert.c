/* Keys that a config does not have yet, put in where their section is or with it: see apply/applied.h. */
#include <stdio.h>
#include <string.h>

#include "apply/applied.h"
#include "format/literal.h"

/* Whether the file has a key of its map in the section of `path` itself. */
static bool section_used(const hr_applied_file *file, const char *path) {
  char name[HR_MAP_PATH], at[HR_MAP_PATH];
  const char *dot = strrchr(path, '.');
  size_t length = dot ? (size_t)(dot - path) + 1 : 0;
  for (size_t i = 0; i < file->map->count; i++)
    for (const char *last = NULL; hr__map_spelling(&file->map->keys[i], &last, name);)
      if (hr__map_locate(file->map, &file->config, name, at) && strncmp(at, path, length) == 0 &&
          !strchr(at + length, '.'))
        return true;
  return false;
}

/* Puts the key into the first file of the map that has the section of one of its spellings: first of all one where
 * other keys of the map are. */
static hr_status insert_into_section(hr_applied *a, const hr_map *map, const hr_map_key *key, hr_edit edit, bool *done,
                                     hr_error *err) {
  char path[HR_MAP_PATH];
  for (int used = 1; used >= 0; used--)
    for (size_t f = 0; f < a->n_files; f++) {
      if (a->files[f].map != map) continue;
      for (const char *last = NULL; hr__map_spelling(key, &last, path);) {
        char *dot = strrchr(path, '.');
        const hr_doc_node *section = a->files[f].config.root;
        if (dot) {
          *dot = '\0';
          section = hr__config_find(&a->files[f].config, path);
          *dot = '.';
        }
        if (!section || section->kind != HR_DOC_MAP || (used && !section_used(&a->files[f], path))) continue;
        *done = true;
        return hr__applied_edit(a, &a->files[f], edit, path, err);
      }
    }
  return HR_OK;
}

/* Puts the key, by its usual spelling, with its section into the first file of the map. */
static hr_status insert_with_section(hr_applied *a, const hr_map *map, const hr_map_key *key, hr_edit edit, bool *done,
                                     hr_error *err) {
  char path[HR_MAP_PATH];
  const char *last = NULL;
  hr__map_spelling(key, &last, path);
  hr_applied_file *file = a->files;
  while (file->map != map)
    file++;
  if (file->config.root->kind != HR_DOC_MAP) return HR_OK;
  for (char *dot = strchr(path, '.'); dot; dot = strchr(dot + 1, '.')) {
    *dot = '\0';
    const hr_doc_node *section = hr__config_find(&file->config, path);
    bool open = !section || hr__doc_is_null(section);
    if (open) {
      if (hr__arena_grow(a->arena, (void **)&file->new, &file->cap_new, file->n_new, sizeof *file->new) != 0)
        return hr__nomem(err);
      hr_applied_new *entry = &file->new[file->n_new++];
      *entry = (hr_applied_new){hr__arena_text(a->arena, path), hr__arena_text(a->arena, dot + 1), key->setting,
                                edit.value, NULL};
      *done = true;
      return entry->section && entry->rest ? HR_OK : hr__nomem(err);
    }
    *dot = '.';
    if (section->kind != HR_DOC_MAP) return HR_OK; /* something else stands there */
  }
  return HR_OK;
}

hr_status hr__applied_insert(hr_applied *a, const hr_map *map, const hr_map_key *key, hr_edit edit, bool *done,
                             hr_error *err) {
  HR_TRY(insert_into_section(a, map, key, edit, done, err));
  return *done ? HR_OK : insert_with_section(a, map, key, edit, done, err);
}

/* The entries of `new` from `from` on whose path begins with `prefix` (of `skip` characters), as a flow map. Each is
 * taken once: it has its `text` then. NULL: out of memory. */
static const char *section_text(const hr_applied_file *file, const char *section, const char *prefix, hr_arena *arena) {
  bool json = file->config.json;
  const char *text = "{";
  size_t skip = strlen(prefix);
  for (size_t i = 0; i < file->n_new && text; i++) {
    hr_applied_new *entry = &file->new[i];
    if (entry->text || strcmp(entry->section, section) != 0 || strncmp(entry->rest, prefix, skip) != 0) continue;
    const char *rest = entry->rest + skip, *dot = strchr(rest, '.'), *value;
    char name[HR_MAP_PATH];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(rest, "."), rest);
    if (dot) {
      const char *deeper = hr__arena_format(arena, "%s%s.", prefix, name);
      value = deeper ? section_text(file, section, deeper, arena) : NULL;
    } else {
      value = entry->text = hr__literal_text(&entry->value, NULL, json, arena);
    }
    const char *key = hr__literal_key(name, json, arena);
    if (!key || !value) return NULL;
    text = hr__arena_format(arena, "%s%s%s: %s", text, text[1] ? ", " : "", key, value);
  }
  return text ? hr__arena_format(arena, "%s}", text) : NULL;
}

hr_status hr__applied_sections(hr_applied *a, hr_applied_file *file, hr_error *err) {
  for (size_t i = 0; i < file->n_new; i++) {
    hr_applied_new *entry = &file->new[i];
    if (entry->text) continue; /* in a section before */
    hr_edit edit = {.label = entry->setting, .insert = true, .value = {.kind = HR_LITERAL_FLOW}};
    edit.value.text = section_text(file, entry->section, "", a->arena);
    if (!edit.value.text) return hr__nomem(err);
    HR_TRY(hr__applied_edit(a, file, edit, entry->section, err));
  }
  return HR_OK;
}

bool hr__applied_told(const hr_applied_file *file, const hr_edit *edit, const void **last, char path[HR_APPLIED_PATH],
                      hr_edit *out) {
  const hr_applied_new *before = *last != edit ? *last : NULL, *entry = before ? before + 1 : file->new;
  *out = *edit;
  for (; entry < file->new + file->n_new; entry++) {
    if (edit->value.kind != HR_LITERAL_FLOW || strcmp(entry->section, edit->path) != 0) continue;
    snprintf(path, HR_APPLIED_PATH, "%s.%s", entry->section, entry->rest);
    out->label = entry->setting;
    out->path = path;
    out->now = entry->text;
    *last = entry;
    return true;
  }
  bool whole = !*last;
  *last = edit;
  return whole;
}
