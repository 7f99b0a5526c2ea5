/* conv on the CPU over maps that are large: y of a sample lies as [K, places], and so does the product of the weights
 * [K, inner] with what places read, [inner, places], a block of places at a time. Its rows are stretches of rows of x,
 * copied whole where the stride is 1; a kernel of one element needs no copy at all. So nothing is turned around, as it
 * is where rows are places (op/conv_kernel.c), which serves small maps: many samples share one reading of the weights.
 *
 * A block is one task, its size a matter of the shape of one sample: results depend neither on threads nor on other
 * samples.
 */
#include <string.h>

#include "op/conv_parts.h"
#include "op/stream.h"

enum {
  PLACES_LEAST = 128,       /* of a map that is large */
  BLOCK_BYTES = 512 * 1024, /* of unfolded places in f32: they stay in the second-level cache */
  BLOCK_LEAST = 64,
  BLOCK_MOST = 512,
  GRAIN = 16 /* places: whole vectors */
};

typedef struct plan {
  hr_conv_sizes s;
  int64_t taps, inner, places, block, blocks;
  bool direct; /* what places read lies in x as the product takes it */
} plan;

/* Where a worker's part of the workspace keeps things, in bytes from its start. */
typedef struct slice {
  size_t product, scratch, bytes;
} slice;

bool hr__conv_is_planes(const hr_conv_sizes *s) {
  return !hr__conv_is_apart(s) && !hr__conv_is_view(s) && hr__conv_volume(s->y) >= PLACES_LEAST;
}

static plan plan_of(const hr_conv_sizes *s) {
  plan p = {.s = *s, .taps = hr__conv_volume(s->kernel), .places = hr__conv_volume(s->y)};
  p.inner = s->in * p.taps;
  p.direct = p.taps == 1;
  for (int d = 0; d < HR_CONV_AXES; d++)
    p.direct = p.direct && s->stride[d] == 1 && s->padding[d] == 0;
  int64_t fit = BLOCK_BYTES / (int64_t)sizeof(float) / p.inner / GRAIN * GRAIN;
  p.block = hr__min(p.places, fit < BLOCK_LEAST ? BLOCK_LEAST : hr__min(fit, BLOCK_MOST));
  p.blocks = hr__chunks(p.places, p.block);
  return p;
}

static hr_gemm_spec block_spec(const plan *p, int64_t places, hr_dtype dtype) {
  return (hr_gemm_spec){.m = p->s.out,
                        .n = places,
                        .k = p->inner,
                        .lda = p->inner,
                        .ldb = p->direct ? p->places : places,
                        .ldc = places,
                        .a = dtype,
                        .b = dtype,
                        .c = HR_F32};
}

static size_t aligned(size_t bytes) {
  return (bytes + 63) & ~(size_t)63;
}

static slice slice_of(const plan *p, hr_dtype dtype) {
  slice at = {0};
  size_t cap = 0;
  if (!p->direct) at.product = aligned((size_t)(p->inner * p->block) * hr_dtype_bytes(dtype));
  at.scratch = at.product + aligned((size_t)(p->s.out * p->block) * sizeof(float));
  hr__product_cap(&cap, block_spec(p, p->block, dtype), 1);
  if (p->places % p->block) hr__product_cap(&cap, block_spec(p, p->places % p->block, dtype), 1);
  at.bytes = at.scratch + aligned(cap);
  return at;
}

static int64_t tasks_of(const plan *p) {
  return p->s.samples * p->s.groups * p->blocks;
}

size_t hr__conv_planes_bytes(const hr_conv_sizes *s, hr_dtype dtype, int threads) {
  plan p = plan_of(s);
  int64_t workers = hr__min(threads < 1 ? 1 : threads, tasks_of(&p));
  return (size_t)workers * slice_of(&p, dtype).bytes;
}

void hr__conv_planes_products(const hr_conv_sizes *s, hr_dtype dtype, int threads, hr_gemm_set *set) {
  plan p = plan_of(s);
  hr_gemm_spec whole = block_spec(&p, p.block, dtype), last = block_spec(&p, p.places % p.block, dtype);
  hr__gemm_set_add(set, &whole, threads);
  if (last.n > 0) hr__gemm_set_add(set, &last, threads);
}

static hr_conv_sizes call_sizes(const hr_call *call) {
  return hr__conv_sizes(&call->in[0].desc, &call->in[1].desc, &call->out[0].desc, call->args);
}

hr_status hr__conv_planes_prepare(const hr_call *call, void **prepared, hr_error *err) {
  hr_conv_sizes s = call_sizes(call);
  plan p = plan_of(&s);
  hr_dtype dtype = call->in[0].desc.dtype;
  int64_t last = p.places % p.block;
  HR_TRY(hr__workspace_check(call, hr__conv_planes_bytes(&s, dtype, call->threads), err));
  hr_conv_made *made;
  HR_TRY(hr__conv_made_create(1, &made, err));
  hr_status status = hr__product_make(&made->of[0], block_spec(&p, p.block, dtype), call, err);
  if (status == HR_OK && last) status = hr__product_make(&made->of[1], block_spec(&p, last, dtype), call, err);
  if (status == HR_OK)
    *prepared = made;
  else
    hr__conv_release(made);
  return status;
}

/* ---- what places read ---- */

/* Elements of 4 or 2 bytes that lie `stride` apart, one behind another. */
HR_INLINE void elements_take(const char *from, int64_t stride, int64_t n, size_t element, char *to) {
  if (stride == 1) {
    memcpy(to, from, (size_t)n * element);
  } else if (element == sizeof(uint32_t)) {
    for (int64_t i = 0; i < n; i++)
      ((uint32_t *)(void *)to)[i] = ((const uint32_t *)(const void *)from)[i * stride];
  } else {
    for (int64_t i = 0; i < n; i++)
      ((uint16_t *)(void *)to)[i] = ((const uint16_t *)(const void *)from)[i * stride];
  }
}

