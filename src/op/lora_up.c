/* lora_up: its rules and its backward op's; op/lora_up_kernel.c has the CPU's kernels. */
#include "op/lora_up.h"

#include "graph/adjoint.h"
#include "op/lora_up_cuda.h"
#include "op/lora_up_parts.h"
#include "op/shapes.h"

hr_id hr__lora_up(hr_builder *b, hr_id h, hr_id B, hr_id add, const hr_lora_up_args *args) {
  return hr__emit(b, &hr_op_lora_up, (hr_id[]){h, B, add}, 3, args);
}

static hr_status args_check(const hr_lora_up_args *a, hr_error *err) {
  if (a->groups < 1 || a->groups > HR_LORA_GROUPS || a->rank < 1)
    return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "%d groups of rank %lld", (int)a->groups, (long long)a->rank);
  int64_t end = 0;
  for (int g = 0; g < HR_LORA_GROUPS; g++) {
    bool sound = g < a->groups ? a->rows[g] >= 1 && a->first[g] >= end && a->rows[g] <= a->columns - a->first[g]
                               : a->rows[g] == 0 && a->first[g] == 0;
    if (!sound)
      return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "group %d: columns %lld to %lld of %lld", g,
                      (long long)a->first[g], (long long)(a->first[g] + a->rows[g]), (long long)a->columns);
    end = a->first[g] + a->rows[g];
  }
  return HR_OK;
}

/* `like` with another last axis. */
static hr_desc with_columns(hr_desc like, int64_t columns) {
  if (like.rank > 0) like.dim[like.rank - 1] = columns;
  return like;
}

static hr_desc weight_desc(const hr_lora_up_args *a, hr_dtype dtype) {
  return (hr_desc){dtype, 2, {hr__lora_rows_before(a, a->groups), a->rank}};
}

static hr_status lora_up_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  const hr_lora_up_args *a = view->args;
  HR_TRY(hr__shape_operands(view, 3, 1u << 2, err));
  HR_TRY(args_check(a, err));
  HR_TRY(hr__shape_float(view, 0, err));
  hr_desc h = with_columns(view->in[0], a->groups * a->rank), weight = weight_desc(a, h.dtype);
  HR_TRY(hr__shape_like(view, 0, &h, err));
  HR_TRY(hr__shape_like(view, 1, &weight, err));
  out[0] = with_columns(h, a->columns);
  return hr__shape_like(view, 2, &out[0], err);
}

static hr_status lora_up_bwd_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  const hr_lora_up_bwd_args *args = view->args;
  const hr_lora_up_args *a = &args->up;
  HR_TRY(hr__shape_operands(view, 4, 1u << 3, err));
  HR_TRY(args_check(a, err));
  if (!(HR_DTYPE_BIT(args->dtype) & HR_FLOATS))
    return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "a gradient of type %s", hr_dtype_name(args->dtype));
  HR_TRY(hr__shape_float(view, 0, err));
  hr_desc dy = with_columns(view->in[0], a->columns), weight = weight_desc(a, dy.dtype);
  HR_TRY(hr__shape_like(view, 0, &dy, err));
  out[0] = with_columns(dy, a->groups * a->rank);
  HR_TRY(hr__shape_like(view, 1, &out[0], err));
  HR_TRY(hr__shape_like(view, 2, &weight, err));
  out[1] = weight_desc(a, args->dtype);
  return hr__shape_like(view, 3, &out[1], err);
}

static void lora_up_grad(hr_adjoint *a, const hr_node *node) {
  hr_builder *b = hr__adjoint_builder(a);
  hr_id dy = hr__out_grad(a, 0);
  if (dy == HR_NONE) return;
  if (hr__wants_grad(a, 0) || hr__wants_grad(a, 1)) {
    hr_lora_up_bwd_args args = {.up = *(const hr_lora_up_args *)node->args, .dtype = hr__grad_dtype(a, 1)};
    hr_id in[] = {dy, hr__saved_in(a, 0), hr__saved_in(a, 1), hr__grad_partial(a, 1)};
    hr_id dh = hr__emit(b, &hr_op_lora_up_bwd, in, 4, &args);
    hr__grad_add(a, 0, dh);
    hr__grad_set(a, 1, hr__node_out(b, dh, 1));
  }
  if (hr__wants_grad(a, 2)) hr__grad_add(a, 2, dy);
}

