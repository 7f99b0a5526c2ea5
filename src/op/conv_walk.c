/* Rows unfolded along walks over the axes of a convolution, on the CPU; see op/conv_parts.h. */
#include <string.h>

#include "op/conv_parts.h"

int64_t hr__conv_place(const hr_conv_walk *w, int64_t row, int64_t at[HR_CONV_AXES]) {
  for (int d = HR_CONV_AXES - 1; d >= 0; d--) {
    at[d] = row % w->places[d];
    row /= w->places[d];
  }
  return row;
}

/* The place behind `at`; whether it is the first one of the next sample. */
static bool place_next(const hr_conv_walk *w, int64_t at[HR_CONV_AXES]) {
  for (int d = HR_CONV_AXES - 1; d >= 0; d--) {
    if (++at[d] < w->places[d]) return false;
    at[d] = 0;
  }
  return true;
}

void hr__conv_taps(const hr_conv_walk *w, const int64_t at[HR_CONV_AXES], int64_t *offsets) {
  int64_t start[HR_CONV_AXES];
  for (int d = 0; d < HR_CONV_AXES; d++)
    start[d] = at[d] * w->step[d] + w->first[d];
  for (int64_t i = 0, a = start[0]; i < w->taps[0]; i++, a += w->tap[0])
    for (int64_t j = 0, b = start[1]; j < w->taps[1]; j++, b += w->tap[1]) {
      bool there = a >= 0 && a < w->source[0] && b >= 0 && b < w->source[1];
      for (int64_t k = 0, c = start[2]; k < w->taps[2]; k++, c += w->tap[2])
        *offsets++ = there && c >= 0 && c < w->source[2] ? (a * w->source[1] + b) * w->source[2] + c : -1;
    }
}

/* Taps [first, end) of a place that are inside along one axis. */
static hr_range taps_inside(const hr_conv_walk *w, int d, int64_t at) {
  int64_t start = at * w->step[d] + w->first[d], tap = w->tap[d], taps = w->taps[d], source = w->source[d];
  hr_range in = {0, taps};
  while (in.first < taps && (start + in.first * tap < 0 || start + in.first * tap >= source))
    in.first++;
  while (in.end > in.first && (start + (in.end - 1) * tap < 0 || start + (in.end - 1) * tap >= source))
    in.end--;
  return in;
}

/* One place: to [channels, taps] from channels of `size` elements each. */
typedef struct place_row {
  int64_t channels, size, taps;
  int64_t start, tap; /* along one axis: element of the first tap, from one to the next */
  hr_range inside;    /* along one axis: taps that are */
} place_row;

/* Zero is all bits 0 in every float type, so that only their width counts. */
#define UNFOLD(type, name)                                                                                             \
  /* N taps in a row, all inside; a constant, so that they are no loop */                                              \
  HR_INLINE void name##_whole(const type *from, type *to, const place_row *r, int64_t n) {                             \
    for (int64_t c = 0; c < r->channels; c++, from += r->size, to += n)                                                \
      for (int64_t t = 0; t < n; t++)                                                                                  \
        to[t] = from[t * r->tap];                                                                                      \
  }                                                                                                                    \
  HR_CLONES static void name##_along(const type *from, type *to, const place_row *r) {                                 \
    from += r->start;                                                                                                  \
    if (r->inside.first > 0 || r->inside.end < r->taps) {                                                              \
      for (int64_t c = 0; c < r->channels; c++, from += r->size, to += r->taps) {                                      \
        for (int64_t t = 0; t < r->inside.first; t++)                                                                  \
          to[t] = 0;                                                                                                   \
        for (int64_t t = r->inside.first; t < r->inside.end; t++)                                                      \
          to[t] = from[t * r->tap];                                                                                    \
        for (int64_t t = r->inside.end; t < r->taps; t++)                                                              \
          to[t] = 0;                                                                                                   \
      }                                                                                                                \
      return;                                                                                                          \
    }                                                                                                                  \
    if (r->taps == 2)                                                                                                  \
      name##_whole(from, to, r, 2);                                                                                    \
    else if (r->taps == 3)                                                                                             \
      name##_whole(from, to, r, 3);                                                                                    \
    else if (r->taps == 4)                                                                                             \
      name##_whole(from, to, r, 4);                                                                                    \
    else if (r->taps == 5)                                                                                             \
      name##_whole(from, to, r, 5);                                                                                    \
    else if (r->taps == 7)                                                                                             \
      name##_whole(from, to, r, 7);                                                                                    \
    else                                                                                                               \
      name##_whole(from, to, r, r->taps);                                                                              \
  }                                                                                                                    \
  HR_CLONES static void name##_listed(const type *from, type *to, const place_row *r, const int64_t *offsets) {        \
    for (int64_t c = 0; c < r->channels; c++, from += r->size, to += r->taps)                                          \
      for (int64_t t = 0; t < r->taps; t++)                                                                            \
        to[t] = offsets[t] < 0 ? 0 : from[offsets[t]];                                                                 \
  }                                                                                                                    \
  static void name##_rows(const hr_conv_rows *u, hr_range rows, type *to) {                                            \
    const hr_conv_walk *w = u->walk;                                                                                   \
    bool along = w->taps[0] == 1 && w->taps[1] == 1;                                                                   \
    int64_t at[HR_CONV_AXES], sample = hr__conv_place(w, rows.first, at);                                              \
    place_row row = {.channels = u->channels, .size = hr__conv_volume(w->source), .taps = hr__conv_volume(w->taps)};   \
    row.tap = w->tap[HR_CONV_AXES - 1];                                                                                \
    for (int64_t r = rows.first; r < rows.end; r++, to += row.channels * row.taps) {                                   \
      const type *from = (const type *)u->from + sample * u->apart;                                                    \
      if (along && line_find(w, at, &row)) {                                                                           \
        name##_along(from, to, &row);                                                                                  \
      } else if (along) {                                                                                              \
        memset(to, 0, (size_t)(row.channels * row.taps) * sizeof *to);                                                 \
      } else {                                                                                                         \
        hr__conv_taps(w, at, u->offsets);                                                                              \
        name##_listed(from, to, &row, u->offsets);                                                                     \
      }                                                                                                                \
      sample += place_next(w, at);                                                                                     \
    }                                                                                                                  \
  }

/* Taps lie along the last axis: where they begin, and which are inside. False: the line itself is outside. */
static bool line_find(const hr_conv_walk *w, const int64_t at[HR_CONV_AXES], place_row *row) {
  int64_t a = at[0] * w->step[0] + w->first[0], b = at[1] * w->step[1] + w->first[1];
  if (a < 0 || a >= w->source[0] || b < 0 || b >= w->source[1]) return false;
  row->start = (a * w->source[1] + b) * w->source[2] + at[2] * w->step[2] + w->first[2];
  row->inside = taps_inside(w, 2, at[2]);
  return true;
}

UNFOLD(float, wide)
UNFOLD(uint16_t, narrow)

void hr__conv_unfold(const hr_conv_rows *u, hr_range rows, size_t element_bytes, void *to) {
  if (element_bytes == sizeof(float))
    wide_rows(u, rows, to);
  else
    narrow_rows(u, rows, to);
}
