/* How programs walk over their operands: what the kernels of the CPU and of CUDA share, in the language of both. */
#ifndef HR_OP_POINTWISE_WALK_H
#define HR_OP_POINTWISE_WALK_H

#include "op/pointwise.h"

/* Whether a step reads its operand i. */
static inline bool hr__step_reads(const hr_step *step, int i) {
#define HR_FACTS_1(name, flops, reads, value, slope)            {1, HR_READS_##reads},
#define HR_FACTS_2(name, flops, reads, value, slope_a, slope_b) {2, HR_READS_##reads},
  static const unsigned char facts[][2] = {HR_FORMULAS_1(HR_FACTS_1) HR_FORMULAS_2(HR_FACTS_2)};
#undef HR_FACTS_1
#undef HR_FACTS_2
  const unsigned char *f = facts[step->formula];
  if (step->part == HR_PART_VALUE) return i < f[0];
  return i == 0 || (i <= f[0] && (f[1] >> (i - 1) & 1));
}

/* The shape that a program works in; its operands are known to fit. */
static inline void hr__program_space(const hr_pointwise_args *args, const hr_tensor *in, hr_desc *space) {
  space->dtype = in[0].desc.dtype;
  space->rank = args->rank;
  for (int d = 0; d < args->rank; d++) {
    space->dim[d] = args->size[d];
    for (int i = 0; space->dim[d] == 0 && i < args->n_in; i++)
      if (args->map[i].axis[d] >= 0) space->dim[d] = in[i].desc.dim[args->map[i].axis[d]];
  }
}

/* How an operand is read along the axes of the walked space; neighbouring axes that it runs through as one are one. */
typedef struct hr_reading {
  bool plain; /* element i of the space is its element i */
  bool windowed;
  int axes;
  int64_t size[HR_RANK], stride[HR_RANK]; /* per axis: of the space; in elements of the operand, 0: repeated */
  int64_t first[HR_RANK], limit[HR_RANK]; /* windowed: index that 0 falls on, and the operand's size */
} hr_reading;

/* `order`: axes of the space in the order in which they are walked; NULL: as they are. */
static inline void hr__reading_make(const hr_pointwise_args *args, int in, const hr_tensor *x, const hr_desc *space,
                                    const int *order, hr_reading *r) {
  const hr_map *map = &args->map[in];
  memset(r, 0, sizeof *r);
  r->plain = x->desc.rank == args->rank;
  for (int k = 0; k < args->rank; k++) {
    int d = order ? order[k] : k, own = map->axis[d];
    int64_t size = space->dim[d], stride = own < 0 ? 0 : x->stride[own];
    int64_t first = own < 0 ? 0 : map->first[own], limit = own < 0 ? size : x->desc.dim[own];
    bool cut = first != 0 || limit != size;
    int before = r->axes - 1;
    bool joins = before >= 0 && !cut && r->first[before] == 0 && r->limit[before] == r->size[before] &&
                 r->stride[before] == stride * size;
    r->plain = r->plain && own == k && !cut;
    r->windowed = r->windowed || cut;
    if (size == 1 && !cut) continue;
    if (joins) {
      r->size[before] *= size;
      r->limit[before] = r->size[before];
      r->stride[before] = stride;
      continue;
    }
    r->size[r->axes] = size;
    r->stride[r->axes] = stride;
    r->first[r->axes] = first;
    r->limit[r->axes++] = limit;
  }
  if (r->axes == 0) {
    r->size[0] = r->limit[0] = 1;
    r->axes = 1;
  }
}

/* Of a reduction: results are [outer, inner], each made of `depth` elements in `pieces`; the space is walked in the
 * order [outer, depth, inner]. All of it follows from the shape. */
typedef struct hr_walk {
  int order[HR_RANK];
  int64_t outer, depth, inner;
  int64_t pieces, piece; /* elements of depth in one */
} hr_walk;

enum {
  HR_WALK_ROWS = 32,             /* summed in f32 before they join the sum in f64 */
  HR_WALK_PIECE = 8 * 32 * 1024, /* elements of a piece */
  HR_WALK_PIECES = 64,           /* of one result at most */
  HR_WALK_CUDA_PACK = 8,         /* a piece has a multiple of that many: runs go by packs */
  HR_WALK_CUDA_RUN = 16 * 1024,  /* elements of depth in a piece on CUDA, along runs */
  HR_WALK_CUDA_ROWS = 2048,      /* likewise of rows */
  HR_WALK_CUDA_PIECES = 1024
};

static inline int64_t hr__walk_up(int64_t count, int64_t by) {
  return (count + by - 1) / by;
}

static inline void hr__walk_make(const hr_reduce_args *args, const hr_desc *space, hr_walk *w) {
  int rank = args->program.rank, last = rank, n = 0;
  memset(w, 0, sizeof *w);
  w->outer = w->depth = w->inner = 1;
  while (last > 0 && !(args->axes >> (last - 1) & 1)) /* axes from here on are kept and innermost */
    last--;
  for (int d = 0; d < last; d++)
    if (!(args->axes >> d & 1)) {
      w->order[n++] = d;
      w->outer *= space->dim[d];
    }
  for (int d = 0; d < last; d++)
    if (args->axes >> d & 1) {
      w->order[n++] = d;
      w->depth *= space->dim[d];
    }
  for (int d = last; d < rank; d++) {
    w->order[n++] = d;
    w->inner *= space->dim[d];
  }
  int64_t pieces = hr__walk_up(w->depth * w->inner, HR_WALK_PIECE), rows = hr__walk_up(w->depth, HR_WALK_ROWS);
  if (pieces > HR_WALK_PIECES) pieces = HR_WALK_PIECES;
  if (pieces > rows) pieces = rows;
  w->piece = hr__walk_up(hr__walk_up(w->depth, pieces), HR_WALK_ROWS) * HR_WALK_ROWS;
  w->pieces = hr__walk_up(w->depth, w->piece);
}

/* As CUDA cuts it: thousands of threads wait for work, so pieces are as short as lets each of a block's have some. */
static inline void hr__walk_make_cuda(const hr_reduce_args *args, const hr_desc *space, hr_walk *w) {
  hr__walk_make(args, space, w);
  int64_t pieces = hr__walk_up(w->depth, w->inner == 1 ? HR_WALK_CUDA_RUN : HR_WALK_CUDA_ROWS);
  if (pieces > HR_WALK_CUDA_PIECES) pieces = HR_WALK_CUDA_PIECES;
  w->piece = hr__walk_up(hr__walk_up(w->depth, pieces), HR_WALK_CUDA_PACK) * HR_WALK_CUDA_PACK;
  w->pieces = hr__walk_up(w->depth, w->piece);
}

/* Bytes of the sums of pieces, f64. */
static inline size_t hr__walk_bytes(const hr_walk *w) {
  return w->pieces > 1 ? ((size_t)(w->outer * w->pieces * w->inner) * sizeof(double) + 63) / 64 * 64 : 0;
}

#endif
