/* See reading.h. */
#include "apply/reading.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "format/literal.h"
#include "job/engine.h"

#define TARGETS "model.adapters.targets"

typedef struct reader {
  const hr_applied_file *file;
  hr_arena *arena;
  hr_reading *out;
  hr_error *err;
} reader;

/* --- where something stands --------------------------------------------------------------------------------------- */

static const char *place_of(const reader *r, const hr_doc_node *node) {
  char place[HR_DOC_PLACE];
  const char *name = r->file->config.name;
  return hr__arena_text(r->arena, node ? hr__doc_place(name, node, false, place) : name);
}

/* The value that the file has for any spelling, or NULL; *key is the spelling, else the usual one. */
static const hr_doc_node *node_find(const reader *r, const char *keys, const char **key) {
  char path[HR_MAP_PATH];
  const hr_doc_node *node = hr__applied_find(r->file, keys, path);
  *key = hr__arena_text(r->arena, path);
  return node;
}

static bool is_interpolation(const hr_doc_node *node) {
  return strstr(node->text, "${") || strstr(node->text, "{{");
}

/* Whether a value says nothing: null, or the `auto` of those who follow others. */
static bool is_silent(const reader *r, const hr_doc_node *node) {
  if (!node || node->kind != HR_DOC_SCALAR) return true;
  return hr__doc_is_null(node) || (r->file->map->follows && strcmp(node->text, "auto") == 0);
}

/* What a row means where its key is not there, as a value; NULL: nothing. */
static const hr_doc_node *absent_of(const hr_map_key *row, hr_doc_node *out) {
  *out = (hr_doc_node){.kind = HR_DOC_SCALAR, .text = row->absent};
  return row->absent && strcmp(row->absent, "*") != 0 ? out : NULL;
}

const hr_said *hr__reading_find(const hr_reading *reading, const char *setting) {
  for (size_t i = 0; i < reading->count; i++)
    if (strcmp(reading->said[i].setting, setting) == 0) return &reading->said[i];
  return NULL;
}

/* Adds what is said, unless another file has said it before with more than silence. */
static hr_status say(reader *r, hr_said said, const hr_doc_node *node) {
  said.place = place_of(r, node);
  said.shown = node && (node->kind != HR_DOC_SCALAR || !is_silent(r, node)) ? node->text : NULL;
  if (said.unlimited) said.shown = node ? "null" : NULL;
  if (node && node->kind == HR_DOC_LIST) said.shown = "[...]";
  if (!said.place || !said.key) return hr__nomem(r->err);
  hr_said *before = (hr_said *)hr__reading_find(r->out, said.setting);
  if (before) {
    if (!before->shown && said.shown) *before = said;
    return HR_OK;
  }
  if (hr__arena_grow(r->arena, (void **)&r->out->said, &r->out->capacity, r->out->count, sizeof said) != 0)
    return hr__nomem(r->err);
  r->out->said[r->out->count++] = said;
  return HR_OK;
}

/* --- words -------------------------------------------------------------------------------------------------------- */

typedef enum match { SILENT, YES, NO } match;

static bool part_is(const char *word, const char *text) {
  return word[0] == '!' ? !strstr(text, word + 1) : strstr(text, word) != NULL;
}

static bool word_is(const hr_map_key *row, const char *word, const hr_doc_node *node) {
  if (strcmp(word, "*") == 0) return true;
  if (row->part) return part_is(word, node->text);
  hr_literal literal = hr__applied_word(word);
  return hr__literal_means(&literal, NULL, node);
}

/* Whether a row says `value`. */
static match row_match(const reader *r, const hr_map_key *row, const char *value) {
  char path[HR_MAP_PATH], known[HR_MAP_PATH], words[HR_MAP_PATH], word[HR_MAP_PATH];
  hr_doc_node absent;
  const hr_doc_node *node = hr__applied_find(r->file, row->keys, path);
  if (is_silent(r, node)) node = absent_of(row, &absent);
  if (!node) return SILENT;
  for (const char *last = NULL; hr__map_line(row->words, &last, known, words);)
    for (const char *at = NULL; strcmp(known, value) == 0 && hr__map_next(words, ',', &at, word, sizeof word);)
      if (word_is(row, word, node)) return YES;
  return NO;
}

