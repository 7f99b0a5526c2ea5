/* Kernels around the products of a convolution: unfolded rows [rows, channels x taps] in front of them, results in the
 * order of the tensor behind them, and weights in the order of a walk of conv_dx.
 */
#ifndef HR_OP_CONV_UNFOLD_CUH
#define HR_OP_CONV_UNFOLD_CUH

#include "op/conv_steps.cuh"

enum {
  UNFOLD_ROWS = 32, /* of one block */
  UNFOLD_THREADS = 256,
  TURN_TILE = 32, /* rows and columns */
  TURN_LINES = 8,
  PUT_ROWS = 64,
  PUT_COLUMNS = 32,
  PUT_THREADS = 256,
  REORDER_THREADS = 256
};

/* Zero is all bits 0 in every float type, so that only their width counts. */
template <typename F> static hr_status by_width(hr_dtype dtype, const F &function) {
  return dtype == HR_F32 ? function(uint32_t()) : function(uint16_t());
}

/* rows [first, first + rows) of all samples' places; columns: channels x taps. Each thread has V neighbouring columns
 * and goes down the rows. */
template <typename T, int AXES, int V>
static __global__ void __launch_bounds__(UNFOLD_THREADS)
    unfold_kernel(const T *from, T *to, const __grid_constant__ conv_steps w, int64_t first, int64_t rows,
                  int64_t channels, int64_t taps) {
  __shared__ int64_t base[UNFOLD_ROWS];
  __shared__ int start[UNFOLD_ROWS][HR_CONV_AXES];
  int64_t columns = channels * taps, size = volume(w.source), places = volume(w.places);
  int64_t row = (int64_t)blockIdx.x * UNFOLD_ROWS, left = rows - row < UNFOLD_ROWS ? rows - row : UNFOLD_ROWS;
  if (threadIdx.x < left) {
    int at[HR_CONV_AXES], begin[HR_CONV_AXES];
    int64_t sample = (first + row + threadIdx.x) / places;
    place_at<AXES>(w, first + row + threadIdx.x - sample * places, at);
    start_of<AXES>(w, at, begin);
    base[threadIdx.x] = sample * channels * size + linear_at(w.source, begin);
    for (int d = 0; d < HR_CONV_AXES; d++)
      start[threadIdx.x][d] = begin[d];
  }
  __syncthreads();
  int64_t column = ((int64_t)blockIdx.y * blockDim.x + threadIdx.x) * V;
  if (column >= columns) return;
  int64_t offset[V];
  int away[V][HR_CONV_AXES];
#pragma unroll
  for (int v = 0; v < V; v++) {
    int64_t channel = (column + v) / taps;
    tap_at<AXES>(w, column + v - channel * taps, away[v]);
    offset[v] = channel * size + linear_at(w.source, away[v]);
  }
  to += row * columns + column;
#pragma unroll 4
  for (int r = 0; r < left; r++, to += columns) {
    pack<T, V> values;
#pragma unroll
    for (int v = 0; v < V; v++)
      values.value[v] = inside<AXES>(w, start[r], away[v]) ? from[base[r] + offset[v]] : T(0);
    *(pack<T, V> *)to = values;
  }
}

/* The same where a row has one tap of each channel: [channels, places] of a sample is turned, through tiles. */
template <typename T, int AXES>
static __global__ void __launch_bounds__(TURN_TILE *TURN_LINES)
    turn_kernel(const T *from, T *to, const __grid_constant__ conv_steps w, int64_t first, int64_t rows,
                int64_t channels) {
  __shared__ T tile[TURN_TILE][TURN_TILE + 2];
  __shared__ int64_t base[TURN_TILE]; /* -1: outside */
  int64_t row = (int64_t)blockIdx.x * TURN_TILE, channel = (int64_t)blockIdx.y * TURN_TILE;
  int64_t size = volume(w.source), places = volume(w.places);
  unsigned x = threadIdx.x % TURN_TILE, y = threadIdx.x / TURN_TILE;
  if (y == 0) {
    const int none[HR_CONV_AXES] = {};
    int at[HR_CONV_AXES], start[HR_CONV_AXES];
    int64_t sample = (first + row + x) / places;
    place_at<AXES>(w, first + row + x - sample * places, at);
    start_of<AXES>(w, at, start);
    bool there = row + x < rows && inside<AXES>(w, start, none);
    base[x] = there ? sample * channels * size + linear_at(w.source, start) : -1;
  }
  __syncthreads();
  int64_t at = base[x];
#pragma unroll
  for (unsigned c = y; c < TURN_TILE; c += TURN_LINES)
    tile[x][c] = at >= 0 && channel + c < channels ? from[at + (channel + c) * size] : T(0);
  __syncthreads();
#pragma unroll
  for (unsigned r = y; r < TURN_TILE; r += TURN_LINES)
    if (row + r < rows && channel + x < channels) to[(row + r) * channels + channel + x] = tile[r][x];
}

