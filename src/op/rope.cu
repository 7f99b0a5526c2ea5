/* Rotary positions on CUDA.
 *
 * rope: threads of a block stand for (row, lane of heads, pack of pairs). A thread keeps cosines and sines of its pairs
 * and rotates them in every lanes-th head. N pairs to a thread: WIDE, or one where head_dim
 * or addresses are odd.
 */
#include "dev/cuda/launch.cuh"
#include "op/rope.cuh"
extern "C" {
#include "op/rope.h"
}

enum { ROPE_THREADS = 256, ROPE_HEADS_EACH = 4, TABLE_PAIRS = 256 };

/* Frequencies are computed on the host, by the same function as for the CPU: an error of one bit grows with the
 * position. */
struct frequencies {
  float of_pair[TABLE_PAIRS];
};

/* Pairs [first, first + n) of all rows; with `positions` rows of a sample begin at its own. */
static __global__ void rope_table_kernel(__grid_constant__ const frequencies f, const int32_t *positions,
                                         float *cosines, float *sines, int64_t rows, int64_t length, int64_t half,
                                         int64_t first, int n) {
  int64_t thread = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, stride = (int64_t)gridDim.x * blockDim.x;
  for (int64_t i = thread; i < rows * n; i += stride) {
    int64_t row = i / n, pair = i % n, position = row % length + (positions ? positions[row / length] : 0);
    float angle = (float)position * f.of_pair[pair];
    cosines[row * half + first + pair] = cosf(angle);
    sines[row * half + first + pair] = sinf(angle);
  }
}

static hr_status rope_table_run(const hr_call *call) {
  const hr_rope_table_args *args = (const hr_rope_table_args *)call->args;
  int64_t half = args->head_dim / 2, rows = call->out[0].desc.dim[1];
  float *cosines = (float *)call->out[0].data, *sines = cosines + rows * half;
  for (int64_t first = 0; first < half; first += TABLE_PAIRS) {
    int n = (int)(half - first < TABLE_PAIRS ? half - first : (int64_t)TABLE_PAIRS);
    frequencies f = {};
    for (int i = 0; i < n; i++)
      f.of_pair[i] = hr__rope_frequency(args, first + i);
    int64_t blocks = divide_up(rows * n, ROPE_THREADS);
    launch(rope_table_kernel, (unsigned)(blocks < 4096 ? blocks : 4096), ROPE_THREADS, 0, call_stream(call), f,
           (const int32_t *)call->in[0].data, cosines, sines, rows, args->length, half, first, n);
  }
  return launched();
}

/* Sizes in elements but for packs, which are N elements each. */
struct rope_shape {
  int64_t rows, columns, heads, head_dim;
  int64_t positions; /* rows of angles: of one sample, or of all */
  int64_t packs;     /* in half a head */
  int pack_threads;  /* threads side by side on those packs */
  int lanes;         /* threads side by side on heads */
  int block_rows;    /* rows of a block */
  float sign;        /* of sines */
};

/* Rotates N pairs and writes them; the right half of a head lies `half` elements behind the left one. */
template <typename T, int N>
__device__ inline void pairs_rotate(const pack<T, N> &left, const pack<T, N> &right, const float *cosine,
                                    const float *sine, T *to, int64_t half) {
  pack<T, N> a, b;
#pragma unroll
  for (int e = 0; e < N; e++) {
    float2 rotated = pair_rotate(to_float(left.value[e]), to_float(right.value[e]), cosine[e], sine[e]);
    a.value[e] = from_float<T>(rotated.x);
    b.value[e] = from_float<T>(rotated.y);
  }
  pack_store<N>(to, a);
  pack_store<N>(to + half, b);
}