/* Whether a setting is read by a row: where it has rows that are only read, by these. */
static bool row_of(const reader *r, const hr_map_key *row, const char *setting) {
  const hr_map *map = r->file->map;
  bool reads = row->use == HR_MAP_READ;
  if (!row->setting || strcmp(row->setting, setting) != 0) return false;
  for (size_t i = 0; i < map->count && !reads; i++)
    if (map->keys[i].use == HR_MAP_READ && strcmp(map->keys[i].setting, setting) == 0) return false;
  return true;
}

/* The value that all rows of a setting agree on: *value stays NULL where there is none; *said: any row says anything.
 */
static void choice_find(const reader *r, const char *setting, const hr_map_key *first, char value[HR_MAP_PATH],
                        bool *found, bool *said) {
  const hr_map *map = r->file->map;
  char words[HR_MAP_PATH];
  *found = *said = false;
  for (const char *last = NULL; !*found && hr__map_line(first->words, &last, value, words);) {
    bool agreed = true, any = false;
    for (size_t i = 0; i < map->count; i++) {
      if (!row_of(r, &map->keys[i], setting)) continue;
      match is = row_match(r, &map->keys[i], value);
      agreed &= is != NO;
      any |= is != SILENT;
    }
    *said |= any;
    *found = agreed && any;
  }
}

/* The words that could stand there, as the reason why another one cannot be planned for. */
static const char *words_list(const reader *r, const hr_map_key *row) {
  const char *list = hr__arena_text(r->arena, "cannot be planned for, beside what its other keys say; known are");
  char value[HR_MAP_PATH], word[HR_MAP_PATH], before[HR_MAP_PATH] = "";
  for (const char *last = NULL; list && hr__map_line(row->words, &last, value, word);) {
    word[strcspn(word, ",")] = '\0';
    if (strcmp(word, before) != 0) list = hr__arena_format(r->arena, "%s%s %s", list, *before ? "," : "", word);
    snprintf(before, sizeof before, "%s", word);
  }
  return list;
}

static hr_status choice_read(reader *r, const hr_map_key *first) {
  const hr_map *map = r->file->map;
  char value[HR_MAP_PATH];
  bool found, any;
  const hr_doc_node *node = NULL;
  hr_said said = {.setting = first->setting};
  for (size_t i = 0; i < map->count && is_silent(r, node); i++) /* where it stands */
    if (row_of(r, &map->keys[i], first->setting)) node = node_find(r, map->keys[i].keys, &said.key);
  choice_find(r, first->setting, first, value, &found, &any);
  if (!any) return HR_OK;
  if (found) {
    said.value = hr__arena_text(r->arena, value);
    return said.value ? say(r, said, node) : hr__nomem(r->err);
  }
  said.reason = !is_silent(r, node) && is_interpolation(node) ? "is an interpolation, which is not followed"
                                                              : words_list(r, first);
  if (!said.reason) return hr__nomem(r->err);
  return say(r, said, node);
}

/* --- traits ------------------------------------------------------------------------------------------------------- */

static bool trait_word(const char *word, const hr_doc_node *node) {
  bool yes;
  if (word[0] == '~') {
    if (node->kind == HR_DOC_SCALAR) return strstr(node->text, word + 1) != NULL;
    for (const hr_doc_node *one = node->child; one; one = one->next)
      if (one->kind == HR_DOC_SCALAR && strstr(one->text, word + 1)) return true;
    return false;
  }
  if (strcmp(word, "*") == 0)
    return node->kind == HR_DOC_SCALAR ? *node->text && !hr__doc_is_null(node) && !(hr__doc_bool(node, &yes) && !yes)
                                       : node->child != NULL;
  if (node->kind != HR_DOC_SCALAR) return false;
  if (word[0] == '>') return strtod(node->text, NULL) > strtod(word + 1, NULL);
  if (word[0] == '<') return strtod(node->text, NULL) < strtod(word + 1, NULL);
  hr_literal literal = hr__applied_word(word);
  return hr__literal_means(&literal, NULL, node);
}

