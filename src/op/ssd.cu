/* The scan on a GPU; formulas are in ssd.h and ssd_kernel_bwd.c, here with a chunk in place of the CPU's tile.
 *
 * Forward: step sizes and their sums; what each chunk adds to the state; a pass over chunks, which leaves the state
 * before each; y, tile by tile. Backward: what each chunk adds to the gradient of the state; a pass from the last chunk
 * to the first; dx and dB of each tile from the tiles behind it in its chunk; dC from those before it; gradients of
 * steps, which need all of that. Blocks own what they write, so that sums have one order.
 */
#include "dev/cuda/sum.cuh"
#include "op/ssd_tile.cuh"
#include "op/window.cuh"

enum { STEP_THREADS = HR_SSD_CHUNK_MOST, PASS_THREADS = 256, PARAMETERS = 3, SHARED_MOST = 99 << 10 };
static_assert((int)STEP_THREADS == (int)SUM_THREADS, "sums over a chunk are sums over a block");

/* ---- step sizes ---- */

template <typename T> struct steps_operands {
  hr_ssd_sizes size;
  hr_ssd_args args;
  const T *steps;
  const float *a_log, *bias; /* of each head */
  float *d, *sums;
};

struct step_made {
  float size, slope;
};
template <typename T> __device__ inline step_made step_of(const steps_operands<T> &o, int64_t row, int head) {
  float raw = to_float(o.steps[row * o.size.steps + o.args.step_first + head]) + o.bias[head];
  float e = expf(-fabsf(raw)), step = fmaxf(raw, 0.0f) + log1pf(e);
  bool held = step < o.args.step_least || step > o.args.step_most;
  return {fminf(fmaxf(step, o.args.step_least), o.args.step_most), held ? 0.0f : (raw < 0.0f ? e : 1.0f) / (1.0f + e)};
}

/* The sum of `value` over the threads up to this one, or with BACK from this one on. */
template <bool BACK> __device__ inline float scan(float value) {
  __shared__ float line[STEP_THREADS];
  int i = (int)threadIdx.x;
  __syncthreads();
  line[i] = value;
  for (int distance = 1; distance < STEP_THREADS; distance *= 2) {
    __syncthreads();
    int from = BACK ? i + distance : i - distance;
    float more = from >= 0 && from < STEP_THREADS ? line[from] : 0.0f;
    __syncthreads();
    line[i] += more;
  }
  return line[i];
}

/* A block: one chunk of one head, a thread for each position. */
template <typename T> static __global__ void __launch_bounds__(STEP_THREADS) ssd_steps_kernel(steps_operands<T> o) {
  int64_t sequence = blockIdx.y / o.size.heads, at = blockIdx.x * o.size.chunk + threadIdx.x;
  int head = (int)(blockIdx.y % o.size.heads);
  bool there = threadIdx.x < o.size.chunk && at < o.size.length;
  float d = there ? step_of(o, sequence * o.size.length + at, head).size : 0.0f;
  float sum = scan<false>(-expf(o.a_log[head]) * d);
  if (!there) return;
  int64_t to = blockIdx.y * o.size.length + at;
  o.d[to] = d;
  o.sums[to] = sum;
}

/* ---- states ---- */

/* Of one chunk and head, [N, P]: sum of B x^T d exp(a_n - a), or with BACK of C dy^T exp(a). Pieces of `tile` positions
 * are added to what is there. */
template <typename T, typename S, bool BACK>
static __global__ void __launch_bounds__(TILE_THREADS) ssd_sums_kernel(ssd_operands<T> o) {
  S *left = launch_shared<S>(), *right = left + o.tile * tile_pitch<S>(tile_padded(o.size.state));
  int64_t chunk = blockIdx.x, sequence = blockIdx.y / o.size.heads, head = blockIdx.y % o.size.heads;
  int64_t group = head / (o.size.heads / o.size.groups);
  int state = (int)o.size.state, dim = (int)o.size.dim;
  float *to =
      (BACK ? o.slopes : o.states) + ((sequence * o.size.chunks + chunk) * o.size.heads + head) * o.size.state_floats;
  const float *d = o.steps + blockIdx.y * o.size.length, *a = o.decays + blockIdx.y * o.size.length;
  for (int number = 0; number < o.tiles; number++) {
    tile_place p = tile_at(o, sequence, chunk, number);
    if (p.count <= 0) break;
    int64_t row = sequence * o.size.length + p.first;
    const T *b = o.mixed + row * o.size.mixed + (BACK ? o.size.c_first : o.size.b_first) + group * o.size.state;
    const T *x = BACK ? o.dy + row * o.size.y + head * o.size.dim : o.mixed + row * o.size.mixed + head * o.size.dim;
    float end = a[p.chunk_end - 1];
    __syncthreads();
    tile_load(left, b, o.size.mixed, p.count, o.tile, state,
              [&](int i) { return BACK ? expf(a[p.first + i]) : expf(end - a[p.first + i]) * d[p.first + i]; });
    tile_copy(right, x, BACK ? o.size.y : o.size.mixed, p.count, o.tile, dim);
    __syncthreads();
    tile_product<true, false>(tile_padded(state), tile_padded(dim), o.tile, left, right, [&](int n, int c, float sum) {
      if (n < state && c < dim) to[n * dim + c] = number > 0 ? to[n * dim + c] + sum : sum;
    });
  }
}

