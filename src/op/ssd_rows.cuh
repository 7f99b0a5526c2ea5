/* y of the scan on a GPU, and by the same products, with positions in reverse, dx:
 *
 *   y_i  = sum over j <= i of (C_i B_j) exp(a_i - a_j) d_j x_j  + exp(a_i) C_i h               + D x_i
 *   dx_j = (sum over i >= j of (B_j C_i) exp(a_i - a_j) dy_i    + exp(a_n - a_j) B_j g) d_j    + D dy_j
 *
 * A block owns SIDE rows of some heads. Scores, which heads share, are made once and stay in registers as left factors;
 * per head the state comes by, then the tiles of x or dy, two at a time, while the ones before are multiplied.
 */
#ifndef HR_OP_SSD_ROWS_CUH
#define HR_OP_SSD_ROWS_CUH

#include "op/ssd_mma.cuh"

enum { ROWS_HEADS = 4 };                                    /* of a block */
enum { ROWS_ITEM = 2 * SIDE * pitch<WIDTH> };               /* elements of what comes by: two tiles, or a state */
enum { ROWS_ROOM = SIDE * pitch<WIDTH> };                   /* in which strips are written before they leave */
enum { ROWS_LINES = ROWS_HEADS * (1 + MOST_TILES) * SIDE }; /* floats */

template <int N>
constexpr size_t rows_bytes = (SIDE * pitch<N> + 2 * ROWS_ITEM + ROWS_ROOM) * 2 + ROWS_LINES * sizeof(float);

static inline int rows_parts(const hr_ssd_sizes &size) { /* blocks for the heads of a group */
  return (int)divide_up(size.heads / size.groups, ROWS_HEADS);
}

/* Scores are kept in 16 bits before they have been made small by d: in f16 they are divided by a power of two. */
template <typename T> constexpr int score_shift = 0;
template <> constexpr int score_shift<f16> = 6;

/* Of score i of a strip's left factor: its value in the weights, with the row's exponent and the column's. */
template <bool BACK> __device__ inline float weight_of(float score, float row, float column, bool seen) {
  float weight = score * near_power_of_two(BACK ? column - row : row - column);
  return seen ? weight : 0.0f;
}

