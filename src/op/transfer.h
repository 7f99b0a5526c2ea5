/* fetch, store, wait: copies between the tiers, as nodes of the program order.
 *
 * fetch and store begin a copy that runs beside the nodes behind them; its result is there after the matching wait,
 * which also names everything that the copy still reads, so that lifetimes need no further rule. Bytes are copied as
 * they are: any type. What goes to or comes from the disk passes through room on the host (`staged`).
 */
#ifndef HR_OP_TRANSFER_H
#define HR_OP_TRANSFER_H

#include "graph/builder.h"

typedef struct hr_transfer_args {
  bool staged; /* output 1 is room on the host for all bytes; otherwise it has none */
} hr_transfer_args;

extern const hr_op hr_op_fetch, hr_op_store, hr_op_wait;

/* x, which lives below the device, goes to `to` in place (a value on the device), or to storage of its own there when
 * `to` is HR_NONE. Output 1 is the room on the host. */
hr_id hr__fetch(hr_builder *b, hr_id x, hr_id to, bool staged);
/* x, which lives on the device, goes to `to` in place (a value below the device), or to storage of its own when `to` is
 * HR_NONE (the caller gives its buffer a home). Output 1 is the room on the host. */
hr_id hr__store(hr_builder *b, hr_id x, hr_id to, bool staged);
/* x, the result of a fetch or store, from when its copy is done. `source` is what was copied, `room` its way over the
 * host or HR_NONE: both are held until here. */
hr_id hr__wait(hr_builder *b, hr_id x, hr_id source, hr_id room);

#endif
