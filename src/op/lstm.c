/* lstm on the CPU: a product for every step, over all samples at once, and the gates of it sample by sample. Backward
 * goes the same way back; the weight's gradient is one product behind it, over all positions.
 */
#include "op/lstm.h"

#include <string.h>

#include "base/mem.h"
#include "base/simd_math.h"
#include "graph/adjoint.h"
#include "op/linear.h"
#include "op/pointwise.h"
#include "op/product.h"
#include "op/shapes.h"
#include "op/stream.h"

enum { UNITS = 256 }; /* of h in hand at once */

hr_id hr__lstm(hr_builder *b, hr_id x, hr_id weight, hr_id lengths, bool reverse) {
  hr_lstm_args args = {reverse};
  return hr__emit(b, &hr_op_lstm, (hr_id[]){x, weight, lengths}, 3, &args);
}

/* ---- rules ---- */

/* h [B, T, H] of x, which is four times as wide. */
static hr_status width_of(const hr_desc *x, hr_desc *h, hr_error *err) {
  if (x->rank != 3 || x->dim[2] % HR_LSTM_GATES != 0)
    return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "gates come as [batch, length, 4 width], not of rank %d and %lld",
                    x->rank, (long long)hr_desc_columns(x));
  *h = *x;
  h->dim[2] = x->dim[2] / HR_LSTM_GATES;
  return HR_OK;
}

static hr_status weight_and_lengths(const hr_op_view *view, const hr_desc *h, int lengths, hr_error *err) {
  hr_desc weight = {h->dtype, 2, {HR_LSTM_GATES * h->dim[2], h->dim[2]}}, counts = {HR_I32, 1, {h->dim[0]}};
  HR_TRY(hr__shape_like(view, 1, &weight, err));
  return hr__shape_like(view, lengths, &counts, err);
}

static hr_status lstm_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  HR_TRY(hr__shape_operands(view, 3, 1u << 2, err));
  HR_TRY(hr__shape_float(view, 0, err));
  HR_TRY(width_of(&view->in[0], &out[0], err));
  HR_TRY(weight_and_lengths(view, &out[0], 2, err));
  out[1] = view->in[0];
  out[2] = out[0];
  out[2].dtype = HR_F32;
  return HR_OK;
}

static hr_status lstm_bwd_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  hr_desc h;
  HR_TRY(hr__shape_operands(view, 5, 1u << 4, err));
  HR_TRY(hr__shape_float(view, 0, err));
  HR_TRY(hr__shape_float(view, 2, err));
  out[0] = view->in[2];
  HR_TRY(width_of(&out[0], &h, err));
  HR_TRY(hr__shape_like(view, 0, &h, err));
  HR_TRY(weight_and_lengths(view, &h, 4, err));
  h.dtype = HR_F32;
  return hr__shape_like(view, 3, &h, err);
}

/* dW is a product of the gates' gradients with h of the step before each, which lies one position beside it. */
static void lstm_grad(hr_adjoint *a, const hr_node *node) {
  hr_builder *b = hr__adjoint_builder(a);
  hr_id dh = hr__out_grad(a, 0);
  if (dh == HR_NONE) return;
  const hr_lstm_args *args = node->args;
  hr_id lengths = node->in[2] == HR_NONE ? HR_NONE : hr__saved_in(a, 2);
  hr_id in[] = {dh, hr__saved_in(a, 1), hr__saved_out(a, 1), hr__saved_out(a, 2), lengths};
  hr_id dx = hr__emit(b, &hr_op_lstm_bwd, in, 5, args);
  if (dx == HR_NONE) return;
  if (hr__wants_grad(a, 1)) {
    int64_t length = b->graph->values[node->out[0]].desc.dim[1];
    hr_id before = hr__window(b, hr__saved_out(a, 0), 1, args->reverse ? 1 : -1, length);
    hr_id product[] = {dx, before, hr__grad_partial(a, 1)};
    hr__grad_set(a, 1, hr__emit(b, &hr_op_linear_dw, product, 3, &(hr_linear_gradient_args){hr__grad_dtype(a, 1)}));
  }
  if (hr__wants_grad(a, 0)) hr__grad_add(a, 0, dx);
}

/* The product of one step. */
static hr_gemm_spec step_spec(const hr_lstm_walk *w, hr_dtype dtype, bool backward) {
  int64_t gates = HR_LSTM_GATES * w->width, k = backward ? gates : w->width, n = backward ? w->width : gates;
  return (hr_gemm_spec){.m = w->batch,
                        .n = n,
                        .k = k,
                        .lda = k,
                        .ldb = w->width,
                        .ldc = n,
                        .transpose_b = !backward,
                        .a = dtype,
                        .b = dtype,
                        .c = HR_F32};
}

