/* lora_down and its backward ops on CUDA: which of their ways a call goes (op/lora_down_cuda.h). */
#include "dev/cuda/cublaslt.h"
#include "op/dropout.cuh"
#include "op/lora_down_mask.cuh"

static hr_lora_down lora_of(const hr_call *call, hr_lora_down_kind kind) {
  return hr__lora_down_of(kind, &call->in[0].desc, &call->in[1].desc, &call->out[0].desc);
}

static const hr_control *control_of(const hr_call *call) {
  return (const hr_control *)call->in[2].data;
}

static const hr_dropout_args *drop_of(const hr_call *call, hr_lora_down_kind kind) {
  return kind == HR_LORA_DOWN_DW ? &((const hr_lora_down_dw_args *)call->args)->drop
                                 : (const hr_dropout_args *)call->args;
}

/* x, or dx: what the mask is on. */
static const hr_tensor &wide_of(const hr_call *call, hr_lora_down_kind kind) {
  return kind == HR_LORA_DOWN ? call->in[0] : kind == HR_LORA_DOWN_DX ? call->out[0] : call->in[1];
}

static down_call masked_of(const hr_call *call, const hr_lora_down &l) {
  const hr_dropout_args *args = drop_of(call, l.kind);
  const hr_desc &x = wide_of(call, l.kind).desc;
  down_call c = {};
  c.rows = l.rows;
  c.in = l.in;
  c.width = l.width;
  c.sample_rows = l.rows / x.dim[0];
  c.first = args->first;
  c.stream_key = call->stream_key;
  c.use = args->use;
  c.limit = hr__mask_limit(args->p);
  c.scale = hr__mask_scale(c.limit);
  c.sharing = sharing_warps(l.in);
  return c;
}

static bool packed(const hr_call *call) {
  return wide(call->in[0].data, call->in[1].data, call->out[0].data, call->n_in > 3 ? call->in[3].data : nullptr);
}

/* Calls `function` with a compile-time number of steps, 1 to MOST. */
template <int MOST, typename F> static hr_status by_steps(int64_t steps, const F &function) {
  if constexpr (MOST > 1)
    if (steps < MOST) return by_steps<MOST - 1>(steps, function);
  return function(std::integral_constant<int, MOST>());
}

template <typename F> static hr_status by_half(hr_dtype dtype, const F &function) {
  return dtype == HR_BF16 ? function(bf16()) : function(f16());
}

static hr_status down_masked(const hr_call *call, const hr_lora_down &l) {
  down_call c = masked_of(call, l);
  return by_half(l.dtype, [&](auto t) {
    using T = decltype(t);
    return by_steps<HR_DOWN_WIDTH / 8>(l.width / 8, [&](auto steps) {
      constexpr int N = decltype(steps)::value;
      launch(packed(call) ? down_kernel<T, N, true> : down_kernel<T, N, false>,
             (unsigned)divide_up(l.rows, DOWN_WARPS / c.sharing * 16), DOWN_WARPS * 32, 0, call_stream(call),
             (const T *)call->in[0].data, (const T *)call->in[1].data, control_of(call), (T *)call->out[0].data, c);
      return launched();
    });
  });
}

static hr_status dx_masked(const hr_call *call, const hr_lora_down &l) {
  down_call c = masked_of(call, l);
  int64_t column_blocks = divide_up(l.in, GRADIENT_WARPS * HR_DOWN_SLAB), row_blocks = divide_up(l.rows, DX_STEPS * 16);
  return by_half(l.dtype, [&](auto t) {
    using T = decltype(t);
    return by_steps<HR_DOWN_WIDTH / 16>(divide_up(l.width, 16), [&](auto steps) {
      constexpr int N = decltype(steps)::value;
      launch(packed(call) ? down_dx_kernel<T, N, true> : down_dx_kernel<T, N, false>,
             (unsigned)(column_blocks * row_blocks), GRADIENT_WARPS * 32, 0, call_stream(call),
             (const T *)call->in[0].data, (const T *)call->in[1].data, control_of(call), (const T *)call->in[3].data,
             (T *)call->out[0].data, column_blocks, c);
      return launched();
    });
  });
}

