/* Attention over a cache; see op/cache.h. */
#include "op/cache.h"

#include <math.h>
#include <string.h>

#include "base/simd_math.h"
#include "op/shapes.h"
#include "op/stream.h"

enum { ATT_Q, ATT_KEYS, ATT_VALUES, ATT_POSITIONS, ATT_COUNTS, ATT_OPERANDS };

hr_id hr__cache_put(hr_builder *b, hr_id keys, hr_id values, hr_id k, hr_id v, hr_id positions, hr_id counts,
                    const hr_cache_args *args) {
  return hr__emit(b, &hr_op_cache_put, (hr_id[]){keys, values, k, v, positions, counts}, HR_PUT_OPERANDS, args);
}

hr_id hr__cache_attention(hr_builder *b, hr_id q, hr_id keys, hr_id values, hr_id positions, hr_id counts,
                          const hr_cache_args *args) {
  return hr__emit(b, &hr_op_cache_attention, (hr_id[]){q, keys, values, positions, counts}, ATT_OPERANDS, args);
}

/* ---- shapes ---- */

static hr_status args_check(const hr_cache_args *args, hr_error *err) {
  if (args->heads < 1 || args->kv_heads < 1 || args->head_dim < 1 || args->heads % args->kv_heads != 0)
    return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "%lld heads do not form %lld groups of head size %lld",
                    (long long)args->heads, (long long)args->kv_heads, (long long)args->head_dim);
  if (args->window < 0)
    return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "a window of %lld keys has no meaning", (long long)args->window);
  return HR_OK;
}

/* The two caches, of one shape, and the counts beside the positions; `x` is an operand of the call's T rows. */
static hr_status caches_check(const hr_op_view *view, int keys, int x, int positions, hr_error *err) {
  const hr_cache_args *args = view->args;
  const hr_desc *cache = &view->in[keys];
  hr_desc numbers = hr__desc1(HR_I32, view->in[x].dim[0]);
  HR_TRY(hr__shape_float(view, keys, err));
  HR_TRY(hr__shape_float(view, x, err));
  HR_TRY(hr__shape_like(view, keys + 1, cache, err));
  if (cache->rank != 3 || view->in[x].rank != 3 || cache->dtype != view->in[x].dtype ||
      cache->dim[0] != view->in[x].dim[0] || cache->dim[2] != args->kv_heads * args->head_dim)
    return hr__fail(err, HR_BAD_INPUT, NULL, NULL,
                    "caches must be [batch, context, %lld heads x %lld] of the batch and the type of what they hold",
                    (long long)args->kv_heads, (long long)args->head_dim);
  HR_TRY(hr__shape_like(view, positions, &numbers, err));
  return hr__shape_like(view, positions + 1, &numbers, err);
}

static int64_t packed_columns(const hr_cache_args *args) {
  return (args->heads + 2 * args->kv_heads) * args->head_dim;
}

static hr_status cache_put_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  const hr_cache_args *args = view->args;
  HR_TRY(hr__shape_operands(view, HR_PUT_OPERANDS, hr_op_cache_put.optional, err));
  HR_TRY(args_check(args, err));
  HR_TRY(caches_check(view, HR_PUT_KEYS, HR_PUT_K, HR_PUT_POSITIONS, err));
  bool packed = view->in[HR_PUT_V].rank == 0;
  int64_t columns = packed ? packed_columns(args) : args->kv_heads * args->head_dim;
  if (view->in[HR_PUT_K].dim[2] != columns)
    return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "%s must have %lld columns", packed ? "q, k and v" : "k",
                    (long long)columns);
  if (!packed) HR_TRY(hr__shape_like(view, HR_PUT_V, &view->in[HR_PUT_K], err));
  out[0] = view->in[HR_PUT_KEYS];
  out[1] = view->in[HR_PUT_VALUES];
  return HR_OK;
}

static hr_status cache_attention_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  const hr_cache_args *args = view->args;
  HR_TRY(hr__shape_operands(view, ATT_OPERANDS, 0, err));
  HR_TRY(args_check(args, err));
  HR_TRY(caches_check(view, ATT_KEYS, ATT_Q, ATT_POSITIONS, err));
  const hr_desc *q = &view->in[ATT_Q];
  if (q->dim[2] != args->heads * args->head_dim && q->dim[2] != packed_columns(args))
    return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "q must have %lld columns, alone or before those of k and v",
                    (long long)(args->heads * args->head_dim));
  out[0] = *q;
  out[0].dim[2] = args->heads * args->head_dim;
  return HR_OK;
}

