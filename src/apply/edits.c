/* The edits of apply: see apply/applied.h. */
#include "apply/applied.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
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

hr_status hr__applied_edit(hr_applied *a, hr_applied_file *file, hr_edit edit, const char *path, hr_error *err) {
  for (size_t i = 0; i < file->count; i++) /* two spellings that are one key in this file */
    if (file->edits[i].label == edit.label && strcmp(file->edits[i].path, path) == 0) return HR_OK;
  if (hr__arena_grow(a->arena, (void **)&file->edits, &file->capacity, file->count, sizeof *file->edits) != 0)
    return hr__nomem(err);
  edit.path = hr__arena_text(a->arena, path);
  edit.lists = file->map->lists;
  file->edits[file->count++] = edit;
  return edit.path ? HR_OK : hr__nomem(err);
}

const hr_doc_node *hr__applied_find(const hr_applied_file *file, const char *keys, char path[HR_MAP_PATH]) {
  char name[HR_MAP_PATH];
  const char *first = NULL;
  for (const char *last = NULL; hr__map_next(keys, '|', &last, name, sizeof name);)
    if (hr__map_locate(file->map, &file->config, name, path)) return hr__config_find(&file->config, path);
  hr__map_next(keys, '|', &first, path, HR_MAP_PATH);
  return NULL;
}