/* What chunks add becomes the state before each, or the gradient of that behind each. */
template <bool BACK>
static __global__ void __launch_bounds__(PASS_THREADS)
    ssd_pass_kernel(hr_ssd_sizes size, const float *decays, float *states) {
  int64_t element = blockIdx.x * (int64_t)PASS_THREADS + threadIdx.x;
  int64_t sequence = blockIdx.y / size.heads, head = blockIdx.y % size.heads;
  if (element >= size.state_floats) return;
  float carried = 0.0f;
  for (int64_t i = 0; i < size.chunks; i++) {
    int64_t chunk = BACK ? size.chunks - 1 - i : i, last = min(size.length, (chunk + 1) * size.chunk) - 1;
    float *at = states + ((sequence * size.chunks + chunk) * size.heads + head) * size.state_floats + element;
    float added = *at;
    *at = carried;
    carried = expf(decays[blockIdx.y * size.length + last]) * carried + added;
  }
}

/* ---- forward ---- */

/* A block: one tile of one head. */
template <typename T, typename S>
static __global__ void __launch_bounds__(TILE_THREADS) ssd_rows_kernel(ssd_operands<T> o) {
  unsigned char *shared = launch_shared<unsigned char>();
  tile_rooms<S> r = tile_rooms_of<S>(o.size, o.tile, false);
  S *c = (S *)(shared + r.own_n), *b = (S *)(shared + r.other_n), *x = (S *)(shared + r.other_p);
  S *weights = (S *)(shared + r.weights), *state = (S *)(shared + r.block);
  float *sums = (float *)(shared + r.sum_p), *a_i = (float *)(shared + r.lines), *a_j = a_i + o.tile,
        *d_j = a_j + o.tile;
  int64_t sequence = blockIdx.y / o.size.heads, head = blockIdx.y % o.size.heads;
  int64_t group = head / (o.size.heads / o.size.groups), line = blockIdx.y * o.size.length;
  tile_place own = tile_at(o, sequence, blockIdx.x / o.tiles, (int)(blockIdx.x % o.tiles));
  if (own.count <= 0) return;
  int tile = o.tile, dim = (int)o.size.dim;
  int64_t row = sequence * o.size.length + own.first, column = o.size.c_first + group * o.size.state;
  tile_copy(c, o.mixed + row * o.size.mixed + column, o.size.mixed, own.count, tile, (int)o.size.state);
  line_load(a_i, o.decays + line + own.first, own.count, tile);
  for (int i = (int)threadIdx.x; i < tile * r.sum_p_pitch; i += TILE_THREADS)
    sums[i] = 0.0f;
  for (int number = 0; number <= own.number; number++) {
    tile_place p = tile_at(o, sequence, own.chunk, number);
    const T *from = o.mixed + (sequence * o.size.length + p.first) * o.size.mixed;
    __syncthreads();
    tile_copy(b, from + o.size.b_first + group * o.size.state, o.size.mixed, p.count, tile, (int)o.size.state);
    tile_copy(x, from + head * o.size.dim, o.size.mixed, p.count, tile, dim);
    line_load(a_j, o.decays + line + p.first, p.count, tile);
    line_load(d_j, o.steps + line + p.first, p.count, tile);
    __syncthreads();
    tile_product<false, true>(tile, tile, r.state, c, b, [&](int i, int j, float sum) {
      bool sees = i < own.count && p.first + j <= own.first + i;
      weights[i * tile_pitch<S>(tile) + j] = from_float<S>(sees ? sum * expf(a_i[i] - a_j[j]) * d_j[j] : 0.0f);
    });
    __syncthreads();
    tile_product<false, false>(tile, r.dim, tile, weights, x,
                               [&](int i, int j, float sum) { sums[i * r.sum_p_pitch + j] += sum; });
  }
  __syncthreads();
  const float *before = o.states + ((sequence * o.size.chunks + own.chunk) * o.size.heads + head) * o.size.state_floats;
  tile_copy(state, before, dim, (int)o.size.state, r.state, dim);
  __syncthreads();
  const T *own_x = o.mixed + row * o.size.mixed + head * o.size.dim;
  T *y = o.y + row * o.size.y + head * o.size.dim;
  float skip = o.skip[head];
  tile_product<false, false>(tile, r.dim, r.state, c, state, [&](int i, int j, float sum) {
    if (i >= own.count || j >= dim) return;
    float more = skip * to_float(own_x[i * o.size.mixed + j]) + expf(a_i[i]) * sum;
    y[i * o.size.y + j] = from_float<T>(sums[i * r.sum_p_pitch + j] + more);
  });
}

