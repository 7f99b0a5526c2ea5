/* lora_up and its backward op in any type and shape: plain loops. */
#ifndef HR_OP_LORA_UP_LOOP_CUH
#define HR_OP_LORA_UP_LOOP_CUH

#include "op/lora_up_place.cuh"

enum { UP_THREADS = 128, UP_ROWS = 16, LOOP_RANK = 8 };
enum { LOOP_THREADS = 256, DB_COLUMNS = 32, DB_LANES = LOOP_THREADS / DB_COLUMNS };

/* A thread has one column of y and UP_ROWS rows. */
template <typename T>
static __global__ void up_loop_kernel(const T *h, const T *weight, const T *add, T *y, int64_t rows,
                                      int64_t column_blocks, const __grid_constant__ hr_lora_up_args a) {
  int64_t first_row = (int64_t)blockIdx.x / column_blocks * UP_ROWS;
  int64_t column = (int64_t)blockIdx.x % column_blocks * UP_THREADS + threadIdx.x, width = a.groups * a.rank;
  if (column >= a.columns) return;
  lora_place place = place_of_column(a, column);
  float sum[UP_ROWS];
#pragma unroll
  for (int r = 0; r < UP_ROWS; r++)
    sum[r] = 0.0f;
  for (int64_t k0 = 0; place.group >= 0 && k0 < a.rank; k0 += LOOP_RANK) {
    float b[LOOP_RANK];
#pragma unroll
    for (int i = 0; i < LOOP_RANK; i++)
      b[i] = k0 + i < a.rank ? a.scale * to_float(weight[place.weight * a.rank + k0 + i]) : 0.0f;
#pragma unroll
    for (int r = 0; r < UP_ROWS; r++)
      for (int i = 0; i < LOOP_RANK; i++)
        if (first_row + r < rows && k0 + i < a.rank)
          sum[r] += b[i] * to_float(h[(first_row + r) * width + place.group * a.rank + k0 + i]);
  }
#pragma unroll
  for (int r = 0; r < UP_ROWS; r++) {
    int64_t at = (first_row + r) * a.columns + column;
    if (first_row + r < rows) y[at] = from_float<T>(sum[r] + (add ? to_float(add[at]) : 0.0f));
  }
}

/* A warp for LOOP_RANK neighbours in one row and group of dh. pieces: of the rank. */
template <typename T>
static __global__ void dh_loop_kernel(const T *dy, const T *weight, T *dh, int64_t rows, int64_t pieces,
                                      const __grid_constant__ hr_lora_up_args a) {
  int64_t item = ((int64_t)blockIdx.x * LOOP_THREADS + threadIdx.x) / 32;
  int lane = threadIdx.x % 32;
  if (item >= rows * a.groups * pieces) return; /* whole warps */
  int64_t k0 = item % pieces * LOOP_RANK, row = item / pieces / a.groups, before = 0;
  int group = (int)(item / pieces % a.groups);
  for (int g = 0; g < group; g++)
    before += a.rows[g];
  float sum[LOOP_RANK] = {};
  for (int64_t j = lane; j < a.rows[group]; j += 32) {
    float d = to_float(dy[row * a.columns + a.first[group] + j]);
    const T *from = weight + (before + j) * a.rank + k0;
#pragma unroll
    for (int i = 0; i < LOOP_RANK; i++)
      if (k0 + i < a.rank) sum[i] += d * to_float(from[i]);
  }
#pragma unroll
  for (int i = 0; i < LOOP_RANK; i++) {
    for (int distance = 16; distance > 0; distance /= 2)
      sum[i] += __shfl_down_sync(~0u, sum[i], distance);
    if (lane == 0 && k0 + i < a.rank) dh[(row * a.groups + group) * a.rank + k0 + i] = from_float<T>(a.scale * sum[i]);
  }
}

