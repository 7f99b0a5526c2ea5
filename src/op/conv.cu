/* conv, conv_dx and conv_dw on CUDA, by the ways that op/conv_cuda.h tells of: straight from x (op/conv_direct.cuh,
 * op/conv_points.cuh), as products, by tiles (op/conv_tiles.cuh), or as products of unfolded rows (op/conv_unfold.cuh).
 * conv_db is a sum of its own (op/conv_db.cuh).
 */
#include "dev/cuda/columns.cuh"
#include "dev/cuda/cublaslt.h"
#include "op/conv_db.cuh"
#include "op/conv_direct.cuh"
#include "op/conv_lines_dw.cuh"
#include "op/conv_points.cuh"
#include "op/conv_tiles.cuh"
#include "op/conv_tiles_dw.cuh"
#include "op/conv_unfold.cuh"

static hr_conv_sizes conv_sizes(const hr_call *call) {
  return hr__conv_flat(
      hr__conv_sizes(&call->in[0].desc, &call->in[1].desc, &call->out[0].desc, (const hr_conv_args *)call->args));
}

static hr_conv_sizes dx_sizes(const hr_call *call) {
  const hr_conv_dx_args *args = (const hr_conv_dx_args *)call->args;
  return hr__conv_flat(hr__conv_sizes(&call->out[0].desc, &call->in[1].desc, &call->in[0].desc, &args->conv));
}

static hr_conv_sizes dw_sizes(const hr_call *call) {
  const hr_conv_dw_args *args = (const hr_conv_dw_args *)call->args;
  return hr__conv_flat(hr__conv_sizes(&call->in[1].desc, &call->out[0].desc, &call->in[0].desc, &args->conv));
}

/* Products of a convolution: for each walk of whole blocks and of the last one, or those of dW. */
struct conv_plan {
  void (*free)(void *);
  const hr_lt_product **products; /* behind this struct; NULL: none of that kind */
};

static void conv_release(void *prepared) {
  conv_plan *plan = (conv_plan *)prepared;
  if (plan) plan->free(plan);
}

static hr_status plan_create(const hr_call *call, int64_t products, conv_plan **out, hr_error *err) {
  hr_cuda_state *state = device_state(call);
  conv_plan *plan = (conv_plan *)state->host.alloc(sizeof *plan + (size_t)products * sizeof *plan->products);
  if (!plan) return state->host.fail(err, HR_NOMEM, NULL, NULL, "out of memory");
  plan->free = state->host.free;
  plan->products = (const hr_lt_product **)(plan + 1);
  for (int64_t i = 0; i < products; i++)
    plan->products[i] = nullptr;
  *out = plan;
  return HR_OK;
}

/* What every call is held to before it is prepared. */
static hr_status sizes_check(const hr_call *call, const hr_conv_sizes &s, size_t bytes, hr_error *err) {
  const hr_cuda_host &host = device_state(call)->host;
  if (call->workspace_bytes < bytes)
    return host.fail(err, HR_FAILURE, NULL, NULL, "%zu bytes of workspace were planned, %zu are needed",
                     call->workspace_bytes, bytes);
  bool small = hr__conv_volume(s.x) <= STEPS_MOST && hr__conv_volume(s.y) <= STEPS_MOST;
  if (small) return HR_OK;
  return host.fail(err, HR_UNSUPPORTED, NULL, "run on the CPU, or cut the samples",
                   "a convolution over samples of more than %lld elements to a channel", (long long)STEPS_MOST);
}

static const char *at_element(const void *base, int64_t element, hr_dtype dtype) {
  return (const char *)base + (size_t)element * hr__conv_cuda_element(dtype);
}

/* ---- one product of each group ---- */

struct conv_product {
  hr_lt_shape shape;
  hr_lt_operands at; /* of the first group */
  int64_t a, b, d;   /* elements from one group's operand to the next; d: of C as well */
};

static hr_lt_operands group_operands(const conv_product &p, int64_t group) {
  hr_lt_operands at = p.at;
  at.a = at_element(at.a, group * p.a, p.shape.in);
  at.b = at_element(at.b, group * p.b, p.shape.in);
  at.d = (void *)at_element(at.d, group * p.d, p.shape.out);
  if (at.c) at.c = at_element(at.c, group * p.d, p.shape.out);
  if (at.bias) at.bias = at_element(at.bias, group * p.shape.n, p.shape.out);
  return at;
}

