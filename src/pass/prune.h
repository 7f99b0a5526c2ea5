/* What passes that leave nodes without readers need of the prune pass. */
#ifndef HR_PASS_PRUNE_H
#define HR_PASS_PRUNE_H

#include "graph/graph.h"

/* Of nodes in the order in which they are to run, keeps in order[0..*count) those that something needs. */
hr_status hr__prune_order(const hr_graph *graph, hr_id *order, size_t *count, hr_arena *scratch, hr_error *err);

#endif
