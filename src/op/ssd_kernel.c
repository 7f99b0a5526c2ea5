/* The scan forward, and what both directions share; see op/ssd_parts.h. A task is one head of one sequence. */
#include <string.h>

#include "base/simd_math.h"
#include "dev/cpu/matrix.h"
#include "op/ssd_parts.h"
#include "op/stream.h"

enum { LANES = HR_SSD_LANES, ROWS = 6 }; /* of a block of results in registers */

/* ---- products ---- */

HR_INLINE void block_product(const int rows, int64_t n, int64_t k, const float *a, int64_t si, int64_t sk,
                             const float *b, int64_t ldb, float *c, int64_t ldc) {
  for (int64_t j = 0; j < n; j += LANES) {
    float sum[ROWS][LANES];
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++)
#pragma omp simd
      for (int l = 0; l < LANES; l++)
        sum[r][l] = c[r * ldc + j + l];
    for (int64_t i = 0; i < k; i++) {
      const float *row = b + i * ldb + j;
#pragma GCC unroll 6
      for (int r = 0; r < rows; r++) {
        float factor = a[r * si + i * sk];
#pragma omp simd
        for (int l = 0; l < LANES; l++)
          sum[r][l] += factor * row[l];
      }
    }
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++)
#pragma omp simd
      for (int l = 0; l < LANES; l++)
        c[r * ldc + j + l] = sum[r][l];
  }
}

HR_CLONES void hr__ssd_product(int64_t m, int64_t n, int64_t k, hr_ssd_left left, const float *b, int64_t ldb, float *c,
                               int64_t ldc) {
  for (int64_t i = 0; i < m; i += ROWS) {
    const float *a = left.a + i * left.si;
    float *to = c + i * ldc;
    int64_t rows = hr__min(ROWS, m - i), depth = left.lower ? hr__min(k, i + rows) : k;
    if (rows == ROWS)
      block_product(ROWS, n, depth, a, left.si, left.sk, b, ldb, to, ldc);
    else if (rows >= 4) {
      block_product(4, n, depth, a, left.si, left.sk, b, ldb, to, ldc);
      for (int64_t r = 4; r < rows; r++)
        block_product(1, n, depth, a + r * left.si, left.si, left.sk, b, ldb, to + r * ldc, ldc);
    } else
      for (int64_t r = 0; r < rows; r++)
        block_product(1, n, depth, a + r * left.si, left.si, left.sk, b, ldb, to + r * ldc, ldc);
  }
}

/* ---- rooms ---- */

static float parameter(const hr_tensor *tensor, int64_t at) {
  float scratch;
  return *hr__load(tensor, at, 1, &scratch);
}

hr_ssd_head hr__ssd_head(const hr_call *call, int first, const hr_ssd_rooms *rooms, float *base, int64_t sequence,
                         int64_t head) {
  const int32_t *starts = call->in[first + HR_SSD_STARTS].data;
  return (hr_ssd_head){.rooms = rooms,
                       .base = base,
                       .sequence = sequence,
                       .head = head,
                       .group = head / (rooms->size.heads / rooms->size.groups),
                       .decay = -hr__expf(parameter(&call->in[first + HR_SSD_A_LOG], head)),
                       .bias = parameter(&call->in[first + HR_SSD_BIAS], head),
                       .skip = parameter(&call->in[first + HR_SSD_D], head),
                       .starts = starts ? starts + sequence * rooms->size.length : NULL};
}

HR_CLONES void hr__ssd_steps(const hr_ssd_head *w, const hr_tensor *steps, const hr_ssd_args *args, int64_t begin,
                             int64_t count) {
  const hr_ssd_sizes *s = &w->rooms->size;
  float *d = w->base + w->rooms->d, *slope = w->base + w->rooms->slope, scratch;
  for (int64_t i = 0; i < count; i++) {
    int64_t at = (w->sequence * s->length + begin + i) * s->steps + args->step_first + w->head;
    d[i] = *hr__load(steps, at, 1, &scratch) + w->bias;
  }
#pragma omp simd
  for (int64_t i = 0; i < count; i++) {
    float raw = d[i], e = hr__expf(raw < 0.0f ? raw : -raw), step = (raw > 0.0f ? raw : 0.0f) + hr__log1pf(e);
    float sigmoid = (raw < 0.0f ? e : 1.0f) / (1.0f + e);
    slope[i] = step < args->step_least || step > args->step_most ? 0.0f : sigmoid;
    step = step < args->step_least ? args->step_least : step;
    d[i] = step > args->step_most ? args->step_most : step;
  }
}

