/* conv and conv_dx by products of warpgroups (op/conv_warpgroups.h), on GPUs that have them.
 *
 * Two warpgroups multiply, each for 64 rows (channels of the result) and 256 places. Seven warps bring the source
 * (op/conv_warpgroups_read.cuh): the box of a tile lies there once for all lines and places of the window. One lane
 * more brings weights, which lie in the workspace in the order of their use.
 *
 * Rings of boxes and of weights, with barriers for what is full and what is empty, keep them apart. A block goes
 * through several tiles, and what the next one needs comes while the one before is written.
 */
#include "op/conv_warpgroups_read.cuh"

#include "dev/cuda/warpgroup.cuh"

enum {
  GROUP_PLACES = 256, /* of a warpgroup */
  READERS = 7,        /* warps that bring the source */
  GROUPS_THREADS = 256 + (READERS + 1) * 32,
  GROUP_LINE = 64 + 4,   /* floats of a channel on its way out: 64 places, and 4 against conflicts */
  READER_REGISTERS = 64, /* of a thread: 65,536 for 256 threads of either kind */
  GROUP_REGISTERS = 192
};

struct groups_call {
  const uint16_t *from;
  const void *weights, *bias, *add; /* bias, add: NULL: none; add may be the result */
  void *to;
  int64_t from_size, to_size; /* elements of a channel */
  int channels, columns, chunks, blocks, planes;
  int source[HR_CONV_AXES], places[HR_CONV_AXES], start[HR_CONV_AXES]; /* start: of place 0's window */
  int lines, taps;                                                     /* of a plane of the window */
  strip_lines strip;
  int valid, pitch, box, strips, tiles, plane_tiles;
  bool words; /* all channels begin alike, so that two places can be read as a word */
  int64_t all;
};

template <int COLUMNS_, int CHANNELS_, bool PAIR_> struct groups_form {
  static constexpr int COLUMNS = COLUMNS_, CHANNELS = CHANNELS_, UNITS = CHANNELS / 8;
  static constexpr bool PAIR = PAIR_;
  static constexpr int PLACES = COLUMNS == 64 ? 512 : 256, BOX = COLUMNS == 64 ? 648 : 392;
  static constexpr int BOXES = CHANNELS == 32 ? 4 : COLUMNS == 64 ? 2 : 3, BOX_BYTES = BOX * CHANNELS * 2;
  static constexpr int TAPS = CHANNELS == 32  ? (COLUMNS == 64 ? 8 : 6)
                              : COLUMNS == 64 ? 4
                                              : 3,
                       TAP_BYTES = COLUMNS * CHANNELS * 2;
  static constexpr int OUT_BYTES = 8 * 8 * GROUP_LINE * 4;
  static constexpr int SHARED = BOXES * BOX_BYTES + TAPS * TAP_BYTES + OUT_BYTES + 16 * (BOXES + TAPS);
  static_assert(SHARED <= 227 << 10, "GPUs of compute capability 9.0 have it");
};

/* The tile's channels of the result, first plane (of a pair), strip, first place of the strip, sample. Tiles behind
 * each other in planes are neighbours in time, then strips: what their boxes share is in the second-level cache. */
struct groups_tile {
  int block, plane, strip, first;
  int64_t sample;
};

template <typename FORM> __device__ inline groups_tile groups_tile_of(const groups_call &p, int64_t number) {
  groups_tile t;
  t.block = (int)(number % p.blocks);
  number /= p.blocks;
  t.plane = (int)(number % p.plane_tiles) * (FORM::PAIR ? 2 : 1);
  number /= p.plane_tiles;
  t.strip = (int)(number % p.strips);
  number /= p.strips;
  t.first = (int)(number % p.tiles) * FORM::PLACES;
  t.sample = number / p.tiles;
  return t;
}

/* The barriers and stages of a block's shared memory. */
template <typename T, typename FORM> struct groups_shared {
  unsigned char *boxes, *taps;
  float *out;
  uint64_t *full_box, *empty_box, *full_tap, *empty_tap;
  __device__ groups_shared(void) {
    boxes = launch_shared<unsigned char>();
    taps = boxes + FORM::BOXES * FORM::BOX_BYTES;
    out = (float *)(taps + FORM::TAPS * FORM::TAP_BYTES);
    full_box = (uint64_t *)((unsigned char *)out + FORM::OUT_BYTES);
    empty_box = full_box + FORM::BOXES;
    full_tap = empty_box + FORM::BOXES;
    empty_tap = full_tap + FORM::TAPS;
  }
};