/* All groups take the algorithm of the second one, whose operands lie worst of all. */
static hr_status groups_prepare(const hr_call *call, const conv_product &p, int64_t groups, size_t scratch,
                                const hr_lt_product **product, hr_error *err) {
  hr_lt_operands at = group_operands(p, groups > 1);
  return hr__lt_prepare(call, &p.shape, &at, (char *)call->workspace + scratch, call->workspace_bytes - scratch,
                        product, err);
}

static hr_status groups_run(const hr_call *call, const conv_product &p, int64_t groups, size_t scratch,
                            const hr_lt_product *product) {
  for (int64_t group = 0; group < groups; group++) {
    hr_lt_operands at = group_operands(p, group);
    hr_status status = hr__lt_run(call, product, &at, (char *)call->workspace + scratch);
    if (status != HR_OK) return status;
  }
  return HR_OK;
}

/* ---- a window is all of x: x [N, C taps] are rows ---- */

/* y [N, K] = x Wt (+ bias) (+ add) */
static conv_product view_product(const hr_call *call, const hr_conv_sizes &s) {
  conv_product p = {};
  int64_t inner = s.in * hr__conv_volume(s.kernel);
  p.shape.m = s.samples;
  p.shape.n = p.d = s.out;
  p.shape.k = p.shape.ldb = p.a = inner;
  p.shape.lda = s.groups * inner;
  p.shape.ldd = s.groups * s.out;
  p.b = s.out * inner;
  p.shape.transpose_b = true;
  p.shape.in = p.shape.out = call->in[0].desc.dtype;
  p.at = {call->in[0].data, call->in[1].data, call->in[3].data, call->in[2].data, call->out[0].data};
  p.shape.add = p.at.c != nullptr;
  p.shape.bias = p.at.bias != nullptr;
  return p;
}

/* dx [N, C taps] = dy W (+ partial) */
static conv_product view_dx_product(const hr_call *call, const hr_conv_sizes &s) {
  conv_product p = {};
  int64_t inner = s.in * hr__conv_volume(s.kernel);
  p.shape.m = s.samples;
  p.shape.n = p.shape.ldb = p.d = inner;
  p.shape.k = p.a = s.out;
  p.shape.lda = s.groups * s.out;
  p.shape.ldd = s.groups * inner;
  p.b = s.out * inner;
  p.shape.in = p.shape.out = call->in[0].desc.dtype;
  p.at = {call->in[0].data, call->in[1].data, call->in[2].data, nullptr, call->out[0].data};
  p.shape.add = p.at.c != nullptr;
  return p;
}

/* dW [K, inner] = dyt x (+ partial) */
static conv_product view_dw_product(const hr_call *call, const hr_conv_sizes &s) {
  conv_product p = {};
  int64_t inner = s.in * hr__conv_volume(s.kernel);
  p.shape.m = p.a = s.out;
  p.shape.n = p.shape.ldd = p.b = inner;
  p.shape.k = s.samples;
  p.shape.lda = s.groups * s.out;
  p.shape.ldb = s.groups * inner;
  p.d = s.out * inner;
  p.shape.transpose_a = true;
  p.shape.in = call->in[0].desc.dtype;
  p.shape.out = call->out[0].desc.dtype;
  p.at = {call->in[0].data, call->in[1].data, call->in[2].data, nullptr, call->out[0].data};
  p.shape.add = p.at.c != nullptr;
  return p;
}

/* ---- blocks of unfolded rows: conv, and each walk of conv_dx ---- */

/* Where a walk reads and writes. */
struct walk_call {
  const void *weights;         /* [groups, columns, inner] */
  const hr_tensor *bias, *add; /* NULL: the op has none */
  size_t workspace;            /* where its part begins */
};

static int64_t block_rows(const hr_conv_cuda_pass &p, int64_t block) {
  int64_t left = p.rows - block * p.block;
  return left < p.block ? left : p.block;
}

