/* attention: softmax(q kt scale) v with a causal mask, and its backward op; see op/attention.h.
 *
 * Vocabulary. The query heads that share a key/value head form a group. A panel is a block of consecutive query
 * positions of one group, its heads stacked: rows = heads of the group x positions. A strip is a range of keys. All
 * work is done on panel x strip: scores [rows, width] by one product, softmax over them, then products with the strip's
 * values. Panels and strips are f32 copies in the worker's workspace, whatever the storage type.
 *
 * Forward: one task per (batch, group, panel); the softmax is online (running maximum and sum per row). Backward: one
 * task per (batch, group), which owns dk and dv of the group and sums them in f32, panel after panel. Which task runs
 * where changes no bit.
 */
#include "op/attention.h"

#include <math.h>

#include "base/mem.h"
#include "base/simd_math.h"
#include "graph/adjoint.h"
#include "op/product.h"
#include "op/shapes.h"
#include "op/stream.h"

enum {
  PANEL_ROWS = 128,      /* aimed at; less is wasted on masked scores */
  PANEL_ROWS_LONG = 192, /* the same for long sequences, where strips loaded for few rows would cost more */
  LONG = 512,            /* positions */
  STRIP = 256,           /* keys */
  GRAIN = 64,            /* strips end at a multiple of this, or at T: few different products */
  PANEL_LEAST = 16,
  WIDTHS = STRIP / GRAIN + 1, /* kinds of strip: by width / GRAIN; 0 is the odd one at the end of T */
  LANES = 16                  /* elements of the widest vector */
};

hr_id hr__attention(hr_builder *b, hr_id q, hr_id k, hr_id v, const hr_attention_args *args) {
  return hr__emit(b, &hr_op_attention, (hr_id[]){q, k, v}, 3, args);
}

static hr_status heads_check(const hr_op_view *view, int in, int64_t heads, hr_error *err) {
  const hr_attention_args *args = view->args;
  const hr_desc *desc = &view->in[in], *first = &view->in[0];
  HR_TRY(hr__shape_float(view, in, err));
  if (desc->rank == 3 && desc->dtype == first->dtype && desc->dim[0] == first->dim[0] &&
      desc->dim[1] == first->dim[1] && desc->dim[2] % heads == 0 && desc->dim[2] / heads == args->head_dim)
    return HR_OK;
  return hr__fail(err, HR_BAD_INPUT, NULL, NULL,
                  "operand %d is not %s [batch, length, %lld heads x %lld] of one batch and length", in,
                  hr_dtype_name(first->dtype), (long long)heads, (long long)args->head_dim);
}

static hr_status args_check(const hr_attention_args *args, hr_error *err) {
  if (args->heads >= 1 && args->kv_heads >= 1 && args->head_dim >= 1 && args->heads % args->kv_heads == 0) return HR_OK;
  return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "%lld heads do not form %lld groups of head size %lld",
                  (long long)args->heads, (long long)args->kv_heads, (long long)args->head_dim);
}

static hr_status attention_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  const hr_attention_args *args = view->args;
  HR_TRY(hr__shape_operands(view, 3, 0, err));
  HR_TRY(args_check(args, err));
  HR_TRY(heads_check(view, 0, args->heads, err));
  HR_TRY(heads_check(view, 1, args->kv_heads, err));
  HR_TRY(heads_check(view, 2, args->kv_heads, err));
  out[0] = view->in[0];
  out[1] = hr__desc3(HR_F32, view->in[0].dim[0], args->heads, view->in[0].dim[1]);
  return HR_OK;
}

static hr_status attention_bwd_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  const hr_attention_args *args = view->args;
  HR_TRY(hr__shape_operands(view, 6, 0, err));
  HR_TRY(args_check(args, err));
  HR_TRY(heads_check(view, 0, args->heads, err));
  HR_TRY(heads_check(view, 1, args->heads, err));
  HR_TRY(heads_check(view, 2, args->kv_heads, err));
  HR_TRY(heads_check(view, 3, args->kv_heads, err));
  HR_TRY(heads_check(view, 4, args->heads, err));
  hr_desc lse = hr__desc3(HR_F32, view->in[0].dim[0], args->heads, view->in[0].dim[1]);
  HR_TRY(hr__shape_like(view, 5, &lse, err));
  for (int i = 0; i < 3; i++)
    out[i] = view->in[1 + i];
  return HR_OK;
}

