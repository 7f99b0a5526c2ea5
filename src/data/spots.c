/* See spots.h. */
#include "data/spots.h"

#include <string.h>

bool hr__spot_seen(const float n[HR_SPOT_NUMBERS]) {
  return n[HR_SPOT_X] >= 0 && n[HR_SPOT_X] < 1 && n[HR_SPOT_Y] >= 0 && n[HR_SPOT_Y] < 1;
}

/* In f32 as the device computes it, so that the offset inside of the cell is in [0, 1] there. */
static int64_t cell_along(float place, int64_t cells) {
  int64_t cell = (int64_t)(place * (float)cells);
  return cell < cells ? cell : cells - 1;
}

void hr__spots_put(const hr_spot_list *list, int64_t height, int64_t width, float *spots, int32_t *cells,
                   uint8_t *mask) {
  int64_t rows = hr__spot_cells(height), columns = hr__spot_cells(width);
  for (int i = 0; i < HR_SPOTS; i++) {
    const float *n = list->number[i];
    bool there = i < list->count;
    if (mask) mask[i] = there;
    if (spots && there) memcpy(spots + i * HR_SPOT_NUMBERS, n, HR_SPOT_NUMBERS * sizeof *n);
    if (spots && !there) memset(spots + i * HR_SPOT_NUMBERS, 0, HR_SPOT_NUMBERS * sizeof *n);
    if (!cells) continue;
    cells[i] = (int32_t)(there ? cell_along(n[HR_SPOT_Y], rows) * columns + cell_along(n[HR_SPOT_X], columns)
                               : rows * columns);
  }
}
