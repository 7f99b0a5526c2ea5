/* Adjoints: the table value -> gradient value, and what a gradient rule may do with it.
 *
 * grad/grad.c walks the nodes of a program backwards and calls each op's rule; rules speak only through this header.
 * A rule must read inputs and outputs of its node through hr__saved_in/out: what it reads is held against the op's
 * declared `saves`.
 *
 * Gradients add up in place: an op that can add natively takes hr__grad_partial as an optional operand with
 * HR_ALIAS_ACCUMULATE and hands the total to hr__grad_set; any other calls hr__grad_add, which emits an `add` if there
 * is a partial already. With gradient accumulation the gradient of a parameter has a persistent home, grad.<parameter>:
 * the first contribution declares it and is produced there, later micro-batches start with that home as the partial. A
 * parameter that nothing flows to has no home.
 *
 * A trained parameter that is converted to another type before it is used counts as the parameter itself: what its
 * users contribute goes straight to the parameter's gradient, in the parameter's type (hr__grad_dtype), and no gradient
 * of the narrow copy ever exists.
 */
#ifndef HR_GRAPH_ADJOINT_H
#define HR_GRAPH_ADJOINT_H

#include "graph/builder.h"

typedef struct hr_adjoint hr_adjoint;

/* For rules. `in`/`out` are operand numbers of the node whose rule is running. */
hr_builder *hr__adjoint_builder(hr_adjoint *a);
hr_id hr__out_grad(hr_adjoint *a, int out); /* HR_NONE: nothing flows into this output */
bool hr__wants_grad(hr_adjoint *a, int in); /* whether anything trained lies behind this input */
hr_id hr__saved_in(hr_adjoint *a, int in);
hr_id hr__saved_out(hr_adjoint *a, int out);
hr_dtype hr__grad_dtype(hr_adjoint *a, int in); /* type the gradient of this input must have */
hr_id hr__grad_partial(hr_adjoint *a, int in);  /* sum so far, or HR_NONE */
void hr__grad_set(hr_adjoint *a, int in, hr_id total);
void hr__grad_add(hr_adjoint *a, int in, hr_id contribution);
/* Lets a backward op that also computes the forward result stand for it: all uses of output `out` as a program output
 * go to `value`, and the forward node is pruned when nothing else needs it (the loss head). */
void hr__replace_out(hr_adjoint *a, int out, hr_id value);

/* For grad/grad.c and tests. */
/* The two ops sums are made of; handed in because ops lie to the right of the graph. `copy` keeps the type. */
typedef struct hr_sum_ops {
  hr_id (*add)(hr_builder *b, hr_id a, hr_id c);
  hr_id (*copy)(hr_builder *b, hr_id x);
  /* (optional) whether output 0 of a node is input 0 in another type and nothing else. */
  bool (*converts)(const hr_graph *graph, const hr_node *node);
} hr_sum_ops;
/* Persistent gradients of trained parameters. */
typedef enum hr_homes {
  HR_HOMES_NONE,         /* gradients are transient */
  HR_HOMES_EMPTY,        /* what they hold is overwritten */
  HR_HOMES_HOLD_PARTIALS /* what they hold is added to */
} hr_homes;
hr_status hr__adjoint_create(hr_builder *b, hr_sum_ops sum, hr_homes homes, hr_adjoint **out, hr_error *err);
void hr__adjoint_destroy(hr_adjoint *a);
void hr__adjoint_mark_trained(hr_adjoint *a, hr_id program); /* finds what depends on trained parameters */
void hr__adjoint_seed(hr_adjoint *a, hr_id value, hr_id gradient);
void hr__adjoint_visit(hr_adjoint *a, hr_id node);        /* runs one rule */
hr_id hr__adjoint_of(const hr_adjoint *a, hr_id value);   /* gradient, or HR_NONE */
hr_id hr__adjoint_home(const hr_adjoint *a, hr_id value); /* its persistent home, or HR_NONE */
uint32_t hr__adjoint_reads(const hr_adjoint *a);          /* save bits read by the last rule */

#endif
