/* States of the scan between tiles: from that before a chunk those before each of its tiles, and backward from the
 * gradient behind the chunk those behind each. In 16 bits, as products take them; with them no tile needs another.
 */
#ifndef HR_OP_SSD_BETWEEN_CUH
#define HR_OP_SSD_BETWEEN_CUH

#include "op/ssd_states.cuh"

/* Factors of all positions, forward and backward. */
template <int N> constexpr size_t between_bytes = 2 * states_stage<N> * 2 + 2 * HR_SSD_CHUNK_MOST * sizeof(float);

/* Where the state of a tile lies: [sequence, chunk, head, tile, N, P]. */
__device__ inline int64_t tile_state_at(const hr_ssd_sizes &size, int64_t sequence, int64_t chunk, int64_t head,
                                        int tile) {
  int64_t tiles = (size.chunk + SIDE - 1) / SIDE;
  return (((sequence * size.chunks + chunk) * size.heads + head) * tiles + tile) * size.state_floats;
}

/* A block: one chunk of one head. States go from the first tile to the last; with BACK gradients go back, and where
 * both are known their product is as well: a sum for each warp, [sequence, chunk, head, tile, SCAN_WARPS]. */
template <typename T, int N, bool BACK>
static __global__ void __launch_bounds__(SCAN_THREADS, BACK ? 3 : 4)
    ssd_between_kernel(ssd_operands<T> o, float *products) {
  T *shared = launch_shared<T>();
  float *factors = (float *)(shared + 2 * states_stage<N>), *factors_back = factors + HR_SSD_CHUNK_MOST;
  unsigned heads = (unsigned)o.size.heads, members = heads / (unsigned)o.size.groups;
  int64_t chunk = blockIdx.x, sequence = blockIdx.y / heads, head = blockIdx.y % heads;
  int64_t group = blockIdx.y % heads / members;
  chunk_place p = chunk_at(o.size, chunk);
  int states = (int)o.size.state, dim = (int)o.size.dim, lane = (int)threadIdx.x % 32;
  int64_t row = sequence * o.size.length + p.first, line = blockIdx.y * o.size.length + p.first;
  const T *mixed = o.mixed + row * o.size.mixed, *dy = BACK ? o.dy + row * o.size.y + head * o.size.dim : nullptr;
  const T *b = mixed + o.size.b_first + group * o.size.state, *c = mixed + o.size.c_first + group * o.size.state;
  const T *x = mixed + head * o.size.dim;
  const float *a = o.decays + line, *d = o.steps + line;
  auto end_of = [&](int tile) { return tile < 0 ? 0.0f : a[min(SIDE * tile + SIDE, p.count) - 1] * LOG2_E; };

  /* Tiles whose x goes into the state, then those whose dy goes into its gradient. */
  int each = p.tiles - 1, items = BACK ? 2 * each : each;
  auto tile_of_item = [&](int item) { return item < each ? item : p.tiles - 1 - (item - each); };
  factored_rows<T> next;
  auto start = [&](int item) {
    int begin = SIDE * tile_of_item(item), rows = p.count - begin;
    if (!BACK || item < each)
      next.load(x + begin * o.size.mixed, o.size.mixed, rows, dim);
    else
      next.load(dy + begin * o.size.y, o.size.y, rows, dim);
    rows_start<SIDE, N>(shared + item % 2 * states_stage<N>, (!BACK || item < each ? b : c) + begin * o.size.mixed,
                        o.size.mixed, rows, states);
  };
  if (each > 0) start(0);
  for (int i = (int)threadIdx.x; i < SIDE * p.tiles; i += SCAN_THREADS) {
    float of = i < p.count ? a[i] * LOG2_E : 0.0f;
    factors[i] = i < p.count ? near_power_of_two(end_of(i / SIDE) - of) * d[i] : 0.0f;
    if (BACK) factors_back[i] = i < p.count ? near_power_of_two(of - end_of(i / SIDE - 1)) : 0.0f;
  }

  state_sums<T, N> sums;
  auto keep = [&](T *to, int tile) {
    sums.write(to + tile_state_at(o.size, sequence, chunk, head, tile), states, dim);
  };
  auto multiply_saved = [&](int tile) {
    const T *from = o.narrow_states + tile_state_at(o.size, sequence, chunk, head, tile);
    float product = sums.product(from, states, dim);
    for (int distance = 16; distance > 0; distance /= 2)
      product += __shfl_xor_sync(~0u, product, distance);
    int64_t tiles = (o.size.chunk + SIDE - 1) / SIDE, at = (sequence * o.size.chunks + chunk) * o.size.heads + head;
    if (lane == 0) products[(at * tiles + tile) * SCAN_WARPS + threadIdx.x / 32] = product;
  };
  auto advance = [&](int item) {
    int tile = tile_of_item(item);
    T *left = shared + item % 2 * states_stage<N>, *right = left + SIDE * pitch<N>;
    next.store(right, (item < each ? factors : factors_back) + SIDE * tile);
    copies_wait();
    __syncthreads();
    if (item + 1 < items) start(item + 1);
    sums.scale(near_power_of_two(end_of(tile) - end_of(tile - 1)));
    sums.add(left, right);
  };

  sums.read(o.states + state_at(o.size, sequence, chunk, head), states, dim);
  __syncthreads();
  keep(o.narrow_states, 0);
  for (int item = 0; item < each; item++) {
    advance(item);
    keep(o.narrow_states, item + 1);
  }
  if (!BACK) return;
  sums.read(o.slopes + state_at(o.size, sequence, chunk, head), states, dim);
  keep(o.narrow_slopes, each);
  multiply_saved(each);
  for (int item = each; item < items; item++) {
    advance(item);
    keep(o.narrow_slopes, tile_of_item(item) - 1);
    multiply_saved(tile_of_item(item) - 1);
  }
}

#endif
