/* What kernels of tiles share (op/conv_tiles.cuh, op/conv_lines.cuh): a walk as they take it, rows of channels in
 * shared memory, weights in the order of registers, and the way of results to memory.
 */
#ifndef HR_OP_CONV_TILE_CUH
#define HR_OP_CONV_TILE_CUH

#include "op/conv_steps.cuh"
extern "C" {
#include "op/conv_tile.h"
}

enum {
  TILE_LINE = 64 + 4
}; /* floats of a channel of a warp's results on their way: 64 places, and 4 against conflicts */

template <typename T> struct tile_call {
  conv_steps w;
  const T *from;
  const uint4 *weights;
  const T *bias, *add; /* NULL: none; add may be the result */
  T *to;
  int64_t from_size, to_size; /* elements of a channel */
  int channels, columns;      /* of the source, of the result */
  int chunks, taps;
  int of[HR_CONV_AXES], box[HR_CONV_AXES], tiles[HR_CONV_AXES];
  int samples; /* of a tile */
  int64_t all_samples;
  int column_blocks;
};

/* Where element `unit` x 8 of a row begins in shared memory, in elements: neighbouring rows lie in other banks. */
template <int CHANNELS> __device__ inline int tile_element(int row, int unit) {
  constexpr int UNITS = CHANNELS / 8, ROWS = UNITS >= 8 ? 1 : 8 / UNITS;
  return row * CHANNELS + ((unit ^ (int)((unsigned)row / ROWS % UNITS)) << 3);
}

/* How far the smallest of all taps reads from the first one. */
__device__ inline int tile_lowest(const conv_steps &w, int d) {
  return min(0, (w.taps[d] - 1) * w.tap[d]);
}

/* A warp's results, 64 places of 32 channels, to lanes that have neighbouring places, eight channels at a time. `at`:
 * where places lane and lane + 32 lie in a channel, -1: nowhere; `line`: 8 TILE_LINE floats of the warp's own. */
template <typename T>
__device__ inline void tile_put(const tile_call<T> &p, const float (&sums)[4][4][4], int64_t sample, int64_t block,
                                const int64_t at[2], float *line) {
  int lane = (int)threadIdx.x % 32;
  int q = lane / 4, t = lane % 4;
#pragma unroll
  for (int j = 0; j < 4; j++) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
      line[2 * t * TILE_LINE + i * 16 + q] = sums[i][j][0];
      line[(2 * t + 1) * TILE_LINE + i * 16 + q] = sums[i][j][1];
      line[2 * t * TILE_LINE + i * 16 + q + 8] = sums[i][j][2];
      line[(2 * t + 1) * TILE_LINE + i * 16 + q + 8] = sums[i][j][3];
    }
    __syncwarp();
#pragma unroll
    for (int c = 0; c < 8; c++) {
      int64_t column = block * 32 + j * 8 + c;
      if (column >= p.columns) break;
      float bias = p.bias ? to_float(p.bias[column]) : 0.0f;
      int64_t channel = (sample * p.columns + column) * p.to_size;
#pragma unroll
      for (int i = 0; i < 2; i++) {
        if (at[i] < 0) continue;
        float value = line[c * TILE_LINE + i * 32 + lane] + bias;
        if (p.add) value += to_float(p.add[channel + at[i]]);
        p.to[channel + at[i]] = from_float<T>(value);
      }
    }
    __syncwarp();
  }
}

/* How weights lie in W [K, C, kernel] for a walk: elements from one column of the result, and from one channel of the
 * source, to the next. */
struct tile_weights {
  int64_t column, channel;
  int columns, channels, chunks, taps, steps;
};

/* To the order of registers: [blocks of 32 columns, chunks, taps, steps of 16 channels, 2, lanes] of eight numbers
 * each, which are both registers of two matrices [16 channels, 8 columns]. */
template <typename T>
static __global__ void __launch_bounds__(256)
    tile_weights_kernel(const T *from, uint4 *to, const __grid_constant__ conv_steps w,
                        const __grid_constant__ tile_weights s, int64_t count) {
  int64_t i = (int64_t)blockIdx.x * 256 + threadIdx.x;
  if (i >= count) return;
  const uint16_t *words = (const uint16_t *)from;
  int lane = (int)(i % 32), pair = (int)(i / 32 % 2), q = lane / 4, t = lane % 4;
  int64_t rest = i / 64;
  int step = (int)(rest % s.steps);
  rest /= s.steps;
  int tap = (int)(rest % s.taps);
  rest /= s.taps;
  int chunk = (int)(rest % s.chunks);
  int64_t block = rest / s.chunks;
  int at[HR_CONV_AXES], number = tap;
  for (int d = HR_CONV_AXES - 1; d >= 0; d--) {
    at[d] = w.w_first[d] + number % w.taps[d] * w.w_step[d];
    number /= w.taps[d];
  }
  int64_t element = linear_at(w.kernel, at);
  uint32_t x[4];
  for (int word = 0; word < 4; word++) {
    int64_t column = block * 32 + pair * 16 + word / 2 * 8 + q;
    x[word] = 0;
    for (int half = 0; half < 2; half++) {
      int64_t channel = ((int64_t)chunk * s.steps + step) * 16 + word % 2 * 8 + 2 * t + half;
      if (column < s.columns && channel < s.channels)
        x[word] |= (uint32_t)words[column * s.column + channel * s.channel + element] << 16 * half;
    }
  }
  to[i] = make_uint4(x[0], x[1], x[2], x[3]);
}

#endif
