/* Convolutions of 16-bit types without unfolded rows: a block of threads turns a box of the source [channels, places]
 * into rows of channels in shared memory, and warps multiply it tap by tap with the weights, which they read in the
 * order of their registers. See op/conv_tile.h.
 */
#ifndef HR_OP_CONV_TILES_CUH
#define HR_OP_CONV_TILES_CUH

#include "op/conv_lines.cuh"
#include "op/conv_warpgroups.cuh"

enum { TURNED = 4 }; /* times 32 places, that a warp turns at once */

/* Offsets of the places of the boxes of `samples` samples in a channel of the source, -1: outside. `apart`: elements
 * from a sample to the next. */
template <int THREADS>
__device__ inline void box_places(const conv_steps &w, const int box[HR_CONV_AXES], const int first[HR_CONV_AXES],
                                  int samples, int apart, int *places) {
  int lines = box[1] * box[2], count = box[0] * lines;
  for (int p = (int)threadIdx.x; p < samples * count; p += THREADS) {
    int sample = samples > 1 ? p / count : 0, own = p - sample * count;
    int a = own / lines, rest = own - a * lines, b = rest / box[2], c = rest - b * box[2];
    a += first[0];
    b += first[1];
    c += first[2];
    bool there = (unsigned)a < (unsigned)w.source[0] && (unsigned)b < (unsigned)w.source[1] &&
                 (unsigned)c < (unsigned)w.source[2];
    places[p] = there ? (a * w.source[1] + b) * w.source[2] + c + sample * apart : -1;
  }
}

/* Rows of CHANNELS channels, of `count` places whose offsets are given; channels from `left` on are 0. A warp takes
 * eight channels of TURNED x 32 places: channels lie far apart, each in other pages of memory, so that reads of one
 * follow each other, and all are under way before the first is waited for. */
template <typename T, int CHANNELS, int THREADS>
__device__ inline void rows_turn(const T *from, int64_t size, int left, const int *places, int count, T *rows) {
  constexpr int UNITS = CHANNELS / 8;
  const uint16_t *words = (const uint16_t *)from;
  int lane = (int)threadIdx.x % 32, jobs = (count + TURNED * 32 - 1) / (TURNED * 32) * UNITS;
  for (int job = (int)threadIdx.x / 32; job < jobs; job += THREADS / 32) {
    int unit = job % UNITS, first = job / UNITS * TURNED * 32 + lane, at[TURNED];
    uint32_t x[8][TURNED];
#pragma unroll
    for (int k = 0; k < TURNED; k++)
      at[k] = first + k * 32 < count ? places[first + k * 32] : -1;
#pragma unroll
    for (int c = 0; c < 8; c++) {
      const uint16_t *channel = words + (int64_t)(unit * 8 + c) * size;
      bool there = unit * 8 + c < left;
#pragma unroll
      for (int k = 0; k < TURNED; k++)
        x[c][k] = there && at[k] >= 0 ? channel[at[k]] : 0u;
    }
#pragma unroll
    for (int k = 0; k < TURNED; k++)
      if (first + k * 32 < count)
        *(uint4 *)(rows + tile_element<CHANNELS>(first + k * 32, unit)) = make_uint4(
            x[0][k] | x[1][k] << 16, x[2][k] | x[3][k] << 16, x[4][k] | x[5][k] << 16, x[6][k] | x[7][k] << 16);
  }
}

/* Walks of one launch, whose tiles are as many. */
template <typename T, int WALKS> struct tile_calls {
  int count;
  tile_call<T> of[WALKS];
};

/* A block: one tile of a sample, 32 WN channels of the result; warp (m, n) has 64 of its places and 32 channels.
 * Neighbours have the same tile of all walks. */