static hr_lstm_walk view_walk(const hr_op_view *view, bool backward) {
  return hr__lstm_walk(backward ? &view->in[0] : &view->out[0], view->args);
}

static void steps_cost(const hr_op_view *view, bool backward, hr_cost *cost) {
  hr_lstm_walk w = view_walk(view, backward);
  hr_gemm_spec spec = step_spec(&w, view->in[0].dtype, backward);
  *cost = (hr_cost){.op_class = HR_CLASS_PRODUCT, .products = {hr__product_of(&spec)}, .n_products = 1};
  cost->products[0].times = w.length;
  double units = (double)(w.batch * w.length * w.width);
  cost->flops = 2.0 * units * (double)(HR_LSTM_GATES * w.width) + 100.0 * units;
  cost->bytes = units * (double)(2 * HR_LSTM_GATES + 2) * (double)hr_dtype_bytes(view->in[0].dtype);
}

static void lstm_cost(const hr_op_view *view, hr_cost *cost) {
  steps_cost(view, false, cost);
}

static void lstm_bwd_cost(const hr_op_view *view, hr_cost *cost) {
  steps_cost(view, true, cost);
}

/* Scratch: states of all samples [B, H] in f32, the product's result, its operand, and what the product takes. */
typedef struct desk {
  float *state, *product;
  void *operand;
  char *scratch;
} desk;

static size_t aligned_up(size_t bytes) {
  return (bytes + 63) / 64 * 64;
}

static size_t desk_lay(const hr_lstm_walk *w, hr_dtype dtype, bool backward, int threads, void *base, desk *d) {
  hr_gemm_spec spec = step_spec(w, dtype, backward);
  size_t units = (size_t)(w->batch * w->width), at = 0;
  char *from = base;
  desk laid = {.state = (float *)from};
  at += aligned_up(units * sizeof(float));
  laid.product = (float *)(from + at);
  at += aligned_up((size_t)(spec.m * spec.n) * sizeof(float));
  laid.operand = from + at;
  at += aligned_up((size_t)(spec.m * spec.k) * hr_dtype_bytes(dtype));
  laid.scratch = from + at;
  if (d) *d = laid;
  return at + hr__gemm_workspace(&spec, threads);
}

static size_t steps_workspace(const hr_op_view *view, bool backward, hr_device_kind kind, int threads) {
  hr_lstm_walk w = view_walk(view, backward);
  static char base[1]; /* only distances count */
  if (kind == HR_CPU) return desk_lay(&w, view->in[0].dtype, backward, threads, base, NULL);
  return backward ? (size_t)(w.batch * w.width) * sizeof(float) : 0;
}

static size_t lstm_workspace(const hr_op_view *view, hr_device_kind kind, int threads) {
  return steps_workspace(view, false, kind, threads);
}

static size_t lstm_bwd_workspace(const hr_op_view *view, hr_device_kind kind, int threads) {
  return steps_workspace(view, true, kind, threads);
}

static void lstm_products(const hr_op_view *view, int threads, hr_gemm_set *set) {
  hr_lstm_walk w = view_walk(view, false);
  hr_gemm_spec spec = step_spec(&w, view->in[0].dtype, false);
  hr__gemm_set_add(set, &spec, threads);
}

static void lstm_bwd_products(const hr_op_view *view, int threads, hr_gemm_set *set) {
  hr_lstm_walk w = view_walk(view, true);
  hr_gemm_spec spec = step_spec(&w, view->in[0].dtype, true);
  hr__gemm_set_add(set, &spec, threads);
}

/* On a GPU one step after another. */
static int64_t lstm_launches(const hr_op_view *view) {
  return view_walk(view, false).length;
}

static int64_t lstm_bwd_launches(const hr_op_view *view) {
  return view_walk(view, true).length;
}

/* ---- CPU ---- */

static hr_lstm_walk call_walk(const hr_call *call, bool backward) {
  return hr__lstm_walk(backward ? &call->in[0].desc : &call->out[0].desc, call->args);
}