/* ---- cost: of a cache that is full ---- */

static void cache_put_cost(const hr_op_view *view, hr_cost *cost) {
  hr__cost_stream(view, 0, cost);
  cost->bytes = 4.0 * (double)(view->in[HR_PUT_K].dim[0] * view->in[HR_PUT_K].dim[1] * view->in[HR_PUT_KEYS].dim[2]) *
                (double)hr_dtype_bytes(view->in[HR_PUT_KEYS].dtype);
}

static void cache_attention_cost(const hr_op_view *view, hr_cost *cost) {
  const hr_cache_args *args = view->args;
  const hr_desc *q = &view->in[ATT_Q], *keys = &view->in[ATT_KEYS];
  double seen = (double)(args->window > 0 && args->window < keys->dim[1] ? args->window : keys->dim[1]);
  double rows = (double)(q->dim[0] * q->dim[1] * args->heads);
  hr__cost_stream(view, 4.0 * rows * seen * (double)args->head_dim, cost);
  cost->bytes = 2.0 * seen * (double)(keys->dim[0] * keys->dim[2]) * (double)hr_dtype_bytes(keys->dtype) +
                (double)hr_desc_bytes(&view->out[0]) * 2;
}

/* ---- cache_put on the CPU ---- */

static hr_status cache_put_run(const hr_call *call) {
  const hr_cache_args *args = call->args;
  const hr_tensor *k = &call->in[HR_PUT_K], *v = &call->in[HR_PUT_V];
  const int32_t *positions = call->in[HR_PUT_POSITIONS].data, *counts = call->in[HR_PUT_COUNTS].data;
  bool packed = v->data == NULL;
  int64_t columns = k->desc.dim[2], width = args->kv_heads * args->head_dim, length = k->desc.dim[1];
  int64_t context = call->out[0].desc.dim[1];
  size_t element = hr_dtype_bytes(k->desc.dtype), bytes = (size_t)width * element;
  const char *from[2] = {(const char *)k->data + (packed ? (size_t)(args->heads * args->head_dim) * element : 0), NULL};
  from[1] = packed ? from[0] + bytes : (const char *)v->data;

  for (int i = 0; i < 2; i++) {
    char *to = call->out[i].data;
    if (to != call->in[i].data) memcpy(to, call->in[i].data, hr_desc_bytes(&call->out[i].desc));
    for (int64_t b = 0; b < k->desc.dim[0]; b++) {
      int64_t rows = hr__cache_rows(positions[b], counts[b], length, context);
      for (int64_t t = 0; t < rows; t++)
        memcpy(to + (size_t)(b * context + positions[b] + t) * bytes,
               from[i] + (size_t)((b * length + t) * columns) * element, bytes);
    }
  }
  return HR_OK;
}

/* ---- cache_attention on the CPU: a task for some queries of one group of heads ---- */

enum {
  QUERIES = 16, /* positions of a task */
  KEYS = 128,   /* of a block, which begins at a multiple of it */
  LANES = 16    /* sums have as many, whatever the processor: rows of scratch are as many floats or a multiple */
};

/* Scratch of a worker: keys and values of a block, and for each row its query, result, scores, largest score and sum.
 * Heads are `width` floats there, with zeros behind their own. */
typedef struct scratch {
  float *keys, *values, *q, *y, *scores, *most, *sum;
  int64_t width;
} scratch;

static int64_t scratch_width(const hr_cache_args *args) {
  return hr__chunks(args->head_dim, LANES) * LANES;
}

static size_t worker_floats(const hr_cache_args *args) {
  size_t rows = (size_t)(args->heads / args->kv_heads) * QUERIES, width = (size_t)scratch_width(args);
  return 2 * KEYS * width + rows * (2 * width + KEYS + 2);
}

static scratch scratch_of(const hr_call *call, int worker) {
  const hr_cache_args *args = call->args;
  size_t rows = (size_t)(args->heads / args->kv_heads) * QUERIES, width = (size_t)scratch_width(args);
  scratch s = {.keys = (float *)call->workspace + (size_t)worker * worker_floats(args), .width = (int64_t)width};
  s.values = s.keys + KEYS * width;
  s.q = s.values + KEYS * width;
  s.y = s.q + rows * width;
  s.scores = s.y + rows * width;
  s.most = s.scores + rows * KEYS;
  s.sum = s.most + rows;
  return s;
}