hr_literal hr__applied_word(const char *word) {
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

/* Whether a file that is read by the map has the key. */
static bool is_there(const hr_applied *a, const hr_map *map, const hr_map_key *key) {
  char path[HR_MAP_PATH];
  bool found = false;
  for (size_t f = 0; f < a->n_files; f++)
    found |= a->files[f].map == map && hr__applied_find(&a->files[f], key->keys, path);
  return found;
}

/* Whether a file has another key of the same section of a recipe. */
static bool has_beside(const hr_applied *a, const hr_map *map, const hr_map_key *key) {
  size_t section = (size_t)(strrchr(key->setting, '.') - key->setting) + 1;
  bool found = false;
  for (size_t i = 0; i < map->count; i++)
    found |= map->keys[i].setting && strncmp(map->keys[i].setting, key->setting, section) == 0 &&
             is_there(a, map, &map->keys[i]);
  return found;
}

/* Whether it matters that a value cannot be said: a file has the key, or needs it. */
static bool spoken(const hr_applied *a, const hr_map *map, const hr_map_key *key) {
  return !key->absent || strcmp(key->absent, "*") != 0 || is_there(a, map, key);
}

static bool is_rest_of_step(const hr_map_key *key) {
  return key->setting && !key->ranks && strcmp(key->setting, "training.batch_size") != 0 &&
         hr__applied_is_step(key->setting);
}

/* Accumulation and effective batch say the same beside the batch size: whether a file has the other one. */
static bool said_otherwise(const hr_applied *a, const hr_map *map, const hr_map_key *key) {
  bool said = false;
  for (size_t i = 0; i < map->count; i++) {
    const hr_map_key *other = &map->keys[i];
    if (is_rest_of_step(other) && strcmp(other->setting, key->setting) != 0) said |= is_there(a, map, other);
  }
  return said;
}

/* Whether a file says the value in a part of another key's value, so that this key need not. */
static bool said_in_part(const hr_applied *a, const hr_map *map, const hr_map_key *key, const char *value) {
  bool said = false;
  for (size_t i = 0; i < map->count; i++) {
    const hr_map_key *other = &map->keys[i];
    const char *word, *same;
    if (!other->part || other == key || other->use == HR_MAP_READ || strcmp(other->setting, key->setting) != 0)
      continue;
    if (!hr__map_word(other, value, a->arena, &word, &same) || !word) continue;
    char path[HR_MAP_PATH];
    for (size_t f = 0; f < a->n_files; f++) {
      const hr_doc_node *node = a->files[f].map == map ? hr__applied_find(&a->files[f], other->keys, path) : NULL;
      said |= node && node->kind == HR_DOC_SCALAR && strstr(node->text, word);
    }
  }
  return said;
}

/* Whether a file of the call holds the arguments that `auto` of this map stands for. */
static bool arguments_there(const hr_applied *a) {
  const hr_map *arguments = hr__map_named("huggingface");
  for (size_t f = 0; f < a->n_files; f++)
    if (hr__map_builds_on(a->files[f].map, arguments)) return true;
  return false;
}

bool hr__applied_number(const hr_applied_file *file, const char *setting, int64_t *out) {
  char path[HR_MAP_PATH];
  for (size_t i = 0; i < file->map->count; i++) {
    const hr_map_key *key = &file->map->keys[i];
    if (!key->setting || strcmp(key->setting, setting) != 0) continue;
    const hr_doc_node *node = hr__applied_find(file, key->keys, path);
    if (node) return hr__doc_int(node, out) && *out > 0 && *out < INT32_MAX;
  }
  return false;
}

/* The samples of all ranks, where the file says by its three numbers how many ranks there are. */
static bool ranks_value(const hr_applied *a, const hr_applied_file *file, hr_literal *out, hr_error *err) {
  const hr_training_shape *shape = &a->job->shape;
  int64_t all, batch, accumulation, now;
  if (!hr__applied_number(file, "training.effective_batch", &all) ||
      !hr__applied_number(file, "training.batch_size", &batch) ||
      !hr__applied_number(file, "training.gradient_accumulation", &accumulation) || all % (batch * accumulation) != 0 ||
      __builtin_mul_overflow(all / (batch * accumulation), shape->batch * shape->accumulation, &now))
    return false;
  *out = (hr_literal){HR_LITERAL_NUMBER, hr__arena_format(a->arena, "%" PRId64, now)};
  if (!out->text) hr__nomem(err);
  return true;
}

/* The edit of a key at its place in a file. */
static hr_status edit_there(hr_applied *a, hr_applied_file *file, const hr_map_key *key, hr_edit edit,
                            const char *value, const char *path, hr_error *err) {
  const hr_doc_node *node = hr__config_find(&file->config, path);
  bool scalar = node->kind == HR_DOC_SCALAR;
  if (key->unlimited && a->keep_open && hr__doc_is_null(node)) return HR_OK; /* samples are not to be cut */
  if (key->part) {
    bool no_memory = false;
    edit.value = (hr_literal){HR_LITERAL_TEXT, NULL};
    if (scalar) edit.value.text = hr__map_part(key, value, node->text, a->arena, &no_memory);
    if (no_memory) return hr__nomem(err);
    return edit.value.text ? hr__applied_edit(a, file, edit, path, err) : HR_OK;
  }
  if (scalar && strcmp(node->text, "auto") == 0 && file->map->follows) {
    if (key->ranks) return HR_OK; /* follows from the others */
    edit.same = "auto";
    if (arguments_there(a)) return hr__applied_edit(a, file, edit, path, err);
    return note_add(a, key, value, "is auto, as the trainer's arguments say: name their file beside this one", err);
  }
  if (!key->ranks) return hr__applied_edit(a, file, edit, path, err);
  if (!ranks_value(a, file, &edit.value, err))
    return note_add(a, key, edit.value.text,
                    "counts all ranks, and how many there are does not follow from the file: set it by hand", err);
  return edit.value.text ? hr__applied_edit(a, file, edit, path, err) : HR_NOMEM;
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
    edit.value = hr__applied_word(word);
  } else if (edit.value.kind == HR_LITERAL_FLOW && !key->asked &&
             (!own || strcmp(key->setting, "training.effective_batch") == 0)) {
    return spoken(a, map, key) ? note_add(a, key, value, "takes one value, not several", err) : HR_OK;
  }
  edit.empty = absent_means(key, &edit);
  bool found = false;
  char name[HR_MAP_PATH], path[HR_MAP_PATH];
  for (size_t f = 0; f < a->n_files; f++)
    for (const char *last = NULL; a->files[f].map == map && hr__map_spelling(key, &last, name);) {
      if (!hr__map_locate(map, &a->files[f].config, name, path)) continue;
      found = true;
      HR_TRY(edit_there(a, &a->files[f], key, edit, value, path, err));
    }
  if (found || edit.empty || (key->absent && strcmp(key->absent, "*") == 0) || (key->unlimited && a->keep_open))
    return HR_OK;
  if (a->beside) return HR_OK;
  if (!key->asked && is_rest_of_step(key) && said_otherwise(a, map, key)) return HR_OK;
  if (key->setting && said_in_part(a, map, key, value)) return HR_OK;
  bool insertable = !key->beside || has_beside(a, map, key);
  edit.insert = a->insert;
  if (a->insert && insertable) HR_TRY(hr__applied_insert(a, map, key, edit, &found, err));
  if (found) return HR_OK;
  const char *missing = !insertable ? "is not there, and not a key that every trainer of this kind knows"
                        : a->insert ? "has no place: something else stands there"
                                    : "is not there (--insert puts it in)";
  return note_add(a, key, value, missing, err);
}

