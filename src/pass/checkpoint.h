/* Checkpointing: which forward values stay for backward, and which are made again. */
#ifndef HR_PASS_CHECKPOINT_H
#define HR_PASS_CHECKPOINT_H

#include "graph/graph.h"
#include "pass/compile.h"

extern const hr_key_table hr_checkpoint_keys; /* memory.checkpoint */

/* Outermost blocks of a program in order of execution: what hr_choices.keep counts by. `blocks` has room for
 * graph->n_blocks; returns how many there are. */
size_t hr__checkpoint_blocks(const hr_graph *graph, hr_id program, hr_id *blocks);

#endif
