/* What the rules of head_loss (op/head_loss.c) and its kernels share: how a call is cut into chunks of rows, the
 * products of a chunk, and where it keeps things. */
#ifndef HR_OP_HEAD_LOSS_PARTS_H
#define HR_OP_HEAD_LOSS_PARTS_H

#include "dev/cpu/gemm.h"
#include "op/head_loss.h"

/* One call. */
typedef struct hr_head {
  int64_t rows, width, vocabulary;
  int64_t chunk_rows, chunks, last_rows;
  hr_dtype dtype, dw_dtype;
  bool want_dx, want_dw, want_db;
  bool add_dx, add_dw; /* something is in the result already */
} hr_head;

hr_head hr__head_of(const hr_desc *x, const hr_desc *w, int64_t chunk_rows);
hr_head hr__head_bwd_of(const hr_desc *x, const hr_desc *w, const hr_head_loss_bwd_args *args, bool add_dx,
                        bool add_dw);

/* Products of a chunk with that many rows. */
hr_gemm_spec hr__head_logits(const hr_head *h, int64_t rows);
hr_gemm_spec hr__head_dx(const hr_head *h, int64_t rows);
hr_gemm_spec hr__head_dw(const hr_head *h, int64_t rows, bool add);

/* Where the workspace keeps things, in bytes from its start. */
typedef struct hr_head_layout {
  size_t logits; /* f32 [chunk_rows, V] */
  size_t losses; /* f64 [chunk_rows] */
  size_t gemm;
  size_t bytes;
} hr_head_layout;

hr_head_layout hr__head_layout_of(const hr_head *h, int threads);

/* The softmax of one chunk: logits become losses and, going backward, their own gradient. */
typedef struct hr_head_softmax {
  float *logits;         /* [rows, columns] */
  const hr_tensor *bias; /* added to every row; data is NULL where there is none */
  const int32_t *targets;
  double *losses;
  int64_t rows, columns;
  bool backward;
  float scale; /* factor on dlogits */
} hr_head_softmax;
void hr__head_softmax(const hr_call *call, const hr_head_softmax *job);

/* db = before (where its data is there) + the sum over rows of a chunk's dlogits [rows, columns]. */
typedef struct hr_head_db {
  const float *dlogits;
  int64_t rows, columns;
  const hr_tensor *before;
  const hr_tensor *db;
} hr_head_db;
void hr__head_db(const hr_call *call, const hr_head_db *job);

/* Kernels. */
hr_status hr__head_loss_prepare(const hr_call *call, void **prepared, hr_error *err);
hr_status hr__head_loss_run(const hr_call *call);
hr_status hr__head_loss_bwd_prepare(const hr_call *call, void **prepared, hr_error *err);
hr_status hr__head_loss_bwd_run(const hr_call *call);
void hr__head_release(void *prepared);

#endif