/* Each file's own map by what it holds; a file that does not tell follows the others. */
static hr_status maps_find(hr_applied *a, const hr_map *named, hr_error *err) {
  const hr_map *most = NULL;
  int best = 0;
  for (size_t f = 0; f < a->n_files; f++) {
    hr_applied_file *file = &a->files[f];
    const hr_map *map = hr__map_of(&file->config, named);
    int score = map ? hr__map_score(map, &file->config) : 0;
    file->map = named || score >= 2 ? map : NULL;
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

/* Parses a file. One that is no config, and is not called one either, says so rather than where its first line fails.
 */
static hr_status file_parse(hr_applied *a, const hr_transaction_file *file, hr_config *config, hr_error *err) {
  hr_error why = {0};
  hr_status status = hr__config_parse(file->path, file->text, file->bytes, a->arena, config, &why);
  config->real = file->real;
  bool named =
      hr__text_ends(file->real, ".yaml") || hr__text_ends(file->real, ".yml") || hr__text_ends(file->real, ".json");
  bool keys = status == HR_OK && (config->root->kind == HR_DOC_MAP || hr__doc_is_null(config->root));
  if (!keys && !named && (status == HR_OK || status == HR_BAD_INPUT))
    return hr__fail(err, HR_BAD_INPUT, file->path, "headroom plan shows the settings, to be copied by hand",
                    "this is neither YAML nor JSON, the formats that headroom apply writes");
  if (status != HR_OK && err) *err = why;
  return status;
}

hr_status hr__applied_edits(hr_applied *a, const hr_map *map, const bool *files, hr_error *err) {
  const hr_transaction *transaction = a->transaction;
  for (size_t f = 0; f < transaction->count; f++) {
    if (files && !files[f]) continue;
    hr_applied_file *file = &a->files[a->n_files++];
    file->number = f;
    HR_TRY(file_parse(a, &transaction->files[f], &file->config, err));
  }
  HR_TRY(maps_find(a, map, err));
  for (size_t f = 0; f < a->n_files; f++) {
    bool before = false;
    for (size_t k = 0; k < f; k++)
      before |= a->files[k].map == a->files[f].map;
    for (size_t i = 0; i < a->files[f].map->count && !before; i++)
      if (a->files[f].map->keys[i].use == HR_MAP_BOTH)
        HR_TRY(key_apply(a, a->files[f].map, &a->files[f].map->keys[i], err));
  }
  if (!a->beside) HR_TRY(hr__applied_unsaid(a, err));
  for (size_t f = 0; f < a->n_files; f++) {
    hr_applied_file *file = &a->files[f];
    HR_TRY(hr__applied_sections(a, file, err));
    HR_TRY(hr__config_edit(&file->config, file->edits, file->count, a->arena, &file->text, &file->bytes, err));
    file->changed = file->text != file->config.text;
  }
  return HR_OK;
}
