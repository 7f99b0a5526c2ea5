/* Convolutions of 16-bit types with windows of 3 x 3 x 3 that move by one, conv and conv_dx: tiles (op/conv_tile.cuh)
 * whose boxes come while those before them are multiplied.
 *
 * A stage is the box of a tile in 16 channels. Its lines are copied to shared memory as they lie in the tensor, in
 * words of two places; when the warps are done with the box before, they turn it into rows of channels, by transposing
 * loads of matrices; then the next copies start, and the products run. A block goes through several tiles, so that
 * copies are always under way.
 *
 * A warp has 4 lines of 16 places and 32 channels of the result. For each plane of the window and place along the line
 * it reads six lines of the box once and meets each with up to three of the window's lines, whose weights it holds: 24
 * wavefronts of shared memory (128 bytes) and 24 of weights for 48 products of [16, 16] and [16, 8]. As soon as one of
 * the weights has met its last line, it is replaced by the one that will be needed next.
 */
#ifndef HR_OP_CONV_LINES_CUH
#define HR_OP_CONV_LINES_CUH

#include "op/conv_tile.cuh"

/* ---- lines of a tensor in words of two places ---- */

struct lines_tensor {
  const uint16_t *from;
  int64_t channel; /* elements from one to the next; where they are odd, words are put together one by one */
  int channels, size[HR_CONV_AXES];
};

static inline lines_tensor lines_tensor_of(const void *from, int64_t channels, const int64_t size[HR_CONV_AXES]) {
  lines_tensor t = {(const uint16_t *)from, hr__conv_volume(size), (int)channels, {}};
  for (int d = 0; d < HR_CONV_AXES; d++)
    t.size[d] = (int)size[d];
  return t;
}

/* Whether element `w` of a line, which may lie outside, is the upper half of a word. */
__device__ inline int lines_odd(const lines_tensor &t, int plane, int line, int w) {
  if (t.channel & 1) return 0;
  return (int)((uint32_t)((uintptr_t)t.from >> 1) + ((uint32_t)plane * t.size[1] + line) * t.size[2] + w) & 1;
}
/* Whether a line and the next one differ in it. */
__device__ inline int lines_step(const lines_tensor &t) {
  return t.channel & 1 ? 0 : t.size[2] & 1;
}

/* Starts copies of a word of channels own, own + STEP, ... < COUNT, of which there are `left`: one from the other
 * CHANNEL words apart. Halves that are not there, and channels, are zeros. */
template <int STEP, int COUNT, int CHANNEL>
__device__ inline void lines_words_start(const lines_tensor &t, const uint16_t *from, bool low, bool high, int own,
                                         int left, uint32_t *to) {
  if (t.channel & 1 || (high && !low)) { /* a copy fills words from below */
#pragma unroll 1
    for (int c = own; c < COUNT; c += STEP, from += STEP * t.channel, to += STEP * CHANNEL)
      *to = c < left ? (low ? from[0] : 0u) | (high ? (uint32_t)from[1] << 16 : 0u) : 0u;
    return;
  }
  int bytes = low ? 2 + 2 * high : 0;
  from = (const uint16_t *)((uintptr_t)from / 4 * 4);
#pragma unroll
  for (int c = own; c < COUNT; c += STEP, from += STEP * t.channel, to += STEP * CHANNEL)
    copy_word_start(to, from, c < left ? bytes : 0);
}

/* ---- the kernel ---- */

enum {
  LINES_WARPS = 8,
  LINES_OF = 4,                       /* lines of a warp */
  LINES_PLACES = 16,                  /* of a line */
  LINES_ROW = LINES_PLACES + 2,       /* places of a line of the box */
  LINES_WORDS = LINES_PLACES / 2 + 2, /* that have them, from an odd one on */
  LINES_UNITS = (LINES_WORDS + 3) / 4 /* of 8 places: what a transposing load takes of a channel */
};

/* Tiles as hr__conv_lines_tile has them, by warps side by side in columns. */
template <int WN> struct lines_form {
  static constexpr int PLANES = WN <= 2 ? 4 : 2, LINES = WN <= 1 ? 8 : 4;
  static constexpr int BOX_LINES = LINES + 2, BOX = (PLANES + 2) * BOX_LINES; /* lines of a plane, of all */
  static constexpr int CHANNEL = BOX * LINES_UNITS * 4 + 4;                   /* words; 8 channels lie in all banks */
  static constexpr int ROWS = BOX * LINES_ROW * 16 / 2, PUT = LINES_WARPS * 8 * TILE_LINE; /* words */
  static constexpr int SHARED = (16 * CHANNEL + (ROWS > PUT ? ROWS : PUT)) * 4;            /* bytes */
  static_assert(LINES_WARPS / WN * LINES_OF == PLANES * LINES, "each warp has its lines");
  static_assert(CHANNEL % 8 == 4 && BOX * LINES_UNITS % 2 == 0, "no conflicts of banks; units come in pairs");
  static_assert(SHARED <= HR_CONV_TILE_SHARED, "all GPUs have it");
};

