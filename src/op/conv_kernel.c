/* conv and conv_dx on the CPU: blocks of unfolded rows times weights.
 *
 * A row is one place of the result in one sample: what it reads lies in one row of a block [rows, channels x taps], and
 * one product with the weights of a group gives its elements in all channels, as f32 (op/conv_put.c takes them from
 * there). Where a window is all of x, rows are samples as they lie there. A block is one task of the pool, its size a
 * matter of the shape alone, and a row of a product has the same bits whatever rows are with it (dev/cpu/gemm.c): a
 * sample's results depend neither on threads nor on other samples.
 */
#include <string.h>

#include "base/mem.h"
#include "op/conv_parts.h"

enum {
  BLOCK_BYTES = 512 * 1024, /* of unfolded rows in f32: they stay in the second-level cache */
  BLOCK_LEAST = 64,         /* rows; with fewer, the library would pack weights for too little */
  BLOCK_MOST = 256
};

/* One walk as products: [rows, inner] x [inner, columns] for each group. */
typedef struct pass {
  hr_conv_walk walk;
  int64_t channels, columns; /* of a group: of the source, of the result */
  int64_t taps, inner;       /* 0 taps: nothing flows to these places */
  int64_t rows, block;       /* places of all samples; rows of one task */
  int64_t view;              /* elements between the source's rows where these need not be unfolded; 0: they do */
  bool transposed;           /* weights of a group are stored [columns, inner] */
} pass;

/* Where a worker's part of the workspace keeps things, in bytes from its start. */
typedef struct slice {
  size_t unfolded, product, turned, offsets, scratch, bytes;
} slice;

static pass pass_of(const hr_conv_sizes *s, hr_conv_walk walk, int64_t channels, int64_t columns) {
  pass p = {.walk = walk, .channels = channels, .columns = columns, .transposed = true};
  p.taps = hr__conv_volume(walk.taps);
  p.inner = channels * p.taps;
  p.rows = s->samples * hr__conv_volume(walk.places);
  int64_t fit = BLOCK_BYTES / (int64_t)sizeof(float) / (p.inner < 1 ? 1 : p.inner) / 16 * 16;
  p.block = hr__min(p.rows, fit < BLOCK_LEAST ? BLOCK_LEAST : hr__min(fit, BLOCK_MOST));
  return p;
}

static pass forward_pass(const hr_conv_sizes *s) {
  pass p = pass_of(s, hr__conv_walk(s), s->in, s->out);
  if (hr__conv_is_view(s)) p.view = s->groups * p.inner;
  return p;
}

/* dx of a window that is all of x: [samples, K] x [K, C x kernel], in one pass. */
static pass view_dx_pass(const hr_conv_sizes *s) {
  hr_conv_walk one = hr__conv_places_walk(s);
  pass p = pass_of(s, one, s->out, s->in * hr__conv_volume(s->kernel));
  p.view = s->groups * s->out;
  p.transposed = false;
  return p;
}

static int64_t dx_passes(const hr_conv_sizes *s) {
  return hr__conv_is_view(s) ? 1 : hr__conv_dx_walks(s);
}

static pass dx_pass(const hr_conv_sizes *s, int64_t number) {
  if (hr__conv_is_view(s)) return view_dx_pass(s);
  return pass_of(s, hr__conv_dx_walk(s, number), s->out, s->in);
}

static hr_gemm_spec pass_spec(const pass *p, int64_t rows, hr_dtype dtype) {
  return (hr_gemm_spec){.m = rows,
                        .n = p->columns,
                        .k = p->inner,
                        .lda = p->view ? p->view : p->inner,
                        .ldb = p->transposed ? p->inner : p->columns,
                        .ldc = p->columns,
                        .transpose_b = p->transposed,
                        .a = dtype,
                        .b = dtype,
                        .c = HR_F32};
}

static size_t aligned(size_t bytes) {
  return (bytes + 63) & ~(size_t)63;
}

static slice slice_of(const pass *p, hr_dtype dtype) {
  slice at = {0};
  if (p->rows == 0) return at;
  size_t block = (size_t)p->block, columns = (size_t)p->columns;
  if (!p->view) at.product = aligned(block * (size_t)p->inner * hr_dtype_bytes(dtype));
  at.turned = at.product + aligned(block * columns * sizeof(float));
  at.offsets = at.turned + (p->view ? 0 : aligned(block * columns * sizeof(float)));
  at.scratch = at.offsets + aligned((size_t)p->taps * sizeof(int64_t));
  at.bytes = at.scratch;
  if (p->taps == 0) return at;
  size_t cap = 0;
  hr__product_cap(&cap, pass_spec(p, p->block, dtype), 1);
  if (p->rows % p->block) hr__product_cap(&cap, pass_spec(p, p->rows % p->block, dtype), 1);
  at.bytes += aligned(cap);
  return at;
}

