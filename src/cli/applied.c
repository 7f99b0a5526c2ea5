/* The edits of apply: see cli/applied.h. */
#include "cli/applied.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "format/literal.h"

static hr_status note_add(hr_applied *a, const hr_map_key *key, const char *value, const char *reason, hr_error *err) {
  char usual[HR_MAP_PATH];
  const char *last = NULL;
  hr__map_spelling(key, &last, usual);
  if (hr__arena_grow(a->arena, (void **)&a->notes, &a->cap_notes, a->n_notes, sizeof *a->notes) != 0)
    return hr__nomem(err);
  hr_applied_note *note = &a->notes[a->n_notes++];
  *note = (hr_applied_note){key->setting, value, hr__arena_text(a->arena, usual), reason};
  return note->key && reason ? HR_OK : hr__nomem(err);
}

static hr_status edit_add(hr_applied *a, hr_applied_file *file, hr_edit edit, const char *path, hr_error *err) {
  for (size_t i = 0; i < file->count; i++) /* two spellings that are one key in this file */
    if (file->edits[i].label == edit.label && strcmp(file->edits[i].path, path) == 0) return HR_OK;
  if (hr__arena_grow(a->arena, (void **)&file->edits, &file->capacity, file->count, sizeof *file->edits) != 0)
    return hr__nomem(err);
  edit.path = hr__arena_text(a->arena, path);
  edit.lists = file->map->lists;
  file->edits[file->count++] = edit;
  return edit.path ? HR_OK : hr__nomem(err);
}

/* A word of a map as a value: true, false and numbers are what they look like. */
static hr_literal word_literal(const char *word) {
  hr_doc_node plain = {.kind = HR_DOC_SCALAR, .text = word};
  double number;
  bool yes;
  return (hr_literal){hr__doc_bool(&plain, &yes)       ? HR_LITERAL_BOOL
                      : hr__doc_float(&plain, &number) ? HR_LITERAL_NUMBER
                                                       : HR_LITERAL_TEXT,
                      word};
}

/* Whether a config without the key says the value already. */
static bool absent_means(const hr_map_key *key, const hr_edit *edit) {
  hr_doc_node absent = {.kind = HR_DOC_SCALAR, .text = key->absent};
  return key->absent && hr__literal_means(&edit->value, edit->same, &absent);
}

/* Puts the key into the first file of the map that has the section of one of its spellings. */
static hr_status insert_into_section(hr_applied *a, const hr_map *map, const hr_map_key *key, hr_edit edit, bool *done,
                                     hr_error *err) {
  char path[HR_MAP_PATH];
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
      if (!section || section->kind != HR_DOC_MAP) continue;
      *done = true;
      return edit_add(a, &a->files[f], edit, path, err);
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
      *entry =
          (hr_applied_new){hr__arena_text(a->arena, path), hr__arena_text(a->arena, dot + 1), key->setting, edit.value};
      *done = true;
      return entry->section && entry->rest ? HR_OK : hr__nomem(err);
    }
    *dot = '.';
    if (section->kind != HR_DOC_MAP) return HR_OK; /* something else stands there */
  }
  return HR_OK;
}

/* Whether a file that is read by the map has the key. */
static bool is_there(const hr_applied *a, const hr_map *map, const hr_map_key *key) {
  char name[HR_MAP_PATH], path[HR_MAP_PATH];
  bool found = false;
  for (size_t f = 0; f < a->n_files; f++)
    for (const char *last = NULL; a->files[f].map == map && hr__map_spelling(key, &last, name);)
      found |= hr__map_locate(map, &a->files[f].config, name, path);
  return found;
}

/* Whether it matters that a value cannot be said: a file has the key, or needs it. */
static bool spoken(const hr_applied *a, const hr_map *map, const hr_map_key *key) {
  return !key->absent || strcmp(key->absent, "*") != 0 || is_there(a, map, key);
}

/* In a recipe, accumulation and effective batch say the same beside the batch size: whether it has the other one. */
static bool said_otherwise(const hr_applied *a, const hr_map *map, const hr_map_key *key) {
  bool said = false;
  for (size_t i = 0; i < map->count; i++) {
    const hr_map_key *other = &map->keys[i];
    if (other->setting && other->setting != key->setting && strcmp(other->setting, "training.batch_size") != 0)
      said |= hr__applied_is_step(other->setting) && is_there(a, map, other);
  }
  return said;
}

