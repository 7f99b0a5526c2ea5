/* Positions in the order of what an index names: so that sums over them are made row by row, in a fixed order. */
#ifndef HR_OP_INDEX_SORT_H
#define HR_OP_INDEX_SORT_H

#include <stdint.h>
#include <string.h>

/* A counting sort: start[r] .. start[r + 1] bounds the positions of row r in `order`, ascending. Indices outside of
 * [0, rows) are left out. start [rows + 1], order [count]. */
static inline void hr__index_sort(const int32_t *index, int64_t count, int64_t rows, int32_t *start, int32_t *order) {
  memset(start, 0, (size_t)(rows + 1) * sizeof *start);
  for (int64_t i = 0; i < count; i++)
    if (index[i] >= 0 && index[i] < rows) start[index[i] + 1]++;
  for (int64_t r = 0; r < rows; r++)
    start[r + 1] += start[r];
  /* Placing moves each start to its group's end, which is the next group's start: then shift by one. */
  for (int64_t i = 0; i < count; i++)
    if (index[i] >= 0 && index[i] < rows) order[start[index[i]]++] = (int32_t)i;
  memmove(start + 1, start, (size_t)rows * sizeof *start);
  start[0] = 0;
}

#endif
