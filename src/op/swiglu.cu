/* swiglu, geglu and their backward ops on CUDA, with gate and up apart or packed in one operand.
 *
 * Both are seen as rows: packed, those of the result; apart, one row of all elements. Where rows are a multiple of WIDE
 * elements a thread takes WIDE neighbours (N), else one.
 */
#include "op/swiglu.cuh"

enum { SWIGLU_THREADS = 256 };
static const int64_t GRID_ROWS = 65535; /* blockIdx.y goes no further */

/* Where things lie: rows of `columns` elements; those of gate, up and their gradients begin every `stride`. */
struct swiglu_rows {
  int64_t rows, columns, stride;
};

template <typename T, typename GATE, int N>
static __global__ void __launch_bounds__(SWIGLU_THREADS)
    swiglu_kernel(const T *gate, const T *up, T *y, swiglu_rows r) {
  int64_t column = ((int64_t)blockIdx.x * SWIGLU_THREADS + threadIdx.x) * N;
  if (column >= r.columns) return;
  for (int64_t row = blockIdx.y; row < r.rows; row += gridDim.y) {
    float g[N], u[N];
    pack_read<N>(gate + row * r.stride + column, g);
    pack_read<N>(up + row * r.stride + column, u);
#pragma unroll
    for (int e = 0; e < N; e++)
      u[e] = u[e] * (g[e] * GATE::part(g[e]));
    pack_write<N>(y + row * r.columns + column, u);
  }
}

/* A thread reads all it needs before it writes: dgate may lie on gate or dy, dup on up. */
template <typename T, typename GATE, int N>
static __global__ void __launch_bounds__(SWIGLU_THREADS)
    swiglu_bwd_kernel(const T *dy, const T *gate, const T *up, T *dgate, T *dup, swiglu_rows r) {
  int64_t column = ((int64_t)blockIdx.x * SWIGLU_THREADS + threadIdx.x) * N;
  if (column >= r.columns) return;
  for (int64_t row = blockIdx.y; row < r.rows; row += gridDim.y) {
    float d[N], g[N], u[N];
    pack_read<N>(dy + row * r.columns + column, d);
    pack_read<N>(gate + row * r.stride + column, g);
    pack_read<N>(up + row * r.stride + column, u);
#pragma unroll
    for (int e = 0; e < N; e++) {
      float s = GATE::part(g[e]);
      u[e] = GATE::slope(d[e] * u[e], g[e], s);
      d[e] = d[e] * g[e] * s;
    }
    pack_write<N>(dgate + row * r.stride + column, u);
    pack_write<N>(dup + row * r.stride + column, d);
  }
}

/* `y` is the operand of the result's shape. */
static swiglu_rows rows_of(const hr_desc &y, bool packed) {
  if (!packed) return {1, desc_count(y), desc_count(y)};
  return {desc_rows(y), desc_columns(y), 2 * desc_columns(y)};
}

static dim3 grid_of(const swiglu_rows &r, int width) {
  int64_t rows = r.rows < GRID_ROWS ? r.rows : GRID_ROWS;
  return dim3((unsigned)divide_up(r.columns, SWIGLU_THREADS * width), (unsigned)rows);
}

template <template <typename> class GATE> static hr_status gated_run(const hr_call *call) {
  bool packed = !call->in[1].data;
  swiglu_rows r = rows_of(call->out[0].desc, packed);
  return by_dtype(call->out[0].desc.dtype, [&](auto t) {
    using T = decltype(t);
    const T *gate = (const T *)call->in[0].data, *up = packed ? gate + r.columns : (const T *)call->in[1].data;
    T *y = (T *)call->out[0].data;
    if (r.columns % WIDE == 0 && wide(gate, up, y))
      launch(swiglu_kernel<T, GATE<T>, WIDE>, grid_of(r, WIDE), SWIGLU_THREADS, 0, call_stream(call), gate, up, y, r);
    else
      launch(swiglu_kernel<T, GATE<T>, 1>, grid_of(r, 1), SWIGLU_THREADS, 0, call_stream(call), gate, up, y, r);
    return launched();
  });
}

template <template <typename> class GATE> static hr_status gated_bwd_run(const hr_call *call) {
  bool packed = !call->in[2].data;
  swiglu_rows r = rows_of(call->in[0].desc, packed);
  return by_dtype(call->out[0].desc.dtype, [&](auto t) {
    using T = decltype(t);
    const T *dy = (const T *)call->in[0].data, *gate = (const T *)call->in[1].data;
    const T *up = packed ? gate + r.columns : (const T *)call->in[2].data;
    T *dgate = (T *)call->out[0].data, *dup = packed ? dgate + r.columns : (T *)call->out[1].data;
    if (r.columns % WIDE == 0 && wide(dy, gate, up, dgate, dup))
      launch(swiglu_bwd_kernel<T, GATE<T>, WIDE>, grid_of(r, WIDE), SWIGLU_THREADS, 0, call_stream(call), dy, gate, up,
             dgate, dup, r);
    else
      launch(swiglu_bwd_kernel<T, GATE<T>, 1>, grid_of(r, 1), SWIGLU_THREADS, 0, call_stream(call), dy, gate, up, dgate,
             dup, r);
    return launched();
  });
}

#define EVERY_TYPE(kernel, GATE)                                                                                       \
  (const void *)kernel<float, GATE<float>, WIDE>, (const void *)kernel<float, GATE<float>, 1>,                         \
      (const void *)kernel<bf16, GATE<bf16>, WIDE>, (const void *)kernel<bf16, GATE<bf16>, 1>,                         \
      (const void *)kernel<f16, GATE<f16>, WIDE>, (const void *)kernel<f16, GATE<f16>, 1>

extern "C" const hr_cuda_launcher hr_cuda_swiglu = {{nullptr, nullptr, gated_run<silu_gate>},
                                                    {EVERY_TYPE(swiglu_kernel, silu_gate)}};
extern "C" const hr_cuda_launcher hr_cuda_swiglu_bwd = {{nullptr, nullptr, gated_bwd_run<silu_gate>},
                                                        {EVERY_TYPE(swiglu_bwd_kernel, silu_gate)}};
extern "C" const hr_cuda_launcher hr_cuda_geglu = {{nullptr, nullptr, gated_run<gelu_gate>},
                                                   {EVERY_TYPE(swiglu_kernel, gelu_gate)}};
extern "C" const hr_cuda_launcher hr_cuda_geglu_bwd = {{nullptr, nullptr, gated_bwd_run<gelu_gate>},
                                                       {EVERY_TYPE(swiglu_bwd_kernel, gelu_gate)}};
