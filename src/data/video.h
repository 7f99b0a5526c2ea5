/* Videos with captions. Captions are read from a JSON list (video_captions.c) or made with their videos
 * (video_shapes.c); frames are decoded once into files of the cache folder (video_frames.c), captions become tokens
 * (video_text.c); which videos are held out is video_split.c's, how good triggers are video_judge.c's. The source is
 * video.c.
 *
 * A folder holds
 *   captions.json  a list of {"video": NAME, "start_time": SECONDS, "end_time": SECONDS, "caption": TEXT}
 *   NAME           the videos: files, folders of images, .npy arrays (format/video.h); the ending may be left out
 *
 * A sample is a caption with up to T frames of its video: a window that has as much of the segment as fits, drawn anew
 * for each sample by the seed where several do. A frame's trigger is 1 where it is shown within the segment; the frame
 * nearest to its middle where none is.
 */
#ifndef HR_DATA_VIDEO_H
#define HR_DATA_VIDEO_H

#include "data/bad_rows.h"
#include "data/source.h"
#include "format/video.h"
#include "text/tokenizer.h"

/* What data.video and data.max_frames say. */
typedef struct hr_video_settings {
  const char *folder, *captions; /* NULL: videos are made */
  const char *alone;             /* a video by itself, without captions; NULL: there are captions */
  double fps;
  int64_t frames, height, width; /* of a sample: T, H, W */
  int64_t made, made_frames;     /* videos that are made, and frames of each */
  bool uncaptioned;              /* captions may be missing */
} hr_video_settings;

/* A video, once its frames are there. */
typedef struct hr_video_file {
  const char *name, *path;
  const char *cache;  /* file of its frames: [frames, H, W, 3] from byte `begin` on */
  const char *line;   /* of the first caption: "captions.json:12" */
  double last_end;    /* of its captions, seconds */
  const float *times; /* when each frame is shown, seconds */
  int64_t frames;
  uint64_t begin;
  bool bad; /* and left out */
} hr_video_file;

typedef struct hr_clip {
  const char *caption; /* NULL: none is given */
  const char *video;   /* as the captions name it */
  double start, end;   /* seconds */
  uint64_t line;
  uint32_t file;  /* number of the video */
  int64_t window; /* its first frame; -1: drawn */
  size_t ids;     /* where its tokens begin; the next one's follow */
  bool bad;       /* and left out */
} hr_clip;

typedef struct hr_video_features hr_video_features; /* video_features.c */

typedef struct hr_videos {
  hr_arena arena;
  hr_video_settings settings;
  hr_video_file *files; /* by name */
  size_t n_files;
  hr_clip *clips;
  size_t n_clips;
  hr_bad_rows bad_videos, bad_captions;
  uint64_t dropped;  /* captions of videos that are left out */
  hr_data_file file; /* of the captions; fd -1: not open */
  hr_trace trace;    /* of captions and videos */
  uint64_t seed;
  hr_ids ids;        /* of all captions */
  int32_t end;       /* the token that ends one */
  uint64_t decoding; /* bytes while videos were decoded, just now */
  uint32_t *order;   /* of samples: number of the clip; those held out last */
  size_t n_samples, n_held;
  hr_video_features *features; /* of frames, in place of those; NULL: none yet */
} hr_videos;

/* video_settings.c. Frames, height and width of samples, by the recipe: data.max_frames, or, where that is null, what
 * data.sequence_length leaves beside captions. */
hr_status hr__video_shape(const hr_recipe *recipe, int64_t *frames, int64_t *height, int64_t *width, hr_error *err);
hr_status hr__video_settings(const hr_recipe *recipe, const char *key, hr_arena *arena, hr_video_settings *out,
                             hr_error *err);

/* Frames that samples of so many positions have room for. */
static inline int64_t hr__video_room(int64_t frames, int64_t length) {
  return frames < length ? frames : length;
}

/* Clips and the files they are about. Frames of all that have captions, by several threads, with the same result
 * whatever their number. */
hr_status hr__video_captions(hr_videos *v, hr_error *err);
hr_status hr__video_alone(hr_videos *v, hr_error *err);
hr_status hr__video_frames(hr_videos *v, int threads, hr_error *err);
/* A video by itself: clips of T frames, one behind the other, once its frames are there. */
hr_status hr__video_windows(hr_videos *v, hr_error *err);

/* Captions that are longer than a sample are bad. */
hr_status hr__video_tokens(hr_videos *v, const hr_source_request *request, hr_error *err);
int64_t hr__clip_targets(const hr_videos *v, const hr_clip *clip);
hr_status hr__video_split(hr_videos *v, const hr_source_request *request, hr_error *err);

/* The frames of a sample: `first` of its video, `count` of them. */
typedef struct hr_window {
  int64_t first, count;
} hr_window;
hr_window hr__clip_window(const hr_videos *v, const hr_clip *clip);
float hr__clip_time(const hr_videos *v, const hr_clip *clip, int64_t frame);
/* Of frames [first, first + count): 1 where the segment is. Returns how many are. */
int64_t hr__clip_triggers(const hr_videos *v, const hr_clip *clip, hr_window window, int32_t *to);
/* The pixels of frames of a video, and of a clip's. */
hr_status hr__video_pixels(const hr_videos *v, const hr_video_file *video, hr_window window, uint8_t *to,
                           hr_error *err);
hr_status hr__clip_pixels(const hr_videos *v, const hr_clip *clip, hr_window window, uint8_t *to, hr_error *err);

/* video_shapes.c: makes clip `number`: what appears, and when; and paints a frame of it. */
hr_status hr__shapes_clips(hr_videos *v, hr_error *err);
void hr__shapes_paint(const hr_videos *v, uint64_t number, int64_t frame, uint8_t *to);

/* video_judge.c: of the held-out samples, from what a model gives for each frame: above 0: it triggers. */
hr_status hr__video_judge(const hr_videos *v, const float *points, int64_t width, hr_judged *out, hr_error *err);

#endif
