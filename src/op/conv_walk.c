/* Which elements meet in a convolution: walks over its axes, and rows unfolded along them; see op/conv_parts.h. */
#include "op/conv_parts.h"
#include "op/stream.h"

hr_conv_sizes hr__conv_sizes(const hr_desc *x, const hr_desc *w, const hr_desc *y, const hr_conv_args *args) {
  hr_conv_sizes s = {.samples = x->dim[0], .groups = args->groups, .in = w->dim[1], .out = w->dim[0] / args->groups};
  int missing = HR_CONV_AXES - (x->rank - 2);
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

hr_conv_walk hr__conv_walk(const hr_conv_sizes *s) {
  hr_conv_walk w = {0};
  for (int d = 0; d < HR_CONV_AXES; d++) {
    w.places[d] = w.to[d] = s->y[d];
    w.to_step[d] = w.w_step[d] = 1;
    w.source[d] = s->x[d];
    w.step[d] = s->stride[d];
    w.taps[d] = s->kernel[d];
    w.first[d] = -s->padding[d];
    w.tap[d] = s->dilation[d];
  }
  return w;
}

int64_t hr__conv_dx_walks(const hr_conv_sizes *s) {
  return hr__conv_volume(s->stride);
}

static int64_t common_divisor(int64_t a, int64_t b) {
  while (b != 0) {
    int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

/* Elements `phase`, phase + stride, ... of x along axis d. Element i of the kernel joins it to window (phase + padding
 * - i dilation) / stride where that is whole: for none, or for one in every stride / gcd(stride, dilation). */
static void phase_walk(const hr_conv_sizes *s, int d, int64_t phase, hr_conv_walk *w) {
  int64_t stride = s->stride[d], dilation = s->dilation[d], every = stride / common_divisor(stride, dilation), i = 0;
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

hr_conv_walk hr__conv_dx_walk(const hr_conv_sizes *s, int64_t number) {
  hr_conv_walk w = {0};
  for (int d = HR_CONV_AXES - 1; d >= 0; d--) {
    phase_walk(s, d, number % s->stride[d], &w);
    number /= s->stride[d];
  }
  return w;
}

int64_t hr__conv_place(const hr_conv_walk *w, int64_t row, int64_t at[HR_CONV_AXES]) {
  for (int d = HR_CONV_AXES - 1; d >= 0; d--) {
    at[d] = row % w->places[d];
    row /= w->places[d];
  }
  return row;
}

bool hr__conv_taps(const hr_conv_walk *w, const int64_t at[HR_CONV_AXES], int64_t *offsets) {
  int64_t start[HR_CONV_AXES];
  bool inside = true;
  for (int d = 0; d < HR_CONV_AXES; d++) {
    start[d] = at[d] * w->step[d] + w->first[d];
    int64_t end = start[d] + (w->taps[d] - 1) * w->tap[d];
    inside &= start[d] >= 0 && start[d] < w->source[d] && end >= 0 && end < w->source[d];
  }
  for (int64_t i = 0, a = start[0]; i < w->taps[0]; i++, a += w->tap[0])
    for (int64_t j = 0, b = start[1]; j < w->taps[1]; j++, b += w->tap[1]) {
      bool there = a >= 0 && a < w->source[0] && b >= 0 && b < w->source[1];
      for (int64_t k = 0, c = start[2]; k < w->taps[2]; k++, c += w->tap[2])
        *offsets++ = there && c >= 0 && c < w->source[2] ? (a * w->source[1] + b) * w->source[2] + c : -1;
    }
  return inside;
}

#define ROW_GATHER(type)                                                                                               \
  do {                                                                                                                 \
    type *into = to;                                                                                                   \
    const type *channel = (const type *)(const void *)row->from;                                                       \
    for (int64_t c = 0; c < row->channels; c++, channel += row->size, into += row->taps) {                             \
      if (row->inside)                                                                                                 \
        for (int64_t t = 0; t < row->taps; t++)                                                                        \
          into[t] = channel[row->offsets[t]];                                                                          \
      else                                                                                                             \
        for (int64_t t = 0; t < row->taps; t++)                                                                        \
          into[t] = row->offsets[t] < 0 ? 0 : channel[row->offsets[t]];                                                \
    }                                                                                                                  \
  } while (0)

/* Zero is all bits 0 in every float type, so that only their width counts. */
void hr__conv_unfold(const hr_conv_row *row, size_t element_bytes, void *to) {
  if (element_bytes == sizeof(float))
    ROW_GATHER(float);
  else
    ROW_GATHER(uint16_t);
}