/* The first of its keys with one of its words, by its path; NULL: the config has not what the trait tells of. */
static const hr_doc_node *trait_find(const reader *r, const hr_map_trait *trait, char path[HR_MAP_PATH]) {
  static const hr_doc_node nothing = {.kind = HR_DOC_SCALAR, .text = "is not there"};
  char key[HR_MAP_PATH], word[HR_MAP_PATH];
  if (trait->unless && hr__config_find(&r->file->config, trait->unless)) return NULL;
  for (const char *last = NULL; hr__map_next(trait->keys, '|', &last, key, sizeof key);) {
    const hr_doc_node *node = hr__applied_find(r->file, key, path);
    for (const char *at = NULL; hr__map_next(trait->words, '|', &at, word, sizeof word);) {
      bool is_not = word[0] == '!';
      if ((node && trait_word(word + is_not, node)) != is_not) return node ? node : &nothing;
    }
  }
  return NULL;
}

hr_status hr__reading_trait(hr_reading *reading, hr_trait trait, hr_arena *arena, hr_error *err) {
  if (hr__arena_grow(arena, (void **)&reading->traits, &reading->cap_traits, reading->n_traits, sizeof trait) != 0)
    return hr__nomem(err);
  reading->traits[reading->n_traits++] = trait;
  return HR_OK;
}

static hr_status trait_read(reader *r, const hr_map_trait *trait) {
  char path[HR_MAP_PATH];
  const hr_doc_node *node = trait_find(r, trait, path);
  if (!node) return HR_OK;
  const char *shown = node->kind == HR_DOC_SCALAR && *node->text ? node->text : "...";
  hr_trait found = {trait, hr__arena_text(r->arena, path), shown, place_of(r, node)};
  return found.key && found.place ? hr__reading_trait(r->out, found, r->arena, r->err) : hr__nomem(r->err);
}

/* --- numbers ------------------------------------------------------------------------------------------------------ */

/* The text of a number as PyYAML has it, with underscores; false: it is none. */
static bool number_parse(const hr_doc_node *node, bool coerces, double *out) {
  char digits[64];
  size_t length = 0;
  if (node->quoted && !coerces) return false;
  for (const char *at = node->text; *at; at++) {
    if (*at == '_' && length > 0) continue;
    if (length + 1 == sizeof digits) return false;
    digits[length++] = *at;
  }
  digits[length] = '\0';
  hr_doc_node plain = {.kind = HR_DOC_SCALAR, .text = digits};
  return hr__doc_float(&plain, out);
}

/* The largest number that is read for a setting, no less than an int: smaller limits are told by the setting's own. */
static double number_most(const char *setting) {
  for (size_t i = 0; i < hr_engine_keys.count; i++)
    if (strcmp(hr_engine_keys.keys[i].path, setting) == 0 && hr_engine_keys.keys[i].max > INT32_MAX)
      return hr_engine_keys.keys[i].max;
  return INT32_MAX - 1;
}

static const char *number_reason(const hr_doc_node *node, bool whole, double most, bool coerces, double *number) {
  if (is_interpolation(node)) return "is an interpolation, which is not followed";
  if (!number_parse(node, coerces, number))
    return node->quoted && number_parse(node, true, number) ? "is text to this trainer: take the quotes away"
                                                            : "is no number";
  if (!whole) return *number >= 0 ? NULL : "is below zero";
  if (*number < 1) return "is not above zero";
  if (!(*number <= most) || *number != (double)(int64_t)*number) return "is no whole number of this size";
  return strchr(node->text, '.') && !coerces ? "is no whole number to this trainer" : NULL;
}

/* What decides about memory with sgd alone. */
static bool is_of_sgd(const char *setting) {
  return strcmp(setting, "training.optimizer.momentum") == 0 || strcmp(setting, "training.optimizer.weight_decay") == 0;
}

static bool by_sgd(const reader *r) {
  const hr_said *kind = hr__reading_find(r->out, "training.optimizer.kind");
  return kind && kind->value && strcmp(kind->value, "sgd") == 0;
}

