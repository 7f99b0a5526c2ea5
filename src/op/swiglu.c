/* swiglu: y = silu(gate) * up, geglu: y = gelu(gate) * up, and their gradients. A gate lets a part s of itself
 * through: act(g) = g s(g). */
#include "op/swiglu.h"

#include "graph/adjoint.h"
#include "op/gelu_tanh.h"
#include "op/shapes.h"

enum { UP = 1, BWD_UP = 2 }; /* operand numbers */

hr_id hr__swiglu(hr_builder *b, hr_id gate, hr_id up) {
  return hr__emit(b, &hr_op_swiglu, (hr_id[]){gate, up}, 2, NULL);
}

hr_id hr__geglu(hr_builder *b, hr_id gate, hr_id up) {
  return hr__emit(b, &hr_op_geglu, (hr_id[]){gate, up}, 2, NULL);
}

static hr_status swiglu_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  HR_TRY(hr__shape_operands(view, 2, 1u << UP, err));
  HR_TRY(hr__shape_float(view, 0, err));
  HR_TRY(hr__shape_like(view, UP, &view->in[0], err));
  out[0] = view->in[0];
  if (view->in[UP].rank) return HR_OK;
  int64_t columns = hr_desc_columns(&view->in[0]);
  if (columns % 2 != 0)
    return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "%lld columns are not as many gates as ups", (long long)columns);
  out[0].dim[out[0].rank - 1] = columns / 2;
  return HR_OK;
}

static void swiglu_grad(hr_adjoint *a, const hr_node *node) {
  hr_builder *b = hr__adjoint_builder(a);
  hr_id dy = hr__out_grad(a, 0);
  const hr_op *backward = node->op == &hr_op_geglu ? &hr_op_geglu_bwd : &hr_op_swiglu_bwd;
  if (dy == HR_NONE) return;
  hr_id in[] = {dy, hr__saved_in(a, 0), hr__saved_in(a, UP)};
  hr_id dg = hr__emit(b, backward, in, 3, NULL);
  hr__grad_add(a, 0, dg);
  hr__grad_add(a, UP, hr__node_out(b, dg, 1));
}

static void swiglu_cost(const hr_op_view *view, hr_cost *cost) {
  hr__cost_stream(view, 20.0 * (double)hr_desc_count(&view->out[0]), cost);
}

/* Where gate and up of neighbouring elements of y lie. */
typedef struct pair_view {
  const hr_tensor *gate, *up; /* one tensor when packed */
  int64_t gate_at, up_at;
  int64_t n; /* elements of y in one block: those of one row when packed */
} pair_view;

/* The block of y, a tensor with `columns`, that begins at element `at` and ends at `end` or before. */
HR_INLINE pair_view pair_of(const hr_tensor *gate, const hr_tensor *up, int64_t columns, int64_t at, int64_t end) {
  int64_t n = hr__min(HR_BLOCK, end - at);
  if (up->data) return (pair_view){gate, up, at, at, n};
  int64_t row = at / columns, column = at % columns, gate_at = 2 * row * columns + column;
  return (pair_view){gate, gate, gate_at, gate_at + columns, hr__min(n, columns - column)};
}

/* s of the gate g. */
HR_INLINE float part_of(float g, bool gelu) {
  return gelu ? hr__gelu_tanh_part(g) : 1.0f / (1.0f + hr__expf(-g));
}

HR_INLINE void gated(const hr_call *call, int64_t task, bool gelu) {
  const hr_desc *whole = &call->out[0].desc;
  hr_range chunk = hr__chunk(hr_desc_count(whole), HR_CHUNK, task);
  float gate_block[HR_BLOCK], up_block[HR_BLOCK];

  for (int64_t at = chunk.first, n; at < chunk.end; at += n) {
    pair_view pair = pair_of(&call->in[0], &call->in[UP], hr_desc_columns(whole), at, chunk.end);
    n = pair.n;
    const float *gate = hr__load(pair.gate, pair.gate_at, n, gate_block);
    const float *up = hr__load(pair.up, pair.up_at, n, up_block);
    float *y = hr__target(&call->out[0], at, gate_block);
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
      y[i] = (gelu ? gate[i] * part_of(gate[i], true) : gate[i] / (1.0f + hr__expf(-gate[i]))) * up[i];
    hr__store(&call->out[0], at, n, y);
  }
}

