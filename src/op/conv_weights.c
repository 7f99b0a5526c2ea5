/* conv_dw and conv_db on the CPU.
 *
 *   dW [K, C x kernel] = sum over blocks of rows (windows of all samples): dy [K, rows] unfolded x [rows, C x kernel]
 *
 * for each group. Blocks, whose size follows from the shape, are added one after the other, in f32: the pool unfolds
 * one together, then multiplies it together.
 */
#include <string.h>

#include "base/mem.h"
#include "op/conv_parts.h"
#include "op/stream.h"

enum {
  BLOCK_BYTES = 4 * 1024 * 1024, /* of one block in f32, unfolded x and dy */
  BLOCK_LEAST = 256,             /* rows */
  BLOCK_MOST = 8192,
  UNFOLD_ROWS = 64,  /* of one task */
  DB_ELEMENTS = 512, /* of a sample, of one task of conv_db */
  DB_SAMPLES = 64,   /* summed in f32 before they join the total in f64 */
  DB_PLACES = 256    /* of a sample: likewise */
};

typedef struct plan {
  hr_conv_sizes sizes;
  hr_conv_walk walk;
  int64_t taps, inner, rows, block;
  bool x_rows, dy_rows; /* x, dy are rows as they lie there: [rows, groups x inner], [rows, K] */
} plan;

/* Where the workspace keeps things, in bytes from its start. */
typedef struct layout {
  size_t sum; /* dW in f32, where the result is not */
  size_t x, dy, offsets, scratch, bytes;
  size_t offsets_each, scratch_each; /* of a worker */
} layout;

typedef struct products {
  hr_gemm *of[2]; /* of whole blocks, of the last one; NULL: none of that size */
} products;

static plan plan_of(const hr_conv_sizes *s) {
  plan p = {.sizes = *s, .walk = hr__conv_walk(s)};
  p.taps = hr__conv_volume(s->kernel);
  p.inner = s->in * p.taps;
  p.rows = s->samples * hr__conv_volume(s->y);
  p.x_rows = hr__conv_is_view(s);
  p.dy_rows = hr__conv_volume(s->y) == 1;
  int64_t row = s->groups * (p.inner + s->out), fit = BLOCK_BYTES / (int64_t)sizeof(float) / row / 64 * 64;
  p.block = hr__min(p.rows, fit < BLOCK_LEAST ? BLOCK_LEAST : hr__min(fit, BLOCK_MOST));
  return p;
}

static hr_gemm_spec block_spec(const plan *p, int64_t rows, hr_dtype dtype) {
  return (hr_gemm_spec){.m = p->sizes.out,
                        .n = p->inner,
                        .k = rows,
                        .lda = p->dy_rows ? p->sizes.groups * p->sizes.out : rows,
                        .ldb = p->x_rows ? p->sizes.groups * p->inner : p->inner,
                        .ldc = p->inner,
                        .transpose_a = p->dy_rows,
                        .accumulate = true,
                        .a = dtype,
                        .b = dtype,
                        .c = HR_F32};
}

static size_t aligned(size_t bytes) {
  return (bytes + 63) & ~(size_t)63;
}

/* With several groups every worker multiplies whole ones, with one group they share it. */
static layout layout_of(const plan *p, hr_dtype dtype, hr_dtype result, int threads) {
  const hr_conv_sizes *s = &p->sizes;
  size_t element = hr_dtype_bytes(dtype), block = (size_t)p->block, workers = (size_t)(threads < 1 ? 1 : threads);
  layout at = {0};
  if (result != HR_F32) at.x = aligned((size_t)(s->groups * s->out * p->inner) * sizeof(float));
  at.dy = at.x + (p->x_rows ? 0 : aligned(block * (size_t)(s->groups * p->inner) * element));
  at.offsets = at.dy + (p->dy_rows ? 0 : aligned(block * (size_t)(s->groups * s->out) * element));
  at.offsets_each = aligned((size_t)p->taps * sizeof(int64_t));
  at.scratch = at.offsets + workers * at.offsets_each;
  int together = s->groups > 1 ? 1 : (int)workers;
  hr__product_cap(&at.scratch_each, block_spec(p, p->block, dtype), together);
  if (p->rows % p->block) hr__product_cap(&at.scratch_each, block_spec(p, p->rows % p->block, dtype), together);
  at.scratch_each = aligned(at.scratch_each);
  at.bytes = at.scratch + (s->groups > 1 ? workers : 1) * at.scratch_each;
  return at;
}

