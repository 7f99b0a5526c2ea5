/* The kernels of attention; see op/attention_parts.h for the words.
 *
 * Forward: one task per (batch, group, panel); the softmax is online (running maximum and sum per row). Backward: one
 * task per (batch, group), which owns dk and dv of the group and sums them in f32, panel after panel. Which task runs
 * where changes no bit.
 */
#include <math.h>
#include <string.h>

#include "base/simd_math.h"
#include "dev/cpu/matrix.h"
#include "op/attention_drop.h"
#include "op/attention_parts.h"

enum { LANES = 16 }; /* elements of the widest vector */

/* What one task works on. */
typedef struct work {
  const hr_attention_plan *plan;
  int64_t batch, group;
  int64_t end;           /* positions of the sequence that are there */
  const int32_t *starts; /* of the document of each position; NULL: there is one */
  uint32_t limit;        /* of dropout; 0: nothing is dropped */
  uint64_t mask_key, sample;
  int worker;
  float *base; /* the worker's workspace */
  bool failed;
} work;

typedef struct job {
  const hr_call *call;
  int failed; /* set by any task, never cleared */
} job;

/* The operand before the last holds lengths, or starts. */
static const int32_t *bounds_of(const hr_call *call, bool documents) {
  const hr_attention_args *args = call->args;
  return args->documents == documents ? call->in[call->n_in - 2].data : NULL;
}

static int64_t sequence_end(const hr_call *call, int64_t length, int64_t batch) {
  const int32_t *lengths = bounds_of(call, false);
  if (!lengths) return length;
  return lengths[batch] < 0 ? 0 : hr__min(lengths[batch], length);
}

static const int32_t *sequence_starts(const hr_call *call, int64_t length, int64_t batch) {
  const int32_t *starts = bounds_of(call, true);
  return starts ? starts + batch * length : NULL;
}

static work work_of(const job *j, int64_t pair, int worker) {
  const hr_attention_plan *plan = j->call->prepared;
  const hr_attention_args *args = j->call->args;
  work w = {.plan = plan,
            .batch = pair / plan->cuts.groups,
            .group = pair % plan->cuts.groups,
            .end = sequence_end(j->call, plan->cuts.length, pair / plan->cuts.groups),
            .starts = sequence_starts(j->call, plan->cuts.length, pair / plan->cuts.groups),
            .limit = hr__drop_limit(args->dropout),
            .worker = worker,
            .base = (float *)j->call->workspace + (size_t)worker * plan->layout.floats};
  if (w.limit > 0) {
    const hr_control *control = j->call->in[j->call->n_in - 1].data;
    w.mask_key = hr__dropout_key(control->seed, j->call->stream_key, control->step, args->use);
    w.sample = control->sample + (uint64_t)(args->first + w.batch);
  }
  return w;
}

static void multiply(work *w, int product, const hr_attention_panel *p, int64_t width, const float *a, const float *b,
                     float *c) {
  const hr_gemm *gemm = w->plan->products[product][p->last][hr__attention_width_kind(width)];
  if (hr__gemm_run_here(gemm, w->worker, a, b, c, w->base + w->plan->layout.gemm) != HR_OK) w->failed = true;
}

/* Element offset of (batch, position, head) in the tensor that the heads lie in. */
HR_INLINE int64_t row_offset(const hr_attention_cuts *c, hr_attention_heads in, int64_t batch, int64_t position,
                             int64_t head) {
  return (batch * c->length + position) * in.tensor->desc.dim[2] + in.first + head * c->dim;
}

/* A tensor that holds nothing but heads: y and dy. */
HR_INLINE hr_attention_heads heads_alone(const hr_tensor *tensor) {
  return (hr_attention_heads){tensor, 0};
}

/* Panel of q or dy, times `factor`; zeros for positions that are not there. */
HR_CLONES static void panel_load(const work *w, const hr_attention_panel *p, hr_attention_heads from, float factor,
                                 float *to) {
  const hr_attention_cuts *c = &w->plan->cuts;
  for (int64_t h = 0; h < c->group_heads; h++)
    for (int64_t t = 0; t < p->count; t++, to += c->dim) {
      if (p->first + t >= w->end) {
        memset(to, 0, (size_t)c->dim * sizeof *to);
        continue;
      }
      int64_t at = row_offset(c, from, w->batch, p->first + t, w->group * c->group_heads + h);
      const float *row = hr__load(from.tensor, at, c->dim, to);
      for (int64_t i = 0; i < c->dim; i++)
        to[i] = row[i] * factor;
    }
}

