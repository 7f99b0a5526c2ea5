/* Recordings of one's own (source clips): rows with their videos, read at the start (clips_rows.c), and frames of the
 * videos, as they are asked for (clips_videos.c). The source is clips.c.
 *
 * data.path is a file of rows (JSON lines), each a sample:
 *
 *   {"rgb": "a.mp4", "mask": "a_mask.npy", "motion": [[9 numbers], [..], [..]], "class": 3, "event": 1, "outcome": 0,
 *    "curves": [[3 numbers], ...], "areas": [[3 numbers], ...],
 *    "infrared": "a_infrared.mp4", "spots": [[[x, y, width, height, brightness], ...] of each frame]}
 *
 * Videos are .npy files of bytes in the model's own size, frames as they come: [T, H, W, 3], masks and infrared
 * [T, H, W]; or whatever FFmpeg decodes, of which frames of data.clips.fps are decoded once, brought to that size, into
 * the cache folder. Their paths go by the folder of the rows. Spots are told in parts of a frame. A row needs what the
 * model's branches read; without a mask all of it is 0. Rows that are no good are left out as far as data.bad_rows
 * allows.
 */
#ifndef HR_DATA_CLIPS_H
#define HR_DATA_CLIPS_H

#include "data/bad_rows.h"
#include "data/frames.h"
#include "data/motion.h"
#include "data/source.h"
#include "data/spots.h"
#include "data/two_labels.h"

enum {
  HR_CLIP_TRACKS = 10,
  HR_CLIP_INSTANTS = 3,
  HR_CLIP_MOTION = HR_MOTION_INSTANTS * HR_MOTION_NUMBERS,
};
enum { HR_CLIP_RGB, HR_CLIP_MASK, HR_CLIP_INFRARED, HR_CLIP_VIDEOS };
extern const char *const hr_clip_fields[HR_CLIP_VIDEOS]; /* of a batch, that have the videos */

typedef struct hr_clip_video {
  const char *name, *path; /* as the row names it; NULL: there is none */
  bool film;               /* to be decoded, not an array */
  uint64_t begin;          /* of an array: where its first frame is */
  hr_frames frames;        /* of a film */
} hr_clip_video;

typedef struct hr_recording {
  hr_clip_video video[HR_CLIP_VIDEOS];
  uint64_t line;       /* of its row */
  hr_spot_list *spots; /* of each frame; NULL: none */
  float motion[HR_CLIP_MOTION], features[HR_MOTION_FEATURES], curves[HR_CLIP_TRACKS * HR_CLIP_INSTANTS],
      areas[HR_CLIP_TRACKS * HR_CLIP_INSTANTS];
  uint8_t tracks[HR_CLIP_TRACKS];
  int32_t class_id;
  hr_two_labels labels;
} hr_recording;

typedef struct hr_clips {
  hr_data_file file;
  hr_recording *list;
  size_t count, capacity;
  uint64_t held;
  hr_arena arena;
  hr_bad_rows bad;
  hr_trace trace;    /* of the rows, of films and of arrays */
  uint64_t decoding; /* bytes while films were decoded, just now */
  char remark[640];
} hr_clips;

/* Of each row that is good what it says; headers of arrays are looked at, films are not yet. */
hr_status hr__clips_rows(hr_clips *c, const hr_source_request *request, hr_error *err);

/* Checks an array against a field [1, C, T, H, W]; *begin: where its first frame is. */
hr_status hr__clip_array(const char *path, const hr_field *field, uint64_t *begin, hr_error *err);
/* HR_BAD_INPUT with what is wrong with a video, in the line of the row that names it. */
hr_status hr__clip_refuse(const hr_clips *c, uint64_t line, const hr_error *why, hr_error *err);
/* Decodes films by several threads, both streams of a recording side by side; takes recordings out whose films are no
 * good. */
hr_status hr__clips_films(hr_clips *c, const hr_source_request *request, hr_error *err);
/* Takes arrays into the trace: whole, or of many that are large together the ends. */
hr_status hr__clips_arrays(hr_clips *c, hr_error *err);
/* Frames as planes [C, T, H, W]; zeros without a video. Masks are 1 where they are not 0, those of films where they are
 * rather bright than dark. */
hr_status hr__clip_read(const hr_clip_video *video, int kind, const hr_field *field, uint8_t *to, hr_error *err);

#endif
