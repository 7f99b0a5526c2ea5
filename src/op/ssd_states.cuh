/* States of the scan on a GPU: what each chunk adds to the state, and the pass that adds it up. */
#ifndef HR_OP_SSD_STATES_CUH
#define HR_OP_SSD_STATES_CUH

#include "op/ssd_mma.cuh"

enum { PASS_THREADS = HR_SSD_PASS_THREADS, PASS_AHEAD = 8 };

/* ---- what a chunk adds ---- */

/* Elements of shared memory: two stages of B (or C) and x (or dy). */
template <int N> constexpr int states_stage = SIDE *(pitch<N> + pitch<WIDTH>);
template <int N> constexpr size_t states_bytes = 2 * states_stage<N> * 2;

/* SIDE rows of x on their way to shared memory, 8 elements a piece, each times the factor of its row. */
template <typename T> struct factored_rows {
  enum { PIECES = SIDE * WIDTH / 8 / SCAN_THREADS };
  pack<T, 8> piece[PIECES];

  __device__ void load(const T *from, int64_t stride, int rows, int columns) {
    bool whole = columns % 8 == 0 && stride % 8 == 0 && (uintptr_t)from % 16 == 0;
#pragma unroll
    for (int k = 0; k < PIECES; k++) {
      int i = k * SCAN_THREADS + (int)threadIdx.x, row = i / (WIDTH / 8), column = i % (WIDTH / 8) * 8;
      if (whole && row < rows && column < columns)
        piece[k] = pack_load<8>(from + row * stride + column);
      else
        for (int e = 0; e < 8; e++)
          piece[k].value[e] =
              row < rows && column + e < columns ? from[row * stride + column + e] : from_float<T>(0.0f);
    }
  }
  template <typename F> __device__ void store(T *to, F factor) const {
#pragma unroll
    for (int k = 0; k < PIECES; k++) {
      int i = k * SCAN_THREADS + (int)threadIdx.x, row = i / (WIDTH / 8), column = i % (WIDTH / 8) * 8;
      float by = factor(row);
      uint32_t words[4];
#pragma unroll
      for (int e = 0; e < 4; e++)
        words[e] = pair_of(T(), by * to_float(piece[k].value[2 * e]), by * to_float(piece[k].value[2 * e + 1]));
      *(uint4 *)(to + row * pitch<WIDTH> + column) = make_uint4(words[0], words[1], words[2], words[3]);
    }
  }
};

/* A block: one chunk of one head, [N, P]: sum of B x^T d exp(a_n - a), or with BACK of C dy^T exp(a). A warp has half
 * of N and half of P. */
template <typename T, int N, bool BACK>
static __global__ void __launch_bounds__(SCAN_THREADS, 4) ssd_states_kernel(ssd_operands<T> o) {
  constexpr int HALF = WIDTH / 2, STRIPS = N / 2 / STRIP;
  T *shared = launch_shared<T>();
  int64_t chunk = blockIdx.x, sequence = blockIdx.y / o.size.heads, head = blockIdx.y % o.size.heads;
  int64_t group = head / (o.size.heads / o.size.groups);
  chunk_place p = chunk_at(o.size, chunk);
  int states = (int)o.size.state, dim = (int)o.size.dim, warp = (int)threadIdx.x / 32;
  int first_n = warp / 2 * (N / 2), first_p = warp % 2 * HALF;
  int64_t row = sequence * o.size.length + p.first, line = blockIdx.y * o.size.length + p.first;
  const T *b = o.mixed + row * o.size.mixed + (BACK ? o.size.c_first : o.size.b_first) + group * o.size.state;
  const T *x = BACK ? o.dy + row * o.size.y + head * o.size.dim : o.mixed + row * o.size.mixed + head * o.size.dim;
  int64_t stride = BACK ? o.size.y : o.size.mixed;
  const float *a = o.decays + line, *d = o.steps + line;
  float end = a[p.count - 1] * LOG2_E;
  factored_rows<T> next;
  float sum[STRIPS][HALF / 8][4] = {};
  next.load(x, stride, p.count, dim);
  rows_start<SIDE, N>(shared, b, o.size.mixed, p.count, states);
  for (int tile = 0; tile < p.tiles; tile++) {
    T *left = shared + tile % 2 * states_stage<N>, *right = left + SIDE * pitch<N>;
    int begin = tile * SIDE;
    next.store(right, [&](int i) {
      if (begin + i >= p.count) return 0.0f;
      float at = a[begin + i] * LOG2_E;
      return BACK ? near_power_of_two(at) : near_power_of_two(end - at) * d[begin + i];
    });
    copies_wait();
    __syncthreads();
    if (tile + 1 < p.tiles) {
      int then = begin + SIDE;
      next.load(x + then * stride, stride, p.count - then, dim);
      rows_start<SIDE, N>(shared + (tile + 1) % 2 * states_stage<N>, b + then * o.size.mixed, o.size.mixed,
                          p.count - then, states);
    }
    left += lane_offset<true>(pitch<N>) + first_n;
    right += lane_offset<false>(pitch<WIDTH>) + first_p;
#pragma unroll
    for (int k = 0; k < SIDE; k += 16) {
      uint32_t by[HALF / 16][4];
#pragma unroll
      for (int c = 0; c < HALF / 16; c++)
        matrices_load_transposed(by[c], right + k * pitch<WIDTH> + 16 * c);
#pragma unroll
      for (int s = 0; s < STRIPS; s++) {
        uint32_t of[4];
        matrices_load_transposed(of, left + k * pitch<N> + STRIP * s);
#pragma unroll
        for (int c = 0; c < HALF / 8; c++)
          multiply<T>(sum[s][c], of, by[c / 2][c % 2 * 2], by[c / 2][c % 2 * 2 + 1]);
      }
    }
  }
  float *to = (BACK ? o.slopes : o.states) + state_at(o.size, sequence, chunk, head);
  int lane = (int)threadIdx.x % 32, q = lane / 4, t = lane % 4;
#pragma unroll
  for (int s = 0; s < STRIPS; s++)
#pragma unroll
    for (int c = 0; c < HALF / 8; c++)
#pragma unroll
      for (int half = 0; half < 2; half++) {
        int n = first_n + STRIP * s + 8 * half + q, at = first_p + 8 * c + 2 * t;
        float low = sum[s][c][2 * half], high = sum[s][c][2 * half + 1];
        if (n >= states || at >= dim) continue;
        if (dim % 2 == 0)
          *(float2 *)(to + n * dim + at) = make_float2(low, high);
        else {
          to[n * dim + at] = low;
          if (at + 1 < dim) to[n * dim + at + 1] = high;
        }
      }
}

