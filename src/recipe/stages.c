/* Stages: a recipe may name versions of itself that follow one another. The one that is chosen is laid over the tree,
 * before overrides are, and keeps its places in the file.
 */
#include <stdio.h>
#include <string.h>

#include "recipe/internal.h"

/* A member of a stage that is no setting: the stage it begins from, or a list of several, of which the last one counts
 * where they have the same. */
static const char FROM[] = "from";

static const hr_key *key_that_chooses(const hr_recipe *recipe) {
  for (size_t t = 0; t < recipe->n_tables; t++)
    for (size_t k = 0; k < recipe->tables[t].count; k++)
      if (recipe->tables[t].keys[k].chooses) return &recipe->tables[t].keys[k];
  return NULL;
}

/* The value that an override gives the key, the last one counts; NULL: none does. */
static const char *override_value(const char *path, const char *const *overrides, size_t n_overrides) {
  size_t length = strlen(path);
  for (size_t i = n_overrides; i-- > 0;)
    if (strncmp(overrides[i], path, length) == 0 && overrides[i][length] == '=') return overrides[i] + length + 1;
  return NULL;
}

static void stage_names(const hr_doc_node *stages, char *out, size_t capacity) {
  size_t used = 0;
  *out = '\0';
  for (const hr_doc_node *stage = stages->child; stage && used < capacity; stage = stage->next)
    used += (size_t)snprintf(out + used, capacity - used, "%s%.60s", used ? ", " : "", stage->key);
}

static hr_status stage_fail(const hr_recipe *recipe, const hr_doc_node *at, const char *remedy, hr_error *err,
                            const char *what, const char *name) {
  char place[HR_DOC_PLACE];
  return hr__fail(err, HR_BAD_INPUT, hr__doc_place(recipe->name, at, true, place), remedy, what, name);
}

/* A name is the name of a folder too. */
static bool name_is_plain(const char *name) {
  static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
  return *name && strlen(name) <= HR_STAGE_NAME && strspn(name, plain) == strlen(name);
}

/* Number of the stage of that name above `stage`; -1: there is none. */
static int number_above(const hr_doc_node *stages, const hr_doc_node *stage, const hr_doc_node *name) {
  int i = 0;
  for (const hr_doc_node *other = stages->child; other && other != stage; other = other->next, i++)
    if (name->kind == HR_DOC_SCALAR && strcmp(other->key, name->text) == 0) return i;
  return -1;
}

static hr_status from_check(const hr_recipe *recipe, const hr_doc_node *stages, const hr_doc_node *stage,
                            hr_error *err) {
  const hr_doc_node *from = hr__doc_get(stage, FROM);
  if (!from) return HR_OK;
  bool list = from->kind == HR_DOC_LIST, above = !list || from->child;
  for (const hr_doc_node *one = list ? from->child : from; one && above; one = list ? one->next : NULL) {
    above = number_above(stages, stage, one) >= 0;
    for (const hr_doc_node *other = from->child; list && other != one && above; other = other->next)
      above = strcmp(other->text, one->text) != 0;
  }
  if (above || hr__doc_is_null(from)) return HR_OK;
  return stage_fail(recipe, from,
                    "name a stage above it, or a list of them; null: as the recipe itself begins; without it: the one "
                    "before",
                    err, "stage %s begins from none of the stages before it, or from one twice", stage->key);
}

static hr_status stages_check(const hr_recipe *recipe, const hr_doc_node *stages, hr_error *err) {
  static const char form[] = "write them as stages: {first: {training: {steps: 100}}, second: {...}}";
  if (stages->kind != HR_DOC_MAP || !stages->child)
    return stage_fail(recipe, stages, form, err, "%s are settings under a name for each", stages->key);
  for (const hr_doc_node *stage = stages->child; stage; stage = stage->next) {
    if (!name_is_plain(stage->key))
      return stage_fail(recipe, stage, "use letters, digits, - and _, 40 at most", err,
                        "\"%.60s\" is not the name of a stage, which is also that of a folder", stage->key);
    if (stage->kind != HR_DOC_MAP && !hr__doc_is_null(stage))
      return stage_fail(recipe, stage, form, err, "stage %s is not a map of settings", stage->key);
    if (hr__doc_get(stage, stages->key))
      return stage_fail(recipe, hr__doc_get(stage, stages->key), "list all stages side by side", err,
                        "stage %s has stages of its own", stage->key);
    HR_TRY(from_check(recipe, stages, stage, err));
  }
  return HR_OK;
}

