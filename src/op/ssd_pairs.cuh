/* dB and dC of the scan on a GPU. With M the sum over the heads of a group of R o E o d_j, R = dy x^T:
 *
 *   dC_i = sum over j <= i of M_ij B_j + sum over heads of exp(a_i) h dy_i
 *   dB_j = sum over i >= j of M_ij C_i + sum over heads of exp(a_n - a_j) d_j g x_j
 *
 * First a kernel makes M, each block a pair of tiles of a chunk, [SIDE, SIDE], and with it the terms that pairs of
 * positions give to gradients of steps; then one goes over heads and pairs as over the depth of one product.
 */
#ifndef HR_OP_SSD_PAIRS_CUH
#define HR_OP_SSD_PAIRS_CUH

#include "op/ssd_mma.cuh"

static __host__ __device__ inline int pairs_of(int64_t tiles) {
  return (int)(tiles * (tiles + 1) / 2);
}
/* Where M of tiles i >= j lies. */
__device__ inline int64_t pair_at(const hr_ssd_sizes &size, int64_t sequence, int64_t chunk, int64_t group, int i,
                                  int j) {
  int64_t tiles = (size.chunk + SIDE - 1) / SIDE, of_chunk = (sequence * size.chunks + chunk) * size.groups + group;
  return (of_chunk * pairs_of(tiles) + pairs_of(i) + j) * SIDE * SIDE;
}

/* ---- M ---- */

/* The exponent of a position that is not there: nothing comes of it, and it can be multiplied by 0. */
static const float NOWHERE = 1e30f;

enum { PAIR_TILE = SIDE * pitch<WIDTH>, PAIR_LINES = 3 * SIDE, PAIR_SUMS = SCAN_WARPS * SIDE };

/* Two stages of dy and x, where C and B lie at first; two of lines; two of sums over columns. */
template <int N>
constexpr size_t pairs_bytes = (SIDE * pitch<N> > 2 * PAIR_TILE ? SIDE * pitch<N> : 2 * PAIR_TILE) * 4 +
                               2 * (PAIR_LINES + PAIR_SUMS) * 4;