/* The whole number that a file has for a setting. */
static bool number_there(const hr_applied_file *file, const char *setting, int64_t *out) {
  char name[HR_MAP_PATH], path[HR_MAP_PATH];
  for (size_t i = 0; i < file->map->count; i++) {
    const hr_map_key *key = &file->map->keys[i];
    if (!key->setting || strcmp(key->setting, setting) != 0) continue;
    for (const char *last = NULL; hr__map_spelling(key, &last, name);)
      if (hr__map_locate(file->map, &file->config, name, path))
        return hr__doc_int(hr__config_find(&file->config, path), out) && *out > 0 && *out < INT32_MAX;
  }
  return false;
}

/* The samples of all ranks, where the file says by its three numbers how many ranks there are. */
static bool ranks_value(const hr_applied *a, const hr_applied_file *file, hr_literal *out, hr_error *err) {
  const hr_training_shape *shape = &a->job->shape;
  int64_t all, batch, accumulation, now;
  if (!number_there(file, "training.effective_batch", &all) || !number_there(file, "training.batch_size", &batch) ||
      !number_there(file, "training.gradient_accumulation", &accumulation) || all % (batch * accumulation) != 0 ||
      __builtin_mul_overflow(all / (batch * accumulation), shape->batch * shape->accumulation, &now))
    return false;
  *out = (hr_literal){HR_LITERAL_NUMBER, hr__arena_format(a->arena, "%" PRId64, now)};
  if (!out->text) hr__nomem(err);
  return true;
}

/* The edit of a key at its place in a file. */
static hr_status edit_there(hr_applied *a, hr_applied_file *file, const hr_map_key *key, hr_edit edit, const char *path,
                            hr_error *err) {
  const hr_doc_node *node = hr__config_find(&file->config, path);
  if (!key->ranks) return edit_add(a, file, edit, path, err);
  if (node->kind == HR_DOC_SCALAR && strcmp(node->text, "auto") == 0) return HR_OK; /* follows from the others */
  if (!ranks_value(a, file, &edit.value, err))
    return note_add(a, key, edit.value.text,
                    "counts all ranks, and how many there are does not follow from the file: set it by hand", err);
  return edit.value.text ? edit_add(a, file, edit, path, err) : HR_NOMEM;
}

/* One key of a map, in every file that is read by it. */
static hr_status key_apply(hr_applied *a, const hr_map *map, const hr_map_key *key, hr_error *err) {
  bool own = map->lists;
  hr_edit edit = {.label = key->setting, .value = key->value};
  bool there = is_there(a, map, key);
  if (key->setting && !hr__applied_value(a, key, own, there, &edit.value))
    return key->asked ? note_add(a, key, "none", "has nothing to hold: the recipe gives no such value", err) : HR_OK;
  const char *value = edit.value.text;
  if (key->words) {
    const char *word;
    if (!hr__map_word(key, value, a->arena, &word, &edit.same))
      return spoken(a, map, key) ? note_add(a, key, value, "has no word for this value", err) : HR_OK;
    if (!word) return hr__nomem(err);
    edit.value = word_literal(word);
  } else if (edit.value.kind == HR_LITERAL_FLOW && !key->asked &&
             (!own || strcmp(key->setting, "training.effective_batch") == 0)) {
    return note_add(a, key, value, "takes one value, not several", err);
  }
  edit.empty = absent_means(key, &edit);
  bool found = false;
  char name[HR_MAP_PATH], path[HR_MAP_PATH];
  for (size_t f = 0; f < a->n_files; f++)
    for (const char *last = NULL; a->files[f].map == map && hr__map_spelling(key, &last, name);) {
      if (!hr__map_locate(map, &a->files[f].config, name, path)) continue;
      found = true;
      HR_TRY(edit_there(a, &a->files[f], key, edit, path, err));
    }
  if (found || edit.empty || (key->absent && strcmp(key->absent, "*") == 0)) return HR_OK;
  if (own && key->setting && !key->asked && strcmp(key->setting, "training.batch_size") != 0 &&
      hr__applied_is_step(key->setting) && said_otherwise(a, map, key))
    return HR_OK;
  edit.insert = a->insert;
  if (a->insert) HR_TRY(insert_into_section(a, map, key, edit, &found, err));
  if (a->insert && !found) HR_TRY(insert_with_section(a, map, key, edit, &found, err));
  if (found) return HR_OK;
  const char *missing = a->insert ? "has no place: something else stands there" : "is not there (--insert puts it in)";
  return note_add(a, key, value, missing, err);
}

