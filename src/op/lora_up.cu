/* lora_up on CUDA: which of its ways a call goes. In 16 bits tensor cores multiply; shapes that no other way takes go
 * by plain loops. Neighbours that go along: op/lora_up_match.cuh. */
#include "op/lora_up_loop.cuh"
#include "op/lora_up_match.cuh"
#include "op/lora_up_pack.cuh"

static hr_status lora_up_run(const hr_call *call) {
  const hr_lora_up_args &a = *(const hr_lora_up_args *)call->args;
  return by_dtype(call->in[0].desc.dtype, [&](auto t) {
    using T = decltype(t);
    constexpr int W8 = PACK_WIDTH<T, 8>, W16 = PACK_WIDTH<T, 16>;
    if constexpr (sizeof(T) == 2) {
      if (a.rank == 8 && slabs_fit(call, a))
        return up_slab_launch<T, 8, SLAB_ALONE>(call, a, (T *)call->out[0].data, nullptr);
      if (a.rank == 16 && slabs_fit(call, a))
        return up_slab_launch<T, 16, SLAB_ALONE>(call, a, (T *)call->out[0].data, nullptr);
    }
    if (a.rank == 8 && packs_fit<T, W8>(call, a)) return up_pack_launch<T, 8, W8>(call, a);
    if (a.rank == 16 && packs_fit<T, W16>(call, a)) return up_pack_launch<T, 16, W16>(call, a);
    return up_loop_launch<T>(call, a);
  });
}

template <typename T, typename P> static hr_status bwd_run_as(const hr_call *call) {
  const hr_lora_up_args &a = ((const hr_lora_up_bwd_args *)call->args)->up;
  int64_t rows = desc_rows(call->in[0].desc);
  if constexpr (sizeof(T) == 2) {
    hr_lora_cuda l = hr__lora_cuda_of(rows, call->in[0].desc.dtype, &a);
    if (l.tiled && aligned(call->in[0].data, 16)) {
      dy_stored<T> dy = {(const T *)call->in[0].data, a.columns};
      return a.rank == 8 ? bwd_tile_launch<T, P, 8>(call, dy, a, l, rows)
                         : bwd_tile_launch<T, P, 16>(call, dy, a, l, rows);
    }
  }
  return bwd_loop_launch<T, P>(call, a, rows);
}

static hr_status lora_up_bwd_prepare(const hr_call *call, void **prepared, hr_error *err) {
  const hr_lora_up_args &a = ((const hr_lora_up_bwd_args *)call->args)->up;
  hr_lora_cuda l = hr__lora_cuda_of(desc_rows(call->in[0].desc), call->in[0].desc.dtype, &a);
  *prepared = nullptr;
  if (call->workspace_bytes >= l.bytes) return HR_OK;
  return device_state(call)->host.fail(err, HR_FAILURE, NULL, NULL,
                                       "%zu bytes of workspace were planned, %zu are needed", call->workspace_bytes,
                                       l.bytes);
}

static hr_status lora_up_bwd_run(const hr_call *call) {
  return by_dtype(call->in[0].desc.dtype, [&](auto t) {
    return by_dtype(call->out[1].desc.dtype, [&](auto p) { return bwd_run_as<decltype(t), decltype(p)>(call); });
  });
}

extern "C" const hr_cuda_launcher hr_cuda_lora_up = {
    {nullptr, nullptr, lora_up_run},
    {PACK_FUNCTIONS(float), PACK_FUNCTIONS(bf16), PACK_FUNCTIONS(f16), UP_LOOP_FUNCTIONS(float),
     UP_LOOP_FUNCTIONS(bf16), UP_LOOP_FUNCTIONS(f16), SLAB_FUNCTIONS(bf16), SLAB_FUNCTIONS(f16), UP_NORM_FUNCTIONS},
    nullptr,
    up_take};
extern "C" const hr_cuda_launcher hr_cuda_lora_up_bwd = {{lora_up_bwd_prepare, nullptr, lora_up_bwd_run},
                                                         {BWD_LOOP_FUNCTIONS(float), BWD_LOOP_FUNCTIONS(bf16),
                                                          BWD_LOOP_FUNCTIONS(f16), TILE_FUNCTIONS(bf16),
                                                          TILE_FUNCTIONS(f16)}};
