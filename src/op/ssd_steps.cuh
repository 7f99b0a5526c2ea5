/* What the scan does position by position: step sizes and their sums, and from all terms the gradients of steps. */
#ifndef HR_OP_SSD_STEPS_CUH
#define HR_OP_SSD_STEPS_CUH

#include "dev/cuda/sum.cuh"
#include "op/ssd_operands.cuh"

enum { STEP_THREADS = HR_SSD_CHUNK_MOST, PARAMETERS = 3 };
static_assert((int)STEP_THREADS == (int)SUM_THREADS, "sums over a chunk are sums over a block");

template <typename T> struct steps_operands {
  hr_ssd_sizes size;
  hr_ssd_args args;
  const T *steps;
  const float *a_log, *bias; /* of each head */
  const int *starts;         /* [sequences, L]: where documents begin; NULL: a sequence is one */
  float *d, *sums, *sums_low;
};

template <typename T> __device__ inline step_made step_of(const steps_operands<T> &o, int64_t row, int head) {
  return step_of_raw(to_float(o.steps[row * o.size.steps + o.args.step_first + head]) + o.bias[head], o.args);
}

/* The sum of `value` over the threads up to this one, or with BACK from this one on. */
template <bool BACK> __device__ inline double scan(double value) {
  __shared__ double totals[STEP_THREADS / 32];
  int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
  for (int distance = 1; distance < 32; distance *= 2) {
    double more = BACK ? __shfl_down_sync(~0u, value, distance) : __shfl_up_sync(~0u, value, distance);
    if (BACK ? lane + distance < 32 : lane >= distance) value += more;
  }
  __syncthreads();
  if (lane == (BACK ? 0 : 31)) totals[warp] = value;
  __syncthreads();
  double others = 0.0;
  for (int w = 0; w < STEP_THREADS / 32; w++)
    if (BACK ? w > warp : w < warp) others += totals[w];
  return value + others;
}

/* Where a document begins, d A is less by so much: exp of a sum over a border is 0 then, in f32, and neither state nor
 * position of one document reaches the next. All that comes behind goes by the sums and knows nothing of documents. The
 * sums become as large as 128 times the borders of a chunk, of which f32 and what it is short of hold as much as of
 * small ones; kernels of 16-bit types, which read f32 alone, have exponents to about 2^-13 where a chunk has 8 borders.
 */
static const double FORGOTTEN = 128.0;

/* A block: one chunk of one head, a thread for each position. Sums reach hundreds, of which differences are wanted to
 * the last bit of f32: so they are made in f64, and what f32 cannot hold of them is kept as well. */
template <typename T> static __global__ void __launch_bounds__(STEP_THREADS) ssd_steps_kernel(steps_operands<T> o) {
  int64_t sequence = blockIdx.y / o.size.heads, at = blockIdx.x * o.size.chunk + threadIdx.x;
  int head = (int)(blockIdx.y % o.size.heads);
  bool there = threadIdx.x < o.size.chunk && at < o.size.length;
  float d = there ? step_of(o, sequence * o.size.length + at, head).size : 0.0f;
  double decay = (double)-expf(o.a_log[head]) * (double)d;
  if (o.starts && there && o.starts[sequence * o.size.length + at] == at) decay -= FORGOTTEN;
  double sum = scan<false>(decay);
  if (!there) return;
  int64_t to = blockIdx.y * o.size.length + at;
  o.d[to] = d;
  o.sums[to] = (float)sum;
  o.sums_low[to] = (float)(sum - (double)(float)sum);
}

/* Of one chunk and head: gradients of its steps, and sums for A_log, bias and D, [3]. That of A_log is the sum of all
 * that is multiplied by exp(a_i - a_j), times a_i - a_j: sums of da over the positions behind would have it as small
 * differences of large numbers. `products`: of states and their
 * gradients, `parts` for each chunk and head. */
