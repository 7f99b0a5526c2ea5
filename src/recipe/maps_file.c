/* A key map of the user's own:
 *
 *     map: lightning                        # optional: built-in one that it adds to
 *     keys:
 *       training.batch_size: data_loader.batch_size
 *       model.precision: { key: [dtype, model.dtype], values: { bf16-true: bfloat16, 32-true: float32 } }
 *     values:                               # optional: written as they stand
 *       n_negatives: 16
 *
 * A file without these three sections is the section `keys` alone.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "recipe/maps.h"

typedef struct reader {
  const char *name;
  const hr_key_table *tables;
  size_t n_tables;
  hr_arena *arena;
  hr_map_key *keys;
  size_t count, capacity;
  hr_error *err;
} reader;

__attribute__((format(printf, 4, 5))) static hr_status refuse(const reader *r, const hr_doc_node *node,
                                                              const char *remedy, const char *format, ...) {
  char place[HR_DOC_PLACE], message[256];
  va_list list;
  va_start(list, format);
  vsnprintf(message, sizeof message, format, list);
  va_end(list);
  return hr__fail(r->err, HR_BAD_INPUT, hr__doc_place(r->name, node, false, place), remedy, "%s", message);
}

static hr_status key_add(reader *r, hr_map_key key) {
  if (hr__arena_grow(r->arena, (void **)&r->keys, &r->capacity, r->count, sizeof *r->keys) != 0)
    return hr__nomem(r->err);
  r->keys[r->count++] = key;
  return HR_OK;
}

/* Appends "mark text" to a list; a part that holds a mark of the list itself cannot be said. */
static hr_status part_add(reader *r, const hr_doc_node *node, const char *text, const char *mark, const char **list) {
  if (!*text || strpbrk(text, "|,=") || strlen(text) >= HR_MAP_PATH)
    return refuse(r, node, NULL, "'%.100s' is not a word for a map (no | , = in it, below %d characters)", text,
                  HR_MAP_PATH);
  *list = *list ? hr__arena_format(r->arena, "%s%s%s", *list, mark, text) : hr__arena_text(r->arena, text);
  return *list ? HR_OK : hr__nomem(r->err);
}

/* One key or a list of spellings. */
static hr_status spellings_read(reader *r, const hr_doc_node *node, const char **out) {
  const hr_doc_node *one = node->kind == HR_DOC_LIST ? node->child : node;
  for (; one; one = node->kind == HR_DOC_LIST ? one->next : NULL) {
    if (one->kind != HR_DOC_SCALAR) break;
    HR_TRY(part_add(r, one, one->text, "|", out));
  }
  if (one || !*out) return refuse(r, node, "write setting: key.of.the.config", "a key of the config is expected here");
  return HR_OK;
}

static hr_status words_read(reader *r, const hr_doc_node *node, const char **out) {
  if (node->kind != HR_DOC_MAP)
    return refuse(r, node, "write values: { bf16-mixed: bf16 }", "words for values are expected here");
  for (const hr_doc_node *word = node->child; word; word = word->next) {
    if (word->kind != HR_DOC_SCALAR) return refuse(r, word, NULL, "a word is expected here");
    HR_TRY(part_add(r, word, word->key, "|", out));
    HR_TRY(part_add(r, word, word->text, "=", out));
  }
  return HR_OK;
}

static const char *path_leaf(const char *path) {
  const char *dot = strrchr(path, '.');
  return dot ? dot + 1 : path;
}

/* A key of a recipe. Without one of its name, what comes near is the closest path or, where none is close, the first of
 * the same last part: training.batch_size for batch_size. */
static hr_status setting_check(reader *r, const hr_doc_node *node) {
  const char *near = NULL, *alike = NULL;
  size_t found = strlen(node->key) / 3 + 1;
  for (size_t t = 0; t < r->n_tables; t++)
    for (size_t i = 0; i < r->tables[t].count; i++) {
      const char *path = r->tables[t].keys[i].path;
      if (strcmp(path, node->key) == 0) return HR_OK;
      size_t distance = hr__text_distance(node->key, path);
      if (distance < found) {
        found = distance;
        near = path;
      }
      if (!alike && strcmp(path_leaf(path), path_leaf(node->key)) == 0) alike = path;
    }
  if (!near) near = alike;
  char remedy[HR_MAP_PATH + 32] = "headroom env --keys lists them";
  if (near) snprintf(remedy, sizeof remedy, "did you mean %s?", near);
  return refuse(r, node, remedy, "'%.100s' is not a key of a recipe", node->key);
}

