/* conv_db on CUDA: sums of dy over samples and places, of parts of the samples first, then their sum. */
#ifndef HR_OP_CONV_DB_CUH
#define HR_OP_CONV_DB_CUH

#include "dev/cuda/columns.cuh"
extern "C" {
#include "op/conv_cuda.h"
}

enum { DB_THREADS = 256 };

/* Partial sums [parts, K] of dy [samples, K, places]. A block has as many channels as its threads can take W places
 * each of, or one, and goes through the samples of a part; its threads then join in an order that the shape fixes. */
template <typename T, int W>
static __global__ void __launch_bounds__(DB_THREADS)
    conv_db_kernel(const T *dy, float *partial, const __grid_constant__ hr_conv_cuda_db p, int tile) {
  __shared__ float sums[DB_THREADS];
  int64_t channel = (int64_t)blockIdx.x * tile, part = blockIdx.y / p.pieces, first = blockIdx.y % p.pieces * p.piece;
  int64_t packs = (p.places - first < p.piece ? p.places - first : p.piece) / W;
  int64_t left = p.channels - channel < tile ? p.channels - channel : tile;
  int64_t end = (part + 1) * p.part < p.samples ? (part + 1) * p.part : p.samples;
  float sum = 0.0f;
#pragma unroll 4
  for (int64_t sample = part * p.part; sample < end; sample++) {
    const T *from = dy + (sample * p.channels + channel) * p.places + first;
    for (int64_t i = threadIdx.x; i < left * packs; i += DB_THREADS) {
      float x[W], pack_sum = 0.0f;
      pack_read<W>(from + i * W, x);
#pragma unroll
      for (int e = 0; e < W; e++)
        pack_sum += x[e];
      sum += pack_sum;
    }
  }
  sums[threadIdx.x] = sum;
  __syncthreads();
  if (tile == 1) {
    for (int half = DB_THREADS / 2; half > 0; half /= 2) {
      if ((int)threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
      __syncthreads();
    }
    if (threadIdx.x == 0) partial[blockIdx.y * p.channels + channel] = sums[0];
  } else if (threadIdx.x < left) {
    float total = 0.0f;
    for (int i = 0; i < (int)packs; i++)
      total += sums[threadIdx.x * (int)packs + i];
    partial[blockIdx.y * p.channels + channel + threadIdx.x] = total;
  }
}

template <typename T, int W> static hr_status conv_db_launch(const hr_call *call, const hr_conv_cuda_db &p) {
  int64_t packs = p.piece / W, tile = packs < DB_THREADS ? DB_THREADS / packs : 1;
  dim3 grid((unsigned)divide_up(p.channels, tile), (unsigned)(p.parts * p.pieces));
  launch(conv_db_kernel<T, W>, grid, DB_THREADS, 0, call_stream(call), (const T *)call->in[0].data,
         (float *)call->workspace, p, (int)tile);
  return launched();
}

template <typename T> constexpr int CONV_DB_WIDE = 16 / (int)sizeof(T);

static hr_status conv_db_prepare(const hr_call *call, void **, hr_error *err) {
  size_t bytes = hr__conv_cuda_db_of(&call->in[0].desc).bytes;
  if (call->workspace_bytes >= bytes) return HR_OK;
  return device_state(call)->host.fail(
      err, HR_FAILURE, NULL, NULL, "%zu bytes of workspace were planned, %zu are needed", call->workspace_bytes, bytes);
}

static hr_status conv_db_run(const hr_call *call) {
  hr_conv_cuda_db p = hr__conv_cuda_db_of(&call->in[0].desc);
  hr_status status = by_dtype(call->in[0].desc.dtype, [&](auto t) {
    using T = decltype(t);
    constexpr int W = CONV_DB_WIDE<T>;
    bool wide = p.places % W == 0 && aligned(call->in[0].data, 16);
    return wide ? conv_db_launch<T, W>(call, p) : conv_db_launch<T, 1>(call, p);
  });
  if (status != HR_OK) return status;
  columns_shape sums = {};
  sums.rows = p.parts * p.pieces;
  sums.columns = sums.row = p.channels;
  sums.groups = sums.used = 1;
  return by_dtype(call->out[0].desc.dtype, [&](auto r) {
    using P = decltype(r);
    return columns_run<float, P>(call, (const float *)call->workspace, (const P *)call->in[1].data,
                                 (P *)call->out[0].data, sums);
  });
}

#define CONV_DB(T) (const void *)conv_db_kernel<T, CONV_DB_WIDE<T>>, (const void *)conv_db_kernel<T, 1>

#endif