HR_CLONES static void swiglu_task(void *arg, int64_t task, int worker) {
  (void)worker;
  gated(arg, task, false);
}

HR_CLONES static void geglu_task(void *arg, int64_t task, int worker) {
  (void)worker;
  gated(arg, task, true);
}

static hr_status swiglu_run(const hr_call *call) {
  hr__run_chunks(call, hr_desc_count(&call->out[0].desc), swiglu_task);
  return HR_OK;
}

static hr_status geglu_run(const hr_call *call) {
  hr__run_chunks(call, hr_desc_count(&call->out[0].desc), geglu_task);
  return HR_OK;
}

/* ---- swiglu_bwd, geglu_bwd: dy, gate, up? -> dgate, dup
 *
 * dup = dy * gate * s,  dgate = dy * up * (slope of act); that of silu is s * (1 + gate * (1 - s)). */

static hr_status swiglu_bwd_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  HR_TRY(hr__shape_operands(view, 3, 1u << BWD_UP, err));
  HR_TRY(hr__shape_float(view, 0, err));
  bool packed = view->in[BWD_UP].rank == 0;
  hr_desc gate = view->in[0];
  if (packed) gate.dim[gate.rank - 1] *= 2;
  HR_TRY(hr__shape_like(view, 1, &gate, err));
  HR_TRY(hr__shape_like(view, BWD_UP, &gate, err));
  out[0] = gate;
  out[1] = packed ? hr__desc1(gate.dtype, 0) : gate;
  return HR_OK;
}

static void swiglu_bwd_cost(const hr_op_view *view, hr_cost *cost) {
  hr__cost_stream(view, 26.0 * (double)hr_desc_count(&view->in[0]), cost);
}

HR_INLINE void gated_bwd(const hr_call *call, int64_t task, bool gelu) {
  const hr_desc *whole = &call->in[0].desc;
  const hr_tensor *to_gate = &call->out[0], *to_up = call->in[BWD_UP].data ? &call->out[1] : to_gate;
  hr_range chunk = hr__chunk(hr_desc_count(whole), HR_CHUNK, task);
  float dy_block[HR_BLOCK], gate_block[HR_BLOCK], up_block[HR_BLOCK];

  for (int64_t at = chunk.first, n; at < chunk.end; at += n) {
    pair_view pair = pair_of(&call->in[1], &call->in[BWD_UP], hr_desc_columns(whole), at, chunk.end);
    n = pair.n;
    const float *dy = hr__load(&call->in[0], at, n, dy_block);
    const float *gate = hr__load(pair.gate, pair.gate_at, n, gate_block);
    const float *up = hr__load(pair.up, pair.up_at, n, up_block);
    float *dgate = hr__target(to_gate, pair.gate_at, gate_block), *dup = hr__target(to_up, pair.up_at, up_block);
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
      float d = dy[i], g = gate[i], u = up[i], s = part_of(g, gelu);
      dgate[i] = gelu ? d * u * hr__gelu_tanh_slope(g, s) : d * u * s * (1.0f + g * (1.0f - s));
      dup[i] = d * g * s;
    }
    hr__store(to_gate, pair.gate_at, n, dgate);
    hr__store(to_up, pair.up_at, n, dup);
  }
}

HR_CLONES static void swiglu_bwd_task(void *arg, int64_t task, int worker) {
  (void)worker;
  gated_bwd(arg, task, false);
}

HR_CLONES static void geglu_bwd_task(void *arg, int64_t task, int worker) {
  (void)worker;
  gated_bwd(arg, task, true);
}

static hr_status swiglu_bwd_run(const hr_call *call) {
  hr__run_chunks(call, hr_desc_count(&call->in[0].desc), swiglu_bwd_task);
  return HR_OK;
}