template <typename T> struct put_to {
  const float *product; /* [rows, channels]; NULL: zeros */
  const T *bias, *add;  /* NULL: none; add may be the result */
  T *result;
  int64_t first, rows, channels; /* rows [first, first + rows) of all samples' places */
};

/* Rows of a product (+ bias) (+ add) to their places in [samples, channels, size]. Tiles of whole samples where these
 * are small: their elements are then neighbours from one channel to the next. */
template <typename T, int AXES>
static __global__ void __launch_bounds__(PUT_THREADS)
    put_kernel(const __grid_constant__ put_to<T> p, const __grid_constant__ conv_steps w, int tile_rows) {
  __shared__ float tile[PUT_ROWS][PUT_COLUMNS + 1];
  __shared__ int64_t to[PUT_ROWS];
  int64_t row = (int64_t)blockIdx.x * tile_rows, channel = (int64_t)blockIdx.y * PUT_COLUMNS;
  int64_t size = volume(w.to), places = volume(w.places);
  unsigned rows = (unsigned)(p.rows - row < tile_rows ? p.rows - row : tile_rows);
  unsigned columns = (unsigned)(p.channels - channel < PUT_COLUMNS ? p.channels - channel : PUT_COLUMNS);
  if (threadIdx.x < rows) {
    int at[HR_CONV_AXES];
    int64_t sample = (p.first + row + threadIdx.x) / places;
    place_at<AXES>(w, p.first + row + threadIdx.x - sample * places, at);
    for (int d = 0; d < HR_CONV_AXES; d++)
      at[d] = w.to_first[d] + at[d] * w.to_step[d];
    to[threadIdx.x] = (sample * p.channels + channel) * size + linear_at(w.to, at);
  }
  unsigned x = threadIdx.x % PUT_COLUMNS;
  for (unsigned r = threadIdx.x / PUT_COLUMNS; r < rows; r += PUT_THREADS / PUT_COLUMNS)
    if (x < columns) tile[r][x] = p.product ? p.product[(row + r) * p.channels + channel + x] : 0.0f;
  __syncthreads();
  unsigned run = places < rows ? (unsigned)places : rows; /* rows that are neighbours in the result */
  for (unsigned i = threadIdx.x; i < rows * columns; i += PUT_THREADS) {
    unsigned line = i / run, sample = line / columns, c = line - sample * columns, r = sample * run + (i - line * run);
    int64_t at = to[r] + c * size;
    float value = tile[r][c];
    if (p.bias) value += to_float(p.bias[channel + c]);
    if (p.add) value += to_float(p.add[at]);
    p.result[at] = from_float<T>(value);
  }
}

/* Weights [groups, in, out, taps] of a walk, out of W [groups, out, in, kernel]. */
template <typename T>
static __global__ void reorder_kernel(const T *from, T *to, const __grid_constant__ conv_steps w, int64_t groups,
                                      int64_t in, int64_t out) {
  int64_t taps = volume(w.taps), kernel = volume(w.kernel), count = groups * in * out * taps;
  int64_t i = (int64_t)blockIdx.x * REORDER_THREADS + threadIdx.x;
  if (i >= count) return;
  int64_t tap = i % taps, k = i / taps % out, c = i / taps / out % in, group = i / taps / out / in;
  int at[HR_CONV_AXES];
  for (int d = HR_CONV_AXES - 1; d >= 0; d--) {
    at[d] = w.w_first[d] + (int)(tap % w.taps[d]) * w.w_step[d];
    tap /= w.taps[d];
  }
  to[i] = from[((group * out + k) * in + c) * kernel + linear_at(w.kernel, at)];
}