/* One pass over y or dy, with little else: a stream, though with arithmetic. */
static void lora_up_cost(const hr_op_view *view, hr_cost *cost) {
  const hr_lora_up_args *a = view->args;
  double elements = (double)hr_desc_rows(&view->in[0]) * (double)hr__lora_rows_before(a, a->groups);
  hr__cost_stream(view, 2.0 * (double)a->rank * elements, cost);
}

static void lora_up_bwd_cost(const hr_op_view *view, hr_cost *cost) {
  const hr_lora_up_args *a = &((const hr_lora_up_bwd_args *)view->args)->up;
  double elements = (double)hr_desc_rows(&view->in[0]) * (double)hr__lora_rows_before(a, a->groups);
  hr__cost_stream(view, 4.0 * (double)a->rank * elements, cost);
}

static size_t lora_up_workspace(const hr_op_view *view, hr_device_kind kind, int threads) {
  return kind == HR_CPU ? hr__lora_up_bytes(&view->in[0], view->args, view->in[2].rank != 0, threads) : 0;
}

static size_t lora_up_bwd_workspace(const hr_op_view *view, hr_device_kind kind, int threads) {
  const hr_lora_up_bwd_args *args = view->args;
  const hr_desc *h = &view->in[1];
  return kind == HR_CPU ? hr__lora_up_bwd_bytes(h, args, view->in[3].rank != 0, threads)
                        : hr__lora_cuda_of(hr_desc_rows(h), h->dtype, &args->up).bytes;
}

static void lora_up_products(const hr_op_view *view, int threads, struct hr_gemm_set *set) {
  hr__lora_up_products(&view->in[0], view->args, view->in[2].rank != 0, threads, set);
}

static void lora_up_bwd_products(const hr_op_view *view, int threads, struct hr_gemm_set *set) {
  hr__lora_up_bwd_products(&view->in[1], view->args, view->in[3].rank != 0, threads, set);
}

/* One group over all columns; two with a gap between; three, unlike, with gaps at both ends; more columns than a block
 * of CUDA takes, also in slabs. */
#define ARGS_WHOLE                                                                                                     \
  { .scale = 2.0f, .rank = 8, .groups = 1, .rows = {48}, .columns = 48 }
#define ARGS_GAP                                                                                                       \
  { .scale = 0.5f, .rank = 8, .groups = 2, .first = {0, 96}, .rows = {64, 32}, .columns = 128 }
#define ARGS_ODD                                                                                                       \
  { .scale = 1.7f, .rank = 5, .groups = 3, .first = {3, 10, 70}, .rows = {7, 33, 20}, .columns = 91 }
#define ARGS_WIDE                                                                                                      \
  { .scale = 2.0f, .rank = 16, .groups = 2, .first = {0, 264}, .rows = {264, 72}, .columns = 336 }

#define ARGS_LONG                                                                                                      \
  { .scale = 2.0f, .rank = 8, .groups = 2, .first = {8, 1048}, .rows = {1032, 24}, .columns = 1080 }

#define ARGS_SLABS                                                                                                     \
  { .scale = 0.7f, .rank = 16, .groups = 2, .first = {32, 608}, .rows = {544, 64}, .columns = 704 }

static const hr_sample lora_up_samples[] = {
    {.n_in = 3,
     .in = {{HR_F32, 3, {2, 9, 8}}, {HR_F32, 2, {48, 8}}, {HR_F32, 3, {2, 9, 48}}},
     .args = &(const hr_lora_up_args)ARGS_WHOLE},
    {.n_in = 3, .in = {{HR_F32, 2, {70, 16}}, {HR_F32, 2, {96, 8}}}, .args = &(const hr_lora_up_args)ARGS_GAP},
    {.n_in = 3,
     .in = {{HR_F32, 2, {19, 15}}, {HR_F32, 2, {60, 5}}, {HR_F32, 2, {19, 91}}},
     .args = &(const hr_lora_up_args)ARGS_ODD},
    {.n_in = 3,
     .in = {{HR_F32, 3, {3, 67, 32}}, {HR_F32, 2, {336, 16}}, {HR_F32, 3, {3, 67, 336}}},
     .args = &(const hr_lora_up_args)ARGS_WIDE},
    {.n_in = 3,
     .in = {{HR_F32, 2, {21, 16}}, {HR_F32, 2, {1056, 8}}, {HR_F32, 2, {21, 1080}}},
     .args = &(const hr_lora_up_args)ARGS_LONG},
    {.n_in = 3,
     .in = {{HR_F32, 3, {2, 41, 32}}, {HR_F32, 2, {608, 16}}, {HR_F32, 3, {2, 41, 704}}},
     .args = &(const hr_lora_up_args)ARGS_SLABS},
};

