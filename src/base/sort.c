/* Bottom-up merge sort: see base/sort.h. */
#include "base/sort.h"

#include <string.h>

static void merge(const void **from, size_t begin, size_t middle, size_t end, const void **to, hr_compare compare) {
  size_t left = begin, right = middle;
  for (size_t i = begin; i < end; i++) {
    int take_left = left < middle && (right >= end || compare(from[left], from[right]) <= 0);
    to[i] = take_left ? from[left++] : from[right++];
  }
}

void hr__sort(const void **items, size_t count, const void **scratch, hr_compare compare) {
  const void **from = items, **to = scratch;
  for (size_t width = 1; width < count; width *= 2) {
    for (size_t begin = 0; begin < count; begin += 2 * width) {
      size_t middle = count - begin < width ? count : begin + width;
      size_t end = count - begin < 2 * width ? count : begin + 2 * width;
      merge(from, begin, middle, end, to, compare);
    }
    const void **other = from;
    from = to;
    to = other;
  }
  if (from != items) memcpy(items, from, count * sizeof *items);
}
