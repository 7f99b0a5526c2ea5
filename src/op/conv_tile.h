/* Tiles of convolutions on CUDA in 16-bit types: which places a block of threads takes, and what of the source it
 * needs. Plain C, for the planner and for the kernels.
 *
 * A block has `count` places, [of[0], of[1], of[2]] of them along the axes of one sample or of several, and reads the
 * box of the source that their windows lie in once for all taps, `channels` channels at a time. So a place of the
 * source is read a few times instead of once for every tap, and nothing is unfolded in memory.
 */
#ifndef HR_OP_CONV_TILE_H
#define HR_OP_CONV_TILE_H

#include <string.h>

#include "op/conv_walk.h"

enum {
  HR_CONV_TILE_SHARED = 92 << 10, /* bytes of shared memory, at most: what all GPUs of these kernels have */
  HR_CONV_TILE_WANTED = 56 << 10, /* bytes that leave room for other blocks beside it */
  HR_CONV_TILE_TAPS = 512,        /* of a walk, at most */
  HR_CONV_TILE_COLUMNS = 32,      /* channels of the result that a warp takes */
  HR_CONV_TILE_SINGLE = 64 * 64,  /* channels times channels of a single tap whose dW is made here */
  HR_CONV_TILE_PLACES = 49        /* fewer in a sample, and most of a tile would be empty */
};

typedef struct hr_conv_tile {
  bool lines; /* for the kernel of op/conv_lines.cuh */
  int count, channels;
  int samples; /* that a tile has places of; several where a sample has few */
  int of[HR_CONV_AXES], box[HR_CONV_AXES];
  int64_t tiles[HR_CONV_AXES]; /* along each axis */
} hr_conv_tile;

static inline int64_t hr__conv_box(const hr_conv_walk *w, int d, int64_t places) {
  int64_t reach = (w->taps[d] - 1) * w->tap[d];
  return (places - 1) * w->step[d] + (reach < 0 ? -reach : reach) + 1;
}

/* Where a place reads but itself, all axes are one. */
static inline hr_conv_sizes hr__conv_flat(hr_conv_sizes s) {
  for (int d = 0; d < HR_CONV_AXES; d++)
    if (s.kernel[d] != 1 || s.stride[d] != 1 || s.padding[d] != 0) return s;
  s.x[2] = s.y[2] = hr__conv_volume(s.x);
  s.x[0] = s.x[1] = s.y[0] = s.y[1] = 1;
  return s;
}

/* The tile of `count` places (a power of two) of up to `samples` samples that costs least: products of all of its
 * places, and reading its box, in pieces of a cache line's sector. False: no box of 16 channels fits. `columns`: of the
 * result, that a block has; `beside`: bytes of shared memory for other things. */
static inline bool hr__conv_tile_of(const hr_conv_walk *w, int64_t samples, int count, int channels, int columns,
                                    double beside, hr_conv_tile *best) {
  double least = -1;
  memset(best, 0, sizeof *best);
  int64_t taps = hr__conv_volume(w->taps);
  for (int t0 = 1; t0 <= count; t0 *= 2)
    for (int i = 0; i < 64; i++) {
      int t1 = 1 << i % 8, together = 1 << i / 8;
      if (t0 * t1 * together > count / 8 || (together > 1 && (together > samples || together > 4))) continue;
      hr_conv_tile t;
      double tiles = (double)((samples - 1) / together + 1), box = together;
      t.lines = false;
      t.count = count;
      t.channels = channels;
      t.samples = together;
      t.of[0] = t0;
      t.of[1] = t1;
      t.of[2] = count / t0 / t1 / together;
      for (int d = 0; d < HR_CONV_AXES; d++) {
        int64_t reach = hr__conv_box(w, d, t.of[d]);
        t.box[d] = reach < 1 << 20 ? (int)reach : 1 << 20;
        t.tiles[d] = (w->places[d] - 1) / t.of[d] + 1;
        tiles *= (double)t.tiles[d];
        box *= (double)t.box[d];
      }
      double bytes = box * (2 * channels + 4) + beside, sectors = box / t.box[2] * ((double)t.box[2] + 12);
      if (bytes > HR_CONV_TILE_SHARED) continue;
      double cost = tiles * ((double)count * (double)taps * columns / 1024 + sectors / 8);
      if (bytes > HR_CONV_TILE_WANTED) cost *= 1.25;
      if (least >= 0 && cost >= least) continue;
      least = cost;
      *best = t;
    }
  return least >= 0;
}

/* Kernels have three forms, by how many channels of the result a block takes: [places, columns]. */
static inline int hr__conv_tile_columns(int64_t columns) {
  return columns <= 32 ? 32 : columns <= 64 ? 64 : 128;
}
static inline int hr__conv_tile_count(int64_t columns) {
  return columns <= 64 ? 256 : 128;
}

