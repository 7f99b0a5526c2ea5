/* reduce on CUDA: sums of pieces in a fixed order, then the sum of pieces. */
#include "op/pointwise.cuh"

enum { REDUCE_THREADS = 256 };

struct reduction {
  hr_reduction kind;
  int64_t outer, depth, inner, pieces, piece;
  double *partial; /* [outer, pieces, inner]; NULL: there is one piece */
  void *result;
  hr_dtype dtype;
};

__device__ inline double reduce_start(hr_reduction kind) {
  return kind == HR_REDUCE_MAX ? -INFINITY : kind == HR_REDUCE_MIN ? INFINITY : 0.0;
}

__device__ inline double reduce_join(hr_reduction kind, double a, double b) {
  if (kind == HR_REDUCE_MAX) return b > a || b != b ? b : a;
  if (kind == HR_REDUCE_MIN) return b < a || b != b ? b : a;
  return a + b;
}

__device__ inline void result_put(const reduction &r, int64_t at, double value) {
  if (r.kind == HR_REDUCE_MEAN) value /= (double)r.depth;
  if (r.dtype == HR_BF16)
    ((bf16 *)r.result)[at] = from_float<bf16>((float)value);
  else if (r.dtype == HR_F16)
    ((f16 *)r.result)[at] = from_float<f16>((float)value);
  else
    ((float *)r.result)[at] = (float)value;
}

__device__ inline void partial_put(const reduction &r, int64_t outer, int64_t piece, int64_t inner, double value) {
  if (r.partial)
    r.partial[(outer * r.pieces + piece) * r.inner + inner] = value;
  else
    result_put(r, outer * r.inner + inner, value);
}

typedef holding<float, 1, 1, true> element;

__device__ inline double element_of(const program &p, int64_t number) {
  place<int64_t> at;
  place_find(p, number, &at);
  element::all x;
  program_run<element>(p, at, x);
  if (p.result[0] != SOURCE_BEFORE) source_read<element>(p, p.result[0], at, x, x);
  return (double)__uint_as_float(x.word[0]);
}

/* inner is 1: a block for each piece of a result; threads take every REDUCE_THREADS-th element, then join in a tree.
 */
static __global__ void __launch_bounds__(REDUCE_THREADS)
    runs_kernel(const __grid_constant__ program p, const __grid_constant__ reduction r) {
  __shared__ double parts[REDUCE_THREADS];
  for (int64_t job = blockIdx.x; job < r.outer * r.pieces; job += gridDim.x) {
    int64_t outer = job / r.pieces, piece = job % r.pieces, first = piece * r.piece;
    int64_t end = first + r.piece < r.depth ? first + r.piece : r.depth;
    double sum = reduce_start(r.kind);
    for (int64_t k = first + threadIdx.x; k < end; k += REDUCE_THREADS)
      sum = reduce_join(r.kind, sum, element_of(p, outer * r.depth + k));
    parts[threadIdx.x] = sum;
    __syncthreads();
    for (int half = REDUCE_THREADS / 2; half > 0; half /= 2) {
      if ((int)threadIdx.x < half)
        parts[threadIdx.x] = reduce_join(r.kind, parts[threadIdx.x], parts[threadIdx.x + half]);
      __syncthreads();
    }
    if (threadIdx.x == 0) partial_put(r, outer, piece, 0, parts[0]);
    __syncthreads();
  }
}

/* A thread for each column of a piece: neighbours read neighbours, each thread its rows in order. */
static __global__ void __launch_bounds__(REDUCE_THREADS)
    rows_kernel(const __grid_constant__ program p, const __grid_constant__ reduction r) {
  int64_t stride = (int64_t)gridDim.x * REDUCE_THREADS, jobs = r.outer * r.pieces * r.inner;
  for (int64_t job = (int64_t)blockIdx.x * REDUCE_THREADS + threadIdx.x; job < jobs; job += stride) {
    int64_t inner = job % r.inner, piece = job / r.inner % r.pieces, outer = job / r.inner / r.pieces;
    int64_t first = piece * r.piece, end = first + r.piece < r.depth ? first + r.piece : r.depth;
    double sum = reduce_start(r.kind);
    for (int64_t k = first; k < end; k++)
      sum = reduce_join(r.kind, sum, element_of(p, (outer * r.depth + k) * r.inner + inner));
    partial_put(r, outer, piece, inner, sum);
  }
}

static __global__ void __launch_bounds__(REDUCE_THREADS) pieces_kernel(const __grid_constant__ reduction r) {
  int64_t stride = (int64_t)gridDim.x * REDUCE_THREADS;
  for (int64_t i = (int64_t)blockIdx.x * REDUCE_THREADS + threadIdx.x; i < r.outer * r.inner; i += stride) {
    int64_t outer = i / r.inner, inner = i % r.inner;
    double sum = reduce_start(r.kind);
    for (int64_t piece = 0; piece < r.pieces; piece++)
      sum = reduce_join(r.kind, sum, r.partial[(outer * r.pieces + piece) * r.inner + inner]);
    result_put(r, i, sum);
  }
}

static unsigned blocks_of(int64_t wanted) {
  const int64_t most = PROGRAM_BLOCKS;
  return (unsigned)(wanted < most ? wanted : most);
}

static hr_status reduce_run(const hr_call *call) {
  const hr_reduce_args *args = (const hr_reduce_args *)call->args;
  hr_desc space;
  hr_walk w;
  program p;
  program_space axes;
  hr__program_space(&args->program, call->in, &space);
  hr__walk_make(args, &space, &w);
  program_make(call, &args->program, &p);
  space_make(call, &args->program, space, w.order, &axes);
  program_lay(call, axes, 1, 1, &p);
  size_t kept = kept_bytes<element::all>(p.n_kept, REDUCE_THREADS);
  if (kept > KEPT_BYTES) return HR_UNSUPPORTED;
  reduction r = {args->reduction,
                 w.outer,
                 w.depth,
                 w.inner,
                 w.pieces,
                 w.piece,
                 w.pieces > 1 ? (double *)call->workspace : nullptr,
                 call->out[0].data,
                 call->out[0].desc.dtype};
  cudaStream_t stream = call_stream(call);
  if (w.inner == 1)
    runs_kernel<<<blocks_of(w.outer * w.pieces), REDUCE_THREADS, kept, stream>>>(p, r);
  else
    rows_kernel<<<blocks_of(divide_up(w.outer * w.pieces * w.inner, REDUCE_THREADS)), REDUCE_THREADS, kept, stream>>>(
        p, r);
  if (r.partial)
    pieces_kernel<<<blocks_of(divide_up(w.outer * w.inner, REDUCE_THREADS)), REDUCE_THREADS, 0, stream>>>(r);
  return launched();
}

extern "C" const hr_cuda_launcher hr_cuda_reduce = {
    {nullptr, nullptr, reduce_run},
    {(const void *)runs_kernel, (const void *)rows_kernel, (const void *)pieces_kernel}};
