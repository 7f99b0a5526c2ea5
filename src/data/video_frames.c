/* Frames of videos, by several threads (frames.h), and the window that a sample has of them. See video.h. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/random.h"
#include "data/frames.h"
#include "data/row_text.h"
#include "data/video.h"

/* How many frames are of use: up to the end of the last segment, and a whole sample at least. */
static int64_t frames_of_use(const hr_video_settings *s, const hr_video_file *file) {
  double last = ceil(file->last_end * s->fps) + 1;
  int64_t frames = last < HR_VIDEO_FRAMES ? (int64_t)last : HR_VIDEO_FRAMES;
  if (frames < s->frames) frames = s->frames;
  return frames;
}

/* In order: what was read, and what is bad. */
static hr_status videos_judge(hr_videos *v, hr_frames_task *tasks, hr_error *err) {
  v->bad_videos.rows = v->n_files;
  for (size_t i = 0; i < v->n_files; i++) {
    hr_video_file *file = &v->files[i];
    hr_frames_task *t = &tasks[i];
    file->bad = t->status != HR_OK;
    if (file->bad) {
      HR_TRY(hr__bad_row(&v->bad_videos, t->why, err));
      continue;
    }
    hr__trace_add(&v->trace, &t->trace);
    file->cache = t->frames.cache;
    file->times = t->frames.times;
    file->frames = t->frames.frames;
    file->begin = t->frames.begin;
    t->frames = (hr_frames){0};
  }
  return hr__bad_rows_judge(&v->bad_videos, err);
}

static hr_status videos_read(hr_videos *v, int threads, hr_error *err) {
  const hr_video_settings *s = &v->settings;
  hr_frames_task *tasks = hr__alloc_zero(v->n_files + 1, sizeof *tasks);
  if (!tasks) return hr__nomem(err);
  for (size_t i = 0; i < v->n_files; i++) {
    const hr_video_file *file = &v->files[i];
    tasks[i] = (hr_frames_task){.name = file->name,
                                .line = file->line,
                                .path = file->path,
                                .wanted = {{s->fps, s->height, s->width, frames_of_use(s, file)}, 3}};
  }
  hr_status status = hr__frames_all(tasks, v->n_files, threads, v->bad_videos.allowed == 0, &v->decoding, err);
  if (status == HR_OK) status = videos_judge(v, tasks, err);
  hr__frames_tasks_free(tasks, v->n_files);
  hr__free(tasks);
  return status;
}

/* Captions of videos that are left out, and of times that a video has not. */
static hr_status clips_check(hr_videos *v, hr_error *err) {
  for (size_t i = 0; i < v->n_clips; i++) {
    hr_clip *clip = &v->clips[i];
    const hr_video_file *file = &v->files[clip->file];
    clip->bad = file->bad;
    v->dropped += clip->bad;
    if (clip->bad) continue;
    double last = (double)file->times[file->frames - 1];
    if (clip->start <= last + 1 / v->settings.fps) continue;
    hr_error why = {0};
    char place[HR_ROW_PLACE];
    clip->bad = true;
    hr__row_place(v->settings.captions, clip->line, place);
    hr__fail(&why, HR_BAD_INPUT, place, "mend start_time",
             "the segment begins at %g s, but the last frame of %s is shown at %g s", clip->start, clip->video, last);
    HR_TRY(hr__bad_row(&v->bad_captions, &why, err));
  }
  return hr__bad_rows_judge(&v->bad_captions, err);
}

hr_status hr__video_frames(hr_videos *v, int threads, hr_error *err) {
  HR_TRY(videos_read(v, threads, err));
  return clips_check(v, err);
}

/* ---- a sample ---- */

static int64_t frames_of(const hr_videos *v, const hr_clip *clip) {
  return v->settings.made > 0 ? v->settings.made_frames : v->files[clip->file].frames;
}

float hr__clip_time(const hr_videos *v, const hr_clip *clip, int64_t frame) {
  return v->settings.made > 0 ? (float)((double)frame / v->settings.fps) : v->files[clip->file].times[frame];
}

hr_window hr__clip_window(const hr_videos *v, const hr_clip *clip) {
  int64_t all = frames_of(v, clip), size = v->settings.frames, low = 0, high = all - 1;
  if (clip->window >= 0) return (hr_window){clip->window, all - clip->window < size ? all - clip->window : size};
  if (all <= size) return (hr_window){0, all};
  while (low < all - 1 && (double)hr__clip_time(v, clip, low) < clip->start)
    low++;
  while (high > low && (double)hr__clip_time(v, clip, high) > clip->end)
    high--;
  /* Windows from `from` to `to` hold the segment [low, high], or lie within it. */
  int64_t from = high - size + 1 < low ? high - size + 1 : low, to = high - size + 1 < low ? low : high - size + 1;
  if (from < 0) from = 0;
  if (to > all - size) to = all - size;
  if (from > to) from = to;
  hr_random_key key = {v->seed, hr__random_stream("video.window")};
  uint64_t number = (uint64_t)(clip - v->clips);
  return (hr_window){from + (int64_t)hr__random_below(key, number, 0, (uint64_t)(to - from + 1)), size};
}

int64_t hr__clip_triggers(const hr_videos *v, const hr_clip *clip, hr_window window, int32_t *to) {
  double middle = (clip->start + clip->end) / 2, nearest = INFINITY;
  int64_t count = 0, near = 0;
  for (int64_t i = 0; i < window.count; i++) {
    double at = (double)hr__clip_time(v, clip, window.first + i);
    to[i] = at >= clip->start && at <= clip->end;
    count += to[i];
    if (fabs(at - middle) < nearest) {
      nearest = fabs(at - middle);
      near = i;
    }
  }
  if (count > 0 || !clip->caption) return count;
  to[near] = 1;
  return 1;
}

static size_t frame_bytes(const hr_video_settings *s) {
  return (size_t)(s->height * s->width * 3);
}

hr_status hr__video_pixels(const hr_videos *v, const hr_video_file *video, hr_window window, uint8_t *to,
                           hr_error *err) {
  size_t bytes = frame_bytes(&v->settings);
  hr_data_file file;
  hr_status status = hr__data_file_at(video->cache, &file, err);
  if (status == HR_OK)
    status =
        hr__data_file_read(&file, video->begin + (uint64_t)window.first * bytes, to, (size_t)window.count * bytes, err);
  hr__data_file_close(&file);
  return status;
}

hr_status hr__clip_pixels(const hr_videos *v, const hr_clip *clip, hr_window window, uint8_t *to, hr_error *err) {
  size_t bytes = frame_bytes(&v->settings);
  if (v->settings.made > 0) {
    for (int64_t i = 0; i < window.count; i++)
      hr__shapes_paint(v, (uint64_t)(clip - v->clips), window.first + i, to + (size_t)i * bytes);
    return HR_OK;
  }
  return hr__video_pixels(v, &v->files[clip->file], window, to, err);
}
