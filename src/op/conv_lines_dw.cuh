/* dW of convolutions of 16-bit types with windows of 3 x 3 x 3 that move by one. The sums run over places, and places
 * are what lies side by side in [channels, places]: lines of dy and of x lie in shared memory as they do in the
 * tensors, copied there while the planes before them are multiplied, and nothing is turned around.
 *
 * A block has 32 channels of dy and of x and goes through the planes (first axis) of tiles of 4 lines of 32 places. Its
 * ring holds three planes of x, each read once, and the one to come. Warp (plane of the window, 8 channels of x) sums
 * nine taps for all 32 channels of dy. Words of two places are as dy has them; a tap beside the middle one meets x by
 * a word of two neighbours' halves. A line of dy stays in registers for the three lines of x that it meets.
 *
 * In wavefronts of shared memory (128 bytes) a product of [16, 16] and [16, 8] reads 0.9: of 4 lines of 16 places dy
 * has 8 each and six lines of x 6 each, for 72 products.
 */
#ifndef HR_OP_CONV_LINES_DW_CUH
#define HR_OP_CONV_LINES_DW_CUH

#include "op/conv_lines.cuh"

enum {
  LINES_DW_CHANNELS = HR_CONV_LINES_CHANNELS,
  LINES_DW_OF = HR_CONV_LINES,
  LINES_DW_WIDTH = HR_CONV_LINES_WIDTH,
  LINES_DW_THREADS = 3 * LINES_DW_CHANNELS / 8 * 32,
  LINES_DW_RING = 4,                                           /* planes of x */
  LINES_DW_X = LINES_DW_OF + 2,                                /* lines of x that meet those of dy */
  LINES_DW_X_WORDS = LINES_DW_WIDTH / 2 + 2,                   /* two places more, from an odd one on */
  LINES_DW_X_CHANNEL = LINES_DW_X * LINES_DW_X_WORDS,          /* words from a channel to the next: 8 channels of 4 */
  LINES_DW_Y_CHANNEL = LINES_DW_OF * (LINES_DW_WIDTH / 2) + 4, /*   words each lie in all banks */
  LINES_DW_X_PLANE = LINES_DW_CHANNELS * LINES_DW_X_CHANNEL,   /* words */
  LINES_DW_Y_PLANE = LINES_DW_CHANNELS * LINES_DW_Y_CHANNEL,
  LINES_DW_SHARED = (LINES_DW_RING * LINES_DW_X_PLANE + 2 * LINES_DW_Y_PLANE) * 4 /* bytes */
};
static_assert(LINES_DW_X_CHANNEL % 8 == 4 && LINES_DW_Y_CHANNEL % 8 == 4, "no conflicts of banks");
static_assert(LINES_DW_OF * (LINES_DW_WIDTH / 2 + 1) <= LINES_DW_Y_CHANNEL, "lines from an odd place on fit as well");
static_assert((int)LINES_DW_SHARED <= (int)HR_CONV_TILE_SHARED, "all GPUs have it");

struct lines_dw_call {
  lines_tensor dy, x;
  float *sums; /* [parts, K, C, 27] */
  int padding[HR_CONV_AXES];
  int64_t tiles_all, parts;
  int outs, ins, tiles[2]; /* blocks of channels; tiles along the second and the third axis */
};

/* Starts copies of WORDS words of each of COUNT lines of 32 channels, from the word of element `w` on; zeros where
 * there are no elements. CHANNEL: words of a channel in shared memory. A thread has the same word of several channels.
 */
template <int COUNT, int WORDS, int CHANNEL>
__device__ inline void lines_start(const lines_tensor &t, int64_t sample, int first_channel, int plane, int line, int w,
                                   uint32_t *to) {
  constexpr int EACH = COUNT * WORDS, TOGETHER = LINES_DW_THREADS / EACH;
  int own = (int)threadIdx.x / EACH, number = (int)threadIdx.x % EACH, left = t.channels - first_channel;
  if (own >= TOGETHER) return;
  line += number / WORDS;
  w += number % WORDS * 2 - lines_odd(t, plane, line, w);
  bool inside = (unsigned)line < (unsigned)t.size[1];
  bool low = inside && (unsigned)w < (unsigned)t.size[2], high = inside && (unsigned)(w + 1) < (unsigned)t.size[2];
  const uint16_t *from = t.from + (sample * t.channels + first_channel + own) * t.channel +
                         ((int64_t)plane * t.size[1] + line) * t.size[2] + w;
  lines_words_start<TOGETHER, LINES_DW_CHANNELS, CHANNEL>(t, from, low, high, own, left, to + own * CHANNEL + number);
}

/* Where a block is: planes of x in the order in which it goes through them. Parts take tiles in turn, those next to
 * each other across the lines at the same time: the lines that they share are in the second-level cache. */
struct lines_place {
  int64_t tile, sample;
  int line, w; /* of dy, the tile's first */
  int plane;   /* of x */
};

