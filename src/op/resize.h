/* resize: linear interpolation along one to three axes behind samples and channels, between the centres of cells
 * (corners are not aligned), and its adjoint, which gathers. */
#ifndef HR_OP_RESIZE_H
#define HR_OP_RESIZE_H

#include "graph/builder.h"

enum { HR_RESIZE_AXES = 3 };

/* Along an axis, where x and y are some of the rows of larger ones: how many those have, and which are the first here.
 * All 0: they are whole. */
typedef struct hr_resize_part {
  int64_t from, to;
  int64_t from_first, to_first;
} hr_resize_part;

/* resize: sizes of y; resize_bwd: sizes of x. One entry for each axis behind the channels. */
typedef struct hr_resize_args {
  int64_t size[HR_RESIZE_AXES];
  hr_resize_part part[HR_RESIZE_AXES];
} hr_resize_args;

/* x [N, C, size...] -> y [N, C, args.size...] */
extern const hr_op hr_op_resize;
/* dy, partial? -> dx [N, C, args.size...] */
extern const hr_op hr_op_resize_bwd;

hr_id hr__resize(hr_builder *b, hr_id x, const int64_t *size);

/* Where element `i` of `to` along an axis lies among `from` elements: at place + part, between two of them (at the ends
 * on one). Whole numbers, so that nothing is rounded before the last division. */
typedef struct hr_between {
  int32_t place;
  float part;
} hr_between;
#ifdef __CUDACC__
#define HR_RESIZE_INLINE __host__ __device__ static inline
#else
#define HR_RESIZE_INLINE static inline
#endif
HR_RESIZE_INLINE hr_between hr__resize_between(int64_t i, int64_t from, int64_t to) {
  int64_t at = (2 * i + 1) * from - to; /* over 2 to */
  hr_between b;
  if (at < 0) at = 0;
  b.place = (int32_t)(at / (2 * to));
  b.part = (float)(at % (2 * to)) / (float)(2 * to);
  if (b.place >= from - 1) {
    b.place = (int32_t)(from - 1);
    b.part = 0;
  }
  return b;
}

/* What element `p` of `from` has in one that lies at `b`. */
HR_RESIZE_INLINE float hr__resize_share(hr_between b, int64_t p) {
  return b.place == p ? 1.0f - b.part : b.place + 1 == p ? b.part : 0.0f;
}

/* Elements of `to` that element `p` of `from` has a share in are among [first, end). */
typedef struct hr_reached {
  int32_t first, end;
} hr_reached;
HR_RESIZE_INLINE hr_reached hr__resize_reached(int64_t p, int64_t from, int64_t to) {
  /* p - 1 < (i + 1/2) from / to - 1/2 < p + 1 */
  int64_t low = ((2 * p - 1) * to - from) / (2 * from) - 1, high = ((2 * p + 3) * to - from) / (2 * from) + 2;
  hr_reached r;
  r.first = (int32_t)(p == 0 || low < 0 ? 0 : low);
  r.end = (int32_t)(p == from - 1 || high > to ? to : high);
  return r;
}

/* A call's sizes, with axes that are not there in front as 1; and its workspace: `between` of every element along each
 * axis of the resized side, then, of the adjoint, `reached` of each along the other. */
typedef struct hr_resize_sizes {
  int64_t planes; /* samples x channels */
  int64_t from[HR_RESIZE_AXES], to[HR_RESIZE_AXES];
  hr_resize_part part[HR_RESIZE_AXES]; /* of the whole where there are no others */
} hr_resize_sizes;
HR_RESIZE_INLINE hr_resize_sizes hr__resize_sizes(const hr_desc *x, const hr_desc *y, const hr_resize_args *args) {
  hr_resize_sizes s;
  s.planes = x->dim[0] * x->dim[1];
  for (int d = 0; d < HR_RESIZE_AXES; d++) {
    int axis = x->rank - HR_RESIZE_AXES + d;
    hr_resize_part none = {0, 0, 0, 0};
    s.from[d] = axis >= 2 ? x->dim[axis] : 1;
    s.to[d] = axis >= 2 ? y->dim[axis] : 1;
    s.part[d] = axis >= 2 ? args->part[axis - 2] : none;
    if (s.part[d].to != 0) continue;
    s.part[d].from = s.from[d];
    s.part[d].to = s.to[d];
  }
  return s;
}

/* The same for elements of a call, along axis d of its sizes. */
HR_RESIZE_INLINE hr_between hr__resize_between_of(const hr_resize_sizes *s, int d, int64_t i) {
  hr_between b = hr__resize_between(i + s->part[d].to_first, s->part[d].from, s->part[d].to);
  b.place -= (int32_t)s->part[d].from_first;
  return b;
}
HR_RESIZE_INLINE hr_reached hr__resize_reached_of(const hr_resize_sizes *s, int d, int64_t p) {
  hr_reached r = hr__resize_reached(p + s->part[d].from_first, s->part[d].from, s->part[d].to);
  int64_t first = r.first - s->part[d].to_first, end = r.end - s->part[d].to_first;
  r.first = (int32_t)(first < 0 ? 0 : first);
  r.end = (int32_t)(end > s->to[d] ? s->to[d] : end);
  return r;
}
HR_RESIZE_INLINE int64_t hr__resize_entries(const hr_resize_sizes *s, int backward) {
  int64_t entries = s->to[0] + s->to[1] + s->to[2];
  return backward ? entries + s->from[0] + s->from[1] + s->from[2] : entries;
}

#endif
