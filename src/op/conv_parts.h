/* What the rules of conv (op/conv.c) and the CPU's kernels (op/conv_*.c) share. */
#ifndef HR_OP_CONV_PARTS_H
#define HR_OP_CONV_PARTS_H

#include "op/conv_walk.h"
#include "op/product.h"
#include "op/stream.h"

/* Place `row` of all samples' (the last axis runs fastest): its sample, and its number along each axis. */
int64_t hr__conv_place(const hr_conv_walk *w, int64_t row, int64_t at[HR_CONV_AXES]);

/* Where in one channel of the source each tap of a place reads; -1: outside. */
void hr__conv_taps(const hr_conv_walk *w, const int64_t at[HR_CONV_AXES], int64_t *offsets);

/* Rows of an unfolded source: to [rows, channels, taps]. */
typedef struct hr_conv_rows {
  const hr_conv_walk *walk;
  const void *from;        /* a group of the first sample */
  int64_t channels, apart; /* of the group; elements from one sample to the next */
  int64_t *offsets;        /* scratch, one for each tap */
} hr_conv_rows;
void hr__conv_unfold(const hr_conv_rows *u, hr_range rows, size_t element_bytes, void *to);

/* Where rows of products go. */
typedef struct hr_conv_put {
  const hr_tensor *bias, *add, *out; /* bias and add without data: none */
  const hr_conv_walk *walk;
  int64_t groups, columns; /* columns: channels of a group of the result, or all of a row that is flat */
  bool flat;               /* rows are samples, which lie in the result as they do in the product */
} hr_conv_put;

/* Completes product [rows, columns], rows `rows` of all samples' places in a group, and puts it into the result;
 * `turned` is scratch of the same size, and the product is overwritten. */
void hr__conv_put(const hr_conv_put *p, int64_t group, hr_range rows, float *product, float *turned);

/* Whether channels stay apart: then kernels of their own take no scratch and need nothing prepared (op/conv_apart.c).
 */
bool hr__conv_is_apart(const hr_conv_sizes *s);
hr_status hr__conv_apart_run(const hr_call *call);
hr_status hr__conv_apart_dx_run(const hr_call *call);
hr_status hr__conv_apart_dw_run(const hr_call *call);

/* Library objects of a call, for each walk: of whole blocks, of the last one. NULL: none of that size. */
typedef struct hr_conv_made {
  int64_t count;
  hr_gemm *of[];
} hr_conv_made;
hr_status hr__conv_made_create(int64_t walks, hr_conv_made **out, hr_error *err);

/* Whether maps are large enough for products whose rows are channels of y (op/conv_planes.c). */
bool hr__conv_is_planes(const hr_conv_sizes *s);
size_t hr__conv_planes_bytes(const hr_conv_sizes *s, hr_dtype dtype, int threads);
void hr__conv_planes_products(const hr_conv_sizes *s, hr_dtype dtype, int threads, hr_gemm_set *set);
hr_status hr__conv_planes_prepare(const hr_call *call, void **prepared, hr_error *err);
hr_status hr__conv_planes_run(const hr_call *call);

/* Scratch of the CPU's kernels. */
size_t hr__conv_bytes(const hr_conv_sizes *s, hr_dtype dtype, int threads);
size_t hr__conv_dx_bytes(const hr_conv_sizes *s, hr_dtype dtype, int threads);
size_t hr__conv_dw_bytes(const hr_conv_sizes *s, hr_dtype dtype, hr_dtype result, int threads);

/* Their products (hr_op.products). */
void hr__conv_products(const hr_conv_sizes *s, hr_dtype dtype, int threads, hr_gemm_set *set);
void hr__conv_dx_products(const hr_conv_sizes *s, hr_dtype dtype, int threads, hr_gemm_set *set);
void hr__conv_dw_products(const hr_conv_sizes *s, hr_dtype dtype, int threads, hr_gemm_set *set);

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