static size_t pass_bytes(const hr_conv_sizes *s, const pass *p, hr_dtype dtype, int threads) {
  if (p->rows == 0) return 0;
  int64_t tasks = hr__chunks(p->rows, p->block) * s->groups, workers = hr__min(threads < 1 ? 1 : threads, tasks);
  return (size_t)workers * slice_of(p, dtype).bytes;
}

size_t hr__conv_bytes(const hr_conv_sizes *s, hr_dtype dtype, int threads) {
  if (hr__conv_is_apart(s)) return 0;
  if (hr__conv_is_planes(s)) return hr__conv_planes_bytes(s, dtype, threads);
  pass p = forward_pass(s);
  return pass_bytes(s, &p, dtype, threads);
}

/* Weights of one walk, reordered, in front of what workers have. */
static size_t reordered_bytes(const hr_conv_sizes *s, hr_dtype dtype) {
  return aligned((size_t)(s->groups * s->in * s->out * hr__conv_volume(s->kernel)) * hr_dtype_bytes(dtype));
}

size_t hr__conv_dx_bytes(const hr_conv_sizes *s, hr_dtype dtype, int threads) {
  size_t most = 0;
  if (hr__conv_is_apart(s)) return 0;
  for (int64_t number = 0; number < dx_passes(s); number++) {
    pass p = dx_pass(s, number);
    size_t bytes = pass_bytes(s, &p, dtype, threads);
    if (bytes > most) most = bytes;
  }
  return (hr__conv_is_view(s) ? 0 : reordered_bytes(s, dtype)) + most;
}

static void pass_products(const pass *p, hr_dtype dtype, int threads, hr_gemm_set *set) {
  if (p->rows == 0 || p->taps == 0) return;
  hr_gemm_spec whole = pass_spec(p, p->block, dtype), last = pass_spec(p, p->rows % p->block, dtype);
  hr__gemm_set_add(set, &whole, threads);
  if (last.m > 0) hr__gemm_set_add(set, &last, threads);
}

void hr__conv_products(const hr_conv_sizes *s, hr_dtype dtype, int threads, hr_gemm_set *set) {
  if (hr__conv_is_apart(s)) return;
  if (hr__conv_is_planes(s)) {
    hr__conv_planes_products(s, dtype, threads, set);
    return;
  }
  pass p = forward_pass(s);
  pass_products(&p, dtype, threads, set);
}

void hr__conv_dx_products(const hr_conv_sizes *s, hr_dtype dtype, int threads, hr_gemm_set *set) {
  for (int64_t number = 0; !hr__conv_is_apart(s) && number < dx_passes(s); number++) {
    pass p = dx_pass(s, number);
    pass_products(&p, dtype, threads, set);
  }
}

/* ---- library objects ---- */

void hr__conv_release(void *prepared) {
  hr_conv_made *made = prepared;
  if (!made) return;
  for (int64_t i = 0; i < made->count; i++)
    hr__gemm_destroy(made->of[i]);
  hr__free(made);
}

hr_status hr__conv_made_create(int64_t walks, hr_conv_made **out, hr_error *err) {
  size_t bytes = (size_t)walks * 2 * sizeof(hr_gemm *);
  hr_conv_made *made = hr__alloc_zero(1, sizeof *made + bytes);
  if (!made) return hr__nomem(err);
  made->count = 2 * walks;
  *out = made;
  return HR_OK;
}

static hr_status pass_prepare(const hr_call *call, const pass *p, hr_gemm **of, hr_error *err) {
  hr_dtype dtype = call->in[0].desc.dtype;
  if (p->rows == 0 || p->taps == 0) return HR_OK;
  HR_TRY(hr__product_make(&of[0], pass_spec(p, p->block, dtype), call, err));
  int64_t last = p->rows % p->block;
  return last ? hr__product_make(&of[1], pass_spec(p, last, dtype), call, err) : HR_OK;
}

static hr_conv_sizes forward_sizes(const hr_call *call) {
  return hr__conv_sizes(&call->in[0].desc, &call->in[1].desc, &call->out[0].desc, call->args);
}