/* ---- the pass ---- */

template <typename T> struct pass_operands {
  hr_ssd_sizes size;
  const float *decays;
  float *states;      /* in: what chunks add; out: the state before each, or the gradient of that behind each */
  T *narrow;          /* the same (optional) */
  const float *saved; /* backward: states before chunks */
  T *narrow_saved;    /* the same (optional) */
  float *products;    /* backward: of states and gradients, a sum for each warp: [sequence, chunk, head, warps] */
};

template <typename T, int EACH> __device__ inline void narrow_write(T *to, const float (&from)[EACH]) {
  if constexpr (EACH == 2 && sizeof(T) == 2)
    *(uint32_t *)to = pair_of(T(), from[0], from[1]);
  else
    for (int e = 0; e < EACH; e++)
      to[e] = from_float<T>(from[e]);
}

/* A thread: EACH neighbours of a state, through all chunks of a head. */
template <typename T, int EACH, bool BACK>
static __global__ void __launch_bounds__(PASS_THREADS) ssd_pass_kernel(pass_operands<T> o) {
  int64_t element = (blockIdx.x * (int64_t)PASS_THREADS + threadIdx.x) * EACH;
  int64_t sequence = blockIdx.y / o.size.heads, head = blockIdx.y % o.size.heads;
  int lane = (int)threadIdx.x % 32, warps = (int)gridDim.x * (PASS_THREADS / 32);
  int warp = (int)(blockIdx.x * PASS_THREADS + threadIdx.x) / 32;
  bool there = element < o.size.state_floats;
  float carried[EACH] = {};
  for (int64_t begin = 0; begin < o.size.chunks; begin += PASS_AHEAD) {
    float added[PASS_AHEAD][EACH] = {}, saved[PASS_AHEAD][EACH] = {}, factor[PASS_AHEAD];
#pragma unroll
    for (int i = 0; i < PASS_AHEAD; i++) {
      int64_t chunk = BACK ? o.size.chunks - 1 - begin - i : begin + i;
      if (begin + i >= o.size.chunks) continue;
      int64_t last = min(o.size.length, (chunk + 1) * o.size.chunk) - 1;
      int64_t at = state_at(o.size, sequence, chunk, head) + element;
      factor[i] = o.decays[blockIdx.y * o.size.length + last];
      if (!there) continue;
      *(pack<float, EACH> *)added[i] = pack_load<EACH>(o.states + at);
      if (BACK) *(pack<float, EACH> *)saved[i] = pack_load<EACH>(o.saved + at);
    }
#pragma unroll
    for (int i = 0; i < PASS_AHEAD; i++) {
      int64_t chunk = BACK ? o.size.chunks - 1 - begin - i : begin + i;
      if (begin + i >= o.size.chunks) continue;
      int64_t at = state_at(o.size, sequence, chunk, head) + element;
      if (there) {
        *(pack<float, EACH> *)(o.states + at) = *(const pack<float, EACH> *)carried;
        if (o.narrow) narrow_write<T, EACH>(o.narrow + at, carried);
        if (BACK && o.narrow_saved) narrow_write<T, EACH>(o.narrow_saved + at, saved[i]);
      }
      if (BACK) {
        float product = 0.0f;
        for (int e = 0; e < EACH; e++)
          product += carried[e] * saved[i][e];
        for (int distance = 16; distance > 0; distance /= 2)
          product += __shfl_xor_sync(~0u, product, distance);
        if (lane == 0) o.products[((sequence * o.size.chunks + chunk) * o.size.heads + head) * warps + warp] = product;
      }
      float by = expf(factor[i]);
      for (int e = 0; e < EACH; e++)
        carried[e] = by * carried[e] + added[i][e];
    }
  }
}

#endif
