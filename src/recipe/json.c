/* The closed recipe as nested JSON objects. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "format/flow.h"
#include "format/json.h"
#include "recipe/internal.h"

static json_t *numbers_json(const double *numbers, int count) {
  json_t *list = json_array();
  for (int i = 0; list && i < count; i++) {
    if (json_array_append_new(list, json_real(numbers[i])) != 0) {
      json_decref(list);
      return NULL;
    }
  }
  return list;
}

static json_t *texts_json(const char *const *texts, size_t count) {
  json_t *list = json_array();
  for (size_t i = 0; list && i < count; i++) {
    if (json_array_append_new(list, hr__json_string(texts[i])) != 0) {
      json_decref(list);
      return NULL;
    }
  }
  return list;
}

/* The parsers cap the depth of a document, and so of the recursion. */
static json_t *tree_json(const hr_doc_node *node) {
  int64_t integer;
  double number;
  bool flag;
  if (node->kind == HR_DOC_SCALAR) {
    if (hr__doc_is_null(node)) return json_null();
    if (hr__doc_bool(node, &flag)) return json_boolean(flag);
    if (hr__doc_int(node, &integer)) return json_integer(integer);
    return hr__doc_float(node, &number) ? json_real(number) : hr__json_string(node->text);
  }
  bool map = node->kind == HR_DOC_MAP;
  json_t *all = map ? json_object() : json_array();
  for (const hr_doc_node *child = node->child; all && child; child = child->next) {
    json_t *value = tree_json(child);
    if ((map ? json_object_set_new(all, child->key, value) : json_array_append_new(all, value)) != 0) {
      json_decref(all);
      return NULL;
    }
  }
  return all;
}

const char *hr__node_text(hr_arena *arena, const hr_doc_node *node) {
  if (node->kind == HR_DOC_SCALAR && !node->quoted) return hr__arena_text(arena, node->text);
  hr__json_init();
  json_t *value = node->kind == HR_DOC_SCALAR ? hr__json_string(node->text) : tree_json(node);
  const char *text = hr__flow_text(value, "", arena);
  json_decref(value);
  return text;
}

static json_t *setting_json(const hr_setting *setting) {
  if (setting->open) return tree_json(setting->open);
  if (setting->word) return hr__json_string(setting->text);
  if (setting->tree) return tree_json(setting->tree);
  switch (setting->key->type) {
  case HR_KEY_INT:
    return json_integer(setting->integer);
  case HR_KEY_FLOAT:
    return json_real(setting->number);
  case HR_KEY_BOOL:
    return json_boolean(setting->flag);
  case HR_KEY_SIZE:
    return json_integer((json_int_t)setting->size);
  case HR_KEY_FLOATS:
    return numbers_json(setting->numbers, setting->key->length);
  case HR_KEY_PATHS:
    if (setting->n_texts == 1) return hr__json_string(setting->texts[0]);
    return texts_json(setting->texts, setting->n_texts);
  case HR_KEY_TEXTS:
    return texts_json(setting->texts, setting->n_texts);
  case HR_KEY_TREE: /* above */
  case HR_KEY_TEXT:
  case HR_KEY_CHOICE:
  case HR_KEY_PATH:
    break;
  }
  return hr__json_string(setting->text);
}

/* Puts a value under its dotted path; takes the reference. */
static int json_put(json_t *root, const char *path, json_t *value) {
  json_t *object = root;
  size_t length;
  char key[HR_KEY_PATH_TEXT];
  for (; path[length = strcspn(path, ".")] == '.'; path += length + 1) {
    snprintf(key, sizeof key, "%.*s", (int)length, path);
    json_t *inner = json_object_get(object, key);
    if (!inner) {
      inner = json_object();
      if (json_object_set_new(object, key, inner) != 0) { /* also when inner is NULL */
        json_decref(value);
        return -1;
      }
    }
    object = inner;
  }
  return json_object_set_new(object, path, value);
}

json_t *hr__recipe_json(const hr_recipe *recipe) {
  hr__json_init();
  json_t *root = json_object();
  for (size_t i = 0; root && i < recipe->count; i++) {
    const hr_setting *setting = &recipe->settings[i];
    if (setting->has && json_put(root, setting->key->path, setting_json(setting)) != 0) {
      json_decref(root);
      root = NULL;
    }
  }
  return root;
}
