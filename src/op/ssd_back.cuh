/* Gradients of the scan on a GPU, of 16-bit types. With h the state before a tile and g the gradient of that behind it
 * (ssd_between.cuh), positions i and j of the tile, a from the tile's beginning on, R = dy x^T, s = C B^T and E_ij =
 * exp(a_i - a_j):
 *
 *   dC_i = sum over heads of (sum over j <= i of R_ij E_ij d_j B_j + exp(a_i) h dy_i)
 *   dB_j = sum over heads of (sum over i >= j of R_ij E_ij d_j C_i + exp(a_n - a_j) d_j g x_j)
 *   dx_j = d_j (sum over i >= j of s_ij E_ij dy_i + exp(a_n - a_j) B_j g) + D dy_j
 *
 * A block owns a tile of a group and goes through its heads; dC is one block's, dB and dx another's, which makes R and
 * s with positions of j as rows. Sums over heads stay in registers: those of R E d are multiplied by B and C once. Sums
 * over pairs of positions that gradients of steps need are sums over rows in one of the two.
 */
#ifndef HR_OP_SSD_BACK_CUH
#define HR_OP_SSD_BACK_CUH

#include "op/ssd_between.cuh"

enum { BACK_TILE = SIDE * pitch<WIDTH>, BACK_LINES = 3 * SIDE };

/* Elements of what comes by for a head: x, dy, and a state. At first and last a tile of B or C lies there. */
template <int N> constexpr int back_stage = 2 * BACK_TILE + N *pitch<WIDTH>;
template <int N> constexpr size_t back_bytes = (SIDE * pitch<N> + 2 * back_stage<N>)*2 + 2 * BACK_LINES * sizeof(float);
/* Columns of a state at a time. */
enum { BACK_PART = 32 };

/* total [16, N] += factor of the row times left [16, P] state^T, a part of N at a time; products: of own rows, [16, N]
 * in shared memory, and what is added before its factor (WITH_PRODUCTS). */
template <int N, bool WITH_PRODUCTS, typename T>
__device__ inline void by_state(float (&total)[N / 8][4], float (&products)[2], const uint32_t (&left)[WIDTH / 16][4],
                                const T *state, const T *own, const float (&factor)[2]) {
#pragma unroll
  for (int part = 0; part < N; part += BACK_PART) {
    float sum[BACK_PART / 8][4] = {};
    uint32_t mine[BACK_PART / 16][4];
    if constexpr (WITH_PRODUCTS) strip_take<BACK_PART>(mine, own + part, pitch<N>);
    strip_by<BACK_PART, WIDTH, true>(sum, left, state + part * pitch<WIDTH>, pitch<WIDTH>);
#pragma unroll
    for (int c = 0; c < BACK_PART / 8; c++)
#pragma unroll
      for (int half = 0; half < 2; half++) {
        float low = sum[c][2 * half], high = sum[c][2 * half + 1];
        if constexpr (WITH_PRODUCTS) {
          float2 by = numbers_of(T(), mine[c / 2][c % 2 * 2 + half]);
          products[half] += by.x * low + by.y * high;
        }
        total[part / 8 + c][2 * half] += factor[half] * low;
        total[part / 8 + c][2 * half + 1] += factor[half] * high;
      }
  }
}

