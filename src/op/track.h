/* track: follows what was detected from frame to frame, without gradient.
 *
 * A frame's detections, in their order, each go to the nearest track that has none of this frame yet and was last seen
 * within `reach`; of equally near ones to the first. One that finds no track begins a new one while there is room.
 * Detections below `least` are none.
 */
#ifndef HR_OP_TRACK_H
#define HR_OP_TRACK_H

#include "graph/builder.h"

enum { HR_TRACKS_MOST = 32 };

typedef struct hr_track_args {
  int tracks;         /* at most HR_TRACKS_MOST */
  float least, reach; /* reach: in units of places */
} hr_track_args;

/* x f32 [B, T, n, C]: n detections of T frames, of which column 0 is how sure they are, 1 and 2 their place, and all
 * others are carried along -> y [B, tracks, T, C]: what each track has of each frame, zeros where it is not seen. */
extern const hr_op hr_op_track;
hr_id hr__track(hr_builder *b, hr_id x, const hr_track_args *args);

typedef struct hr_track_sizes {
  int64_t samples, frames, detections, columns;
} hr_track_sizes;
static inline hr_track_sizes hr__track_sizes(const hr_desc *x) {
  hr_track_sizes s = {x->dim[0], x->dim[1], x->dim[2], x->dim[3]};
  return s;
}

#endif