/* Windows of 3 x 3 x 3 that move by one and give neighbouring places, whatever the sizes: parts of a tensor take the
 * kernel that all of it takes, if they have as many places as tiles are for. */
static inline bool hr__conv_lines(const hr_conv_walk *w) {
  for (int d = 0; d < HR_CONV_AXES; d++)
    if (w->taps[d] != 3 || w->step[d] != 1 || w->to_step[d] != 1 || w->tap[d] != w->tap[0]) return false;
  return w->tap[0] == 1 || w->tap[0] == -1;
}

static inline void hr__conv_lines_tile(const hr_conv_walk *w, int64_t columns, hr_conv_tile *t) {
  int wide = hr__conv_tile_columns(columns);
  memset(t, 0, sizeof *t);
  t->lines = true;
  t->channels = 16;
  t->samples = 1;
  t->of[0] = wide <= 64 ? 4 : 2;
  t->of[1] = wide <= 32 ? 8 : 4;
  t->of[2] = 16;
  t->count = t->of[0] * t->of[1] * t->of[2];
  for (int d = 0; d < HR_CONV_AXES; d++) {
    t->box[d] = t->of[d] + 2;
    t->tiles[d] = (w->places[d] - 1) / t->of[d] + 1;
  }
}

/* The tile of a walk from `channels` to `columns` channels. */
static inline bool hr__conv_gather_tile(const hr_conv_walk *w, int64_t samples, int64_t channels, int64_t columns,
                                        hr_conv_tile *tile) {
  int count = hr__conv_tile_count(columns), wide = hr__conv_tile_columns(columns);
  if (hr__conv_lines(w)) {
    hr__conv_lines_tile(w, columns, tile);
    return true;
  }
  if (hr__conv_volume(w->taps) > HR_CONV_TILE_TAPS) return false;
  /* Offsets in the samples of a tile are 32 bits wide. */
  if (channels > INT32_MAX / 4 / hr__conv_volume(w->source)) samples = 1;
  if (channels > 32 && hr__conv_volume(w->taps) == 1 && hr__conv_tile_of(w, samples, count, 64, wide, 0, tile))
    return true;
  if (channels > 16 && hr__conv_tile_of(w, samples, count, 32, wide, 0, tile)) {
    double bytes = (64.0 + 4) * tile->samples * tile->box[0] * tile->box[1] * tile->box[2];
    if (bytes <= HR_CONV_TILE_WANTED) return true;
  }
  return hr__conv_tile_of(w, samples, count, 16, wide, 0, tile);
}

/* Bytes of a walk's weights as warps read them: [blocks of 32 columns, chunks of channels, taps, channels / 16] of
 * 1 KiB, and one of these behind them, which is read and not used. */
static inline size_t hr__conv_tile_weights(const hr_conv_walk *w, const hr_conv_tile *t, int64_t channels,
                                           int64_t columns) {
  int64_t chunks = (channels - 1) / t->channels + 1;
  int64_t wide = hr__conv_tile_columns(columns), blocks = ((columns - 1) / wide + 1) * (wide / HR_CONV_TILE_COLUMNS);
  return (size_t)(blocks * chunks * hr__conv_volume(w->taps) * (t->channels / 16) + 1) << 10;
}

/* dx of windows that move by more than one: what a phase writes lies between elements of others, so that one launch
 * has the tiles of all of them, those of one place next to each other. `of` and `tiles` are alike in all. */
enum { HR_CONV_PHASES = 8 };

typedef struct hr_conv_phases {
  int count;
  hr_conv_walk walk[HR_CONV_PHASES];
  hr_conv_tile tile[HR_CONV_PHASES];
  size_t weights[HR_CONV_PHASES], bytes; /* where those of each begin in the workspace, in bytes; all of them */
} hr_conv_phases;

static inline bool hr__conv_phases_tile(const hr_conv_sizes *s, const hr_conv_walk *w, hr_conv_tile *tile) {
  int count = hr__conv_tile_count(s->in), wide = hr__conv_tile_columns(s->in);
  int64_t samples = s->out > INT32_MAX / 4 / hr__conv_volume(w->source) ? 1 : s->samples;
  if (s->out > 16 && hr__conv_tile_of(w, samples, count, 32, wide, 0, tile)) {
    double bytes = (64.0 + 4) * tile->samples * tile->box[0] * tile->box[1] * tile->box[2];
    if (bytes <= HR_CONV_TILE_WANTED) return true;
  }
  return hr__conv_tile_of(w, samples, count, 16, wide, 0, tile);
}

