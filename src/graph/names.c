/* See names.h. A hash table with open addressing: for every name the first value that nothing produces. Values are only
 * ever added, so that a look-up enters those that came since the one before. */
#include "graph/names.h"

#include <string.h>

#include "base/hash.h"

static bool is_found(const hr_graph *g, hr_id value, const char *name) {
  return g->values[value].producer == HR_NONE && strcmp(g->values[value].name, name) == 0;
}

/* The place of a name: free (HR_NONE), or held by a value of that name. */
static size_t place_of(const hr_graph *g, const char *name) {
  size_t at = (size_t)hr__xxh128(name, strlen(name)).low & g->names_mask;
  while (g->names[at] != HR_NONE && strcmp(g->values[g->names[at]].name, name) != 0)
    at = (at + 1) & g->names_mask;
  return at;
}

static bool table_grow(hr_graph *g, size_t least) {
  size_t size = 64;
  while (size < 2 * least)
    size *= 2;
  hr_id *names = hr__arena_array(&g->arena, size, sizeof *names);
  if (!names) return false;
  for (size_t i = 0; i < size; i++)
    names[i] = HR_NONE;
  g->names = names;
  g->names_mask = size - 1;
  g->n_named = 0; /* all are entered anew */
  return true;
}

bool hr__names_find(hr_graph *g, const char *name, hr_id *out) {
  bool full = !g->names || g->names_mask < g->n_values;
  if (full && !table_grow(g, 2 * g->n_values + 1)) return false;
  for (; g->n_named < g->n_values; g->n_named++) {
    const hr_value *value = &g->values[g->n_named];
    if (value->producer != HR_NONE) continue;
    size_t at = place_of(g, value->name);
    if (g->names[at] == HR_NONE) g->names[at] = (hr_id)g->n_named;
  }
  hr_id value = g->names[place_of(g, name)];
  /* one that was given up since has perhaps a successor of its name */
  *out = value == HR_NONE || is_found(g, value, name) ? value : hr__graph_find_value(g, name);
  return true;
}