/* ---- backward ---- */

/* dx and dB of one tile, and what it gives to gradients of steps. A block goes through the heads of a group. */
template <typename T, typename S>
static __global__ void __launch_bounds__(TILE_THREADS) ssd_columns_kernel(ssd_operands<T> o) {
  unsigned char *shared = launch_shared<unsigned char>();
  tile_rooms<S> r = tile_rooms_of<S>(o.size, o.tile, true);
  S *b = (S *)(shared + r.own_n), *x = (S *)(shared + r.own_p), *c = (S *)(shared + r.other_n);
  S *dy = (S *)(shared + r.other_p), *weights = (S *)(shared + r.weights), *slopes = (S *)(shared + r.slopes);
  S *state = (S *)(shared + r.block);
  float *db = (float *)(shared + r.sum_n), *dx = (float *)(shared + r.sum_p), *scratch = (float *)(shared + r.scratch);
  float *a_j = (float *)(shared + r.lines), *d_j = a_j + o.tile, *a_i = d_j + o.tile;
  int64_t members = o.size.heads / o.size.groups, sequence = blockIdx.y / o.size.groups,
          group = blockIdx.y % o.size.groups;
  tile_place own = tile_at(o, sequence, blockIdx.x / o.tiles, (int)(blockIdx.x % o.tiles));
  if (own.count <= 0) return;
  int tile = o.tile, dim = (int)o.size.dim, thread = (int)threadIdx.x, states = (int)o.size.state;
  int64_t row = sequence * o.size.length + own.first;
  const T *mixed = o.mixed + row * o.size.mixed;
  T *dmixed = o.dmixed + row * o.size.mixed;
  tile_copy(b, mixed + o.size.b_first + group * o.size.state, o.size.mixed, own.count, tile, states);
  for (int i = thread; i < tile * r.sum_n_pitch; i += TILE_THREADS)
    db[i] = 0.0f;
  for (int64_t head = group * members; head < (group + 1) * members; head++) {
    int64_t line = (sequence * o.size.heads + head) * o.size.length, at = line + own.first;
    float columns = 0.0f, direct = 0.0f, diagonal = 0.0f; /* of row `thread` */
    __syncthreads();
    tile_copy(x, mixed + head * o.size.dim, o.size.mixed, own.count, tile, dim);
    line_load(a_j, o.decays + at, own.count, tile);
    line_load(d_j, o.steps + at, own.count, tile);
    for (int i = thread; i < tile * r.sum_p_pitch; i += TILE_THREADS)
      dx[i] = 0.0f;
    for (int number = own.number; number < o.tiles; number++) {
      tile_place p = tile_at(o, sequence, own.chunk, number);
      if (p.count <= 0) break;
      int64_t from = sequence * o.size.length + p.first;
      __syncthreads();
      tile_copy(c, o.mixed + from * o.size.mixed + o.size.c_first + group * o.size.state, o.size.mixed, p.count, tile,
                states);
      tile_copy(dy, o.dy + from * o.size.y + head * o.size.dim, o.size.y, p.count, tile, dim);
      line_load(a_i, o.decays + line + p.first, p.count, tile);
      __syncthreads();
      tile_product<false, true>(tile, tile, r.state, b, c,
                                [&](int j, int i, float sum) { scratch[j * r.scratch_pitch + i] = sum; });
      tile_product<false, true>(tile, tile, r.dim, x, dy, [&](int j, int i, float sum) {
        bool seen = i < p.count && j < own.count && own.first + j <= p.first + i;
        float score = scratch[j * r.scratch_pitch + i], decay = seen ? expf(a_i[i] - a_j[j]) : 0.0f;
        weights[j * tile_pitch<S>(tile) + i] = from_float<S>(score * decay * d_j[j]);
        slopes[j * tile_pitch<S>(tile) + i] = from_float<S>(sum * decay * d_j[j]);
        scratch[j * r.scratch_pitch + i] = seen ? score * decay * sum : 0.0f;
        if (seen && own.first + j == p.first + i) o.own[at + j] = sum;
      });
      __syncthreads();
      if (thread < tile)
        for (int i = 0; i < tile; i++) {
          float one = scratch[thread * r.scratch_pitch + i];
          if (own.first + thread == p.first + i)
            diagonal = one;
          else
            direct += one;
        }
      tile_product<false, false>(tile, r.dim, tile, weights, dy,
                                 [&](int j, int e, float sum) { dx[j * r.sum_p_pitch + e] += sum; });
      tile_product<false, false>(tile, r.state, tile, slopes, c,
                                 [&](int j, int e, float sum) { db[j * r.sum_n_pitch + e] += sum; });
    }
    const float *behind =
        o.slopes + ((sequence * o.size.chunks + own.chunk) * o.size.heads + head) * o.size.state_floats;
    float end = o.decays[line + own.chunk_end - 1], skip = o.skip[head];
    __syncthreads();
    tile_copy(state, behind, dim, states, r.state, dim);
    __syncthreads();
    const T *own_dy = o.dy + row * o.size.y + head * o.size.dim;
    tile_product<false, false>(tile, r.dim, r.state, b, state, [&](int j, int e, float sum) {
      bool there = j < own.count && e < dim;
      float own_x = there ? to_float(mixed[j * o.size.mixed + head * o.size.dim + e]) : 0.0f;
      scratch[j * r.scratch_pitch + e] = own_x * sum;
      if (!there) return;
      float total =
          dx[j * r.sum_p_pitch + e] + expf(end - a_j[j]) * d_j[j] * sum + skip * to_float(own_dy[j * o.size.y + e]);
      dmixed[j * o.size.mixed + head * o.size.dim + e] = from_float<T>(total);
    });
    tile_product<false, true>(tile, r.state, r.dim, x, state, [&](int j, int e, float sum) {
      db[j * r.sum_n_pitch + e] += j < own.count ? expf(end - a_j[j]) * d_j[j] * sum : 0.0f;
    });
    __syncthreads();
    if (thread < own.count) {
      float q = 0.0f, left = expf(end - a_j[thread]);
      for (int e = 0; e < dim; e++)
        q += scratch[thread * r.scratch_pitch + e];
      columns = direct * d_j[thread];
      o.columns[at + thread] = columns;
      o.direct[at + thread] = direct + diagonal + left * q;
      o.ends[at + thread] = own.first + thread + 1 < own.chunk_end ? left * d_j[thread] * q : 0.0f;
    }
  }
  __syncthreads();
  for (int i = thread; i < own.count * states; i += TILE_THREADS)
    dmixed[i / states * o.size.mixed + o.size.b_first + group * o.size.state + i % states] =
        from_float<T>(db[i / states * r.sum_n_pitch + i % states]);
}