/* f32 [rows, columns] = unfolded x weightst */
static conv_product block_product(const hr_call *call, const hr_conv_sizes &s, const hr_conv_cuda_pass &p,
                                  const walk_call &w, int64_t rows) {
  conv_product product = {};
  char *part = (char *)call->workspace + w.workspace;
  product.shape.m = rows;
  product.shape.n = product.d = p.columns;
  product.shape.k = product.shape.ldb = product.a = p.inner;
  product.shape.lda = s.groups * p.inner;
  product.shape.ldd = s.groups * p.columns;
  product.b = p.columns * p.inner;
  product.shape.transpose_b = true;
  product.shape.in = call->in[0].desc.dtype;
  product.shape.out = HR_F32;
  product.at = {part, w.weights, nullptr, nullptr, part + p.product};
  return product;
}

/* products[0]: of whole blocks, products[1]: of the last one, where it is shorter. */
static hr_status walk_prepare(const hr_call *call, const hr_conv_sizes &s, const hr_conv_cuda_pass &p,
                              const walk_call &w, const hr_lt_product **products, hr_error *err) {
  if (p.rows == 0 || p.taps == 0) return HR_OK;
  hr_status status =
      groups_prepare(call, block_product(call, s, p, w, p.block), s.groups, w.workspace + p.scratch, &products[0], err);
  if (status != HR_OK || p.rows % p.block == 0) return status;
  return groups_prepare(call, block_product(call, s, p, w, p.rows % p.block), s.groups, w.workspace + p.scratch,
                        &products[1], err);
}

static const void *data_of(const hr_tensor *tensor) {
  return tensor ? tensor->data : nullptr;
}

static hr_status block_put(const hr_call *call, const hr_conv_sizes &s, const hr_conv_cuda_pass &p, const walk_call &w,
                           int64_t first, int64_t rows) {
  return by_dtype(call->in[0].desc.dtype, [&](auto t) {
    using T = decltype(t);
    put_to<T> to = {};
    if (p.taps > 0) to.product = (const float *)((char *)call->workspace + w.workspace + p.product);
    to.bias = (const T *)data_of(w.bias);
    to.add = (const T *)data_of(w.add);
    to.result = (T *)call->out[0].data;
    to.first = first;
    to.rows = rows;
    to.channels = s.groups * p.columns;
    return put_run<T>(call, s, p.walk, to);
  });
}

static hr_status walk_run(const hr_call *call, const hr_conv_sizes &s, const hr_conv_cuda_pass &p, const walk_call &w,
                          const hr_lt_product *const *products) {
  if (p.rows == 0) return HR_OK;
  for (int64_t block = 0; block * p.block < p.rows; block++) {
    int64_t first = block * p.block, rows = block_rows(p, block);
    hr_status status = HR_OK;
    if (p.taps > 0) {
      status = unfold_run(call, s, p.walk, call->in[0].desc.dtype, call->in[0].data,
                          (char *)call->workspace + w.workspace, first, rows, s.groups * p.channels);
      if (status == HR_OK)
        status = groups_run(call, block_product(call, s, p, w, rows), s.groups, w.workspace + p.scratch,
                            products[rows < p.block]);
    }
    if (status == HR_OK) status = block_put(call, s, p, w, first, rows);
    if (status != HR_OK) return status;
  }
  return HR_OK;
}

/* ---- tiles ---- */

template <typename F> static hr_status by_narrow(hr_dtype dtype, const F &function) {
  return dtype == HR_BF16 ? function(bf16()) : function(f16());
}

static hr_status tiles_prepare(const hr_call *call, hr_dtype dtype) {
#if HR_WARPGROUPS
  if (has_warpgroups(call) && !hr__conv_warpgroups_allow(dtype)) return HR_FAILURE;
#endif
  (void)call;
  return by_narrow(dtype, [](auto t) {
    using T = decltype(t);
    return tiles_allow<T>() && tiles_dw_allow<T>() && lines_dw_allow<T>() ? HR_OK : HR_FAILURE;
  });
}

/* ---- conv ---- */