void hr__ssd_decays(const hr_ssd_head *w, int64_t first, int64_t count) {
  const float *d = w->base + w->rooms->d;
  float *a = w->base + w->rooms->a, sum = 0.0f;
  for (int64_t i = 0; i < count; i++) {
    sum = (hr__ssd_anew(w, first, i) ? 0.0f : sum) + d[i] * w->decay;
    a[i] = sum;
  }
}

HR_CLONES void hr__ssd_rows(const hr_ssd_head *w, const hr_tensor *from, int64_t begin, int64_t count, int64_t column,
                            int64_t columns, int64_t ld, float *to) {
  const hr_ssd_sizes *s = &w->rooms->size;
  int64_t wide = from->desc.dim[from->desc.rank - 1];
  for (int64_t i = 0; i < count; i++, to += ld) {
    const float *row = hr__load(from, (w->sequence * s->length + begin + i) * wide + column, columns, to);
    if (row != to) memcpy(to, row, (size_t)columns * sizeof *to);
    memset(to + columns, 0, (size_t)(ld - columns) * sizeof *to);
  }
}

void hr__ssd_turn(const float *from, int64_t rows, int64_t columns, int64_t from_ld, float *to, int64_t ld) {
  hr__f32_transpose(from, from_ld, rows, columns, to, ld);
  for (int64_t i = 0; i < columns && rows < ld; i++)
    memset(to + i * ld + rows, 0, (size_t)(ld - rows) * sizeof *to);
}

void hr__ssd_scores(const hr_ssd_head *w, int64_t rows) {
  const hr_ssd_rooms *r = w->rooms;
  float *turned = w->base + r->turned, *scores = w->base + r->scores;
  hr__ssd_turn(w->base + r->b, rows, r->size.state, r->state, turned, HR_SSD_TILE);
  memset(scores, 0, sizeof(float) * HR_SSD_TILE * (size_t)rows);
  for (int64_t i = 0; i < rows; i += LANES) { /* a strip of rows at a time, as far as the diagonal */
    int64_t count = hr__min(LANES, rows - i);
    hr_ssd_left c = {w->base + r->c + i * r->state, r->state, 1, false};
    hr__ssd_product(count, i + LANES, r->size.state, c, turned, HR_SSD_TILE, scores + i * HR_SSD_TILE, HR_SSD_TILE);
  }
}

HR_CLONES void hr__ssd_scale(const float *from, const float *factor, int64_t rows, int64_t ld, float *to) {
  for (int64_t i = 0; i < rows; i++)
#pragma omp simd
    for (int64_t j = 0; j < ld; j++)
      to[i * ld + j] = factor[i] * from[i * ld + j];
}

HR_CLONES static void end_factors(const float *d, const float *a, int64_t rows, float *factor) {
#pragma omp simd
  for (int64_t i = 0; i < rows; i++)
    factor[i] = hr__expf(a[rows - 1] - a[i]) * d[i];
}

HR_CLONES static void state_decay(float factor, int64_t count, float *h) {
#pragma omp simd
  for (int64_t i = 0; i < count; i++)
    h[i] *= factor;
}

void hr__ssd_advance(const hr_ssd_head *w, int64_t begin, const float *d, const float *a, int64_t rows, float *h) {
  const hr_ssd_rooms *r = w->rooms;
  float factor[HR_SSD_TILE];
  int64_t seen = hr__ssd_seen(w, begin, rows - 1);
  end_factors(d, a, rows, factor);
  for (int64_t i = 0; i < seen; i++)
    factor[i] = 0.0f;
  hr__ssd_scale(w->base + r->b, factor, rows, r->state, w->base + r->scaled);
  state_decay(seen < 0 ? hr__expf(a[rows - 1]) : 0.0f, r->size.state * r->dim, h);
  hr_ssd_left turned = {w->base + r->scaled, 1, r->state, false};
  hr__ssd_product(r->size.state, r->dim, rows, turned, w->base + r->x, r->dim, h, r->dim);
}

/* ---- forward ---- */

/* scores = scores o E o d_j, 0 above the diagonal; factor = exp(a), 0 for what does not see the state. */
HR_CLONES static void weights_make(const hr_ssd_head *w, int64_t begin, const float *d, const float *a, int64_t rows,
                                   float *scores, float *factor) {
  for (int64_t i = 0; i < rows; i++) {
    float *row = scores + i * HR_SSD_TILE;
    int64_t seen = hr__ssd_seen(w, begin, i);
    factor[i] = seen < 0 ? hr__expf(a[i]) : 0.0f;
    for (int64_t j = 0; j < seen; j++)
      row[j] = 0.0f;
#pragma omp simd
    for (int64_t j = seen < 0 ? 0 : seen; j <= i; j++)
      row[j] *= hr__expf(a[i] - a[j]) * d[j];
    for (int64_t j = i + 1; j < hr__min(rows, i + ROWS); j++)
      row[j] = 0.0f;
  }
}