static hr_status setting_read(reader *r, const hr_doc_node *node) {
  HR_TRY(setting_check(r, node));
  hr_map_key key = {.setting = node->key, .asked = true};
  if (node->kind != HR_DOC_MAP) {
    HR_TRY(spellings_read(r, node, &key.keys));
    return key_add(r, key);
  }
  for (const hr_doc_node *part = node->child; part; part = part->next) {
    if (strcmp(part->key, "key") == 0)
      HR_TRY(spellings_read(r, part, &key.keys));
    else if (strcmp(part->key, "values") == 0)
      HR_TRY(words_read(r, part, &key.words));
    else if (strcmp(part->key, "absent") == 0 && part->kind == HR_DOC_SCALAR)
      key.absent = part->text;
    else
      return refuse(r, part, "key, values, absent", "unknown key '%.100s'", part->key);
  }
  if (!key.keys) return refuse(r, node, "add key: key.of.the.config", "the key of the config is missing");
  return key_add(r, key);
}

static hr_status value_read(reader *r, const hr_doc_node *node) {
  if (node->kind != HR_DOC_SCALAR || hr__doc_is_null(node))
    return refuse(r, node, NULL, "a number, a word or true or false is expected here");
  double number;
  bool flag;
  hr_literal value = {HR_LITERAL_TEXT, node->text};
  if (hr__doc_float(node, &number)) value.kind = HR_LITERAL_NUMBER;
  if (hr__doc_bool(node, &flag)) value = (hr_literal){HR_LITERAL_BOOL, flag ? "true" : "false"};
  hr_map_key key = {.asked = true, .value = value};
  HR_TRY(part_add(r, node, node->key, "|", &key.keys));
  return key_add(r, key);
}

/* Calls `each` for every entry of a section, which may be missing. */
static hr_status section_read(reader *r, const hr_doc_node *section, hr_status (*each)(reader *, const hr_doc_node *)) {
  if (!section || hr__doc_is_null(section)) return HR_OK;
  if (section->kind != HR_DOC_MAP) return refuse(r, section, NULL, "a section is expected here");
  for (const hr_doc_node *node = section->child; node; node = node->next)
    HR_TRY(each(r, node));
  return HR_OK;
}

/* What the base says and the file does not. */
static hr_status base_add(reader *r, const hr_map *base) {
  size_t own = r->count;
  for (size_t i = 0; i < base->count; i++) {
    bool said = false;
    for (size_t k = 0; k < own; k++)
      said |= r->keys[k].setting && strcmp(r->keys[k].setting, base->keys[i].setting) == 0;
    if (!said) HR_TRY(key_add(r, base->keys[i]));
  }
  return HR_OK;
}

static hr_status map_read(reader *r, const hr_doc_node *root, hr_map *map) {
  const hr_doc_node *base = hr__doc_get(root, "map"), *keys = hr__doc_get(root, "keys");
  const hr_doc_node *values = hr__doc_get(root, "values");
  if (!base && !keys && !values) keys = root;
  HR_TRY(section_read(r, keys, setting_read));
  HR_TRY(section_read(r, values, value_read));
  if (base) {
    const hr_map *named = base->kind == HR_DOC_SCALAR ? hr__map_named(base->text) : NULL;
    if (!named) return refuse(r, base, "headroom apply --help lists them", "there is no built-in map of that name");
    map->folders = named->folders;
    map->lists = named->lists;
    HR_TRY(base_add(r, named));
  }
  if (r->count == 0)
    return refuse(r, root, "write lines such as training.batch_size: data_loader.batch_size", "the map is empty");
  return HR_OK;
}

hr_status hr__map_parse(const char *name, const char *text, size_t bytes, const hr_key_table *tables, size_t n_tables,
                        hr_arena *arena, hr_map **out, hr_error *err) {
  reader r = {.name = name, .tables = tables, .n_tables = n_tables, .arena = arena, .err = err};
  hr_doc_node *root;
  HR_TRY(hr__yaml_parse(name, text, bytes, arena, &root, err));
  hr_map *map = hr__arena_alloc(arena, sizeof *map);
  if (!map) return hr__nomem(err);
  map->name = name;
  map->folders = true;
  HR_TRY(map_read(&r, root, map));
  map->keys = r.keys;
  map->count = r.count;
  *out = map;
  return HR_OK;
}
