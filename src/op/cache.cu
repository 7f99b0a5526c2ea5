/* Caches on CUDA: rows are put into them, and read by attention (cache_rows.cuh). */
#include "op/cache_rows.cuh"

enum { JOIN_THREADS = 128, PUT_THREADS = 128 };

/* ---- cache_put ---- */

struct put_shape {
  int64_t length, context, columns, width;
};

template <typename T, int N>
static __global__ void __launch_bounds__(PUT_THREADS)
    cache_put_kernel(const T *k, const T *v, T *keys, T *values, const int32_t *positions, const int32_t *counts,
                     put_shape s) {
  int64_t row = blockIdx.x, sample = row / s.length, t = row % s.length, position = positions[sample];
  if (t >= hr__cache_rows(position, counts[sample], s.length, s.context)) return;
  int64_t to = (sample * s.context + position + t) * s.width, from = row * s.columns;
  for (int64_t i = (int64_t)threadIdx.x * N; i < s.width; i += (int64_t)PUT_THREADS * N) {
    pack_store<N>(keys + to + i, pack_load<N>(k + from + i));
    pack_store<N>(values + to + i, pack_load<N>(v + from + i));
  }
}

static hr_status cache_put_run(const hr_call *call) {
  const hr_cache_args *args = (const hr_cache_args *)call->args;
  const hr_desc &k = call->in[HR_PUT_K].desc;
  put_shape s = {k.dim[1], call->out[0].desc.dim[1], k.dim[2], args->kv_heads * args->head_dim};
  size_t bytes = (size_t)(desc_count(call->out[0].desc)) * (k.dtype == HR_F32 ? 4 : 2);
  for (int i = 0; i < 2; i++) /* in plans they lie in one place */
    if (call->out[i].data != call->in[i].data &&
        cudaMemcpyAsync(call->out[i].data, call->in[i].data, bytes, cudaMemcpyDeviceToDevice, call_stream(call)) !=
            cudaSuccess)
      return HR_FAILURE;
  return by_dtype(k.dtype, [&](auto t) {
    using T = decltype(t);
    const T *from_k = (const T *)call->in[HR_PUT_K].data, *from_v = (const T *)call->in[HR_PUT_V].data;
    if (!from_v) { /* q | k | v */
      from_k += args->heads * args->head_dim;
      from_v = from_k + s.width;
    }
    bool packed =
        s.width % WIDE == 0 && s.columns % WIDE == 0 && wide(from_k, from_v, call->out[0].data, call->out[1].data);
    auto kernel = packed ? cache_put_kernel<T, WIDE> : cache_put_kernel<T, 1>;
    launch(kernel, (unsigned)(k.dim[0] * k.dim[1]), PUT_THREADS, 0, call_stream(call), from_k, from_v,
           (T *)call->out[0].data, (T *)call->out[1].data, (const int32_t *)call->in[HR_PUT_POSITIONS].data,
           (const int32_t *)call->in[HR_PUT_COUNTS].data, s);
    return launched();
  });
}

/* ---- cache_attention ---- */

template <typename T, int LANES, int ROWS>
static __global__ void __launch_bounds__(32 * ATTENTION_WARPS<LANES, ROWS>)
    cache_attention_kernel(__grid_constant__ const cache_read<T> c) {
  __shared__ attention_room<LANES, ROWS> room;
  next_may_begin();
  front_wait();
  attention_rows_do<T, LANES, ROWS>(c, blockIdx.x, blockIdx.y, blockIdx.z, room);
}

/* A block for each row. */
template <typename T>
static __global__ void __launch_bounds__(JOIN_THREADS) cache_join_kernel(__grid_constant__ const cache_read<T> c) {
  next_may_begin();
  front_wait();
  for (int64_t d = threadIdx.x; d < c.shape.head_dim; d += JOIN_THREADS)
    join_do(c, blockIdx.x, d);
}

template <typename T, int LANES, int ROWS>
static hr_status attention_launch(const hr_call *call, const attention_shape &s) {
  dim3 grid((unsigned)divide_up(s.rows, ROWS), (unsigned)(s.samples * s.kv_heads), (unsigned)s.parts);
  cache_read<T> read = cache_read_of<T>(call, s);
  hr_status status = launch_early(call, cache_attention_kernel<T, LANES, ROWS>, grid,
                                  dim3(32 * ATTENTION_WARPS<LANES, ROWS>), 0, read);
  if (status != HR_OK || s.parts == 1) return status;
  return launch_early(call, cache_join_kernel<T>, dim3((unsigned)(s.samples * s.length * s.heads)), dim3(JOIN_THREADS),
                      0, read);
}

template <typename T, int LANES> static hr_status attention_rows(const hr_call *call, const attention_shape &s) {
  /* A row to a block where all of them find room at once: with as many warps, the bits of four. */
  int64_t rows = s.samples * s.kv_heads * s.parts * s.rows;
  bool alone = s.rows <= 4 && rows <= device_state(call)->multiprocessors &&
               ATTENTION_WARPS<LANES, 1> == ATTENTION_WARPS<LANES, 4>;
  if (s.rows == 1 || alone) return attention_launch<T, LANES, 1>(call, s);
  return s.rows <= 4 ? attention_launch<T, LANES, 4>(call, s) : attention_launch<T, LANES, 8>(call, s);
}

static hr_status cache_attention_prepare(const hr_call *call, void **prepared, hr_error *err) {
  const hr_cache_args *args = (const hr_cache_args *)call->args;
  *prepared = nullptr;
  if (args->head_dim <= 32 * WIDE) return HR_OK;
  return device_state(call)->host.fail(err, HR_UNSUPPORTED, NULL, "use memory.device: cpu",
                                       "heads of %lld elements are wider than the %d that a GPU generates with",
                                       (long long)args->head_dim, 32 * WIDE);
}

static hr_status cache_attention_run(const hr_call *call) {
  const hr_cache_args *args = (const hr_cache_args *)call->args;
  const attention_shape s = attention_shape_of(call);
  return by_dtype(call->in[ATT_Q].desc.dtype, [&](auto t) {
    using T = decltype(t);
    if (args->head_dim <= 4 * WIDE) return attention_rows<T, 4>(call, s);
    if (args->head_dim <= 8 * WIDE) return attention_rows<T, 8>(call, s);
    return args->head_dim <= 16 * WIDE ? attention_rows<T, 16>(call, s) : attention_rows<T, 32>(call, s);
  });
}

#define PUT(T) (const void *)cache_put_kernel<T, WIDE>, (const void *)cache_put_kernel<T, 1>
#define ATTENTION_ROWS(T, LANES)                                                                                       \
  (const void *)cache_attention_kernel<T, LANES, 1>, (const void *)cache_attention_kernel<T, LANES, 4>,                \
      (const void *)cache_attention_kernel<T, LANES, 8>
#define ATTENTION(T)                                                                                                   \
  ATTENTION_ROWS(T, 4), ATTENTION_ROWS(T, 8), ATTENTION_ROWS(T, 16), ATTENTION_ROWS(T, 32),                            \
      (const void *)cache_join_kernel<T>

extern "C" const hr_cuda_launcher hr_cuda_cache_put = {{nullptr, nullptr, cache_put_run},
                                                       {PUT(float), PUT(bf16), PUT(f16)}};
extern "C" const hr_cuda_launcher hr_cuda_cache_attention = {{cache_attention_prepare, nullptr, cache_attention_run},
                                                             {ATTENTION(float), ATTENTION(bf16), ATTENTION(f16)}};