__device__ inline void lines_dw_tile(const lines_dw_call &p, int64_t tile, lines_place *at) {
  at->tile = tile;
  at->line = (int)(tile % p.tiles[0]) * LINES_DW_OF;
  at->w = (int)(tile / p.tiles[0] % p.tiles[1]) * LINES_DW_WIDTH;
  at->sample = tile / p.tiles[1] / p.tiles[0];
  at->plane = 0;
}
__device__ inline void lines_next(const lines_dw_call &p, lines_place *at) {
  if (++at->plane == p.x.size[0]) lines_dw_tile(p, at->tile + p.parts, at);
}

/* A plane of dy is multiplied when the plane of x in the middle of its windows is reached. */
template <int WORDS>
__device__ inline void lines_y_start(const lines_dw_call &p, const lines_place &at, int out, uint32_t *to) {
  int plane = at.plane - 1 + p.padding[0];
  if (plane >= 0 && plane < p.dy.size[0])
    lines_start<LINES_DW_OF, WORDS, LINES_DW_Y_CHANNEL>(p.dy, at.sample, out, plane, at.line, at.w, to);
}
__device__ inline void lines_x_start(const lines_dw_call &p, const lines_place &at, int in, uint32_t *to) {
  lines_start<LINES_DW_X, LINES_DW_X_WORDS, LINES_DW_X_CHANNEL>(p.x, at.sample, in, at.plane, at.line - p.padding[1],
                                                                at.w - p.padding[2], to);
}

/* 16 places of a line of dy, 32 channels: two matrices. EVEN: lines begin with whole words. */
template <bool EVEN>
__device__ inline void lines_y_load(const uint32_t *words, int line, int odd, int block, uint32_t (&a)[2][4]) {
  int lane = (int)threadIdx.x % 32;
#pragma unroll
  for (int m = 0; m < 2; m++) {
    if constexpr (EVEN) {
      int channel = m * 16 + lane / 8 % 2 * 8 + lane % 8;
      matrices_load(a[m],
                    words + channel * LINES_DW_Y_CHANNEL + line * (LINES_DW_WIDTH / 2) + block * 8 + lane / 16 * 4);
    } else {
      uint32_t halves = odd ? 0x5432 : 0x3210;
      const uint32_t *from =
          words + (m * 16 + lane / 4) * LINES_DW_Y_CHANNEL + line * (LINES_DW_WIDTH / 2 + 1) + block * 8 + lane % 4;
#pragma unroll
      for (int word = 0; word < 4; word++) {
        const uint32_t *pair = from + word % 2 * 8 * LINES_DW_Y_CHANNEL + word / 2 * 4;
        a[m][word] = __byte_perm(pair[0], pair[1], halves);
      }
    }
  }
}

/* 16 places of a line of x, 8 channels, as the window's three taps along the line meet them. */
__device__ inline void lines_x_load(const uint32_t *words, int line, int odd, int block, uint32_t (&b)[3][2]) {
  int lane = (int)threadIdx.x % 32;
  uint32_t here = odd ? 0x5432 : 0x3210, behind = odd ? 0x7654 : 0x5432;
  const uint32_t *from = words + lane / 4 * LINES_DW_X_CHANNEL + line * LINES_DW_X_WORDS + block * 8 + lane % 4;
#pragma unroll
  for (int half = 0; half < 2; half++) {
    uint32_t x[3] = {from[half * 4], from[half * 4 + 1], from[half * 4 + 2]};
    b[0][half] = __byte_perm(x[0], x[1], here);
    b[1][half] = __byte_perm(x[0], x[1], behind);
    b[2][half] = __byte_perm(x[1], x[2], here);
  }
}