/* Panel into y or dq, row r times factor[r] * scale (factor NULL: 1). */
HR_CLONES static void panel_store(const work *w, const hr_attention_panel *p, float *from, const float *factor,
                                  float scale, hr_attention_heads to) {
  const hr_attention_cuts *c = &w->plan->cuts;
  for (int64_t h = 0, r = 0; h < c->group_heads; h++)
    for (int64_t t = 0; t < p->count; t++, r++, from += c->dim) {
      int64_t at = row_offset(c, to, w->batch, p->first + t, w->group * c->group_heads + h);
      float *row = hr__target(to.tensor, at, from), by = factor ? factor[r] * scale : scale;
      for (int64_t i = 0; i < c->dim; i++)
        row[i] = from[i] * by;
      hr__store(to.tensor, at, c->dim, row);
    }
}

/* Keys or values of the group, positions [first, first + count); zeros for those that are not there. */
HR_CLONES static void strip_load(const work *w, hr_attention_heads from, int64_t first, int64_t count, float *to) {
  const hr_attention_cuts *c = &w->plan->cuts;
  for (int64_t t = 0; t < count; t++, to += c->dim) {
    if (first + t >= w->end) {
      memset(to, 0, (size_t)c->dim * sizeof *to);
      continue;
    }
    const float *row = hr__load(from.tensor, row_offset(c, from, w->batch, first + t, w->group), c->dim, to);
    if (row != to) memcpy(to, row, (size_t)c->dim * sizeof *to);
  }
}

HR_CLONES static void strip_store(const work *w, float *from, int64_t first, int64_t count, hr_attention_heads to) {
  const hr_attention_cuts *c = &w->plan->cuts;
  for (int64_t t = 0; t < count; t++, from += c->dim) {
    int64_t at = row_offset(c, to, w->batch, first + t, w->group);
    float *row = hr__target(to.tensor, at, from);
    if (row != from) memcpy(row, from, (size_t)c->dim * sizeof *row);
    hr__store(to.tensor, at, c->dim, row);
  }
}

/* The strip that the first key lies in that some query of a panel sees: its first query looks back farthest. */
HR_INLINE int64_t keys_begin(const work *w, const hr_attention_panel *p) {
  int64_t begin = w->starts ? w->starts[p->first] / HR_STRIP * HR_STRIP : 0;
  return begin > p->first_key ? begin : p->first_key;
}

/* Where the keys end that some query of a panel sees. */
HR_INLINE int64_t keys_end(const work *w, const hr_attention_panel *p) {
  return p->first < w->end ? hr__min(p->keys, w->end) : 0;
}

/* Keys of the strip [key, key + width) that the query at `position` sees, counted from `key`; end is 0 where it sees
 * none. */
HR_INLINE hr_range visible(const work *w, int64_t position, int64_t key, int64_t width) {
  const hr_attention_cuts *c = &w->plan->cuts;
  int64_t first = c->window > 0 ? position + 1 - c->window - key : 0;
  int64_t end = hr__min((c->bidirectional ? w->end : position + 1) - key, width);
  if (first < 0) first = 0;
  if (w->starts && w->starts[position] - key > first) first = w->starts[position] - key;
  return position < w->end && first < end ? (hr_range){first, end} : (hr_range){0, 0};
}

/* Makes keys before the visible ones invisible, and those behind up to whole vectors (rows of scores have room for
 * them, but for an odd width at the end of T): a scalar remainder in every row would take longer than the rest. Where
 * they end now. */
HR_INLINE int64_t row_mask(float *row, hr_range seen, int64_t width) {
  int64_t rounded = hr__min(hr__chunks(seen.end, LANES) * LANES, width);
  for (int64_t i = 0; i < seen.first; i++)
    row[i] = -INFINITY;
  for (int64_t i = seen.end; i < rounded; i++)
    row[i] = -INFINITY;
  return rounded;
}

