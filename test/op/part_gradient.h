/* The gradient of one op as its rule gives it: a graph of one node, backward emitted, all of it run with the CPU
 * kernels in plain buffers. */
#ifndef HR_TEST_OP_GRADIENT_H
#define HR_TEST_OP_GRADIENT_H

#include "part_case.h"

typedef struct gradient_options {
  uint32_t trained;  /* bit i: input i takes a gradient */
  bool with_partial; /* there is a sum already, to which the rule adds */
} gradient_options;

typedef struct gradient_result {
  double *gradient[HR_OP_OPERANDS]; /* NULL: the rule gave none */
  double *partial[HR_OP_OPERANDS];  /* NULL without partials */
  double *seed;                     /* gradient that was put on output 0 */
  uint32_t reads;                   /* HR_SAVE bits the rule asked for */
} gradient_result;

/* Arrays belong to the case. Fails the test when the graph is refused or an emitted op reads what was not declared. */
gradient_result gradient_run(op_case *c, gradient_options options);

#endif