size_t hr__conv_dw_bytes(const hr_conv_sizes *s, hr_dtype dtype, hr_dtype result, int threads) {
  if (hr__conv_is_apart(s)) return 0;
  plan p = plan_of(s);
  return layout_of(&p, dtype, result, threads).bytes;
}

void hr__conv_dw_products(const hr_conv_sizes *s, hr_dtype dtype, int threads, hr_gemm_set *set) {
  if (hr__conv_is_apart(s)) return;
  plan p = plan_of(s);
  hr_gemm_spec whole = block_spec(&p, p.block, dtype), last = block_spec(&p, p.rows % p.block, dtype);
  hr__gemm_set_add(set, &whole, threads);
  if (last.k > 0) hr__gemm_set_add(set, &last, threads);
}

static hr_conv_sizes call_sizes(const hr_call *call) {
  const hr_conv_dw_args *args = call->args;
  return hr__conv_sizes(&call->in[1].desc, &call->out[0].desc, &call->in[0].desc, &args->conv);
}

static plan call_plan(const hr_call *call) {
  hr_conv_sizes s = call_sizes(call);
  return plan_of(&s);
}

static layout call_layout(const hr_call *call, const plan *p) {
  return layout_of(p, call->in[0].desc.dtype, call->out[0].desc.dtype, call->threads);
}

void hr__conv_dw_release(void *prepared) {
  products *made = prepared;
  if (!made) return;
  for (int i = 0; i < 2; i++)
    hr__gemm_destroy(made->of[i]);
  hr__free(made);
}

hr_status hr__conv_dw_prepare(const hr_call *call, void **prepared, hr_error *err) {
  hr_conv_sizes s = call_sizes(call);
  if (hr__conv_is_apart(&s)) return HR_OK;
  plan p = call_plan(call);
  hr_dtype dtype = call->in[0].desc.dtype;
  int64_t last = p.rows % p.block;
  HR_TRY(hr__workspace_check(call, call_layout(call, &p).bytes, err));
  products *made = hr__alloc_zero(1, sizeof *made);
  if (!made) return hr__nomem(err);
  hr_status status = hr__product_make(&made->of[0], block_spec(&p, p.block, dtype), call, err);
  if (status == HR_OK && last) status = hr__product_make(&made->of[1], block_spec(&p, last, dtype), call, err);
  if (status == HR_OK)
    *prepared = made;
  else
    hr__conv_dw_release(made);
  return status;
}

/* ---- the run ---- */

typedef struct job {
  const hr_call *call;
  const plan *plan;
  layout at;
  float *sum;    /* dW so far */
  hr_range rows; /* of this block */
  int failed;    /* set by any worker, never cleared */
} job;

static char *job_part(const job *j, size_t at) {
  return (char *)j->call->workspace + at;
}

/* x [groups, rows, inner], some rows of the block in all groups. */
static void x_unfold(const job *j, hr_range range, int64_t *offsets) {
  const plan *p = j->plan;
  const hr_conv_sizes *s = &p->sizes;
  const hr_tensor *x = &j->call->in[1];
  size_t element = hr_dtype_bytes(x->desc.dtype);
  int64_t count = j->rows.end - j->rows.first, of_group = s->in * hr__conv_volume(s->x);
  hr_conv_rows unfolded = {.walk = &p->walk, .channels = s->in, .apart = s->groups * of_group, .offsets = offsets};
  hr_range rows = {j->rows.first + range.first, j->rows.first + range.end};
  for (int64_t group = 0; group < s->groups; group++) {
    unfolded.from = (const char *)x->data + (size_t)(group * of_group) * element;
    hr__conv_unfold(&unfolded, rows, element,
                    job_part(j, j->at.x + (size_t)((group * count + range.first) * p->inner) * element));
  }
}

/* dy [K, rows], as much of a sample at once as is in these rows. */
static void dy_gather(const job *j, hr_range range) {
  const hr_conv_sizes *s = &j->plan->sizes;
  const hr_tensor *dy = &j->call->in[0];
  size_t element = hr_dtype_bytes(dy->desc.dtype);
  int64_t count = j->rows.end - j->rows.first, windows = hr__conv_volume(s->y), channels = s->groups * s->out;
  for (int64_t r = range.first; r < range.end;) {
    int64_t first = j->rows.first + r, sample = first / windows, place = first % windows;
    int64_t n = hr__min(windows - place, range.end - r);
    for (int64_t k = 0; k < channels; k++)
      memcpy(job_part(j, j->at.dy + (size_t)(k * count + r) * element),
             (const char *)dy->data + (size_t)((sample * channels + k) * windows + place) * element,
             (size_t)n * element);
    r += n;
  }
}

