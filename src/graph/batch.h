/* Where the batch lies in values (hr_batch), followed from a program's inputs by the ops' own rules.
 *
 * A value that carries the batch has its samples one behind another along one axis, as many rows of it to each: B
 * images of P patches are B·P rows, P to a sample. So a region can be cut between samples whatever became of the axis.
 */
#ifndef HR_GRAPH_BATCH_H
#define HR_GRAPH_BATCH_H

#include "graph/graph.h"

#define HR_NO_BATCH ((hr_batch){-1, 0})

/* How the batch goes through one node: out[j] says where it lies in result j. False: results of a sample depend on
 * other samples, or would have other bits with fewer of them. `in` is per operand. */
bool hr__batch_through(const hr_op *op, const hr_op_view *view, const hr_batch *in, hr_batch *out);

/* `of`: per value of the graph, where it carries the batch. Inputs say themselves (hr__input_batch). `couples`: per
 * node, whether it works on the batch and couples samples; or NULL. */
hr_status hr__batch_follow(const hr_graph *graph, hr_batch *of, bool *couples, hr_error *err);

#endif