static hr_conv_sizes dx_sizes(const hr_call *call) {
  const hr_conv_dx_args *args = call->args;
  return hr__conv_sizes(&call->out[0].desc, &call->in[1].desc, &call->in[0].desc, &args->conv);
}

hr_status hr__conv_prepare(const hr_call *call, void **prepared, hr_error *err) {
  hr_conv_sizes s = forward_sizes(call);
  if (hr__conv_is_apart(&s)) return HR_OK;
  if (hr__conv_is_planes(&s)) return hr__conv_planes_prepare(call, prepared, err);
  pass p = forward_pass(&s);
  hr_conv_made *made = NULL;
  HR_TRY(hr__workspace_check(call, hr__conv_bytes(&s, call->in[0].desc.dtype, call->threads), err));
  HR_TRY(hr__conv_made_create(1, &made, err));
  hr_status status = pass_prepare(call, &p, made->of, err);
  if (status == HR_OK)
    *prepared = made;
  else
    hr__conv_release(made);
  return status;
}

hr_status hr__conv_dx_prepare(const hr_call *call, void **prepared, hr_error *err) {
  hr_conv_sizes s = dx_sizes(call);
  if (hr__conv_is_apart(&s)) return HR_OK;
  int64_t walks = dx_passes(&s);
  hr_conv_made *made = NULL;
  HR_TRY(hr__workspace_check(call, hr__conv_dx_bytes(&s, call->in[0].desc.dtype, call->threads), err));
  HR_TRY(hr__conv_made_create(walks, &made, err));
  hr_status status = HR_OK;
  for (int64_t number = 0; status == HR_OK && number < walks; number++) {
    pass p = dx_pass(&s, number);
    status = pass_prepare(call, &p, made->of + 2 * number, err);
  }
  if (status == HR_OK)
    *prepared = made;
  else
    hr__conv_release(made);
  return status;
}

/* ---- the run of one walk ---- */

typedef struct job {
  const hr_call *call;
  const hr_conv_sizes *sizes;
  const pass *pass;
  hr_gemm *const *of;
  const char *weights; /* [groups, columns, inner] */
  const hr_tensor *bias, *add;
  char *workspace; /* of workers */
  slice slice;
  int failed; /* set by any worker, never cleared */
} job;

static void block_unfold(const job *j, int64_t group, hr_range rows, char *part) {
  const pass *p = j->pass;
  const hr_tensor *source = &j->call->in[0];
  size_t element = hr_dtype_bytes(source->desc.dtype);
  int64_t of_group = p->channels * hr__conv_volume(p->walk.source);
  hr_conv_rows unfolded = {.walk = &p->walk,
                           .from = (const char *)source->data + (size_t)(group * of_group) * element,
                           .channels = p->channels,
                           .apart = j->sizes->groups * of_group,
                           .offsets = (int64_t *)(void *)(part + j->slice.offsets)};
  hr__conv_unfold(&unfolded, rows, element, part + j->slice.unfolded);
}

static hr_status block_multiply(const job *j, int64_t group, hr_range rows, int worker, char *part) {
  const pass *p = j->pass;
  size_t element = hr_dtype_bytes(j->call->in[0].desc.dtype);
  float *product = (float *)(void *)(part + j->slice.product);
  if (p->taps == 0) {
    memset(product, 0, (size_t)((rows.end - rows.first) * p->columns) * sizeof *product);
    return HR_OK;
  }
  const char *a = part + j->slice.unfolded;
  if (p->view)
    a = (const char *)j->call->in[0].data + (size_t)(rows.first * p->view + group * p->inner) * element;
  else
    block_unfold(j, group, rows, part);
  return hr__gemm_run_here(j->of[rows.end - rows.first != p->block], worker, a,
                           j->weights + (size_t)(group * p->columns * p->inner) * element, product,
                           part + j->slice.scratch);
}

static void block_task(void *arg, int64_t task, int worker) {
  job *j = arg;
  const pass *p = j->pass;
  int64_t group = task % j->sizes->groups;
  hr_range rows = hr__chunk(p->rows, p->block, task / j->sizes->groups);
  char *part = j->workspace + (size_t)worker * j->slice.bytes;
  hr_conv_put put = {.bias = j->bias,
                     .add = j->add,
                     .out = &j->call->out[0],
                     .walk = &p->walk,
                     .groups = j->sizes->groups,
                     .columns = p->columns,
                     .flat = p->view || hr__conv_volume(p->walk.to) == 1};
  if (block_multiply(j, group, rows, worker, part) == HR_OK)
    hr__conv_put(&put, group, rows, (float *)(void *)(part + j->slice.product),
                 (float *)(void *)(part + j->slice.turned));
  else
    __atomic_store_n(&j->failed, 1, __ATOMIC_RELAXED);
}

