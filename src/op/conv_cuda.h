/* How convolutions go on CUDA, and where their workspace keeps things; plain C, for the planner and for the kernels.
 *
 * Where a group has one channel of x the sums are short: kernels read x itself. Where a window is all of x a product
 * does. In 16-bit types kernels of their own take a tile of places at a time (op/conv_tile.h; op/conv_warpgroups.h on
 * GPUs that have its products), or, where windows are single places and there are few channels of y, read x or write dx
 * as fast as memory goes. All others unfold a
 * block of rows (places of all samples) [rows, C taps], multiply it by the weights of each group into f32 [rows, K],
 * and put that into the order of the result. Blocks are small enough for the second-level cache of large GPUs, which is
 * what bounds the workspace as well.
 */
#ifndef HR_OP_CONV_CUDA_H
#define HR_OP_CONV_CUDA_H

#include "dev/cuda/limits.h"
#include "op/conv_tile.h"
#include "op/conv_warpgroups.h"

enum {
  HR_CONV_CUDA_BLOCK = 32 << 20,    /* bytes of a block of rows, unfolded and multiplied */
  HR_CONV_CUDA_ROWS = 1024,         /* rows of a block, at least */
  HR_CONV_CUDA_GRAIN = 128,         /* blocks that do not end with a sample are multiples */
  HR_CONV_CUDA_PARTIALS = 16 << 20, /* bytes of partial sums, at most (one set of them is always there) */
  HR_CONV_CUDA_PART = 512,          /* windows that a partial sum of dW has at least */
  HR_CONV_CUDA_PARTS = 1024         /* partial sums, at most */
};

enum {
  HR_CONV_POINTS_OUT = 4,        /* channels of y that are few */
  HR_CONV_POINTS_IN = 256,       /* of x, at most: a thread goes through them */
  HR_CONV_POINTS_PART = 16 << 10 /* places that a partial sum of dW has at least */
};

typedef enum hr_conv_way { HR_CONV_DIRECT, HR_CONV_VIEW, HR_CONV_POINTS, HR_CONV_TILED, HR_CONV_UNFOLDED } hr_conv_way;
typedef enum hr_conv_part { HR_CONV_FORWARD, HR_CONV_DX, HR_CONV_DW } hr_conv_part;

/* Whether the kernels of tiles take all of it. Products of single taps that are large are better off with a library. */
static inline bool hr__conv_cuda_tiled(const hr_conv_sizes *s, hr_dtype dtype, hr_conv_part part) {
  hr_conv_tile tile;
  hr_conv_dw_tile dw;
  if (dtype == HR_F32 || s->groups != 1 || s->samples == 0 || hr__conv_volume(s->y) < HR_CONV_TILE_PLACES) return false;
  if (part == HR_CONV_DW)
    return (hr__conv_volume(s->kernel) > 1 || s->in * s->out <= HR_CONV_TILE_SINGLE) && hr__conv_dw_tile_of(s, &dw);
  if (part == HR_CONV_FORWARD) {
    hr_conv_walk walk = hr__conv_walk(s);
    return hr__conv_gather_tile(&walk, s->samples, s->in, s->out, &tile);
  }
  for (int64_t number = 0; number < hr__conv_dx_walks(s); number++) {
    hr_conv_walk walk = hr__conv_dx_walk(s, number);
    bool some = hr__conv_volume(walk.places) > 0 && hr__conv_volume(walk.taps) > 0;
    if (some && !hr__conv_gather_tile(&walk, s->samples, s->out, s->in, &tile)) return false;
  }
  return true;
}

/* Single places, to few channels. */
static inline bool hr__conv_cuda_points(const hr_conv_sizes *s, hr_dtype dtype) {
  for (int d = 0; d < HR_CONV_AXES; d++)
    if (s->kernel[d] != 1 || s->stride[d] != 1 || s->padding[d] != 0) return false;
  return dtype != HR_F32 && s->groups == 1 && s->samples > 0 && s->out <= HR_CONV_POINTS_OUT &&
         s->in <= HR_CONV_POINTS_IN;
}