template <typename T, int CHANNELS, int WM, int WN, int WALKS>
static __global__ void __launch_bounds__(32 * WM * WN, WM *WN == 4 ? 3 : 2)
    tiles_kernel(const __grid_constant__ tile_calls<T, WALKS> calls) {
  constexpr int THREADS = 32 * WM * WN, STEPS = CHANNELS / 16;
  __shared__ int deltas[HR_CONV_TILE_TAPS];
  T *rows = launch_shared<T>();
  const tile_call<T> &p = calls.of[WALKS == 1 ? 0 : blockIdx.x % calls.count];
  int sample_box = p.box[0] * p.box[1] * p.box[2], box = p.samples * sample_box;
  int sample_places = p.of[0] * p.of[1] * p.of[2];
  int *places = (int *)(rows + (int64_t)box * CHANNELS);
  int64_t number = WALKS == 1 ? blockIdx.x : blockIdx.x / calls.count;
  int column_block = (int)(number % p.column_blocks);
  number /= p.column_blocks;
  int first[HR_CONV_AXES], start[HR_CONV_AXES]; /* of the tile's places; of its box in the source */
  for (int d = HR_CONV_AXES - 1; d >= 0; d--) {
    first[d] = (int)(number % p.tiles[d]) * p.of[d];
    number /= p.tiles[d];
    start[d] = first[d] * p.w.step[d] + p.w.first[d] + tile_lowest(p.w, d);
  }
  int64_t sample = number * p.samples;
  int own_samples = (int)min((int64_t)p.samples, p.all_samples - sample);
  int loaded = own_samples * sample_box;
  box_places<THREADS>(p.w, p.box, start, own_samples, p.channels * (int)p.from_size, places);
  for (int tap = (int)threadIdx.x; tap < p.taps; tap += THREADS) {
    int away[HR_CONV_AXES];
    tap_at<HR_CONV_AXES>(p.w, tap, away);
    for (int d = 0; d < HR_CONV_AXES; d++)
      away[d] -= tile_lowest(p.w, d);
    deltas[tap] = linear_at(p.box, away);
  }

  int lane = threadIdx.x % 32, warp = threadIdx.x / 32, m = warp / WN, n = warp % WN;
  int lines[4]; /* of the box, where the first tap of the lane's rows reads */
#pragma unroll
  for (int i = 0; i < 4; i++) {
    int place = m * 64 + i * 16 + lane % 16, own = place / sample_places;
    place -= own * sample_places;
    const int at[] = {place / p.of[2] / p.of[1] * p.w.step[0], place / p.of[2] % p.of[1] * p.w.step[1],
                      place % p.of[2] * p.w.step[2]};
    lines[i] = own < own_samples ? own * sample_box + (int)linear_at(p.box, at) : 0; /* 0: any, not written */
  }
  float sums[4][4][4] = {};
  int64_t block = (int64_t)column_block * WN + n;
  const uint4 *weights = p.weights + block * p.chunks * p.taps * STEPS * 64 + lane;
  uint4 next[2] = {weights[0], weights[32]};
  for (int chunk = 0; chunk < p.chunks; chunk++) {
    __syncthreads();
    int64_t channel = (int64_t)chunk * CHANNELS;
    rows_turn<T, CHANNELS, THREADS>(p.from + (sample * p.channels + channel) * p.from_size, p.from_size,
                                    p.channels - (int)channel, places, loaded, rows);
    __syncthreads();
    for (int tap = 0; tap < p.taps; tap++) {
      int delta = deltas[tap];
#pragma unroll
      for (int step = 0; step < STEPS; step++) {
        uint4 b[2] = {next[0], next[1]};
        weights += 64;
        next[0] = weights[0];
        next[1] = weights[32];
#pragma unroll
        for (int i = 0; i < 4; i++) {
          uint32_t a[4];
          matrices_load(a, rows + tile_element<CHANNELS>(lines[i] + delta, step * 2 + lane / 16));
          multiply<T>(sums[i][0], a, b[0].x, b[0].y);
          multiply<T>(sums[i][1], a, b[0].z, b[0].w);
          multiply<T>(sums[i][2], a, b[1].x, b[1].y);
          multiply<T>(sums[i][3], a, b[1].z, b[1].w);
        }
      }
    }
  }

  __syncthreads();
  float *line = (float *)rows + warp * 8 * TILE_LINE;
  int64_t at[2];
#pragma unroll
  for (int i = 0; i < 2; i++) {
    int place = m * 64 + i * 32 + lane, own = place / sample_places;
    place -= own * sample_places;
    int c = first[2] + place % p.of[2], b = first[1] + place / p.of[2] % p.of[1],
        a = first[0] + place / p.of[2] / p.of[1];
    const int to[] = {p.w.to_first[0] + a * p.w.to_step[0], p.w.to_first[1] + b * p.w.to_step[1],
                      p.w.to_first[2] + c * p.w.to_step[2]};
    bool there = own < own_samples && a < p.w.places[0] && b < p.w.places[1] && c < p.w.places[2];
    at[i] = there ? own * p.columns * p.to_size + linear_at(p.w.to, to) : -1;
  }
  tile_put(p, sums, sample, block, at, line);
}