/* Each file's own map by what it holds; a file that does not tell follows the others. */
static hr_status maps_find(hr_applied *a, const hr_map *named, hr_error *err) {
  const hr_map *most = NULL;
  int best = 0;
  for (size_t f = 0; f < a->n_files; f++) {
    hr_applied_file *file = &a->files[f];
    bool built_in = !named || hr__map_named(named->name) == named;
    const hr_map *guess = built_in ? hr__map_guess(&file->config, named) : named;
    int score = guess ? hr__map_score(guess, &file->config) : 0;
    file->map = named && !guess ? named : score >= 2 || named ? guess : NULL;
    if (file->map && score > best) {
      best = score;
      most = file->map;
    }
  }
  for (size_t f = 0; f < a->n_files; f++) {
    hr_applied_file *file = &a->files[f];
    if (!file->map) file->map = most ? most : hr__map_guess(&file->config, NULL);
    if (file->map) continue;
    const char *remedy = hr__arena_format(a->arena, "name a map: --map %sor a file of your own", hr_map_names);
    if (!remedy) return hr__nomem(err);
    return hr__fail(err, HR_BAD_INPUT, file->config.name, remedy, "no key of this file is one that headroom knows");
  }
  return HR_OK;
}

/* --- new sections ------------------------------------------------------------------------------------------------- */

/* The entries of `new` from `from` on whose path begins with `prefix` (of `skip` characters), as a flow map. Each is
 * taken once: its `rest` becomes NULL. NULL: out of memory. */
static const char *section_text(const hr_applied_file *file, const char *section, const char *prefix, hr_arena *arena) {
  bool json = file->config.json;
  const char *text = "{";
  size_t skip = strlen(prefix);
  for (size_t i = 0; i < file->n_new && text; i++) {
    hr_applied_new *entry = &file->new[i];
    if (!entry->rest || strcmp(entry->section, section) != 0 || strncmp(entry->rest, prefix, skip) != 0) continue;
    const char *rest = entry->rest + skip, *dot = strchr(rest, '.'), *value;
    char name[HR_MAP_PATH];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(rest, "."), rest);
    if (dot) {
      const char *deeper = hr__arena_format(arena, "%s%s.", prefix, name);
      value = deeper ? section_text(file, section, deeper, arena) : NULL;
    } else {
      value = hr__literal_text(&entry->value, NULL, json, arena);
      entry->rest = NULL;
    }
    const char *key = hr__literal_key(name, json, arena);
    if (!key || !value) return NULL;
    text = hr__arena_format(arena, "%s%s%s: %s", text, text[1] ? ", " : "", key, value);
  }
  return text ? hr__arena_format(arena, "%s}", text) : NULL;
}

static hr_status sections_add(hr_applied *a, hr_applied_file *file, hr_error *err) {
  for (size_t i = 0; i < file->n_new; i++) {
    hr_applied_new *entry = &file->new[i];
    if (!entry->rest) continue; /* in a section before */
    hr_edit edit = {.label = entry->setting, .insert = true, .value = {.kind = HR_LITERAL_FLOW}};
    edit.value.text = section_text(file, entry->section, "", a->arena);
    if (!edit.value.text) return hr__nomem(err);
    HR_TRY(edit_add(a, file, edit, entry->section, err));
  }
  return HR_OK;
}

hr_status hr__applied_plan(hr_applied *a, const hr_transaction *transaction, const hr_map *map, hr_error *err) {
  for (size_t f = 0; f < transaction->count; f++) {
    const hr_transaction_file *file = &transaction->files[f];
    hr_config *config = &a->files[a->n_files++].config;
    HR_TRY(hr__config_parse(file->path, file->text, file->bytes, a->arena, config, err));
    config->real = file->real;
  }
  HR_TRY(maps_find(a, map, err));
  for (size_t f = 0; f < a->n_files; f++) {
    bool before = false;
    for (size_t k = 0; k < f; k++)
      before |= a->files[k].map == a->files[f].map;
    for (size_t i = 0; i < a->files[f].map->count && !before; i++)
      HR_TRY(key_apply(a, a->files[f].map, &a->files[f].map->keys[i], err));
  }
  for (size_t f = 0; f < a->n_files; f++) {
    hr_applied_file *file = &a->files[f];
    HR_TRY(sections_add(a, file, err));
    HR_TRY(hr__config_edit(&file->config, file->edits, file->count, a->arena, &file->text, &file->bytes, err));
    file->changed = file->text != file->config.text;
  }
  return HR_OK;
}
