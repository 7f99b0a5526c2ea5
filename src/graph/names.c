/* Values by name. Large models declare tens of thousands of parameters, gradients and moments, each looked up once when
 * it is declared: that takes a table. Results of nodes and views are not in it. A compacted graph has none, and is
 * searched. */
#include <string.h>

#include "base/hash.h"
#include "graph/graph.h"

enum { FIRST_NAMES = 256 }; /* a power of two, as all later sizes */

static size_t name_slot(const hr_graph *graph, const char *name) {
  return (size_t)hr__xxh128(name, strlen(name)).low & (graph->cap_names - 1);
}

/* Values of one name lie in the order of their ids on the way from its slot. */
static void name_put(hr_graph *graph, hr_id value) {
  size_t at = name_slot(graph, graph->values[value].name);
  while (graph->names[at] != HR_NONE)
    at = (at + 1) & (graph->cap_names - 1);
  graph->names[at] = value;
}

/* All that is in the table, in one of twice the room or more. Read from a free place on, values of one name keep their
 * order. */
static bool names_grow(hr_graph *graph, size_t room) {
  hr_id *old = graph->names;
  size_t old_capacity = graph->cap_names, capacity = FIRST_NAMES, begin = 0;
  while (capacity < room)
    capacity *= 2;
  hr_id *names = hr__arena_array(&graph->arena, capacity, sizeof *names);
  if (!names) return false;
  for (size_t i = 0; i < capacity; i++)
    names[i] = HR_NONE;
  graph->names = names;
  graph->cap_names = capacity;
  while (begin < old_capacity && old[begin] != HR_NONE)
    begin++;
  for (size_t i = 0; i < old_capacity; i++) {
    hr_id value = old[(begin + i) & (old_capacity - 1)];
    if (value != HR_NONE) name_put(graph, value);
  }
  return true;
}

bool hr__graph_name_value(hr_graph *graph, hr_id value) {
  const size_t room = 2 * (graph->n_names + 1); /* half of it stays free */
  if (room > graph->cap_names && !names_grow(graph, room)) return false;
  name_put(graph, value);
  graph->n_names++;
  return true;
}

static bool is_named(const hr_graph *graph, hr_id value, const char *name) {
  return graph->values[value].producer == HR_NONE && strcmp(graph->values[value].name, name) == 0;
}

hr_id hr__graph_find_value(const hr_graph *graph, const char *name) {
  if (!graph->names) {
    for (size_t v = 0; v < graph->n_values; v++)
      if (is_named(graph, (hr_id)v, name)) return (hr_id)v;
    return HR_NONE;
  }
  for (size_t at = name_slot(graph, name); graph->names[at] != HR_NONE; at = (at + 1) & (graph->cap_names - 1))
    if (is_named(graph, graph->names[at], name)) return graph->names[at];
  return HR_NONE;
}
