/* gelu: y = x Phi(x), where Phi is the distribution function of the normal distribution, or its approximation by tanh.
 */
#ifndef HR_OP_GELU_H
#define HR_OP_GELU_H

#include "graph/builder.h"

typedef struct hr_gelu_args {
  bool tanh; /* y = x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), as "gelu_new" and "gelu_pytorch_tanh" */
} hr_gelu_args;

extern const hr_op hr_op_gelu;     /* x -> y */
extern const hr_op hr_op_gelu_bwd; /* dy, x -> dx; hr_gelu_args */

hr_id hr__gelu(hr_builder *b, hr_id x, bool tanh);

#endif
