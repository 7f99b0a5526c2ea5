/* Products of few rows on CUDA, as programs that generate have them, together with what stands around them.
 *
 *   y [M, n] = x [M, k] Wt (+ bias) (+ add)       x, where asked for, normed first (rmsnorm)
 *   behind it: swiglu of the two halves of y, or rope of its heads, and these put into caches
 *
 * Such a product waits for nothing but its weights. `split` warps stand for a column of y, or for the pair of columns
 * that goes together in what is behind, and then for their next one; each holds FEW_PACKS packs of the weights' rows in
 * registers, as a rule all of its share, and asks for those of its next column as it uses up the ones before: memory
 * never rests. The first ones are asked for before the kernel in front has ended. Rows that are normed are so by every
 * block for itself, which takes less time than a kernel in between.
 *
 * Sums have a fixed order, the same for every M, and everything in between is rounded as the ops alone round it: the
 * bits are theirs.
 */
#ifndef HR_OP_FEW_CUH
#define HR_OP_FEW_CUH

#include "op/norm.cuh"
#include "op/rope.cuh"
#include "op/swiglu.cuh"
extern "C" {
#include "op/cache.h"
#include "op/rmsnorm.h"
}

enum {
  FEW = 4,
  FEW_WARPS = 8,
  FEW_THREADS = WARP * FEW_WARPS,
  FEW_NORMED = 32 << 10 /* bytes of normed rows at most */
};

/* Blocks of a multiprocessor. */
template <int M> constexpr int FEW_BLOCKS = M == 1 ? 3 : 2;

/* Packs of each of COLUMNS rows of weights that a warp holds. */
template <typename T, int COLUMNS> constexpr int FEW_PACKS = (sizeof(T) == 2 ? 8 : 4) / COLUMNS;

/* Sizes in elements. Pointers to what is not wanted are NULL. */
template <typename T> struct few_product {
  const T *x, *w, *bias, *add;
  T *y;
  int64_t n, k;
  int split;
  bool early; /* weights may be read before kernels in front have ended: none of them writes them */
  /* rmsnorm in front */
  const void *norm; /* weights */
  bool norm_f32;    /* in f32; else in T */
  hr_rmsnorm_args norm_args;
  T *normed; /* [M, k] */
  float *rstds;
  /* behind: columns c and c + distance go together */
  int64_t distance;
  T *after;              /* of swiglu [M, n / 2], of rope [M, n] */
  const float *cosines;  /* NULL: swiglu */
  const float *sines;    /* distance = head_dim / 2 of each row of angles */
  int64_t angles;        /* rows of angles */
  int64_t rotated_pairs; /* the leading ones; others stay */
  /* behind rope: columns from first_key on are keys, then values, `width` of each */
  T *keys, *values;
  const int32_t *positions, *counts;
  int64_t first_key, width, length, context;
};

/* WIDE elements as they lie in memory: taken apart earlier than they are used, 16-bit ones would fill a register each.
 */
template <typename T> struct few_words { uint4 word[WIDE * sizeof(T) / sizeof(uint4)]; };

template <typename T> __device__ inline few_words<T> words_stream(const T *from) {
  few_words<T> words;
#pragma unroll
  for (size_t i = 0; i < sizeof words / sizeof(uint4); i++)
    words.word[i] = __ldcs((const uint4 *)from + i);
  return words;
}

template <typename T, int M>
__device__ inline void few_add(const few_words<T> &words, const T *x, int64_t k, float sums[M]) {
  pack<T, WIDE> w;
  memcpy(&w, &words, sizeof w);
#pragma unroll
  for (int m = 0; m < M; m++) {
    float values[WIDE];
    pack_read<WIDE>(x + m * k, values);
#pragma unroll
    for (int e = 0; e < WIDE; e++)
      sums[m] += to_float(w.value[e]) * values[e];
  }
}

