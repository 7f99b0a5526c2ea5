/* See sites.h. */
#include "fit/sites.h"

#include <stdio.h>
#include <string.h>

/* A key in the section of a part instead of the whole's; false: it is none of a model, or parts do not have it. */
static bool path_in_part(const hr_recipe *recipe, const hr_model_parts *parts, size_t part, const char *key,
                         char out[HR_SITE_TEXT]) {
  const char *whole = parts->part[0].scope.section;
  size_t length = strlen(whole);
  if (strncmp(key, whole, length) != 0 || key[length] != '.') return false;
  char kind[HR_SITE_TEXT + 8];
  snprintf(out, HR_SITE_TEXT, "%s%.*s", parts->part[part].scope.section, HR_TECHNIQUE_WORD - 1, key + length);
  snprintf(kind, sizeof kind, "%s.kind", out);
  return hr__recipe_key(recipe, out) || hr__recipe_key(recipe, kind);
}

size_t hr__sites(const hr_recipe *recipe, hr_site out[HR_SITES]) {
  hr_model_parts parts;
  size_t count = 0;
  hr__parts_read(recipe, &parts);
  for (int i = 0; i < HR_TECHNIQUE_KEYS; i++) {
    const hr_technique_key *technique = &hr_technique_keys[i];
    out[count] = (hr_site){.technique = technique, .part = ""};
    snprintf(out[count++].path, HR_SITE_TEXT, "%s", technique->path);
    for (size_t p = 1; p < parts.count; p++) {
      out[count] = (hr_site){.technique = technique, .part = parts.part[p].name};
      count += path_in_part(recipe, &parts, p, technique->path, out[count].path);
    }
  }
  return count;
}

const char *hr__site_path(const hr_recipe *recipe, const hr_site *site, const char *key, char out[HR_SITE_TEXT]) {
  hr_model_parts parts;
  hr__parts_read(recipe, &parts);
  for (size_t p = 1; *site->part && p < parts.count; p++)
    if (strcmp(parts.part[p].name, site->part) == 0 && path_in_part(recipe, &parts, p, key, out)) return out;
  snprintf(out, HR_SITE_TEXT, "%s", key);
  return out;
}

static const char *word_at(const hr_recipe *recipe, const char *path) {
  if (!hr__recipe_has(recipe, path) || hr__recipe_tree(recipe, path)) return NULL;
  return hr__recipe_text(recipe, path);
}

const char *hr__site_word(const hr_recipe *recipe, const hr_site *site) {
  const char *own = word_at(recipe, site->path);
  return own || !*site->part ? own : word_at(recipe, site->technique->path);
}
