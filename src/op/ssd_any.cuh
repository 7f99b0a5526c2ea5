/* The scan on a GPU for what ssd_mma.cuh does not take: f32, and heads or states that are wider. Tile by tile, each
 * block with products of its own; see ssd_tile.cuh. Forward: what each chunk adds to the state; y. Backward: dx and dB
 * of each tile from the tiles behind it in its chunk; dC from those before it.
 */
#ifndef HR_OP_SSD_ANY_CUH
#define HR_OP_SSD_ANY_CUH

#include "op/ssd_tile.cuh"

/* ---- states ---- */

/* Of one chunk and head, [N, P]: sum of B x^T d exp(a_n - a), or with BACK of C dy^T exp(a). Pieces of `tile` positions
 * are added to what is there. */
template <typename T, typename S, bool BACK>
static __global__ void __launch_bounds__(TILE_THREADS) ssd_any_sums_kernel(ssd_operands<T> o) {
  S *left = launch_shared<S>(), *right = left + o.tile * tile_pitch<S>(tile_padded(o.size.state));
  int64_t chunk = blockIdx.x, sequence = blockIdx.y / o.size.heads, head = blockIdx.y % o.size.heads;
  int64_t group = head / (o.size.heads / o.size.groups);
  int state = (int)o.size.state, dim = (int)o.size.dim;
  float *to =
      (BACK ? o.slopes : o.states) + ((sequence * o.size.chunks + chunk) * o.size.heads + head) * o.size.state_floats;
  const float *d = o.steps + blockIdx.y * o.size.length;
  decay_line a = decays_at(o, blockIdx.y * o.size.length);
  for (int number = 0; number < o.tiles; number++) {
    tile_place p = tile_at(o, sequence, chunk, number);
    if (p.count <= 0) break;
    int64_t row = sequence * o.size.length + p.first;
    const T *b = o.mixed + row * o.size.mixed + (BACK ? o.size.c_first : o.size.b_first) + group * o.size.state;
    const T *x = BACK ? o.dy + row * o.size.y + head * o.size.dim : o.mixed + row * o.size.mixed + head * o.size.dim;
    __syncthreads();
    tile_load(left, b, o.size.mixed, p.count, o.tile, state, [&](int i) {
      return BACK ? expf(a.high[p.first + i]) : a.between(p.chunk_end - 1, a, p.first + i) * d[p.first + i];
    });
    tile_copy(right, x, BACK ? o.size.y : o.size.mixed, p.count, o.tile, dim);
    __syncthreads();
    tile_product<true, false>(tile_padded(state), tile_padded(dim), o.tile, left, right, [&](int n, int c, float sum) {
      if (n < state && c < dim) to[n * dim + c] = number > 0 ? to[n * dim + c] + sum : sum;
    });
  }
}

/* ---- forward ---- */