static hr_status steps_prepare(const hr_call *call, bool backward, void **prepared, hr_error *err) {
  hr_lstm_walk w = call_walk(call, backward);
  hr_gemm_spec spec = step_spec(&w, call->in[0].desc.dtype, backward);
  hr_gemm *gemm = NULL;
  HR_TRY(hr__workspace_check(call, desk_lay(&w, call->in[0].desc.dtype, backward, call->threads, call->workspace, NULL),
                             err));
  HR_TRY(hr__product_make(&gemm, spec, call, err));
  *prepared = gemm;
  return HR_OK;
}

static hr_status lstm_prepare(const hr_call *call, void **prepared, hr_error *err) {
  return steps_prepare(call, false, prepared, err);
}

static hr_status lstm_bwd_prepare(const hr_call *call, void **prepared, hr_error *err) {
  return steps_prepare(call, true, prepared, err);
}

static void steps_release(void *prepared) {
  hr__gemm_destroy(prepared);
}

/* One step of all samples. */
typedef struct stepping {
  const hr_call *call;
  hr_lstm_walk w;
  desk d;
  int64_t step;
} stepping;

static int64_t valid_positions(const hr_tensor *lengths, const hr_lstm_walk *w, int64_t sample) {
  if (!lengths->data) return w->length;
  int64_t n = ((const int32_t *)lengths->data)[sample];
  return n < 0 ? 0 : hr__min(n, w->length);
}

static int64_t position_of(const hr_lstm_walk *w, int64_t valid, int64_t step) {
  return w->reverse && step < valid ? valid - 1 - step : step;
}

/* `n` elements of a tensor as zeros. */
static void zeros_put(const hr_tensor *tensor, int64_t at, int64_t n) {
  size_t bytes = hr_dtype_bytes(tensor->desc.dtype);
  memset((char *)tensor->data + (size_t)at * bytes, 0, (size_t)n * bytes);
}

HR_INLINE float sigmoid(float x) {
  return 1.0f / (1.0f + hr__expf(-x));
}

/* Units [first, first + n) of a sample at its position `row`: gates, cells and h, from x and the product. */
HR_CLONES static void units_forward(const stepping *s, int64_t sample, int64_t row, int64_t first, int64_t n) {
  const hr_call *call = s->call;
  int64_t width = s->w.width;
  float *state = s->d.state + sample * width + first, *cell = (float *)call->out[2].data + row * width + first;
  float scratch[HR_LSTM_GATES][UNITS], h[UNITS];
  float *gate[HR_LSTM_GATES];
  for (int g = 0; g < HR_LSTM_GATES; g++) {
    int64_t at = (row * HR_LSTM_GATES + g) * width + first;
    float block[UNITS];
    const float *x = hr__load(&call->in[0], at, n, block);
    const float *product = s->d.product + (sample * HR_LSTM_GATES + g) * width + first;
    gate[g] = hr__target(&call->out[1], at, scratch[g]);
    bool recurs = s->step > 0;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
      float sum = recurs ? x[i] + product[i] : x[i];
      gate[g][i] = g == 2 ? hr__tanhf(sum) : sigmoid(sum);
    }
  }
  bool recurs = s->step > 0;
#pragma omp simd
  for (int64_t i = 0; i < n; i++) {
    float c = gate[0][i] * gate[2][i] + (recurs ? gate[1][i] * state[i] : 0.0f);
    state[i] = c;
    cell[i] = c;
    h[i] = gate[3][i] * hr__tanhf(c);
  }
  for (int g = 0; g < HR_LSTM_GATES; g++)
    hr__store(&call->out[1], (row * HR_LSTM_GATES + g) * width + first, n, gate[g]);
  hr_tensor operand = {.data = s->d.operand, .desc = call->out[0].desc};
  const hr_tensor *to[] = {&call->out[0], &operand};
  const int64_t places[] = {row * width + first, sample * width + first};
  for (int k = 0; k < 2; k++) {
    float *target = hr__target(to[k], places[k], h);
    if (target != h) memcpy(target, h, (size_t)n * sizeof *h);
    hr__store(to[k], places[k], n, h);
  }
}

static void forward_task(void *arg, int64_t sample, int worker) {
  const stepping *s = arg;
  const hr_call *call = s->call;
  int64_t width = s->w.width, valid = valid_positions(&call->in[2], &s->w, sample);
  int64_t row = sample * s->w.length + position_of(&s->w, valid, s->step);
  (void)worker;
  if (s->step >= valid) {
    zeros_put(&call->out[0], row * width, width);
    zeros_put(&call->out[1], row * HR_LSTM_GATES * width, HR_LSTM_GATES * width);
    zeros_put(&call->out[2], row * width, width);
    hr_tensor operand = {.data = s->d.operand, .desc = call->out[0].desc};
    zeros_put(&operand, sample * width, width); /* the product reads it all the same */
    return;
  }
  for (int64_t first = 0; first < width; first += UNITS)
    units_forward(s, sample, row, first, hr__min(UNITS, width - first));
}