/* function(chunk, plane of the window, plane of the source) for what a tile meets. */
template <typename F>
__device__ inline void groups_each_box(const groups_call &p, const groups_tile &t, const F &function) {
  for (int chunk = 0; chunk < p.chunks; chunk++)
    for (int o = 0; o < p.planes; o++)
      if ((unsigned)(t.plane + p.start[0] + o) < (unsigned)p.source[0]) function(chunk, o, t.plane + p.start[0] + o);
}

/* ---- the source ---- */

template <typename T, typename FORM>
__device__ inline void groups_read(const groups_call &p, const groups_shared<T, FORM> &shared, int warp) {
  ring_place<FORM::BOXES> at(1);
  for (int64_t number = blockIdx.x; number < p.all; number += gridDim.x) {
    groups_tile t = groups_tile_of<FORM>(p, number);
    groups_each_box(p, t, [&](int chunk, int, int plane) {
      round_wait(shared.empty_box + at.stage, at.parity);
      int channel = chunk * FORM::CHANNELS;
      strip_piece x;
      x.plane = p.from + (t.sample * p.channels + channel) * p.from_size + (int64_t)plane * p.source[1] * p.source[2];
      x.channel = p.from_size;
      x.left = p.channels - channel;
      x.lines = p.source[1];
      x.places = x.end = p.source[2];
      x.y = p.start[1];
      x.x = t.strip * p.valid + p.start[2];
      x.first = t.first;
      x.count = p.box;
      unsigned char *to = shared.boxes + at.stage * FORM::BOX_BYTES;
      if (p.words)
        piece_read_words<FORM::UNITS, FORM::BOX, FORM::UNITS / 2, READERS>(p.strip, x, warp, to);
      else
        piece_read_halves<FORM::UNITS, FORM::BOX, READERS>(p.strip, x, warp, to);
      stores_publish();
      __syncwarp();
      if (threadIdx.x % 32 == 0) round_arrive(shared.full_box + at.stage);
      at.next();
    });
  }
}

/* By one thread. */
template <typename T, typename FORM>
__device__ inline void groups_bring_weights(const groups_call &p, const groups_shared<T, FORM> &shared) {
  ring_place<FORM::TAPS> at(1);
  for (int64_t number = blockIdx.x; number < p.all; number += gridDim.x) {
    groups_tile t = groups_tile_of<FORM>(p, number);
    groups_each_box(p, t, [&](int chunk, int o, int) {
      int64_t first = (((int64_t)t.block * p.chunks + chunk) * p.planes + o) * p.lines * p.taps;
      for (int tap = 0; tap < p.lines * p.taps; tap++) {
        round_wait(shared.empty_tap + at.stage, at.parity);
        round_expect(shared.full_tap + at.stage, FORM::TAP_BYTES);
        copy_bytes_start(shared.taps + at.stage * FORM::TAP_BYTES,
                         (const unsigned char *)p.weights + (first + tap) * FORM::TAP_BYTES, FORM::TAP_BYTES,
                         shared.full_tap + at.stage);
        at.next();
      }
    });
  }
}

/* ---- products ---- */

/* A warpgroup's sums, [64 rows, 2 x 128 places], to the result. `first`: the first place of its strip; channels of the
 * result from `column` on are the warp's 16 rows. */