static void attention_grad(hr_adjoint *a, const hr_node *node) {
  hr_builder *b = hr__adjoint_builder(a);
  hr_id dy = hr__out_grad(a, 0);
  if (dy == HR_NONE) return;
  hr_id in[] = {
      dy, hr__saved_in(a, 0), hr__saved_in(a, 1), hr__saved_in(a, 2), hr__saved_out(a, 0), hr__saved_out(a, 1)};
  hr_id dq = hr__emit(b, &hr_op_attention_bwd, in, 6, node->args);
  for (int i = 0; i < 3; i++)
    if (hr__wants_grad(a, i)) hr__grad_add(a, i, hr__node_out(b, dq, i));
}

/* The sizes of one call and how it is cut. */
typedef struct cuts {
  int64_t batch, length, heads, groups, dim;
  int64_t group_heads; /* query heads of a group */
  int64_t positions;   /* of a panel; the last panel may have fewer */
  int64_t panels;      /* of one group */
  float scale;
} cuts;

static cuts cuts_of(const hr_desc *q, const hr_attention_args *args) {
  cuts c = {.batch = q->dim[0],
            .length = q->dim[1],
            .heads = args->heads,
            .groups = args->kv_heads,
            .dim = args->head_dim,
            .group_heads = args->heads / args->kv_heads,
            .scale = args->scale};
  c.positions = (c.length < LONG ? PANEL_ROWS : PANEL_ROWS_LONG) / c.group_heads;
  if (c.positions < PANEL_LEAST) c.positions = PANEL_LEAST;
  c.positions = hr__min(c.positions, c.length);
  c.panels = hr__chunks(c.length, c.positions);
  return c;
}

static void attention_work(const hr_op_view *view, double products, hr_cost *cost) {
  cuts c = cuts_of(&view->in[0], view->args);
  double scores = (double)c.batch * (double)c.heads * (double)c.length * (double)(c.length + 1) / 2;
  hr__cost_stream(view, scores * (2.0 * products * (double)c.dim + 12.0), cost);
  cost->op_class = HR_CLASS_ATTENTION;
}

static void attention_cost(const hr_op_view *view, hr_cost *cost) {
  attention_work(view, 2.0, cost);
}

static void attention_bwd_cost(const hr_op_view *view, hr_cost *cost) {
  attention_work(view, 5.0, cost);
}

/* The products of a panel with a strip. */
enum {
  SCORES,  /* [rows, width] = panel [rows, D] x strip^T [D, width];      also dy v^T */
  VALUES,  /* [rows, D]    += scores [rows, width] x strip [width, D];   y from v, dq from k */
  COLUMNS, /* [D, width]   += panel^T [D, rows] x scores [rows, width]; dv^T from dy, dk^T from q */
  PRODUCTS
};

/* Between rows of the sums dk^T and dv^T of one strip. */
static int64_t strip_ld(const cuts *c) {
  return hr__min(STRIP, c->length);
}

static hr_gemm_spec product_spec(const cuts *c, int product, int64_t rows, int64_t width) {
  hr_gemm_spec s = {.k = c->dim, .transpose_b = true}; /* SCORES */
  s.m = rows, s.n = width, s.lda = s.ldb = c->dim, s.ldc = width;
  if (product == VALUES) {
    s = (hr_gemm_spec){.m = rows, .n = c->dim, .k = width, .accumulate = true};
    s.lda = width, s.ldb = s.ldc = c->dim;
  } else if (product == COLUMNS) {
    s = (hr_gemm_spec){.m = c->dim, .n = width, .k = rows, .transpose_a = true, .accumulate = true};
    s.lda = c->dim, s.ldb = width, s.ldc = strip_ld(c);
  }
  s.a = s.b = s.c = HR_F32;
  return s;
}

/* A worker's part of the workspace, in floats from its start. Backward uses all of it, forward the upper part. */
typedef struct layout {
  size_t panel, out, strip_k, strip_v, scores; /* q, the result being summed, k and v, scores */
  size_t row_a, row_b;                         /* per row: running maximum and sum; backward: lse and delta */
  size_t panel_dy, scores_d;                   /* backward */
  size_t dk, dv;                               /* backward: sums of the whole group, transposed, strip after strip */
  size_t gemm;
  size_t floats; /* of one worker */
} layout;

