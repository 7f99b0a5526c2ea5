/* attention: softmax(q kt scale) v over the keys that a query sees, and its backward op; see op/attention.h, and
 * op/attention_parts.h for how a call is cut. */
#include "op/attention.h"

#include <stddef.h>

#include "base/mem.h"
#include "dev/cuda/limits.h"
#include "graph/adjoint.h"
#include "op/attention_parts.h"
#include "op/dropout.h"
#include "op/product.h"
#include "op/shapes.h"

enum {
  PANEL_ROWS = 128,      /* aimed at; less is wasted on masked scores */
  PANEL_ROWS_LONG = 192, /* the same for long sequences, where strips loaded for few rows would cost more */
  LONG = 512,            /* positions */
  PANEL_LEAST = 16
};

hr_id hr__attention(hr_builder *b, hr_id q, hr_id k, hr_id v, hr_id bounds, const hr_attention_args *args) {
  hr_attention_args own = *args;
  hr_id control = HR_NONE;
  if (args->dropout > 0.0f) {
    own.use = hr__dropout_uses(b);
    control = hr__control(b);
  }
  return hr__emit(b, &hr_op_attention, (hr_id[]){q, k, v, bounds, control}, HR_ATTENTION_IN, &own);
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
  if (args->heads < 1 || args->kv_heads < 1 || args->head_dim < 1 || args->heads % args->kv_heads != 0)
    return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "%lld heads do not form %lld groups of head size %lld",
                    (long long)args->heads, (long long)args->kv_heads, (long long)args->head_dim);
  if (args->window < 0 || (args->window > 0 && args->bidirectional))
    return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "a window of %lld keys%s has no meaning", (long long)args->window,
                    args->bidirectional ? " with a bidirectional mask" : "");
  if (args->documents && args->bidirectional)
    return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "documents have borders only under a causal mask");
  if (!(args->dropout >= 0.0f && args->dropout < 1.0f) || args->first < 0)
    return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "drops a part of %g from row %lld on", (double)args->dropout,
                    (long long)args->first);
  return HR_OK;
}

/* Whether operand `q` of the view holds k and v as well; operands q + 1 and q + 2 are then both absent. */
static bool is_packed(const hr_op_view *view, int q) {
  return view->in[q + 1].rank == 0 && view->in[q + 2].rank == 0;
}

/* Operands q, q + 1 and q + 2, packed or not. */
static hr_status qkv_check(const hr_op_view *view, int q, hr_error *err) {
  const hr_attention_args *args = view->args;
  if (is_packed(view, q)) return heads_check(view, q, args->heads + 2 * args->kv_heads, err);
  HR_TRY(heads_check(view, q, args->heads, err));
  HR_TRY(heads_check(view, q + 1, args->kv_heads, err));
  return heads_check(view, q + 2, args->kv_heads, err);
}

/* The last two operands: lengths [B] or starts [B, T], and the control block, which is there with dropout. */
static hr_status bounds_check(const hr_op_view *view, hr_error *err) {
  const hr_attention_args *args = view->args;
  hr_desc control = {HR_U8, 1, {(int64_t)sizeof(hr_control)}};
  if ((view->in[view->n_in - 1].rank > 0) != (args->dropout > 0.0f))
    return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "operand %d is the control block, which goes with dropout",
                    view->n_in - 1);
  HR_TRY(hr__shape_like(view, view->n_in - 1, &control, err));
  hr_desc lengths = hr__desc1(HR_I32, view->in[0].dim[0]);
  hr_desc starts = hr__desc2(HR_I32, view->in[0].dim[0], view->in[0].dim[1]);
  return hr__shape_like(view, view->n_in - 2, args->documents ? &starts : &lengths, err);
}

