/* conv: y = x * W (+ bias) (+ add), sliding windows over one to three axes, and its three gradients. */
#ifndef HR_OP_CONV_H
#define HR_OP_CONV_H

#include "graph/builder.h"

enum { HR_CONV_AXES = 3 }; /* the most axes that windows slide along */

/* One entry for each axis that windows slide along, in their order; those beyond are not read. */
typedef struct hr_conv_args {
  int64_t stride[HR_CONV_AXES];   /* between windows, from 1 */
  int64_t padding[HR_CONV_AXES];  /* zeros at either end */
  int64_t dilation[HR_CONV_AXES]; /* between the elements of a window, from 1 */
  int64_t groups;                 /* channels go through in this many parts, each with weights of its own; from 1 */
} hr_conv_args;

typedef struct hr_conv_dx_args {
  hr_conv_args conv;
  int64_t size[HR_CONV_AXES]; /* of x: with a stride, several sizes give the same y */
} hr_conv_dx_args;

typedef struct hr_conv_dw_args {
  hr_conv_args conv;
  int64_t kernel[HR_CONV_AXES];
  hr_dtype dtype; /* of dW and its partial sums: the parameter's */
} hr_conv_dw_args;

typedef struct hr_conv_db_args {
  hr_dtype dtype; /* of db and its partial sums: the parameter's */
} hr_conv_db_args;

/* x [N, C, size...], W [K, C / groups, kernel...], bias? [K], add? [N, K, ...] -> y [N, K, windows...] */
extern const hr_op hr_op_conv;
extern const hr_op
    hr_op_conv_dx; /* dy, W, partial? -> dx; hr_conv_dx_args. It has a gradient: see hr__conv_transpose */
extern const hr_op hr_op_conv_dw; /* dy, x, partial? -> dW; hr_conv_dw_args */
extern const hr_op hr_op_conv_db; /* dy, partial?    -> db; hr_conv_db_args */

hr_id hr__conv(hr_builder *b, hr_id x, hr_id weight, hr_id bias, const hr_conv_args *args); /* bias: HR_NONE for none */
/* The same on top of `add`, which it may take over: the two are summed in place. */
hr_id hr__conv_add(hr_builder *b, hr_id x, hr_id weight, hr_id bias, hr_id add, const hr_conv_args *args);

/* The transposed convolution, conv's adjoint: x [N, K, size...], W [K, C / groups, kernel...], bias? [C] -> y [N, C,
 * ...] of the smallest size whose convolution has the size of x; `more` elements are behind it along each axis. */
hr_id hr__conv_transpose(hr_builder *b, hr_id x, hr_id weight, hr_id bias, const int64_t more[HR_CONV_AXES],
                         const hr_conv_args *args);

#endif
