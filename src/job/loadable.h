/* Whether a run could load what its recipe names, as far as names, shapes and types tell: no weight is read. */
#ifndef HR_JOB_LOADABLE_H
#define HR_JOB_LOADABLE_H

#include "graph/graph.h"
#include "recipe/recipe.h"

/* Folders without any weights pass: they can be planned. */
hr_status hr__loadable(const hr_recipe *recipe, const hr_graph *graph, hr_error *err);

#endif