static hr_status lstm_run(const hr_call *call) {
  stepping s = {.call = call, .w = call_walk(call, false)};
  desk_lay(&s.w, call->in[0].desc.dtype, false, call->threads, call->workspace, &s.d);
  for (s.step = 0; s.step < s.w.length; s.step++) {
    if (s.step > 0)
      HR_TRY(hr__gemm_run(call->prepared, call->device->pool, call->threads, s.d.operand, call->in[1].data, s.d.product,
                          s.d.scratch));
    hr__pool_run(call->device->pool, call->threads, s.w.batch, forward_task, &s);
  }
  return HR_OK;
}

/* Gradients of the gates of units [first, first + n), and what of the cells' goes on to the step before. `before`: the
 * row of that step; -1: this is the first. `follows`: a step behind this one has given gradients. */
HR_CLONES static void units_backward(const stepping *s, int64_t sample, int64_t row, int64_t before, bool follows,
                                     int64_t first, int64_t n) {
  const hr_call *call = s->call;
  int64_t width = s->w.width;
  float loaded[HR_LSTM_GATES][UNITS], made[HR_LSTM_GATES][UNITS], dh_block[UNITS];
  const float *gate[HR_LSTM_GATES], *cells = call->in[3].data;
  for (int g = 0; g < HR_LSTM_GATES; g++)
    gate[g] = hr__load(&call->in[2], (row * HR_LSTM_GATES + g) * width + first, n, loaded[g]);
  const float *dh = hr__load(&call->in[0], row * width + first, n, dh_block);
  const float *cell = cells + row * width + first, *earlier = before < 0 ? cell : cells + before * width + first;
  const float *back = s->d.product + sample * width + first;
  float *state = s->d.state + sample * width + first;
#pragma omp simd
  for (int64_t i = 0; i < n; i++) {
    float in = gate[0][i], forget = gate[1][i], new = gate[2][i], out = gate[3][i], t = hr__tanhf(cell[i]);
    float dy = follows ? dh[i] + back[i] : dh[i];
    float dc = dy * out * (1.0f - t * t) + (follows ? state[i] : 0.0f);
    made[0][i] = dc * new *in *(1.0f - in);
    made[1][i] = before < 0 ? 0.0f : dc * earlier[i] * forget * (1.0f - forget);
    made[2][i] = dc * in * (1.0f - new *new);
    made[3][i] = dy * t * out * (1.0f - out);
    state[i] = dc * forget;
  }
  hr_tensor operand = {.data = s->d.operand, .desc = call->out[0].desc};
  const hr_tensor *to[] = {&call->out[0], &operand};
  for (int g = 0; g < HR_LSTM_GATES; g++) {
    const int64_t places[] = {(row * HR_LSTM_GATES + g) * width + first, (sample * HR_LSTM_GATES + g) * width + first};
    for (int k = 0; k < 2; k++) {
      float *target = hr__target(to[k], places[k], made[g]);
      if (target != made[g]) memcpy(target, made[g], (size_t)n * sizeof *target);
      hr__store(to[k], places[k], n, made[g]);
    }
  }
}

static void backward_task(void *arg, int64_t sample, int worker) {
  const stepping *s = arg;
  const hr_call *call = s->call;
  int64_t width = s->w.width, valid = valid_positions(&call->in[4], &s->w, sample), first_row = sample * s->w.length;
  int64_t row = first_row + position_of(&s->w, valid, s->step);
  (void)worker;
  if (s->step >= valid) {
    zeros_put(&call->out[0], row * HR_LSTM_GATES * width, HR_LSTM_GATES * width);
    hr_tensor operand = {.data = s->d.operand, .desc = call->out[0].desc};
    zeros_put(&operand, sample * HR_LSTM_GATES * width, HR_LSTM_GATES * width);
    return;
  }
  int64_t before = s->step == 0 ? -1 : first_row + position_of(&s->w, valid, s->step - 1);
  for (int64_t first = 0; first < width; first += UNITS)
    units_backward(s, sample, row, before, s->step + 1 < valid, first, hr__min(UNITS, width - first));
}

