/* Which elements meet in a convolution: its sizes, and walks over its axes. Plain C, for the rules, the CPU's kernels
 * and CUDA's.
 */
#ifndef HR_OP_CONV_WALK_H
#define HR_OP_CONV_WALK_H

#include "op/conv.h"

/* A convolution with all its sizes, always along three axes: those in front are of size 1 where there are fewer. */
typedef struct hr_conv_sizes {
  int64_t samples, groups;
  int64_t in, out; /* channels of one group, of x and of y */
  int64_t x[HR_CONV_AXES], kernel[HR_CONV_AXES], y[HR_CONV_AXES];
  int64_t stride[HR_CONV_AXES], padding[HR_CONV_AXES], dilation[HR_CONV_AXES];
} hr_conv_sizes;

static inline int64_t hr__conv_volume(const int64_t size[HR_CONV_AXES]) {
  return size[0] * size[1] * size[2];
}

/* From shapes that go together. */
static inline hr_conv_sizes hr__conv_sizes(const hr_desc *x, const hr_desc *w, const hr_desc *y,
                                           const hr_conv_args *args) {
  hr_conv_sizes s;
  int missing = HR_CONV_AXES - (x->rank - 2);
  s.samples = x->dim[0];
  s.groups = args->groups;
  s.in = w->dim[1];
  s.out = w->dim[0] / args->groups;
  for (int d = 0; d < HR_CONV_AXES; d++) {
    int axis = d - missing;
    bool there = axis >= 0;
    s.x[d] = there ? x->dim[2 + axis] : 1;
    s.kernel[d] = there ? w->dim[2 + axis] : 1;
    s.y[d] = there ? y->dim[2 + axis] : 1;
    s.stride[d] = there ? args->stride[axis] : 1;
    s.padding[d] = there ? args->padding[axis] : 0;
    s.dilation[d] = there ? args->dilation[axis] : 1;
  }
  return s;
}

/* How places of a result gather what they are made of, along each axis: place i of `places`, which is element
 * to_first + i to_step of the result, reads for its tap j of `taps` element i step + first + j tap of the source (0
 * outside of it), and meets element w_first + j w_step of the kernel.
 *
 * y is one walk. In dx, elements that differ by the stride meet the same elements of the kernel: they are one walk, and
 * there are as many as the strides' product. So dx is gathered as y is, with no zeros between windows. */
typedef struct hr_conv_walk {
  int64_t places[HR_CONV_AXES], to[HR_CONV_AXES], to_first[HR_CONV_AXES], to_step[HR_CONV_AXES];
  int64_t source[HR_CONV_AXES], step[HR_CONV_AXES];
  int64_t taps[HR_CONV_AXES], first[HR_CONV_AXES], tap[HR_CONV_AXES];
  int64_t w_first[HR_CONV_AXES], w_step[HR_CONV_AXES];
} hr_conv_walk;

static inline hr_conv_walk hr__conv_walk(const hr_conv_sizes *s) {
  hr_conv_walk w;
  for (int d = 0; d < HR_CONV_AXES; d++) {
    w.places[d] = w.to[d] = s->y[d];
    w.to_first[d] = w.w_first[d] = 0;
    w.to_step[d] = w.w_step[d] = 1;
    w.source[d] = s->x[d];
    w.step[d] = s->stride[d];
    w.taps[d] = s->kernel[d];
    w.first[d] = -s->padding[d];
    w.tap[d] = s->dilation[d];
  }
  return w;
}

/* The places of y themselves, one tap each: [K, places] of a sample as rows [places, K]. */
static inline hr_conv_walk hr__conv_places_walk(const hr_conv_sizes *s) {
  hr_conv_walk w;
  for (int d = 0; d < HR_CONV_AXES; d++) {
    w.places[d] = w.to[d] = w.source[d] = s->y[d];
    w.to_first[d] = w.w_first[d] = w.first[d] = 0;
    w.to_step[d] = w.w_step[d] = w.step[d] = w.taps[d] = w.tap[d] = 1;
  }
  return w;
}

static inline int64_t hr__conv_dx_walks(const hr_conv_sizes *s) {
  return hr__conv_volume(s->stride);
}

static inline int64_t hr__conv_divisor(int64_t a, int64_t b) {
  while (b != 0) {
    int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

/* Elements `phase`, phase + stride, ... of x along axis d. Element i of the kernel joins it to window (phase + padding
 * - i dilation) / stride where that is whole: for none, or for one in every stride / gcd(stride, dilation). */
static inline void hr__conv_phase_walk(const hr_conv_sizes *s, int d, int64_t phase, hr_conv_walk *w) {
  int64_t stride = s->stride[d], dilation = s->dilation[d], every = stride / hr__conv_divisor(stride, dilation), i = 0;
  while (i < every && (phase + s->padding[d] - i * dilation) % stride != 0)
    i++;
  bool meets = i < every && i < s->kernel[d];
  w->places[d] = phase < s->x[d] ? (s->x[d] - phase - 1) / stride + 1 : 0;
  w->to[d] = s->x[d];
  w->to_first[d] = phase;
  w->to_step[d] = stride;
  w->source[d] = s->y[d];
  w->step[d] = 1;
  w->taps[d] = meets ? (s->kernel[d] - 1 - i) / every + 1 : 0;
  w->first[d] = meets ? (phase + s->padding[d] - i * dilation) / stride : 0;
  w->tap[d] = -(dilation * every / stride);
  w->w_first[d] = i;
  w->w_step[d] = every;
}

static inline hr_conv_walk hr__conv_dx_walk(const hr_conv_sizes *s, int64_t number) {
  hr_conv_walk w;
  for (int d = HR_CONV_AXES - 1; d >= 0; d--) {
    hr__conv_phase_walk(s, d, number % s->stride[d], &w);
    number /= s->stride[d];
  }
  return w;
}

/* Whether a window is all of x: rows are samples as they lie there, and nothing needs to be unfolded. */
static inline bool hr__conv_is_view(const hr_conv_sizes *s) {
  for (int d = 0; d < HR_CONV_AXES; d++)
    if (s->kernel[d] != s->x[d] || s->padding[d] != 0 || (s->dilation[d] != 1 && s->kernel[d] > 1)) return false;
  return true;
}

#endif
