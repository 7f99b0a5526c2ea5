/* The scan on the CPU: tiles, their products, and the rooms that a thread works in. See ssd.h for the formulas.
 *
 * A tile is up to HR_SSD_TILE positions of one head. With a_i the sum of d A from the tile's beginning up to position
 * i, E_ij = exp(a_i - a_j) for j <= i and 0 else, h the state before the tile and h' that behind it:
 *
 *   y = (C B^T o E o d_j) x + exp(a) C h + D x          h' = exp(a_n) h + (exp(a_n - a) d B)^T x
 *
 * Where documents are packed, a begins anew with each of them as well, E_ij is 0 where j is of another one, a position
 * sees h only if its document began before the tile, and h' is made by the document of the last position alone.
 *
 * Columns of rooms are padded to whole vectors, with zeros.
 */
#ifndef HR_OP_SSD_PARTS_H
#define HR_OP_SSD_PARTS_H

#include "op/ssd.h"

enum { HR_SSD_TILE = 64, HR_SSD_LANES = 16 };

/* Where rooms lie in a thread's workspace, in floats. */
typedef struct hr_ssd_rooms {
  hr_ssd_sizes size;
  int64_t dim, state;         /* P and N, padded */
  size_t b, c, x, dy;         /* rows of the tile: [T, N], [T, N], [T, P], [T, P] */
  size_t turned;              /* one of them with rows as columns, [N or P, T] */
  size_t scaled;              /* B or C times a factor of each row, [T, N] */
  size_t scores, other;       /* [T, T] */
  size_t y;                   /* [T, P] */
  size_t inner;               /* [T, N] */
  size_t h, g, h_turned;      /* [N, P], [N, P], [P, N] */
  size_t tile_states;         /* backward: [tiles of a chunk, N, P] */
  size_t group_g;             /* backward: gradients of states, [heads of a group, N, P] */
  size_t db, dc;              /* backward: sums over the heads of a group, [chunk, N] */
  size_t d, a, slope, da, dd; /* of each position of a chunk */
  size_t floats;
} hr_ssd_rooms;

hr_ssd_rooms hr__ssd_rooms(const hr_ssd_sizes *size, bool backward);

/* One head of one sequence, in the rooms of a thread. */
typedef struct hr_ssd_head {
  const hr_ssd_rooms *rooms;
  float *base; /* the thread's workspace */
  int64_t sequence, head, group;
  float decay, bias, skip; /* A, bias of steps, D */
  const int32_t *starts;   /* of the sequence; NULL: it is one document */
} hr_ssd_head;

/* The first row that row i of a tile sees, whose own first row is position `begin`; -1: the state before it as well. */
static inline int64_t hr__ssd_seen(const hr_ssd_head *w, int64_t begin, int64_t i) {
  return w->starts && w->starts[begin + i] >= begin ? w->starts[begin + i] - begin : -1;
}

/* Whether a begins anew at position i of the chunk that begins at `first`: with a tile, or a document. */
static inline bool hr__ssd_anew(const hr_ssd_head *w, int64_t first, int64_t i) {
  return i % HR_SSD_TILE == 0 || (w->starts && w->starts[first + i] == first + i);
}

/* `first`: the operand that is `mixed`. */
hr_ssd_head hr__ssd_head(const hr_call *call, int first, const hr_ssd_rooms *rooms, float *base, int64_t sequence,
                         int64_t head);

/* d, and slopes dd / dstep, of positions [begin, begin + count) of a chunk. */
void hr__ssd_steps(const hr_ssd_head *w, const hr_tensor *steps, const hr_ssd_args *args, int64_t begin, int64_t count);
/* a of a chunk's positions. */
void hr__ssd_decays(const hr_ssd_head *w, int64_t first, int64_t count);
/* Columns [column, column + columns) of rows [begin, begin + count) of a sequence, in rows of ld floats; zeros behind.
 */
void hr__ssd_rows(const hr_ssd_head *w, const hr_tensor *from, int64_t begin, int64_t count, int64_t column,
                  int64_t columns, int64_t ld, float *to);
/* to [columns, ld] = from [rows, columns] with rows as columns; zeros behind. */
void hr__ssd_turn(const float *from, int64_t rows, int64_t columns, int64_t from_ld, float *to, int64_t ld);
/* scores [T, T] = C B^T of the tile's rooms, its lower triangle; B is in `turned` afterwards. */
void hr__ssd_scores(const hr_ssd_head *w, int64_t rows);
/* Row i of `to` = factor[i] row i of `from`, both [T, N]. */
void hr__ssd_scale(const float *from, const float *factor, int64_t rows, int64_t ld, float *to);
/* h = exp(a_n) h + (exp(a_n - a) d B)^T x of a tile whose first position is `begin`. */
void hr__ssd_advance(const hr_ssd_head *w, int64_t begin, const float *d, const float *a, int64_t rows, float *h);

hr_status hr__ssd_run(const hr_call *call);
hr_status hr__ssd_bwd_run(const hr_call *call);

/* C [m, n] += A B with A(i, k) = a[i si + k sk], B [k, n] in rows of ldb, C in rows of ldc; n is a multiple of
 * HR_SSD_LANES. `lower`: A(i, k) is 0 for k > i, and need not be looked at from the next multiple of 6 on. */
typedef struct hr_ssd_left {
  const float *a;
  int64_t si, sk;
  bool lower;
} hr_ssd_left;
void hr__ssd_product(int64_t m, int64_t n, int64_t k, hr_ssd_left left, const float *b, int64_t ldb, float *c,
                     int64_t ldc);

#endif