/* ---- launches ---- */

template <typename T, int WALKS> using tiles_function = void (*)(tile_calls<T, WALKS>);

/* Several walks have no more than 32 channels at a time. */
template <typename T, int WM, int WN, int WALKS> static tiles_function<T, WALKS> tiles_form(int channels) {
  if constexpr (WALKS == 1)
    if (channels == 64) return tiles_kernel<T, 64, WM, WN, WALKS>;
  return channels == 32 ? (tiles_function<T, WALKS>)tiles_kernel<T, 32, WM, WN, WALKS>
                        : (tiles_function<T, WALKS>)tiles_kernel<T, 16, WM, WN, WALKS>;
}
template <typename T, int WALKS> static tiles_function<T, WALKS> tiles_form_of(int64_t columns, int channels) {
  return columns <= 32   ? tiles_form<T, 4, 1, WALKS>(channels)
         : columns <= 64 ? tiles_form<T, 4, 2, WALKS>(channels)
                         : tiles_form<T, 2, 4, WALKS>(channels);
}

static size_t tiles_shared(const hr_conv_tile &t, int64_t columns) {
  size_t box = (size_t)(t.samples * t.box[0] * t.box[1] * t.box[2]),
         rows = box * (size_t)t.channels * 2 + box * sizeof(int);
  size_t lines = (size_t)(columns <= 32 ? 4 : 8) * 8 * TILE_LINE * sizeof(float);
  return rows > lines ? rows : lines;
}

/* A walk: its weights go to `weights`, [bytes of hr__conv_tile_weights]. `forward`: channels of W's first axis are the
 * result's (conv), else the source's (conv_dx). */
template <typename T>
static tile_call<T> tiles_begin(const hr_call *call, const hr_conv_sizes &s, const hr_conv_walk &walk,
                                const hr_conv_tile &t, bool forward, const T *bias, const T *add, uint4 *weights) {
  int64_t channels = forward ? s.in : s.out, columns = forward ? s.out : s.in, kernel = hr__conv_volume(s.kernel);
  tile_call<T> p = {};
  p.w = steps_of(s, walk);
  p.from = (const T *)call->in[0].data;
  p.weights = weights;
  p.bias = bias;
  p.add = add;
  p.to = (T *)call->out[0].data;
  p.from_size = hr__conv_volume(walk.source);
  p.to_size = hr__conv_volume(walk.to);
  p.channels = (int)channels;
  p.columns = (int)columns;
  p.chunks = (int)((channels - 1) / t.channels + 1);
  p.taps = (int)hr__conv_volume(walk.taps);
  p.column_blocks = (int)divide_up(columns, hr__conv_tile_columns(columns));
  p.samples = t.samples;
  p.all_samples = s.samples;
  for (int d = 0; d < HR_CONV_AXES; d++) {
    p.of[d] = t.of[d];
    p.box[d] = t.box[d];
    p.tiles[d] = (int)t.tiles[d];
  }
  tile_weights order = {forward ? s.in * kernel : kernel,
                        forward ? kernel : s.in * kernel,
                        p.columns,
                        p.channels,
                        p.chunks,
                        p.taps,
                        t.channels / 16};
  int64_t words = (int64_t)(hr__conv_tile_weights(&walk, &t, channels, columns) >> 4) - 64;
  launch(tile_weights_kernel<T>, (unsigned)divide_up(words, 256), 256, 0, call_stream(call),
         (const T *)call->in[1].data, weights, p.w, order, words);
  return p;
}

template <typename T> static int64_t tiles_blocks(const tile_call<T> &p) {
  return divide_up(p.all_samples, p.samples) * p.column_blocks * p.tiles[0] * p.tiles[1] * p.tiles[2];
}