template <typename T> __device__ inline void norm_read(const few_product<T> &p, int pack, float to[WIDE]) {
  if (p.norm_f32)
    pack_read<WIDE>((const float *)p.norm + pack * WIDE, to);
  else
    pack_read<WIDE>((const T *)p.norm + pack * WIDE, to);
}

/* Rows of x normed, in `to`. Sums are those of rmsnorm_row_kernel: WIDE elements, then a warp of them, then all warps
 * in order. */
template <typename T, int M, int THREADS> __device__ inline void few_norm(const few_product<T> &p, T *to) {
  __shared__ float warps[M][ROW_THREADS / WARP];
  int packs = (int)(p.k / WIDE), thread = (int)threadIdx.x;
  float weights[WIDE]; /* of the first pack, as a rule the only one: asked for together with x */
  if (thread < packs) norm_read(p, thread, weights);
#pragma unroll
  for (int m = 0; m < M; m++)
    for (int first = 0; first < packs; first += THREADS) {
      float v[WIDE] = {}, squares = 0.0f;
      if (first + thread < packs) pack_read<WIDE>(p.x + m * p.k + (first + thread) * WIDE, v);
#pragma unroll
      for (int e = 0; e < WIDE; e++)
        squares += v[e] * v[e];
      squares = warp_sum(squares);
      if (thread % WARP == 0 && first + thread < packs) warps[m][(first + thread) / WARP] = squares;
    }
  threads_meet<THREADS>();
#pragma unroll
  for (int m = 0; m < M; m++) {
    float sum = 0.0f;
    for (int i = 0; i * WARP < packs; i++)
      sum += warps[m][i];
    float rstd = 1.0f / sqrtf(sum / (float)p.k + p.norm_args.eps);
    if (p.rstds && blockIdx.x == 0 && thread == 0) p.rstds[m] = rstd;
    for (int i = thread; i < packs; i += THREADS) {
      float v[WIDE], w[WIDE];
      pack_read<WIDE>(p.x + m * p.k + i * WIDE, v);
      if (i != thread) norm_read(p, i, w);
      pack<T, WIDE> block;
#pragma unroll
      for (int e = 0; e < WIDE; e++)
        block.value[e] = from_float<T>(normal<T>(v[e], rstd, i == thread ? weights[e] : w[e], p.norm_args.raised));
      *(pack<T, WIDE> *)(to + m * p.k + i * WIDE) = block; /* shared memory: pack_store is for the device's */
      if (p.normed && blockIdx.x == 0) pack_store<WIDE>(p.normed + m * p.k + i * WIDE, block);
    }
  }
  threads_meet<THREADS>();
}

/* What rope and cache_put need to know of a pair of columns of row m: asked for before the pair is there. */
struct few_turn {
  float cosine, sine;
  int32_t position, count;
};
template <typename T> __device__ inline few_turn few_ahead(const few_product<T> &p, unsigned m, unsigned pair) {
  few_turn turn = {};
  if (p.cosines && pair < p.rotated_pairs) {
    int64_t angle = m % (unsigned)p.angles * p.distance + pair % (unsigned)p.distance;
    turn.cosine = p.cosines[angle];
    turn.sine = p.sines[angle];
  }
  if (p.keys) {
    int64_t sample = m / (unsigned)p.length;
    turn.position = p.positions[sample];
    turn.count = p.counts[sample];
  }
  return turn;
}