static size_t floats_take(size_t *at, int64_t rows, int64_t columns) {
  size_t start = *at;
  *at += ((size_t)rows * (size_t)columns + 15) & ~(size_t)15;
  return start;
}

/* Largest workspace of any product of a whole or last panel with a strip of any width. */
static size_t gemm_cap(const cuts *c, bool backward) {
  const int64_t positions[] = {c->positions, c->length - (c->panels - 1) * c->positions};
  size_t cap = 0;
  for (int last = 0; last < 2; last++)
    for (int64_t kind = 0; kind < WIDTHS; kind++)
      for (int product = 0; product < (backward ? PRODUCTS : COLUMNS); product++) {
        int64_t width = kind == 0 ? c->length % STRIP : hr__min(kind * GRAIN, c->length);
        hr_gemm_spec spec = product_spec(c, product, c->group_heads * positions[last], width);
        size_t bytes = hr__gemm_workspace(&spec, 1);
        if (bytes > cap) cap = bytes;
      }
  return cap;
}

static layout layout_of(const cuts *c, bool backward) {
  int64_t rows = c->group_heads * c->positions, width = hr__min(STRIP, c->length);
  layout l = {0};
  size_t at = 0;
  l.panel = floats_take(&at, rows, c->dim);
  l.out = floats_take(&at, rows, c->dim);
  l.strip_k = floats_take(&at, width, c->dim);
  l.strip_v = floats_take(&at, width, c->dim);
  l.scores = floats_take(&at, rows, width);
  l.row_a = floats_take(&at, rows, 1);
  l.row_b = floats_take(&at, rows, 1);
  if (backward) {
    l.panel_dy = floats_take(&at, rows, c->dim);
    l.scores_d = floats_take(&at, rows, width);
    l.dk = floats_take(&at, hr__chunks(c->length, STRIP) * strip_ld(c), c->dim);
    l.dv = floats_take(&at, hr__chunks(c->length, STRIP) * strip_ld(c), c->dim);
  }
  l.gemm = floats_take(&at, (int64_t)(gemm_cap(c, backward) / sizeof(float)), 1);
  l.floats = at;
  return l;
}

static int64_t tasks_of(const cuts *c, bool backward) {
  return c->batch * c->groups * (backward ? 1 : c->panels);
}

static size_t workspace_bytes(const cuts *c, bool backward, int threads) {
  int64_t workers = hr__min(threads, tasks_of(c, backward));
  return (size_t)(workers < 1 ? 1 : workers) * layout_of(c, backward).floats * sizeof(float);
}

static size_t attention_workspace(const hr_op_view *view, hr_device_kind kind, int threads) {
  cuts c = cuts_of(&view->in[0], view->args);
  return kind == HR_CPU ? workspace_bytes(&c, false, threads) : 0;
}

static size_t attention_bwd_workspace(const hr_op_view *view, hr_device_kind kind, int threads) {
  cuts c = cuts_of(&view->in[0], view->args);
  return kind == HR_CPU ? workspace_bytes(&c, true, threads) : 0;
}

typedef struct attention_plan {
  cuts cuts;
  layout layout;
  hr_gemm *products[PRODUCTS][2][WIDTHS]; /* [product][whole or last panel][kind of strip] */
} attention_plan;

/* A panel: positions [first, first + count), and the keys it sees, [0, end) rounded up to GRAIN. */
typedef struct panel {
  int64_t first, count, rows, keys;
  int last; /* whether it is the shorter one at the end */
} panel;

static panel panel_of(const cuts *c, int64_t index) {
  panel p = {.first = index * c->positions};
  p.count = hr__min(c->positions, c->length - p.first);
  p.rows = p.count * c->group_heads;
  p.keys = hr__min(c->length, hr__chunks(p.first + p.count, GRAIN) * GRAIN);
  p.last = p.count < c->positions;
  return p;
}

static int width_kind(int64_t width) {
  return width % GRAIN == 0 ? (int)(width / GRAIN) : 0;
}

static void attention_release(void *prepared) {
  attention_plan *plan = prepared;
  if (!plan) return;
  hr_gemm **products = &plan->products[0][0][0];
  for (size_t i = 0; i < sizeof plan->products / sizeof *products; i++)
    hr__gemm_destroy(products[i]);
  hr__free(plan);
}