static hr_status attention_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  const hr_attention_args *args = view->args;
  HR_TRY(hr__shape_operands(view, HR_ATTENTION_IN, hr_op_attention.optional, err));
  HR_TRY(args_check(args, err));
  HR_TRY(qkv_check(view, 0, err));
  HR_TRY(bounds_check(view, err));
  out[0] = view->in[0];
  out[0].dim[2] = args->heads * args->head_dim;
  out[1] = hr__desc3(HR_F32, view->in[0].dim[0], args->heads, view->in[0].dim[1]);
  return HR_OK;
}

static hr_status attention_bwd_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  const hr_attention_args *args = view->args;
  HR_TRY(hr__shape_operands(view, HR_ATTENTION_BWD_IN, hr_op_attention_bwd.optional, err));
  HR_TRY(args_check(args, err));
  HR_TRY(heads_check(view, 0, args->heads, err));
  HR_TRY(qkv_check(view, 1, err));
  HR_TRY(heads_check(view, 4, args->heads, err));
  hr_desc lse = hr__desc3(HR_F32, view->in[0].dim[0], args->heads, view->in[0].dim[1]);
  HR_TRY(hr__shape_like(view, 5, &lse, err));
  HR_TRY(bounds_check(view, err));
  for (int i = 0; i < 3; i++)
    out[i] = view->in[1 + i].rank > 0 ? view->in[1 + i] : hr__desc1(view->in[1].dtype, 0);
  return HR_OK;
}

static void attention_grad(hr_adjoint *a, const hr_node *node) {
  hr_builder *b = hr__adjoint_builder(a);
  hr_id dy = hr__out_grad(a, 0);
  if (dy == HR_NONE) return;
  hr_id in[HR_ATTENTION_BWD_IN] = {dy,
                                   hr__saved_in(a, 0),
                                   hr__saved_in(a, 1),
                                   hr__saved_in(a, 2),
                                   hr__saved_out(a, 0),
                                   hr__saved_out(a, 1),
                                   hr__saved_in(a, 3),
                                   hr__saved_in(a, 4)};
  hr_id dq = hr__emit(b, &hr_op_attention_bwd, in, HR_ATTENTION_BWD_IN, node->args);
  for (int i = 0; i < 3; i++)
    if (hr__wants_grad(a, i)) hr__grad_add(a, i, hr__node_out(b, dq, i));
}

/* `rows` is any operand [B, T, ...]. */
static hr_attention_cuts cuts_of(const hr_desc *rows, bool packed, const hr_attention_args *args) {
  hr_attention_cuts c = {.batch = rows->dim[0],
                         .length = rows->dim[1],
                         .heads = args->heads,
                         .groups = args->kv_heads,
                         .dim = args->head_dim,
                         .group_heads = args->heads / args->kv_heads,
                         .window = args->window < rows->dim[1] ? args->window : 0,
                         .bidirectional = args->bidirectional,
                         .packed = packed,
                         .scale = args->scale};
  c.positions = (c.length < LONG ? PANEL_ROWS : PANEL_ROWS_LONG) / c.group_heads;
  if (c.positions < PANEL_LEAST) c.positions = PANEL_LEAST;
  c.positions = hr__min(c.positions, c.length);
  c.panels = hr__chunks(c.length, c.positions);
  return c;
}

static hr_attention_cuts view_cuts(const hr_op_view *view) {
  return cuts_of(&view->in[0], is_packed(view, view->n_in == HR_ATTENTION_IN ? 0 : 1), view->args);
}

/* Of one head; lengths and borders of documents are not known here, so every position counts. */
static double visible_scores(const hr_attention_cuts *c) {
  double length = (double)c->length, window = c->window > 0 ? (double)c->window : length;
  if (c->bidirectional) return length * length;
  return window * (window + 1) / 2 + (length - window) * window;
}

/* Drawing takes as long as this many operations of products, for each score and each time that it is made: forward
 * once, backward twice on a GPU (for dq, and for dk and dv). On an H200 with T 512 attention of a step was 8.5 ms where
 * 9.4 were planned so (heads of 64), and 11.6 of 13.3 (heads of 32). */
static const double DRAW_WORK = 40.0;

