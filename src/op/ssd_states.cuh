/* States of the scan on a GPU: what each chunk adds to the state, and the pass that adds it up. */
#ifndef HR_OP_SSD_STATES_CUH
#define HR_OP_SSD_STATES_CUH

#include "op/ssd_mma.cuh"

enum { PASS_THREADS = HR_SSD_PASS_THREADS, PASS_AHEAD = 8 };

/* ---- sums of a block ---- */

/* Elements of shared memory: two stages of B (or C) and x (or dy). */
template <int N> constexpr int states_stage = SIDE *(pitch<N> + pitch<WIDTH>);
template <int N> constexpr size_t states_bytes = 2 * states_stage<N> * 2 + HR_SSD_CHUNK_MOST * sizeof(float);

/* Where column p of x lies in shared memory: such that a lane's sums of one row are eight neighbours of [N, P]. */
__device__ inline int turned_column(int p) {
  return p / 32 * 32 + p % 8 / 2 * 8 + p % 32 / 8 * 2 + p % 2;
}

/* SIDE rows of x on their way to shared memory, 8 elements a piece, each times the factor of its row. */
template <typename T> struct factored_rows {
  enum { PIECES = SIDE * WIDTH / 8 / SCAN_THREADS, STEP = SCAN_THREADS / (WIDTH / 8) };
  uint4 piece[PIECES];

  __device__ void load(const T *from, int64_t stride, int rows, int columns) {
    int row = (int)threadIdx.x / (WIDTH / 8), column = (int)threadIdx.x % (WIDTH / 8) * 8;
    const T *at = from + row * stride + column;
#pragma unroll
    for (int k = 0; k < PIECES; k++, row += STEP, at += STEP * stride)
      piece[k] = row < rows && column < columns ? *(const uint4 *)at : make_uint4(0, 0, 0, 0);
  }
  __device__ void store(T *to, const float *factors) const {
    int row = (int)threadIdx.x / (WIDTH / 8), column = turned_column((int)threadIdx.x % (WIDTH / 8) * 8);
#pragma unroll
    for (int k = 0; k < PIECES; k++, row += STEP) {
      float by = factors[row];
      uint32_t words[4] = {piece[k].x, piece[k].y, piece[k].z, piece[k].w};
#pragma unroll
      for (int e = 0; e < 4; e++) {
        float2 both = numbers_of(T(), words[e]);
        *(uint32_t *)(to + row * pitch<WIDTH> + column + turned_column(2 * e)) = pair_of(T(), by * both.x, by * both.y);
      }
    }
  }
};

/* [N, P], of which a warp has half of N and half of P, and a lane eight neighbours of each of its rows. */
template <typename T, int N> struct state_sums {
  enum { HALF = WIDTH / 2, STRIPS = N / 2 / STRIP, PACKS = HALF / 8 };
  float sum[STRIPS][PACKS][4];

  __device__ static int first_n() { return (int)threadIdx.x / 64 * (N / 2); }
  __device__ static int first_p() { return (int)threadIdx.x / 32 % 2 * HALF; }

  __device__ void scale(float by) {
#pragma unroll
    for (int s = 0; s < STRIPS; s++)
#pragma unroll
      for (int c = 0; c < PACKS; c++)
#pragma unroll
        for (int e = 0; e < 4; e++)
          sum[s][c][e] *= by;
  }
  /* Adds left^T right: [SIDE, N] and [SIDE, P] in shared memory. */
  __device__ void add(const T *left, const T *right) {
    left += lane_offset<true>(pitch<N>) + first_n();
    right += lane_offset<false>(pitch<WIDTH>) + first_p();
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
        for (int c = 0; c < PACKS; c++)
          multiply<T>(sum[s][c], of, by[c / 2][c % 2 * 2], by[c / 2][c % 2 * 2 + 1]);
      }
    }
  }
  /* Eight numbers of a row at a time: strip s, its upper or lower half. */
  struct eight {
    int at; /* in [N, P] */
    bool there;
  };
  __device__ static eight eight_of(int s, int half, int states, int dim) {
    int lane = (int)threadIdx.x % 32, p = first_p() + lane % 4 * 8, n = first_n() + STRIP * s + 8 * half + lane / 4;
    return {n * dim + p, n < states && p < dim};
  }
  __device__ void read(const float *from, int states, int dim) {
#pragma unroll
    for (int s = 0; s < STRIPS; s++)
#pragma unroll
      for (int half = 0; half < 2; half++) {
        eight place = eight_of(s, half, states, dim);
#pragma unroll
        for (int c = 0; c < PACKS; c += 2) {
          float4 four = place.there ? *(const float4 *)(from + place.at + 2 * c) : make_float4(0, 0, 0, 0);
          sum[s][c][2 * half] = four.x, sum[s][c][2 * half + 1] = four.y;
          sum[s][c + 1][2 * half] = four.z, sum[s][c + 1][2 * half + 1] = four.w;
        }
      }
  }
  template <typename S> __device__ void write(S *to, int states, int dim) const {
#pragma unroll
    for (int s = 0; s < STRIPS; s++)
#pragma unroll
      for (int half = 0; half < 2; half++) {
        eight place = eight_of(s, half, states, dim);
        float numbers[8];
#pragma unroll
        for (int e = 0; e < 8; e++)
          numbers[e] = sum[s][e / 2][2 * half + e % 2];
        if (place.there) pack_write<8>(to + place.at, numbers);
      }
  }
  /* The lane's part of the product with what has been written. */
  __device__ float product(const T *from, int states, int dim) const {
    float product = 0.0f;
#pragma unroll
    for (int s = 0; s < STRIPS; s += 2) {
      uint4 block[2][2];
#pragma unroll
      for (int i = 0; i < 4; i++) {
        eight place = eight_of(s + i / 2, i % 2, states, dim);
        block[i / 2][i % 2] = place.there ? *(const uint4 *)(from + place.at) : make_uint4(0, 0, 0, 0);
      }
#pragma unroll
      for (int i = 0; i < 4; i++) {
        uint32_t words[4] = {block[i / 2][i % 2].x, block[i / 2][i % 2].y, block[i / 2][i % 2].z,
                             block[i / 2][i % 2].w};
#pragma unroll
        for (int c = 0; c < PACKS; c++) {
          float2 by = numbers_of(T(), words[c]);
          product += by.x * sum[s + i / 2][c][2 * (i % 2)] + by.y * sum[s + i / 2][c][2 * (i % 2) + 1];
        }
      }
    }
    return product;
  }
};