/* One head of a row, times `factor`. */
HR_INLINE void head_load(const hr_tensor *from, int64_t at, int64_t d, float factor, int64_t width, float *to) {
  const float *row = hr__load(from, at, d, to);
  for (int64_t i = 0; i < d; i++)
    to[i] = row[i] * factor;
  for (int64_t i = d; i < width; i++)
    to[i] = 0.0f;
}

/* Rows [first, first + n) of one head of a cache. */
HR_INLINE void block_load(const hr_tensor *cache, int64_t sample, int64_t first, int64_t n, int64_t column, int64_t d,
                          int64_t width, float *to) {
  for (int64_t j = 0; j < n; j++, to += width)
    head_load(cache, (sample * cache->desc.dim[1] + first + j) * cache->desc.dim[2] + column, d, 1.0f, width, to);
}

HR_INLINE float lanes_sum(const float lane[LANES]) {
  float half[LANES / 2], sum = 0.0f;
  for (int i = 0; i < LANES / 2; i++)
    half[i] = lane[i] + lane[i + LANES / 2];
  for (int i = 0; i < LANES / 2; i++)
    sum += half[i];
  return sum;
}

HR_INLINE float dot_product(const float *a, const float *b, int64_t width) {
  float lane[LANES] = {0};
  for (int64_t i = 0; i < width; i += LANES)
    for (int l = 0; l < LANES; l++)
      lane[l] += a[i + l] * b[i + l];
  return lanes_sum(lane);
}

/* Scores of keys [first, end), whole lanes of them, become weights; returns their sum. */
HR_INLINE float weights_make(float *scores, int64_t first, int64_t end, float most) {
  float lane[LANES] = {0};
  for (int64_t j = first; j < end; j += LANES)
    for (int l = 0; l < LANES; l++) {
      scores[j + l] = hr__expf(scores[j + l] - most);
      lane[l] += scores[j + l];
    }
  return lanes_sum(lane);
}

/* One row goes on over keys [from, end) of the block. */
HR_INLINE void row_advance(const scratch *s, int64_t row, int64_t from, int64_t end) {
  int64_t width = s->width, first = from / LANES * LANES, last = hr__chunks(end, LANES) * LANES;
  float *y = s->y + row * width, *scores = s->scores + row * KEYS, most = s->most[row];
  for (int64_t j = first; j < last; j++) {
    bool seen = j >= from && j < end;
    scores[j] = seen ? dot_product(s->q + row * width, s->keys + j * width, width) : -INFINITY;
    most = scores[j] > most ? scores[j] : most;
  }
  float keep = hr__expf(s->most[row] - most);
  s->sum[row] = s->sum[row] * keep + weights_make(scores, first, last, most);
  s->most[row] = most;
  for (int64_t i = 0; i < width; i++)
    y[i] *= keep;
  for (int64_t j = from; j < end; j++) {
    const float *value = s->values + j * width;
    float weight = scores[j];
    for (int64_t i = 0; i < width; i++)
      y[i] += weight * value[i];
  }
}

HR_INLINE int64_t first_seen(const hr_cache_args *args, int64_t position) {
  return args->window > 0 && position + 1 > args->window ? position + 1 - args->window : 0;
}

typedef struct part {
  int64_t sample, group, first, count; /* queries [first, first + count) of the call, of which `there` are there */
  int64_t there, position;             /* of the first of them */
} part;

static void queries_load(const hr_call *call, const part *p, const scratch *s) {
  const hr_cache_args *args = call->args;
  const hr_tensor *q = &call->in[ATT_Q];
  int64_t d = args->head_dim, heads = args->heads / args->kv_heads;
  for (int64_t h = 0; h < heads; h++)
    for (int64_t t = 0; t < p->there; t++) {
      int64_t row = h * p->there + t;
      int64_t at = (p->sample * q->desc.dim[1] + p->first + t) * q->desc.dim[2] + (p->group * heads + h) * d;
      head_load(q, at, d, args->scale, s->width, s->q + row * s->width);
      memset(s->y + row * s->width, 0, (size_t)s->width * sizeof(float));
      s->most[row] = -INFINITY;
      s->sum[row] = 0.0f;
    }
}