/* What goes behind a pair of columns of row m, both rounded to T already. */
template <typename T>
__device__ inline void few_after(const few_product<T> &p, unsigned m, unsigned pair, int64_t column, T first, T second,
                                 const few_turn &turn) {
  if (!p.cosines) {
    p.after[m * (p.n / 2) + pair] = from_float<T>(swiglu_of<T>(to_float(first), to_float(second)));
    return;
  }
  if (pair < p.rotated_pairs) {
    float2 rotated = pair_rotate(to_float(first), to_float(second), turn.cosine, turn.sine);
    first = from_float<T>(rotated.x);
    second = from_float<T>(rotated.y);
  }
  p.after[m * p.n + column] = first;
  p.after[m * p.n + column + p.distance] = second;
  if (!p.keys || column < p.first_key) return;
  int64_t sample = m / (unsigned)p.length, t = m % (unsigned)p.length, position = turn.position;
  if (t >= hr__cache_rows(position, turn.count, p.length, p.context)) return;
  int64_t at = column - p.first_key;
  T *cache = (at < p.width ? p.keys + at : p.values + at - p.width) + (sample * p.context + position + t) * p.width;
  cache[0] = first;
  cache[p.distance] = second;
}

template <typename T, int M, int COLUMNS>
static __global__ void __launch_bounds__(FEW_THREADS, FEW_BLOCKS<M>)
    few_kernel(__grid_constant__ const few_product<T> p) {
  constexpr int PACKS = FEW_PACKS<T, COLUMNS>;
  uint4 *room = launch_shared<uint4>();             /* normed rows */
  __shared__ float parts[2][FEW_WARPS][COLUMNS][M]; /* of sums, by turns: one barrier a round is enough */
  const int warp = (int)threadIdx.x / WARP, lane = (int)threadIdx.x % WARP, part = warp % p.split;
  /* 32 bits are enough (is_few), and 64 would be divided for longer than a row is multiplied. */
  const unsigned distance = (unsigned)p.distance, tasks = (unsigned)p.n / COLUMNS;
  const unsigned round_tasks = gridDim.x * FEW_WARPS / (unsigned)p.split;
  const int k = (int)p.k, step = WARP * WIDE * p.split, own = (part * WARP + lane) * WIDE;
  const int64_t apart = p.distance * p.k; /* elements between both rows of a pair */
  unsigned task = (blockIdx.x * FEW_WARPS + (unsigned)warp) / (unsigned)p.split;
  /* A task's first column. */
  auto column_of = [&](unsigned of) { return (int64_t)(COLUMNS == 1 ? of : of + of / distance * distance); };

  few_words<T> held[PACKS][COLUMNS]; /* elements from + i * step of rows of the weights */
  auto hold = [&](const T *row, int from, int i, int c) {
    if (from + i * step < k) held[i][c] = words_stream(row + c * apart + from + i * step);
  };
  auto hold_all = [&]() {
    const T *row = p.w + column_of(task) * p.k;
#pragma unroll
    for (int i = 0; i < PACKS; i++)
#pragma unroll
      for (int c = 0; c < COLUMNS; c++)
        hold(row, task < tasks ? own : k, i, c);
  };
  if (p.early) hold_all();
  next_may_begin(); /* it waits for this kernel, which waits for those in front */
  front_wait();
  if (!p.early) hold_all();

  const T *x = p.x;
  if (p.norm) {
    few_norm<T, M, FEW_THREADS>(p, (T *)room);
    x = (const T *)room;
  }
  /* As many rounds for each warp of the block: there is a barrier in them. */
  for (unsigned first = blockIdx.x * FEW_WARPS / (unsigned)p.split, round = 0; first < tasks;
       first += round_tasks, task += round_tasks, round++) {
    const bool last = lane < M && part == 0 && task < tasks; /* of row `lane` this lane makes the end of the sums */
    const int64_t column = column_of(task);
    float sum[COLUMNS] = {}, bias[COLUMNS] = {}, add[COLUMNS] = {};
    few_turn turn = {};
    if (COLUMNS == 2 && last) turn = few_ahead(p, (unsigned)lane, task);
#pragma unroll
    for (int c = 0; c < COLUMNS; c++) {
      int64_t at = column + c * p.distance;
      if (last && p.bias) bias[c] = to_float(p.bias[at]);
      if (last && p.add) add[c] = to_float(p.add[lane * p.n + at]);
    }
    float sums[COLUMNS][M] = {};
    for (int base = 0; base < k; base += PACKS * step) {
      bool more = base + PACKS * step < k; /* of this task */
      unsigned next = more ? task : task + round_tasks;
      int next_from = next < tasks ? own + (more ? base + PACKS * step : 0) : k;
      const T *row = p.w + column_of(next) * p.k;
#pragma unroll
      for (int i = 0; i < PACKS; i++)
#pragma unroll
        for (int c = 0; c < COLUMNS; c++) {
          int from = own + base + i * step;
          if (task < tasks && from < k) few_add<T, M>(held[i][c], x + from, p.k, sums[c]);
          hold(row, next_from, i, c);
        }
    }
#pragma unroll
    for (int c = 0; c < COLUMNS; c++)
#pragma unroll
      for (int m = 0; m < M; m++) {
        float all = warp_sum(sums[c][m]);
        if (lane == m) sum[c] = all;
        if (lane == m && p.split > 1) parts[round % 2][warp][c][m] = all;
      }
    if (p.split > 1) __syncthreads();
    if (!last) continue;
    T rounded[COLUMNS];
#pragma unroll
    for (int c = 0; c < COLUMNS; c++) {
      for (int other = 1; other < p.split; other++)
        sum[c] += parts[round % 2][warp + other][c][lane];
      if (p.bias) sum[c] += bias[c];
      if (p.add) sum[c] += add[c];
      rounded[c] = from_float<T>(sum[c]);
      if (p.y) p.y[lane * p.n + column + c * p.distance] = rounded[c];
    }
    if constexpr (COLUMNS == 2) few_after(p, (unsigned)lane, task, column, rounded[0], rounded[1], turn);
  }
}

