/* Overrides: "key.path=value" edits the tree before anything is checked. */
#include <stdio.h>
#include <string.h>

#include "recipe/internal.h"

/* Whether a dotted path names a key or a section; otherwise *section and *key are its first unknown part. */
static bool path_known(const hr_recipe *recipe, const char *path, char section[HR_KEY_PATH_TEXT],
                       char key[HR_KEY_PATH_TEXT]) {
  *section = '\0';
  for (const char *part = path;; part++) {
    size_t length = strcspn(part, ".");
    char joined[HR_KEY_PATH_TEXT];
    snprintf(key, HR_KEY_PATH_TEXT, "%.*s", (int)length, part);
    size_t count = 0;
    bool fits = hr__path_join(joined, section, key);
    if (fits) hr__section_settings(recipe, joined, &count);
    bool is_key = fits && hr__setting_find(recipe, joined);
    part += length;
    if (*part == '\0') return is_key || count > 0;
    if (count == 0) return false;
    memcpy(section, joined, HR_KEY_PATH_TEXT);
  }
}

/* "memory.split.model=2": a path that goes on behind a key. Where the key's value may be a map, that is what was meant.
 */
static hr_status path_too_long(const hr_key *key, const char *place, const char *override, hr_error *err) {
  const char *rest = override + strlen(key->path) + 1, *equals = strchr(rest, '=');
  char remedy[HR_REMEDY_TEXT], example[128];
  hr__example_text(key, example, sizeof example);
  bool map = (key->type == HR_KEY_TREE || key->tree) && *example != '[';
  if (map)
    snprintf(remedy, sizeof remedy, "write --set '%s={%.*s: %.100s}'", key->path, (int)(equals - rest), rest,
             equals + 1);
  else
    snprintf(remedy, sizeof remedy, "write --set '%s=%s'", key->path, example);
  return hr__fail(err, HR_BAD_INPUT, place, remedy, "%s is a setting, not a section with keys of its own", key->path);
}

/* The child of that name, made when it is not there. */
static hr_doc_node *child_get(hr_recipe *recipe, hr_doc_node *map, const char *key) {
  hr_doc_node **link = &map->child;
  while (*link && strcmp((*link)->key, key) != 0)
    link = &(*link)->next;
  if (!*link) {
    hr_doc_node *child = hr__arena_alloc(&recipe->arena, sizeof *child);
    if (!child) return NULL;
    *child = (hr_doc_node){.kind = HR_DOC_MAP, .key = key};
    *link = child;
  }
  return *link;
}

/* An override's value as a node. An empty value is null, as in a recipe. */
static hr_status value_parse(hr_recipe *recipe, const char *name, const char *text, hr_doc_node **out, hr_error *err) {
  if (text[strspn(text, " \t")] != '\0') {
    return hr__yaml_parse(name, text, strlen(text), &recipe->arena, out, err);
  }
  *out = hr__arena_alloc(&recipe->arena, sizeof **out);
  if (!*out) return hr__nomem(err);
  **out = (hr_doc_node){.kind = HR_DOC_SCALAR, .text = ""};
  return HR_OK;
}

static void positions_clear(hr_doc_node *node) {
  node->line = node->column = node->key_line = node->key_column = 0;
  for (hr_doc_node *child = node->child; child; child = child->next)
    positions_clear(child);
}

/* "--set OVERRIDE", the name of the place; NULL: out of memory. */
static const char *override_place(hr_recipe *recipe, const char *override) {
  return hr__arena_format(&recipe->arena, "--set %s", override);
}

hr_status hr__override_check(hr_recipe *recipe, const char *override, hr_error *err) {
  char section[HR_KEY_PATH_TEXT], unknown[HR_KEY_PATH_TEXT], joined[HR_KEY_PATH_TEXT];
  const char *place = override_place(recipe, override);
  char *path = hr__arena_format(&recipe->arena, "%.*s", (int)strcspn(override, "="), override);
  if (!place || !path) return hr__nomem(err);
  if (path_known(recipe, path, section, unknown)) return HR_OK;
  const hr_setting *setting = hr__path_join(joined, section, unknown) ? hr__setting_find(recipe, joined) : NULL;
  if (setting) return path_too_long(setting->key, place, override, err);
  return hr__key_unknown(recipe, place, section, unknown, err);
}

hr_status hr__override_apply(hr_recipe *recipe, const char *override, hr_error *err) {
  const char *equals = strchr(override, '=');
  const char *name = override_place(recipe, override);
  if (!name) return hr__nomem(err);
  if (!equals || equals == override) {
    return hr__fail(err, HR_USAGE, name, "write it as --set key.path=value, such as --set training.steps=100",
                    "an override is a key and a value joined by \"=\"");
  }
  char *path = hr__arena_format(&recipe->arena, "%.*s", (int)(equals - override), override);
  if (!path) return hr__nomem(err);
  hr_doc_node *value;
  HR_TRY(value_parse(recipe, name, equals + 1, &value, err));
  positions_clear(value);

  /* Down the tree; what is missing or null on the way becomes a section. */
  hr_doc_node *node = recipe->root;
  for (char *part = path, *dot; part; part = dot) {
    dot = strchr(part, '.');
    if (dot) *dot++ = '\0';
    if (hr__doc_is_null(node)) node->kind = HR_DOC_MAP;
    if (node->kind != HR_DOC_MAP) break; /* reported when overrides are checked or keys are placed */
    node = child_get(recipe, node, part);
    if (!node) return hr__nomem(err);
    if (!dot) {
      value->key = part;
      value->next = node->next;
      *node = *value;
      recipe->origins[recipe->n_origins++] = (hr_origin){node, name};
    }
  }
  return HR_OK;
}