static void attention_work(const hr_op_view *view, double products, double draws, hr_cost *cost) {
  const hr_attention_args *args = view->args;
  hr_attention_cuts c = view_cuts(view);
  double scores = (double)c.batch * (double)c.heads * visible_scores(&c);
  double each = 2.0 * products * (double)c.dim + 12.0;
  if (args->dropout > 0.0f) each += draws * DRAW_WORK;
  hr__cost_stream(view, scores * each, cost);
  cost->op_class = HR_CLASS_ATTENTION;
}

static void attention_cost(const hr_op_view *view, hr_cost *cost) {
  attention_work(view, 2.0, 1.0, cost);
}

static void attention_bwd_cost(const hr_op_view *view, hr_cost *cost) {
  attention_work(view, 5.0, 2.0, cost);
}

static hr_gemm_spec product_spec(const hr_attention_cuts *c, int product, int64_t rows, int64_t width) {
  hr_gemm_spec s = {.k = c->dim, .transpose_b = true}; /* HR_SCORES */
  s.m = rows, s.n = width, s.lda = s.ldb = c->dim, s.ldc = width;
  if (product == HR_VALUES) {
    s = (hr_gemm_spec){.m = rows, .n = c->dim, .k = width, .accumulate = true};
    s.lda = width, s.ldb = s.ldc = c->dim;
  } else if (product == HR_COLUMNS) {
    s = (hr_gemm_spec){.m = c->dim, .n = width, .k = rows, .transpose_a = true, .accumulate = true};
    s.lda = c->dim, s.ldb = width, s.ldc = hr__attention_strip_ld(c);
  }
  s.a = s.b = s.c = HR_F32;
  return s;
}

static size_t floats_take(size_t *at, int64_t rows, int64_t columns) {
  size_t start = *at;
  *at += ((size_t)rows * (size_t)columns + 15) & ~(size_t)15;
  return start;
}

/* Largest workspace of any product of a whole or last panel with a strip of any width, each that differs once. */
static size_t gemm_cap(const hr_attention_cuts *c, bool backward) {
  const int64_t positions[] = {c->positions, c->length - (c->panels - 1) * c->positions};
  const int64_t kinds = hr__min(HR_WIDTHS, 2 + (c->length - 1) / HR_GRAIN);
  size_t cap = 0;
  for (int last = 0; last < 1 + (positions[1] != positions[0]); last++)
    for (int64_t kind = 0; kind < kinds; kind++)
      for (int product = 0; product < (backward ? HR_PRODUCTS : HR_COLUMNS); product++) {
        int64_t width = kind == 0 ? c->length % HR_STRIP : hr__min(kind * HR_GRAIN, c->length);
        hr_gemm_spec spec = product_spec(c, product, c->group_heads * positions[last], width);
        size_t bytes = hr__gemm_workspace(&spec, 1);
        if (bytes > cap) cap = bytes;
      }
  return cap;
}

static hr_attention_layout layout_of(const hr_attention_cuts *c, bool backward) {
  int64_t rows = c->group_heads * c->positions, width = hr__min(HR_STRIP, c->length);
  hr_attention_layout l = {0};
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
    l.dk = floats_take(&at, hr__chunks(c->length, HR_STRIP) * hr__attention_strip_ld(c), c->dim);
    l.dv = floats_take(&at, hr__chunks(c->length, HR_STRIP) * hr__attention_strip_ld(c), c->dim);
  }
  l.gemm = floats_take(&at, (int64_t)(gemm_cap(c, backward) / sizeof(float)), 1);
  l.floats = at;
  return l;
}

static size_t workspace_bytes(const hr_attention_cuts *c, bool backward, int threads) {
  int64_t workers = hr__min(threads, hr__attention_tasks(c, backward));
  return (size_t)(workers < 1 ? 1 : workers) * layout_of(c, backward).floats * sizeof(float);
}

/* On CUDA: two floats for every query in the backward kernels of our own; 16-bit types without dropout may go through
 * cuDNN. */