template <typename T>
static __global__ void __launch_bounds__(STEP_THREADS)
    ssd_finish_kernel(ssd_operands<T> o, steps_operands<T> s, const float *products, int parts, const T *partial,
                      T *dsteps, float *sums) {
  __shared__ float ended;
  int64_t sequence = blockIdx.y / o.size.heads, chunk = blockIdx.x, first = chunk * o.size.chunk;
  int64_t lines = o.size.sequences * o.size.heads * o.size.length;
  int head = (int)(blockIdx.y % o.size.heads);
  int count = (int)min(o.size.chunk, o.size.length - first), thread = (int)threadIdx.x;
  int64_t line = blockIdx.y * o.size.length + first, at = line + thread;
  bool there = thread < count;
  const float *of_chunk = products + ((sequence * o.size.chunks + chunk) * o.size.heads + head) * parts;
  float end = o.decays[line + count - 1], d = 0.0f, direct = 0.0f, ends = 0.0f;
  double da = 0.0, slope = 0.0; /* of terms that nearly cancel */
  if (there) {
    int own = thread / o.tile, tiles = (count + o.tile - 1) / o.tile;
    double rows = 0.0, columns = 0.0;
    float q = o.terms.q[at];
    for (int part = 0; part <= own; part++) {
      rows += (double)o.terms.rows[part * lines + at];
      slope += (double)o.terms.spread[part * lines + at];
    }
    for (int part = own; part < tiles; part++)
      columns += (double)o.terms.columns[part * lines + at];
    float above = (end - o.decays[at]) + (o.decays_low[line + count - 1] - o.decays_low[at]), left = expf(above);
    d = o.steps[at];
    direct = (float)columns + o.terms.diagonal[at] + left * q;
    ends = thread + 1 < count ? left * d * q : 0.0f;
    da = rows - columns * (double)d + (double)o.terms.through[at] - (double)ends;
    slope += (double)o.terms.through[at] * (double)o.decays[at] + (double)ends * (double)above;
  }
  double product = 0.0;
  for (int i = thread; i < parts; i += STEP_THREADS)
    product += (double)of_chunk[i];
  product = block_sum(product);
  __syncthreads();
  double all_ends = block_sum((double)ends);
  __syncthreads();
  double skipped = block_sum(there ? (double)o.terms.own[at] : 0.0);
  if (thread == 0) {
    product *= (double)expf(end);
    ended = (float)(product + all_ends);
    sums[(blockIdx.x * (int64_t)gridDim.y + blockIdx.y) * PARAMETERS + 2] = (float)skipped;
  }
  __syncthreads();
  if (thread == count - 1) da += (double)ended;
  double later = scan<true>(da);
  float decay = -expf(s.a_log[head]), step = 0.0f;
  if (there) {
    int64_t row = sequence * o.size.length + first + thread;
    int64_t to = row * o.size.steps + s.args.step_first + head;
    step = (direct + (float)later * decay) * step_of(s, row, head).slope;
    dsteps[to] = from_float<T>(step + (partial ? to_float(partial[to]) : 0.0f));
  }
  double slopes = block_sum(slope);
  __syncthreads();
  double biases = block_sum((double)step);
  if (thread == 0) {
    sums[(blockIdx.x * (int64_t)gridDim.y + blockIdx.y) * PARAMETERS] = (float)(slopes + product * (double)end);
    sums[(blockIdx.x * (int64_t)gridDim.y + blockIdx.y) * PARAMETERS + 1] = (float)biases;
  }
}

/* The same of all chunks and sequences. A block: one number of one head. */
static __global__ void __launch_bounds__(SUM_THREADS)
    ssd_heads_kernel(hr_ssd_sizes size, const float *sums, float *to) {
  int head = (int)blockIdx.x, parameter = (int)blockIdx.y;
  int64_t all = size.chunks * size.sequences;
  double sum = 0.0;
  for (int64_t i = threadIdx.x; i < all; i += SUM_THREADS) {
    int64_t chunk = i / size.sequences, sequence = i % size.sequences;
    sum += (double)sums[((chunk * size.sequences + sequence) * size.heads + head) * PARAMETERS + parameter];
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) to[parameter * size.heads + head] = (float)sum;
}

/* ---- parameters of heads as f32 ---- */

struct heads_operands {
  const void *from[PARAMETERS];
  int dtype[PARAMETERS];
  int heads;
  float *to; /* [3, H] */
};
static __global__ void ssd_parameters_kernel(heads_operands o) {
  for (int i = (int)threadIdx.x; i < PARAMETERS * o.heads; i += (int)blockDim.x) {
    int which = i / o.heads, head = i % o.heads;
    o.to[i] = element_at(o.from[which], o.dtype[which], head);
  }
}

#endif