/* ---- launches ---- */

/* to [rows, channels x taps] = rows [first, first + rows), unfolded */
static hr_status unfold_run(const hr_call *call, const hr_conv_sizes &s, const hr_conv_walk &walk, hr_dtype dtype,
                            const void *from, void *to, int64_t first, int64_t rows, int64_t channels) {
  conv_steps steps = steps_of(s, walk);
  int64_t taps = hr__conv_volume(walk.taps), columns = channels * taps;
  cudaStream_t stream = call_stream(call);
  return by_width(dtype, [&](auto t) {
    return by_axes(s, [&](auto axes) {
      using T = decltype(t);
      constexpr int AXES = decltype(axes)::value;
      if (taps == 1) {
        dim3 grid((unsigned)divide_up(rows, TURN_TILE), (unsigned)divide_up(channels, TURN_TILE));
        launch(turn_kernel<T, AXES>, grid, TURN_TILE * TURN_LINES, 0, stream, (const T *)from, (T *)to, steps, first,
               rows, channels);
        return launched();
      }
      bool pairs = columns % 2 == 0;
      int64_t wanted = pairs ? columns / 2 : columns, tiles = divide_up(wanted, UNFOLD_THREADS);
      unsigned threads = (unsigned)(divide_up(divide_up(wanted, tiles), 32) * 32);
      dim3 grid((unsigned)divide_up(rows, UNFOLD_ROWS), (unsigned)tiles);
      if (pairs)
        launch(unfold_kernel<T, AXES, 2>, grid, threads, 0, stream, (const T *)from, (T *)to, steps, first, rows,
               channels, taps);
      else
        launch(unfold_kernel<T, AXES, 1>, grid, threads, 0, stream, (const T *)from, (T *)to, steps, first, rows,
               channels, taps);
      return launched();
    });
  });
}

template <typename T>
static hr_status put_run(const hr_call *call, const hr_conv_sizes &s, const hr_conv_walk &walk, const put_to<T> &p) {
  int64_t places = hr__conv_volume(walk.places);
  int tile = places <= PUT_ROWS ? PUT_ROWS / (int)places * (int)places : (int)PUT_ROWS;
  dim3 grid((unsigned)divide_up(p.rows, tile), (unsigned)divide_up(p.channels, PUT_COLUMNS));
  return by_axes(s, [&](auto axes) {
    launch(put_kernel<T, decltype(axes)::value>, grid, PUT_THREADS, 0, call_stream(call), p, steps_of(s, walk), tile);
    return launched();
  });
}

static hr_status reorder_run(const hr_call *call, const hr_conv_sizes &s, const hr_conv_walk &walk, hr_dtype dtype,
                             const void *from, void *to) {
  int64_t count = s.groups * s.in * s.out * hr__conv_volume(walk.taps);
  return by_width(dtype, [&](auto t) {
    using T = decltype(t);
    launch(reorder_kernel<T>, (unsigned)divide_up(count, REORDER_THREADS), REORDER_THREADS, 0, call_stream(call),
           (const T *)from, (T *)to, steps_of(s, walk), s.groups, s.in, s.out);
    return launched();
  });
}

#define UNFOLD_WIDTH(T)                                                                                                \
  (const void *)unfold_kernel<T, 1, 1>, (const void *)unfold_kernel<T, 1, 2>,                                          \
      (const void *)unfold_kernel<T, HR_CONV_AXES, 1>, (const void *)unfold_kernel<T, HR_CONV_AXES, 2>,                \
      (const void *)turn_kernel<T, 1>, (const void *)turn_kernel<T, HR_CONV_AXES>
#define UNFOLD_FUNCTIONS  UNFOLD_WIDTH(uint16_t), UNFOLD_WIDTH(uint32_t)
#define PUT_TYPE(T)       (const void *)put_kernel<T, 1>, (const void *)put_kernel<T, HR_CONV_AXES>
#define PUT_FUNCTIONS     PUT_TYPE(float), PUT_TYPE(bf16), PUT_TYPE(f16)
#define REORDER_FUNCTIONS (const void *)reorder_kernel<uint16_t>, (const void *)reorder_kernel<uint32_t>

#endif