template <typename T>
__device__ inline void groups_put(const groups_call &p, const groups_tile &t, const float (&sums)[2][64], int plane,
                                  int first, int column, float *line) {
  int lane = (int)threadIdx.x % 32, q = lane / 4, two = lane % 4 * 2;
  const T *bias = (const T *)p.bias, *add = (const T *)p.add;
#pragma unroll
  for (int part = 0; part < GROUP_PLACES / 64; part++) {
    int64_t at[2];
#pragma unroll
    for (int i = 0; i < 2; i++) {
      int place = first + part * 64 + i * 32 + lane, y = place / p.pitch, own = place - y * p.pitch;
      int x = t.strip * p.valid + own;
      bool there = plane < p.places[0] && own < p.valid && y < p.places[1] && x < p.places[2];
      at[i] = there ? ((int64_t)plane * p.places[1] + y) * p.places[2] + x : -1;
    }
#pragma unroll
    for (int half = 0; half < 2; half++) {
#pragma unroll
      for (int j = 0; j < 8; j++) {
        const float *d = &sums[part / 2][(part % 2 * 8 + j) * 4 + half * 2];
        *(float2 *)(line + q * GROUP_LINE + j * 8 + two) = make_float2(d[0], d[1]);
      }
      __syncwarp();
      int own = column + half * 8, left = p.columns - own;
      int64_t channel = (t.sample * p.columns + own) * p.to_size;
      float value[8][2];
#pragma unroll
      for (int c = 0; c < 8; c++) {
        float b = bias && c < left ? to_float(bias[own + c]) : 0.0f;
#pragma unroll
        for (int i = 0; i < 2; i++)
          value[c][i] = line[c * GROUP_LINE + i * 32 + lane] + b;
      }
      if (add) {
#pragma unroll
        for (int c = 0; c < 8; c++)
#pragma unroll
          for (int i = 0; i < 2; i++)
            if (at[i] >= 0 && c < left) value[c][i] += to_float(add[channel + c * p.to_size + at[i]]);
      }
#pragma unroll
      for (int i = 0; i < 2; i++) {
        T *to = (T *)p.to + channel + at[i];
        if (at[i] < 0) continue;
#pragma unroll
        for (int c = 0; c < 8; c++, to += p.to_size)
          if (c < left) *to = from_float<T>(value[c][i]);
      }
      __syncwarp();
    }
  }
}

template <typename T, typename FORM>
__device__ inline void groups_multiply(const groups_call &p, const groups_shared<T, FORM> &shared, int group) {
  constexpr bool WIDE = FORM::COLUMNS == 128; /* warpgroups have other rows, else other places */
  int warp = (int)threadIdx.x / 32;
  bool first_lane = threadIdx.x % 32 == 0; /* each warp says that it is done: others may still read */
  const unsigned char *boxes = shared.boxes + (WIDE ? 0 : group * GROUP_PLACES * 16);
  const unsigned char *taps = shared.taps + (WIDE ? group * 64 * 16 : 0);
  ring_place<FORM::BOXES> box(0);
  ring_place<FORM::TAPS> tap(0);
  float sums[2][64];
  for (int64_t number = blockIdx.x; number < p.all; number += gridDim.x) {
    groups_tile t = groups_tile_of<FORM>(p, number);
    bool more = false;
    groups_each_box(p, t, [&](int, int, int) {
      round_wait(shared.full_box + box.stage, box.parity);
      int before = -1; /* the stage of the tap that may be under way still */
      for (int i = 0; i < p.lines; i++)
        for (int j = 0; j < p.taps; j++) {
          round_wait(shared.full_tap + tap.stage, tap.parity);
          const unsigned char *x = boxes + box.stage * FORM::BOX_BYTES + (i * p.pitch + j) * 16,
                              *w = taps + tap.stage * FORM::TAP_BYTES;
          products_begin();
#pragma unroll
          for (int k = 0; k < FORM::CHANNELS / 16; k++) {
            uint64_t a = matrices_at(w + k * 2 * FORM::COLUMNS * 16, FORM::COLUMNS * 16, 128);
#pragma unroll
            for (int n = 0; n < 2; n++)
              warpgroup_multiply<T>(sums[n], a,
                                    matrices_at(x + (k * 2 * FORM::BOX + n * 128) * 16, FORM::BOX * 16, 128), more);
            more = true;
          }
          products_end();
          products_wait<1>();
          if (before >= 0 && first_lane) round_arrive(shared.empty_tap + before);
          before = tap.stage;
          tap.next();
        }
      products_wait<0>();
      if (first_lane) {
        round_arrive(shared.empty_tap + before);
        round_arrive(shared.empty_box + box.stage);
      }
      box.next();
    });
    int rows = warp % 4 * 16, column = t.block * FORM::COLUMNS + (WIDE ? group * 64 : 0) + rows, plane = t.plane;
    if (FORM::PAIR) { /* rows from 32 on are of the first plane */
      column = rows % 32;
      plane += 1 - rows / 32;
    }
    groups_put<T>(p, t, sums, plane, t.first + (WIDE ? 0 : group * GROUP_PLACES), column,
                  shared.out + warp * 8 * GROUP_LINE);
  }
}

