/* Lifetimes: when each transient buffer of a graph holds something, and which buffers share storage.
 *
 * Time is the position of a node in its program. A buffer is alive from the node that first writes it (an input: from
 * the start) to the node that last touches it (an output: to the end). A result takes over the storage of an operand
 * where its op allows that on this kind of device, nothing needs the operand later and no other operand reads the same
 * storage; the two buffers then form one home with one lifetime. At the node where that happens the home passes from
 * the operand to the result.
 */
#ifndef HR_PLAN_LIFETIMES_H
#define HR_PLAN_LIFETIMES_H

#include "graph/graph.h"

typedef struct hr_lifetime {
  hr_id home;           /* buffer whose storage this one uses: itself, or an operand it took over */
  uint32_t first, last; /* node positions, inclusive; of the whole home at the home, else of the buffer */
  uint32_t own_last;    /* of the buffer itself, also at a home */
  bool passed_on;       /* a result took its storage over at own_last */
  bool used;            /* takes room at all: some node or the host touches it */
  bool kept;            /* to the end of the program, for the host */
} hr_lifetime;

/* Whether a buffer is what its home holds at a position: exactly one buffer of a home that is alive there is. */
static inline bool hr__lifetime_holds(const hr_lifetime *life, uint32_t position) {
  return life->used && life->first <= position && position <= life->own_last &&
         !(life->passed_on && position == life->own_last);
}

/* lifetimes[] has one entry per buffer of the graph; persistent ones are their own homes and otherwise left alone.
 * Buffers share storage only if they have the same size: a
 * conversion in place would overwrite what it has yet to read. */
hr_status hr__lifetimes(const hr_graph *graph, hr_device_kind kind, hr_lifetime *lifetimes, hr_error *err);

#endif
