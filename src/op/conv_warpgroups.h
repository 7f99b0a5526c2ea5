/* Convolutions of 16-bit types by products of warpgroups, which GPUs of compute capability 9.0 have: windows that move
 * by one, no element of them skipped, conv and conv_dx. Plain C, for the planner and for the kernels.
 *
 * A plane of the result is cut into strips along its lines. A strip's lines lie behind each other, each with as many
 * places more as windows reach beyond it, and so do those of the source: then a tap is the same distance for every
 * place, lines or not, and a tile is any stretch of places. What is made at the places between lines is not written.
 *
 * A block has `columns` channels of the result and `places` places, and reads the source plane by plane, `channels`
 * channels at a time. Products have 64 columns: where the result has no more than 32 channels, those are the same
 * channels of two planes, and what one plane's windows do not reach of the source meets weights of zero.
 *
 * Sums go by chunks of channels, then the window's planes, lines, places, channels. So their order follows from the
 * numbers of channels alone.
 */
#ifndef HR_OP_CONV_WARPGROUPS_H
#define HR_OP_CONV_WARPGROUPS_H

#include <string.h>

#include "op/conv_walk.h"

enum {
  HR_CONV_WARPGROUPS_CHANNELS = 16, /* fewer, and most of what is multiplied would be zeros */
  HR_CONV_WARPGROUPS_TAPS = 3,      /* of a window along each axis, at most */
  HR_CONV_WARPGROUPS_FULL = 60,     /* percent of what is multiplied that counts, at least */
  HR_CONV_WARPGROUPS_LINE = 64      /* what a line of a box costs beside its places, in places */
};

typedef struct hr_conv_warpgroups {
  bool pair;                   /* two planes of up to 32 channels */
  int columns, channels;       /* of a block: of the result (pair: rows of products), of the source at a time */
  int places, box;             /* of a tile; of the source that it meets in a plane */
  int valid, pitch;            /* places of a strip's line; with those between it and the next */
  int64_t strips, tiles;       /* of a plane; of a strip */
  int64_t blocks, chunks;      /* of columns; of channels */
  int64_t planes, plane_tiles; /* of the source that a tile meets; planes of the result, or pairs of them */
  size_t weights;              /* bytes in the order of the products */
} hr_conv_warpgroups;

/* Places of a tile, and of its box at most, by columns of a block. */
static inline int hr__conv_warpgroups_places(int columns) {
  return columns <= 64 ? 512 : 256;
}
static inline int hr__conv_warpgroups_box(int columns) {
  return columns <= 64 ? 648 : 392;
}

/* Whether windows are such: whatever the sizes, so that parts of a tensor take the kernel that all of it takes. */
static inline bool hr__conv_warpgroups_windows(const hr_conv_walk *w) {
  for (int d = 0; d < HR_CONV_AXES; d++) {
    bool near = w->tap[d] == 1 || w->tap[d] == -1 || w->taps[d] == 1;
    if (w->taps[d] < 1 || w->taps[d] > HR_CONV_WARPGROUPS_TAPS || w->step[d] != 1 || w->to_step[d] != 1 || !near)
      return false;
  }
  return w->taps[1] == 3 && w->taps[2] == 3;
}

/* Whether every plane of the result meets one of the source: a tile that meets none would multiply nothing. */
static inline bool hr__conv_warpgroups_meet(const hr_conv_walk *w) {
  int64_t reach = (w->taps[0] - 1) * w->tap[0], low = w->first[0] + (reach < 0 ? reach : 0);
  int64_t high = w->first[0] + (reach > 0 ? reach : 0);
  return high >= 0 && w->places[0] - 1 + low < w->source[0];
}

/* Strips of the plane that are multiplied soonest; false: none is narrow enough for a box. */
static inline bool hr__conv_warpgroups_strips(const hr_conv_walk *w, hr_conv_warpgroups *g) {
  int64_t least = -1, more_lines = w->taps[1] - 1, more = w->taps[2] - 1;
  int most = hr__conv_warpgroups_box(g->columns);
  for (int64_t strips = 1; strips <= w->places[2]; strips++) {
    int64_t valid = (w->places[2] - 1) / strips + 1, pitch = valid + more;
    int64_t box = g->places + more_lines * pitch + more;
    if (box > most) continue;
    int64_t tiles = (w->places[1] * pitch - 1) / g->places + 1,
            cost = strips * tiles * (8 * g->places + box + box / pitch * HR_CONV_WARPGROUPS_LINE);
    if (least >= 0 && cost >= least) {
      if (valid < 16) break;
      continue;
    }
    least = cost;
    g->strips = (w->places[2] - 1) / valid + 1;
    g->valid = (int)valid;
    g->pitch = (int)pitch;
    g->box = (int)box;
    g->tiles = tiles;
  }
  return least >= 0;
}

/* From `channels` to `columns` channels; false: not by these kernels. */
static inline bool hr__conv_warpgroups_of(const hr_conv_walk *w, int64_t channels, int64_t columns,
                                          hr_conv_warpgroups *g) {
  memset(g, 0, sizeof *g);
  if (!hr__conv_warpgroups_windows(w) || hr__conv_volume(w->places) == 0 || channels < HR_CONV_WARPGROUPS_CHANNELS)
    return false;
  if (!hr__conv_warpgroups_meet(w)) return false;
  g->pair = columns <= 32;
  if (g->pair && w->taps[0] < 2) return false;
  g->columns = columns <= 64 || (columns - 1) % 128 < 64 ? 64 : 128;
  g->channels = (channels - 1) % 64 < 32 ? 32 : 64;
  g->places = hr__conv_warpgroups_places(g->columns);
  g->blocks = (columns - 1) / g->columns + 1;
  g->chunks = (channels - 1) / g->channels + 1;
  g->planes = w->taps[0] + g->pair;
  g->plane_tiles = g->pair ? (w->places[0] - 1) / 2 + 1 : w->places[0];
  int64_t width = g->pair ? 32 : g->columns;
  if (100 * channels * columns < HR_CONV_WARPGROUPS_FULL * g->chunks * g->channels * g->blocks * width) return false;
  if (!hr__conv_warpgroups_strips(w, g)) return false;
  int64_t made = g->strips * g->tiles * g->places, all = w->places[1] * w->places[2];
  /* Windows of one plane may take other kernels where planes are small; those of several may be cut along them. */
  if (w->taps[0] == 1 && 100 * all < HR_CONV_WARPGROUPS_FULL * made) return false;
  g->weights =
      (size_t)(g->blocks * g->chunks * g->planes * w->taps[1] * w->taps[2]) * (size_t)(g->columns * g->channels) * 2;
  return true;
}

/* Workspace. */
static inline size_t hr__conv_warpgroups_bytes(const hr_conv_walk *w, int64_t channels, int64_t columns) {
  hr_conv_warpgroups g;
  return hr__conv_warpgroups_of(w, channels, columns, &g) ? g.weights : 0;
}

#endif