static hr_status conv_prepare(const hr_call *call, void **prepared, hr_error *err) {
  hr_conv_sizes s = conv_sizes(call);
  hr_dtype dtype = call->in[0].desc.dtype;
  hr_conv_way way = hr__conv_cuda_way(&s, dtype, HR_CONV_FORWARD);
  hr_status status = sizes_check(call, s, hr__conv_cuda_bytes(&s, dtype), err);
  if (status == HR_OK && way == HR_CONV_TILED) return tiles_prepare(call, dtype);
  if (status != HR_OK || way == HR_CONV_DIRECT || way == HR_CONV_POINTS) return status;
  conv_plan *plan = nullptr;
  status = plan_create(call, 2, &plan, err);
  if (status != HR_OK) return status;
  if (way == HR_CONV_VIEW) {
    status = groups_prepare(call, view_product(call, s), s.groups, 0, &plan->products[0], err);
  } else {
    walk_call w = {call->in[1].data, &call->in[2], &call->in[3], 0};
    status = walk_prepare(call, s, hr__conv_cuda_forward(&s, dtype), w, plan->products, err);
  }
  if (status == HR_OK)
    *prepared = plan;
  else
    conv_release(plan);
  return status;
}

static hr_status conv_run(const hr_call *call) {
  const conv_plan *plan = (const conv_plan *)call->prepared;
  hr_conv_sizes s = conv_sizes(call);
  hr_dtype dtype = call->in[0].desc.dtype;
  hr_conv_way way = hr__conv_cuda_way(&s, dtype, HR_CONV_FORWARD);
  if (way == HR_CONV_VIEW) return groups_run(call, view_product(call, s), s.groups, 0, plan->products[0]);
  if (way == HR_CONV_TILED)
    return by_narrow(dtype, [&](auto t) {
      using T = decltype(t);
      return tiles_run<T>(call, s, hr__conv_walk(&s), true, (const T *)call->in[2].data, (const T *)call->in[3].data,
                          (uint4 *)call->workspace);
    });
  if (way == HR_CONV_POINTS) return by_narrow(dtype, [&](auto t) { return points_run<decltype(t)>(call, s, true); });
  if (way == HR_CONV_UNFOLDED) {
    walk_call w = {call->in[1].data, &call->in[2], &call->in[3], 0};
    return walk_run(call, s, hr__conv_cuda_forward(&s, dtype), w, plan->products);
  }
  return by_dtype(dtype, [&](auto t) {
    using T = decltype(t);
    direct_call<T> p = {(const T *)call->in[0].data,
                        (const T *)call->in[1].data,
                        (const T *)call->in[2].data,
                        (const T *)call->in[3].data,
                        (T *)call->out[0].data,
                        s.samples,
                        s.groups,
                        s.out};
    return direct_run<T>(call, s, p);
  });
}

/* ---- conv_dx ---- */

static walk_call dx_walk(const hr_call *call, const hr_conv_sizes &s) {
  walk_call w = {call->workspace, nullptr, &call->in[2], hr__conv_cuda_reordered(&s, call->in[0].desc.dtype)};
  return w;
}

/* All walks at once, or one after another: then the weights of one are overwritten by those of the next. */
static hr_status dx_tiled(const hr_call *call, const hr_conv_sizes &s, hr_dtype dtype) {
  hr_conv_phases phases;
  if (hr__conv_phases_of(&s, &phases))
    return by_narrow(dtype, [&](auto t) {
      using T = decltype(t);
      return phases_run<T>(call, s, phases, (const T *)call->in[2].data, (char *)call->workspace);
    });
  walk_call w = {nullptr, nullptr, &call->in[2], 0};
  hr_status status = HR_OK;
  for (int64_t number = 0; number < hr__conv_dx_walks(&s) && status == HR_OK; number++) {
    hr_conv_cuda_pass p = hr__conv_cuda_dx(&s, number, dtype);
    if (p.rows == 0) continue;
    if (p.taps == 0)
      status = walk_run(call, s, p, w, nullptr);
    else
      status = by_narrow(dtype, [&](auto t) {
        using T = decltype(t);
        return tiles_run<T>(call, s, p.walk, false, nullptr, (const T *)call->in[2].data, (uint4 *)call->workspace);
      });
  }
  return status;
}