/* From k alone: the order of sums is the same whatever goes along. */
template <typename T> static int few_split(int64_t k) {
  int split = 1;
  while (split < FEW_WARPS && divide_up(k, WARP * WIDE) > split * FEW_PACKS<T, 1>)
    split *= 2;
  return split;
}

template <typename T, int M, int COLUMNS> static hr_status few_launch(const hr_call *call, few_product<T> &p) {
  p.split = few_split<T>(p.k);
  int64_t blocks = divide_up(p.n / COLUMNS * p.split, FEW_WARPS);
  int64_t rounds = divide_up(blocks, (int64_t)device_state(call)->multiprocessors * FEW_BLOCKS<M>);
  size_t normed = p.norm ? (size_t)(M * p.k) * sizeof(T) : 0;
  return launch_early(call, few_kernel<T, M, COLUMNS>, dim3((unsigned)divide_up(blocks, rounds)), dim3(FEW_THREADS),
                      normed, p);
}

template <typename T, int COLUMNS> static hr_status few_rows(const hr_call *call, few_product<T> &p, int64_t rows) {
  switch (rows) {
  case 1:
    return few_launch<T, 1, COLUMNS>(call, p);
  case 2:
    return few_launch<T, 2, COLUMNS>(call, p);
  case 3:
    return few_launch<T, 3, COLUMNS>(call, p);
  default:
    return few_launch<T, FEW, COLUMNS>(call, p);
  }
}

/* The product of a call with `rows` rows; of what is around it, p says. */
template <typename T> static hr_status few_do(const hr_call *call, few_product<T> &p, int64_t rows) {
  return p.after ? few_rows<T, 2>(call, p, rows) : few_rows<T, 1>(call, p, rows);
}

#define FEW_KERNELS(T)                                                                                                 \
  (const void *)few_kernel<T, 1, 1>, (const void *)few_kernel<T, 2, 1>, (const void *)few_kernel<T, 3, 1>,             \
      (const void *)few_kernel<T, FEW, 1>, (const void *)few_kernel<T, 1, 2>, (const void *)few_kernel<T, 2, 2>,       \
      (const void *)few_kernel<T, 3, 2>, (const void *)few_kernel<T, FEW, 2>

#endif