template <typename T, int N>
static __global__ void __launch_bounds__(SCAN_THREADS, 3) ssd_pairs_kernel(ssd_operands<T> o) {
  constexpr int STAGE = SIDE * pitch < N >> 2 * PAIR_TILE ? SIDE * pitch<N> : 2 * PAIR_TILE;
  T *shared = launch_shared<T>();
  float *lines = (float *)(shared + 2 * STAGE), *column_sums = lines + 2 * PAIR_LINES;
  int thread = (int)threadIdx.x, warp = thread / 32, lane = thread % 32, q = lane / 4, t = lane % 4;
  int tiles = (int)((o.size.chunk + SIDE - 1) / SIDE), pairs = pairs_of(tiles), left = (int)(blockIdx.x % pairs), i = 0;
  int64_t chunk = blockIdx.x / pairs, group = blockIdx.y % o.size.groups, sequence = blockIdx.y / o.size.groups;
  while (left > i)
    left -= ++i;
  int j = left;
  chunk_place p = chunk_at(o.size, chunk);
  if (i >= p.tiles) return;
  int members = (int)(o.size.heads / o.size.groups), states = (int)o.size.state, dim = (int)o.size.dim;
  int begin_i = SIDE * i, begin_j = SIDE * j, count_i = p.count - begin_i, count_j = p.count - begin_j;
  int64_t row = sequence * o.size.length + p.first, first_head = group * members;
  int64_t all_lines = o.size.sequences * o.size.heads * o.size.length;
  const T *mixed = o.mixed + row * o.size.mixed;

  rows_start<SIDE, N>(shared, mixed + begin_i * o.size.mixed + o.size.c_first + group * o.size.state, o.size.mixed,
                      count_i, states);
  rows_start<SIDE, N>(shared + STAGE, mixed + begin_j * o.size.mixed + o.size.b_first + group * o.size.state,
                      o.size.mixed, count_j, states);
  auto line_of = [&](int number) { return (sequence * o.size.heads + first_head + number) * o.size.length + p.first; };
  auto start = [&](int number) {
    T *to = shared + number % 2 * STAGE;
    int64_t column = (first_head + number) * o.size.dim;
    rows_start<SIDE, WIDTH>(to, o.dy + (row + begin_i) * o.size.y + column, o.size.y, count_i, dim);
    rows_start<SIDE, WIDTH>(to + PAIR_TILE, mixed + begin_j * o.size.mixed + column, o.size.mixed, count_j, dim);
  };
  /* A thread brings a_i, or a_j and d_j, of the next head. */
  bool of_i = thread < SIDE;
  int at = thread % SIDE, position = of_i ? begin_i + at : begin_j + at;
  bool there = position < p.count;
  float exponent = of_i ? -NOWHERE : NOWHERE, step = 0.0f;
  auto lines_load = [&](int number) {
    if (!there) return;
    exponent = o.decays[line_of(number) + position] * LOG2_E;
    if (!of_i) step = o.steps[line_of(number) + position];
  };
  auto lines_store = [&](int number) {
    float *to = lines + number % 2 * PAIR_LINES;
    to[thread] = exponent;
    if (!of_i) to[SIDE + thread] = step;
  };
  auto columns_write = [&](int number) { /* of all warps, in order */
                                         if (thread >= SIDE || thread >= count_j) return;
                                         const float *from = column_sums + number % 2 * PAIR_SUMS + thread;
                                         float sum = 0.0f;
                                         for (int w = 0; w < SCAN_WARPS; w++)
                                           sum += from[w * SIDE];
                                         o.terms.columns[i * all_lines + line_of(number) + begin_j + thread] = sum;
  };

  lines_load(0);
  lines_store(0);
  float score[SIDE / 8][4] = {}, total[SIDE / 8][4] = {};
  copies_wait();
  __syncthreads();
  strip_product<SIDE, N, false, true>(score, shared + STRIP * warp * pitch<N>, pitch<N>, shared + STAGE, pitch<N>);
  __syncthreads();
  start(0);
  for (int number = 0; number < members; number++) {
    copies_wait();
    __syncthreads();
    if (number + 1 < members) {
      start(number + 1);
      lines_load(number + 1);
    }
    if (number > 0) columns_write(number - 1);
    const T *dy = shared + number % 2 * STAGE, *x = dy + PAIR_TILE;
    const float *line = lines + number % 2 * PAIR_LINES;
    float sum[SIDE / 8][4] = {}, columns[SIDE / 8][2], rows[2] = {}, spread[2] = {};
    strip_product<SIDE, WIDTH, false, true>(sum, dy + STRIP * warp * pitch<WIDTH>, pitch<WIDTH>, x, pitch<WIDTH>);
    float a_i[2] = {line[STRIP * warp + q], line[STRIP * warp + q + 8]};
    int from_diagonal =
        (int)opaque((uint32_t)(i == j ? STRIP * warp + q - 2 * t : 2 * SIDE)); /* i - j, or far enough */
#pragma unroll
    for (int c = 0; c < SIDE / 8; c++) {
      float2 a_j = *(const float2 *)(line + SIDE + 8 * c + 2 * t);
      float2 d_j = *(const float2 *)(line + 2 * SIDE + 8 * c + 2 * t);
#pragma unroll
      for (int e = 0; e < 2; e++) {
        float a = e ? a_j.y : a_j.x, d = e ? d_j.y : d_j.x;
        columns[c][e] = 0.0f;
#pragma unroll
        for (int half = 0; half < 2; half++) {
          int ahead = from_diagonal + 8 * half - 8 * c - e;
          float above = a_i[half] - a, decay = near_power_of_two(above), r = sum[c][2 * half + e];
          if (ahead < 0) decay = 0.0f;
          if (ahead == 0 && begin_i + STRIP * warp + 8 * half + q < p.count) {
            int64_t to = line_of(number) + begin_i + STRIP * warp + 8 * half + q;
            o.terms.own[to] = r;
            o.terms.diagonal[to] = score[c][2 * half + e] * r;
            total[c][2 * half + e] += r * d;
            decay = 0.0f; /* the rest is without it: it is the largest, and would cancel */
          }
          float slope = r * decay, direct = score[c][2 * half + e] * slope;
          total[c][2 * half + e] += slope * d;
          columns[c][e] += direct;
          rows[half] += direct * d;
          spread[half] += direct * d * above;
        }
      }
    }
#pragma unroll
    for (int c = 0; c < SIDE / 8; c++)
#pragma unroll
      for (int e = 0; e < 2; e++) {
        for (int distance = 4; distance < 32; distance *= 2)
          columns[c][e] += __shfl_xor_sync(~0u, columns[c][e], distance);
        if (q == 0) column_sums[number % 2 * PAIR_SUMS + warp * SIDE + 8 * c + 2 * t + e] = columns[c][e];
      }
#pragma unroll
    for (int half = 0; half < 2; half++) {
#pragma unroll
      for (int distance = 1; distance < 4; distance *= 2) {
        rows[half] += __shfl_xor_sync(~0u, rows[half], distance);
        spread[half] += __shfl_xor_sync(~0u, spread[half], distance);
      }
      int of_row = STRIP * warp + 8 * half + q;
      if (t != 0 || of_row >= count_i) continue;
      int64_t to = j * all_lines + line_of(number) + begin_i + of_row;
      o.terms.rows[to] = rows[half];
      o.terms.spread[to] = spread[half] * (1.0f / LOG2_E);
    }
    if (number + 1 < members) lines_store(number + 1);
  }
  __syncthreads();
  columns_write(members - 1);
  T *to = o.scores + pair_at(o.size, sequence, chunk, group, i, j) + STRIP * warp * SIDE;
  strip_store<SIDE>(total, shared + STRIP * warp * pitch<SIDE>, to, SIDE, STRIP, SIDE);
}