/* SIDE rows of dC, or with OF_B of dB and dx. */
template <bool OF_B, int N, typename T> __device__ inline void back_tile(const ssd_operands<T> &o) {
  T *own = launch_shared<T>(), *items = own + SIDE * pitch<N>;
  float *lines = (float *)(items + 2 * back_stage<N>);
  int thread = (int)threadIdx.x, warp = thread / 32, lane = thread % 32, q = lane / 4, t = lane % 4;
  int tiles = (int)((o.size.chunk + SIDE - 1) / SIDE), tile = (int)(blockIdx.x % tiles);
  unsigned groups = (unsigned)o.size.groups;
  int64_t chunk = (int)blockIdx.x / tiles, group = blockIdx.y % groups, sequence = blockIdx.y / groups;
  chunk_place p = chunk_at(o.size, chunk);
  if (tile >= p.tiles) return;
  int members = (int)o.size.heads / (int)o.size.groups, states = (int)o.size.state, dim = (int)o.size.dim;
  int begin = SIDE * tile, count = min(SIDE, p.count - begin);
  int64_t row = sequence * o.size.length + p.first + begin, first_head = group * members;
  const T *mixed = o.mixed + row * o.size.mixed, *dy = o.dy + row * o.size.y;
  int64_t own_column = (OF_B ? o.size.b_first : o.size.c_first) + group * o.size.state;
  int64_t other_column = (OF_B ? o.size.c_first : o.size.b_first) + group * o.size.state;
  auto line_of = [&](int number) {
    return (sequence * o.size.heads + first_head + number) * o.size.length + p.first + begin;
  };

  auto start = [&](int number) {
    T *to = items + number % 2 * back_stage<N>;
    int64_t head = first_head + number;
    rows_start<SIDE, WIDTH>(to, mixed + head * o.size.dim, o.size.mixed, count, dim);
    rows_start<SIDE, WIDTH>(to + BACK_TILE, dy + head * o.size.dim, o.size.y, count, dim);
    rows_start<N, WIDTH>(to + 2 * BACK_TILE,
                         (OF_B ? o.narrow_slopes : o.narrow_states) +
                             tile_state_at(o.size, sequence, chunk, head, tile),
                         dim, states, dim);
  };
  /* Of the next head: a from the tile's beginning on, and with d in it for columns j; of B d itself. */
  float exponent = NOWHERE, step = 0.0f, skip = 0.0f;
  auto lines_load = [&](int number) {
    const float *a = o.decays + line_of(number);
    skip = o.skip[first_head + number];
    if (thread >= count) return;
    exponent = (a[thread] - (tile > 0 ? a[-1] : 0.0f)) * LOG2_E;
    step = o.steps[line_of(number) + thread];
  };
  auto lines_store = [&](int number) {
    float *to = lines + number % 2 * BACK_LINES;
    if (thread < SIDE) {
      to[thread] = exponent;
      to[SIDE + thread] = OF_B || thread >= count ? step : exponent - log2f(step);
    }
    if (thread == 0) to[2 * SIDE] = skip;
  };

  auto other_start = [&](int number) {
    rows_start<SIDE, N>(items + number % 2 * back_stage<N>, mixed + other_column, o.size.mixed, count, states);
  };

  rows_start<SIDE, N>(own, mixed + own_column, o.size.mixed, count, states);
  other_start(0);
  lines_load(0);
  lines_store(0);
  float score[SIDE / 8][4] = {}, pairs[SIDE / 8][4] = {}, total[N / 8][4] = {};
  copies_wait();
  __syncthreads();
  T *own_strip = own + STRIP * warp * pitch<N>;
  strip_product<SIDE, N, false, true>(score, own_strip, pitch<N>, items, pitch<N>);
  __syncthreads();
  start(0);
  for (int number = 0; number < members; number++) {
    copies_wait();
    __syncthreads();
    if (number + 1 < members) {
      start(number + 1);
      lines_load(number + 1);
    } else
      other_start(members);
    T *x = items + number % 2 * back_stage<N>, *of_y = x + BACK_TILE, *state = of_y + BACK_TILE;
    const float *line = lines + number % 2 * BACK_LINES;
    T *mine = (OF_B ? x : of_y) + STRIP * warp * pitch<WIDTH>; /* read by this warp alone */
    uint32_t rows[WIDTH / 16][4], weights[SIDE / 16][4];
    strip_take<WIDTH>(rows, mine, pitch<WIDTH>);
    float r[SIDE / 8][4] = {}, of_row[2], step_of_row[2], sums[2] = {}, moments[2] = {}, products[2] = {}, factor[2];
    float own_r[2] = {}, own_score[2] = {};
    strip_by<SIDE, WIDTH, true>(r, rows, OF_B ? of_y : x, pitch<WIDTH>);
    int64_t to = line_of(number) + STRIP * warp + q;
    bool there[2];
#pragma unroll
    for (int half = 0; half < 2; half++) {
      int at = STRIP * warp + 8 * half + q;
      there[half] = at < count;
      of_row[half] = line[at];
      step_of_row[half] = line[SIDE + at];
    }
#pragma unroll
    for (int s = 0; s < SIDE / 16; s++) {
      bool corner = s == warp,
           seen = OF_B ? s > warp : s < warp; /* a part, all of the 16 x 16; the rest is multiplied as zeros: what goes
                                                 another way for each warp waits more */
      float weight[2][4];
#pragma unroll
      for (int b = 0; b < 2; b++) {
        int c = 2 * s + b;
        float2 a = *(const float2 *)(line + 8 * c + 2 * t), with_d = *(const float2 *)(line + SIDE + 8 * c + 2 * t);
#pragma unroll
        for (int e = 0; e < 4; e++) {
          int half = e / 2, ahead = 8 * half + q - (8 * b + 2 * t + e % 2); /* in the corner: i - j */
          if (OF_B) ahead = -ahead;
          float column = e % 2 ? a.y : a.x, of = r[c][e];
          float above = OF_B ? column - of_row[half] : of_row[half] - (e % 2 ? with_d.y : with_d.x);
          float decay = seen || (corner && ahead >= 0) ? near_power_of_two(above) : 0.0f, slope = of * decay;
          bool diagonal = corner && ahead == 0;
          if constexpr (OF_B) {
            weight[b][e] = score[c][e] * decay;
            pairs[c][e] += step_of_row[half] * slope;
            sums[half] += diagonal ? 0.0f : weight[b][e] * of;
          } else {
            pairs[c][e] += slope;
            float k = diagonal ? 0.0f : score[c][e] * slope; /* the largest, and would cancel */
            sums[half] += k;
            moments[half] += k * column;
            if (b == half && e % 2 == q % 2) { /* where it is this lane's, it is here */
              own_r[half] = corner ? of : own_r[half];
              own_score[half] = corner ? score[c][e] : own_score[half];
            }
          }
        }
      }
      if constexpr (OF_B) left_of<T>(weights[s], weight[0], weight[1]);
    }
    if constexpr (OF_B) {
      float sum[WIDTH / 8][4] = {};
      uint32_t slopes[WIDTH / 16][4];
      strip_product<WIDTH, N, false, false>(sum, own_strip, pitch<N>, state, pitch<WIDTH>);
      float end = line[count - 1];
#pragma unroll
      for (int half = 0; half < 2; half++)
        factor[half] = there[half] ? near_power_of_two(end - of_row[half]) : 0.0f;
#pragma unroll
      for (int c = 0; c < WIDTH / 8; c++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
          float2 by = numbers_of(T(), rows[c / 2][c % 2 * 2 + half]);
          products[half] += by.x * sum[c][2 * half] + by.y * sum[c][2 * half + 1];
          sum[c][2 * half] *= factor[half];
          sum[c][2 * half + 1] *= factor[half];
        }
#pragma unroll
      for (int s = 0; s < SIDE / 16; s++)
        strip_multiply<WIDTH, false>(sum, weights[s], of_y + 16 * s * pitch<WIDTH> + lane_offset<false>(pitch<WIDTH>),
                                     pitch<WIDTH>);
      strip_take<WIDTH>(slopes, of_y + STRIP * warp * pitch<WIDTH>, pitch<WIDTH>);
#pragma unroll
      for (int c = 0; c < WIDTH / 8; c++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
          float2 by = numbers_of(T(), slopes[c / 2][c % 2 * 2 + half]);
          sum[c][2 * half] = step_of_row[half] * sum[c][2 * half] + line[2 * SIDE] * by.x;
          sum[c][2 * half + 1] = step_of_row[half] * sum[c][2 * half + 1] + line[2 * SIDE] * by.y;
        }
      strip_store<WIDTH>(sum, mine, o.dmixed + (row + STRIP * warp) * o.size.mixed + (first_head + number) * o.size.dim,
                         o.size.mixed, count - STRIP * warp, dim);
#pragma unroll
      for (int half = 0; half < 2; half++)
        factor[half] *= step_of_row[half];
    } else
#pragma unroll
      for (int half = 0; half < 2; half++)
        factor[half] = there[half] ? near_power_of_two(of_row[half]) : 0.0f;
    float through[2] = {};
    by_state<N, !OF_B>(total, through, rows, state, own_strip, factor);
#pragma unroll
    for (int half = 0; half < 2; half++) {
      float of_pairs = row_sum(sums[half]), moment = row_sum(moments[half]);
      float of_state = row_sum(OF_B ? products[half] : through[half]);
      if (!OF_B && t == q / 2 && there[half]) {
        o.terms.own[to + 8 * half] = own_r[half];
        o.terms.diagonal[to + 8 * half] = own_score[half] * own_r[half];
      }
      if (t != 0 || !there[half]) continue;
      if (OF_B) {
        o.terms.columns[to + 8 * half] = of_pairs;
        o.terms.q[to + 8 * half] = of_state;
      } else {
        o.terms.rows[to + 8 * half] = of_pairs;
        o.terms.spread[to + 8 * half] = (of_row[half] * of_pairs - moment) * (1.0f / LOG2_E);
        o.terms.through[to + 8 * half] = factor[half] * of_state;
      }
    }
    if (number + 1 < members) lines_store(number + 1);
  }
  copies_wait();
  __syncthreads();
  const T *other = items + members % 2 * back_stage<N> + lane_offset<false>(pitch<N>);
#pragma unroll
  for (int s = 0; s < SIDE / 16; s++) {
    if (OF_B ? s < warp : s > warp) continue;
    uint32_t left[4];
    left_of<T>(left, pairs[2 * s], pairs[2 * s + 1]);
    strip_multiply<N, false>(total, left, other + 16 * s * pitch<N>, pitch<N>);
  }
  strip_store<N>(total, own_strip, o.dmixed + (row + STRIP * warp) * o.size.mixed + own_column, o.size.mixed,
                 count - STRIP * warp, states);
}

template <typename T, int N>
static __global__ void __launch_bounds__(SCAN_THREADS, 2) ssd_back_kernel(ssd_operands<T> o) {
  if (blockIdx.z)
    back_tile<true, N>(o);
  else
    back_tile<false, N>(o);
}

#endif
