/* The cheapest set of vertices that separates sources from sinks: a minimum vertex cut by maximum flow, exact. */
#ifndef HR_PASS_CHECKPOINT_CUT_H
#define HR_PASS_CHECKPOINT_CUT_H

#include <stdbool.h>

#include "base/mem.h"
#include "base/status.h"

#define HR_CUT_NEVER UINT64_MAX /* cost of a vertex that no cut may take */

typedef struct hr_cut {
  hr_arena *arena; /* storage of the graph and of the solver */
  size_t n_vertices;
  uint64_t *cost; /* per vertex */
  bool *source, *sink;
  struct hr_cut_edge {
    uint32_t from, to;
  } * edges;
  size_t n_edges, cap_edges;
} hr_cut;

hr_status hr__cut_init(hr_cut *cut, hr_arena *arena, size_t n_vertices, hr_error *err);
hr_status hr__cut_edge(hr_cut *cut, uint32_t from, uint32_t to, hr_error *err);

/* taken[v]: vertex v is in the cut. A source or a sink may be taken itself. Of all cuts of the least cost this is the
 * one nearest to the sinks, which is unique. HR_FAILURE: a path has no vertex that may be taken. */
hr_status hr__cut_solve(hr_cut *cut, bool *taken, hr_error *err);

#endif