template <typename T, typename FORM>
static __global__ void __launch_bounds__(GROUPS_THREADS, 1) groups_kernel(const __grid_constant__ groups_call p) {
  groups_shared<T, FORM> shared;
  if (threadIdx.x == 0) {
    for (int i = 0; i < FORM::BOXES; i++) {
      rounds_init(shared.full_box + i, READERS);
      rounds_init(shared.empty_box + i, 8);
    }
    for (int i = 0; i < FORM::TAPS; i++) {
      rounds_init(shared.full_tap + i, 1);
      rounds_init(shared.empty_tap + i, 8);
    }
    rounds_publish();
  }
  __syncthreads();
  int group = __shfl_sync(~0u, (int)threadIdx.x / 128, 0);
  if (group >= 2) {
    registers_give<READER_REGISTERS>();
    int warp = __shfl_sync(~0u, (int)threadIdx.x / 32, 0) - 8;
    if (warp < READERS)
      groups_read<T, FORM>(p, shared, warp);
    else if (threadIdx.x % 32 == 0)
      groups_bring_weights<T, FORM>(p, shared);
  } else {
    registers_take<GROUP_REGISTERS>();
    groups_multiply<T, FORM>(p, shared, group);
  }
}

/* ---- weights ---- */

/* To [blocks of columns, chunks, planes, taps, channels / 8, columns, 8]. Rows of a pair: from 32 on the first plane's,
 * in front of them the second one's, whose window begins a plane later. */
struct groups_weights {
  int64_t column, channel; /* elements of W from one to the next */
  int columns, channels, chunks, planes, taps, plane_taps;
  int block, chunk; /* columns and channels of a block */
  bool pair, back;  /* back: windows are met from behind */
};

template <typename T>
static __global__ void __launch_bounds__(256)
    groups_weights_kernel(const T *from, T *to, const __grid_constant__ groups_weights s, int64_t count) {
  int64_t i = (int64_t)blockIdx.x * 256 + threadIdx.x;
  if (i >= count) return;
  int64_t rest = i / 8;
  int row = (int)(rest % s.block);
  rest /= s.block;
  int unit = (int)(rest % (s.chunk / 8));
  rest /= s.chunk / 8;
  int tap = (int)(rest % s.plane_taps);
  rest /= s.plane_taps;
  int plane = (int)(rest % s.planes);
  rest /= s.planes;
  int channel = (int)(rest % s.chunks) * s.chunk + unit * 8 + (int)(i % 8);
  int column = (int)(rest / s.chunks) * s.block + row;
  if (s.pair) {
    column = row % 32;
    plane -= row < 32 ? 1 : 0;
  }
  int element = plane * s.plane_taps + tap;
  bool there = column < s.columns && channel < s.channels && plane >= 0 && element < s.taps;
  int64_t at = column * s.column + channel * s.channel + (s.back ? s.taps - 1 - element : element);
  to[i] = there ? from[at] : from_float<T>(0.0f);
}

/* ---- launches ---- */

template <typename T, typename FORM>
static hr_status groups_launch(const hr_call *call, const groups_call &p, const groups_weights &w) {
  int64_t count = (int64_t)p.blocks * p.chunks * p.planes * w.plane_taps * FORM::COLUMNS * FORM::CHANNELS;
  launch(groups_weights_kernel<T>, (unsigned)divide_up(count, 256), 256, 0, call_stream(call),
         (const T *)call->in[1].data, (T *)call->workspace, w, count);
  int64_t together = device_state(call)->multiprocessors;
  launch(groups_kernel<T, FORM>, (unsigned)(p.all < together ? p.all : together), GROUPS_THREADS, FORM::SHARED,
         call_stream(call), p);
  return launched();
}

typedef groups_form<64, 32, true> pair_form;
typedef groups_form<64, 32, false> narrow_form;
typedef groups_form<64, 64, false> square_form;
typedef groups_form<128, 32, false> tall_form;
typedef groups_form<128, 64, false> large_form;
typedef groups_form<64, 64, true> pair_large_form;