static hr_status job_run(job *j) {
  int64_t tasks = hr__chunks(j->pass->rows, j->pass->block) * j->sizes->groups;
  j->slice = slice_of(j->pass, j->call->in[0].desc.dtype);
  hr__pool_run(j->call->device->pool, (int)hr__min(j->call->threads, tasks), tasks, block_task, j);
  return j->failed ? HR_FAILURE : HR_OK;
}

hr_status hr__conv_run(const hr_call *call) {
  const hr_conv_made *made = call->prepared;
  hr_conv_sizes s = forward_sizes(call);
  if (hr__conv_is_apart(&s)) return hr__conv_apart_run(call);
  if (hr__conv_is_planes(&s)) return hr__conv_planes_run(call);
  pass p = forward_pass(&s);
  job j = {.call = call,
           .sizes = &s,
           .pass = &p,
           .of = made->of,
           .weights = call->in[1].data,
           .bias = &call->in[2],
           .add = &call->in[3],
           .workspace = call->workspace};
  return job_run(&j);
}

/* ---- weights of a walk ---- */

/* Channel `task` of all of x's: its weights [K / groups, taps], out of W [K, C / groups, kernel]. */
static void reorder_task(void *arg, int64_t task, int worker) {
  const job *j = arg;
  const pass *p = j->pass;
  const hr_conv_sizes *s = j->sizes;
  const hr_conv_walk *w = &p->walk;
  int64_t group = task / s->in, channel = task % s->in, kernel = hr__conv_volume(s->kernel);
  size_t element = hr_dtype_bytes(j->call->in[1].desc.dtype);
  const char *from =
      (const char *)j->call->in[1].data + (size_t)((group * s->out * s->in + channel) * kernel) * element;
  /* The kernel as the source of one place, whose taps are the walk's. */
  hr_conv_walk kernel_walk = {0};
  for (int d = 0; d < HR_CONV_AXES; d++) {
    kernel_walk.places[d] = 1;
    kernel_walk.source[d] = s->kernel[d];
    kernel_walk.taps[d] = w->taps[d];
    kernel_walk.first[d] = w->w_first[d];
    kernel_walk.tap[d] = w->w_step[d];
  }
  int64_t *offsets = (int64_t *)(void *)(j->workspace + (size_t)worker * j->slice.bytes + j->slice.offsets);
  hr__conv_taps(&kernel_walk, (const int64_t[HR_CONV_AXES]){0}, offsets);
  char *to = (char *)j->call->workspace + (size_t)(task * p->inner) * element;
  for (int64_t k = 0; k < s->out; k++, from += (size_t)(s->in * kernel) * element)
    for (int64_t t = 0; t < p->taps; t++, to += element)
      memcpy(to, from + (size_t)offsets[t] * element, element);
}

hr_status hr__conv_dx_run(const hr_call *call) {
  const hr_conv_made *made = call->prepared;
  hr_conv_sizes s = dx_sizes(call);
  if (hr__conv_is_apart(&s)) return hr__conv_apart_dx_run(call);
  hr_dtype dtype = call->in[0].desc.dtype;
  for (int64_t number = 0; number < dx_passes(&s); number++) {
    pass p = dx_pass(&s, number);
    if (p.rows == 0) continue;
    job j = {.call = call,
             .sizes = &s,
             .pass = &p,
             .of = made->of + 2 * number,
             .weights = p.view ? call->in[1].data : call->workspace,
             .bias = &(const hr_tensor){0},
             .add = &call->in[2],
             .workspace = (char *)call->workspace + (p.view ? 0 : reordered_bytes(&s, dtype)),
             .slice = slice_of(&p, dtype)};
    int64_t tasks = hr__chunks(p.rows, p.block) * s.groups;
    int workers = (int)hr__min(call->threads, tasks); /* as many as have a part of the workspace */
    if (p.taps > 0 && !p.view) hr__pool_run(call->device->pool, workers, s.groups * s.in, reorder_task, &j);
    HR_TRY(job_run(&j));
  }
  return HR_OK;
}
