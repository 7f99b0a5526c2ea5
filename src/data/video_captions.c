/* Captions from a JSON list, and the videos they are about. See video.h. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "data/row_text.h"
#include "data/video.h"

typedef struct reading {
  hr_videos *v;
  size_t capacity;
} reading;

/* A text that is not empty. */
static hr_status filled_text(const hr_row_at *at, const char *key, bool needed, const char **out, hr_error *err) {
  HR_TRY(hr__row_text(at, key, needed, out, err));
  return *out && !**out ? hr__row_fail(at, NULL, err, "%s is empty", key) : HR_OK;
}

static hr_status seconds_of(const hr_row_at *at, const char *key, double *out, hr_error *err) {
  static const char remedy[] = "write seconds from the beginning of the video, as 12.5";
  const hr_doc_node *node = hr__doc_get(at->row->fields, key);
  if (!node || hr__doc_is_null(node)) return hr__row_fail(at, remedy, err, "%s is missing", key);
  if (!hr__row_number(node, out) || !isfinite(*out)) return hr__row_fail(at, remedy, err, "%s is no number", key);
  if (*out < 0 || *out > 1e9) return hr__row_fail(at, remedy, err, "%s is no time within a video", key);
  return HR_OK;
}

static hr_status clip_read(const reading *r, const hr_row_at *at, hr_clip *out, hr_error *err) {
  hr_videos *v = r->v;
  const char *video, *caption;
  HR_TRY(hr__row_parsed(at, err));
  *out = (hr_clip){.line = at->row->place.line, .window = -1};
  HR_TRY(filled_text(at, "video", true, &video, err));
  HR_TRY(filled_text(at, "caption", !v->settings.uncaptioned, &caption, err));
  HR_TRY(seconds_of(at, "start_time", &out->start, err));
  HR_TRY(seconds_of(at, "end_time", &out->end, err));
  if (out->end < out->start) {
    char times[80];
    snprintf(times, sizeof times, "at %g s, before it begins, at %g s", out->end, out->start);
    return hr__row_fail(at, "swap start_time and end_time", err, "the segment ends %s", times);
  }
  out->video = hr__arena_text(&v->arena, video);
  out->caption = caption ? hr__arena_text(&v->arena, caption) : NULL;
  return out->video && (!caption || out->caption) ? HR_OK : hr__nomem(err);
}

static hr_status row_read(void *user, const hr_row_at *at, hr_error *err) {
  reading *r = user;
  hr_videos *v = r->v;
  hr_error why = {0};
  v->bad_captions.rows++;
  if (v->n_clips == UINT32_MAX ||
      hr__arena_grow(&v->arena, (void **)&v->clips, &r->capacity, v->n_clips, sizeof *v->clips) != 0)
    return hr__nomem(err);
  hr_status status = clip_read(r, at, &v->clips[v->n_clips], &why);
  if (status == HR_BAD_INPUT) return hr__bad_row(&v->bad_captions, &why, err);
  if (status != HR_OK) return hr__nomem(err);
  v->n_clips++;
  return HR_OK;
}

static hr_status rows_read(hr_videos *v, hr_error *err) {
  reading r = {.v = v};
  HR_TRY(hr__rows_each(v->settings.captions, row_read, &r, err));
  if (v->bad_captions.rows == 0)
    return hr__fail(err, HR_BAD_INPUT, v->settings.captions, "give it an entry for each caption",
                    "there is no caption in it");
  return hr__bad_rows_judge(&v->bad_captions, err);
}

/* ---- videos ---- */

/* Where a video lies: as it is named, or with the ending that the name leaves out. NULL: nowhere, or out of memory. */
static const char *path_find(hr_arena *arena, const char *folder, const char *name) {
  static const char *const endings[] = {"", ".mp4", ".mkv", ".webm", ".avi", ".mov", ".npy"};
  struct stat facts;
  for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
    const char *path = hr__arena_format(arena, "%s/%s%s", folder, name, endings[i]);
    if (path && stat(path, &facts) == 0) return path;
  }
  return NULL;
}

typedef struct named {
  const char *name;
  size_t clip;
} named;

static int named_compare(const void *a, const void *b) {
  const named *x = a, *y = b;
  int order = strcmp(x->name, y->name);
  return order != 0 ? order : (x->clip > y->clip) - (x->clip < y->clip);
}

static hr_status file_add(hr_videos *v, const hr_clip *first, hr_error *err) {
  hr_video_file *file = &v->files[v->n_files++];
  file->name = first->video;
  file->path = path_find(&v->arena, v->settings.folder, first->video);
  if (!file->path) file->path = hr__arena_format(&v->arena, "%s/%s", v->settings.folder, first->video);
  file->line = hr__arena_format(&v->arena, "%s:%" PRIu64, v->settings.captions, first->line);
  return file->path && file->line ? HR_OK : hr__nomem(err);
}

/* A video for each name, in the order of names. */
static hr_status files_make(hr_videos *v, hr_error *err) {
  named *list = hr__alloc_zero(v->n_clips + 1, sizeof *list);
  v->files = hr__arena_array(&v->arena, v->n_clips + 1, sizeof *v->files);
  hr_status status = list && v->files ? HR_OK : hr__nomem(err);
  for (size_t i = 0; i < v->n_clips && status == HR_OK; i++)
    list[i] = (named){v->clips[i].video, i};
  if (status == HR_OK) qsort(list, v->n_clips, sizeof *list, named_compare);
  for (size_t i = 0; i < v->n_clips && status == HR_OK; i++) {
    hr_clip *clip = &v->clips[list[i].clip];
    if (i == 0 || strcmp(list[i - 1].name, list[i].name) != 0) status = file_add(v, clip, err);
    if (status != HR_OK) break;
    clip->file = (uint32_t)(v->n_files - 1);
    if (clip->end > v->files[clip->file].last_end) v->files[clip->file].last_end = clip->end;
  }
  hr__free(list);
  return status;
}

static hr_status captions_trace(hr_videos *v, hr_error *err) {
  hr_trace one;
  HR_TRY(hr__data_file_at(v->settings.captions, &v->file, err));
  v->file.read_whole = true;
  HR_TRY(hr__trace_file(&v->file, &one, err));
  hr__trace_add(&v->trace, &one);
  return HR_OK;
}

hr_status hr__video_captions(hr_videos *v, hr_error *err) {
  HR_TRY(captions_trace(v, err));
  HR_TRY(rows_read(v, err));
  return files_make(v, err);
}

hr_status hr__video_alone(hr_videos *v, hr_error *err) {
  const char *path = v->settings.alone;
  v->files = hr__arena_array(&v->arena, 1, sizeof *v->files);
  if (!v->files) return hr__nomem(err);
  v->n_files = 1;
  v->files[0] = (hr_video_file){.name = path, .path = path, .line = path, .last_end = INFINITY};
  return HR_OK;
}

hr_status hr__video_windows(hr_videos *v, hr_error *err) {
  const hr_video_file *file = &v->files[0];
  int64_t size = v->settings.frames, count = (file->frames + size - 1) / size;
  v->clips = hr__arena_array(&v->arena, (size_t)count, sizeof *v->clips);
  if (!v->clips) return hr__nomem(err);
  v->n_clips = (size_t)count;
  for (int64_t i = 0; i < count; i++) {
    int64_t last = (i + 1) * size < file->frames ? (i + 1) * size - 1 : file->frames - 1;
    v->clips[i] = (hr_clip){.video = file->name,
                            .start = (double)file->times[i * size],
                            .end = (double)file->times[last],
                            .line = 1,
                            .window = i * size};
  }
  return HR_OK;
}