/* dC of one tile, and the other half of what it gives to gradients of steps. */
template <typename T, typename S>
static __global__ void __launch_bounds__(TILE_THREADS) ssd_rows_bwd_kernel(ssd_operands<T> o) {
  unsigned char *shared = launch_shared<unsigned char>();
  tile_rooms<S> r = tile_rooms_of<S>(o.size, o.tile, true);
  S *c = (S *)(shared + r.own_n), *dy = (S *)(shared + r.own_p), *b = (S *)(shared + r.other_n);
  S *x = (S *)(shared + r.other_p), *slopes = (S *)(shared + r.slopes), *state = (S *)(shared + r.block);
  float *dc = (float *)(shared + r.sum_n), *scratch = (float *)(shared + r.scratch);
  float *a_i = (float *)(shared + r.lines), *d_j = a_i + o.tile, *a_j = d_j + o.tile;
  int64_t members = o.size.heads / o.size.groups, sequence = blockIdx.y / o.size.groups,
          group = blockIdx.y % o.size.groups;
  tile_place own = tile_at(o, sequence, blockIdx.x / o.tiles, (int)(blockIdx.x % o.tiles));
  if (own.count <= 0) return;
  int tile = o.tile, dim = (int)o.size.dim, thread = (int)threadIdx.x, states = (int)o.size.state;
  int64_t row = sequence * o.size.length + own.first, column = o.size.c_first + group * o.size.state;
  const T *own_c = o.mixed + row * o.size.mixed + column;
  tile_copy(c, own_c, o.size.mixed, own.count, tile, states);
  for (int i = thread; i < tile * r.sum_n_pitch; i += TILE_THREADS)
    dc[i] = 0.0f;
  for (int64_t head = group * members; head < (group + 1) * members; head++) {
    int64_t line = (sequence * o.size.heads + head) * o.size.length, at = line + own.first;
    float rows = 0.0f; /* of row `thread` */
    __syncthreads();
    tile_copy(dy, o.dy + row * o.size.y + head * o.size.dim, o.size.y, own.count, tile, dim);
    line_load(a_i, o.decays + at, own.count, tile);
    for (int number = 0; number <= own.number; number++) {
      tile_place p = tile_at(o, sequence, own.chunk, number);
      const T *from = o.mixed + (sequence * o.size.length + p.first) * o.size.mixed;
      __syncthreads();
      tile_copy(b, from + o.size.b_first + group * o.size.state, o.size.mixed, p.count, tile, states);
      tile_copy(x, from + head * o.size.dim, o.size.mixed, p.count, tile, dim);
      line_load(a_j, o.decays + line + p.first, p.count, tile);
      line_load(d_j, o.steps + line + p.first, p.count, tile);
      __syncthreads();
      tile_product<false, true>(tile, tile, r.state, c, b,
                                [&](int i, int j, float sum) { scratch[i * r.scratch_pitch + j] = sum; });
      tile_product<false, true>(tile, tile, r.dim, dy, x, [&](int i, int j, float sum) {
        bool sees = i < own.count && p.first + j <= own.first + i;
        float slope = sees ? sum * expf(a_i[i] - a_j[j]) * d_j[j] : 0.0f;
        slopes[i * tile_pitch<S>(tile) + j] = from_float<S>(slope);
        scratch[i * r.scratch_pitch + j] =
            sees && p.first + j < own.first + i ? scratch[i * r.scratch_pitch + j] * slope : 0.0f;
      });
      __syncthreads();
      if (thread < tile)
        for (int j = 0; j < tile; j++)
          rows += scratch[thread * r.scratch_pitch + j];
      tile_product<false, false>(tile, r.state, tile, slopes, b,
                                 [&](int i, int e, float sum) { dc[i * r.sum_n_pitch + e] += sum; });
    }
    const float *before =
        o.states + ((sequence * o.size.chunks + own.chunk) * o.size.heads + head) * o.size.state_floats;
    __syncthreads();
    tile_copy(state, before, dim, states, r.state, dim);
    __syncthreads();
    tile_product<false, true>(tile, r.state, r.dim, dy, state, [&](int i, int e, float sum) {
      bool there = i < own.count && e < states;
      float through = there ? expf(a_i[i]) * sum : 0.0f;
      dc[i * r.sum_n_pitch + e] += through;
      scratch[i * r.scratch_pitch + e] = there ? to_float(own_c[i * o.size.mixed + e]) * through : 0.0f;
    });
    __syncthreads();
    if (thread < own.count) {
      for (int e = 0; e < states; e++)
        rows += scratch[thread * r.scratch_pitch + e];
      o.rows[at + thread] = rows;
    }
  }
  __syncthreads();
  T *to = o.dmixed + row * o.size.mixed + column;
  for (int i = thread; i < own.count * states; i += TILE_THREADS)
    to[i / states * o.size.mixed + i % states] = from_float<T>(dc[i / states * r.sum_n_pitch + i % states]);
}

