/* The kernel that takes logits of head_loss to losses and to their own gradient. */
#ifndef HR_OP_HEAD_LOSS_SOFTMAX_CUH
#define HR_OP_HEAD_LOSS_SOFTMAX_CUH

#include <float.h>

#include "dev/cuda/launch.cuh"

enum { HEAD_THREADS = 512, HEAD_WIDTH = 4, HEAD_PARTS = 2, HEAD_TILE = HEAD_THREADS * HEAD_WIDTH * HEAD_PARTS };

/* What is added to every row of logits; data is NULL where there is nothing. */
struct head_bias {
  const void *data;
  hr_dtype dtype;
};

__device__ inline float bias_at(const head_bias &bias, int64_t i) {
  if (!bias.data) return 0.0f;
  if (bias.dtype == HR_BF16) return to_float(((const bf16 *)bias.data)[i]);
  if (bias.dtype == HR_F16) return to_float(((const f16 *)bias.data)[i]);
  return ((const float *)bias.data)[i];
}

/* Largest number seen, and the sum of exp(x - largest). */
struct running {
  float most, sum;
};

__device__ inline running running_join(running a, running b) {
  float most = fmaxf(a.most, b.most);
  return {most, a.sum * expf(a.most - most) + b.sum * expf(b.most - most)};
}

/* Elements of the tile at `base` that are this thread's, with their bias: HEAD_PARTS packs, one block's width apart;
 * -inf past the end. Rows are padded to whole packs, the bias is not. */
__device__ inline void tile_load(const float *row, const head_bias &bias, int64_t base, int64_t columns,
                                 float (&x)[HEAD_PARTS][HEAD_WIDTH]) {
#pragma unroll
  for (int p = 0; p < HEAD_PARTS; p++) {
    int64_t i = base + (p * HEAD_THREADS + (int)threadIdx.x) * HEAD_WIDTH;
    pack<float, HEAD_WIDTH> from = {};
    if (i < columns) from = *(const pack<float, HEAD_WIDTH> *)(row + i);
#pragma unroll
    for (int e = 0; e < HEAD_WIDTH; e++)
      x[p][e] = i + e < columns ? from.value[e] + bias_at(bias, i + e) : -INFINITY;
  }
}

/* The same result in every thread, in one order: lanes, then warps. */
__device__ inline running block_join(running mine) {
  __shared__ running warps[HEAD_THREADS / 32];
  for (int distance = 16; distance > 0; distance /= 2) {
    running other = {__shfl_down_sync(~0u, mine.most, distance), __shfl_down_sync(~0u, mine.sum, distance)};
    mine = running_join(mine, other);
  }
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = mine;
  __syncthreads();
  running all = warps[0];
  for (int w = 1; w < HEAD_THREADS / 32; w++)
    all = running_join(all, warps[w]);
  return all;
}

/* One block for each row of logits [rows, ld]: its loss and, going backward, its gradient in the row's place.
 *
 * An element of the gradient may lie on logits of lower numbers. Tiles go upwards and are read whole before they are
 * written, so that those have been read. */
template <typename G, bool BACKWARD>
static __global__ void softmax_kernel(float *logits, int64_t ld, int64_t columns, head_bias bias,
                                      const int32_t *targets, const float *dloss, const hr_control *control,
                                      double *losses) {
  float *row = logits + (int64_t)blockIdx.x * ld;
  G *gradient = (G *)row;
  int64_t target = targets[blockIdx.x];
  float x[HEAD_PARTS][HEAD_WIDTH];
  bool counts = target >= 0 && target < columns; /* the same in all threads */
  float most = 0.0f, scale = 0.0f, factor = 0.0f;

  if (counts) {
    running mine = {-FLT_MAX, 0.0f};
    for (int64_t base = 0; base < columns; base += HEAD_TILE) {
      tile_load(row, bias, base, columns, x);
      float largest = mine.most, sum = 0.0f;
#pragma unroll
      for (int p = 0; p < HEAD_PARTS; p++)
#pragma unroll
        for (int e = 0; e < HEAD_WIDTH; e++)
          largest = fmaxf(largest, x[p][e]);
#pragma unroll
      for (int p = 0; p < HEAD_PARTS; p++)
#pragma unroll
        for (int e = 0; e < HEAD_WIDTH; e++)
          sum += expf(x[p][e] - largest);
      mine = {largest, mine.sum * expf(mine.most - largest) + sum};
    }
    running all = block_join(mine);
    most = all.most;
    if (BACKWARD) {
      scale = *dloss * control->loss_weight;
      factor = (float)((double)scale / (double)all.sum);
    }
    if (threadIdx.x == 0)
      losses[blockIdx.x] = log((double)all.sum) + (double)all.most - (double)(row[target] + bias_at(bias, target));
  } else if (threadIdx.x == 0) {
    losses[blockIdx.x] = 0.0;
  }
  if constexpr (BACKWARD) {
    for (int64_t base = 0; base < columns; base += HEAD_TILE) {
      tile_load(row, bias, base, columns, x);
      __syncthreads();
#pragma unroll
      for (int p = 0; p < HEAD_PARTS; p++) {
        int64_t i = base + (p * HEAD_THREADS + (int)threadIdx.x) * HEAD_WIDTH;
        pack<G, HEAD_WIDTH> to;
#pragma unroll
        for (int e = 0; e < HEAD_WIDTH; e++) {
          float g = counts ? expf(x[p][e] - most) * factor : 0.0f;
          to.value[e] = from_float<G>(counts && i + e == target ? g - scale : g);
        }
        if (i < columns) *(pack<G, HEAD_WIDTH> *)(gradient + i) = to;
      }
    }
  }
}

#endif