static void results_store(const hr_call *call, const part *p, const scratch *s) {
  const hr_cache_args *args = call->args;
  const hr_tensor *y = &call->out[0];
  int64_t d = args->head_dim, heads = args->heads / args->kv_heads;
  for (int64_t h = 0; h < heads; h++)
    for (int64_t t = 0; t < p->count; t++) {
      int64_t at = (p->sample * y->desc.dim[1] + p->first + t) * y->desc.dim[2] + (p->group * heads + h) * d;
      int64_t row = h * p->there + t;
      bool there = t < p->there;
      float *from = there ? s->y + row * s->width : s->keys, *to = hr__target(y, at, from);
      for (int64_t i = 0; i < d; i++)
        to[i] = there ? from[i] / s->sum[row] : 0.0f;
      hr__store(y, at, d, to);
    }
}

HR_CLONES static void cache_attention_task(void *arg, int64_t task, int worker) {
  const hr_call *call = arg;
  const hr_cache_args *args = call->args;
  const hr_tensor *keys = &call->in[ATT_KEYS], *values = &call->in[ATT_VALUES];
  int64_t length = call->in[ATT_Q].desc.dim[1], panels = hr__chunks(length, QUERIES), d = args->head_dim;
  int64_t pair = task / panels, context = keys->desc.dim[1], heads = args->heads / args->kv_heads;
  hr_range queries = hr__chunk(length, QUERIES, task % panels);
  part p = {.sample = pair / args->kv_heads, .group = pair % args->kv_heads, .first = queries.first};
  int64_t start = ((const int32_t *)call->in[ATT_POSITIONS].data)[p.sample];
  int64_t rows = hr__cache_rows(start, ((const int32_t *)call->in[ATT_COUNTS].data)[p.sample], length, context);
  p.count = queries.end - queries.first;
  p.there = rows <= p.first ? 0 : hr__min(p.count, rows - p.first);
  p.position = start + p.first;
  scratch s = scratch_of(call, worker);

  queries_load(call, &p, &s);
  int64_t end = p.position + p.there, block = first_seen(args, p.position) / KEYS * KEYS;
  for (; p.there > 0 && block < end; block += KEYS) {
    int64_t n = hr__min(KEYS, end - block);
    block_load(keys, p.sample, block, n, p.group * d, d, s.width, s.keys);
    block_load(values, p.sample, block, n, p.group * d, d, s.width, s.values);
    for (int64_t h = 0; h < heads; h++)
      for (int64_t t = 0; t < p.there; t++) {
        int64_t from = first_seen(args, p.position + t) - block, to = hr__min(p.position + t + 1 - block, n);
        if (from < 0) from = 0;
        if (from < to) row_advance(&s, h * p.there + t, from, to);
      }
  }
  results_store(call, &p, &s);
}

static hr_status cache_attention_run(const hr_call *call) {
  const hr_cache_args *args = call->args;
  const hr_desc *q = &call->in[ATT_Q].desc;
  int64_t tasks = q->dim[0] * args->kv_heads * hr__chunks(q->dim[1], QUERIES);
  hr__pool_run(call->device->pool, call->threads, tasks, cache_attention_task, (void *)(uintptr_t)call);
  return HR_OK;
}

/* On CUDA: what each part of the keys makes of a row, to be joined (op/cache.cu). */
static size_t cache_attention_workspace(const hr_op_view *view, hr_device_kind kind, int threads) {
  const hr_cache_args *args = view->args;
  const hr_desc *q = &view->in[ATT_Q];
  if (kind == HR_CPU) return (size_t)threads * worker_floats(args) * sizeof(float);
  int64_t parts = hr__cache_parts(q->dim[1], view->in[ATT_KEYS].dim[1]);
  if (parts == 1) return 0;
  return (size_t)(q->dim[0] * q->dim[1] * args->heads * parts * (args->head_dim + 2)) * sizeof(float);
}

/* ---- samples ---- */

#define NUMBERS(batch)                                                                                                 \
  {HR_I32, 1, {batch}}, {                                                                                              \
    HR_I32, 1, {                                                                                                       \
      batch                                                                                                            \
    }                                                                                                                  \
  }