/* A block for DB_COLUMNS rows of dB and LOOP_RANK of the rank: DB_LANES rows of dy at a time. */
template <typename T, typename P>
static __global__ void db_loop_kernel(const T *dy, const T *h, const P *partial, P *db, int64_t rows,
                                      int64_t weight_rows, int64_t pieces, const __grid_constant__ hr_lora_up_args a) {
  __shared__ float sums[DB_LANES][DB_COLUMNS][LOOP_RANK + 1];
  int x = threadIdx.x % DB_COLUMNS, lane = threadIdx.x / DB_COLUMNS;
  int64_t k0 = (int64_t)blockIdx.x % pieces * LOOP_RANK, weight = (int64_t)blockIdx.x / pieces * DB_COLUMNS + x;
  float sum[LOOP_RANK] = {};
  if (weight < weight_rows) {
    int64_t before;
    int group = group_of_weight(a, weight, &before);
    int64_t column = a.first[group] + weight - before, width = a.groups * a.rank;
    for (int64_t row = lane; row < rows; row += DB_LANES) {
      float d = to_float(dy[row * a.columns + column]);
      const T *from = h + row * width + group * a.rank + k0;
#pragma unroll
      for (int i = 0; i < LOOP_RANK; i++)
        if (k0 + i < a.rank) sum[i] += d * to_float(from[i]);
    }
  }
#pragma unroll
  for (int i = 0; i < LOOP_RANK; i++)
    sums[lane][x][i] = sum[i];
  __syncthreads();
  int64_t k = k0 + lane; /* as many lanes as neighbours */
  if (weight >= weight_rows || k >= a.rank) return;
  float total = 0.0f;
  for (int other = 0; other < DB_LANES; other++)
    total += sums[other][x][lane];
  int64_t at = weight * a.rank + k;
  db[at] = from_float<P>(a.scale * total + (partial ? to_float(partial[at]) : 0.0f));
}
static_assert((int)DB_LANES == (int)LOOP_RANK, "each lane completes one of the neighbours");

template <typename T> static hr_status up_loop_launch(const hr_call *call, const hr_lora_up_args &a) {
  int64_t rows = desc_rows(call->out[0].desc), column_blocks = divide_up(a.columns, UP_THREADS);
  int64_t blocks = column_blocks * divide_up(rows, UP_ROWS);
  launch(up_loop_kernel<T>, (unsigned)blocks, UP_THREADS, 0, call_stream(call), (const T *)call->in[0].data,
         (const T *)call->in[1].data, (const T *)call->in[2].data, (T *)call->out[0].data, rows, column_blocks, a);
  return launched();
}

/* Operands: dy, h, B, partial?; results: dh, dB. */
template <typename T, typename P>
static hr_status bwd_loop_launch(const hr_call *call, const hr_lora_up_args &a, int64_t rows) {
  int64_t pieces = divide_up(a.rank, LOOP_RANK), weight_rows = call->in[2].desc.dim[0];
  const T *dy = (const T *)call->in[0].data, *h = (const T *)call->in[1].data, *weight = (const T *)call->in[2].data;
  launch(dh_loop_kernel<T>, (unsigned)divide_up(rows * a.groups * pieces, LOOP_THREADS / 32), LOOP_THREADS, 0,
         call_stream(call), dy, weight, (T *)call->out[0].data, rows, pieces, a);
  launch(db_loop_kernel<T, P>, (unsigned)(divide_up(weight_rows, DB_COLUMNS) * pieces), LOOP_THREADS, 0,
         call_stream(call), dy, h, (const P *)call->in[3].data, (P *)call->out[1].data, rows, weight_rows, pieces, a);
  return launched();
}

#define UP_LOOP_FUNCTIONS(T) (const void *)up_loop_kernel<T>
#define BWD_LOOP_FUNCTIONS(T)                                                                                          \
  (const void *)dh_loop_kernel<T>, (const void *)db_loop_kernel<T, float>, (const void *)db_loop_kernel<T, bf16>,      \
      (const void *)db_loop_kernel<T, f16>

#endif