static size_t cuda_workspace(const hr_attention_cuts *c, hr_dtype dtype, bool dropout, bool backward) {
  size_t own = backward ? (size_t)c->batch * (size_t)c->heads * (size_t)c->length * 2 * sizeof(float) : 0;
  if (dtype == HR_F32 || dropout) return own;
  size_t cap = hr__cudnn_attention_cap(c->batch, c->length, c->heads, c->groups, c->dim, backward);
  return own > cap ? own : cap;
}

static size_t any_workspace(const hr_op_view *view, bool backward, hr_device_kind kind, int threads) {
  const hr_attention_args *args = view->args;
  hr_attention_cuts c = view_cuts(view);
  if (kind == HR_CPU) return workspace_bytes(&c, backward, threads);
  return cuda_workspace(&c, view->in[0].dtype, args->dropout > 0.0f, backward);
}

static size_t attention_workspace(const hr_op_view *view, hr_device_kind kind, int threads) {
  return any_workspace(view, false, kind, threads);
}

static size_t attention_bwd_workspace(const hr_op_view *view, hr_device_kind kind, int threads) {
  return any_workspace(view, true, kind, threads);
}

/* The products that some panel meets on some strip; m is 0 where there is none. */
static void specs_find(const hr_attention_cuts *c, bool backward, hr_gemm_spec specs[HR_PRODUCTS][2][HR_WIDTHS]) {
  memset(specs, 0, sizeof(hr_gemm_spec[HR_PRODUCTS][2][HR_WIDTHS]));
  for (int64_t index = 0; index < c->panels; index++) {
    hr_attention_panel p = hr__attention_panel(c, index);
    int64_t keys = p.keys - p.first_key, strips = (keys + HR_STRIP - 1) / HR_STRIP;
    for (int64_t s = 0; s<strips; s += strips> 2 ? strips - 1 : 1) { /* those between are as wide as the first */
      int64_t width = hr__min(HR_STRIP, keys - s * HR_STRIP);
      for (int product = 0; product < (backward ? HR_PRODUCTS : HR_COLUMNS); product++) {
        hr_gemm_spec *spec = &specs[product][p.last][hr__attention_width_kind(width)];
        if (spec->m == 0) *spec = product_spec(c, product, p.rows, width);
      }
    }
  }
}

static void any_products(const hr_op_view *view, bool backward, int threads, hr_gemm_set *set) {
  hr_gemm_spec specs[HR_PRODUCTS][2][HR_WIDTHS];
  hr_attention_cuts c = view_cuts(view);
  specs_find(&c, backward, specs);
  for (int product = 0; product < HR_PRODUCTS; product++)
    for (int last = 0; last < 2; last++)
      for (int kind = 0; kind < HR_WIDTHS; kind++)
        if (specs[product][last][kind].m > 0) hr__gemm_set_add(set, &specs[product][last][kind], threads);
}

static void attention_products(const hr_op_view *view, int threads, hr_gemm_set *set) {
  any_products(view, false, threads, set);
}

static void attention_bwd_products(const hr_op_view *view, int threads, hr_gemm_set *set) {
  any_products(view, true, threads, set);
}

static void attention_release(void *prepared) {
  hr_attention_plan *plan = prepared;
  if (!plan) return;
  hr_gemm **products = &plan->products[0][0][0];
  for (size_t i = 0; i < sizeof plan->products / sizeof *products; i++)
    hr__gemm_destroy(products[i]);
  hr__free(plan);
}

static hr_status plan_fill(hr_attention_plan *plan, bool backward, const hr_call *call, hr_error *err) {
  hr_gemm_spec specs[HR_PRODUCTS][2][HR_WIDTHS];
  specs_find(&plan->cuts, backward, specs);
  for (int product = 0; product < HR_PRODUCTS; product++)
    for (int last = 0; last < 2; last++)
      for (int kind = 0; kind < HR_WIDTHS; kind++) {
        const hr_gemm_spec *spec = &specs[product][last][kind];
        hr_gemm **gemm = &plan->products[product][last][kind];
        if (spec->m > 0) HR_TRY(hr__gemm_create(spec, call->threads, call->device, gemm, err));
      }
  return HR_OK;
}