/* A tile: of which channels of the result, which sample, and where it begins; its box begins at `start`. */
struct lines_tile {
  int column_block, first[HR_CONV_AXES], start[HR_CONV_AXES];
  int64_t sample;
};

/* Tiles behind each other along the first axis are neighbours in time, then those along the last one: what their boxes
 * share is in the second-level cache. */
template <typename T> __device__ inline lines_tile lines_tile_of(const tile_call<T> &p, int64_t number) {
  const int order[] = {0, 2, 1};
  lines_tile t;
  t.column_block = (int)(number % p.column_blocks);
  number /= p.column_blocks;
#pragma unroll
  for (int i = 0; i < HR_CONV_AXES; i++) {
    int d = order[i];
    t.first[d] = (int)(number % p.tiles[d]) * p.of[d];
    number /= p.tiles[d];
    t.start[d] = t.first[d] + p.w.first[d] + tile_lowest(p.w, d);
  }
  t.sample = number;
  return t;
}

/* Starts copies of the lines of a box, 16 channels. */
template <int WN>
__device__ inline void lines_box_start(const lines_tensor &x, const lines_tile &tile, int channel, uint32_t *to) {
  typedef lines_form<WN> form;
  int left = x.channels - channel;
  for (int i = (int)threadIdx.x; i < form::BOX * LINES_WORDS; i += 32 * LINES_WARPS) {
    int line = i / LINES_WORDS, word = i % LINES_WORDS;
    int a = tile.start[0] + line / form::BOX_LINES, b = tile.start[1] + line % form::BOX_LINES;
    int c = tile.start[2] + 2 * word - lines_odd(x, a, b, tile.start[2]);
    bool inside = (unsigned)a < (unsigned)x.size[0] && (unsigned)b < (unsigned)x.size[1];
    bool low = inside && (unsigned)c < (unsigned)x.size[2], high = inside && (unsigned)(c + 1) < (unsigned)x.size[2];
    const uint16_t *from =
        x.from + (tile.sample * x.channels + channel) * x.channel + ((int64_t)a * x.size[1] + b) * x.size[2] + c;
    lines_words_start<1, 16, form::CHANNEL>(x, from, low, high, 0, left, to + line * LINES_UNITS * 4 + word);
  }
}

/* Lines of 16 channels into rows of channels, two units of 8 places at a time. A warp asks for some of them before it
 * stores the first. */
template <typename T, int WN>
__device__ inline void lines_turn(const lines_tensor &x, const lines_tile &tile, const uint32_t *lines, T *rows) {
  typedef lines_form<WN> form;
  constexpr unsigned PAIRS = form::BOX * LINES_UNITS / 2, AHEAD = 4;
  unsigned lane = threadIdx.x % 32, q = lane / 4, t = lane % 4;
  bool alike = x.size[2] % 2 == 0; /* lines begin alike */
  int odd = lines_odd(x, tile.start[0], tile.start[1], tile.start[2]);
  for (unsigned first = threadIdx.x / 32; first < PAIRS; first += AHEAD * LINES_WARPS) {
    uint32_t turned[AHEAD][4]; /* [unit, half of the channels] */
#pragma unroll
    for (unsigned i = 0; i < AHEAD; i++)
      if (first + i * LINES_WARPS < PAIRS)
        matrices_load_transposed(turned[i],
                                 lines + lane % 16 * form::CHANNEL + ((first + i * LINES_WARPS) * 2 + lane / 16) * 4);
#pragma unroll
    for (unsigned i = 0; i < AHEAD; i++) {
      if (first + i * LINES_WARPS >= PAIRS) break;
#pragma unroll
      for (unsigned u = 0; u < 2; u++) {
        unsigned unit = (first + i * LINES_WARPS) * 2 + u, line = unit / LINES_UNITS;
        if (!alike)
          odd = lines_odd(x, tile.start[0] + (int)(line / form::BOX_LINES),
                          tile.start[1] + (int)(line % form::BOX_LINES), tile.start[2]);
        unsigned place = unit % LINES_UNITS * 8 + q - (unsigned)odd;
        if (place >= LINES_ROW) continue;
#pragma unroll
        for (int half = 0; half < 2; half++)
          *(uint32_t *)(rows + tile_element<16>((int)(line * LINES_ROW + place), half) + 2 * t) =
              turned[i][u * 2 + half];
      }
    }
  }
}

/* The first weights of a window's plane and place along the line, as the box has them: dx meets windows from behind. */
__device__ inline int lines_tap(const conv_steps &w, int meeting, int line) {
  int tap = meeting / 3 * 9 + line * 3 + meeting % 3;
  return w.tap[0] > 0 ? tap : 26 - tap;
}