template <typename F> static hr_status by_form(const hr_conv_warpgroups &g, const F &function) {
  if (g.pair) return g.channels == 32 ? function(pair_form()) : function(pair_large_form());
  if (g.columns == 64) return g.channels == 32 ? function(narrow_form()) : function(square_form());
  return g.channels == 32 ? function(tall_form()) : function(large_form());
}

template <typename F> static hr_status by_half(hr_dtype dtype, const F &function) {
  return dtype == HR_BF16 ? function(bf16()) : function(f16());
}

hr_status hr__conv_warpgroups_run(const hr_call *call, const hr_conv_sizes &s, const hr_conv_walk &walk, bool forward,
                                  const void *bias, const void *add) {
  int64_t channels = forward ? s.in : s.out, columns = forward ? s.out : s.in, kernel = hr__conv_volume(s.kernel);
  hr_conv_warpgroups g;
  if (!hr__conv_warpgroups_of(&walk, channels, columns, &g)) return HR_FAILURE;
  groups_call p = {};
  p.from = (const uint16_t *)call->in[0].data;
  p.weights = call->workspace;
  p.bias = bias;
  p.add = add;
  p.to = call->out[0].data;
  p.from_size = hr__conv_volume(walk.source);
  p.to_size = hr__conv_volume(walk.to);
  p.channels = (int)channels;
  p.columns = (int)columns;
  p.chunks = (int)g.chunks;
  p.blocks = (int)g.blocks;
  p.planes = (int)g.planes;
  for (int d = 0; d < HR_CONV_AXES; d++) {
    p.source[d] = (int)walk.source[d];
    p.places[d] = (int)walk.places[d];
    p.start[d] = (int)(walk.first[d] + (walk.tap[d] < 0 ? (walk.taps[d] - 1) * walk.tap[d] : 0));
  }
  p.lines = (int)walk.taps[1];
  p.taps = (int)walk.taps[2];
  p.valid = g.valid;
  p.pitch = g.pitch;
  p.box = g.box;
  p.strips = (int)g.strips;
  p.tiles = (int)g.tiles;
  p.plane_tiles = (int)g.plane_tiles;
  p.strip = strip_lines_of(g.pitch);
  p.words = p.from_size % 2 == 0 && aligned(call->in[0].data, 4);
  p.all = g.blocks * g.plane_tiles * g.strips * g.tiles * s.samples;

  groups_weights w = {};
  w.column = forward ? s.in * kernel : kernel;
  w.channel = forward ? kernel : s.in * kernel;
  w.columns = p.columns;
  w.channels = p.channels;
  w.chunks = p.chunks;
  w.planes = p.planes;
  w.taps = (int)kernel;
  w.plane_taps = p.lines * p.taps;
  w.block = g.columns;
  w.chunk = g.channels;
  w.pair = g.pair;
  w.back = !forward;
  return by_half(call->in[0].desc.dtype, [&](auto t) {
    using T = decltype(t);
    return by_form(g, [&](auto f) { return groups_launch<T, decltype(f)>(call, p, w); });
  });
}

template <typename T, typename FORM> static bool groups_allow(void) {
  return cudaFuncSetAttribute((const void *)groups_kernel<T, FORM>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                              FORM::SHARED) == cudaSuccess;
}

bool hr__conv_warpgroups_allow(hr_dtype dtype) {
  return by_half(dtype, [](auto t) {
           using T = decltype(t);
           return groups_allow<T, pair_form>() && groups_allow<T, pair_large_form>() &&
                          groups_allow<T, narrow_form>() && groups_allow<T, square_form>() &&
                          groups_allow<T, tall_form>() && groups_allow<T, large_form>()
                      ? HR_OK
                      : HR_FAILURE;
         }) == HR_OK;
}

#define GROUPS_TYPE(T)                                                                                                 \
  (const void *)groups_kernel<T, pair_form>, (const void *)groups_kernel<T, pair_large_form>,                          \
      (const void *)groups_kernel<T, narrow_form>, (const void *)groups_kernel<T, square_form>,                        \
      (const void *)groups_kernel<T, tall_form>, (const void *)groups_kernel<T, large_form>,                           \
      (const void *)groups_weights_kernel<T>

extern "C" const hr_cuda_launcher hr_cuda_warpgroups = {{nullptr, nullptr, nullptr},
                                                        {GROUPS_TYPE(bf16), GROUPS_TYPE(f16)}};
