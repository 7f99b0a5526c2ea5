/* Frames of a video (format/video.h), decoded once into a file of the cache folder, and read there by any thread.
 *
 * The file is named after a hash of the video's bytes and of what is wanted of it, so that one that is there is right.
 * It holds a header, when each frame is shown (f32, seconds), and the pixels.
 */
#ifndef HR_DATA_FRAMES_H
#define HR_DATA_FRAMES_H

#include "base/mem.h"
#include "data/trace.h"
#include "format/video.h"

typedef struct hr_frames_wanted {
  hr_video_wanted video;
  int channels; /* 3: RGB; 1: how bright (77 R + 150 G + 29 B) / 256, which of a grey picture is its grey */
} hr_frames_wanted;

typedef struct hr_frames {
  char *cache;    /* file of frames [frames, H, W, channels], from byte `begin` on */
  float *times;   /* when each frame is shown, seconds */
  int64_t frames; /* 1 at least, as many as are wanted at most */
  uint64_t begin;
} hr_frames;

/* A video that is named somewhere, and what came of it. */
typedef struct hr_frames_task {
  const char *name, *line; /* as it is named, and where: "captions.json:12" */
  const char *path;
  hr_frames_wanted wanted;
  hr_status status;
  hr_error *why; /* why not; NULL: nothing is wrong, or there is no memory to say it */
  hr_trace trace;
  hr_frames frames;
  uint64_t decoding; /* bytes that FFmpeg's libraries may have held for it just now; 0: it was not decoded */
} hr_frames_task;

/* Frames of all of them, by several threads, decoded unless they are there. *decoding: bytes that FFmpeg's libraries
 * may have held meanwhile. What cannot be decoded has its own status HR_BAD_INPUT; where none may be bad, those behind
 * the first one need not be read. Any other fault (libraries that are missing are none of a video) is returned. */
hr_status hr__frames_all(hr_frames_task *tasks, size_t count, int threads, bool none_bad, uint64_t *decoding,
                         hr_error *err);
/* Frames and reasons of them, not the list. */
void hr__frames_tasks_free(hr_frames_task *tasks, size_t count);
void hr__frames_free(hr_frames *frames);

#endif
