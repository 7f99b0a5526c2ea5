/* What readers of frames share: size, rate and number of frames are the same wherever they come from. */
#ifndef HR_FORMAT_VIDEO_FRAMES_H
#define HR_FORMAT_VIDEO_FRAMES_H

#include "format/video.h"

typedef struct hr_video_frames {
  const char *path;
  const hr_video_wanted *wanted;
  hr_video_each each;
  void *user;
  uint8_t *sized; /* room for one frame of the wanted size */
  int64_t taken;
  uint64_t held; /* bytes that FFmpeg's libraries may hold for it */
} hr_video_frames;

/* Whether the frame shown then is one of those that are wanted, and whether no other will be. */
bool hr__frame_wanted(const hr_video_frames *f, double seconds);
static inline bool hr__frames_done(const hr_video_frames *f) {
  return f->taken >= f->wanted->frames;
}
/* Takes a frame, [height, width, 3]. */
hr_status hr__frame_take(hr_video_frames *f, double seconds, const uint8_t *pixels, hr_picture_size size,
                         hr_error *err);

/* video_libav.c: the frames of a file; of an image (which has one) as if it were shown at `seconds`. */
hr_status hr__video_decode(hr_video_frames *f, const char *path, bool image, double seconds, hr_error *err);

#endif
