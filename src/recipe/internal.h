/* Inside the recipe engine.
 *
 * The way of a recipe: text -> tree (format/) -> the stage that is chosen is laid over it (stages.c) -> overrides edit
 * it (override.c) -> sections with keys of a scope
 * are opened (sections.c) -> keys are placed on settings (keys.c) -> settings from further files (hr__recipe_later) ->
 * defaults and values by type (value.c). Access, open settings and JSON (access.c, open.c, json.c) read the settings
 * only.
 *
 * `null` in the tree is kept to the end: it removes what a further file would give.
 */
#ifndef HR_RECIPE_INTERNAL_H
#define HR_RECIPE_INTERNAL_H

#include "recipe/recipe.h"

enum { HR_KEY_PATH_TEXT = 256, HR_REMEDY_TEXT = 384 };

typedef struct hr_setting {
  const hr_key *key;
  const hr_doc_node *node; /* where the value was written; NULL: nowhere */
  const char *origin;      /* name of the document that holds `node` */
  bool removed;            /* written as null */
  bool has;                /* one of the values below is set */
  bool word;               /* `text` is a word beside the type's own values */
  int64_t integer;
  uint64_t size;
  double number;
  bool flag;
  const char *text;
  const double *numbers;
  const char *const *texts;
  size_t n_texts;
  const hr_doc_node *tree;
  const hr_doc_node *open; /* the list of choices it was given as; the values above are those of the first */
} hr_setting;

/* A part of the tree that an override put there. */
typedef struct hr_origin {
  const hr_doc_node *node;
  const char *name;
} hr_origin;

/* A document to be merged. */
typedef struct hr_later {
  const char *section, *name;
  const hr_doc_node *map;
} hr_later;

struct hr_recipe {
  hr_arena arena;
  const char *name, *folder;
  const hr_key_table *tables; /* as handed in; gone when the recipe is loaded */
  size_t n_tables;
  hr_doc_node *root;
  hr_setting *settings; /* sorted by path */
  size_t count, capacity;
  hr_later *later;
  size_t n_later, cap_later;
  hr_origin *origins;
  size_t n_origins;
};

/* keys.c */
hr_setting *hr__setting_find(const hr_recipe *recipe, const char *path); /* NULL: no such key */
/* Settings under a section are neighbours: returns the first, *count of them. The section "" is the top. */
hr_setting *hr__section_settings(const hr_recipe *recipe, const char *section, size_t *count);
bool hr__path_join(char out[HR_KEY_PATH_TEXT], const char *section, const char *key); /* false: no name of a key */
hr_status hr__keys_place(hr_recipe *recipe, hr_error *err);
/* Settings from another document, which give way to those that are there. */
hr_status hr__keys_merge(hr_recipe *recipe, const char *section, const hr_doc_node *map, const char *name,
                         hr_error *err);
/* The document that `node` came from: an override's, else `outer`. */
const char *hr__origin_of(const hr_recipe *recipe, const hr_doc_node *node, const char *outer);
hr_status hr__key_unknown(const hr_recipe *recipe, const char *place, const char *section, const char *key,
                          hr_error *err);
hr_status hr__section_wrong(const hr_recipe *recipe, const char *place, const char *section, const hr_doc_node *node,
                            hr_error *err);

/* sections.c */
hr_status hr__keys_index(hr_recipe *recipe, hr_error *err); /* keys with whole paths */
hr_status hr__sections_open(hr_recipe *recipe, hr_error *err);

/* stages.c */
hr_status hr__stage_apply(hr_recipe *recipe, const char *const *overrides, size_t n_overrides, hr_error *err);

/* override.c */
hr_status hr__override_apply(hr_recipe *recipe, const char *override, hr_error *err);
hr_status hr__override_check(hr_recipe *recipe, const char *override, hr_error *err); /* whether there is such a key */

/* access.c: the part of the tree at a path; NULL when absent or null. *origin (or NULL) begins as the recipe's name and
 * becomes the document it came from. */
const hr_doc_node *hr__tree_find(const hr_recipe *recipe, const char *path, const char **origin);

/* value.c */
void hr__found_text(const hr_doc_node *node, char *out, size_t capacity); /* "the text \"abc\"", "a list of 3" */
void hr__example_text(const hr_key *key, char *out, size_t capacity);     /* a value the key would take */
/* The choice that a word is or, by its beginning, a typing error or another program's name for it, is meant to be. */
bool hr__choice_meant(const hr_key *key, const char *word, char *out, size_t capacity);
hr_status hr__setting_read(hr_recipe *recipe, hr_setting *setting, hr_error *err); /* from its node */
/* A node's value as an override takes it; NULL: out of memory. */
const char *hr__node_text(hr_arena *arena, const hr_doc_node *node);
hr_status hr__setting_default(hr_recipe *recipe, hr_setting *setting, hr_error *err);

#endif