/* Lays a map over another: maps of one name are laid over each other, anything else is replaced. */
static hr_status map_lay(hr_recipe *recipe, hr_doc_node *over, const hr_doc_node *map, const char *leave,
                         hr_error *err) {
  for (const hr_doc_node *child = map->child; child; child = child->next) {
    if (leave && strcmp(child->key, leave) == 0) continue;
    hr_doc_node **link = &over->child;
    while (*link && strcmp((*link)->key, child->key) != 0)
      link = &(*link)->next;
    if (*link && (*link)->kind == HR_DOC_MAP && child->kind == HR_DOC_MAP) {
      HR_TRY(map_lay(recipe, *link, child, NULL, err));
      continue;
    }
    hr_doc_node *copy = hr__arena_alloc(&recipe->arena, sizeof *copy);
    if (!copy) return hr__nomem(err);
    *copy = *child;
    copy->next = *link ? (*link)->next : NULL;
    *link = copy;
  }
  return HR_OK;
}

hr_status hr__stage_apply(hr_recipe *recipe, const char *const *overrides, size_t n_overrides, hr_error *err) {
  const hr_key *key = key_that_chooses(recipe);
  if (!key) return HR_OK;
  const hr_doc_node *stages = hr__doc_get(recipe->root, key->chooses), *given = hr__doc_get(recipe->root, key->path);
  if (stages && !hr__doc_is_null(stages)) HR_TRY(stages_check(recipe, stages, err));
  const char *name = override_value(key->path, overrides, n_overrides);
  if (!name && given && given->kind == HR_DOC_SCALAR && !hr__doc_is_null(given)) name = given->text;
  if (!name || !*name || strcmp(name, "null") == 0) return HR_OK;
  const hr_doc_node *stage = stages ? hr__doc_get(stages, name) : NULL;
  if (stage) return hr__doc_is_null(stage) ? HR_OK : map_lay(recipe, recipe->root, stage, FROM, err);
  char names[200] = "this recipe has none", place[HR_DOC_PLACE];
  if (stages && stages->kind == HR_DOC_MAP) stage_names(stages, names, sizeof names);
  return hr__fail(err, HR_BAD_INPUT,
                  given && !override_value(key->path, overrides, n_overrides)
                      ? hr__doc_place(recipe->name, given, false, place)
                      : recipe->name,
                  names, "there is no stage \"%.60s\"", name);
}

/* The last one first. */
static hr_status from_list(const hr_doc_node *stages, const hr_doc_node *stage, const hr_doc_node *from,
                           hr_arena *arena, hr_recipe_stage *out, hr_error *err) {
  int count = 0;
  for (const hr_doc_node *one = from->child; one; one = one->next)
    count++;
  int *numbers = hr__arena_array(arena, (size_t)count, sizeof *numbers);
  if (!numbers) return hr__nomem(err);
  for (const hr_doc_node *one = from->child; one; one = one->next)
    numbers[--count] = number_above(stages, stage, one);
  out->from = numbers[0];
  for (const hr_doc_node *one = from->child->next; one; one = one->next)
    out->n_also++;
  out->also = numbers + 1;
  return HR_OK;
}

hr_status hr__recipe_stages(const hr_recipe *recipe, const char *path, hr_arena *arena, hr_recipe_stage **out,
                            size_t *count, hr_error *err) {
  const hr_doc_node *stages = hr__recipe_tree(recipe, path);
  *out = NULL;
  *count = 0;
  for (const hr_doc_node *stage = stages ? stages->child : NULL; stage; stage = stage->next)
    ++*count;
  if (*count == 0) return HR_OK;
  hr_recipe_stage *list = hr__arena_array(arena, *count, sizeof *list);
  if (!list) return hr__nomem(err);
  *out = list;
  size_t i = 0;
  for (const hr_doc_node *stage = stages->child; stage; stage = stage->next, i++) {
    const hr_doc_node *from = hr__doc_get(stage, FROM);
    list[i] = (hr_recipe_stage){.name = hr__arena_text(arena, stage->key), .from = i > 0 ? (int)i - 1 : -1};
    if (!list[i].name) return hr__nomem(err);
    if (from && from->kind == HR_DOC_LIST)
      HR_TRY(from_list(stages, stage, from, arena, &list[i], err));
    else if (from)
      list[i].from = number_above(stages, stage, from);
  }
  return HR_OK;
}