/* ---- dB and dC ---- */

/* Elements of what comes by: a tile of x or dy with a state, or a tile of M with one of B or C. */
template <int N>
constexpr int sums_item = PAIR_TILE + (N * pitch<WIDTH> > SIDE * pitch<N> ? N * pitch<WIDTH> : SIDE * pitch<N>);
template <int N> constexpr size_t sums_bytes = (SIDE * pitch<N> + 2 * sums_item<N>)*2;

/* SIDE rows of dC, or with OF_B of dB. */
template <bool OF_B, int N, typename T> __device__ inline void pair_sums(const ssd_operands<T> &o) {
  T *own = launch_shared<T>(), *items = own + SIDE * pitch<N>;
  int thread = (int)threadIdx.x, warp = thread / 32, lane = thread % 32, q = lane / 4, t = lane % 4;
  int tiles = (int)((o.size.chunk + SIDE - 1) / SIDE), tile = (int)(blockIdx.x % tiles);
  int64_t chunk = blockIdx.x / tiles, group = blockIdx.y % o.size.groups, sequence = blockIdx.y / o.size.groups;
  chunk_place p = chunk_at(o.size, chunk);
  if (tile >= p.tiles) return;
  int members = (int)(o.size.heads / o.size.groups), states = (int)o.size.state, dim = (int)o.size.dim;
  int begin = SIDE * tile, count = p.count - begin;
  int64_t row = sequence * o.size.length + p.first, first_head = group * members;
  const T *mixed = o.mixed + row * o.size.mixed;
  int64_t own_column = (OF_B ? o.size.b_first : o.size.c_first) + group * o.size.state;
  int64_t other_column = (OF_B ? o.size.c_first : o.size.b_first) + group * o.size.state;
  const T *x = OF_B ? mixed : o.dy + row * o.size.y;
  int64_t x_stride = OF_B ? o.size.mixed : o.size.y;
  int first_other = OF_B ? tile : 0, others = OF_B ? p.tiles - tile : tile + 1, all = members + others;

  auto start = [&](int number) {
    T *to = items + number % 2 * sums_item<N>;
    if (number < members) {
      int64_t head = first_head + number;
      rows_start<SIDE, WIDTH>(to, x + begin * x_stride + head * o.size.dim, x_stride, count, dim);
      rows_start<N, WIDTH>(to + PAIR_TILE,
                           (OF_B ? o.narrow_slopes : o.narrow_states) + state_at(o.size, sequence, chunk, head), dim,
                           states, dim);
      return;
    }
    int other = first_other + number - members;
    const T *pair = o.scores + pair_at(o.size, sequence, chunk, group, OF_B ? other : tile, OF_B ? tile : other);
    rows_start<SIDE, SIDE>(to, pair, SIDE, SIDE, SIDE);
    rows_start<SIDE, N>(to + PAIR_TILE, mixed + other * SIDE * o.size.mixed + other_column, o.size.mixed,
                        p.count - other * SIDE, states);
  };
  rows_start<SIDE, N>(own, mixed + begin * o.size.mixed + own_column, o.size.mixed, count, states);
  start(0);
  float total[N / 8][4] = {};
  for (int number = 0; number < members; number++) {
    int64_t line = (sequence * o.size.heads + first_head + number) * o.size.length + p.first;
    copies_wait();
    __syncthreads();
    start(number + 1);
    const T *item = items + number % 2 * sums_item<N>;
    float sum[N / 8][4] = {}, products[2] = {}, factor[2];
    strip_product<N, WIDTH, false, true>(sum, item + STRIP * warp * pitch<WIDTH>, pitch<WIDTH>, item + PAIR_TILE,
                                         pitch<WIDTH>);
    float end = OF_B ? o.decays[line + p.count - 1] : 0.0f;
#pragma unroll
    for (int half = 0; half < 2; half++) {
      int of_row = STRIP * warp + 8 * half + q;
      factor[half] = 0.0f;
      if (of_row < count) {
        float a = o.decays[line + begin + of_row];
        factor[half] = OF_B ? near_power_of_two((end - a) * LOG2_E) : near_power_of_two(a * LOG2_E);
        if (OF_B) factor[half] *= o.steps[line + begin + of_row];
      }
    }
#pragma unroll
    for (int c = 0; c < N / 8; c++)
#pragma unroll
      for (int half = 0; half < 2; half++) {
        float2 mine = numbers_at(own + (STRIP * warp + 8 * half + q) * pitch<N> + 8 * c + 2 * t);
        products[half] += mine.x * sum[c][2 * half] + mine.y * sum[c][2 * half + 1];
        total[c][2 * half] += factor[half] * sum[c][2 * half];
        total[c][2 * half + 1] += factor[half] * sum[c][2 * half + 1];
      }
#pragma unroll
    for (int half = 0; half < 2; half++) {
      products[half] += __shfl_xor_sync(~0u, products[half], 1);
      products[half] += __shfl_xor_sync(~0u, products[half], 2);
      int of_row = STRIP * warp + 8 * half + q;
      if (t != 0 || of_row >= count) continue;
      if (OF_B)
        o.terms.q[line + begin + of_row] = products[half];
      else
        o.terms.through[line + begin + of_row] = factor[half] * products[half];
    }
  }
  for (int number = members; number < all; number++) {
    copies_wait();
    __syncthreads();
    if (number + 1 < all) start(number + 1);
    const T *item = items + number % 2 * sums_item<N>;
    const T *pair = OF_B ? item + STRIP * warp : item + STRIP * warp * pitch<SIDE>;
    strip_product<N, SIDE, OF_B, false>(total, pair, pitch<SIDE>, item + PAIR_TILE, pitch<N>);
  }
  strip_store<N>(total, own + STRIP * warp * pitch<N>,
                 o.dmixed + (row + begin + STRIP * warp) * o.size.mixed + own_column, o.size.mixed,
                 count - STRIP * warp, states);
}

template <typename T, int N>
static __global__ void __launch_bounds__(SCAN_THREADS, 2) ssd_pair_sums_kernel(ssd_operands<T> o) {
  if (blockIdx.z)
    pair_sums<true, N>(o);
  else
    pair_sums<false, N>(o);
}

#endif