HR_INLINE float row_max(const float *x, int64_t n, float most) {
  float lane[LANES];
  int64_t i = 0;
  for (int j = 0; j < LANES; j++)
    lane[j] = most;
  for (; i + LANES <= n; i += LANES)
#pragma omp simd
    for (int j = 0; j < LANES; j++)
      lane[j] = x[i + j] > lane[j] ? x[i + j] : lane[j];
  for (; i < n; i++)
    lane[0] = x[i] > lane[0] ? x[i] : lane[0];
  for (int half = LANES / 2; half > 0; half /= 2)
    for (int j = 0; j < half; j++)
      lane[j] = lane[j + half] > lane[j] ? lane[j + half] : lane[j];
  return lane[0];
}

/* What dropout multiplies the weights of a row by: factor[i] is that of key + i, for i in [first, end). `key` is a
 * multiple of HR_DROP_KEYS, and there is room up to the next one behind `end`. */
HR_INLINE void row_draw(const work *w, const hr_attention_panel *p, int64_t row, int64_t key, int64_t first,
                        int64_t end, float *factor) {
  const hr_attention_cuts *c = &w->plan->cuts;
  uint64_t head = hr__drop_head(w->sample, c->heads, w->group * c->group_heads + row / p->count);
  uint32_t query = (uint32_t)(p->first + row % p->count), block = (uint32_t)(key / HR_DROP_KEYS);
  uint32_t words[HR_STRIP / 4];
  int64_t begin = first / HR_DROP_KEYS;
  for (int64_t i = begin; i * HR_DROP_KEYS < end; i++)
    hr__drop_draw(w->mask_key, head, query, block + (uint32_t)i, words + 4 * i);
  float scale = hr__drop_scale(w->limit);
  for (int64_t i = begin * (HR_DROP_KEYS / 4); i * 4 < end; i++)
#pragma omp simd
    for (int byte = 0; byte < 4; byte++)
      factor[4 * i + byte] = (words[i] >> 8 * byte & 255) >= w->limit ? scale : 0.0f;
}

/* Scores of a strip become weights exp(score - maximum); sums and the result so far follow a raised maximum. */
HR_CLONES static void softmax_step(const work *w, const hr_attention_panel *p, int64_t key, int64_t width,
                                   float *scores, float *maximum, float *sum, float *out) {
  const hr_attention_cuts *c = &w->plan->cuts;
  float factor[HR_STRIP];
  for (int64_t r = 0; r < p->rows; r++) {
    float *row = scores + r * width, *result = out + r * c->dim;
    hr_range seen = visible(w, p->first + r % p->count, key, width);
    int64_t n = row_mask(row, seen, width);
    if (seen.end == 0) { /* there may be no maximum yet */
      memset(row, 0, (size_t)width * sizeof *row);
      continue;
    }
    float most = row_max(row, n, maximum[r]), total = 0.0f;
    float keep = hr__expf(maximum[r] - most);
#pragma omp simd reduction(+ : total)
    for (int64_t i = 0; i < n; i++) {
      row[i] = hr__expf(row[i] - most);
      total += row[i];
    }
    if (w->limit > 0) {
      row_draw(w, p, r, key, seen.first, n, factor);
      for (int64_t i = seen.first; i < n; i++)
        row[i] *= factor[i];
    }
    for (int64_t i = n; i < width; i++)
      row[i] = 0.0f;
    if (keep != 1.0f)
      for (int64_t i = 0; i < c->dim; i++)
        result[i] *= keep;
    sum[r] = sum[r] * keep + total;
    maximum[r] = most;
  }
}

/* lse out; the sums become the factors 1 / sum. A row that is not there has no sum, and zeros in both. */
static void lse_store(const work *w, const hr_attention_panel *p, const float *maximum, float *sum, float *lse) {
  const hr_attention_cuts *c = &w->plan->cuts;
  for (int64_t r = 0; r < p->rows; r++) {
    int64_t head = w->group * c->group_heads + r / p->count;
    bool there = p->first + r % p->count < w->end;
    lse[(w->batch * c->heads + head) * c->length + p->first + r % p->count] = there ? maximum[r] + logf(sum[r]) : 0.0f;
    sum[r] = there ? 1.0f / sum[r] : 0.0f;
  }
}

