/* dW of convolutions of 16-bit types: a block of threads goes through the tiles of a part of all places, with the box
 * of x and the places of dy as rows in shared memory (op/conv_tiles.cuh), and sums [32 channels of dy, 16 of x] for
 * each of up to 27 taps in registers. Windows of 3 x 3 x 3 that move by one mostly have a kernel of their own
 * (op/conv_lines_dw.cuh).
 */
#ifndef HR_OP_CONV_TILES_DW_CUH
#define HR_OP_CONV_TILES_DW_CUH

#include "op/conv_tiles.cuh"

enum { TILES_DW_THREADS = 32 * HR_CONV_DW_WARPS };

template <typename T> struct tile_dw_call {
  conv_steps w;
  const T *dy, *x;
  float *sums;            /* [parts, K, C, taps] */
  int64_t x_size, y_size; /* elements of a channel */
  int64_t tiles_all, parts;
  int outs, ins, groups; /* blocks of channels of dy, of x, of taps */
  int out, in, taps;     /* all channels, all taps */
  int of[HR_CONV_AXES], box[HR_CONV_AXES], tiles[HR_CONV_AXES];
};

/* TAPS: of a warp. Where there are fewer taps than warps, several warps share a tap and take every so many-th sixteen
 * places. */
template <typename T, int TAPS>
static __global__ void __launch_bounds__(TILES_DW_THREADS, 2)
    tiles_dw_kernel(const __grid_constant__ tile_dw_call<T> p) {
  constexpr int COUNT = HR_CONV_DW_COUNT, BLOCK_TAPS = HR_CONV_DW_WARPS * TAPS;
  __shared__ int deltas[BLOCK_TAPS], lines[COUNT], y_places[COUNT];
  int box = p.box[0] * p.box[1] * p.box[2];
  T *dy = launch_shared<T>(), *x = dy + COUNT * HR_CONV_DW_OUT;
  int *x_places = (int *)(x + (int64_t)box * HR_CONV_DW_IN);
  int64_t number = blockIdx.x;
  int in = (int)(number % p.ins) * HR_CONV_DW_IN, out = (int)(number / p.ins % p.outs) * HR_CONV_DW_OUT;
  number /= (int64_t)p.ins * p.outs;
  int first_tap = (int)(number % p.groups) * BLOCK_TAPS, taps = min(p.taps - first_tap, (int)BLOCK_TAPS);
  int64_t part = number / p.groups;

  for (int tap = (int)threadIdx.x; tap < BLOCK_TAPS; tap += TILES_DW_THREADS) {
    int away[HR_CONV_AXES];
    tap_at<HR_CONV_AXES>(p.w, first_tap + min(tap, taps - 1), away);
    deltas[tap] = linear_at(p.box, away);
  }
  for (int place = (int)threadIdx.x; place < COUNT; place += TILES_DW_THREADS) {
    const int at[] = {place / p.of[2] / p.of[1] * p.w.step[0], place / p.of[2] % p.of[1] * p.w.step[1],
                      place % p.of[2] * p.w.step[2]};
    lines[place] = (int)linear_at(p.box, at);
  }

  int lane = threadIdx.x % 32, warp = threadIdx.x / 32, i = lane / 8, r = lane % 8;
  int tap_groups = (taps - 1) / TAPS + 1, together = HR_CONV_DW_WARPS / tap_groups;
  int own = warp % tap_groups * TAPS, turn = warp / tap_groups;
  float sums[TAPS][2][2][4] = {};
  int64_t end = p.tiles_all * (part + 1) / p.parts;
  for (int64_t tile = p.tiles_all * part / p.parts; tile < end; tile++) {
    int first[HR_CONV_AXES], start[HR_CONV_AXES];
    int64_t sample = tile;
    for (int d = HR_CONV_AXES - 1; d >= 0; d--) {
      first[d] = (int)(sample % p.tiles[d]) * p.of[d];
      sample /= p.tiles[d];
      start[d] = first[d] * p.w.step[d] + p.w.first[d];
    }
    __syncthreads(); /* the tile before is done */
    box_places<TILES_DW_THREADS>(p.w, p.box, start, 1, 0, x_places);
    for (int place = (int)threadIdx.x; place < COUNT; place += TILES_DW_THREADS) {
      const int at[] = {first[0] + place / p.of[2] / p.of[1], first[1] + place / p.of[2] % p.of[1],
                        first[2] + place % p.of[2]};
      bool there = at[0] < p.w.places[0] && at[1] < p.w.places[1] && at[2] < p.w.places[2];
      y_places[place] = there ? (int)linear_at(p.w.places, at) : -1;
    }
    __syncthreads();
    rows_turn<T, HR_CONV_DW_OUT, TILES_DW_THREADS>(p.dy + (sample * p.out + out) * p.y_size, p.y_size, p.out - out,
                                                   y_places, COUNT, dy);
    rows_turn<T, HR_CONV_DW_IN, TILES_DW_THREADS>(p.x + (sample * p.in + in) * p.x_size, p.x_size, p.in - in, x_places,
                                                  box, x);
    __syncthreads();
    if (turn >= together) continue;
    for (int step = turn; step < COUNT / 16; step += together) {
      uint32_t a[2][4];
#pragma unroll
      for (int m = 0; m < 2; m++)
        matrices_load_transposed(a[m], dy + tile_element<HR_CONV_DW_OUT>(step * 16 + i / 2 * 8 + r, m * 2 + i % 2));
      int line = lines[step * 16 + i % 2 * 8 + r];
#pragma unroll
      for (int tap = 0; tap < TAPS; tap++) {
        uint32_t b[4];
        matrices_load_transposed(b, x + tile_element<HR_CONV_DW_IN>(line + deltas[own + tap], i / 2));
#pragma unroll
        for (int m = 0; m < 2; m++) {
          multiply<T>(sums[tap][m][0], a[m], b[0], b[1]);
          multiply<T>(sums[tap][m][1], a[m], b[2], b[3]);
        }
      }
    }
  }

  /* Warps that share taps: into the first one's sums, in their order. */
  float *shared = (float *)launch_shared<T>() + (warp % tap_groups * 32 + lane) * TAPS * 16, *flat = &sums[0][0][0][0];
  for (int other = 1; other < together; other++) {
    __syncthreads();
    if (turn == other)
#pragma unroll
      for (int e = 0; e < TAPS * 16; e++)
        shared[e] = flat[e];
    __syncthreads();
    if (turn == 0)
#pragma unroll
      for (int e = 0; e < TAPS * 16; e++)
        flat[e] += shared[e];
  }
  if (turn != 0) return;
  int q = lane / 4, t = lane % 4;
  float *to = p.sums + part * p.out * p.in * p.taps;
#pragma unroll
  for (int tap = 0; tap < TAPS; tap++)
#pragma unroll
    for (int m = 0; m < 2; m++)
#pragma unroll
      for (int n = 0; n < 2; n++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
          int64_t k = out + m * 16 + e / 2 * 8 + q, c = in + n * 8 + 2 * t + e % 2;
          if (own + tap < taps && k < p.out && c < p.in)
            to[(k * p.in + c) * p.taps + first_tap + own + tap] = sums[tap][m][n][e];
        }
}