template <typename T, bool EVEN>
static __global__ void __launch_bounds__(LINES_DW_THREADS, 1) lines_dw_kernel(const __grid_constant__ lines_dw_call p) {
  constexpr int Y_WORDS = LINES_DW_WIDTH / 2 + (EVEN ? 0 : 1);
  uint32_t *x = launch_shared<uint32_t>(), *y = x + LINES_DW_RING * LINES_DW_X_PLANE;
  int in = (int)(blockIdx.x % p.ins) * LINES_DW_CHANNELS, out = (int)(blockIdx.x / p.ins % p.outs) * LINES_DW_CHANNELS;
  int64_t part = blockIdx.x / p.ins / p.outs;
  int planes = (int)((p.tiles_all - part - 1) / p.parts + 1) * p.x.size[0];
  int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32, of_window = warp / 4 - 1, eight = warp % 4;
  bool some = in + eight * 8 < p.x.channels; /* or its channels are none */

  lines_place at, ahead, to_come; /* the plane in the middle, one and two behind it */
  lines_dw_tile(p, part, &at);
  ahead = at;
  lines_next(p, &ahead);
  to_come = ahead;
  lines_next(p, &to_come);
  lines_x_start(p, at, in, x);
  if (planes > 1) lines_x_start(p, ahead, in, x + LINES_DW_X_PLANE);
  lines_y_start<Y_WORDS>(p, at, out, y);

  float sums[3][3][2][4] = {}; /* [line and place of the window, 16 channels of dy] */
  for (int number = 0; number < planes; number++) {
    copies_wait();
    __syncthreads();
    if (number + 2 < planes) lines_x_start(p, to_come, in, x + (number + 2) % LINES_DW_RING * LINES_DW_X_PLANE);
    if (number + 1 < planes) lines_y_start<Y_WORDS>(p, ahead, out, y + (number + 1) % 2 * LINES_DW_Y_PLANE);
    int y_plane = at.plane - 1 + p.padding[0], x_plane = at.plane + of_window;
    if (some && y_plane >= 0 && y_plane < p.dy.size[0] && x_plane >= 0 && x_plane < p.x.size[0]) {
      const uint32_t *y_words = y + number % 2 * LINES_DW_Y_PLANE;
      const uint32_t *x_words =
          x + (number + of_window) % LINES_DW_RING * LINES_DW_X_PLANE + eight * 8 * LINES_DW_X_CHANNEL;
      int y_odd = lines_odd(p.dy, y_plane, at.line, at.w), y_step = lines_step(p.dy);
      int x_odd = lines_odd(p.x, x_plane, at.line - p.padding[1], at.w - p.padding[2]), x_step = lines_step(p.x);
      int blocks = min(LINES_DW_WIDTH / 16, (p.dy.size[2] - at.w + 15) / 16);
      for (int block = 0; block < blocks; block++) {
        uint32_t a[3][2][4], b[3][2];
#pragma unroll
        for (int line = 0; line < LINES_DW_X; line++) {
          if (line < LINES_DW_OF) lines_y_load<EVEN>(y_words, line, y_odd ^ (line & y_step), block, a[line % 3]);
          lines_x_load(x_words, line, x_odd ^ (line & x_step), block, b);
#pragma unroll
          for (int i = 0; i < 3; i++) {
            if (line - i < 0 || line - i >= LINES_DW_OF) continue;
#pragma unroll
            for (int j = 0; j < 3; j++)
#pragma unroll
              for (int m = 0; m < 2; m++)
                multiply<T>(sums[i][j][m], a[(line - i) % 3][m], b[j][0], b[j][1]);
          }
        }
      }
    }
    at = ahead;
    ahead = to_come;
    lines_next(p, &to_come);
  }

  float *to = p.sums + part * p.dy.channels * p.x.channels * 27 + (of_window + 1) * 9;
#pragma unroll
  for (int i = 0; i < 3; i++)
#pragma unroll
    for (int j = 0; j < 3; j++)
#pragma unroll
      for (int m = 0; m < 2; m++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
          int k = out + m * 16 + e / 2 * 8 + lane / 4, c = in + eight * 8 + lane % 4 * 2 + e % 2;
          if (k < p.dy.channels && c < p.x.channels)
            to[((int64_t)k * p.x.channels + c) * 27 + i * 3 + j] = sums[i][j][m][e];
        }
}

/* The sums of parts, [parts, dW]. */
template <typename T>
static hr_status lines_dw_run(const hr_call *call, const hr_conv_sizes &s, const hr_conv_dw_tile &d) {
  lines_dw_call p = {};
  p.dy = lines_tensor_of(call->in[0].data, s.out, s.y);
  p.x = lines_tensor_of(call->in[1].data, s.in, s.x);
  p.sums = (float *)call->workspace;
  for (int i = 0; i < HR_CONV_AXES; i++)
    p.padding[i] = (int)s.padding[i];
  p.tiles_all = d.tiles;
  p.parts = d.parts;
  p.outs = (int)d.outs;
  p.ins = (int)d.ins;
  p.tiles[0] = (int)divide_up(s.y[1], LINES_DW_OF);
  p.tiles[1] = (int)divide_up(s.y[2], LINES_DW_WIDTH);
  bool even = s.y[2] % 2 == 0 && aligned(call->in[0].data, 4);
  launch(even ? lines_dw_kernel<T, true> : lines_dw_kernel<T, false>, (unsigned)(d.parts * d.outs * d.ins),
         LINES_DW_THREADS, LINES_DW_SHARED, call_stream(call), p);
  return launched();
}

template <typename T> static bool lines_dw_allow(void) {
  return cudaFuncSetAttribute((const void *)lines_dw_kernel<T, true>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                              LINES_DW_SHARED) == cudaSuccess &&
         cudaFuncSetAttribute((const void *)lines_dw_kernel<T, false>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                              LINES_DW_SHARED) == cudaSuccess;
}

#define LINES_DW_TYPE(T) (const void *)lines_dw_kernel<T, true>, (const void *)lines_dw_kernel<T, false>

#endif