static inline hr_conv_way hr__conv_cuda_way(const hr_conv_sizes *s, hr_dtype dtype, hr_conv_part part) {
  bool view = hr__conv_is_view(s);
  if (s->in == 1 && !(view && s->groups == 1)) return HR_CONV_DIRECT;
  if (view) return HR_CONV_VIEW;
  if (hr__conv_cuda_points(s, dtype)) return HR_CONV_POINTS;
  return hr__conv_cuda_tiled(s, dtype, part) ? HR_CONV_TILED : HR_CONV_UNFOLDED;
}

static inline size_t hr__conv_cuda_up(size_t bytes) {
  return (bytes + 255) / 256 * 256;
}

static inline size_t hr__conv_cuda_element(hr_dtype dtype) {
  return dtype == HR_F32 ? 4 : 2;
}

/* Rows of a block: as few blocks as the bytes allow, of about the same size. A sample's rows stay together where they
 * are no more than a block. */
static inline int64_t hr__conv_cuda_block(int64_t rows, int64_t places, size_t row_bytes) {
  int64_t most = (int64_t)((size_t)HR_CONV_CUDA_BLOCK / row_bytes);
  if (most < HR_CONV_CUDA_ROWS) most = HR_CONV_CUDA_ROWS;
  if (rows <= most) return rows;
  int64_t blocks = (rows - 1) / most + 1, block = (rows - 1) / blocks + 1;
  int64_t grain = places <= block ? places : (int64_t)HR_CONV_CUDA_GRAIN;
  block = ((block - 1) / grain + 1) * grain;
  return block < rows ? block : rows;
}

/* One walk of conv or conv_dx: unfolded rows from the start of its part of the workspace on. */
typedef struct hr_conv_cuda_pass {
  hr_conv_walk walk;
  int64_t channels, columns; /* of a group: of the source, of the result */
  int64_t taps, inner;       /* 0 taps: nothing flows to these places */
  int64_t places, rows, block;
  size_t product; /* f32 [block, all columns], bytes from the start */
  size_t scratch; /* of the products */
  size_t bytes;
} hr_conv_cuda_pass;

static inline hr_conv_cuda_pass hr__conv_cuda_pass_of(const hr_conv_sizes *s, const hr_conv_walk *walk,
                                                      int64_t channels, int64_t columns, hr_dtype dtype) {
  hr_conv_cuda_pass p;
  p.walk = *walk;
  p.channels = channels;
  p.columns = columns;
  p.taps = hr__conv_volume(walk->taps);
  p.inner = channels * p.taps;
  p.places = hr__conv_volume(walk->places);
  p.rows = s->samples * p.places;
  p.block = p.rows;
  p.product = p.scratch = p.bytes = 0;
  if (p.rows == 0 || p.taps == 0) return p;
  size_t unfolded = (size_t)(s->groups * p.inner) * hr__conv_cuda_element(dtype);
  size_t multiplied = (size_t)(s->groups * columns) * 4;
  p.block = hr__conv_cuda_block(p.rows, p.places, unfolded + multiplied);
  p.product = hr__conv_cuda_up((size_t)p.block * unfolded);
  p.scratch = p.product + hr__conv_cuda_up((size_t)p.block * multiplied);
  p.bytes = p.scratch + hr__lt_bytes(p.block, columns, dtype, HR_F32);
  return p;
}

static inline hr_conv_cuda_pass hr__conv_cuda_forward(const hr_conv_sizes *s, hr_dtype dtype) {
  hr_conv_walk walk = hr__conv_walk(s);
  return hr__conv_cuda_pass_of(s, &walk, s->in, s->out, dtype);
}

static inline hr_conv_cuda_pass hr__conv_cuda_dx(const hr_conv_sizes *s, int64_t number, hr_dtype dtype) {
  hr_conv_walk walk = hr__conv_dx_walk(s, number);
  return hr__conv_cuda_pass_of(s, &walk, s->out, s->in, dtype);
}

/* Weights of a walk in the order of registers or, where that is more, of products of warpgroups: a plan is for all GPUs
 * alike. */