static hr_status lstm_bwd_run(const hr_call *call) {
  stepping s = {.call = call, .w = call_walk(call, true)};
  desk_lay(&s.w, call->in[0].desc.dtype, true, call->threads, call->workspace, &s.d);
  for (s.step = s.w.length - 1; s.step >= 0; s.step--) {
    if (s.step + 1 < s.w.length)
      HR_TRY(hr__gemm_run(call->prepared, call->device->pool, call->threads, s.d.operand, call->in[1].data, s.d.product,
                          s.d.scratch));
    hr__pool_run(call->device->pool, call->threads, s.w.batch, backward_task, &s);
  }
  return HR_OK;
}

/* ---- samples ---- */

static const hr_sample lstm_samples[] = {
    {.n_in = 3, .in = {{HR_F32, 3, {3, 5, 32}}, {HR_F32, 2, {32, 8}}}, .args = &(const hr_lstm_args){false}},
    {.n_in = 3,
     .in = {{HR_F32, 3, {4, 6, 20}}, {HR_F32, 2, {20, 5}}, {HR_I32, 1, {4}}},
     .args = &(const hr_lstm_args){false},
     .index_below = 7},
    {.n_in = 3,
     .in = {{HR_F32, 3, {6, 4, 148}}, {HR_F32, 2, {148, 37}}, {HR_I32, 1, {6}}},
     .args = &(const hr_lstm_args){true},
     .index_below = 5},
    {.n_in = 3, .in = {{HR_F32, 3, {2, 2, 1040}}, {HR_F32, 2, {1040, 260}}}, .args = &(const hr_lstm_args){true}},
};
static const hr_sample lstm_bwd_samples[] = {
    {.n_in = 5,
     .in = {{HR_F32, 3, {3, 5, 8}}, {HR_F32, 2, {32, 8}}, {HR_F32, 3, {3, 5, 32}}, {HR_F32, 3, {3, 5, 8}}},
     .args = &(const hr_lstm_args){false}},
    {.n_in = 5,
     .in = {{HR_F32, 3, {6, 4, 37}},
            {HR_F32, 2, {148, 37}},
            {HR_F32, 3, {6, 4, 148}},
            {HR_F32, 3, {6, 4, 37}},
            {HR_I32, 1, {6}}},
     .args = &(const hr_lstm_args){true},
     .index_below = 5},
    {.n_in = 5,
     .in = {{HR_F32, 3, {2, 2, 260}},
            {HR_F32, 2, {1040, 260}},
            {HR_F32, 3, {2, 2, 1040}},
            {HR_F32, 3, {2, 2, 260}},
            {HR_I32, 1, {2}}},
     .args = &(const hr_lstm_args){false},
     .index_below = 3},
};

const hr_op hr_op_lstm = {
    .name = "lstm",
    .n_in = 3,
    .n_out = 3,
    .optional = 1u << 2,
    .args_bytes = sizeof(hr_lstm_args),
    .saves = HR_SAVE_IN(1) | HR_SAVE_IN(2) | HR_SAVE_OUT(0) | HR_SAVE_OUT(1) | HR_SAVE_OUT(2),
    .computes = 1u << 0 | 1u << 1,
    .axes = HR_AXES_BATCH,
    .shares = 1u << 1,
    .dtypes = {[HR_CPU] = HR_FLOATS, [HR_CUDA] = HR_FLOATS},
    .shape = lstm_shape,
    .grad = lstm_grad,
    .cost = lstm_cost,
    .workspace = lstm_workspace,
    .launches = lstm_launches,
    .products = lstm_products,
    .cpu = {.prepare = lstm_prepare, .release = steps_release, .run = lstm_run},
    .samples = lstm_samples,
    .n_samples = sizeof lstm_samples / sizeof *lstm_samples,
};

const hr_op hr_op_lstm_bwd = {
    .name = "lstm_bwd",
    .n_in = 5,
    .n_out = 1,
    .optional = 1u << 4,
    .args_bytes = sizeof(hr_lstm_args),
    .axes = HR_AXES_BATCH,
    .shares = 1u << 1,
    .dtypes = {[HR_CPU] = HR_FLOATS, [HR_CUDA] = HR_FLOATS},
    .shape = lstm_bwd_shape,
    .cost = lstm_bwd_cost,
    .workspace = lstm_bwd_workspace,
    .launches = lstm_bwd_launches,
    .products = lstm_bwd_products,
    .cpu = {.prepare = lstm_bwd_prepare, .release = steps_release, .run = lstm_bwd_run},
    .samples = lstm_bwd_samples,
    .n_samples = sizeof lstm_bwd_samples / sizeof *lstm_bwd_samples,
};
