/* reduce on CUDA: sums of pieces in a fixed order, then the sum of pieces. */
#include "op/pointwise.cuh"

enum {
  REDUCE_THREADS = 256,
  PIECES_ACROSS = 8,
  KEPT_BY_PACKS = 24 * 1024 /* bytes, at most: a block's sums of packs take 16 KiB of the 48 there are */
};

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

template <typename T> __device__ inline T reduce_join(hr_reduction kind, T a, T b) {
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
typedef holding<float, WIDE, 1, true, 2> neighbours; /* where inner is a multiple of their number */

/* Elements of the walked space from number * PACK on, as the program makes them. */
template <typename H> __device__ inline void elements_of(const program &p, int64_t number, typename H::all &x) {
  place<int64_t> at;
  place_find(p, number, &at);
  program_run<H>(p, at, x);
  if (p.result[0] != SOURCE_BEFORE) source_read<H>(p, p.result[0], at, x, x);
}

/* inner is 1: a block for each piece of a result; threads take every REDUCE_THREADS-th pack, of which the elements are
 * joined in f32, then join in a tree. */
template <typename H>
static __global__ void __launch_bounds__(REDUCE_THREADS, H::BLOCKS)
    runs_kernel(const __grid_constant__ program p, const __grid_constant__ reduction r) {
  constexpr int PACK = H::all::PACK;
  __shared__ double parts[REDUCE_THREADS];
  for (int64_t job = blockIdx.x; job < r.outer * r.pieces; job += gridDim.x) {
    int64_t outer = job / r.pieces, piece = job % r.pieces, first = piece * r.piece;
    int64_t end = first + r.piece < r.depth ? first + r.piece : r.depth;
    double sum = reduce_start(r.kind);
    for (int64_t k = first + threadIdx.x * PACK; k < end; k += REDUCE_THREADS * PACK) {
      typename H::all x;
      elements_of<H>(p, (outer * r.depth + k) / PACK, x);
      float joined = __uint_as_float(x.word[0]);
#pragma unroll
      for (int e = 1; e < PACK; e++)
        joined = reduce_join(r.kind, joined, __uint_as_float(x.word[e]));
      sum = reduce_join(r.kind, sum, (double)joined);
    }
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

/* A block for each piece of some columns: `across` packs of them side by side, which read neighbours, and lanes below
 * each other, which take every so many-th row. A lane sums HR_WALK_ROWS rows in f32 before they join its sum in f64,
 * then lanes join in a tree. */
template <typename H>
static __global__ void __launch_bounds__(REDUCE_THREADS, H::BLOCKS)
    rows_kernel(const __grid_constant__ program p, const __grid_constant__ reduction r, int across) {
  constexpr int PACK = H::all::PACK;
  __shared__ double parts[PACK][REDUCE_THREADS];
  int lanes = REDUCE_THREADS / across, lane = threadIdx.x / across, beside = threadIdx.x % across;
  int64_t packs = r.inner / PACK, tiles = (packs + across - 1) / across;
  for (int64_t job = blockIdx.x; job < r.outer * r.pieces * tiles; job += gridDim.x) {
    int64_t pack = job % tiles * across + beside, piece = job / tiles % r.pieces, outer = job / tiles / r.pieces;
    int64_t first = piece * r.piece, end = first + r.piece < r.depth ? first + r.piece : r.depth;
#pragma unroll
    for (int e = 0; e < PACK; e++)
      parts[e][threadIdx.x] = reduce_start(r.kind);
    for (int64_t k = first + lane; pack < packs && k < end;) {
      float rows[PACK];
#pragma unroll
      for (int e = 0; e < PACK; e++)
        rows[e] = (float)reduce_start(r.kind);
      for (int n = 0; n < HR_WALK_ROWS && k < end; n++, k += lanes) {
        typename H::all x;
        elements_of<H>(p, (outer * r.depth + k) * packs + pack, x);
#pragma unroll
        for (int e = 0; e < PACK; e++)
          rows[e] = reduce_join(r.kind, rows[e], __uint_as_float(x.word[e]));
      }
#pragma unroll
      for (int e = 0; e < PACK; e++)
        parts[e][threadIdx.x] = reduce_join(r.kind, parts[e][threadIdx.x], (double)rows[e]);
    }
    for (int half = lanes / 2; half > 0; half /= 2) {
      __syncthreads();
      if (lane < half)
#pragma unroll
        for (int e = 0; e < PACK; e++)
          parts[e][threadIdx.x] = reduce_join(r.kind, parts[e][threadIdx.x], parts[e][threadIdx.x + half * across]);
    }
    if (lane == 0 && pack < packs)
#pragma unroll
      for (int e = 0; e < PACK; e++)
        partial_put(r, outer, piece, pack * PACK + e, parts[e][threadIdx.x]);
    __syncthreads(); /* the next job writes parts again */
  }
}

/* Results of pieces: PIECES_ACROSS results side by side, lanes that take every so many-th piece, then a tree. */
static __global__ void __launch_bounds__(REDUCE_THREADS) pieces_kernel(const __grid_constant__ reduction r) {
  __shared__ double parts[REDUCE_THREADS];
  const int lanes = REDUCE_THREADS / PIECES_ACROSS;
  int lane = threadIdx.x / PIECES_ACROSS;
  for (int64_t job = blockIdx.x; job * PIECES_ACROSS < r.outer * r.inner; job += gridDim.x) {
    int64_t i = job * PIECES_ACROSS + threadIdx.x % PIECES_ACROSS, outer = i / r.inner, inner = i - outer * r.inner;
    double sum = reduce_start(r.kind);
    for (int64_t piece = lane; i < r.outer * r.inner && piece < r.pieces; piece += lanes)
      sum = reduce_join(r.kind, sum, r.partial[(outer * r.pieces + piece) * r.inner + inner]);
    parts[threadIdx.x] = sum;
    for (int half = lanes / 2; half > 0; half /= 2) {
      __syncthreads();
      if (lane < half)
        parts[threadIdx.x] = reduce_join(r.kind, parts[threadIdx.x], parts[threadIdx.x + half * PIECES_ACROSS]);
    }
    if (lane == 0 && i < r.outer * r.inner) result_put(r, i, parts[threadIdx.x]);
    __syncthreads();
  }
}

static unsigned blocks_of(int64_t wanted) {
  const int64_t most = PROGRAM_BLOCKS;
  return (unsigned)(wanted < most ? wanted : most);
}

/* Packs of a row that one block takes side by side: enough of them for whole lines of memory, and no more lanes than
 * there are rows. Of depth and inner alone, as sums are. */
static int across_of(const reduction &r, int pack) {
  int across = 1, wanted = pack > 1 ? 8 : 32;
  while (across < wanted && across < r.inner / pack)
    across *= 2;
  while (across < REDUCE_THREADS && REDUCE_THREADS / across > r.depth)
    across *= 2;
  return across;
}

template <typename H> static void rows_launch(const hr_call *call, const program &p, const reduction &r) {
  int pack = H::all::PACK, across = across_of(r, pack);
  int64_t jobs = r.outer * r.pieces * divide_up(r.inner / pack, across);
  size_t kept = kept_bytes<typename H::all>(p.n_kept, REDUCE_THREADS);
  launch(rows_kernel<H>, blocks_of(jobs), REDUCE_THREADS, kept, call_stream(call), p, r, across);
}

static hr_status reduce_run(const hr_call *call) {
  const hr_reduce_args *args = (const hr_reduce_args *)call->args;
  hr_desc space;
  hr_walk w;
  program p;
  program_space axes;
  hr__program_space(&args->program, call->in, &space);
  hr__walk_make_cuda(args, &space, &w);
  program_make(call, &args->program, &p);
  space_make(call, &args->program, space, w.order, &axes);
  bool runs = w.inner == 1, whole = runs ? w.depth % WIDE == 0 && w.piece % WIDE == 0 : w.inner % WIDE == 0;
  bool packs =
      whole && axes.size[0] % WIDE == 0 && kept_bytes<neighbours::all>(p.n_kept, REDUCE_THREADS) <= KEPT_BY_PACKS;
  program_lay(call, axes, packs ? (int)WIDE : 1, 1, &p);
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
  if (runs && packs)
    launch(runs_kernel<neighbours>, blocks_of(w.outer * w.pieces), REDUCE_THREADS,
           kept_bytes<neighbours::all>(p.n_kept, REDUCE_THREADS), stream, p, r);
  else if (runs)
    launch(runs_kernel<element>, blocks_of(w.outer * w.pieces), REDUCE_THREADS, kept, stream, p, r);
  else if (packs)
    rows_launch<neighbours>(call, p, r);
  else
    rows_launch<element>(call, p, r);
  if (r.partial)
    launch(pieces_kernel, blocks_of(divide_up(w.outer * w.inner, PIECES_ACROSS)), REDUCE_THREADS, 0, stream, r);
  return launched();
}

extern "C" const hr_cuda_launcher hr_cuda_reduce = {
    {nullptr, nullptr, reduce_run},
    {(const void *)runs_kernel<element>, (const void *)runs_kernel<neighbours>, (const void *)rows_kernel<element>,
     (const void *)rows_kernel<neighbours>, (const void *)pieces_kernel}};