/* Two heads at a time. A thread reads both before it writes: y may lie on x. */
template <typename T, int N>
static __global__ void __launch_bounds__(ROPE_THREADS)
    rope_kernel(const T *x, const float *cosines, const float *sines, T *y, rope_shape s) {
  int thread = (int)threadIdx.x, pack_thread = thread % s.pack_threads, group = thread / s.pack_threads;
  int lane = group % s.lanes;
  int64_t row = (int64_t)blockIdx.x * s.block_rows + group / s.lanes;
  if (row >= s.rows) return;
  int64_t half = s.head_dim / 2, angles = row % s.positions * half, step = s.lanes * s.head_dim;
  x += row * s.columns;
  y += row * s.columns;
  for (int64_t at = pack_thread; at < s.packs; at += s.pack_threads) {
    float cosine[N], sine[N];
    pack_read<N>(cosines + angles + at * N, cosine);
    pack_read<N>(sines + angles + at * N, sine);
#pragma unroll
    for (int e = 0; e < N; e++)
      sine[e] *= s.sign;
    int64_t offset = lane * s.head_dim + at * N;
    for (int64_t head = lane; head < s.heads; head += 2 * s.lanes, offset += 2 * step) {
      bool second = head + s.lanes < s.heads;
      pack<T, N> left = pack_load<N>(x + offset), right = pack_load<N>(x + offset + half), left2, right2;
      if (second) {
        left2 = pack_load<N>(x + offset + step);
        right2 = pack_load<N>(x + offset + step + half);
      }
      pairs_rotate<T, N>(left, right, cosine, sine, y + offset, half);
      if (second) pairs_rotate<T, N>(left2, right2, cosine, sine, y + offset + step, half);
    }
  }
  if (x == y) return;
  int64_t others = (int64_t)s.lanes * s.pack_threads * N;
  for (int64_t i = s.heads * s.head_dim + (lane * s.pack_threads + pack_thread) * N; i < s.columns; i += others)
    pack_store<N>(y + i, pack_load<N>(x + i));
}

template <typename T, int N> static hr_status rope_launch(const hr_call *call) {
  const hr_rope_args *args = (const hr_rope_args *)call->args;
  const hr_desc &x = call->in[0].desc;
  rope_shape s = {};
  s.rows = desc_rows(x);
  s.positions = call->in[1].desc.dim[1];
  s.columns = x.dim[2];
  s.head_dim = args->head_dim;
  s.heads = args->heads ? args->heads : s.columns / s.head_dim;
  s.packs = s.head_dim / 2 / N;
  s.sign = args->inverse ? -1.0f : 1.0f;
  s.pack_threads = s.packs < ROPE_THREADS ? (int)s.packs : (int)ROPE_THREADS;
  int64_t lanes = divide_up(s.heads, ROPE_HEADS_EACH), most = ROPE_THREADS / s.pack_threads;
  s.lanes = (int)(lanes < most ? lanes : most);
  s.block_rows = ROPE_THREADS / (s.pack_threads * s.lanes);
  const float *cosines = (const float *)call->in[1].data, *sines = cosines + s.positions * (s.head_dim / 2);
  launch(rope_kernel<T, N>, (unsigned)divide_up(s.rows, s.block_rows),
         (unsigned)(s.pack_threads * s.lanes * s.block_rows), 0, call_stream(call), (const T *)call->in[0].data,
         cosines, sines, (T *)call->out[0].data, s);
  return launched();
}

static hr_status rope_run(const hr_call *call) {
  const hr_rope_args *args = (const hr_rope_args *)call->args;
  bool packed = args->head_dim / 2 % WIDE == 0 && wide(call->in[0].data, call->in[1].data, call->out[0].data);
  return by_dtype(call->in[0].desc.dtype, [&](auto t) {
    using T = decltype(t);
    return packed ? rope_launch<T, WIDE>(call) : rope_launch<T, 1>(call);
  });
}

extern "C" const hr_cuda_launcher hr_cuda_rope_table = {{nullptr, nullptr, rope_table_run},
                                                        {(const void *)rope_table_kernel}};

extern "C" const hr_cuda_launcher hr_cuda_rope = {
    {nullptr, nullptr, rope_run},
    {(const void *)rope_kernel<float, WIDE>, (const void *)rope_kernel<float, 1>, (const void *)rope_kernel<bf16, WIDE>,
     (const void *)rope_kernel<bf16, 1>, (const void *)rope_kernel<f16, WIDE>, (const void *)rope_kernel<f16, 1>}};
