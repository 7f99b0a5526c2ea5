/* offload_homes: what memory.offload.* and choices come to, before any node moves: the tier of every persistent buffer,
 * what is to become of gradients and activations, how updates are cut into tiles.
 *
 * It is all that the offload pass reads of choices but what is kept of blocks: two choices that come to the same there
 * give the same graph.
 */
#ifndef HR_PASS_OFFLOAD_HOMES_H
#define HR_PASS_OFFLOAD_HOMES_H

#include "pass/pass.h"

/* Bytes of a buffer below which it stays on the device: its copies, and their nodes, would cost more than it frees. */
enum { HR_COPY_LEAST = 64 << 10 };

/* Elements of an update: tiles begin at multiples, which are whole units of the disk for any type. */
enum { HR_TILE_STEP = 16384 };
/* Elements of a tile that moves so many bytes, of which each element has `element_bytes`. */
int64_t hr__tile_elements(size_t tile_bytes, double element_bytes);

/* How much of a kind stays, and where the rest goes. */
typedef struct hr_division {
  hr_tier tier;
  uint64_t resident_bytes, host_bytes;
  bool part;                /* memory.offload.* = auto, and some of it stays */
  bool largest;             /* of which the largest buffers come first */
  const hr_recipe *by_name; /* the tier depends on the name: memory.offload.* is by pattern */
  const char *path;
} hr_division;

/* The home of the next `bytes` of a kind, by name, or in order of declaration: the device while there is room for them,
 * then the host before the disk. */
hr_tier hr__division_take(hr_division *division, const char *name, uint64_t bytes);

typedef struct hr_offload_homes {
  hr_tier *of_buffer; /* per buffer of the graph; of transients the one they have */
  size_t n_buffers;
  hr_division gradients, activations; /* those that live in one program alone */
  bool update_on_host;                /* where some of the state is below the device */
  size_t tile_bytes;                  /* that a tile of an update moves, at least one step */
  int tiles_in_one; /* in a graph that is only to be judged: tiles that one stands for; else, and where no update has
                     * more than one, 1 */
} hr_offload_homes;

/* Whether patterns of memory.offload.* name modules of the graph. */
hr_status hr__offload_homes_check(const hr_graph *graph, const hr_recipe *recipe, hr_error *err);
/* choices may be NULL. The lists lie in the arena. */
hr_status hr__offload_homes_find(const hr_graph *graph, const hr_recipe *recipe, const hr_choices *choices,
                                 hr_arena *arena, hr_offload_homes *out, hr_error *err);
/* Of the same graph and recipe. */
bool hr__offload_homes_same(const hr_offload_homes *a, const hr_offload_homes *b);

#endif
