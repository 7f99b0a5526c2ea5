/* What the files of the offload pass share: the program being rewritten. Only they include this. */
#ifndef HR_PASS_OFFLOAD_H
#define HR_PASS_OFFLOAD_H

#include "pass/pass.h"

/* Where an inserted node goes relative to the node at its position; what stands at one place keeps the order in which
 * it came. */
typedef enum hr_spot { HR_SPOT_FETCH, HR_SPOT_WAIT, HR_SPOT_NODE, HR_SPOT_STORE, HR_SPOT_END, HR_SPOTS } hr_spot;

typedef struct hr_insertion {
  size_t place; /* position * HR_SPOTS + spot */
  hr_id node;
} hr_insertion;

/* One program while it is rewritten. Positions count the program's nodes as they were. */
typedef struct hr_moves {
  hr_builder *b;
  hr_arena *scratch;
  hr_id program, first; /* first: id of the node at position 0 */
  uint32_t count;       /* positions */
  uint32_t *stretch;    /* per position: which stretch of the program, rising */
  uint32_t *begin;      /* per stretch, and one more: its first position */
  uint32_t n_stretches;
  bool *dropped;          /* per position: replaced by tiles */
  bool *tiled;            /* per position: an update that is cut into tiles */
  bool update_on_host;    /* tiles are updated there, where all that is offloaded is on the host */
  size_t tile_bytes;      /* that a tile moves, at least one step */
  int tiles_in_one;       /* in a graph that is only to be judged: tiles that one stands for; else 1 */
  hr_tier *chosen;        /* per value, as many as there were: tier that a transient is to go to */
  hr_id *below;           /* per value: where an offloaded one lies; HR_NONE: it stays */
  size_t n_values;        /* as many as there were */
  hr_insertion *inserted; /* grows in scratch */
  size_t n_inserted, cap_inserted;
} hr_moves;

static inline const hr_node *hr__moves_node(const hr_moves *m, uint32_t position) {
  return &m->b->graph->nodes[m->first + position];
}

/* offload_regions.c: serves every reader and writer of what is offloaded, but tiled updates. */
hr_status hr__offload_regions(hr_moves *m, hr_error *err);

/* offload_tiles.c. Small state of an update that would lie on the disk goes to the host; marks m->tiled. */
void hr__offload_small_state(hr_graph *graph);
void hr__offload_mark_tiled(hr_moves *m, const bool *read); /* read: per value, whether any node does */
hr_status hr__offload_tiles(hr_moves *m, hr_error *err);

/* offload_norm.c: squares gradients one by one, where they are made. */
hr_status hr__offload_norm(hr_builder *b, hr_error *err);

/* Takes the newest nodes of the graph, from id `from`, to a place of the program. */
hr_status hr__moves_insert(hr_moves *m, hr_id from, uint32_t position, hr_spot spot, hr_error *err);

/* Emits a copy to the device of `source`, which lies below it. */
hr_id hr__moves_fetch(hr_moves *m, hr_id source, hr_id to); /* to: HR_NONE, or where it goes on the device */
/* Emits a copy of `value` to `to`, or to new storage on `tier` when that is HR_NONE. */
hr_id hr__moves_store(hr_moves *m, hr_id value, hr_id to, hr_tier tier);
/* Emits the wait for either. */
hr_id hr__moves_wait(hr_moves *m, hr_id started);

#endif
