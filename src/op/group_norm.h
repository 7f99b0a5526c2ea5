/* group_norm: channels are normalised in groups, over all places of a sample; then scaled and shifted by channel, and
 * optionally put through gelu. Backward makes the activation again from x, so that only x and the statistics are kept.
 *
 * A sample may be normalised a few of its rows at a time (pass/split_strips.c): group_statistics takes what its groups
 * are normalised by from one strip of rows after the other, and each strip is normalised by those of all of them. What
 * x does to its statistics is then a gradient of group_statistics: that of group_norm is what x does beside them.
 */
#ifndef HR_OP_GROUP_NORM_H
#define HR_OP_GROUP_NORM_H

#include "graph/builder.h"

typedef struct hr_group_norm_args {
  int64_t groups; /* the channels are divided into as many, in order */
  float eps;
  bool gelu; /* y = gelu(normalised), by erf */
} hr_group_norm_args;

typedef struct hr_group_norm_bwd_args {
  hr_group_norm_args norm;
  bool want_dx, want_dw, want_db; /* an unwanted result has shape [0] */
  bool given;                     /* the statistics were an operand: dx leaves out what x does to them */
} hr_group_norm_bwd_args;

typedef struct hr_group_statistics_args {
  int64_t groups;
  int64_t before; /* elements of a group that the statistics before are of; 0: there are none */
  float eps;
} hr_group_statistics_args;

/* Operands of the backward op. */
enum {
  HR_GROUP_DY,
  HR_GROUP_X,
  HR_GROUP_W,
  HR_GROUP_B,
  HR_GROUP_STATISTICS,
  HR_GROUP_DX_PARTIAL,
  HR_GROUP_DW_PARTIAL,
  HR_GROUP_DB_PARTIAL,
  HR_GROUP_OPERANDS
};

/* Operands of group_statistics_bwd. */
enum {
  HR_STATS_DY, /* of the statistics */
  HR_STATS_X,
  HR_STATS_ALL,
  HR_STATS_OWN,
  HR_STATS_BEFORE,
  HR_STATS_DX_PARTIAL,
  HR_STATS_OPERANDS
};

/* x [N, C, ...], w and b [C] in one float type, statistics? -> y as x; statistics f32 [N, G, 2]: mean and
 * 1 / sqrt(variance + eps), of x or those given */
extern const hr_op hr_op_group_norm;
/* dy, x, w, b, statistics, dx_partial?, dw_partial?, db_partial? -> dx as x, dw and db as w, dstatistics ([0]: not
 * given) */
extern const hr_op hr_op_group_norm_bwd;
/* x [N, C, ...], before? -> statistics of what came before and of x; own: of x alone */
extern const hr_op hr_op_group_statistics;
/* dstatistics, x, statistics, own, before?, dx_partial? -> dx as x, dbefore ([0] without before) */
extern const hr_op hr_op_group_statistics_bwd;

hr_id hr__group_norm(hr_builder *b, hr_id x, hr_id weight, hr_id bias, const hr_group_norm_args *args);

/* How a call is cut, from the shape alone: a piece is a run of places of one channel of one sample, and pieces of a
 * channel, and channels of a group, follow each other. Counts are 64 bits wide: x may have more than 2^32 elements. */
enum { HR_GROUP_PIECE = 16 * 1024 }; /* elements at most */
typedef struct hr_group_sizes {
  int64_t rows;   /* groups of all samples: each is normalised by itself */
  int64_t planes; /* channels of all samples */
  int64_t channels, places;
  int64_t planes_each; /* of a row */
  int64_t pieces_each; /* of a plane */
} hr_group_sizes;

static inline hr_group_sizes hr__group_sizes(const hr_desc *x, int64_t groups) {
  hr_group_sizes s;
  s.rows = x->dim[0] * groups;
  s.planes = x->dim[0] * x->dim[1];
  s.channels = x->dim[1];
  s.places = 1;
  for (int d = 2; d < x->rank; d++)
    s.places *= x->dim[d];
  s.planes_each = s.channels / groups;
  s.pieces_each = (s.places + HR_GROUP_PIECE - 1) / HR_GROUP_PIECE;
  return s;
}

/* Elements of a row. */
static inline int64_t hr__group_elements(const hr_group_sizes *s) {
  return s->planes_each * s->places;
}

/* Floats of workspace: two for each piece; of the backward op also two for each plane and each row. */
static inline int64_t hr__group_floats(const hr_group_sizes *s, bool backward) {
  return 2 * (s->planes * s->pieces_each + (backward ? s->planes + s->rows : 0));
}

#endif
