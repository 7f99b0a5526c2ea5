/* pool: the largest element, or the mean, of windows that slide along one to three axes. Padding is never the largest;
 * a mean counts it as zeros, so that every window is divided by the same number. (The mean of all places is `reduce`.)
 */
#ifndef HR_OP_POOL_H
#define HR_OP_POOL_H

#include "graph/builder.h"

enum { HR_POOL_AXES = 3, HR_POOL_TAPS = 256 }; /* the most axes, and the most elements of a window of the largest */

typedef enum hr_pooling { HR_POOL_MAX, HR_POOL_MEAN } hr_pooling;

/* One entry for each axis that windows slide along, in their order; those beyond are not read. */
typedef struct hr_pool_args {
  hr_pooling pooling;
  int64_t kernel[HR_POOL_AXES];
  int64_t stride[HR_POOL_AXES];  /* between windows, from 1 */
  int64_t padding[HR_POOL_AXES]; /* at either end, at most half of the kernel: a window always meets x */
} hr_pool_args;

typedef struct hr_pool_bwd_args {
  hr_pool_args pool;
  int64_t size[HR_POOL_AXES]; /* of x */
} hr_pool_bwd_args;

/* x [N, C, size...] -> y [N, C, windows...]; of the largest also u8 like y: which element of its window it was, the
 * first of several. */
extern const hr_op hr_op_pool;
/* dy, which? u8 (of the largest), partial? -> dx */
extern const hr_op hr_op_pool_bwd;

hr_id hr__pool(hr_builder *b, hr_id x, const hr_pool_args *args);

/* What kernels go by: three axes always, those in front of size 1. */
typedef struct hr_pool_walk {
  int64_t planes; /* samples x channels */
  int64_t size[HR_POOL_AXES], windows[HR_POOL_AXES];
  int64_t kernel[HR_POOL_AXES], stride[HR_POOL_AXES], padding[HR_POOL_AXES];
} hr_pool_walk;

static inline hr_pool_walk hr__pool_walk(const hr_pool_args *args, const hr_desc *x, const hr_desc *y) {
  hr_pool_walk w = {x->dim[0] * x->dim[1], {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}};
  for (int axis = 2; axis < x->rank; axis++) {
    int to = HR_POOL_AXES - x->rank + axis;
    w.size[to] = x->dim[axis];
    w.windows[to] = y->dim[axis];
    w.kernel[to] = args->kernel[axis - 2];
    w.stride[to] = args->stride[axis - 2];
    w.padding[to] = args->padding[axis - 2];
  }
  return w;
}

#endif