static void attention_task(void *arg, int64_t task, int worker) {
  job *j = arg;
  const hr_call *call = j->call;
  const hr_attention_plan *plan = call->prepared;
  const hr_attention_cuts *c = &plan->cuts;
  const hr_attention_layout *l = &plan->layout;
  work w = work_of(j, task % (c->batch * c->groups), worker);
  /* The last panels see the most keys: they go first, so that the short ones level out the threads. */
  hr_attention_panel p = hr__attention_panel(c, c->panels - 1 - task / (c->batch * c->groups));
  float *maximum = w.base + l->row_a, *sum = w.base + l->row_b, *out = w.base + l->out, *scores = w.base + l->scores;
  hr_attention_heads in[3]; /* q, k, v */

  hr__attention_unpack(c, call->in, in);
  panel_load(&w, &p, in[0], c->scale, w.base + l->panel);
  memset(out, 0, (size_t)(p.rows * c->dim) * sizeof *out);
  for (int64_t r = 0; r < p.rows; r++)
    maximum[r] = -INFINITY, sum[r] = 0.0f;
  for (int64_t key = keys_begin(&w, &p), end = keys_end(&w, &p); key < end; key += HR_STRIP) {
    int64_t width = hr__min(HR_STRIP, p.keys - key);
    strip_load(&w, in[1], key, width, w.base + l->strip_k);
    strip_load(&w, in[2], key, width, w.base + l->strip_v);
    multiply(&w, HR_SCORES, &p, width, w.base + l->panel, w.base + l->strip_k, scores);
    softmax_step(&w, &p, key, width, scores, maximum, sum, out);
    multiply(&w, HR_VALUES, &p, width, scores, w.base + l->strip_v, out);
  }
  lse_store(&w, &p, maximum, sum, call->out[1].data);
  panel_store(&w, &p, out, sum, 1.0f, heads_alone(&call->out[0]));
  if (w.failed) __atomic_store_n(&j->failed, 1, __ATOMIC_RELAXED);
}

static hr_status tasks_run(const hr_call *call, bool backward, hr_task task) {
  const hr_attention_plan *plan = call->prepared;
  int64_t tasks = hr__attention_tasks(&plan->cuts, backward);
  job j = {call, 0};
  hr__pool_run(call->device->pool, (int)hr__min(call->threads, tasks), tasks, task, &j);
  return j.failed ? HR_FAILURE : HR_OK;
}

hr_status hr__attention_run(const hr_call *call) {
  return tasks_run(call, false, attention_task);
}

/* Per row: lse, and delta = dy . y, which is what the softmax's gradient subtracts. */
HR_CLONES static void rows_load(const work *w, const hr_attention_panel *p, const hr_tensor *y, const float *all_lse,
                                const float *panel_dy, float *scratch, float *lse, float *delta) {
  const hr_attention_cuts *c = &w->plan->cuts;
  for (int64_t h = 0, r = 0; h < c->group_heads; h++) {
    int64_t head = w->group * c->group_heads + h;
    for (int64_t t = 0; t < p->count; t++, r++) {
      const float *row = hr__load(y, row_offset(c, heads_alone(y), w->batch, p->first + t, head), c->dim, scratch);
      const float *dy = panel_dy + r * c->dim;
      float dot = 0.0f;
#pragma omp simd reduction(+ : dot)
      for (int64_t i = 0; i < c->dim; i++)
        dot += row[i] * dy[i];
      delta[r] = dot;
      lse[r] = all_lse[(w->batch * c->heads + head) * c->length + p->first + t];
    }
  }
}

/* scores -> weights; products of dy and v -> gradients of the scores. With dropout the weights are those that the
 * values had, and dy v^T is masked as they are. */
HR_CLONES static void softmax_bwd_step(const work *w, const hr_attention_panel *p, int64_t key, int64_t width,
                                       const float *lse, const float *delta, float *scores, float *scores_d) {
  float factor[HR_STRIP];
  for (int64_t r = 0; r < p->rows; r++) {
    float *weight = scores + r * width, *gradient = scores_d + r * width;
    hr_range seen = visible(w, p->first + r % p->count, key, width);
    int64_t n = row_mask(weight, seen, width);
    float shift = lse[r], mean = delta[r];
    if (w->limit > 0) {
      row_draw(w, p, r, key, 0, n, factor);
#pragma omp simd
      for (int64_t i = 0; i < n; i++) {
        float all = hr__expf(weight[i] - shift);
        gradient[i] = all * (gradient[i] * factor[i] - mean);
        weight[i] = all * factor[i];
      }
    } else {
#pragma omp simd
      for (int64_t i = 0; i < n; i++) {
        weight[i] = hr__expf(weight[i] - shift);
        gradient[i] = weight[i] * (gradient[i] - mean);
      }
    }
    for (int64_t i = n; i < width; i++)
      weight[i] = gradient[i] = 0.0f;
  }
}