static hr_status number_read(reader *r, const hr_map_key *row) {
  bool whole = strcmp(row->setting, "model.adapters.dropout") != 0 && !is_of_sgd(row->setting);
  hr_said said = {.setting = row->setting};
  const hr_doc_node *node = node_find(r, row->keys, &said.key);
  hr_doc_node absent;
  double number = 0;
  if (node && node->kind != HR_DOC_SCALAR) return HR_OK;
  if (node && row->automatic && strcmp(node->text, "auto") == 0) {
    said.value = row->automatic;
    return say(r, said, node);
  }
  if (is_silent(r, node) && row->unlimited) {
    said.unlimited = true;
    said.reason = "is no limit, so how long samples get is not said";
    return say(r, said, node);
  }
  const hr_doc_node *from = is_silent(r, node) ? absent_of(row, &absent) : node;
  if (!from) return HR_OK;
  said.reason = number_reason(from, whole, number_most(row->setting), r->file->map->coerces, &number);
  if (!said.reason)
    said.value =
        whole ? hr__arena_format(r->arena, "%" PRId64, (int64_t)number) : hr__arena_format(r->arena, "%.6g", number);
  return said.reason || said.value ? say(r, said, node) : hr__nomem(r->err);
}

/* --- which modules have adapters ---------------------------------------------------------------------------------- */

/* Adds the names that a word of a row stands for, "a+b", or the word itself. */
static hr_status target_add(reader *r, const hr_map_key *row, const char *word, const char **list) {
  char known[HR_MAP_PATH], its[HR_MAP_PATH], name[HR_MAP_PATH], names[HR_MAP_PATH];
  snprintf(names, sizeof names, "%s", word);
  for (const char *last = NULL; hr__map_line(row->words, &last, known, its);)
    if (strcmp(its, word) == 0) snprintf(names, sizeof names, "%s", known);
  for (const char *last = NULL; hr__map_next(names, '+', &last, name, sizeof name);) {
    *list = *list ? hr__arena_format(r->arena, "%s, %s", *list, name) : hr__arena_text(r->arena, name);
    if (!*list) return hr__nomem(r->err);
  }
  return HR_OK;
}

/* Names in a list, or in a text with commas; true where the row has a word for that. */
static hr_status row_targets(reader *r, const hr_map_key *row, const hr_doc_node *node, const char **list) {
  char word[HR_MAP_PATH];
  bool yes;
  if (node->kind == HR_DOC_LIST) {
    for (const hr_doc_node *one = node->child; one; one = one->next)
      if (one->kind == HR_DOC_SCALAR) HR_TRY(target_add(r, row, one->text, list));
    return HR_OK;
  }
  if (hr__doc_bool(node, &yes)) return yes ? target_add(r, row, "true", list) : HR_OK;
  for (const char *last = NULL; hr__map_next(node->text, ',', &last, word, sizeof word);)
    HR_TRY(target_add(r, row, word + strspn(word, " "), list));
  return HR_OK;
}

static hr_status targets_read(reader *r) {
  const hr_map *map = r->file->map;
  const char *list = NULL, *key;
  const hr_doc_node *at = NULL;
  hr_said said = {.setting = TARGETS};
  for (size_t i = 0; i < map->count; i++) {
    const hr_map_key *row = &map->keys[i];
    if (!row_of(r, row, TARGETS)) continue;
    const hr_doc_node *node = node_find(r, row->keys, &key);
    hr_doc_node absent;
    if (!said.key) said.key = key;
    bool there = node && !hr__doc_is_null(node);
    if (there && node->kind == HR_DOC_MAP) continue;
    if (there && !at) at = node, said.key = key;
    const hr_doc_node *from = there ? node : list ? NULL : absent_of(row, &absent);
    if (from) HR_TRY(row_targets(r, row, from, &list));
  }
  if (!list) return HR_OK;
  if (strpbrk(list, "\\()^$?{}[]|"))
    said.reason = "is a pattern of names, which is not followed";
  else
    said.value = hr__arena_format(r->arena, "[%s]", list);
  return said.reason || said.value ? say(r, said, at) : hr__nomem(r->err);
}

hr_status hr__reading_refuse(const hr_reading *reading, bool torch, hr_error *err) {
  for (size_t i = 0; i < reading->n_traits; i++) {
    const hr_trait *trait = &reading->traits[i];
    if (trait->of->effect == HR_TRAIT_OTHER)
      return hr__fail(err, HR_BAD_INPUT, trait->place, "name a config of supervised training or pre-training",
                      "%s: %.60s makes this a config for %s, which headroom apply does not plan", trait->key,
                      trait->shown, trait->of->text);
    if (trait->of->effect == HR_TRAIT_UNKNOWN && torch)
      return hr__fail(err, HR_BAD_INPUT, trait->place, "take it out, or plan as if it were not there with --override",
                      "%s: %.60s: %s", trait->key, trait->shown, trait->of->text);
  }
  return HR_OK;
}