static hr_status dw_masked(const hr_call *call, const hr_lora_down &l) {
  down_call c = masked_of(call, l);
  hr_lora_down_cuda layout = hr__lora_down_cuda_of(&l);
  int64_t column_blocks = divide_up(l.in, hr__lora_down_columns(l.width)), count = l.width * l.in;
  float *sums = (float *)call->workspace;
  hr_status status = by_half(l.dtype, [&](auto t) {
    using T = decltype(t);
    return by_steps<HR_DOWN_WIDTH / 16>(divide_up(l.width, 16), [&](auto steps) {
      constexpr int M = decltype(steps)::value, SLABS = M <= 2 ? 2 : 1;
      launch(packed(call) ? down_dw_kernel<T, M, SLABS, true> : down_dw_kernel<T, M, SLABS, false>,
             (unsigned)(column_blocks * layout.row_blocks), GRADIENT_WARPS * 32, 0, call_stream(call),
             (const T *)call->in[0].data, (const T *)call->in[1].data, control_of(call), sums, column_blocks,
             layout.block_rows, c);
      return launched();
    });
  });
  if (status != HR_OK) return status;
  return by_dtype(l.result, [&](auto p) {
    using P = decltype(p);
    launch(down_dw_finish_kernel<P>, (unsigned)divide_up(count, 32), dim3(32, FINISH_LANES), 0, call_stream(call), sums,
           (const P *)call->in[3].data, (P *)call->out[0].data, count, layout.row_blocks, c.scale);
    return launched();
  });
}

/* By way of the workspace: the product, and its operands. */
struct down_product {
  hr_lt_shape shape;
  hr_lt_operands at;
  void *scratch;
  size_t scratch_bytes;
};

static down_product product_of(const hr_call *call, const hr_lora_down &l) {
  down_product p = {};
  size_t before = hr__lora_down_cuda_of(&l).product;
  p.scratch = (char *)call->workspace + before;
  p.scratch_bytes = call->workspace_bytes - before;
  p.shape.in = l.dtype;
  p.shape.out = l.result;
  p.shape.ldd = l.kind == HR_LORA_DOWN ? l.width : l.in;
  p.shape.lda = l.kind == HR_LORA_DOWN ? l.in : l.width;
  p.shape.ldb = l.in;
  if (l.kind == HR_LORA_DOWN) {
    p.shape.m = l.rows, p.shape.n = l.width, p.shape.k = l.in;
    p.shape.transpose_b = true;
    p.at = {call->workspace, call->in[1].data, nullptr, nullptr, call->out[0].data};
  } else if (l.kind == HR_LORA_DOWN_DX) {
    p.shape.m = l.rows, p.shape.n = l.in, p.shape.k = l.width;
    p.at = {call->in[0].data, call->in[1].data, nullptr, nullptr, call->workspace};
  } else {
    p.shape.m = l.width, p.shape.n = l.in, p.shape.k = l.rows;
    p.shape.transpose_a = true;
    p.at = {call->in[0].data, call->workspace, call->in[3].data, nullptr, call->out[0].data};
    p.shape.add = p.at.c != nullptr;
  }
  return p;
}

template <hr_lora_down_kind KIND> static hr_status down_prepare(const hr_call *call, void **prepared, hr_error *err) {
  hr_lora_down l = lora_of(call, KIND);
  hr_lora_down_cuda layout = hr__lora_down_cuda_of(&l);
  *prepared = nullptr;
  if (call->workspace_bytes < layout.bytes)
    return device_state(call)->host.fail(err, HR_FAILURE, NULL, NULL,
                                         "%zu bytes of workspace were planned, %zu are needed", call->workspace_bytes,
                                         layout.bytes);
  if (layout.masked) return HR_OK;
  down_product p = product_of(call, l);
  const hr_lt_product *product = nullptr;
  hr_status status = hr__lt_prepare(call, &p.shape, &p.at, p.scratch, p.scratch_bytes, &product, err);
  *prepared = (void *)product; /* the device's: there is nothing to release */
  return status;
}

