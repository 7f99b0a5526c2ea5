/* grad: adds the backward pass of the current program by each op's own rule, for a list of weighted losses. */
#ifndef HR_GRAD_GRAD_H
#define HR_GRAD_GRAD_H

#include "graph/adjoint.h"

typedef struct hr_loss {
  hr_id value; /* f32 [1] */
  float weight;
} hr_loss;

/* Where parameter gradients go. */
typedef enum hr_grad_mode {
  HR_GRAD_TRANSIENT, /* accumulation 1: gradients live until the update in the same program */
  HR_GRAD_WRITE,     /* first micro-batch: written into the persistent gradients grad.<parameter> */
  HR_GRAD_ACCUMULATE /* later micro-batches: added to them */
} hr_grad_mode;

/* Works on the builder's current program. Nodes are appended with phase HR_BACKWARD; the gradient of every trained
 * parameter is left in its value's `gradient`, HR_NONE where no path leads to a loss. If the program is not the graph's
 * last, hr__graph_regroup must follow. */
hr_status hr__grad(hr_builder *b, const hr_loss *losses, size_t n_losses, hr_grad_mode mode, hr_error *err);
/* The same of the losses that the program has as outputs, each multiplied by its factor. */
hr_status hr__grad_program(hr_builder *b, hr_grad_mode mode, hr_error *err);

#endif