template <typename T, int WN>
static __global__ void __launch_bounds__(32 * LINES_WARPS, 2)
    lines_kernel(const __grid_constant__ tile_call<T> p, const __grid_constant__ lines_tensor x, int64_t tiles) {
  typedef lines_form<WN> form;
  uint32_t *lines = launch_shared<uint32_t>();
  T *rows = (T *)(lines + 16 * form::CHANNEL);
  int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32, m = warp / WN, n = warp % WN;
  int plane = m / (form::LINES / LINES_OF), line = m % (form::LINES / LINES_OF) * LINES_OF;
  int row = (plane * form::BOX_LINES + line) * LINES_ROW + lane % 16;

  lines_tile tile = lines_tile_of(p, blockIdx.x);
  lines_box_start<WN>(x, tile, 0, lines);
  for (int64_t number = blockIdx.x; number < tiles; number += gridDim.x) {
    int64_t block = (int64_t)tile.column_block * WN + n;
    const uint4 *weights = p.weights + block * p.chunks * 27 * 64 + lane;
    float sums[4][4][4] = {};
    uint4 b[3][2];
#pragma unroll
    for (int i = 0; i < 3; i++) {
      const uint4 *from = weights + lines_tap(p.w, 0, i) * 64;
      b[i][0] = from[0];
      b[i][1] = from[32];
    }
    lines_tile own = tile;
    for (int chunk = 0; chunk < p.chunks; chunk++, weights += 27 * 64) {
      copies_wait();
      __syncthreads();
      lines_turn<T, WN>(x, own, lines, rows);
      __syncthreads();
      bool last = chunk + 1 == p.chunks;
      if (last && number + gridDim.x < tiles) tile = lines_tile_of(p, number + gridDim.x);
      if (!last || number + gridDim.x < tiles) lines_box_start<WN>(x, tile, last ? 0 : (chunk + 1) * 16, lines);
#pragma unroll 1
      for (int meeting = 0; meeting < 9; meeting++) {
        int from = row + meeting / 3 * form::BOX_LINES * LINES_ROW + meeting % 3;
        /* Behind the last meeting of all any weights do. */
        const uint4 *next = weights + (meeting == 8 && !last ? 27 * 64 : 0);
        int next_meeting = meeting == 8 ? 0 : meeting + 1;
#pragma unroll
        for (int l = 0; l < LINES_OF + 2; l++) {
          uint32_t a[4];
          matrices_load(a, rows + tile_element<16>(from + l * LINES_ROW, lane / 16));
#pragma unroll
          for (int i = 0; i < 3; i++) {
            if (l - i < 0 || l - i >= LINES_OF) continue;
            multiply<T>(sums[l - i][0], a, b[i][0].x, b[i][0].y);
            multiply<T>(sums[l - i][1], a, b[i][0].z, b[i][0].w);
            multiply<T>(sums[l - i][2], a, b[i][1].x, b[i][1].y);
            multiply<T>(sums[l - i][3], a, b[i][1].z, b[i][1].w);
          }
          if (l < LINES_OF - 1) continue;
          const uint4 *then = next + lines_tap(p.w, next_meeting, l - (LINES_OF - 1)) * 64;
          b[l - (LINES_OF - 1)][0] = then[0];
          b[l - (LINES_OF - 1)][1] = then[32];
        }
      }
    }

    __syncthreads();
    int64_t at[2];
#pragma unroll
    for (int i = 0; i < 2; i++) {
      int a = own.first[0] + plane, l = own.first[1] + line + i * 2 + lane / 16, c = own.first[2] + lane % 16;
      const int to[] = {p.w.to_first[0] + a, p.w.to_first[1] + l, p.w.to_first[2] + c};
      bool there = a < p.w.places[0] && l < p.w.places[1] && c < p.w.places[2];
      at[i] = there ? linear_at(p.w.to, to) : -1;
    }
    tile_put(p, sums, own.sample, block, at, (float *)rows + warp * 8 * TILE_LINE);
  }
}

/* ---- launches ---- */

template <typename T, int WN> static void lines_form_launch(const hr_call *call, const tile_call<T> &p, int64_t tiles) {
  int64_t source[HR_CONV_AXES] = {p.w.source[0], p.w.source[1], p.w.source[2]};
  int64_t together = 2 * (int64_t)device_state(call)->multiprocessors;
  launch(lines_kernel<T, WN>, (unsigned)(tiles < together ? tiles : together), 32 * LINES_WARPS, lines_form<WN>::SHARED,
         call_stream(call), p, lines_tensor_of(p.from, p.channels, source), tiles);
}

template <typename T> static void lines_launch(const hr_call *call, const tile_call<T> &p, int64_t tiles) {
  if (p.columns <= 32)
    lines_form_launch<T, 1>(call, p, tiles);
  else if (p.columns <= 64)
    lines_form_launch<T, 2>(call, p, tiles);
  else
    lines_form_launch<T, 4>(call, p, tiles);
}

template <typename T, int WN> static bool lines_allow_form(void) {
  return cudaFuncSetAttribute((const void *)lines_kernel<T, WN>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                              lines_form<WN>::SHARED) == cudaSuccess;
}
template <typename T> static bool lines_allow(void) {
  return lines_allow_form<T, 1>() && lines_allow_form<T, 2>() && lines_allow_form<T, 4>();
}

#define LINES_TYPE(T)                                                                                                  \
  (const void *)lines_kernel<T, 1>, (const void *)lines_kernel<T, 2>, (const void *)lines_kernel<T, 4>

#endif