bool hr__reading_pinned(const hr_reading *reading, const char *setting) {
  for (size_t i = 0; i < reading->n_traits; i++) {
    const char *pins = reading->traits[i].of->pins;
    if (pins && strcmp(pins, setting) == 0) return true;
  }
  return false;
}

/* --- all of it ---------------------------------------------------------------------------------------------------- */

/* Settings that are planned as configs say them. Offload has no meaning to PyTorch; alpha costs no memory. */
static bool is_read(const char *setting) {
  static const char *const left[] = {"memory.offload.", "memory.update", "data.taxonomy.", "model.adapters.alpha"};
  for (size_t i = 0; i < sizeof left / sizeof *left; i++)
    if (strncmp(setting, left[i], strlen(left[i])) == 0) return false;
  return true;
}

hr_status hr__reading_file(const hr_applied_file *file, hr_arena *arena, hr_reading *out, hr_error *err) {
  reader r = {file, arena, out, err};
  const hr_map *map = file->map;
  for (size_t i = 0; i < map->count; i++) {
    const hr_map_key *row = &map->keys[i];
    bool before = !row->setting || row->ranks || !is_read(row->setting) || !row_of(&r, row, row->setting);
    for (size_t k = 0; k < i && !before; k++)
      before = row_of(&r, &map->keys[k], row->setting);
    char path[HR_MAP_PATH];
    if (before || (is_of_sgd(row->setting) && !by_sgd(&r))) continue;
    if (row->where && !trait_find(&r, row->where, path)) continue;
    if (strcmp(row->setting, TARGETS) == 0)
      HR_TRY(targets_read(&r));
    else
      HR_TRY(row->words ? choice_read(&r, row) : number_read(&r, row));
  }
  for (size_t i = 0; i < map->n_traits; i++)
    HR_TRY(trait_read(&r, &map->traits[i]));
  return HR_OK;
}

hr_status hr__reading_make(const hr_applied_file *files, size_t count, hr_arena *arena, hr_reading *out,
                           hr_error *err) {
  const hr_map *engine = hr__map_named("deepspeed");
  HR_TRY(hr__reading_named(files, count, arena, out, err));
  for (int others = 0; others < 2; others++)
    for (size_t f = 0; f < count; f++)
      if (!files[f].map->lists && (files[f].map != engine) == others)
        HR_TRY(hr__reading_file(&files[f], arena, out, err));
  return HR_OK;
}

static bool number_of(const hr_reading *reading, const char *setting, bool explicit, int64_t *out) {
  const hr_said *said = hr__reading_find(reading, setting);
  if (!said || !said->value || (explicit && !said->shown)) return false;
  *out = strtoll(said->value, NULL, 10);
  return true;
}

bool hr__reading_batch(const hr_reading *reading, int64_t *out) {
  return number_of(reading, "training.batch_size", false, out);
}

bool hr__reading_accumulation(const hr_reading *reading, int64_t *out) {
  int64_t all, batch;
  if (number_of(reading, "training.gradient_accumulation", true, out)) return true;
  if (number_of(reading, "training.effective_batch", true, &all) && hr__reading_batch(reading, &batch)) {
    *out = all / batch > 0 ? all / batch : 1;
    return true;
  }
  return number_of(reading, "training.gradient_accumulation", false, out);
}

bool hr__reading_writable(const hr_applied_file *files, size_t count, const char *setting, bool insert) {
  char name[HR_MAP_PATH], path[HR_MAP_PATH];
  for (size_t f = 0; f < count; f++)
    for (size_t i = 0; i < files[f].map->count; i++) {
      const hr_map_key *row = &files[f].map->keys[i];
      if (!row->setting || row->use == HR_MAP_READ || strcmp(row->setting, setting) != 0) continue;
      if (insert) return true;
      for (const char *last = NULL; hr__map_spelling(row, &last, name);) {
        if (!hr__map_locate(files[f].map, &files[f].config, name, path)) continue;
        const hr_doc_node *node = hr__config_find(&files[f].config, path);
        if (node->kind == HR_DOC_SCALAR && !is_interpolation(node) && !node->tag && !node->aliases) return true;
      }
    }
  return false;
}
