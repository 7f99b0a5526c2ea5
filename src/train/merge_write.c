/* The tensors of a merged model, in pieces of rows. */
#include <string.h>

#include "base/clones.h"
#include "format/safetensors.h"
#include "model/convert.h"
#include "train/merging.h"

enum { PIECE = 1 << 18 }; /* elements that are worked on at a time, if that is a row */

/* What is held at a time. */
typedef struct pieces {
  float *rows; /* of the weight */
  void *out;   /* the same in the result's type */
  float *a;    /* [rank, in], whole */
  float *b;    /* [rows of the piece, rank] */
  float *sum;  /* [in] */
} pieces;

static hr_safetensor *list_make(hr_merging *m) {
  static const char *const names[] = {[HR_F32] = "F32", [HR_BF16] = "BF16", [HR_F16] = "F16"};
  hr_safetensor *list = hr__arena_array(&m->arena, m->count + 1, sizeof *list);
  uint64_t at = 0;
  for (size_t i = 0; list && i < m->count; i++) {
    const hr_merged *t = &m->tensors[i];
    const hr_stored_tensor *from = hr__stored_at(t->file, t->index);
    list[i] = (hr_safetensor){.name = from->name, .dtype = names[t->dtype], .rank = from->rank, .begin = at};
    memcpy(list[i].dim, from->dim, sizeof from->dim);
    at += (uint64_t)hr__stored_elements(from) * hr_dtype_bytes(t->dtype);
    list[i].end = at;
  }
  return list;
}

static const char *const metadata[] = {"format", "pt", NULL};

hr_status hr__merging_bytes(hr_merging *m, uint64_t *bytes, hr_error *err) {
  hr_safetensor *list = list_make(m);
  return list ? hr__safetensors_file_bytes(list, m->count, metadata, bytes, err) : hr__nomem(err);
}

/* sum[j] += factor * row[j] */
HR_CLONES static void row_add(float *sum, const float *row, float factor, int64_t count) {
  for (int64_t j = 0; j < count; j++)
    sum[j] += factor * row[j];
}

/* Row of W + scale B A; the product is summed by itself, as it is small beside W. */
static void row_merge(float *row, const pieces *p, const float *b, int64_t rank, int64_t in, float scale) {
  memset(p->sum, 0, (size_t)in * sizeof *p->sum);
  for (int64_t k = 0; k < rank; k++)
    row_add(p->sum, p->a + k * in, b[k], in);
  row_add(row, p->sum, scale, in);
}

static hr_status rows_merge(const hr_merging *m, const hr_merged *t, const pieces *p, int64_t first, int64_t count,
                            int64_t in, hr_error *err) {
  int64_t rank = m->peft.rank;
  HR_TRY(hr__stored_read(m->adapters, t->b, HR_F32, first * rank, count * rank, p->b, err));
  for (int64_t i = 0; i < count; i++)
    row_merge(p->rows + i * in, p, p->b + i * rank, rank, in, (float)hr__peft_scale(&m->peft));
  return HR_OK;
}

/* Rows of the result are as long as the last axis; a piece has as many as fit, but one. */
static void tensor_shape(const hr_merged *t, int64_t *rows, int64_t *in, int64_t *piece) {
  const hr_stored_tensor *from = hr__stored_at(t->file, t->index);
  *in = t->a != SIZE_MAX ? from->dim[1] : 1;
  *rows = *in > 0 ? hr__stored_elements(from) / *in : 0;
  *piece = *in < PIECE ? PIECE / (*in > 0 ? *in : 1) : 1;
}

static hr_status tensor_write(const hr_merging *m, const hr_merged *t, const pieces *p, hr_safetensors_writer *writer,
                              hr_error *err) {
  int64_t rows, in, piece;
  tensor_shape(t, &rows, &in, &piece);
  bool adapted = t->a != SIZE_MAX;
  if (adapted) HR_TRY(hr__stored_read(m->adapters, t->a, HR_F32, 0, m->peft.rank * in, p->a, err));
  for (int64_t first = 0; first < rows; first += piece) {
    int64_t count = rows - first < piece ? rows - first : piece;
    void *to = adapted ? (void *)p->rows : p->out;
    HR_TRY(hr__stored_read(t->file, t->index, adapted ? HR_F32 : t->dtype, first * in, count * in, to, err));
    if (adapted) {
      HR_TRY(rows_merge(m, t, p, first, count, in, err));
      hr__convert(t->dtype, p->out, HR_F32, p->rows, (size_t)(count * in));
    }
    HR_TRY(hr__safetensors_writer_put(writer, p->out, (size_t)(count * in) * hr_dtype_bytes(t->dtype), err));
  }
  return HR_OK;
}

/* Room for the largest piece of any tensor. */
static hr_status pieces_make(const hr_merging *m, hr_arena *arena, pieces *p, uint64_t *held, hr_error *err) {
  size_t rows_most = 0, out_most = PIECE, in_most = 0, b_most = 0;
  for (size_t i = 0; i < m->count; i++) {
    int64_t rows, in, piece;
    tensor_shape(&m->tensors[i], &rows, &in, &piece);
    if (m->tensors[i].a == SIZE_MAX) continue;
    if (rows < piece) piece = rows;
    size_t elements = (size_t)(piece * in), b = (size_t)(piece * m->peft.rank);
    rows_most = elements > rows_most ? elements : rows_most;
    in_most = (size_t)in > in_most ? (size_t)in : in_most;
    b_most = b > b_most ? b : b_most;
  }
  if (rows_most > out_most) out_most = rows_most;
  size_t a_most = in_most * (size_t)m->peft.rank;
  *held = (rows_most + out_most + a_most + b_most + in_most) * sizeof(float);
  p->rows = hr__arena_array(arena, rows_most + 1, sizeof *p->rows);
  p->out = hr__arena_array(arena, out_most, sizeof(float));
  p->a = hr__arena_array(arena, a_most + 1, sizeof *p->a);
  p->b = hr__arena_array(arena, b_most + 1, sizeof *p->b);
  p->sum = hr__arena_array(arena, in_most + 1, sizeof *p->sum);
  return p->rows && p->out && p->a && p->b && p->sum ? HR_OK : hr__nomem(err);
}

hr_status hr__merging_write(hr_merging *m, const char *path, hr_merge_result *result, hr_error *err) {
  pieces p;
  char hex[HR_SHA256_HEX];
  hr_safetensors_writer *writer = NULL;
  HR_TRY(pieces_make(m, &m->arena, &p, &result->held_bytes, err));
  hr_safetensor *list = list_make(m);
  if (!list) return hr__nomem(err);
  hr_status status = hr__safetensors_writer_open(path, list, m->count, metadata, &writer, err);
  for (size_t i = 0; i < m->count && status == HR_OK; i++)
    status = tensor_write(m, &m->tensors[i], &p, writer, err);
  if (status == HR_OK) status = hr__safetensors_writer_finish(writer, hex, &result->bytes, err);
  hr__safetensors_writer_destroy(writer);
  return status;
}
