/* A copy for passes to go on from: tables of its own, with room to grow, over texts, arguments and operand lists of the
 * original, which passes replace and never write to. */
#include <string.h>

#include "graph/graph.h"

/* At least twice the room: what passes append fits, most of the time, and room that is not touched costs nothing. */
static bool table_copy(hr_arena *arena, const void *items, size_t count, size_t room, size_t item_bytes, void **copy,
                       size_t *capacity) {
  if (room < 2 * count) room = 2 * count;
  *copy = hr__arena_room(arena, room, item_bytes);
  *capacity = *copy ? room : 0;
  if (*copy && count) memcpy(*copy, items, count * item_bytes);
  return *copy != NULL;
}

#define TABLE_COPY(to, from, items, n, room, cap)                                                                      \
  table_copy(&(to)->arena, (from)->items, (from)->n, room, sizeof *(from)->items, (void **)&(to)->items, &(to)->cap)

static bool names_copy(hr_graph *to, const hr_graph *from) {
  if (!from->names) return true;
  to->names = hr__arena_room(&to->arena, from->cap_names, sizeof *to->names);
  if (to->names) memcpy(to->names, from->names, from->cap_names * sizeof *to->names);
  return to->names != NULL;
}

hr_status hr__graph_copy(const hr_graph *from, const hr_graph_room *room, hr_graph **out, hr_error *err) {
  hr_graph *to;
  HR_TRY(hr__graph_create(&to, err));
  hr_arena arena = to->arena;
  *to = *from;
  to->arena = arena;
  bool whole = TABLE_COPY(to, from, buffers, n_buffers, room->buffers, cap_buffers) &&
               TABLE_COPY(to, from, values, n_values, room->values, cap_values) &&
               TABLE_COPY(to, from, nodes, n_nodes, room->nodes, cap_nodes) &&
               TABLE_COPY(to, from, blocks, n_blocks, 0, cap_blocks) &&
               TABLE_COPY(to, from, programs, n_programs, 0, cap_programs) &&
               TABLE_COPY(to, from, packed, n_packed, 0, cap_packed) && names_copy(to, from);
  if (!whole) {
    hr__graph_destroy(to);
    return hr__nomem(err);
  }
  *out = to;
  return HR_OK;
}
