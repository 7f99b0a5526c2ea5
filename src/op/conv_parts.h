/* What the rules of conv (op/conv.c) and the CPU's kernels (op/conv_kernel.c, op/conv_weights.c) share. */
#ifndef HR_OP_CONV_PARTS_H
#define HR_OP_CONV_PARTS_H

#include "op/conv_walk.h"
#include "op/product.h"

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