/* One panel's share of all three gradients. */
static void panel_bwd(work *w, const hr_attention_panel *p, const hr_call *call) {
  const hr_attention_cuts *c = &w->plan->cuts;
  const hr_attention_layout *l = &w->plan->layout;
  float *q = w->base + l->panel, *dy = w->base + l->panel_dy, *dq = w->base + l->out;
  float *k = w->base + l->strip_k, *v = w->base + l->strip_v;
  float *scores = w->base + l->scores, *scores_d = w->base + l->scores_d;
  float *lse = w->base + l->row_a, *delta = w->base + l->row_b;
  hr_attention_heads in[3], out[3]; /* q, k, v and their gradients */

  hr__attention_unpack(c, call->in + 1, in);
  hr__attention_unpack(c, call->out, out);
  panel_load(w, p, in[0], c->scale, q);
  panel_load(w, p, heads_alone(&call->in[0]), 1.0f, dy);
  rows_load(w, p, &call->in[4], call->in[5].data, dy, dq, lse, delta);
  memset(dq, 0, (size_t)(p->rows * c->dim) * sizeof *dq);
  for (int64_t key = keys_begin(w, p), end = keys_end(w, p); key < end; key += HR_STRIP) {
    int64_t width = hr__min(HR_STRIP, p->keys - key);
    strip_load(w, in[1], key, width, k);
    strip_load(w, in[2], key, width, v);
    multiply(w, HR_SCORES, p, width, q, k, scores);
    multiply(w, HR_SCORES, p, width, dy, v, scores_d);
    softmax_bwd_step(w, p, key, width, lse, delta, scores, scores_d);
    multiply(w, HR_COLUMNS, p, width, dy, scores, w->base + l->dv + key * c->dim);
    multiply(w, HR_COLUMNS, p, width, q, scores_d, w->base + l->dk + key * c->dim);
    multiply(w, HR_VALUES, p, width, scores_d, k, dq);
  }
  panel_store(w, p, dq, NULL, c->scale, out[0]);
}

/* The finished sums of dk or dv, transposed back through the buffer of a strip. */
static void sums_store(const work *w, const float *sums, hr_attention_heads to) {
  const hr_attention_cuts *c = &w->plan->cuts;
  float *rows = w->base + w->plan->layout.strip_k;
  for (int64_t key = 0; key < c->length; key += HR_STRIP) {
    int64_t width = hr__min(HR_STRIP, c->length - key);
    hr__f32_transpose(sums + key * c->dim, hr__attention_strip_ld(c), c->dim, width, rows, c->dim);
    strip_store(w, rows, key, width, to);
  }
}

static void attention_bwd_task(void *arg, int64_t task, int worker) {
  job *j = arg;
  const hr_attention_plan *plan = j->call->prepared;
  const hr_attention_layout *l = &plan->layout;
  work w = work_of(j, task, worker);
  hr_attention_heads out[3]; /* dq, dk, dv */

  hr__attention_unpack(&plan->cuts, j->call->out, out);
  memset(w.base + l->dk, 0, (l->gemm - l->dk) * sizeof(float));
  for (int64_t index = 0; index < plan->cuts.panels; index++) {
    hr_attention_panel p = hr__attention_panel(&plan->cuts, index);
    panel_bwd(&w, &p, j->call);
  }
  sums_store(&w, w.base + l->dk, out[1]);
  sums_store(&w, w.base + l->dv, out[2]);
  if (w.failed) __atomic_store_n(&j->failed, 1, __ATOMIC_RELAXED);
}

hr_status hr__attention_bwd_run(const hr_call *call) {
  return tasks_run(call, true, attention_bwd_task);
}