/* Of one chunk and head: gradients of its steps, and sums for A_log, bias and D, [3]. */
template <typename T>
static __global__ void __launch_bounds__(STEP_THREADS)
    ssd_finish_kernel(ssd_operands<T> o, steps_operands<T> s, const T *partial, T *dsteps, float *sums) {
  __shared__ float ended;
  int64_t sequence = blockIdx.y / o.size.heads, chunk = blockIdx.x, first = chunk * o.size.chunk;
  int head = (int)(blockIdx.y % o.size.heads);
  int64_t count = min(o.size.chunk, o.size.length - first), at = blockIdx.y * o.size.length + first + threadIdx.x;
  bool there = threadIdx.x < count;
  int64_t state = ((sequence * o.size.chunks + chunk) * o.size.heads + head) * o.size.state_floats;
  double product = 0.0;
  for (int64_t e = threadIdx.x; e < o.size.state_floats; e += STEP_THREADS)
    product += (double)o.states[state + e] * (double)o.slopes[state + e];
  product = block_sum(product);
  __syncthreads();
  double ends = block_sum(there ? (double)o.ends[at] : 0.0);
  __syncthreads();
  double skipped = block_sum(there ? (double)o.own[at] : 0.0);
  if (threadIdx.x == 0) {
    float whole = expf(o.decays[blockIdx.y * o.size.length + first + count - 1]);
    ended = (float)((double)whole * product + ends);
    sums[(blockIdx.x * (int64_t)gridDim.y + blockIdx.y) * PARAMETERS + 2] = (float)skipped;
  }
  __syncthreads();
  float da = there ? o.rows[at] - o.columns[at] - o.ends[at] : 0.0f;
  if (threadIdx.x == count - 1) da += ended;
  float later = scan<true>(da), decay = -expf(s.a_log[head]), step = 0.0f;
  if (there) {
    int64_t row = sequence * o.size.length + first + threadIdx.x;
    int64_t to = row * o.size.steps + s.args.step_first + head;
    step = (o.direct[at] + later * decay) * step_of(s, row, head).slope;
    dsteps[to] = from_float<T>(step + (partial ? to_float(partial[to]) : 0.0f));
  }
  double decays = block_sum(there ? (double)later * (double)o.steps[at] : 0.0);
  __syncthreads();
  double biases = block_sum((double)step);
  if (threadIdx.x == 0) {
    sums[(blockIdx.x * (int64_t)gridDim.y + blockIdx.y) * PARAMETERS] = (float)decays * decay;
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
    const void *from = o.from[which];
    o.to[i] = o.dtype[which] == HR_BF16  ? to_float(((const bf16 *)from)[head])
              : o.dtype[which] == HR_F16 ? to_float(((const f16 *)from)[head])
                                         : ((const float *)from)[head];
  }
}

