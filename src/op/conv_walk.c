/* Rows unfolded along walks over the axes of a convolution; see op/conv_parts.h. */
#include "op/conv_parts.h"
#include "op/stream.h"

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