static hr_status plan_create(const hr_call *call, bool backward, void **prepared, hr_error *err) {
  hr_attention_cuts c = cuts_of(&call->in[0].desc, call->in[backward ? 2 : 1].data == NULL, call->args);
  HR_TRY(hr__workspace_check(call, workspace_bytes(&c, backward, call->threads), err));
  hr_attention_plan *plan = hr__alloc_zero(1, sizeof *plan);
  if (!plan) return hr__nomem(err);
  plan->cuts = c;
  plan->layout = layout_of(&c, backward);
  hr_status status = plan_fill(plan, backward, call, err);
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

enum {
  CAUSAL,
  WHOLE_HEADS,
  ONE_HEAD,
  WIDE_HEADS,
  NARROW_WINDOW,
  WINDOW,
  BOTH_WAYS,
  BOTH_WAYS_LONG,
  PACKED,
  PACKED_WINDOW,
  PACKED_LONG,
  DROPS,
  DROPS_LATER, /* a slice of a batch, and another use of its module */
  DROPS_BOTH_WAYS,
  DROPS_PACKED,
  DROPS_WINDOW
};
static const hr_attention_args sample_args[] = {
    [CAUSAL] = {.heads = 4, .kv_heads = 2, .head_dim = 8, .scale = 0.35f},
    [WHOLE_HEADS] = {.heads = 2, .kv_heads = 2, .head_dim = 16, .scale = 0.25f},
    [ONE_HEAD] = {.heads = 1, .kv_heads = 1, .head_dim = 4, .scale = 0.5f},
    [WIDE_HEADS] = {.heads = 4, .kv_heads = 2, .head_dim = 32, .scale = 0.2f},
    [NARROW_WINDOW] = {.heads = 4, .kv_heads = 2, .head_dim = 8, .scale = 0.35f, .window = 3},
    [WINDOW] = {.heads = 1, .kv_heads = 1, .head_dim = 4, .scale = 0.5f, .window = 70},
    [BOTH_WAYS] = {.heads = 4, .kv_heads = 2, .head_dim = 8, .scale = 0.35f, .bidirectional = true},
    [BOTH_WAYS_LONG] = {.heads = 1, .kv_heads = 1, .head_dim = 4, .scale = 0.5f, .bidirectional = true},
    [PACKED] = {.heads = 4, .kv_heads = 2, .head_dim = 8, .scale = 0.35f, .documents = true},
    [PACKED_WINDOW] = {.heads = 4, .kv_heads = 2, .head_dim = 8, .scale = 0.35f, .window = 3, .documents = true},
    [PACKED_LONG] = {.heads = 1, .kv_heads = 1, .head_dim = 4, .scale = 0.5f, .documents = true},
    [DROPS] = {.heads = 4, .kv_heads = 2, .head_dim = 8, .scale = 0.35f, .dropout = 0.25f},
    [DROPS_LATER] = {.heads = 4, .kv_heads = 2, .head_dim = 32, .scale = 0.2f, .dropout = 0.6f, .first = 3, .use = 1},
    [DROPS_BOTH_WAYS] =
        {.heads = 4, .kv_heads = 2, .head_dim = 8, .scale = 0.35f, .bidirectional = true, .dropout = 0.1f},
    [DROPS_PACKED] = {.heads = 1, .kv_heads = 1, .head_dim = 4, .scale = 0.5f, .documents = true, .dropout = 0.1f},
    [DROPS_WINDOW] = {.heads = 1, .kv_heads = 1, .head_dim = 4, .scale = 0.5f, .window = 70, .dropout = 0.5f},
};

/* q, k and v apart, and packed; b sequences of t positions, with lengths or without. */
#define ROWS(b, t, columns)                                                                                            \
  {                                                                                                                    \
    HR_F32, 3, {                                                                                                       \
      b, t, columns                                                                                                    \
    }                                                                                                                  \
  }
#define LENGTHS(b)                                                                                                     \
  {                                                                                                                    \
    HR_I32, 1, {                                                                                                       \
      b                                                                                                                \
    }                                                                                                                  \
  }
#define STARTS(b, t)                                                                                                   \
  {                                                                                                                    \
    HR_I32, 2, {                                                                                                       \
      b, t                                                                                                             \
    }                                                                                                                  \
  }
#define CONTROL                                                                                                        \
  {                                                                                                                    \
    HR_U8, 1, {                                                                                                        \
      sizeof(hr_control)                                                                                               \
    }                                                                                                                  \
  }
#define NONE                                                                                                           \
  { 0 }
#define FORWARD(which, below, ...)                                                                                     \
  { .n_in = HR_ATTENTION_IN, .in = {__VA_ARGS__}, .args = &sample_args[which], .index_below = below }
#define BACKWARD(which, below, ...)                                                                                    \
  { .n_in = HR_ATTENTION_BWD_IN, .in = {__VA_ARGS__}, .args = &sample_args[which], .index_below = below }

/* The same with documents in a sequence. */
#define FORWARD_PACKED(which, below, ...)                                                                              \
  {                                                                                                                    \
    .n_in = HR_ATTENTION_IN, .in = {__VA_ARGS__}, .args = &sample_args[which], .index_below = below,                   \
    .index_ascends = true                                                                                              \
  }
#define BACKWARD_PACKED(which, below, ...)                                                                             \
  {                                                                                                                    \
    .n_in = HR_ATTENTION_BWD_IN, .in = {__VA_ARGS__}, .args = &sample_args[which], .index_below = below,               \
    .index_ascends = true                                                                                              \
  }

static const hr_sample attention_samples[] = {
    FORWARD(CAUSAL, 0, ROWS(2, 7, 32), ROWS(2, 7, 16), ROWS(2, 7, 16)),
    FORWARD(WHOLE_HEADS, 0, ROWS(1, 70, 32), ROWS(1, 70, 32), ROWS(1, 70, 32)),
    FORWARD(ONE_HEAD, 0, ROWS(1, 330, 4), ROWS(1, 330, 4), ROWS(1, 330, 4)),
    FORWARD(CAUSAL, 0, ROWS(2, 7, 64)),
    FORWARD(ONE_HEAD, 0, ROWS(1, 330, 12)),
    FORWARD(WIDE_HEADS, 0, ROWS(2, 70, 256)),
    FORWARD(CAUSAL, 8, ROWS(3, 7, 64), NONE, NONE, LENGTHS(3)),
    FORWARD(NARROW_WINDOW, 0, ROWS(2, 7, 32), ROWS(2, 7, 16), ROWS(2, 7, 16)),
    FORWARD(NARROW_WINDOW, 41, ROWS(3, 40, 32), ROWS(3, 40, 16), ROWS(3, 40, 16), LENGTHS(3)),
    FORWARD(WINDOW, 0, ROWS(1, 390, 12)),
    FORWARD(BOTH_WAYS, 0, ROWS(2, 7, 32), ROWS(2, 7, 16), ROWS(2, 7, 16)),
    FORWARD(BOTH_WAYS, 41, ROWS(3, 40, 64), NONE, NONE, LENGTHS(3)),
    FORWARD(BOTH_WAYS_LONG, 0, ROWS(1, 270, 12)),
    FORWARD_PACKED(PACKED, 7, ROWS(3, 7, 64), NONE, NONE, STARTS(3, 7)),
    FORWARD_PACKED(PACKED_WINDOW, 40, ROWS(3, 40, 32), ROWS(3, 40, 16), ROWS(3, 40, 16), STARTS(3, 40)),
    FORWARD_PACKED(PACKED_LONG, 600, ROWS(2, 600, 12), NONE, NONE, STARTS(2, 600)),
    FORWARD(DROPS, 0, ROWS(2, 7, 32), ROWS(2, 7, 16), ROWS(2, 7, 16), NONE, CONTROL),
    FORWARD(DROPS_LATER, 0, ROWS(2, 70, 256), NONE, NONE, NONE, CONTROL),
    FORWARD(DROPS_BOTH_WAYS, 41, ROWS(3, 40, 64), NONE, NONE, LENGTHS(3), CONTROL),
    FORWARD_PACKED(DROPS_PACKED, 600, ROWS(2, 600, 12), NONE, NONE, STARTS(2, 600), CONTROL),
    FORWARD(DROPS_WINDOW, 0, ROWS(1, 390, 12), NONE, NONE, NONE, CONTROL),
};
static const hr_sample attention_bwd_samples[] = {
    BACKWARD(CAUSAL, 0, ROWS(2, 7, 32), ROWS(2, 7, 32), ROWS(2, 7, 16), ROWS(2, 7, 16), ROWS(2, 7, 32), ROWS(2, 4, 7)),
    BACKWARD(ONE_HEAD, 0, ROWS(1, 330, 4), ROWS(1, 330, 4), ROWS(1, 330, 4), ROWS(1, 330, 4), ROWS(1, 330, 4),
             ROWS(1, 1, 330)),
    BACKWARD(CAUSAL, 0, ROWS(2, 7, 32), ROWS(2, 7, 64), NONE, NONE, ROWS(2, 7, 32), ROWS(2, 4, 7)),
    BACKWARD(ONE_HEAD, 0, ROWS(1, 330, 4), ROWS(1, 330, 12), NONE, NONE, ROWS(1, 330, 4), ROWS(1, 1, 330)),
    BACKWARD(WIDE_HEADS, 0, ROWS(2, 70, 128), ROWS(2, 70, 256), NONE, NONE, ROWS(2, 70, 128), ROWS(2, 4, 70)),
    BACKWARD(CAUSAL, 8, ROWS(3, 7, 32), ROWS(3, 7, 64), NONE, NONE, ROWS(3, 7, 32), ROWS(3, 4, 7), LENGTHS(3)),
    BACKWARD(NARROW_WINDOW, 0, ROWS(2, 7, 32), ROWS(2, 7, 32), ROWS(2, 7, 16), ROWS(2, 7, 16), ROWS(2, 7, 32),
             ROWS(2, 4, 7)),
    BACKWARD(NARROW_WINDOW, 41, ROWS(3, 40, 32), ROWS(3, 40, 32), ROWS(3, 40, 16), ROWS(3, 40, 16), ROWS(3, 40, 32),
             ROWS(3, 4, 40), LENGTHS(3)),
    BACKWARD(WINDOW, 0, ROWS(1, 390, 4), ROWS(1, 390, 12), NONE, NONE, ROWS(1, 390, 4), ROWS(1, 1, 390)),
    BACKWARD(BOTH_WAYS, 0, ROWS(2, 7, 32), ROWS(2, 7, 32), ROWS(2, 7, 16), ROWS(2, 7, 16), ROWS(2, 7, 32),
             ROWS(2, 4, 7)),
    BACKWARD(BOTH_WAYS, 41, ROWS(3, 40, 32), ROWS(3, 40, 64), NONE, NONE, ROWS(3, 40, 32), ROWS(3, 4, 40), LENGTHS(3)),
    BACKWARD(BOTH_WAYS_LONG, 0, ROWS(1, 270, 4), ROWS(1, 270, 12), NONE, NONE, ROWS(1, 270, 4), ROWS(1, 1, 270)),
    BACKWARD_PACKED(PACKED, 7, ROWS(3, 7, 32), ROWS(3, 7, 64), NONE, NONE, ROWS(3, 7, 32), ROWS(3, 4, 7), STARTS(3, 7)),
    BACKWARD_PACKED(PACKED_WINDOW, 40, ROWS(3, 40, 32), ROWS(3, 40, 32), ROWS(3, 40, 16), ROWS(3, 40, 16),
                    ROWS(3, 40, 32), ROWS(3, 4, 40), STARTS(3, 40)),
    BACKWARD_PACKED(PACKED_LONG, 600, ROWS(2, 600, 4), ROWS(2, 600, 12), NONE, NONE, ROWS(2, 600, 4), ROWS(2, 1, 600),
                    STARTS(2, 600)),
    BACKWARD(DROPS, 0, ROWS(2, 7, 32), ROWS(2, 7, 32), ROWS(2, 7, 16), ROWS(2, 7, 16), ROWS(2, 7, 32), ROWS(2, 4, 7),
             NONE, CONTROL),
    BACKWARD(DROPS_LATER, 0, ROWS(2, 70, 128), ROWS(2, 70, 256), NONE, NONE, ROWS(2, 70, 128), ROWS(2, 4, 70), NONE,
             CONTROL),
    BACKWARD(DROPS_BOTH_WAYS, 41, ROWS(3, 40, 32), ROWS(3, 40, 64), NONE, NONE, ROWS(3, 40, 32), ROWS(3, 4, 40),
             LENGTHS(3), CONTROL),
    BACKWARD_PACKED(DROPS_PACKED, 600, ROWS(2, 600, 4), ROWS(2, 600, 12), NONE, NONE, ROWS(2, 600, 4), ROWS(2, 1, 600),
                    STARTS(2, 600), CONTROL),
    BACKWARD(DROPS_WINDOW, 0, ROWS(1, 390, 4), ROWS(1, 390, 12), NONE, NONE, ROWS(1, 390, 4), ROWS(1, 1, 390), NONE,
             CONTROL),
};

const hr_op hr_op_attention = {
    .name = "attention",
    .n_in = HR_ATTENTION_IN,
    .n_out = 2,
    .optional = 1u << 1 | 1u << 2 | 1u << 3 | 1u << 4,
    .random = true,
    .sample_at = offsetof(hr_attention_args, first),
    .args_bytes = sizeof(hr_attention_args),
    .saves =
        HR_SAVE_IN(0) | HR_SAVE_IN(1) | HR_SAVE_IN(2) | HR_SAVE_IN(3) | HR_SAVE_IN(4) | HR_SAVE_OUT(0) | HR_SAVE_OUT(1),
    .computes = 1u << 0 | 1u << 1 | 1u << 2,
    .axes = HR_AXES_BATCH,
    .shares = 1u << 4,
    .dtypes = {[HR_CPU] = HR_FLOATS, [HR_CUDA] = HR_FLOATS},
    .shape = attention_shape,
    .grad = attention_grad,
    .cost = attention_cost,
    .workspace = attention_workspace,
    .products = attention_products,
    .cpu = {.prepare = attention_prepare, .release = attention_release, .run = hr__attention_run},
    .samples = attention_samples,
    .n_samples = sizeof attention_samples / sizeof *attention_samples,
};

const hr_op hr_op_attention_bwd = {
    .name = "attention_bwd",
    .n_in = HR_ATTENTION_BWD_IN,
    .n_out = 3,
    .optional = 1u << 2 | 1u << 3 | 1u << 6 | 1u << 7,
    .random = true,
    .sample_at = offsetof(hr_attention_args, first),
    .args_bytes = sizeof(hr_attention_args),
    .axes = HR_AXES_BATCH,
    .shares = 1u << 7,
    .dtypes = {[HR_CPU] = HR_FLOATS, [HR_CUDA] = HR_FLOATS},
    .shape = attention_bwd_shape,
    .cost = attention_bwd_cost,
    .workspace = attention_bwd_workspace,
    .products = attention_bwd_products,
    .cpu = {.prepare = attention_bwd_prepare, .release = attention_release, .run = hr__attention_bwd_run},
    .samples = attention_bwd_samples,
    .n_samples = sizeof attention_bwd_samples / sizeof *attention_bwd_samples,
};