/* ---- what a chunk adds ---- */

/* A block: one chunk of one head, [N, P]: sum of B x^T d exp(a_n - a), or with BACK of C dy^T exp(a). */
template <typename T, int N, bool BACK>
static __global__ void __launch_bounds__(SCAN_THREADS, 4) ssd_states_kernel(ssd_operands<T> o) {
  T *shared = launch_shared<T>();
  float *factors = (float *)(shared + 2 * states_stage<N>);
  unsigned heads = (unsigned)o.size.heads, members = heads / (unsigned)o.size.groups;
  int64_t chunk = blockIdx.x, sequence = blockIdx.y / heads, head = blockIdx.y % heads;
  int64_t group = blockIdx.y % heads / members;
  chunk_place p = chunk_at(o.size, chunk);
  int states = (int)o.size.state, dim = (int)o.size.dim;
  int64_t row = sequence * o.size.length + p.first, line = blockIdx.y * o.size.length + p.first;
  const T *b = o.mixed + row * o.size.mixed + (BACK ? o.size.c_first : o.size.b_first) + group * o.size.state;
  const T *x = BACK ? o.dy + row * o.size.y + head * o.size.dim : o.mixed + row * o.size.mixed + head * o.size.dim;
  int64_t stride = BACK ? o.size.y : o.size.mixed;
  factored_rows<T> next;
  state_sums<T, N> sums = {};
  next.load(x, stride, p.count, dim);
  rows_start<SIDE, N>(shared, b, o.size.mixed, p.count, states);
  const float *a = o.decays + line, *d = o.steps + line;
  float end = a[p.count - 1];
  for (int i = (int)threadIdx.x; i < SIDE * p.tiles; i += SCAN_THREADS)
    factors[i] = i >= p.count ? 0.0f
                 : BACK       ? near_power_of_two(a[i] * LOG2_E)
                              : near_power_of_two((end - a[i]) * LOG2_E) * d[i];
  __syncthreads();
  for (int tile = 0; tile < p.tiles; tile++) {
    T *left = shared + tile % 2 * states_stage<N>, *right = left + SIDE * pitch<N>;
    int begin = tile * SIDE;
    next.store(right, factors + begin);
    copies_wait();
    __syncthreads();
    if (tile + 1 < p.tiles) {
      int then = begin + SIDE;
      next.load(x + then * stride, stride, p.count - then, dim);
      rows_start<SIDE, N>(shared + (tile + 1) % 2 * states_stage<N>, b + then * o.size.mixed, o.size.mixed,
                          p.count - then, states);
    }
    sums.add(left, right);
  }
  float *to = (BACK ? o.slopes : o.states) + state_at(o.size, sequence, chunk, head);
  sums.write(to, states, dim);
}

/* ---- the pass ---- */

struct pass_operands {
  hr_ssd_sizes size;
  const float *decays;
  float *states;      /* in: what chunks add; out: the state before each, or the gradient of that behind each */
  const float *saved; /* backward: states before chunks (optional) */
  float *products;    /* their products with gradients, a sum for each warp: [sequence, chunk, head, warps] */
};

/* A thread: EACH neighbours of a state, through all chunks of a head. */
template <int EACH, bool BACK> static __global__ void __launch_bounds__(PASS_THREADS) ssd_pass_kernel(pass_operands o) {
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
      if (BACK && o.saved) *(pack<float, EACH> *)saved[i] = pack_load<EACH>(o.saved + at);
    }
#pragma unroll
    for (int i = 0; i < PASS_AHEAD; i++) {
      int64_t chunk = BACK ? o.size.chunks - 1 - begin - i : begin + i;
      if (begin + i >= o.size.chunks) continue;
      int64_t at = state_at(o.size, sequence, chunk, head) + element;
      if (there) *(pack<float, EACH> *)(o.states + at) = *(const pack<float, EACH> *)carried;
      if (BACK && o.saved) {
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