static hr_status conv_dx_prepare(const hr_call *call, void **prepared, hr_error *err) {
  hr_conv_sizes s = dx_sizes(call);
  hr_dtype dtype = call->in[0].desc.dtype;
  hr_conv_way way = hr__conv_cuda_way(&s, dtype, HR_CONV_DX);
  hr_status status = sizes_check(call, s, hr__conv_cuda_dx_bytes(&s, dtype), err);
  if (status == HR_OK && way == HR_CONV_TILED) return tiles_prepare(call, dtype);
  if (status != HR_OK || way == HR_CONV_DIRECT || way == HR_CONV_POINTS) return status;
  conv_plan *plan = nullptr;
  int64_t walks = hr__conv_dx_walks(&s);
  status = plan_create(call, 2 * walks, &plan, err);
  if (status != HR_OK) return status;
  if (way == HR_CONV_VIEW)
    status = groups_prepare(call, view_dx_product(call, s), s.groups, 0, &plan->products[0], err);
  else
    for (int64_t number = 0; number < walks && status == HR_OK; number++)
      status = walk_prepare(call, s, hr__conv_cuda_dx(&s, number, dtype), dx_walk(call, s), plan->products + 2 * number,
                            err);
  if (status == HR_OK)
    *prepared = plan;
  else
    conv_release(plan);
  return status;
}

static hr_status conv_dx_run(const hr_call *call) {
  const conv_plan *plan = (const conv_plan *)call->prepared;
  hr_conv_sizes s = dx_sizes(call);
  hr_dtype dtype = call->in[0].desc.dtype;
  hr_conv_way way = hr__conv_cuda_way(&s, dtype, HR_CONV_DX);
  if (way == HR_CONV_VIEW) return groups_run(call, view_dx_product(call, s), s.groups, 0, plan->products[0]);
  if (way == HR_CONV_TILED) return dx_tiled(call, s, dtype);
  if (way == HR_CONV_POINTS) return by_narrow(dtype, [&](auto t) { return points_run<decltype(t)>(call, s, false); });
  if (way == HR_CONV_UNFOLDED) {
    hr_status status = HR_OK;
    for (int64_t number = 0; number < hr__conv_dx_walks(&s) && status == HR_OK; number++) {
      hr_conv_cuda_pass p = hr__conv_cuda_dx(&s, number, dtype);
      if (p.rows == 0) continue;
      if (p.taps > 0) status = reorder_run(call, s, p.walk, dtype, call->in[1].data, call->workspace);
      if (status == HR_OK) status = walk_run(call, s, p, dx_walk(call, s), plan->products + 2 * number);
    }
    return status;
  }
  return by_dtype(dtype, [&](auto t) {
    using T = decltype(t);
    direct_call<T> p = {(const T *)call->in[0].data,
                        (const T *)call->in[1].data,
                        nullptr,
                        (const T *)call->in[2].data,
                        (T *)call->out[0].data,
                        s.samples,
                        s.groups,
                        s.out};
    return direct_dx_run<T>(call, s, p);
  });
}

/* ---- conv_dw ---- */

enum { DW_FIRST, DW_NEXT, DW_LAST, DW_PRODUCTS };

/* f32 dW [K, inner] = dyt x (+ what the blocks before gave, or the partial sum where it is f32 as well) */
static conv_product dw_product(const hr_call *call, const hr_conv_sizes &s, const hr_conv_cuda_dw &p, int64_t block,
                               int64_t rows) {
  conv_product product = {};
  char *workspace = (char *)call->workspace;
  hr_dtype dtype = call->in[0].desc.dtype;
  float *sum = (float *)(p.staged ? workspace + p.sum : call->out[0].data);
  const void *dy =
      p.turned ? workspace + p.dy : at_element(call->in[0].data, block * p.block * s.groups * s.out, dtype);
  const void *before = block > 0 ? sum : p.staged ? nullptr : call->in[2].data;
  product.shape.m = product.a = s.out;
  product.shape.n = product.shape.ldd = product.b = p.inner;
  product.shape.k = rows;
  product.shape.lda = s.groups * s.out;
  product.shape.ldb = s.groups * p.inner;
  product.d = s.out * p.inner;
  product.shape.transpose_a = true;
  product.shape.in = dtype;
  product.shape.out = HR_F32;
  product.shape.add = before != nullptr;
  product.at = {dy, workspace + p.x, before, nullptr, sum};
  return product;
}