static void unfold_task(void *arg, int64_t task, int worker) {
  const job *j = arg;
  hr_range range = hr__chunk(j->rows.end - j->rows.first, UNFOLD_ROWS, task);
  if (!j->plan->x_rows)
    x_unfold(j, range, (int64_t *)(void *)job_part(j, j->at.offsets + (size_t)worker * j->at.offsets_each));
  if (!j->plan->dy_rows) dy_gather(j, range);
}

static const char *group_dy(const job *j, int64_t group) {
  const hr_tensor *dy = &j->call->in[0];
  int64_t count = j->rows.end - j->rows.first, out = j->plan->sizes.out;
  size_t element = hr_dtype_bytes(dy->desc.dtype);
  if (j->plan->dy_rows)
    return (const char *)dy->data + (size_t)((j->rows.first * j->plan->sizes.groups + group) * out) * element;
  return job_part(j, j->at.dy + (size_t)(group * out * count) * element);
}

static const char *group_x(const job *j, int64_t group) {
  const hr_tensor *x = &j->call->in[1];
  int64_t count = j->rows.end - j->rows.first, inner = j->plan->inner;
  size_t element = hr_dtype_bytes(x->desc.dtype);
  if (j->plan->x_rows)
    return (const char *)x->data + (size_t)((j->rows.first * j->plan->sizes.groups + group) * inner) * element;
  return job_part(j, j->at.x + (size_t)(group * count * inner) * element);
}

static const hr_gemm *block_product(const job *j) {
  const products *made = j->call->prepared;
  return made->of[j->rows.end - j->rows.first != j->plan->block];
}

static void group_task(void *arg, int64_t group, int worker) {
  job *j = arg;
  float *sum = j->sum + group * j->plan->sizes.out * j->plan->inner;
  char *scratch = job_part(j, j->at.scratch + (size_t)worker * j->at.scratch_each);
  if (hr__gemm_run_here(block_product(j), worker, group_dy(j, group), group_x(j, group), sum, scratch) != HR_OK)
    __atomic_store_n(&j->failed, 1, __ATOMIC_RELAXED);
}

static hr_status block_run(job *j) {
  const hr_call *call = j->call;
  int64_t groups = j->plan->sizes.groups;
  int64_t tasks = hr__chunks(j->rows.end - j->rows.first, UNFOLD_ROWS);
  if (!j->plan->x_rows || !j->plan->dy_rows) hr__pool_run(call->device->pool, call->threads, tasks, unfold_task, j);
  if (groups == 1)
    return hr__gemm_run(block_product(j), call->device->pool, call->threads, group_dy(j, 0), group_x(j, 0), j->sum,
                        job_part(j, j->at.scratch));
  hr__pool_run(call->device->pool, call->threads, groups, group_task, j);
  return j->failed ? HR_FAILURE : HR_OK;
}

/* sum = partial, or 0 */
static void sum_begin_task(void *arg, int64_t task, int worker) {
  const job *j = arg;
  const hr_tensor *partial = &j->call->in[2];
  hr_range range = hr__chunk(hr_desc_count(&j->call->out[0].desc), HR_BLOCK, task);
  int64_t n = range.end - range.first;
  (void)worker;
  if (!partial->data) {
    memset(j->sum + range.first, 0, (size_t)n * sizeof *j->sum);
    return;
  }
  const float *from = hr__load(partial, range.first, n, j->sum + range.first);
  if (from != j->sum + range.first) memcpy(j->sum + range.first, from, (size_t)n * sizeof *from);
}

static void sum_end_task(void *arg, int64_t task, int worker) {
  const job *j = arg;
  hr_range range = hr__chunk(hr_desc_count(&j->call->out[0].desc), HR_BLOCK, task);
  (void)worker;
  hr__store(&j->call->out[0], range.first, range.end - range.first, j->sum + range.first);
}