static hr_status multiplied(const hr_call *call, const hr_lora_down &l) {
  down_product p = product_of(call, l);
  return hr__lt_run(call, (const hr_lt_product *)call->prepared, &p.at, p.scratch);
}

template <hr_lora_down_kind KIND> static hr_status down_run(const hr_call *call) {
  hr_lora_down l = lora_of(call, KIND);
  const hr_tensor &x = wide_of(call, KIND);
  const hr_dropout_args *drop = drop_of(call, KIND);
  if (hr__lora_down_cuda_of(&l).masked)
    return KIND == HR_LORA_DOWN      ? down_masked(call, l)
           : KIND == HR_LORA_DOWN_DX ? dx_masked(call, l)
                                     : dw_masked(call, l);
  if (KIND == HR_LORA_DOWN_DX) {
    hr_status status = multiplied(call, l);
    if (status != HR_OK) return status;
    return hr__dropout_masked(call, drop, x.desc, call->workspace, control_of(call), call->in[3].data, x.data);
  }
  hr_status status = hr__dropout_masked(call, drop, x.desc, x.data, control_of(call), nullptr, call->workspace);
  return status == HR_OK ? multiplied(call, l) : status;
}

#define DOWN_OF(T, PACKED)                                                                                             \
  (const void *)down_kernel<T, 1, PACKED>, (const void *)down_kernel<T, 2, PACKED>,                                    \
      (const void *)down_kernel<T, 3, PACKED>, (const void *)down_kernel<T, 4, PACKED>,                                \
      (const void *)down_kernel<T, 5, PACKED>, (const void *)down_kernel<T, 6, PACKED>,                                \
      (const void *)down_kernel<T, 7, PACKED>, (const void *)down_kernel<T, 8, PACKED>
#define DOWN_DX_OF(T, PACKED)                                                                                          \
  (const void *)down_dx_kernel<T, 1, PACKED>, (const void *)down_dx_kernel<T, 2, PACKED>,                              \
      (const void *)down_dx_kernel<T, 3, PACKED>, (const void *)down_dx_kernel<T, 4, PACKED>
#define DOWN_DW_OF(T, PACKED)                                                                                          \
  (const void *)down_dw_kernel<T, 1, 2, PACKED>, (const void *)down_dw_kernel<T, 2, 2, PACKED>,                        \
      (const void *)down_dw_kernel<T, 3, 1, PACKED>, (const void *)down_dw_kernel<T, 4, 1, PACKED>
#define DOWN(T)    DOWN_OF(T, true), DOWN_OF(T, false)
#define DOWN_DX(T) DOWN_DX_OF(T, true), DOWN_DX_OF(T, false)
#define DOWN_DW(T) DOWN_DW_OF(T, true), DOWN_DW_OF(T, false)

extern "C" const hr_cuda_launcher hr_cuda_lora_down = {{down_prepare<HR_LORA_DOWN>, nullptr, down_run<HR_LORA_DOWN>},
                                                       {DOWN(bf16), DOWN(f16)}};
extern "C" const hr_cuda_launcher hr_cuda_lora_down_dx = {
    {down_prepare<HR_LORA_DOWN_DX>, nullptr, down_run<HR_LORA_DOWN_DX>}, {DOWN_DX(bf16), DOWN_DX(f16)}};
extern "C" const hr_cuda_launcher hr_cuda_lora_down_dw = {
    {down_prepare<HR_LORA_DOWN_DW>, nullptr, down_run<HR_LORA_DOWN_DW>},
    {DOWN_DW(bf16), DOWN_DW(f16), (const void *)down_dw_finish_kernel<float>, (const void *)down_dw_finish_kernel<bf16>,
     (const void *)down_dw_finish_kernel<f16>}};