template <typename T, int N, bool BACK>
static __global__ void __launch_bounds__(SCAN_THREADS, 3) ssd_rows_kernel(ssd_operands<T> o) {
  T *own = launch_shared<T>(), *items = own + SIDE * pitch<N>, *rooms = items + 2 * ROWS_ITEM;
  float *row_line = (float *)(rooms + ROWS_ROOM), *column_line = row_line + ROWS_HEADS * SIDE;
  int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32, q = lane / 4, t = lane % 4;
  int states = (int)o.size.state, dim = (int)o.size.dim, tiles = (int)((o.size.chunk + SIDE - 1) / SIDE);
  int members = (int)(o.size.heads / o.size.groups), parts = (members + ROWS_HEADS - 1) / ROWS_HEADS;
  int64_t chunk = blockIdx.x / tiles, group = blockIdx.y / parts % o.size.groups,
          sequence = blockIdx.y / parts / o.size.groups;
  int64_t first_head = group * members + blockIdx.y % parts * ROWS_HEADS;
  int heads = (int)min((int64_t)ROWS_HEADS, (group + 1) * members - first_head);
  chunk_place p = chunk_at(o.size, chunk);
  /* Tiles in the order in which they see each other: the own one is number v, and sees all up to itself. */
  int v = tiles - 1 - (int)(blockIdx.x % tiles);
  if (v >= p.tiles) return;
  auto begin_of = [&](int u) { return SIDE * (BACK ? p.tiles - 1 - u : u); };
  int own_begin = begin_of(v), own_count = p.count - own_begin;
  int64_t row = sequence * o.size.length + p.first;
  const T *mixed = o.mixed + row * o.size.mixed;
  const T *left = mixed + (BACK ? o.size.b_first : o.size.c_first) + group * o.size.state;
  const T *right = mixed + (BACK ? o.size.c_first : o.size.b_first) + group * o.size.state;
  const T *x = BACK ? o.dy + row * o.size.y : mixed;
  int64_t x_stride = BACK ? o.size.y : o.size.mixed;

  rows_start<SIDE, N>(own, left + own_begin * o.size.mixed, o.size.mixed, own_count, states);
  rows_start<SIDE, N>(items, right + begin_of(0) * o.size.mixed, o.size.mixed, p.count - begin_of(0), states);
  /* Exponents: behind the end of a chunk such that nothing comes of them. */
  for (int i = (int)threadIdx.x; i < heads * (v + 1) * SIDE; i += SCAN_THREADS) {
    int number = i / ((v + 1) * SIDE), at = i % ((v + 1) * SIDE), position = begin_of(at / SIDE) + at % SIDE;
    int64_t line = (sequence * o.size.heads + first_head + number) * o.size.length + p.first + position;
    float column = BACK ? -INFINITY : INFINITY, of_row = -column;
    if (position < p.count) {
      of_row = o.decays[line] * LOG2_E;
      column = BACK ? of_row + score_shift<T> : of_row - score_shift<T> - log2f(o.steps[line]);
    }
    column_line[number * MOST_TILES * SIDE + at] = column;
    if (at >= v * SIDE) row_line[number * SIDE + at - v * SIDE] = of_row;
  }

  uint32_t scores[MOST_TILES][4][4]; /* left factors */
#pragma unroll
  for (int u = 0; u < MOST_TILES; u++) {
    if (u > v) continue;
    copies_wait();
    __syncthreads();
    if (u < v)
      rows_start<SIDE, N>(items + (u + 1) % 2 * ROWS_ITEM, right + begin_of(u + 1) * o.size.mixed, o.size.mixed,
                          p.count - begin_of(u + 1), states);
    float sum[SIDE / 8][4] = {};
    strip_product<SIDE, N, false, true>(sum, own + STRIP * warp * pitch<N>, pitch<N>, items + u % 2 * ROWS_ITEM,
                                        pitch<N>);
    constexpr float scale = 1.0f / (1 << score_shift<T>);
#pragma unroll
    for (int c = 0; c < SIDE / 8; c++) {
      scores[u][c / 2][c % 2 * 2] = pair_of(T(), scale * sum[c][0], scale * sum[c][1]);
      scores[u][c / 2][c % 2 * 2 + 1] = pair_of(T(), scale * sum[c][2], scale * sum[c][3]);
    }
  }
  __syncthreads();

  /* Of each head 1 + pairs things come by: its state, and tiles two by two. */
  int pairs = v / 2 + 1, all = heads * (1 + pairs), number = 0;
  auto start = [&](int i) {
    int64_t head = first_head + i / (1 + pairs);
    int part = i % (1 + pairs);
    T *to = items + i % 2 * ROWS_ITEM;
    if (part == 0) {
      rows_start<N, WIDTH>(to, (BACK ? o.narrow_slopes : o.narrow_states) + state_at(o.size, sequence, chunk, head),
                           dim, states, dim);
      return;
    }
    for (int u = 2 * (part - 1); u < 2 * part; u++)
      if (u <= v)
        rows_start<SIDE, WIDTH>(to + u % 2 * SIDE * pitch<WIDTH>, x + begin_of(u) * x_stride + head * o.size.dim,
                                x_stride, p.count - begin_of(u), dim);
  };
  auto arrive = [&]() { /* thing `number` is there, and the next one on its way */
                        copies_wait();
                        __syncthreads();
                        if (number + 1 < all) start(number + 1);
                        return items + number++ % 2 * ROWS_ITEM;
  };
  start(0);
  for (int k = 0; k < heads; k++) {
    int64_t head = first_head + k, line = (sequence * o.size.heads + head) * o.size.length + p.first;
    const float *columns = column_line + k * MOST_TILES * SIDE;
    float sum[WIDTH / 8][4] = {}, rows[2];
    float end = BACK ? o.decays[line + p.count - 1] * LOG2_E : 0.0f, skip = o.skip[head];
#pragma unroll
    for (int half = 0; half < 2; half++)
      rows[half] = row_line[k * SIDE + STRIP * warp + 8 * half + q];
    const T *item = arrive();
    strip_product<WIDTH, N, false, false>(sum, own + STRIP * warp * pitch<N>, pitch<N>, item, pitch<WIDTH>);
#pragma unroll
    for (int c = 0; c < WIDTH / 8; c++)
#pragma unroll
      for (int e = 0; e < 4; e++)
        sum[c][e] *= near_power_of_two(BACK ? end - rows[e / 2] : rows[e / 2]);
#pragma unroll
    for (int part = 0; part < MOST_TILES / 2; part++) {
      if (part >= pairs) continue;
      item = arrive();
      const T *mine = item + lane_offset<false>(pitch<WIDTH>);
#pragma unroll
      for (int u = 2 * part; u < 2 * part + 2; u++) {
        if (u > v) continue;
#pragma unroll
        for (int s = 0; s < SIDE / 16; s++) {
          if (u == v && (BACK ? s < warp : s > warp)) continue;
          bool corner = u == v && s == warp;
          uint32_t weights[4];
#pragma unroll
          for (int r = 0; r < 4; r++) {
            int column = 8 * (r / 2) + 2 * t, at = 8 * (r % 2) + q; /* in the 16 x 16 */
            float2 score = numbers_of(T(), opaque(scores[u][s][r]));
            float2 by = *(const float2 *)(columns + u * SIDE + 16 * s + column);
            bool low = !corner || (BACK ? column >= at : column <= at);
            bool high = !corner || (BACK ? column + 1 >= at : column + 1 <= at);
            weights[r] = pair_of(T(), weight_of<BACK>(score.x, rows[r % 2], by.x, low),
                                 weight_of<BACK>(score.y, rows[r % 2], by.y, high));
          }
          strip_multiply<WIDTH, false>(sum, weights, mine + (u % 2 * SIDE + 16 * s) * pitch<WIDTH>, pitch<WIDTH>);
        }
      }
    }
    const T *own_x = item + (v % 2 * SIDE + STRIP * warp) * pitch<WIDTH>;
#pragma unroll
    for (int half = 0; half < 2; half++) {
      int at = own_begin + STRIP * warp + 8 * half + q;
      float by = BACK && at < p.count ? o.steps[line + at] : 1.0f;
#pragma unroll
      for (int c = 0; c < WIDTH / 8; c++) {
        float2 mine = numbers_at(own_x + (8 * half + q) * pitch<WIDTH> + 8 * c + 2 * t);
        sum[c][2 * half] = by * sum[c][2 * half] + skip * mine.x;
        sum[c][2 * half + 1] = by * sum[c][2 * half + 1] + skip * mine.y;
      }
    }
    int64_t to_stride = BACK ? o.size.mixed : o.size.y;
    T *to = (BACK ? o.dmixed : o.y) + (row + own_begin + STRIP * warp) * to_stride + head * o.size.dim;
    strip_store<WIDTH>(sum, rooms + STRIP * warp * pitch<WIDTH>, to, to_stride, own_count - STRIP * warp, dim);
  }
}

#endif
