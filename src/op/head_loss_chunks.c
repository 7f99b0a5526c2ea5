/* How head_loss cuts its rows, what a chunk multiplies, and where it keeps things. */
#include "op/head_loss_parts.h"
#include "op/product.h"
#include "op/stream.h"

enum {
  CHUNK_BYTES = 8 << 20, /* logits of a chunk, unless the vocabulary is large */
  CHUNK_GRAIN = 16,      /* chunks are multiples of this many rows */
  WEIGHT_SHARE = 8       /* ... or this part of the weight's f32 size, where that is more */
};

/* A chunk's traffic is two passes over W and two over dW, its arithmetic 6 C V H: with C = H / WEIGHT_SHARE rows the
 * arithmetic takes longer for the usual H, and the logits take a small part of what W, dW and the moments take. */
static int64_t chunk_rows_of(int64_t rows, int64_t vocabulary, int64_t width, int64_t wanted) {
  if (wanted > 0) return hr__min(wanted, rows);
  int64_t most = CHUNK_BYTES / 4 / vocabulary;
  if (most < width / WEIGHT_SHARE) most = width / WEIGHT_SHARE;
  if (most < CHUNK_GRAIN) most = CHUNK_GRAIN;
  int64_t chunks = hr__chunks(rows, most);
  int64_t even = hr__chunks(hr__chunks(rows, chunks), CHUNK_GRAIN) * CHUNK_GRAIN;
  return hr__min(even, rows);
}

hr_head hr__head_of(const hr_desc *x, const hr_desc *w, int64_t chunk_rows) {
  hr_head h = {.rows = hr_desc_rows(x), .width = w->dim[1], .vocabulary = w->dim[0], .dtype = x->dtype};
  h.chunk_rows = chunk_rows_of(h.rows, h.vocabulary, h.width, chunk_rows);
  h.chunks = hr__chunks(h.rows, h.chunk_rows);
  h.last_rows = h.rows - (h.chunks - 1) * h.chunk_rows;
  return h;
}

hr_head hr__head_bwd_of(const hr_desc *x, const hr_desc *w, const hr_head_loss_bwd_args *args, bool add_dx,
                        bool add_dw) {
  hr_head h = hr__head_of(x, w, args->chunk_rows);
  h.want_dx = args->want_dx;
  h.want_dw = args->want_dw;
  h.want_db = args->want_db;
  h.dw_dtype = args->dw_dtype;
  h.add_dx = add_dx;
  h.add_dw = add_dw;
  return h;
}

hr_gemm_spec hr__head_logits(const hr_head *h, int64_t rows) {
  return (hr_gemm_spec){.m = rows,
                        .n = h->vocabulary,
                        .k = h->width,
                        .lda = h->width,
                        .ldb = h->width,
                        .ldc = h->vocabulary,
                        .transpose_b = true,
                        .a = h->dtype,
                        .b = h->dtype,
                        .c = HR_F32};
}

hr_gemm_spec hr__head_dx(const hr_head *h, int64_t rows) {
  return (hr_gemm_spec){.m = rows,
                        .n = h->width,
                        .k = h->vocabulary,
                        .lda = h->vocabulary,
                        .ldb = h->width,
                        .ldc = h->width,
                        .accumulate = h->add_dx,
                        .a = HR_F32,
                        .b = h->dtype,
                        .c = h->dtype};
}

hr_gemm_spec hr__head_dw(const hr_head *h, int64_t rows, bool add) {
  return (hr_gemm_spec){.m = h->vocabulary,
                        .n = h->width,
                        .k = rows,
                        .lda = h->vocabulary,
                        .ldb = h->width,
                        .ldc = h->width,
                        .transpose_a = true,
                        .accumulate = add,
                        .a = HR_F32,
                        .b = h->dtype,
                        .c = h->dw_dtype};
}

hr_head_layout hr__head_layout_of(const hr_head *h, int threads) {
  const size_t line = 64;
  size_t cap = 0;
  for (int last = 0; last < 2; last++) {
    int64_t rows = last ? h->last_rows : h->chunk_rows;
    hr__product_cap(&cap, hr__head_logits(h, rows), threads);
    if (h->want_dx) hr__product_cap(&cap, hr__head_dx(h, rows), threads);
    if (h->want_dw) hr__product_cap(&cap, hr__head_dw(h, rows, true), threads);
  }
  hr_head_layout l = {.losses =
                          ((size_t)h->chunk_rows * (size_t)h->vocabulary * sizeof(float) + line - 1) / line * line};
  l.gemm = l.losses + ((size_t)h->chunk_rows * sizeof(double) + line - 1) / line * line;
  l.bytes = l.gemm + cap;
  return l;
}