static int dw_kind(const hr_conv_cuda_dw &p, int64_t block, int64_t rows) {
  return block == 0 ? DW_FIRST : rows == p.block ? DW_NEXT : DW_LAST;
}

static int64_t dw_rows(const hr_conv_cuda_dw &p, int64_t block) {
  int64_t left = p.rows - block * p.block;
  return left < p.block ? left : p.block;
}

static hr_status conv_dw_prepare(const hr_call *call, void **prepared, hr_error *err) {
  hr_conv_sizes s = dw_sizes(call);
  hr_conv_way way = hr__conv_cuda_way(&s, call->in[0].desc.dtype, HR_CONV_DW);
  hr_conv_cuda_dw p = hr__conv_cuda_dw_of(&s, call->in[0].desc.dtype, call->out[0].desc.dtype);
  hr_status status = sizes_check(call, s, p.bytes, err);
  if (status == HR_OK && way == HR_CONV_TILED) return tiles_prepare(call, call->in[0].desc.dtype);
  if (status != HR_OK || way == HR_CONV_DIRECT || way == HR_CONV_POINTS) return status;
  conv_plan *plan = nullptr;
  status = plan_create(call, DW_PRODUCTS, &plan, err);
  if (status != HR_OK) return status;
  if (way == HR_CONV_VIEW)
    status = groups_prepare(call, view_dw_product(call, s), s.groups, 0, &plan->products[DW_FIRST], err);
  else
    for (int64_t block = 0; block * p.block < p.rows && status == HR_OK; block++) {
      int64_t rows = dw_rows(p, block);
      const hr_lt_product **product = &plan->products[dw_kind(p, block, rows)];
      if (!*product)
        status = groups_prepare(call, dw_product(call, s, p, block, rows), s.groups, p.scratch, product, err);
    }
  if (status == HR_OK)
    *prepared = plan;
  else
    conv_release(plan);
  return status;
}

static hr_status dw_block_run(const hr_call *call, const hr_conv_sizes &s, const hr_conv_cuda_dw &p, int64_t block,
                              const hr_lt_product *const *products) {
  hr_dtype dtype = call->in[0].desc.dtype;
  int64_t first = block * p.block, rows = dw_rows(p, block);
  char *workspace = (char *)call->workspace;
  hr_status status =
      unfold_run(call, s, hr__conv_walk(&s), dtype, call->in[1].data, workspace + p.x, first, rows, s.groups * s.in);
  if (status == HR_OK && p.turned)
    status = unfold_run(call, s, hr__conv_places_walk(&s), dtype, call->in[0].data, workspace + p.dy, first, rows,
                        s.groups * s.out);
  if (status != HR_OK) return status;
  return groups_run(call, dw_product(call, s, p, block, rows), s.groups, p.scratch, products[dw_kind(p, block, rows)]);
}

/* dW = rounded sum (+ partial) */
static hr_status dw_finish(const hr_call *call, const hr_conv_cuda_dw &p) {
  columns_shape one = {};
  one.rows = one.groups = one.used = 1;
  one.columns = one.row = desc_count(call->out[0].desc);
  return by_dtype(call->out[0].desc.dtype, [&](auto t) {
    using P = decltype(t);
    return columns_run<float, P>(call, (const float *)((char *)call->workspace + p.sum), (const P *)call->in[2].data,
                                 (P *)call->out[0].data, one);
  });
}

static hr_status conv_dw_direct(const hr_call *call, const hr_conv_sizes &s, const hr_conv_cuda_dw &p) {
  return by_dtype(call->in[0].desc.dtype, [&](auto t) {
    return by_dtype(call->out[0].desc.dtype, [&](auto r) {
      using T = decltype(t);
      using P = decltype(r);
      direct_dw<T> d = {(const T *)call->in[0].data,
                        (const T *)call->in[1].data,
                        (float *)call->workspace,
                        s.samples,
                        s.groups,
                        s.out,
                        p.parts,
                        p.part};
      return direct_dw_run<T, P>(call, s, d, (const P *)call->in[2].data, (P *)call->out[0].data);
    });
  });
}