/* ---- launching ---- */

/* The workspace: parameters, d and sums of d A; for backward gradients of states, five terms of each position and head,
 * and three sums of each chunk. */
struct ssd_work {
  float *parameters, *d, *sums, *slopes, *terms[5], *partials;
};
static ssd_work work_of(const hr_call *call, const hr_ssd_sizes &s) {
  ssd_work w = {};
  int64_t lines = s.sequences * s.heads * s.length;
  w.parameters = (float *)call->workspace;
  w.d = w.parameters + hr__ssd_parameter_floats(&s);
  w.sums = w.d + lines;
  for (int i = 0; i < 5; i++)
    w.terms[i] = w.sums + (i + 1) * lines;
  w.partials = w.sums + 6 * lines;
  w.slopes = w.partials + s.sequences * s.chunks * s.heads * PARAMETERS;
  return w;
}

/* The most positions of a tile that fit; 0: not even 16. */
template <typename S> static int tile_of(const hr_ssd_sizes &s, bool backward) {
  for (int tile = 64; tile >= 16; tile /= 2)
    if (tile_rooms_of<S>(s, tile, backward).bytes <= SHARED_MOST) return tile;
  return 0;
}
template <typename S> static size_t sums_bytes(const hr_ssd_sizes &s, int tile) {
  return (size_t)tile * (size_t)(tile_pitch<S>(tile_padded(s.state)) + tile_pitch<S>(tile_padded(s.dim))) * sizeof(S);
}
/* The same where only sums are made: larger ones go through memory less often. */
template <typename S> static int sums_tile_of(const hr_ssd_sizes &s) {
  int tile = HR_SSD_CHUNK_MOST;
  while (tile > TILE_EDGE && (tile / 2 >= s.chunk || sums_bytes<S>(s, tile) > SHARED_MOST))
    tile /= 2;
  return tile;
}

template <typename T> static void tile_take(ssd_operands<T> &o, int tile) {
  o.tile = tile;
  o.tiles = (int)divide_up(o.size.chunk, tile);
}

template <typename T>
static ssd_operands<T> operands_of(const hr_call *call, int first, const hr_ssd_sizes &s, const ssd_work &w, int tile) {
  ssd_operands<T> o = {};
  o.size = s;
  tile_take(o, tile);
  o.mixed = (const T *)call->in[first + HR_SSD_MIXED].data;
  o.steps = w.d;
  o.decays = w.sums;
  o.skip = w.parameters + 2 * s.heads;
  return o;
}