/* A block: one tile of one head. */
template <typename T, typename S>
static __global__ void __launch_bounds__(TILE_THREADS) ssd_any_rows_kernel(ssd_operands<T> o) {
  unsigned char *shared = launch_shared<unsigned char>();
  tile_rooms<S> r = tile_rooms_of<S>(o.size, o.tile, false);
  S *c = (S *)(shared + r.own_n), *b = (S *)(shared + r.other_n), *x = (S *)(shared + r.other_p);
  S *weights = (S *)(shared + r.weights), *state = (S *)(shared + r.block);
  float *sums = (float *)(shared + r.sum_p), *d_j = (float *)(shared + r.lines);
  decay_line a_i = {d_j + o.tile, d_j + 2 * o.tile}, a_j = {d_j + 3 * o.tile, d_j + 4 * o.tile};
  int64_t sequence = blockIdx.y / o.size.heads, head = blockIdx.y % o.size.heads;
  int64_t group = head / (o.size.heads / o.size.groups), line = blockIdx.y * o.size.length;
  tile_place own = tile_at(o, sequence, blockIdx.x / o.tiles, (int)(blockIdx.x % o.tiles));
  if (own.count <= 0) return;
  int tile = o.tile, dim = (int)o.size.dim;
  int64_t row = sequence * o.size.length + own.first, column = o.size.c_first + group * o.size.state;
  tile_copy(c, o.mixed + row * o.size.mixed + column, o.size.mixed, own.count, tile, (int)o.size.state);
  decays_load(a_i, decays_at(o, line + own.first), own.count, tile);
  for (int i = (int)threadIdx.x; i < tile * r.sum_p_pitch; i += TILE_THREADS)
    sums[i] = 0.0f;
  for (int number = 0; number <= own.number; number++) {
    tile_place p = tile_at(o, sequence, own.chunk, number);
    const T *from = o.mixed + (sequence * o.size.length + p.first) * o.size.mixed;
    __syncthreads();
    tile_copy(b, from + o.size.b_first + group * o.size.state, o.size.mixed, p.count, tile, (int)o.size.state);
    tile_copy(x, from + head * o.size.dim, o.size.mixed, p.count, tile, dim);
    decays_load(a_j, decays_at(o, line + p.first), p.count, tile);
    line_load(d_j, o.steps + line + p.first, p.count, tile);
    __syncthreads();
    tile_product<false, true>(tile, tile, r.state, c, b, [&](int i, int j, float sum) {
      bool sees = i < own.count && p.first + j <= own.first + i;
      weights[i * tile_pitch<S>(tile) + j] = from_float<S>(sees ? sum * a_i.between(i, a_j, j) * d_j[j] : 0.0f);
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
    float more = skip * to_float(own_x[i * o.size.mixed + j]) + expf(a_i.high[i]) * sum;
    y[i * o.size.y + j] = from_float<T>(sums[i * r.sum_p_pitch + j] + more);
  });
}

/* ---- backward ---- */

/* dx and dB of one tile, and what it gives to gradients of steps. A block goes through the heads of a group. */
template <typename T, typename S>
static __global__ void __launch_bounds__(TILE_THREADS) ssd_any_columns_kernel(ssd_operands<T> o) {
  unsigned char *shared = launch_shared<unsigned char>();
  tile_rooms<S> r = tile_rooms_of<S>(o.size, o.tile, true);
  S *b = (S *)(shared + r.own_n), *x = (S *)(shared + r.own_p), *c = (S *)(shared + r.other_n);
  S *dy = (S *)(shared + r.other_p), *weights = (S *)(shared + r.weights), *slopes = (S *)(shared + r.slopes);
  S *state = (S *)(shared + r.block);
  float *db = (float *)(shared + r.sum_n), *dx = (float *)(shared + r.sum_p), *scratch = (float *)(shared + r.scratch);
  float *d_j = (float *)(shared + r.lines);
  decay_line a_i = {d_j + o.tile, d_j + 2 * o.tile}, a_j = {d_j + 3 * o.tile, d_j + 4 * o.tile};
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
    double direct = 0.0, spread = 0.0; /* of row `thread`: what is subtracted later is summed in f64 */
    float diagonal = 0.0f;
    __syncthreads();
    tile_copy(x, mixed + head * o.size.dim, o.size.mixed, own.count, tile, dim);
    decays_load(a_j, decays_at(o, at), own.count, tile);
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
      decays_load(a_i, decays_at(o, line + p.first), p.count, tile);
      __syncthreads();
      tile_product<false, true>(tile, tile, r.state, b, c,
                                [&](int j, int i, float sum) { scratch[j * r.scratch_pitch + i] = sum; });
      tile_product<false, true>(tile, tile, r.dim, x, dy, [&](int j, int i, float sum) {
        bool seen = i < p.count && j < own.count && own.first + j <= p.first + i;
        float score = scratch[j * r.scratch_pitch + i], decay = seen ? a_i.between(i, a_j, j) : 0.0f;
        weights[j * tile_pitch<S>(tile) + i] = from_float<S>(score * decay * d_j[j]);
        slopes[j * tile_pitch<S>(tile) + i] = from_float<S>(sum * decay * d_j[j]);
        scratch[j * r.scratch_pitch + i] = seen ? score * decay * sum : 0.0f;
        if (seen && own.first + j == p.first + i) o.terms.own[at + j] = sum;
      });
      __syncthreads();
      if (thread < tile)
        for (int i = 0; i < tile; i++) {
          float one = scratch[thread * r.scratch_pitch + i];
          if (own.first + thread == p.first + i)
            diagonal = one;
          else {
            direct += (double)one;
            spread += (double)one * (double)a_i.above(i, a_j, thread);
          }
        }
      tile_product<false, false>(tile, r.dim, tile, weights, dy,
                                 [&](int j, int e, float sum) { dx[j * r.sum_p_pitch + e] += sum; });
      tile_product<false, false>(tile, r.state, tile, slopes, c,
                                 [&](int j, int e, float sum) { db[j * r.sum_n_pitch + e] += sum; });
    }
    const float *behind =
        o.slopes + ((sequence * o.size.chunks + own.chunk) * o.size.heads + head) * o.size.state_floats;
    decay_line end = decays_at(o, line + own.chunk_end - 1);
    float skip = o.skip[head];
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
          dx[j * r.sum_p_pitch + e] + end.between(0, a_j, j) * d_j[j] * sum + skip * to_float(own_dy[j * o.size.y + e]);
      dmixed[j * o.size.mixed + head * o.size.dim + e] = from_float<T>(total);
    });
    tile_product<false, true>(tile, r.state, r.dim, x, state, [&](int j, int e, float sum) {
      db[j * r.sum_n_pitch + e] += j < own.count ? end.between(0, a_j, j) * d_j[j] * sum : 0.0f;
    });
    __syncthreads();
    if (thread < own.count) {
      double q = 0.0;
      for (int e = 0; e < dim; e++)
        q += (double)scratch[thread * r.scratch_pitch + e];
      o.terms.columns[at + thread] = (float)direct;
      o.terms.spread[at + thread] = (float)(spread * (double)d_j[thread]);
      o.terms.diagonal[at + thread] = diagonal;
      o.terms.q[at + thread] = (float)q;
    }
  }
  __syncthreads();
  for (int i = thread; i < own.count * states; i += TILE_THREADS)
    dmixed[i / states * o.size.mixed + o.size.b_first + group * o.size.state + i % states] =
        from_float<T>(db[i / states * r.sum_n_pitch + i % states]);
}

