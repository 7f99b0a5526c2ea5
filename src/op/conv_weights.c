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
  UNFOLD_ROWS = 64, /* of one task */
  DB_CHANNELS = 16, /* of one task of conv_db: they lie side by side in a sample */
  DB_PLACES = 64    /* summed in f32 before they join the total in f64 */
};

typedef struct plan {
  hr_conv_sizes sizes;
  hr_conv_walk walk;
  int64_t taps, inner, rows, block;
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
  int64_t row = s->groups * (p.inner + s->out), fit = BLOCK_BYTES / (int64_t)sizeof(float) / row / 64 * 64;
  p.block = hr__min(p.rows, fit < BLOCK_LEAST ? BLOCK_LEAST : hr__min(fit, BLOCK_MOST));
  return p;
}

static hr_gemm_spec block_spec(const plan *p, int64_t rows, hr_dtype dtype) {
  return (hr_gemm_spec){.m = p->sizes.out,
                        .n = p->inner,
                        .k = rows,
                        .lda = rows,
                        .ldb = p->inner,
                        .ldc = p->inner,
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
  at.dy = at.x + aligned(block * (size_t)(s->groups * p->inner) * element);
  at.offsets = at.dy + aligned(block * (size_t)(s->groups * s->out) * element);
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
  plan p = plan_of(s);
  return layout_of(&p, dtype, result, threads).bytes;
}

static plan call_plan(const hr_call *call) {
  const hr_conv_dw_args *args = call->args;
  hr_conv_sizes s = hr__conv_sizes(&call->in[1].desc, &call->out[0].desc, &call->in[0].desc, &args->conv);
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

/* Some rows of the block, in all groups: x unfolded [groups, rows, inner], dy [K, rows]. */
static void unfold_task(void *arg, int64_t task, int worker) {
  const job *j = arg;
  const plan *p = j->plan;
  const hr_conv_sizes *s = &p->sizes;
  const hr_tensor *dy = &j->call->in[0], *x = &j->call->in[1];
  size_t element = hr_dtype_bytes(x->desc.dtype);
  int64_t count = j->rows.end - j->rows.first, source = hr__conv_volume(s->x), windows = hr__conv_volume(s->y);
  int64_t *offsets = (int64_t *)(void *)job_part(j, j->at.offsets + (size_t)worker * j->at.offsets_each);
  hr_range range = hr__chunk(count, UNFOLD_ROWS, task);
  hr_conv_row row = {.channels = s->in, .size = source, .taps = p->taps, .offsets = offsets};
  for (int64_t r = range.first; r < range.end; r++) {
    int64_t at[HR_CONV_AXES], sample = hr__conv_place(&p->walk, j->rows.first + r, at);
    row.inside = hr__conv_taps(&p->walk, at, offsets);
    for (int64_t group = 0; group < s->groups; group++) {
      row.from = (const char *)x->data + (size_t)((sample * s->groups + group) * s->in * source) * element;
      hr__conv_unfold(&row, element, job_part(j, j->at.x + (size_t)((group * count + r) * p->inner) * element));
    }
  }
  /* dy: as much of a sample at once as is in these rows */
  for (int64_t r = range.first; r < range.end;) {
    int64_t first = j->rows.first + r, sample = first / windows, place = first % windows;
    int64_t n = hr__min(windows - place, range.end - r), channels = s->groups * s->out;
    for (int64_t k = 0; k < channels; k++)
      memcpy(job_part(j, j->at.dy + (size_t)(k * count + r) * element),
             (const char *)dy->data + (size_t)((sample * channels + k) * windows + place) * element,
             (size_t)n * element);
    r += n;
  }
}

static const char *group_dy(const job *j, int64_t group) {
  int64_t count = j->rows.end - j->rows.first;
  size_t element = hr_dtype_bytes(j->call->in[0].desc.dtype);
  return job_part(j, j->at.dy + (size_t)(group * j->plan->sizes.out * count) * element);
}

static const char *group_x(const job *j, int64_t group) {
  int64_t count = j->rows.end - j->rows.first;
  size_t element = hr_dtype_bytes(j->call->in[0].desc.dtype);
  return job_part(j, j->at.x + (size_t)(group * count * j->plan->inner) * element);
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
  hr__pool_run(call->device->pool, call->threads, hr__chunks(j->rows.end - j->rows.first, UNFOLD_ROWS), unfold_task, j);
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

/* Some channels over all samples. */
HR_CLONES static void conv_db_task(void *arg, int64_t task, int worker) {
  const hr_call *call = arg;
  const hr_tensor *dy = &call->in[0], *partial = &call->in[1], *db = &call->out[0];
  int64_t samples = dy->desc.dim[0], channels = dy->desc.dim[1],
          windows = hr_desc_count(&dy->desc) / samples / channels;
  hr_range range = hr__chunk(channels, DB_CHANNELS, task);
  int64_t count = range.end - range.first;
  double total[DB_CHANNELS];
  float block[DB_PLACES], ends[DB_CHANNELS];
  (void)worker;

  const float *start = partial->data ? hr__load(partial, range.first, count, ends) : NULL;
  for (int64_t c = 0; c < count; c++)
    total[c] = start ? (double)start[c] : 0.0;
  for (int64_t sample = 0; sample < samples; sample++)
    for (int64_t c = 0; c < count; c++)
      for (int64_t first = 0; first < windows; first += DB_PLACES) {
        int64_t n = hr__min(DB_PLACES, windows - first);
        const float *from = hr__load(dy, (sample * channels + range.first + c) * windows + first, n, block);
        float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
        for (int64_t i = 0; i < n; i++)
          sum += from[i];
        total[c] += (double)sum;
      }
  float *to = hr__target(db, range.first, ends);
  for (int64_t c = 0; c < count; c++)
    to[c] = (float)total[c];
  hr__store(db, range.first, count, to);
}

hr_status hr__conv_db_run(const hr_call *call) {
  int64_t tasks = hr__chunks(call->in[0].desc.dim[1], DB_CHANNELS);
  hr__pool_run(call->device->pool, call->threads, tasks, conv_db_task, (void *)(uintptr_t)call);
  return HR_OK;
}
