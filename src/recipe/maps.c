/* Reading key maps and telling configs apart: see recipe/maps.h. */
#include "recipe/maps.h"

#include <stdio.h>
#include <string.h>

bool hr__map_next(const char *list, char mark, const char **last, char *out, size_t capacity) {
  const char *begin = *last ? strchr(*last, mark) : list;
  if (!begin) return false;
  if (*last) begin++;
  const char *end = strchr(begin, mark);
  snprintf(out, capacity, "%.*s", end ? (int)(end - begin) : (int)strlen(begin), begin);
  *last = begin;
  return true;
}

bool hr__map_spelling(const hr_map_key *key, const char **last, char out[HR_MAP_PATH]) {
  return hr__map_next(key->keys, '|', last, out, HR_MAP_PATH);
}

bool hr__map_line(const char *words, const char **last, char value[HR_MAP_PATH], char out[HR_MAP_PATH]) {
  if (!words || !hr__map_next(words, '|', last, value, HR_MAP_PATH)) return false;
  size_t length = strcspn(value, "=");
  snprintf(out, HR_MAP_PATH, "%s", value + length + (value[length] == '='));
  value[length] = '\0';
  return true;
}

const hr_map *hr__map_named(const char *name) {
  for (const hr_map *map = hr_maps; map->name; map++) {
    char other[64];
    if (strcmp(map->name, name) == 0) return map;
    for (const char *last = NULL; hr__map_next(map->others, ',', &last, other, sizeof other);)
      if (*other && strcmp(other, name) == 0) return map;
  }
  return NULL;
}

bool hr__map_word(const hr_map_key *key, const char *value, hr_arena *arena, const char **word, const char **same) {
  *word = value;
  *same = NULL;
  char known[HR_MAP_PATH], words[HR_MAP_PATH];
  for (const char *last = NULL; hr__map_line(key->words, &last, known, words);) {
    if (strcmp(known, value) != 0) continue;
    char *first = hr__arena_text(arena, words), *comma = first ? strchr(first, ',') : NULL;
    *word = first;
    if (comma) *comma = '\0', *same = comma + 1;
    return true;
  }
  return key->words == NULL;
}

const char *hr__map_part(const hr_map_key *key, const char *value, const char *text, hr_arena *arena, bool *no_memory) {
  const char *word, *same, *at;
  char known[HR_MAP_PATH], other[HR_MAP_PATH];
  *no_memory = false;
  if (!hr__map_word(key, value, arena, &word, &same)) return NULL;
  *no_memory = !word;
  if (!word || strstr(text, word)) return word ? text : NULL;
  for (const char *last = NULL; same && hr__map_next(same, ',', &last, other, sizeof other);)
    if (strstr(text, other)) return text;
  for (const char *last = NULL; hr__map_line(key->words, &last, known, other);) {
    other[strcspn(other, ",")] = '\0';
    if (!(at = strstr(text, other))) continue;
    const char *made = hr__arena_format(arena, "%.*s%s%s", (int)(at - text), text, word, at + strlen(other));
    *no_memory = !made;
    return made;
  }
  return NULL;
}

/* --- Hydra's packages --------------------------------------------------------------------------------------------- */

/* The package that a config names itself in a comment at its top: "# @package a.b". False: none. */
static bool package_given(const hr_config *config, char out[HR_MAP_PATH]) {
  const char *end = config->text + config->bytes;
  for (const char *line = config->text, *next; line < end; line = next + 1) {
    char text[HR_MAP_PATH];
    next = memchr(line, '\n', (size_t)(end - line));
    if (!next) next = end;
    snprintf(text, sizeof text, "%.*s", (int)(next - line), line);
    const char *found = strstr(text, "@package"), *first = text + strspn(text, " \t\r\xef\xbb\xbf");
    if (*first && *first != '#') return false; /* comments at the top end here */
    if (found) return sscanf(found, "@package %255s", out) == 1;
  }
  return false;
}

/* Whether `package`, or a path of folders, is a whole section at the front of `key`; *rest is what follows. */
static bool package_fits(const char *package, size_t length, const char *key, const char **rest) {
  for (size_t i = 0; i < length; i++)
    if (key[i] != (package[i] == '/' ? '.' : package[i])) return false;
  if (length == 0 || key[length] != '.') return false;
  *rest = key + length + 1;
  return true;
}

/* The part of `key` that a config in a folder of this name would hold: "batch_size" of "data_loader.batch_size" in
 * conf/data_loader/small.yaml; in conf/training/trainer, that of training.trainer before that of trainer. */
static bool in_folder(const hr_config *config, const char *key, const char **rest) {
  char package[HR_MAP_PATH];
  if (package_given(config, package)) return package_fits(package, strlen(package), key, rest);
  const char *path = config->real ? config->real : config->name, *slash = strrchr(path, '/');
  for (; slash && path < slash; path += strcspn(path, "/") + 1)
    if (package_fits(path, (size_t)(slash - path), key, rest)) return true;
  return false;
}

bool hr__map_locate(const hr_map *map, const hr_config *config, const char *key, char out[HR_MAP_PATH]) {
  const char *rest = key;
  bool there = hr__config_find(config, key) != NULL;
  if (!there && map->folders && in_folder(config, key, &rest)) there = hr__config_find(config, rest) != NULL;
  if (there) snprintf(out, HR_MAP_PATH, "%s", rest);
  return there;
}

/* --- telling configs apart ---------------------------------------------------------------------------------------- */

int hr__map_score(const hr_map *map, const hr_config *config) {
  int score = 0;
  char name[HR_MAP_PATH], at[HR_MAP_PATH];
  for (const char *last = NULL; map->marks && hr__map_next(map->marks, '|', &last, name, sizeof name);)
    score += 2 * (hr__config_find(config, name) != NULL);
  for (size_t i = 0; i < map->count; i++)
    for (const char *last = NULL; map->keys[i].use == HR_MAP_BOTH && hr__map_spelling(&map->keys[i], &last, name);)
      score += hr__map_locate(map, config, name, at);
  return score;
}

bool hr__map_builds_on(const hr_map *map, const hr_map *base) {
  return map == base || (map->base && strcmp(map->base, base->name) == 0);
}

const hr_map *hr__map_guess(const hr_config *config, const hr_map *family) {
  const hr_map *best = NULL;
  int most = 0;
  for (const hr_map *map = hr_maps; map->name; map++) {
    int score = !family || hr__map_builds_on(map, family) ? hr__map_score(map, config) : 0;
    if (score > most) {
      most = score;
      best = map;
    }
  }
  return best;
}

const hr_map *hr__map_of(const hr_config *config, const hr_map *named) {
  const hr_map *guess = named && hr__map_named(named->name) != named ? named : hr__map_guess(config, named);
  return guess ? guess : named;
}