/* False: each has a launch of its own. */
static inline bool hr__conv_phases_of(const hr_conv_sizes *s, hr_conv_phases *p) {
  int64_t count = hr__conv_dx_walks(s), most = 0;
  hr_conv_tile tile; /* of the phase with most taps, along each axis: no other one's box is larger */
  if (count < 2 || count > HR_CONV_PHASES) return false;
  p->count = (int)count;
  for (int i = 0; i < p->count; i++) {
    hr_conv_walk *w = &p->walk[i];
    *w = hr__conv_dx_walk(s, i);
    int64_t taps = hr__conv_volume(w->taps);
    if (hr__conv_volume(w->places) == 0 || taps == 0 || taps > HR_CONV_TILE_TAPS || hr__conv_lines(w)) return false;
    if (taps > hr__conv_volume(p->walk[most].taps)) most = i;
  }
  if (!hr__conv_phases_tile(s, &p->walk[most], &tile)) return false;
  p->bytes = 0;
  for (int d = 0; d < HR_CONV_AXES; d++) /* the first phase has most places */
    tile.tiles[d] = (p->walk[0].places[d] - 1) / tile.of[d] + 1;
  for (int i = 0; i < p->count; i++) {
    for (int d = 0; d < HR_CONV_AXES; d++)
      tile.box[d] = (int)hr__conv_box(&p->walk[i], d, tile.of[d]);
    p->tile[i] = tile;
    p->weights[i] = p->bytes;
    p->bytes += hr__conv_tile_weights(&p->walk[i], &tile, s->out, s->in);
  }
  return true;
}

/* ---- dW ---- */

enum {
  HR_CONV_DW_COUNT = 256, /* places of a tile */
  HR_CONV_DW_OUT = 32,    /* channels of dy that a block takes, and of x */
  HR_CONV_DW_IN = 16,
  HR_CONV_DW_WARPS = 9,
  HR_CONV_DW_BLOCKS = 264 /* of all parts: two for each multiprocessor of a large GPU */
};

/* dW of windows of 3 x 3 x 3 that move by one: lines of both operands lie in shared memory as they lie in the tensors
 * (op/conv_lines_dw.cuh). */
enum {
  HR_CONV_LINES_CHANNELS = 32, /* of dy and of x, that a block takes */
  HR_CONV_LINES = 4,           /* of a tile, in each of its planes */
  HR_CONV_LINES_WIDTH = 32,    /* places of a line */
  HR_CONV_LINES_BLOCKS = 132   /* of all parts: one for each multiprocessor of a large GPU */
};

typedef struct hr_conv_dw_tile {
  bool lines;
  hr_conv_tile tile;         /* not of lines */
  int warp_taps;             /* 1 or 3 */
  int64_t groups, outs, ins; /* blocks of taps, of channels of dy, of x */
  int64_t tiles, parts;      /* of all samples (lines: through all planes); sums that are made apart, [parts, dW] */
} hr_conv_dw_tile;

static inline bool hr__conv_dw_tile_of(const hr_conv_sizes *s, hr_conv_dw_tile *d) {
  hr_conv_walk w = hr__conv_walk(s);
  int64_t taps = hr__conv_volume(w.taps), in_block, blocks = HR_CONV_DW_BLOCKS;
  memset(d, 0, sizeof *d);
  d->lines = hr__conv_lines(&w) && s->padding[0] <= 1;
  if (d->lines) {
    blocks = HR_CONV_LINES_BLOCKS;
    d->groups = 1;
    d->outs = (s->out - 1) / HR_CONV_LINES_CHANNELS + 1;
    d->ins = (s->in - 1) / HR_CONV_LINES_CHANNELS + 1;
    d->tiles = s->samples * ((s->y[1] - 1) / HR_CONV_LINES + 1) * ((s->y[2] - 1) / HR_CONV_LINES_WIDTH + 1);
  } else {
    double dy = HR_CONV_DW_COUNT * HR_CONV_DW_OUT * 2;
    if (taps > HR_CONV_TILE_TAPS ||
        !hr__conv_tile_of(&w, 1, HR_CONV_DW_COUNT, HR_CONV_DW_IN, HR_CONV_DW_OUT, dy, &d->tile))
      return false;
    d->warp_taps = taps <= HR_CONV_DW_WARPS ? 1 : 3;
    in_block = d->warp_taps * HR_CONV_DW_WARPS;
    d->groups = (taps - 1) / in_block + 1;
    d->outs = (s->out - 1) / HR_CONV_DW_OUT + 1;
    d->ins = (s->in - 1) / HR_CONV_DW_IN + 1;
    d->tiles = s->samples * d->tile.tiles[0] * d->tile.tiles[1] * d->tile.tiles[2];
  }
  d->parts = blocks / (d->groups * d->outs * d->ins);
  if (d->parts > d->tiles) d->parts = d->tiles;
  if (d->parts < 1) d->parts = 1;
  return true;
}

#endif
