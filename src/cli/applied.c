/* The edits of apply: see cli/applied.h. */
#include "cli/applied.h"

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
static hr_status insert_somewhere(hr_applied *a, const hr_map *map, const hr_map_key *key, hr_edit edit, bool *done,
                                  hr_error *err) {
  char path[HR_MAP_PATH];
  edit.insert = true;
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

/* One key of a map, in every file that is read by it. */
static hr_status key_apply(hr_applied *a, const hr_map *map, const hr_map_key *key, hr_error *err) {
  bool own = map->lists;
  hr_edit edit = {.label = key->setting, .value = key->value};
  if (key->setting && !hr__applied_value(a, key, own, &edit.value))
    return key->asked ? note_add(a, key, "none", "has nothing to hold: the recipe gives no such value", err) : HR_OK;
  const char *value = edit.value.text;
  if (key->words) {
    const char *word;
    if (!hr__map_word(key, value, a->arena, &word, &edit.same))
      return note_add(a, key, value, "has no word for this value", err);
    if (!word) return hr__nomem(err);
    edit.value = word_literal(word);
  } else if (edit.value.kind == HR_LITERAL_FLOW && !own && !key->asked) {
    return note_add(a, key, value, "takes one value, not several", err);
  }
  edit.empty = absent_means(key, &edit);
  bool found = false;
  char name[HR_MAP_PATH], path[HR_MAP_PATH];
  for (size_t f = 0; f < a->n_files; f++)
    for (const char *last = NULL; a->files[f].map == map && hr__map_spelling(key, &last, name);) {
      if (!hr__map_locate(map, &a->files[f].config, name, path)) continue;
      found = true;
      HR_TRY(edit_add(a, &a->files[f], edit, path, err));
    }
  if (found || edit.empty) return HR_OK;
  if (a->insert) HR_TRY(insert_somewhere(a, map, key, edit, &found, err));
  if (found) return HR_OK;
  const char *missing = a->insert ? "is not there, nor is its section" : "is not there (--insert puts it in)";
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
    if (!file->map)
      return hr__fail(
          err, HR_BAD_INPUT, file->config.name,
          "name a map: --map headroom, lightning, huggingface, torchtune, axolotl, llama-factory, deepspeed, "
          "or a file of your own",
          "no key of this file is one that headroom knows");
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
    HR_TRY(hr__config_edit(&file->config, file->edits, file->count, a->arena, &file->text, &file->bytes, err));
    file->changed = file->text != file->config.text;
  }
  return HR_OK;
}