/* Windows [first, first + n) of one row of y: what `tap` reads of a row of x, 0 beyond its ends. */
HR_INLINE void stretch_unfold(const hr_conv_sizes *s, const char *row, int64_t tap, int64_t first, int64_t n,
                              size_t element, char *to) {
  int64_t stride = s->stride[2], from = first * stride + tap * s->dilation[2] - s->padding[2];
  int64_t before = from < 0 ? hr__min(n, (-from + stride - 1) / stride) : 0, room = s->x[2] - from;
  int64_t end = room <= 0 ? before : hr__min(n, (room + stride - 1) / stride);
  if (end < before) end = before;
  memset(to, 0, (size_t)before * element);
  if (end > before)
    elements_take(row + (size_t)(from + before * stride) * element, stride, end - before, element,
                  to + (size_t)before * element);
  memset(to + (size_t)end * element, 0, (size_t)(n - end) * element);
}

/* Places [range) of a sample, of which channels begin at `x`: to [inner, places]. */
HR_CLONES static void block_unfold(const plan *p, const char *x, hr_range range, size_t element, char *to) {
  const hr_conv_sizes *s = &p->s;
  int64_t n = range.end - range.first, plane = hr__conv_volume(s->x);
  for (int64_t done = 0; done < n;) {
    int64_t at = range.first + done, window = at % s->y[2], row = at / s->y[2];
    int64_t along = row / s->y[1] * s->stride[0] - s->padding[0], across = row % s->y[1] * s->stride[1] - s->padding[1];
    int64_t count = hr__min(n - done, s->y[2] - window);
    char *place = to + (size_t)done * element;
    for (int64_t channel = 0; channel < s->in; channel++)
      for (int64_t a = 0; a < s->kernel[0]; a++)
        for (int64_t b = 0; b < s->kernel[1]; b++) {
          int64_t i = along + a * s->dilation[0], k = across + b * s->dilation[1];
          bool inside = i >= 0 && i < s->x[0] && k >= 0 && k < s->x[1];
          const char *line = inside ? x + (size_t)(channel * plane + (i * s->x[1] + k) * s->x[2]) * element : NULL;
          for (int64_t tap = 0; tap < s->kernel[2]; tap++, place += (size_t)n * element) {
            if (inside)
              stretch_unfold(s, line, tap, window, count, element, place);
            else
              memset(place, 0, (size_t)count * element);
          }
        }
    done += count;
  }
}

/* ---- the run ---- */

typedef struct job {
  const hr_call *call;
  const plan *plan;
  slice at;
  int failed; /* set by any worker, never cleared */
} job;

/* Row `channel` of a product, with bias and what is added, to its places in y. */
HR_CLONES static void row_put(const hr_call *call, int64_t channel, int64_t at, int64_t n, const float *product) {
  const hr_tensor *bias = &call->in[2], *add = &call->in[3], *y = &call->out[0];
  float one[1], before_block[HR_BLOCK], made[HR_BLOCK];
  float shift = bias->data ? hr__load(bias, channel, 1, one)[0] : 0.0f;
  const float *before = add->data ? hr__load(add, at, n, before_block) : NULL;
  float *to = hr__target(y, at, made);
  if (before) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
      to[i] = product[i] + shift + before[i];
  } else {
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
      to[i] = product[i] + shift;
  }
  hr__store(y, at, n, to);
}

static void block_task(void *arg, int64_t task, int worker) {
  job *j = arg;
  const plan *p = j->plan;
  const hr_conv_sizes *s = &p->s;
  const hr_conv_made *made = j->call->prepared;
  size_t element = hr_dtype_bytes(j->call->in[0].desc.dtype);
  int64_t group = task / p->blocks % s->groups, sample = task / p->blocks / s->groups;
  hr_range range = hr__chunk(p->places, p->block, task % p->blocks);
  int64_t n = range.end - range.first, first = sample * s->groups + group;
  char *part = (char *)j->call->workspace + (size_t)worker * j->at.bytes;
  float *product = (float *)(void *)(part + j->at.product);
  const char *x = (const char *)j->call->in[0].data + (size_t)(first * s->in * hr__conv_volume(s->x)) * element;
  const char *w = (const char *)j->call->in[1].data + (size_t)(group * s->out * p->inner) * element;
  if (!p->direct) block_unfold(p, x, range, element, part);
  const void *reads = p->direct ? x + (size_t)range.first * element : part;
  if (hr__gemm_run_here(made->of[n != p->block], worker, w, reads, product, part + j->at.scratch) != HR_OK) {
    __atomic_store_n(&j->failed, 1, __ATOMIC_RELAXED);
    return;
  }
  for (int64_t k = 0; k < s->out; k++)
    row_put(j->call, group * s->out + k, (first * s->out + k) * p->places + range.first, n, product + k * n);
}

hr_status hr__conv_planes_run(const hr_call *call) {
  hr_conv_sizes s = call_sizes(call);
  plan p = plan_of(&s);
  job j = {.call = call, .plan = &p, .at = slice_of(&p, call->in[0].desc.dtype)};
  int64_t tasks = tasks_of(&p);
  hr__pool_run(call->device->pool, (int)hr__min(call->threads, tasks), tasks, block_task, &j);
  return j.failed ? HR_FAILURE : HR_OK;
}
