/* adapters.path of a section: what the adapters are comes from their own config, and the recipe may not say otherwise.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "model/model.h"
#include "model/peft.h"

typedef struct opening {
  hr_recipe *recipe;
  const hr_scope *scope;
  const char *folder;
  hr_peft peft;
  hr_doc_node *map;
} opening;

/* A value of the adapters' config as a setting; nothing is written where `text` is NULL: out of memory. */
static hr_doc_node *setting_add(opening *o, const char *key, hr_doc_kind kind, const char *text) {
  hr_doc_node *node = hr__arena_alloc(hr__recipe_arena(o->recipe), sizeof *node);
  if (!node || (kind == HR_DOC_SCALAR && !text)) return NULL;
  *node = (hr_doc_node){.kind = kind, .key = key, .text = text, .next = o->map->child};
  o->map->child = node;
  return node;
}

static hr_status contradiction(const opening *o, const char *key, const char *here, const char *there, hr_error *err) {
  char path[64];
  snprintf(path, sizeof path, "adapters.%s", key);
  return hr__scope_fail(o->scope, path, "leave it out, or begin with fresh adapters, without adapters.path", err,
                        "%s.%s is %.60s, but the adapters of %.160s have %.60s", o->scope->section, path, here,
                        o->folder, there);
}

static const hr_doc_node *written(const opening *o, const char *key) {
  char inner[64], path[HR_SCOPE_PATH];
  snprintf(inner, sizeof inner, "adapters.%s", key);
  return hr__recipe_written(o->recipe, hr__scope_path(o->scope, inner, path));
}

static hr_status number_take(opening *o, const char *key, double value, hr_error *err) {
  const hr_doc_node *node = written(o, key);
  double here;
  char there[40];
  snprintf(there, sizeof there, "%.15g", value);
  if (node && (node->kind != HR_DOC_SCALAR || !hr__doc_float(node, &here) || fabs(here - value) > 1e-9 * fabs(value)))
    return contradiction(o, key, node->kind == HR_DOC_SCALAR ? node->text : "a list", there, err);
  const char *text = hr__arena_text(hr__recipe_arena(o->recipe), there);
  return setting_add(o, key, HR_DOC_SCALAR, text) ? HR_OK : hr__nomem(err);
}

static hr_status stable_take(opening *o, hr_error *err) {
  static const char key[] = "rank_stabilised";
  const hr_doc_node *node = written(o, key);
  const char *there = o->peft.rank_stabilised ? "true" : "false";
  bool here;
  if (node && node->kind == HR_DOC_SCALAR && hr__doc_bool(node, &here) && here != o->peft.rank_stabilised)
    return contradiction(o, key, node->text, there, err);
  return setting_add(o, key, HR_DOC_SCALAR, there) ? HR_OK : hr__nomem(err);
}

/* The modules that have adapters, by their whole names. Targets that the recipe gives have to come to the same ones,
 * which is seen when the weights are matched. */
static hr_status targets_take(opening *o, hr_error *err) {
  hr_doc_node *list = setting_add(o, "targets", HR_DOC_LIST, NULL);
  if (!list) return hr__nomem(err);
  for (size_t i = o->peft.n_modules; i-- > 0;) {
    hr_doc_node *node = hr__arena_alloc(hr__recipe_arena(o->recipe), sizeof *node);
    if (!node) return hr__nomem(err);
    *node = (hr_doc_node){.kind = HR_DOC_SCALAR, .text = o->peft.modules[i], .quoted = true, .next = list->child};
    list->child = node;
  }
  return HR_OK;
}

hr_status hr__adapters_open(hr_recipe *recipe, const hr_scope *scope, hr_error *err) {
  char key[HR_SCOPE_PATH];
  struct stat facts;
  hr_arena *arena = hr__recipe_arena(recipe);
  opening o = {.recipe = recipe, .scope = scope};
  if (!hr__recipe_key(recipe, hr__scope_path(scope, "adapters.path", key))) return HR_OK;
  HR_TRY(hr__recipe_early(recipe, key, &o.folder, err));
  if (!o.folder) return HR_OK;
  if (stat(o.folder, &facts) != 0 || !hr__peft_is_there(o.folder))
    return hr__scope_fail(scope, "adapters.path", "give a folder of adapters as PEFT writes them", err,
                          "there is no " HR_PEFT_CONFIG " in \"%.200s\"", o.folder);
  HR_TRY(hr__peft_read(o.folder, arena, &o.peft, err));
  const char *section = hr__arena_format(arena, "%s.adapters", scope->section);
  const char *name = hr__arena_format(arena, "%s/" HR_PEFT_CONFIG, o.folder);
  o.map = hr__arena_alloc(arena, sizeof *o.map);
  if (!section || !name || !o.map) return hr__nomem(err);
  o.map->kind = HR_DOC_MAP;
  HR_TRY(number_take(&o, "rank", (double)o.peft.rank, err));
  HR_TRY(number_take(&o, "alpha", o.peft.alpha, err));
  HR_TRY(number_take(&o, "dropout", o.peft.dropout, err));
  HR_TRY(stable_take(&o, err));
  HR_TRY(targets_take(&o, err));
  return hr__recipe_later(recipe, section, o.map, name, err);
}