template <typename T>
static steps_operands<T> steps_run(const hr_call *call, int first, const hr_ssd_sizes &s, const ssd_work &w) {
  heads_operands h = {};
  for (int i = 0; i < PARAMETERS; i++) {
    h.from[i] = call->in[first + HR_SSD_A_LOG + i].data;
    h.dtype[i] = (int)call->in[first + HR_SSD_A_LOG + i].desc.dtype;
  }
  h.heads = (int)s.heads;
  h.to = w.parameters;
  launch(ssd_parameters_kernel, 1, 128, 0, call_stream(call), h);
  steps_operands<T> o = {};
  o.size = s;
  o.args = *(const hr_ssd_args *)call->args;
  o.steps = (const T *)call->in[first + HR_SSD_STEPS].data;
  o.a_log = w.parameters;
  o.bias = w.parameters + s.heads;
  o.d = w.d;
  o.sums = w.sums;
  launch(ssd_steps_kernel<T>, dim3((unsigned)s.chunks, (unsigned)(s.sequences * s.heads)), STEP_THREADS, 0,
         call_stream(call), o);
  return o;
}

template <typename T> static hr_status forward_launch(const hr_call *call) {
  hr_ssd_sizes s =
      hr__ssd_sizes(&call->in[HR_SSD_MIXED].desc, &call->in[HR_SSD_STEPS].desc, (const hr_ssd_args *)call->args);
  ssd_work w = work_of(call, s);
  int tile = tile_of<T>(s, false), sums_tile = sums_tile_of<T>(s);
  ssd_operands<T> o = operands_of<T>(call, 0, s, w, sums_tile);
  cudaStream_t stream = call_stream(call);
  unsigned lines = (unsigned)(s.sequences * s.heads);
  o.y = (T *)call->out[0].data;
  o.states = (float *)call->out[1].data;
  steps_run<T>(call, 0, s, w);
  launch(ssd_sums_kernel<T, T, false>, dim3((unsigned)s.chunks, lines), TILE_THREADS, sums_bytes<T>(s, sums_tile),
         stream, o);
  launch(ssd_pass_kernel<false>, dim3((unsigned)divide_up(s.state_floats, PASS_THREADS), lines), PASS_THREADS, 0,
         stream, s, (const float *)w.sums, o.states);
  tile_take(o, tile);
  launch(ssd_rows_kernel<T, T>, dim3((unsigned)(s.chunks * o.tiles), lines), TILE_THREADS,
         tile_rooms_of<T>(s, tile, false).bytes, stream, o);
  return launched();
}

template <typename T> static hr_status backward_launch(const hr_call *call) {
  hr_ssd_sizes s = hr__ssd_sizes(&call->in[HR_SSD_BWD_MIXED].desc, &call->in[HR_SSD_BWD_STEPS].desc,
                                 (const hr_ssd_args *)call->args);
  ssd_work w = work_of(call, s);
  int tile = tile_of<T>(s, true), sums_tile = sums_tile_of<T>(s);
  ssd_operands<T> o = operands_of<T>(call, HR_SSD_BWD_MIXED, s, w, sums_tile);
  cudaStream_t stream = call_stream(call);
  unsigned lines = (unsigned)(s.sequences * s.heads), groups = (unsigned)(s.sequences * s.groups);
  const T *partial = (const T *)call->in[HR_SSD_BWD_PARTIAL].data;
  T *dsteps = (T *)call->out[1].data;
  o.dy = (const T *)call->in[HR_SSD_DY].data;
  o.states = (float *)call->in[HR_SSD_BWD_STATES].data;
  o.slopes = w.slopes;
  o.dmixed = (T *)call->out[0].data;
  o.rows = w.terms[0], o.columns = w.terms[1], o.direct = w.terms[2], o.ends = w.terms[3], o.own = w.terms[4];
  window_fill(call, dsteps, partial, s.sequences * s.length * s.steps);
  steps_operands<T> steps = steps_run<T>(call, HR_SSD_BWD_MIXED, s, w);
  launch(ssd_sums_kernel<T, T, true>, dim3((unsigned)s.chunks, lines), TILE_THREADS, sums_bytes<T>(s, sums_tile),
         stream, o);
  launch(ssd_pass_kernel<true>, dim3((unsigned)divide_up(s.state_floats, PASS_THREADS), lines), PASS_THREADS, 0, stream,
         s, (const float *)w.sums, o.slopes);
  size_t bytes = tile_rooms_of<T>(s, tile, true).bytes;
  tile_take(o, tile);
  dim3 tiles((unsigned)(s.chunks * o.tiles), groups);
  launch(ssd_columns_kernel<T, T>, tiles, TILE_THREADS, bytes, stream, o);
  launch(ssd_rows_bwd_kernel<T, T>, tiles, TILE_THREADS, bytes, stream, o);
  launch(ssd_finish_kernel<T>, dim3((unsigned)s.chunks, lines), STEP_THREADS, 0, stream, o, steps, partial, dsteps,
         w.partials);
  launch(ssd_heads_kernel, dim3((unsigned)s.heads, PARAMETERS), SUM_THREADS, 0, stream, s, (const float *)w.partials,
         (float *)call->out[2].data);
  return launched();
}

