/* y of the scan on a GPU, tile by tile: with h the state before the tile (ssd_between.cuh) and a from its beginning on
 *
 *   y_i = sum over j <= i of (C_i B_j) exp(a_i - a_j) d_j x_j + exp(a_i) C_i h + D x_i
 *
 * A block owns a tile and some heads of a group. Scores, which heads share, are made once and stay in registers; x and
 * the state of a head come by while the head before is multiplied.
 */
#ifndef HR_OP_SSD_ROWS_CUH
#define HR_OP_SSD_ROWS_CUH

#include "op/ssd_between.cuh"

enum { ROWS_HEADS = 4, ROWS_TILE = SIDE * pitch<WIDTH>, ROWS_LINES = 2 * SIDE + 4 };

template <int N> constexpr int rows_stage = ROWS_TILE + N *pitch<WIDTH>;
template <int N> constexpr size_t rows_bytes = (SIDE * pitch<N> + 2 * rows_stage<N>)*2 + 2 * ROWS_LINES * sizeof(float);

static inline int rows_parts(const hr_ssd_sizes &size) { /* blocks for the heads of a group */
  return (int)divide_up(size.heads / size.groups, ROWS_HEADS);
}

template <typename T, int N>
static __global__ void __launch_bounds__(SCAN_THREADS, 3) ssd_rows_kernel(ssd_operands<T> o) {
  T *own = launch_shared<T>(), *items = own + SIDE * pitch<N>;
  float *lines = (float *)(items + 2 * rows_stage<N>);
  int thread = (int)threadIdx.x, warp = thread / 32, lane = thread % 32, q = lane / 4, t = lane % 4;
  int tiles = (int)((o.size.chunk + SIDE - 1) / SIDE), tile = (int)(blockIdx.x % tiles);
  int members = (int)o.size.heads / (int)o.size.groups, parts = (members + ROWS_HEADS - 1) / ROWS_HEADS;
  unsigned groups = (unsigned)o.size.groups;
  int64_t chunk = (int)blockIdx.x / tiles, group = blockIdx.y / parts % groups, sequence = blockIdx.y / parts / groups;
  int64_t first_head = group * members + blockIdx.y % parts * ROWS_HEADS;
  int heads = (int)min((int64_t)ROWS_HEADS, (group + 1) * members - first_head);
  chunk_place p = chunk_at(o.size, chunk);
  if (tile >= p.tiles) return;
  int states = (int)o.size.state, dim = (int)o.size.dim, begin = SIDE * tile, count = min((int)SIDE, p.count - begin);
  int64_t row = sequence * o.size.length + p.first + begin;
  const T *mixed = o.mixed + row * o.size.mixed;

  auto start = [&](int number) {
    T *to = items + number % 2 * rows_stage<N>;
    int64_t head = first_head + number;
    rows_start<SIDE, WIDTH>(to, mixed + head * o.size.dim, o.size.mixed, count, dim);
    rows_start<N, WIDTH>(to + ROWS_TILE, o.narrow_states + tile_state_at(o.size, sequence, chunk, head, tile), dim,
                         states, dim);
  };
  /* Of the next head: a from the tile's beginning on, the same with d in it for columns j, and D. */
  float exponent = NOWHERE, with_step = NOWHERE, skip = 0.0f;
  auto lines_load = [&](int number) {
    int64_t line = (sequence * o.size.heads + first_head + number) * o.size.length + p.first + begin;
    skip = o.skip[first_head + number];
    if (thread >= count) return;
    exponent = (o.decays[line + thread] - (tile > 0 ? o.decays[line - 1] : 0.0f)) * LOG2_E;
    with_step = exponent - log2f(o.steps[line + thread]);
  };
  auto lines_store = [&](int number) {
    float *to = lines + number % 2 * ROWS_LINES;
    if (thread < SIDE) {
      to[thread] = exponent;
      to[SIDE + thread] = with_step;
    }
    if (thread == 0) to[2 * SIDE] = skip;
  };

  rows_start<SIDE, N>(own, mixed + o.size.c_first + group * o.size.state, o.size.mixed, count, states);
  rows_start<SIDE, N>(items, mixed + o.size.b_first + group * o.size.state, o.size.mixed, count, states);
  lines_load(0);
  lines_store(0);
  copies_wait();
  __syncthreads();
  float score[SIDE / 8][4] = {};
  uint32_t of_c[N / 16][4];
  strip_take<N>(of_c, own + STRIP * warp * pitch<N>, pitch<N>);
  strip_by<SIDE, N, true>(score, of_c, items, pitch<N>);
  __syncthreads();
  start(0);
  for (int number = 0; number < heads; number++) {
    copies_wait();
    __syncthreads();
    if (number + 1 < heads) {
      start(number + 1);
      lines_load(number + 1);
    }
    const T *x = items + number % 2 * rows_stage<N>;
    const float *line = lines + number % 2 * ROWS_LINES;
    float sum[WIDTH / 8][4] = {}, of_row[2];
    strip_by<WIDTH, N, false>(sum, of_c, x + ROWS_TILE, pitch<WIDTH>);
#pragma unroll
    for (int half = 0; half < 2; half++) {
      of_row[half] = line[STRIP * warp + 8 * half + q];
      float by = near_power_of_two(of_row[half]);
#pragma unroll
      for (int c = 0; c < WIDTH / 8; c++) {
        sum[c][2 * half] *= by;
        sum[c][2 * half + 1] *= by;
      }
    }
#pragma unroll
    for (int s = 0; s < SIDE / 16; s++) {
      if (s > warp) continue;
      float weight[2][4];
      uint32_t left[4];
#pragma unroll
      for (int b = 0; b < 2; b++) {
        int c = 2 * s + b;
        float2 column = *(const float2 *)(line + SIDE + 8 * c + 2 * t);
#pragma unroll
        for (int e = 0; e < 4; e++) {
          bool seen = s < warp || (s == warp && 8 * b + 2 * t + e % 2 <= 8 * (e / 2) + q);
          float decay = near_power_of_two(of_row[e / 2] - (e % 2 ? column.y : column.x));
          weight[b][e] = seen ? score[c][e] * decay : 0.0f;
        }
      }
      left_of<T>(left, weight[0], weight[1]);
      strip_multiply<WIDTH, false>(sum, left, x + 16 * s * pitch<WIDTH> + lane_offset<false>(pitch<WIDTH>),
                                   pitch<WIDTH>);
    }
    uint32_t mine[WIDTH / 16][4];
    strip_take<WIDTH>(mine, x + STRIP * warp * pitch<WIDTH>, pitch<WIDTH>);
#pragma unroll
    for (int c = 0; c < WIDTH / 8; c++)
#pragma unroll
      for (int half = 0; half < 2; half++) {
        float2 by = numbers_of(T(), mine[c / 2][c % 2 * 2 + half]);
        sum[c][2 * half] += line[2 * SIDE] * by.x;
        sum[c][2 * half + 1] += line[2 * SIDE] * by.y;
      }
    strip_store<WIDTH>(sum, own + STRIP * warp * pitch<N>,
                       o.y + (row + STRIP * warp) * o.size.y + (first_head + number) * o.size.dim, o.size.y,
                       count - STRIP * warp, dim);
    if (number + 1 < heads) lines_store(number + 1);
  }
}

#endif
