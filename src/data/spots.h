/* Hot spots of a frame of infrared video, as fields of a batch hold them: up to HR_SPOTS of each frame.
 *
 *   spots       f32 [B, T, 24, 5]  x, y, width, height, all as parts of the frame's, and brightness
 *   spot_cells  i32 [B, T, 24]     the cell of 8 x 8 pixels that its middle lies in, counted row by row; no spot: as
 *                                  many as there are cells
 *   spot_mask   u8  [B, T, 24]     1 for the first n
 */
#ifndef HR_DATA_SPOTS_H
#define HR_DATA_SPOTS_H

#include <stdbool.h>
#include <stdint.h>

enum { HR_SPOTS = 24, HR_SPOT_NUMBERS = 5, HR_SPOT_CELL = 8 };
/* Numbers of a spot. */
enum { HR_SPOT_X, HR_SPOT_Y, HR_SPOT_WIDTH, HR_SPOT_HEIGHT, HR_SPOT_BRIGHTNESS };

static inline int64_t hr__spot_cells(int64_t pixels) { /* along an axis of that many */
  return (pixels + HR_SPOT_CELL - 1) / HR_SPOT_CELL;
}

/* What the fields have of one frame: `count` of at most HR_SPOTS spots, each with its middle inside of the frame. */
typedef struct hr_spot_list {
  float number[HR_SPOTS][HR_SPOT_NUMBERS];
  int count;
} hr_spot_list;

/* Whether a spot's middle is inside of the frame. */
bool hr__spot_seen(const float number[HR_SPOT_NUMBERS]);

/* Of a frame of height x width pixels; what is NULL is not written. */
void hr__spots_put(const hr_spot_list *list, int64_t height, int64_t width, float *spots, int32_t *cells,
                   uint8_t *mask);

#endif