/* The products that some panel meets on some strip. */
static hr_status plan_fill(attention_plan *plan, bool backward, int threads, hr_error *err) {
  const cuts *c = &plan->cuts;
  for (int64_t index = 0; index < c->panels; index++) {
    panel p = panel_of(c, index);
    for (int64_t key = 0; key < p.keys; key += STRIP) {
      int64_t width = hr__min(STRIP, p.keys - key);
      for (int product = 0; product < (backward ? PRODUCTS : COLUMNS); product++) {
        hr_gemm **gemm = &plan->products[product][p.last][width_kind(width)];
        hr_gemm_spec spec = product_spec(c, product, p.rows, width);
        if (!*gemm) HR_TRY(hr__gemm_create(&spec, threads, gemm, err));
      }
    }
  }
  return HR_OK;
}

static hr_status plan_create(const hr_call *call, bool backward, void **prepared, hr_error *err) {
  cuts c = cuts_of(&call->in[0].desc, call->args);
  HR_TRY(hr__workspace_check(call, workspace_bytes(&c, backward, call->threads), err));
  attention_plan *plan = hr__alloc_zero(1, sizeof *plan);
  if (!plan) return hr__nomem(err);
  plan->cuts = c;
  plan->layout = layout_of(&c, backward);
  hr_status status = plan_fill(plan, backward, call->threads, err);
  if (status != HR_OK) {
    attention_release(plan);
    return status;
  }
  *prepared = plan;
  return HR_OK;
}

static hr_status attention_prepare(const hr_call *call, void **prepared, hr_error *err) {
  return plan_create(call, false, prepared, err);
}

static hr_status attention_bwd_prepare(const hr_call *call, void **prepared, hr_error *err) {
  return plan_create(call, true, prepared, err);
}

/* What one task works on. */
typedef struct work {
  const attention_plan *plan;
  int64_t batch, group;
  int worker;
  float *base; /* the worker's workspace */
  bool failed;
} work;

typedef struct job {
  const hr_call *call;
  int failed; /* set by any task, never cleared */
} job;

static work work_of(const job *j, int64_t pair, int worker) {
  const attention_plan *plan = j->call->prepared;
  return (work){.plan = plan,
                .batch = pair / plan->cuts.groups,
                .group = pair % plan->cuts.groups,
                .worker = worker,
                .base = (float *)j->call->workspace + (size_t)worker * plan->layout.floats};
}

static void multiply(work *w, int product, const panel *p, int64_t width, const float *a, const float *b, float *c) {
  const hr_gemm *gemm = w->plan->products[product][p->last][width_kind(width)];
  if (hr__gemm_run_here(gemm, w->worker, a, b, c, w->base + w->plan->layout.gemm) != HR_OK) w->failed = true;
}

/* Element offset of (batch, position, head) in a [B, T, heads * D] tensor. */
HR_INLINE int64_t row_offset(const cuts *c, int64_t heads, int64_t batch, int64_t position, int64_t head) {
  return ((batch * c->length + position) * heads + head) * c->dim;
}

/* Panel of q or dy, times `factor`. */
HR_CLONES static void panel_load(const work *w, const panel *p, const hr_tensor *from, float factor, float *to) {
  const cuts *c = &w->plan->cuts;
  for (int64_t h = 0; h < c->group_heads; h++)
    for (int64_t t = 0; t < p->count; t++, to += c->dim) {
      int64_t at = row_offset(c, c->heads, w->batch, p->first + t, w->group * c->group_heads + h);
      const float *row = hr__load(from, at, c->dim, to);
      for (int64_t i = 0; i < c->dim; i++)
        to[i] = row[i] * factor;
    }
}

/* Panel into y or dq, row r times factor[r] * scale (factor NULL: 1). */
HR_CLONES static void panel_store(const work *w, const panel *p, float *from, const float *factor, float scale,
                                  const hr_tensor *to) {
  const cuts *c = &w->plan->cuts;
  for (int64_t h = 0, r = 0; h < c->group_heads; h++)
    for (int64_t t = 0; t < p->count; t++, r++, from += c->dim) {
      int64_t at = row_offset(c, c->heads, w->batch, p->first + t, w->group * c->group_heads + h);
      float *row = hr__target(to, at, from), by = factor ? factor[r] * scale : scale;
      for (int64_t i = 0; i < c->dim; i++)
        row[i] = from[i] * by;
      hr__store(to, at, c->dim, row);
    }
}

