/* What the scan's kernels for GPUs keep in their workspace: the plan and the launchers go by the same rooms. */
#ifndef HR_OP_SSD_ROOMS_H
#define HR_OP_SSD_ROOMS_H

#include <string.h>

#include "op/ssd.h"

/* Whether the GPU's kernels for tensor cores take it (ssd_mma.cuh): 16-bit types, heads and states of common sizes. */
static inline bool hr__ssd_narrow(const hr_ssd_sizes *s, hr_dtype dtype) {
  return dtype != HR_F32 && s->dim <= 64 && s->state <= 128;
}

/* Rooms of the GPU's workspace, in floats. Lines have a number for each position and head. */
enum { HR_SSD_PASS_THREADS = 256, HR_SSD_SIDE = 64 };
typedef struct hr_ssd_cuda_rooms {
  size_t parameters;                           /* of heads */
  size_t d, sums, sums_low;                    /* lines: steps, sums of d A, and what f32 cannot hold of these */
  size_t rows, columns, spread;                /* `parts` lines each */
  size_t through, q, own, diagonal;            /* lines */
  size_t partials;                             /* three sums of each chunk and head */
  size_t products;                             /* `warps` of each chunk and head */
  size_t slopes;                               /* gradients of all states */
  size_t narrow_states, narrow_slopes, scores; /* 16-bit types */
  int64_t parts, warps, each;                  /* each: numbers of a thread in the pass over chunks */
  size_t floats;
} hr_ssd_cuda_rooms;
static inline size_t hr__ssd_take(size_t *used, int64_t rows, int64_t columns) {
  size_t at = *used;
  *used += (size_t)(rows * columns + 15) / 16 * 16;
  return at;
}

static inline hr_ssd_cuda_rooms hr__ssd_cuda_rooms(const hr_ssd_sizes *s, hr_dtype dtype, bool backward) {
  bool narrow = hr__ssd_narrow(s, dtype);
  int64_t lines = s->sequences * s->heads * s->length, chunks = s->sequences * s->chunks;
  int64_t states = chunks * s->chunk_floats, tiles = (s->chunk + HR_SSD_SIDE - 1) / HR_SSD_SIDE;
  hr_ssd_cuda_rooms r;
  memset(&r, 0, sizeof r);
  r.parts = narrow ? tiles : 1;
  r.each = s->state_floats % 2 == 0 ? 2 : 1;
  int64_t of_block = HR_SSD_PASS_THREADS * r.each;
  r.warps = (s->state_floats + of_block - 1) / of_block * (HR_SSD_PASS_THREADS / 32);
  r.parameters = hr__ssd_take(&r.floats, 3, s->heads);
  r.d = hr__ssd_take(&r.floats, 1, lines);
  r.sums = hr__ssd_take(&r.floats, 1, lines);
  r.sums_low = hr__ssd_take(&r.floats, 1, lines);
  if (narrow) r.narrow_states = hr__ssd_take(&r.floats, 1, (states + 1) / 2);
  if (!backward) return r;
  r.rows = hr__ssd_take(&r.floats, r.parts, lines);
  r.columns = hr__ssd_take(&r.floats, r.parts, lines);
  r.spread = hr__ssd_take(&r.floats, r.parts, lines);
  r.through = hr__ssd_take(&r.floats, 1, lines);
  r.q = hr__ssd_take(&r.floats, 1, lines);
  r.own = hr__ssd_take(&r.floats, 1, lines);
  r.diagonal = hr__ssd_take(&r.floats, 1, lines);
  r.partials = hr__ssd_take(&r.floats, chunks * s->heads, 3);
  r.products = hr__ssd_take(&r.floats, chunks * s->heads, r.warps);
  r.slopes = hr__ssd_take(&r.floats, 1, states);
  if (!narrow) return r;
  r.narrow_slopes = hr__ssd_take(&r.floats, 1, (states + 1) / 2);
  r.scores = hr__ssd_take(&r.floats, chunks * s->groups * tiles * (tiles + 1) / 2, HR_SSD_SIDE * HR_SSD_SIDE / 2);
  return r;
}

#endif
