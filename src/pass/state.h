/* Values of a model that persist without gradient (hr__state). */
#ifndef HR_PASS_STATE_H
#define HR_PASS_STATE_H

#include "graph/graph.h"

/* Puts the nodes that write states to the end of their programs, in order. Whatever else reads a state, in backward and
 * recomputed too, then reads it as the program found it. */
hr_status hr__state_last(hr_graph *graph, hr_error *err);

#endif
