/* add_rows and the gradient of its rows on CUDA. */
#include "dev/cuda/columns.cuh"
extern "C" {
#include "op/add_rows.h"
}

enum { ADD_ROWS_THREADS = 256 };
static const int64_t GRID_ROWS = 65535; /* blockIdx.y goes no further */

struct add_rows_shape {
  int64_t rows, columns, period;
};

/* N columns to a thread, rows along y. A thread reads its elements before it writes them: y may lie on x. */
template <typename T, typename W, int N>
static __global__ void __launch_bounds__(ADD_ROWS_THREADS)
    add_rows_kernel(const T *x, const W *weight, T *y, add_rows_shape s) {
  int64_t column = ((int64_t)blockIdx.x * ADD_ROWS_THREADS + threadIdx.x) * N;
  if (column >= s.columns) return;
  for (int64_t row = blockIdx.y; row < s.rows; row += gridDim.y) {
    float v[N], w[N];
    pack_read<N>(x + row * s.columns + column, v);
    pack_read<N>(weight + row % s.period * s.columns + column, w);
#pragma unroll
    for (int e = 0; e < N; e++)
      v[e] += w[e];
    pack_write<N>(y + row * s.columns + column, v);
  }
}

static hr_status add_rows_run(const hr_call *call) {
  const hr_desc &desc = call->in[0].desc;
  add_rows_shape s = {desc_rows(desc), desc_columns(desc), ((const hr_add_rows_args *)call->args)->period};
  unsigned rows = (unsigned)(s.rows < GRID_ROWS ? s.rows : GRID_ROWS);
  cudaStream_t stream = call_stream(call);
  return by_dtype(desc.dtype, [&](auto t) {
    return by_dtype(call->in[1].desc.dtype, [&](auto u) {
      using T = decltype(t);
      using W = decltype(u);
      const T *x = (const T *)call->in[0].data;
      const W *w = (const W *)call->in[1].data;
      T *y = (T *)call->out[0].data;
      if (s.columns % WIDE == 0 && wide(x, w, y))
        launch(add_rows_kernel<T, W, WIDE>, dim3((unsigned)divide_up(s.columns, ADD_ROWS_THREADS * WIDE), rows),
               ADD_ROWS_THREADS, 0, stream, x, w, y, s);
      else
        launch(add_rows_kernel<T, W, 1>, dim3((unsigned)divide_up(s.columns, ADD_ROWS_THREADS), rows), ADD_ROWS_THREADS,
               0, stream, x, w, y, s);
      return launched();
    });
  });
}

static hr_status add_rows_dw_run(const hr_call *call) {
  const hr_add_rows_dw_args *args = (const hr_add_rows_dw_args *)call->args;
  const hr_desc &dy = call->in[0].desc;
  columns_shape s = {};
  s.columns = s.group = desc_columns(dy);
  s.rows = desc_rows(dy) / args->period;
  s.row = args->period * s.columns;
  s.groups = args->rows;
  s.used = args->period;
  return by_dtype(dy.dtype, [&](auto t) {
    return by_dtype(call->out[0].desc.dtype, [&](auto p) {
      using T = decltype(t);
      using P = decltype(p);
      return columns_run<T, P>(call, (const T *)call->in[0].data, (const P *)call->in[1].data, (P *)call->out[0].data,
                               s);
    });
  });
}

#define ADD_ROWS(T, W) (const void *)add_rows_kernel<T, W, WIDE>, (const void *)add_rows_kernel<T, W, 1>

extern "C" const hr_cuda_launcher hr_cuda_add_rows = {
    {nullptr, nullptr, add_rows_run},
    {ADD_ROWS(float, float), ADD_ROWS(float, bf16), ADD_ROWS(float, f16), ADD_ROWS(bf16, float), ADD_ROWS(bf16, bf16),
     ADD_ROWS(bf16, f16), ADD_ROWS(f16, float), ADD_ROWS(f16, bf16), ADD_ROWS(f16, f16)}};
extern "C" const hr_cuda_launcher hr_cuda_add_rows_dw = {{nullptr, nullptr, add_rows_dw_run}, {COLUMNS_FUNCTIONS}};