/* Tiles may take more shared memory than a kernel has without asking. */
template <typename F> static hr_status shared_ask(F *kernel) {
  return cudaFuncSetAttribute((const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED_MOST) ==
                 cudaSuccess
             ? HR_OK
             : HR_FAILURE;
}

static hr_status prepare_any(const hr_call *call, int first, void **prepared, hr_error *err) {
  hr_ssd_sizes s =
      hr__ssd_sizes(&call->in[first].desc, &call->in[first + HR_SSD_STEPS].desc, (const hr_ssd_args *)call->args);
  *prepared = nullptr;
  hr_status status = by_dtype(call->in[first].desc.dtype, [&](auto t) {
    using T = decltype(t);
    if (tile_of<T>(s, first == HR_SSD_BWD_MIXED) == 0) return HR_BAD_INPUT;
    hr_status asked = shared_ask(ssd_sums_kernel<T, T, false>);
    if (asked == HR_OK) asked = shared_ask(ssd_sums_kernel<T, T, true>);
    if (asked == HR_OK) asked = shared_ask(ssd_rows_kernel<T, T>);
    if (asked == HR_OK) asked = shared_ask(ssd_columns_kernel<T, T>);
    if (asked == HR_OK) asked = shared_ask(ssd_rows_bwd_kernel<T, T>);
    return asked;
  });
  if (status == HR_OK) return HR_OK;
  if (status == HR_BAD_INPUT)
    return device_state(call)->host.fail(err, HR_BAD_INPUT, NULL, "use a 16-bit precision, or smaller states",
                                         "states of %lld x %lld do not fit the GPU's shared memory", (long long)s.state,
                                         (long long)s.dim);
  return device_state(call)->host.fail(err, HR_FAILURE, NULL, NULL, "the GPU refuses %d bytes of shared memory",
                                       (int)SHARED_MOST);
}
static hr_status ssd_prepare(const hr_call *call, void **prepared, hr_error *err) {
  return prepare_any(call, HR_SSD_MIXED, prepared, err);
}
static hr_status ssd_bwd_prepare(const hr_call *call, void **prepared, hr_error *err) {
  return prepare_any(call, HR_SSD_BWD_MIXED, prepared, err);
}

static hr_status ssd_run(const hr_call *call) {
  return by_dtype(call->in[HR_SSD_MIXED].desc.dtype, [&](auto t) { return forward_launch<decltype(t)>(call); });
}
static hr_status ssd_bwd_run(const hr_call *call) {
  return by_dtype(call->in[HR_SSD_BWD_MIXED].desc.dtype, [&](auto t) { return backward_launch<decltype(t)>(call); });
}

#define OF_TYPES(F) (const void *)F(float), (const void *)F(bf16), (const void *)F(f16)
#define STEPS(T)    ssd_steps_kernel<T>
#define SUMS(T)     ssd_sums_kernel<T, T, false>
#define ROWS(T)     ssd_rows_kernel<T, T>
#define SUMS_BWD(T) ssd_sums_kernel<T, T, true>
#define COLUMNS(T)  ssd_columns_kernel<T, T>
#define ROWS_BWD(T) ssd_rows_bwd_kernel<T, T>
#define FINISH(T)   ssd_finish_kernel<T>

extern "C" const hr_cuda_launcher hr_cuda_ssd = {{ssd_prepare, nullptr, ssd_run},
                                                 {(const void *)ssd_parameters_kernel,
                                                  (const void *)ssd_pass_kernel<false>, OF_TYPES(STEPS), OF_TYPES(SUMS),
                                                  OF_TYPES(ROWS)}};

extern "C" const hr_cuda_launcher hr_cuda_ssd_bwd = {
    {ssd_bwd_prepare, nullptr, ssd_bwd_run},
    {(const void *)ssd_parameters_kernel, (const void *)ssd_pass_kernel<true>, (const void *)ssd_heads_kernel,
     OF_TYPES(STEPS), OF_TYPES(SUMS_BWD), OF_TYPES(COLUMNS), OF_TYPES(ROWS_BWD), OF_TYPES(FINISH),
     WINDOW_FILL_FUNCTIONS}};