hr_status hr__conv_dw_run(const hr_call *call) {
  hr_conv_sizes s = call_sizes(call);
  if (hr__conv_is_apart(&s)) return hr__conv_apart_dw_run(call);
  plan p = call_plan(call);
  job j = {.call = call, .plan = &p, .at = call_layout(call, &p)};
  const hr_tensor *dw = &call->out[0];
  int64_t chunks = hr__chunks(hr_desc_count(&dw->desc), HR_BLOCK);
  j.sum = dw->desc.dtype == HR_F32 ? dw->data : (float *)(void *)job_part(&j, j.at.sum);
  hr__pool_run(call->device->pool, call->threads, chunks, sum_begin_task, &j);
  for (int64_t block = 0; block < hr__chunks(p.rows, p.block); block++) {
    j.rows = hr__chunk(p.rows, p.block, block);
    HR_TRY(block_run(&j));
  }
  if (dw->desc.dtype != HR_F32) hr__pool_run(call->device->pool, call->threads, chunks, sum_end_task, &j);
  return HR_OK;
}

/* Sums of `count` channels over some samples, [samples, count, places] with samples `apart`: element by element in f32,
 * then those of a channel, which join its total. */
HR_INLINE void db_columns(const hr_tensor *dy, int64_t first, int64_t samples, int64_t apart, int64_t count,
                          int64_t places, double *total) {
  float sum[DB_ELEMENTS], scratch[DB_ELEMENTS];
  for (int64_t i = 0; i < count * places; i++)
    sum[i] = 0.0f;
  for (int64_t sample = 0; sample < samples; sample++) {
    const float *from = hr__load(dy, first + sample * apart, count * places, scratch);
#pragma omp simd
    for (int64_t i = 0; i < count * places; i++)
      sum[i] += from[i];
  }
  for (int64_t c = 0; c < count; c++)
    for (int64_t i = 0; i < places; i++)
      total[c] += (double)sum[c * places + i];
}

/* The same of one channel and one sample with many places. */
HR_INLINE double db_run(const hr_tensor *dy, int64_t first, int64_t places) {
  float scratch[DB_ELEMENTS];
  double total = 0.0;
  for (int64_t at = 0; at < places; at += DB_PLACES) {
    int64_t n = hr__min(DB_PLACES, places - at);
    const float *from = hr__load(dy, first + at, n, scratch);
    float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++)
      sum += from[i];
    total += (double)sum;
  }
  return total;
}

/* Channels of one task: they lie side by side in a sample. */
static int64_t db_channels(int64_t places) {
  return places > DB_PLACES ? 1 : DB_ELEMENTS / places;
}

/* Some channels over all samples. */
HR_CLONES static void conv_db_task(void *arg, int64_t task, int worker) {
  const hr_call *call = arg;
  const hr_tensor *dy = &call->in[0], *partial = &call->in[1], *db = &call->out[0];
  int64_t samples = dy->desc.dim[0], channels = dy->desc.dim[1], places = hr_desc_count(&dy->desc) / samples / channels,
          apart = channels * places;
  hr_range range = hr__chunk(channels, db_channels(places), task);
  int64_t count = range.end - range.first, first = range.first * places;
  double total[DB_ELEMENTS];
  float ends[DB_ELEMENTS];
  (void)worker;

  const float *start = partial->data ? hr__load(partial, range.first, count, ends) : NULL;
  for (int64_t c = 0; c < count; c++)
    total[c] = start ? (double)start[c] : 0.0;
  if (places > DB_PLACES)
    for (int64_t sample = 0; sample < samples; sample++)
      total[0] += db_run(dy, first + sample * apart, places);
  else
    for (int64_t sample = 0; sample < samples; sample += DB_SAMPLES)
      db_columns(dy, first + sample * apart, hr__min(DB_SAMPLES, samples - sample), apart, count, places, total);
  float *to = hr__target(db, range.first, ends);
  for (int64_t c = 0; c < count; c++)
    to[c] = (float)total[c];
  hr__store(db, range.first, count, to);
}

hr_status hr__conv_db_run(const hr_call *call) {
  const hr_desc *dy = &call->in[0].desc;
  int64_t places = hr_desc_count(dy) / dy->dim[0] / dy->dim[1], tasks = hr__chunks(dy->dim[1], db_channels(places));
  hr__pool_run(call->device->pool, call->threads, tasks, conv_db_task, (void *)(uintptr_t)call);
  return HR_OK;
}
