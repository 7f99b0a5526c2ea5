/* Graphs for planning: small ones by hand, random ones of real ops, and an independent check of what a plan promises.
 */
#ifndef HR_TEST_PLAN_GRAPHS_H
#define HR_TEST_PLAN_GRAPHS_H

#include "graph/builder.h"
#include "plan/plan.h"

/* A CPU with two threads that exists nowhere. */
hr_facts test_facts(void);

/* A random training graph: chains, residuals, branches and gates over a few widths, a loss, backward, and for some an
 * update, gradient accumulation or bf16. The caller destroys it. */
hr_graph *test_random_graph(uint64_t number);

hr_plan *test_plan(const hr_graph *graph, const hr_facts *facts, int accumulation);

/* What nodes take beside their operands, and the library for their products. */
uint64_t test_nodes_bytes(const hr_plan *plan);

/* Plays every program through on a map of the arenas: every operand must still be where its producer left it, results
 * may lie on operands only where the op allows it, outputs and persistent state must be there at the end. Fails the
 * running test otherwise. Knows nothing of lifetimes: it only follows addresses. */
void test_replay(const hr_plan *plan);

#endif