static inline size_t hr__conv_tiled_bytes(const hr_conv_walk *walk, int64_t samples, int64_t channels,
                                          int64_t columns) {
  hr_conv_tile tile;
  bool some = hr__conv_volume(walk->places) > 0 && hr__conv_volume(walk->taps) > 0;
  if (!some || !hr__conv_gather_tile(walk, samples, channels, columns, &tile)) return 0;
  size_t bytes = hr__conv_tile_weights(walk, &tile, channels, columns),
         products = hr__conv_warpgroups_bytes(walk, channels, columns);
  return bytes > products ? bytes : products;
}

static inline size_t hr__conv_cuda_bytes(const hr_conv_sizes *s, hr_dtype dtype) {
  hr_conv_way way = hr__conv_cuda_way(s, dtype, HR_CONV_FORWARD);
  if (way == HR_CONV_DIRECT || way == HR_CONV_POINTS) return 0;
  if (way == HR_CONV_VIEW) return hr__lt_bytes(s->samples, s->out, dtype, dtype);
  if (way == HR_CONV_TILED) {
    hr_conv_walk walk = hr__conv_walk(s);
    return hr__conv_tiled_bytes(&walk, s->samples, s->in, s->out);
  }
  return hr__conv_cuda_forward(s, dtype).bytes;
}

/* conv_dx: the weights of a walk lie in front, [groups, C / groups, K / groups x taps]. */
static inline size_t hr__conv_cuda_reordered(const hr_conv_sizes *s, hr_dtype dtype) {
  size_t count = (size_t)(s->groups * s->in * s->out * hr__conv_volume(s->kernel));
  return hr__conv_cuda_up(count * hr__conv_cuda_element(dtype));
}

static inline size_t hr__conv_cuda_dx_bytes(const hr_conv_sizes *s, hr_dtype dtype) {
  hr_conv_way way = hr__conv_cuda_way(s, dtype, HR_CONV_DX);
  size_t most = 0;
  if (way == HR_CONV_DIRECT || way == HR_CONV_POINTS) return 0;
  if (way == HR_CONV_VIEW) return hr__lt_bytes(s->samples, s->in * hr__conv_volume(s->kernel), dtype, dtype);
  hr_conv_phases phases;
  if (way == HR_CONV_TILED && hr__conv_phases_of(s, &phases)) return phases.bytes;
  for (int64_t number = 0; number < hr__conv_dx_walks(s); number++) {
    hr_conv_walk walk = hr__conv_dx_walk(s, number);
    size_t bytes = way == HR_CONV_TILED ? hr__conv_tiled_bytes(&walk, s->samples, s->out, s->in)
                                        : hr__conv_cuda_dx(s, number, dtype).bytes;
    if (bytes > most) most = bytes;
  }
  if (way == HR_CONV_TILED) return most;
  return hr__conv_cuda_reordered(s, dtype) + most;
}

/* conv_dw. Unfolded: blocks are added one after another, in f32. Direct, points: sums of parts of all windows, then
 * their sum. */
typedef struct hr_conv_cuda_dw {
  int64_t taps, inner, rows, block;
  int64_t parts, part;               /* direct, points: partial sums [parts, dW], windows of each */
  size_t sum, x, dy, scratch, bytes; /* dW in f32 where it is not; rows of x unfolded, of dy */
  bool staged, turned;               /* whether there is a sum; whether dy is not rows already */
} hr_conv_cuda_dw;

/* So many parts of `count` that each has `least` or more and all fit. */
static inline int64_t hr__conv_cuda_parts(int64_t count, int64_t least, int64_t columns) {
  int64_t parts = count / least, fit = (int64_t)HR_CONV_CUDA_PARTIALS / 4 / columns;
  if (parts > HR_CONV_CUDA_PARTS) parts = HR_CONV_CUDA_PARTS;
  if (parts > fit) parts = fit;
  return parts < 1 ? 1 : parts;
}