/* Keys or values of the group, positions [first, first + count). */
HR_CLONES static void strip_load(const work *w, const hr_tensor *from, int64_t first, int64_t count, float *to) {
  const cuts *c = &w->plan->cuts;
  for (int64_t t = 0; t < count; t++, to += c->dim) {
    const float *row = hr__load(from, row_offset(c, c->groups, w->batch, first + t, w->group), c->dim, to);
    if (row != to) memcpy(to, row, (size_t)c->dim * sizeof *to);
  }
}

HR_CLONES static void strip_store(const work *w, float *from, int64_t first, int64_t count, const hr_tensor *to) {
  const cuts *c = &w->plan->cuts;
  for (int64_t t = 0; t < count; t++, from += c->dim) {
    int64_t at = row_offset(c, c->groups, w->batch, first + t, w->group);
    float *row = hr__target(to, at, from);
    if (row != from) memcpy(row, from, (size_t)c->dim * sizeof *row);
    hr__store(to, at, c->dim, row);
  }
}

/* Keys of the strip [key, key + width) that the query at `position` sees. */
HR_INLINE int64_t visible(int64_t position, int64_t key, int64_t width) {
  int64_t n = position - key + 1;
  return n < 0 ? 0 : hr__min(n, width);
}

/* Rounds n up to whole vectors (rows of scores have room for them, but for an odd width at the end of T) and makes what
 * lies between invisible: a scalar remainder in every row would take longer than the rest. */