static size_t tiles_dw_shared(const hr_conv_tile &t) {
  size_t box = (size_t)(t.box[0] * t.box[1] * t.box[2]);
  return (size_t)HR_CONV_DW_COUNT * HR_CONV_DW_OUT * 2 + box * HR_CONV_DW_IN * 2 + box * sizeof(int);
}

/* The sums of parts, [parts, dW]. */
template <typename T>
static hr_status tiles_dw_run(const hr_call *call, const hr_conv_sizes &s, const hr_conv_dw_tile &d) {
  tile_dw_call<T> p = {};
  p.w = steps_of(s, hr__conv_walk(&s));
  p.dy = (const T *)call->in[0].data;
  p.x = (const T *)call->in[1].data;
  p.sums = (float *)call->workspace;
  p.x_size = hr__conv_volume(s.x);
  p.y_size = hr__conv_volume(s.y);
  p.tiles_all = d.tiles;
  p.parts = d.parts;
  p.outs = (int)d.outs;
  p.ins = (int)d.ins;
  p.groups = (int)d.groups;
  p.out = (int)s.out;
  p.in = (int)s.in;
  p.taps = (int)hr__conv_volume(s.kernel);
  for (int i = 0; i < HR_CONV_AXES; i++) {
    p.of[i] = d.tile.of[i];
    p.box[i] = d.tile.box[i];
    p.tiles[i] = (int)d.tile.tiles[i];
  }
  unsigned blocks = (unsigned)(d.parts * d.groups * d.outs * d.ins);
  launch(d.warp_taps == 1 ? tiles_dw_kernel<T, 1> : tiles_dw_kernel<T, 3>, blocks, TILES_DW_THREADS,
         tiles_dw_shared(d.tile), call_stream(call), p);
  return launched();
}

template <typename T> static bool tiles_dw_allow(void) {
  return cudaFuncSetAttribute((const void *)tiles_dw_kernel<T, 1>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                              HR_CONV_TILE_SHARED) == cudaSuccess &&
         cudaFuncSetAttribute((const void *)tiles_dw_kernel<T, 3>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                              HR_CONV_TILE_SHARED) == cudaSuccess;
}

#define TILES_DW_TYPE(T)   (const void *)tiles_dw_kernel<T, 1>, (const void *)tiles_dw_kernel<T, 3>
#define TILES_DW_FUNCTIONS TILES_DW_TYPE(bf16), TILES_DW_TYPE(f16)

#endif