static hr_status geglu_bwd_run(const hr_call *call) {
  hr__run_chunks(call, hr_desc_count(&call->in[0].desc), geglu_bwd_task);
  return HR_OK;
}

static const hr_sample swiglu_samples[] = {
    {.n_in = 2, .in = {{HR_F32, 3, {2, 16, 96}}, {HR_F32, 3, {2, 16, 96}}}},
    {.n_in = 2, .in = {{HR_F32, 2, {5, 19}}, {HR_F32, 2, {5, 19}}}},
    {.n_in = 2, .in = {{HR_F32, 2, {67, 1031}}, {HR_F32, 2, {67, 1031}}}},
    {.n_in = 2, .in = {{HR_F32, 3, {2, 16, 192}}}},
    {.n_in = 2, .in = {{HR_F32, 2, {37, 2 * 1031}}}},
};

static const hr_sample swiglu_bwd_samples[] = {
    {.n_in = 3, .in = {{HR_F32, 3, {2, 16, 96}}, {HR_F32, 3, {2, 16, 96}}, {HR_F32, 3, {2, 16, 96}}}},
    {.n_in = 3, .in = {{HR_F32, 2, {5, 19}}, {HR_F32, 2, {5, 19}}, {HR_F32, 2, {5, 19}}}},
    {.n_in = 3, .in = {{HR_F32, 2, {67, 1031}}, {HR_F32, 2, {67, 1031}}, {HR_F32, 2, {67, 1031}}}},
    {.n_in = 3, .in = {{HR_F32, 3, {2, 16, 96}}, {HR_F32, 3, {2, 16, 192}}}},
    {.n_in = 3, .in = {{HR_F32, 2, {37, 1031}}, {HR_F32, 2, {37, 2 * 1031}}}},
};

/* What the ops of all gates have in common; samples are the same. */
#define GATED(gate)                                                                                                    \
  .name = #gate, .n_in = 2, .n_out = 1, .light = true, .optional = 1u << UP, .saves = HR_SAVE_IN(0) | HR_SAVE_IN(UP),  \
  .computes = 1u << 0 | 1u << UP, .alias = {{0, 0, HR_ALIAS_MAY}, {1, 0, HR_ALIAS_MAY}}, .n_alias = 2,                 \
  .axes = HR_AXES_ROWS, /* packed, columns belong together */                                                          \
      .dtypes = {[HR_CPU] = HR_FLOATS, [HR_CUDA] = HR_FLOATS}, .shape = swiglu_shape, .grad = swiglu_grad,             \
  .cost = swiglu_cost, .cpu = {.run = gate##_run}, .samples = swiglu_samples,                                          \
  .n_samples = sizeof swiglu_samples / sizeof *swiglu_samples

#define GATED_BWD(gate)                                                                                                \
  .name = #gate "_bwd", .n_in = 3, .n_out = 2, .optional = 1u << BWD_UP,                                               \
  .alias = {{1, 0, HR_ALIAS_MAY}, {2, 1, HR_ALIAS_MAY}, {0, 0, HR_ALIAS_MAY}}, .n_alias = 3,                           \
  .axes = HR_AXES_ROWS, /* packed, columns belong together */                                                          \
      .dtypes = {[HR_CPU] = HR_FLOATS, [HR_CUDA] = HR_FLOATS}, .shape = swiglu_bwd_shape, .cost = swiglu_bwd_cost,     \
  .cpu = {.run = gate##_bwd_run}, .samples = swiglu_bwd_samples,                                                       \
  .n_samples = sizeof swiglu_bwd_samples / sizeof *swiglu_bwd_samples

const hr_op hr_op_swiglu = {GATED(swiglu)};
const hr_op hr_op_swiglu_bwd = {GATED_BWD(swiglu)};
const hr_op hr_op_geglu = {GATED(geglu)};
const hr_op hr_op_geglu_bwd = {GATED_BWD(geglu)};