HR_CLONES static void y_store(const hr_ssd_head *w, const hr_tensor *y, int64_t begin, int64_t rows) {
  const hr_ssd_rooms *r = w->rooms;
  const hr_ssd_sizes *s = &r->size;
  for (int64_t i = 0; i < rows; i++) {
    int64_t at = (w->sequence * s->length + begin + i) * s->y + w->head * s->dim;
    const float *from = w->base + r->y + i * r->dim;
    float *to = hr__target(y, at, w->base + r->y + i * r->dim);
    if (to != from) memcpy(to, from, (size_t)s->dim * sizeof *to);
    hr__store(y, at, s->dim, to);
  }
}

/* Positions [begin, begin + rows) of the sequence; d and a are theirs. */
static void tile_run(const hr_ssd_head *w, const hr_call *call, int64_t begin, int64_t rows, const float *d,
                     const float *a) {
  const hr_ssd_rooms *r = w->rooms;
  const hr_ssd_sizes *s = &r->size;
  const hr_tensor *mixed = &call->in[HR_SSD_MIXED];
  float *x = w->base + r->x, *y = w->base + r->y, *scores = w->base + r->scores, *scaled = w->base + r->scaled;
  float factor[HR_SSD_TILE], skip[HR_SSD_TILE];
  hr__ssd_rows(w, mixed, begin, rows, w->head * s->dim, s->dim, r->dim, x);
  hr__ssd_rows(w, mixed, begin, rows, s->b_first + w->group * s->state, s->state, r->state, w->base + r->b);
  hr__ssd_rows(w, mixed, begin, rows, s->c_first + w->group * s->state, s->state, r->state, w->base + r->c);
  for (int64_t i = 0; i < rows; i++)
    skip[i] = w->skip;
  hr__ssd_scale(x, skip, rows, r->dim, y);
  hr__ssd_scores(w, rows);
  weights_make(w, begin, d, a, rows, scores, factor);
  hr__ssd_product(rows, r->dim, rows, (hr_ssd_left){scores, HR_SSD_TILE, 1, true}, x, r->dim, y, r->dim);
  hr__ssd_scale(w->base + r->c, factor, rows, r->state, scaled);
  hr__ssd_product(rows, r->dim, s->state, (hr_ssd_left){scaled, r->state, 1, false}, w->base + r->h, r->dim, y, r->dim);
  y_store(w, &call->out[0], begin, rows);
  hr__ssd_advance(w, begin, d, a, rows, w->base + r->h);
}

typedef struct job {
  const hr_call *call;
  hr_ssd_rooms rooms;
} job;

static void head_task(void *arg, int64_t task, int worker) {
  const job *j = arg;
  const hr_call *call = j->call;
  const hr_ssd_rooms *r = &j->rooms;
  const hr_ssd_sizes *s = &r->size;
  float *base = (float *)call->workspace + (size_t)worker * r->floats;
  hr_ssd_head w = hr__ssd_head(call, 0, r, base, task / s->heads, task % s->heads);
  float *h = base + r->h;
  memset(h, 0, (size_t)(r->state * r->dim) * sizeof *h);
  for (int64_t c = 0; c < s->chunks; c++) {
    int64_t first = c * s->chunk, count = hr__min(s->chunk, s->length - first);
    float *kept =
        (float *)call->out[1].data + (w.sequence * s->chunks + c) * s->chunk_floats + w.head * s->state_floats;
    for (int64_t n = 0; n < s->state; n++)
      memcpy(kept + n * s->dim, h + n * r->dim, (size_t)s->dim * sizeof *h);
    hr__ssd_steps(&w, &call->in[HR_SSD_STEPS], call->args, first, count);
    hr__ssd_decays(&w, first, count);
    for (int64_t t = 0; t < count; t += HR_SSD_TILE)
      tile_run(&w, call, first + t, hr__min(HR_SSD_TILE, count - t), base + r->d + t, base + r->a + t);
  }
}

hr_status hr__ssd_run(const hr_call *call) {
  job j = {.call = call};
  hr_ssd_sizes s = hr__ssd_sizes(&call->in[HR_SSD_MIXED].desc, &call->in[HR_SSD_STEPS].desc, call->args);
  j.rooms = hr__ssd_rooms(&s, false);
  hr__pool_run(call->device->pool, call->threads, s.sequences * s.heads, head_task, &j);
  return HR_OK;
}