static const hr_sample lora_up_bwd_samples[] = {
    {.n_in = 4,
     .in = {{HR_F32, 3, {2, 9, 48}}, {HR_F32, 3, {2, 9, 8}}, {HR_F32, 2, {48, 8}}},
     .args = &(const hr_lora_up_bwd_args){ARGS_WHOLE, HR_F32}},
    {.n_in = 4,
     .in = {{HR_F32, 2, {70, 128}}, {HR_F32, 2, {70, 16}}, {HR_F32, 2, {96, 8}}, {HR_F32, 2, {96, 8}}},
     .args = &(const hr_lora_up_bwd_args){ARGS_GAP, HR_F32}},
    {.n_in = 4,
     .in = {{HR_F32, 2, {19, 91}}, {HR_F32, 2, {19, 15}}, {HR_F32, 2, {60, 5}}, {HR_BF16, 2, {60, 5}}},
     .args = &(const hr_lora_up_bwd_args){ARGS_ODD, HR_BF16}},
    {.n_in = 4,
     .in = {{HR_F32, 3, {3, 67, 336}}, {HR_F32, 3, {3, 67, 32}}, {HR_F32, 2, {336, 16}}, {HR_F32, 2, {336, 16}}},
     .args = &(const hr_lora_up_bwd_args){ARGS_WIDE, HR_F32}},
    {.n_in = 4,
     .in = {{HR_F32, 2, {21, 1080}}, {HR_F32, 2, {21, 16}}, {HR_F32, 2, {1056, 8}}},
     .args = &(const hr_lora_up_bwd_args){ARGS_LONG, HR_F32}},
};

const hr_op hr_op_lora_up = {
    .name = "lora_up",
    .n_in = 3,
    .n_out = 1,
    .optional = 1u << 2,
    .args_bytes = sizeof(hr_lora_up_args),
    .saves = HR_SAVE_IN(0) | HR_SAVE_IN(1),
    .computes = ~0u,
    .alias = {{2, 0, HR_ALIAS_ACCUMULATE}},
    .n_alias = 1,
    .axes = HR_AXES_ROWS,
    .shares = 1u << 1,
    .dtypes = {[HR_CPU] = HR_FLOATS, [HR_CUDA] = HR_FLOATS},
    .shape = lora_up_shape,
    .grad = lora_up_grad,
    .cost = lora_up_cost,
    .workspace = lora_up_workspace,
    .products = lora_up_products,
    .cpu = {.prepare = hr__lora_up_prepare, .release = hr__lora_release, .run = hr__lora_up_run},
    .samples = lora_up_samples,
    .n_samples = sizeof lora_up_samples / sizeof *lora_up_samples,
};

const hr_op hr_op_lora_up_bwd = {
    .name = "lora_up_bwd",
    .n_in = 4,
    .n_out = 2,
    .optional = 1u << 3,
    .args_bytes = sizeof(hr_lora_up_bwd_args),
    .alias = {{3, 1, HR_ALIAS_ACCUMULATE}},
    .n_alias = 1,
    .axes = HR_AXES_NONE,
    .dtypes = {[HR_CPU] = HR_FLOATS, [HR_CUDA] = HR_FLOATS},
    .shape = lora_up_bwd_shape,
    .cost = lora_up_bwd_cost,
    .workspace = lora_up_bwd_workspace,
    .products = lora_up_bwd_products,
    .cpu = {.prepare = hr__lora_up_bwd_prepare, .release = hr__lora_release, .run = hr__lora_up_bwd_run},
    .samples = lora_up_bwd_samples,
    .n_samples = sizeof lora_up_bwd_samples / sizeof *lora_up_bwd_samples,
};
