/* What the rules of conv (op/conv.c) and the CPU's kernels (op/conv_kernel.c, op/conv_weights.c) share. */
#ifndef HR_OP_CONV_PARTS_H
#define HR_OP_CONV_PARTS_H

#include "op/conv.h"
#include "op/product.h"

/* A convolution with all its sizes, always along three axes: those in front are of size 1 where there are fewer. */
typedef struct hr_conv_sizes {
  int64_t samples, groups;
  int64_t in, out; /* channels of one group, of x and of y */
  int64_t x[HR_CONV_AXES], kernel[HR_CONV_AXES], y[HR_CONV_AXES];
  int64_t stride[HR_CONV_AXES], padding[HR_CONV_AXES], dilation[HR_CONV_AXES];
} hr_conv_sizes;

/* From shapes that go together. */
hr_conv_sizes hr__conv_sizes(const hr_desc *x, const hr_desc *w, const hr_desc *y, const hr_conv_args *args);

static inline int64_t hr__conv_volume(const int64_t size[HR_CONV_AXES]) {
  return size[0] * size[1] * size[2];
}

/* How places of a result gather what they are made of, along each axis: place i of `places`, which is element
 * to_first + i to_step of the result, reads for its tap j of `taps` element i step + first + j tap of the source (0
 * outside of it), and meets element w_first + j w_step of the kernel.
 *
 * y is one walk. In dx, elements that differ by the stride meet the same elements of the kernel: they are one walk, and
 * there are as many as the strides' product. So dx is gathered as y is, with no zeros between windows. */
typedef struct hr_conv_walk {
  int64_t places[HR_CONV_AXES], to[HR_CONV_AXES], to_first[HR_CONV_AXES], to_step[HR_CONV_AXES];
  int64_t source[HR_CONV_AXES], step[HR_CONV_AXES];
  int64_t taps[HR_CONV_AXES], first[HR_CONV_AXES], tap[HR_CONV_AXES];
  int64_t w_first[HR_CONV_AXES], w_step[HR_CONV_AXES];
} hr_conv_walk;

hr_conv_walk hr__conv_walk(const hr_conv_sizes *s);
int64_t hr__conv_dx_walks(const hr_conv_sizes *s);
hr_conv_walk hr__conv_dx_walk(const hr_conv_sizes *s, int64_t number);

/* Place `row` of all samples' (the last axis runs fastest): its sample, and its number along each axis. */
int64_t hr__conv_place(const hr_conv_walk *w, int64_t row, int64_t at[HR_CONV_AXES]);

/* Where in one channel of the source each tap of a place reads; -1: outside. Whether all are inside. */
bool hr__conv_taps(const hr_conv_walk *w, const int64_t at[HR_CONV_AXES], int64_t *offsets);

/* One row of an unfolded source: to [channels, taps] from `channels` channels of `size` elements each. */
typedef struct hr_conv_row {
  const char *from;
  int64_t channels, size, taps;
  const int64_t *offsets;
  bool inside; /* no offset is -1 */
} hr_conv_row;
void hr__conv_unfold(const hr_conv_row *row, size_t element_bytes, void *to);

/* Scratch of the CPU's kernels. */
size_t hr__conv_bytes(const hr_conv_sizes *s, hr_dtype dtype, int threads);
size_t hr__conv_dx_bytes(const hr_conv_sizes *s, hr_dtype dtype, int threads);
size_t hr__conv_dw_bytes(const hr_conv_sizes *s, hr_dtype dtype, hr_dtype result, int threads);

hr_status hr__conv_prepare(const hr_call *call, void **prepared, hr_error *err);
hr_status hr__conv_run(const hr_call *call);
hr_status hr__conv_dx_prepare(const hr_call *call, void **prepared, hr_error *err);
hr_status hr__conv_dx_run(const hr_call *call);
void hr__conv_release(void *prepared);

hr_status hr__conv_dw_prepare(const hr_call *call, void **prepared, hr_error *err);
hr_status hr__conv_dw_run(const hr_call *call);
void hr__conv_dw_release(void *prepared);
hr_status hr__conv_db_run(const hr_call *call);

#endif