/* dC of one tile, and the other half of what it gives to gradients of steps. */
template <typename T, typename S>
static __global__ void __launch_bounds__(TILE_THREADS) ssd_any_rows_bwd_kernel(ssd_operands<T> o) {
  unsigned char *shared = launch_shared<unsigned char>();
  tile_rooms<S> r = tile_rooms_of<S>(o.size, o.tile, true);
  S *c = (S *)(shared + r.own_n), *dy = (S *)(shared + r.own_p), *b = (S *)(shared + r.other_n);
  S *x = (S *)(shared + r.other_p), *slopes = (S *)(shared + r.slopes), *state = (S *)(shared + r.block);
  float *dc = (float *)(shared + r.sum_n), *scratch = (float *)(shared + r.scratch);
  float *d_j = (float *)(shared + r.lines);
  decay_line a_i = {d_j + o.tile, d_j + 2 * o.tile}, a_j = {d_j + 3 * o.tile, d_j + 4 * o.tile};
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
    double rows = 0.0; /* of row `thread` */
    __syncthreads();
    tile_copy(dy, o.dy + row * o.size.y + head * o.size.dim, o.size.y, own.count, tile, dim);
    decays_load(a_i, decays_at(o, at), own.count, tile);
    for (int number = 0; number <= own.number; number++) {
      tile_place p = tile_at(o, sequence, own.chunk, number);
      const T *from = o.mixed + (sequence * o.size.length + p.first) * o.size.mixed;
      __syncthreads();
      tile_copy(b, from + o.size.b_first + group * o.size.state, o.size.mixed, p.count, tile, states);
      tile_copy(x, from + head * o.size.dim, o.size.mixed, p.count, tile, dim);
      decays_load(a_j, decays_at(o, line + p.first), p.count, tile);
      line_load(d_j, o.steps + line + p.first, p.count, tile);
      __syncthreads();
      tile_product<false, true>(tile, tile, r.state, c, b,
                                [&](int i, int j, float sum) { scratch[i * r.scratch_pitch + j] = sum; });
      tile_product<false, true>(tile, tile, r.dim, dy, x, [&](int i, int j, float sum) {
        bool sees = i < own.count && p.first + j <= own.first + i;
        float slope = sees ? sum * a_i.between(i, a_j, j) * d_j[j] : 0.0f;
        slopes[i * tile_pitch<S>(tile) + j] = from_float<S>(slope);
        scratch[i * r.scratch_pitch + j] =
            sees && p.first + j < own.first + i ? scratch[i * r.scratch_pitch + j] * slope : 0.0f;
      });
      __syncthreads();
      if (thread < tile)
        for (int j = 0; j < tile; j++)
          rows += (double)scratch[thread * r.scratch_pitch + j];
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
      float through = there ? expf(a_i.high[i]) * sum : 0.0f;
      dc[i * r.sum_n_pitch + e] += through;
      scratch[i * r.scratch_pitch + e] = there ? to_float(own_c[i * o.size.mixed + e]) * through : 0.0f;
    });
    __syncthreads();
    if (thread < own.count) {
      double through = 0.0;
      for (int e = 0; e < states; e++)
        through += (double)scratch[thread * r.scratch_pitch + e];
      o.terms.rows[at + thread] = (float)rows;
      o.terms.through[at + thread] = (float)through;
    }
  }
  __syncthreads();
  T *to = o.dmixed + row * o.size.mixed + column;
  for (int i = thread; i < own.count * states; i += TILE_THREADS)
    to[i / states * o.size.mixed + i % states] = from_float<T>(dc[i / states * r.sum_n_pitch + i % states]);
}

#endif