static const hr_sample cache_put_samples[] = {
    {.n_in = HR_PUT_OPERANDS,
     .in = {{HR_F32, 3, {2, 24, 32}},
            {HR_F32, 3, {2, 24, 32}},
            {HR_F32, 3, {2, 5, 32}},
            {HR_F32, 3, {2, 5, 32}},
            NUMBERS(2)},
     .args = &(const hr_cache_args){.heads = 4, .kv_heads = 2, .head_dim = 16},
     .index_below = 7},
    {.n_in = HR_PUT_OPERANDS,
     .in = {{HR_F32, 3, {3, 9, 18}}, {HR_F32, 3, {3, 9, 18}}, {HR_F32, 3, {3, 4, 72}}, {0}, NUMBERS(3)},
     .args = &(const hr_cache_args){.heads = 4, .kv_heads = 2, .head_dim = 9},
     .index_below = 12},
    {.n_in = HR_PUT_OPERANDS,
     .in = {{HR_F32, 3, {2, 300, 64}}, {HR_F32, 3, {2, 300, 64}}, {HR_F32, 3, {2, 1, 384}}, {0}, NUMBERS(2)},
     .args = &(const hr_cache_args){.heads = 4, .kv_heads = 1, .head_dim = 64},
     .index_below = 200},
};

static const hr_sample cache_attention_samples[] = {
    {.n_in = ATT_OPERANDS, /* as one token is generated */
     .in = {{HR_F32, 3, {3, 1, 384}}, {HR_F32, 3, {3, 700, 64}}, {HR_F32, 3, {3, 700, 64}}, NUMBERS(3)},
     .args = &(const hr_cache_args){.heads = 4, .kv_heads = 1, .head_dim = 64, .scale = 0.125f},
     .index_below = 690},
    {.n_in = ATT_OPERANDS, /* a prompt, in a window */
     .in = {{HR_F32, 3, {2, 21, 64}}, {HR_F32, 3, {2, 290, 32}}, {HR_F32, 3, {2, 290, 32}}, NUMBERS(2)},
     .args = &(const hr_cache_args){.heads = 4, .kv_heads = 2, .head_dim = 16, .scale = 0.25f, .window = 19},
     .index_below = 270},
    {.n_in = ATT_OPERANDS,
     .in = {{HR_F32, 3, {2, 5, 30}}, {HR_F32, 3, {2, 9, 10}}, {HR_F32, 3, {2, 9, 10}}, NUMBERS(2)},
     .args = &(const hr_cache_args){.heads = 3, .kv_heads = 1, .head_dim = 10, .scale = 0.3f},
     .index_below = 12},
    {.n_in = ATT_OPERANDS,
     .in = {{HR_F32, 3, {2, 40, 256}}, {HR_F32, 3, {2, 64, 256}}, {HR_F32, 3, {2, 64, 256}}, NUMBERS(2)},
     .args = &(const hr_cache_args){.heads = 2, .kv_heads = 2, .head_dim = 128, .scale = 0.0883883f},
     .index_below = 50},
};

const hr_op hr_op_cache_put = {
    .name = "cache_put",
    .n_in = HR_PUT_OPERANDS,
    .n_out = 2,
    .optional = 1u << HR_PUT_V,
    .effect = true,
    .args_bytes = sizeof(hr_cache_args),
    .computes = 1u << HR_PUT_K | 1u << HR_PUT_V,
    .alias = {{HR_PUT_KEYS, 0, HR_ALIAS_MUST}, {HR_PUT_VALUES, 1, HR_ALIAS_MUST}},
    .n_alias = 2,
    .axes = HR_AXES_NONE, /* caches persist for all samples together */
    .typed_by = HR_PUT_K,
    .dtypes = {[HR_CPU] = HR_FLOATS, [HR_CUDA] = HR_FLOATS},
    .shape = cache_put_shape,
    .cost = cache_put_cost,
    .cpu = {.run = cache_put_run},
    .samples = cache_put_samples,
    .n_samples = sizeof cache_put_samples / sizeof *cache_put_samples,
};

const hr_op hr_op_cache_attention = {
    .name = "cache_attention",
    .n_in = ATT_OPERANDS,
    .n_out = 1,
    .args_bytes = sizeof(hr_cache_args),
    .computes = 1u << ATT_Q,
    .axes = HR_AXES_NONE,
    .typed_by = ATT_Q,
    .dtypes = {[HR_CPU] = HR_FLOATS, [HR_CUDA] = HR_FLOATS},
    .shape = cache_attention_shape,
    .cost = cache_attention_cost,
    .workspace = cache_attention_workspace,
    .cpu = {.run = cache_attention_run},
    .samples = cache_attention_samples,
    .n_samples = sizeof cache_attention_samples / sizeof *cache_attention_samples,
};
