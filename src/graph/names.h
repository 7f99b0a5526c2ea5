/* An index of persistent values and inputs by name, for the builder: it looks every parameter up once in each program,
 * and a large model has thousands. Kept with the graph; compaction leaves it behind. */
#ifndef HR_GRAPH_NAMES_H
#define HR_GRAPH_NAMES_H

#include "graph/graph.h"

/* What hr__graph_find_value finds. False: out of memory. */
bool hr__names_find(hr_graph *graph, const char *name, hr_id *out);

#endif