template <typename T>
static hr_status tiles_run(const hr_call *call, const hr_conv_sizes &s, const hr_conv_walk &walk, bool forward,
                           const T *bias, const T *add, uint4 *weights) {
  int64_t channels = forward ? s.in : s.out, columns = forward ? s.out : s.in;
  hr_conv_tile t;
#if HR_WARPGROUPS
  hr_conv_warpgroups g;
  if (has_warpgroups(call) && hr__conv_warpgroups_of(&walk, channels, columns, &g))
    return hr__conv_warpgroups_run(call, s, walk, forward, bias, add);
#endif
  if (!hr__conv_gather_tile(&walk, s.samples, channels, columns, &t)) return HR_FAILURE;
  tile_calls<T, 1> calls = {1, {tiles_begin(call, s, walk, t, forward, bias, add, weights)}};
  int64_t blocks = tiles_blocks(calls.of[0]);
  if (t.lines)
    lines_launch(call, calls.of[0], blocks);
  else
    launch(tiles_form_of<T, 1>(columns, t.channels), (unsigned)blocks, columns <= 32 ? 128 : 256,
           tiles_shared(t, columns), call_stream(call), calls);
  return launched();
}

/* conv_dx by all of its walks. */
template <typename T>
static hr_status phases_run(const hr_call *call, const hr_conv_sizes &s, const hr_conv_phases &phases, const T *add,
                            char *weights) {
  tile_calls<T, HR_CONV_PHASES> calls = {};
  size_t shared = 0;
  calls.count = phases.count;
  for (int i = 0; i < phases.count; i++) {
    const hr_conv_tile &t = phases.tile[i];
    calls.of[i] =
        tiles_begin<T>(call, s, phases.walk[i], t, false, nullptr, add, (uint4 *)(weights + phases.weights[i]));
    if (tiles_shared(t, s.in) > shared) shared = tiles_shared(t, s.in);
  }
  launch(tiles_form_of<T, HR_CONV_PHASES>(s.in, phases.tile[0].channels),
         (unsigned)(tiles_blocks(calls.of[0]) * phases.count), s.in <= 32 ? 128 : 256, shared, call_stream(call),
         calls);
  return launched();
}

template <typename T, int WM, int WN, int WALKS> static bool tiles_allow_form(void) {
  bool all = true;
  for (int channels = 16; channels <= (WALKS == 1 ? 64 : 32); channels *= 2)
    all = all && cudaFuncSetAttribute((const void *)tiles_form<T, WM, WN, WALKS>(channels),
                                      cudaFuncAttributeMaxDynamicSharedMemorySize, HR_CONV_TILE_SHARED) == cudaSuccess;
  return all;
}
template <typename T, int WALKS> static bool tiles_allow_forms(void) {
  return tiles_allow_form<T, 4, 1, WALKS>() && tiles_allow_form<T, 4, 2, WALKS>() && tiles_allow_form<T, 2, 4, WALKS>();
}
/* Before the first launch: more shared memory than kernels have unasked. */
template <typename T> static bool tiles_allow(void) {
  return tiles_allow_forms<T, 1>() && tiles_allow_forms<T, HR_CONV_PHASES>() && lines_allow<T>();
}

#define TILES_FORM(T, WM, WN, WALKS)                                                                                   \
  (const void *)tiles_kernel<T, 16, WM, WN, WALKS>, (const void *)tiles_kernel<T, 32, WM, WN, WALKS>
#define TILES_WIDE(T)                                                                                                  \
  (const void *)tiles_kernel<T, 64, 4, 1, 1>, (const void *)tiles_kernel<T, 64, 4, 2, 1>,                              \
      (const void *)tiles_kernel<T, 64, 2, 4, 1>
#define TILES_FORMS(T, WALKS) TILES_FORM(T, 4, 1, WALKS), TILES_FORM(T, 4, 2, WALKS), TILES_FORM(T, 2, 4, WALKS)
#define TILES_TYPE(T)         TILES_FORMS(T, 1), TILES_WIDE(T), (const void *)tile_weights_kernel<T>, LINES_TYPE(T)
#define TILES_FUNCTIONS       TILES_TYPE(bf16), TILES_TYPE(f16)
#define PHASES_FUNCTIONS      TILES_FORMS(bf16, HR_CONV_PHASES), TILES_FORMS(f16, HR_CONV_PHASES)

#endif