HR_INLINE int64_t row_round(float *row, int64_t n, int64_t width) {
  int64_t rounded = hr__min(hr__chunks(n, LANES) * LANES, width);
  for (int64_t i = n; i < rounded; i++)
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

/* Scores of a strip become weights exp(score - maximum); sums and the result so far follow a raised maximum. */
HR_CLONES static void softmax_step(const cuts *c, const panel *p, int64_t key, int64_t width, float *scores,
                                   float *maximum, float *sum, float *out) {
  for (int64_t r = 0; r < p->rows; r++) {
    float *row = scores + r * width, *result = out + r * c->dim;
    int64_t n = row_round(row, visible(p->first + r % p->count, key, width), width);
    float most = row_max(row, n, maximum[r]), total = 0.0f;
    float keep = hr__expf(maximum[r] - most);
#pragma omp simd reduction(+ : total)
    for (int64_t i = 0; i < n; i++) {
      row[i] = hr__expf(row[i] - most);
      total += row[i];
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

/* lse out; the sums become the factors 1 / sum. */
static void lse_store(const work *w, const panel *p, const float *maximum, float *sum, float *lse) {
  const cuts *c = &w->plan->cuts;
  for (int64_t r = 0; r < p->rows; r++) {
    int64_t head = w->group * c->group_heads + r / p->count;
    lse[(w->batch * c->heads + head) * c->length + p->first + r % p->count] = maximum[r] + logf(sum[r]);
    sum[r] = 1.0f / sum[r];
  }
}

static void attention_task(void *arg, int64_t task, int worker) {
  job *j = arg;
  const hr_call *call = j->call;
  const attention_plan *plan = call->prepared;
  const cuts *c = &plan->cuts;
  const layout *l = &plan->layout;
  work w = work_of(j, task % (c->batch * c->groups), worker);
  /* The last panels see the most keys: they go first, so that the short ones level out the threads. */
  panel p = panel_of(c, c->panels - 1 - task / (c->batch * c->groups));
  float *maximum = w.base + l->row_a, *sum = w.base + l->row_b, *out = w.base + l->out, *scores = w.base + l->scores;

  panel_load(&w, &p, &call->in[0], c->scale, w.base + l->panel);
  memset(out, 0, (size_t)(p.rows * c->dim) * sizeof *out);
  for (int64_t r = 0; r < p.rows; r++)
    maximum[r] = -INFINITY, sum[r] = 0.0f;
  for (int64_t key = 0; key < p.keys; key += STRIP) {
    int64_t width = hr__min(STRIP, p.keys - key);
    strip_load(&w, &call->in[1], key, width, w.base + l->strip_k);
    strip_load(&w, &call->in[2], key, width, w.base + l->strip_v);
    multiply(&w, SCORES, &p, width, w.base + l->panel, w.base + l->strip_k, scores);
    softmax_step(c, &p, key, width, scores, maximum, sum, out);
    multiply(&w, VALUES, &p, width, scores, w.base + l->strip_v, out);
  }
  lse_store(&w, &p, maximum, sum, call->out[1].data);
  panel_store(&w, &p, out, sum, 1.0f, &call->out[0]);
  if (w.failed) __atomic_store_n(&j->failed, 1, __ATOMIC_RELAXED);
}

static hr_status tasks_run(const hr_call *call, bool backward, hr_task task) {
  const attention_plan *plan = call->prepared;
  int64_t tasks = tasks_of(&plan->cuts, backward);
  job j = {call, 0};
  hr__pool_run(call->device->pool, (int)hr__min(call->threads, tasks), tasks, task, &j);
  return j.failed ? HR_FAILURE : HR_OK;
}

static hr_status attention_run(const hr_call *call) {
  return tasks_run(call, false, attention_task);
}

/* Per row: lse, and delta = dy . y, which is what the softmax's gradient subtracts. */
HR_CLONES static void rows_load(const work *w, const panel *p, const hr_tensor *y, const float *all_lse,
                                const float *panel_dy, float *scratch, float *lse, float *delta) {
  const cuts *c = &w->plan->cuts;
  for (int64_t h = 0, r = 0; h < c->group_heads; h++) {
    int64_t head = w->group * c->group_heads + h;
    for (int64_t t = 0; t < p->count; t++, r++) {
      const float *row = hr__load(y, row_offset(c, c->heads, w->batch, p->first + t, head), c->dim, scratch);
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

/* scores -> weights; products of dy and v -> gradients of the scores. */
HR_CLONES static void softmax_bwd_step(const panel *p, int64_t key, int64_t width, const float *lse, const float *delta,
                                       float *scores, float *scores_d) {
  for (int64_t r = 0; r < p->rows; r++) {
    float *weight = scores + r * width, *gradient = scores_d + r * width;
    int64_t n = row_round(weight, visible(p->first + r % p->count, key, width), width);
    float shift = lse[r], mean = delta[r];
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
      weight[i] = hr__expf(weight[i] - shift);
      gradient[i] = weight[i] * (gradient[i] - mean);
    }
    for (int64_t i = n; i < width; i++)
      weight[i] = gradient[i] = 0.0f;
  }
}

/* One panel's share of all three gradients. */
static void panel_bwd(work *w, const panel *p, const hr_call *call) {
  const cuts *c = &w->plan->cuts;
  const layout *l = &w->plan->layout;
  float *q = w->base + l->panel, *dy = w->base + l->panel_dy, *dq = w->base + l->out;
  float *k = w->base + l->strip_k, *v = w->base + l->strip_v;
  float *scores = w->base + l->scores, *scores_d = w->base + l->scores_d;
  float *lse = w->base + l->row_a, *delta = w->base + l->row_b;

  panel_load(w, p, &call->in[1], c->scale, q);
  panel_load(w, p, &call->in[0], 1.0f, dy);
  rows_load(w, p, &call->in[4], call->in[5].data, dy, dq, lse, delta);
  memset(dq, 0, (size_t)(p->rows * c->dim) * sizeof *dq);
  for (int64_t key = 0; key < p->keys; key += STRIP) {
    int64_t width = hr__min(STRIP, p->keys - key);
    strip_load(w, &call->in[2], key, width, k);
    strip_load(w, &call->in[3], key, width, v);
    multiply(w, SCORES, p, width, q, k, scores);
    multiply(w, SCORES, p, width, dy, v, scores_d);
    softmax_bwd_step(p, key, width, lse, delta, scores, scores_d);
    multiply(w, COLUMNS, p, width, dy, scores, w->base + l->dv + key * c->dim);
    multiply(w, COLUMNS, p, width, q, scores_d, w->base + l->dk + key * c->dim);
    multiply(w, VALUES, p, width, scores_d, k, dq);
  }
  panel_store(w, p, dq, NULL, c->scale, &call->out[0]);
}

/* The finished sums of dk or dv, transposed back through the buffer of a strip. */
static void sums_store(const work *w, const float *sums, const hr_tensor *to) {
  const cuts *c = &w->plan->cuts;
  float *rows = w->base + w->plan->layout.strip_k;
  for (int64_t key = 0; key < c->length; key += STRIP) {
    int64_t width = hr__min(STRIP, c->length - key);
    hr__f32_transpose(sums + key * c->dim, strip_ld(c), c->dim, width, rows, c->dim);
    strip_store(w, rows, key, width, to);
  }
}

static void attention_bwd_task(void *arg, int64_t task, int worker) {
  job *j = arg;
  const attention_plan *plan = j->call->prepared;
  const layout *l = &plan->layout;
  work w = work_of(j, task, worker);

  memset(w.base + l->dk, 0, (l->gemm - l->dk) * sizeof(float));
  for (int64_t index = 0; index < plan->cuts.panels; index++) {
    panel p = panel_of(&plan->cuts, index);
    panel_bwd(&w, &p, j->call);
  }
  sums_store(&w, w.base + l->dk, &j->call->out[1]);
  sums_store(&w, w.base + l->dv, &j->call->out[2]);
  if (w.failed) __atomic_store_n(&j->failed, 1, __ATOMIC_RELAXED);
}

static hr_status attention_bwd_run(const hr_call *call) {
  return tasks_run(call, true, attention_bwd_task);
}

static const hr_attention_args sample_args[] = {{4, 2, 8, 0.35f}, {2, 2, 16, 0.25f}, {1, 1, 4, 0.5f}};
static const hr_sample attention_samples[] = {
    {.n_in = 3,
     .in = {{HR_F32, 3, {2, 7, 32}}, {HR_F32, 3, {2, 7, 16}}, {HR_F32, 3, {2, 7, 16}}},
     .args = &sample_args[0]},
    {.n_in = 3,
     .in = {{HR_F32, 3, {1, 70, 32}}, {HR_F32, 3, {1, 70, 32}}, {HR_F32, 3, {1, 70, 32}}},
     .args = &sample_args[1]},
    {.n_in = 3,
     .in = {{HR_F32, 3, {1, 330, 4}}, {HR_F32, 3, {1, 330, 4}}, {HR_F32, 3, {1, 330, 4}}},
     .args = &sample_args[2]},
};
static const hr_sample attention_bwd_samples[] = {
    {.n_in = 6,
     .in = {{HR_F32, 3, {2, 7, 32}},
            {HR_F32, 3, {2, 7, 32}},
            {HR_F32, 3, {2, 7, 16}},
            {HR_F32, 3, {2, 7, 16}},
            {HR_F32, 3, {2, 7, 32}},
            {HR_F32, 3, {2, 4, 7}}},
     .args = &sample_args[0]},
    {.n_in = 6,
     .in = {{HR_F32, 3, {1, 330, 4}},
            {HR_F32, 3, {1, 330, 4}},
            {HR_F32, 3, {1, 330, 4}},
            {HR_F32, 3, {1, 330, 4}},
            {HR_F32, 3, {1, 330, 4}},
            {HR_F32, 3, {1, 1, 330}}},
     .args = &sample_args[2]},
};

const hr_op hr_op_attention = {
    .name = "attention",
    .n_in = 3,
    .n_out = 2,
    .args_bytes = sizeof(hr_attention_args),
    .saves = HR_SAVE_IN(0) | HR_SAVE_IN(1) | HR_SAVE_IN(2) | HR_SAVE_OUT(0) | HR_SAVE_OUT(1),
    .computes = 1u << 0 | 1u << 1 | 1u << 2,
    .axes = HR_AXES_BATCH,
    .dtypes = {[HR_CPU] = HR_FLOATS},
    .shape = attention_shape,
    .grad = attention_grad,
    .cost = attention_cost,
    .workspace = attention_workspace,
    .cpu = {.prepare = attention_prepare, .release = attention_release, .run = attention_run},
    .samples = attention_samples,
    .n_samples = sizeof attention_samples / sizeof *attention_samples,
};

const hr_op hr_op_attention_bwd = {
    .name = "attention_bwd",
    .n_in = 6,
    .n_out = 3,
    .args_bytes = sizeof(hr_attention_args),
    .axes = HR_AXES_BATCH,
    .dtypes = {[HR_CPU] = HR_FLOATS},
    .shape = attention_bwd_shape,
    .cost = attention_bwd_cost,
    .workspace = attention_bwd_workspace,
    .cpu = {.prepare = attention_bwd_prepare, .release = attention_release, .run = attention_bwd_run},
    .samples = attention_bwd_samples,
    .n_samples = sizeof attention_bwd_samples / sizeof *attention_bwd_samples,
};