static inline hr_conv_cuda_dw hr__conv_cuda_dw_of(const hr_conv_sizes *s, hr_dtype dtype, hr_dtype result) {
  hr_conv_cuda_dw p;
  hr_conv_way way = hr__conv_cuda_way(s, dtype, HR_CONV_DW);
  size_t element = hr__conv_cuda_element(dtype);
  p.taps = hr__conv_volume(s->kernel);
  p.inner = s->in * p.taps;
  p.rows = p.block = s->samples * hr__conv_volume(s->y);
  p.parts = p.part = 0;
  p.sum = p.x = p.dy = p.scratch = 0;
  p.staged = result != HR_F32;
  p.turned = hr__conv_volume(s->y) > 1;
  if (way == HR_CONV_DIRECT) {
    int64_t columns = s->groups * s->out * p.taps, parts = hr__conv_cuda_parts(p.rows, HR_CONV_CUDA_PART, columns);
    p.part = (p.rows - 1) / parts + 1;
    p.parts = (p.rows - 1) / p.part + 1;
    p.bytes = (size_t)(p.parts * columns) * 4;
    return p;
  }
  if (way == HR_CONV_POINTS) {
    int64_t columns = s->out * s->in, parts = hr__conv_cuda_parts(p.rows, HR_CONV_POINTS_PART, columns);
    p.part = ((p.rows - 1) / parts / 8 + 1) * 8; /* whole packs */
    p.parts = (p.rows - 1) / p.part + 1;
    p.bytes = (size_t)(p.parts * columns) * 4;
    return p;
  }
  if (way == HR_CONV_VIEW) {
    p.bytes = hr__lt_bytes(s->out, p.inner, dtype, result);
    return p;
  }
  if (way == HR_CONV_TILED) {
    hr_conv_dw_tile tile;
    hr__conv_dw_tile_of(s, &tile);
    p.bytes = (size_t)(tile.parts * s->out * p.inner) * 4;
    return p;
  }
  size_t row = (size_t)(s->groups * (p.inner + s->out)) * element;
  p.block = hr__conv_cuda_block(p.rows, hr__conv_volume(s->y), row);
  if (p.staged) p.x = hr__conv_cuda_up((size_t)(s->groups * s->out * p.inner) * 4);
  p.dy = p.x + hr__conv_cuda_up((size_t)(p.block * s->groups * p.inner) * element);
  p.scratch = p.dy + (p.turned ? hr__conv_cuda_up((size_t)(p.block * s->groups * s->out) * element) : 0);
  p.bytes = p.scratch + hr__lt_bytes(s->out, p.inner, dtype, HR_F32);
  return p;
}

/* conv_db: sums of parts of the samples, or of pieces of each sample's channels where these are long, [parts, K]. */
typedef struct hr_conv_cuda_db {
  int64_t samples, channels, places; /* of dy */
  int64_t parts, part;               /* samples of each */
  int64_t pieces, piece;             /* of a channel; places of each. More than one: a part is one sample */
  size_t bytes;
} hr_conv_cuda_db;

enum { HR_CONV_DB_PIECE = 64 << 10 };

static inline hr_conv_cuda_db hr__conv_cuda_db_of(const hr_desc *dy) {
  hr_conv_cuda_db p;
  p.samples = dy->dim[0];
  p.channels = dy->dim[1];
  p.places = 1;
  for (int d = 2; d < dy->rank; d++)
    p.places *= dy->dim[d];
  p.pieces = p.places > HR_CONV_DB_PIECE ? hr__conv_cuda_parts(p.places, HR_CONV_DB_PIECE, p.channels * p.samples) : 1;
  p.piece = p.places;
  int64_t parts = hr__conv_cuda_parts(p.samples, p.places < 1024 ? 8 : 1, p.channels);
  if (p.pieces > 1) {
    p.piece = ((p.places - 1) / p.pieces / HR_CONV_CUDA_GRAIN + 1) * HR_CONV_CUDA_GRAIN;
    p.pieces = (p.places - 1) / p.piece + 1;
    parts = p.samples;
  }
  p.part = (p.samples - 1) / parts + 1;
  p.parts = (p.samples - 1) / p.part + 1;
  p.bytes = (size_t)(p.parts * p.pieces * p.channels) * 4;
  return p;
}

#endif