/* dW = sum of parts, in their order (+ partial) */
static hr_status dw_parts_finish(const hr_call *call, int64_t parts) {
  columns_shape sums = {};
  sums.rows = parts;
  sums.columns = sums.row = desc_count(call->out[0].desc);
  sums.groups = sums.used = 1;
  return by_dtype(call->out[0].desc.dtype, [&](auto r) {
    using P = decltype(r);
    return columns_run<float, P>(call, (const float *)call->workspace, (const P *)call->in[2].data,
                                 (P *)call->out[0].data, sums);
  });
}

static hr_status conv_dw_tiled(const hr_call *call, const hr_conv_sizes &s) {
  hr_conv_dw_tile tile;
  if (!hr__conv_dw_tile_of(&s, &tile)) return HR_FAILURE;
  hr_status status = by_narrow(call->in[0].desc.dtype, [&](auto t) {
    using T = decltype(t);
    return tile.lines ? lines_dw_run<T>(call, s, tile) : tiles_dw_run<T>(call, s, tile);
  });
  return status == HR_OK ? dw_parts_finish(call, tile.parts) : status;
}

static hr_status conv_dw_points(const hr_call *call, const hr_conv_sizes &s, const hr_conv_cuda_dw &p) {
  hr_status status = by_narrow(call->in[0].desc.dtype, [&](auto t) { return points_dw_run<decltype(t)>(call, s, p); });
  return status == HR_OK ? dw_parts_finish(call, p.parts) : status;
}

static hr_status conv_dw_run(const hr_call *call) {
  const conv_plan *plan = (const conv_plan *)call->prepared;
  hr_conv_sizes s = dw_sizes(call);
  hr_conv_cuda_dw p = hr__conv_cuda_dw_of(&s, call->in[0].desc.dtype, call->out[0].desc.dtype);
  hr_conv_way way = hr__conv_cuda_way(&s, call->in[0].desc.dtype, HR_CONV_DW);
  if (way == HR_CONV_DIRECT) return conv_dw_direct(call, s, p);
  if (way == HR_CONV_POINTS) return conv_dw_points(call, s, p);
  if (way == HR_CONV_TILED) return conv_dw_tiled(call, s);
  if (way == HR_CONV_VIEW) return groups_run(call, view_dw_product(call, s), s.groups, 0, plan->products[DW_FIRST]);
  for (int64_t block = 0; block * p.block < p.rows; block++) {
    hr_status status = dw_block_run(call, s, p, block, plan->products);
    if (status != HR_OK) return status;
  }
  return p.staged ? dw_finish(call, p) : HR_OK;
}

extern "C" const hr_cuda_launcher hr_cuda_conv = {
    {conv_prepare, conv_release, conv_run},
    {UNFOLD_FUNCTIONS, PUT_FUNCTIONS, DIRECT_FUNCTIONS, POINTS_FUNCTIONS, TILES_FUNCTIONS}};
extern "C" const hr_cuda_launcher hr_cuda_conv_dx = {{conv_dx_prepare, conv_release, conv_dx_run},
                                                     {UNFOLD_FUNCTIONS, PUT_FUNCTIONS, REORDER_FUNCTIONS,
                                                      DIRECT_DX_FUNCTIONS, POINTS_DX_FUNCTIONS, TILES_FUNCTIONS,
                                                      PHASES_FUNCTIONS}};
extern "C" const hr_cuda_launcher hr_cuda_conv_dw = {{conv_dw_prepare, conv_release, conv_dw_run},
                                                     {UNFOLD_FUNCTIONS, DIRECT_DW_FUNCTIONS, POINTS_DW_FUNCTIONS,
                                                      TILES_DW_FUNCTIONS, LINES_DW_TYPE(bf16), LINES_DW_TYPE(f16),
                                                      SUM_FUNCTIONS}};
extern "C" const hr_cuda_launcher hr_cuda_conv_db = {{conv_db_prepare, nullptr, conv_db_run},
                                                     {CONV_DB(float), CONV_DB(bf16), CONV_DB(f16), SUM_FUNCTIONS}};
