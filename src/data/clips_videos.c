/* Videos of recordings: arrays are read where they lie, films from the cache folder. See clips.h. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "data/clips.h"
#include "data/row_text.h"
#include "format/npy.h"

enum { ROW_MOST = 1 << 16, BRIGHT = 128 };

const char *const hr_clip_fields[HR_CLIP_VIDEOS] = {"rgb", "frame_mask", "infrared"};

hr_status hr__clip_array(const char *path, const hr_field *field, uint64_t *begin, hr_error *err) {
  char first[HR_NPY_HEAD];
  const int64_t *want = field->desc.dim + 2, channels = field->desc.dim[1];
  hr_data_file file;
  hr_npy_head head;
  HR_TRY(hr__data_file_at(path, &file, err));
  size_t bytes = file.bytes < sizeof first ? (size_t)file.bytes : sizeof first;
  hr_status status = hr__data_file_read(&file, 0, first, bytes, err);
  if (status == HR_OK) status = hr__npy_head(path, first, bytes, file.bytes, &head, err);
  hr__data_file_close(&file);
  HR_TRY(status);
  bool fits = head.width == 1 && !head.is_signed && head.rank == (channels > 1 ? 4 : 3) &&
              memcmp(head.dim, want, 3 * sizeof *want) == 0 && (channels == 1 || head.dim[3] == channels) &&
              want[2] * channels <= ROW_MOST;
  *begin = head.data_begin;
  if (fits) return HR_OK;
  return hr__fail(err, HR_BAD_INPUT, path, "save it as np.uint8, or set model.config.frames, frame_height, frame_width",
                  "not a video of bytes, %" PRId64 " frames of %" PRId64 " x %" PRId64 " with %" PRId64 " channels",
                  want[0], want[1], want[2], channels);
}

/* ---- films ---- */

/* What a film must have: as many frames as a sample. */
static hr_status film_check(const hr_clips *c, const hr_recording *one, const hr_frames_task *t, hr_error *err) {
  char place[HR_ROW_PLACE];
  if (t->frames.frames == t->wanted.video.frames) return HR_OK;
  return hr__fail(err, HR_BAD_INPUT, hr__row_place(c->file.path, one->line, place),
                  "raise data.clips.fps, or lower model.config.frames",
                  "%s has %" PRId64 " frames at %g a second, a sample has %" PRId64, t->name, t->frames.frames,
                  t->wanted.video.fps, t->wanted.video.frames);
}

/* Takes over what came of a recording's films; a status of its own where one is bad. */
static hr_status films_take(hr_clips *c, hr_recording *one, hr_frames_task *tasks, size_t *number, hr_error *why) {
  hr_status status = HR_OK;
  for (int k = 0; k < HR_CLIP_VIDEOS; k++) {
    if (!one->video[k].film) continue;
    hr_frames_task *t = &tasks[(*number)++];
    if (status != HR_OK) continue;
    status = t->status;
    if (status != HR_OK)
      hr__clip_refuse(c, one->line, t->why, why);
    else
      status = film_check(c, one, t, why);
    if (status != HR_OK) continue;
    hr__trace_add(&c->trace, &t->trace);
    one->video[k].frames = t->frames;
    t->frames = (hr_frames){0};
  }
  return status;
}

/* In order; those with a bad film are taken out of the list. */
static hr_status films_judge(hr_clips *c, hr_frames_task *tasks, hr_error *err) {
  size_t number = 0, kept = 0;
  for (size_t i = 0; i < c->count; i++) {
    hr_error why = {0};
    hr_recording one = c->list[i];
    if (films_take(c, &one, tasks, &number, &why) == HR_OK) {
      c->list[kept++] = one;
      continue;
    }
    for (int k = 0; k < HR_CLIP_VIDEOS; k++)
      hr__frames_free(&one.video[k].frames);
    hr_status status = hr__bad_row(&c->bad, &why, err);
    if (status == HR_OK) continue;
    c->count = kept; /* what was taken over */
    return status;
  }
  c->count = kept;
  return HR_OK;
}

static void films_list(const hr_clips *c, const hr_source_request *request, char *lines, size_t line_bytes,
                       hr_frames_task *tasks) {
  double fps = hr__recipe_float(request->recipe, "data.clips.fps");
  size_t number = 0;
  for (size_t i = 0; i < c->count; i++)
    for (int k = 0; k < HR_CLIP_VIDEOS; k++) {
      const hr_clip_video *v = &c->list[i].video[k];
      if (!v->film) continue;
      const int64_t *want = hr__field_named(request->fields, hr_clip_fields[k])->desc.dim;
      char *line = lines + number * line_bytes;
      snprintf(line, line_bytes, "%s:%" PRIu64, c->file.path, c->list[i].line);
      tasks[number++] = (hr_frames_task){.name = v->name,
                                         .line = line,
                                         .path = v->path,
                                         .wanted = {{fps, want[3], want[4], want[2]}, k == HR_CLIP_RGB ? 3 : 1}};
    }
}

hr_status hr__clips_films(hr_clips *c, const hr_source_request *request, hr_error *err) {
  size_t films = 0, line_bytes = strlen(c->file.path) + 32;
  for (size_t i = 0; i < c->count; i++)
    for (int k = 0; k < HR_CLIP_VIDEOS; k++)
      films += c->list[i].video[k].film;
  if (films == 0) return HR_OK;
  hr_frames_task *tasks = hr__alloc_zero(films, sizeof *tasks);
  char *lines = hr__alloc_zero(films, line_bytes);
  hr_status status = tasks && lines ? HR_OK : hr__nomem(err);
  int threads = (int)hr__recipe_int(request->recipe, "data.workers");
  if (status == HR_OK) {
    films_list(c, request, lines, line_bytes, tasks);
    status = hr__frames_all(tasks, films, threads, c->bad.allowed == 0, &c->decoding, err);
  }
  if (status == HR_OK) status = films_judge(c, tasks, err);
  if (tasks) hr__frames_tasks_free(tasks, films);
  hr__free(tasks);
  hr__free(lines);
  return status;
}

/* ---- arrays ---- */

static uint64_t arrays_bytes(const hr_clips *c) {
  uint64_t all = 0;
  struct stat facts;
  for (size_t i = 0; i < c->count; i++)
    for (int k = 0; k < HR_CLIP_VIDEOS; k++) {
      const hr_clip_video *v = &c->list[i].video[k];
      if (v->path && !v->film && stat(v->path, &facts) == 0) all += (uint64_t)facts.st_size;
    }
  return all;
}

static hr_status array_trace(hr_clips *c, const hr_clip_video *v, bool whole, hr_error *err) {
  hr_data_file file;
  hr_trace trace;
  if (!v->path || v->film) return HR_OK;
  HR_TRY(hr__data_file_at(v->path, &file, err));
  hr_status status = whole ? hr__trace_file(&file, &trace, err) : hr__trace_ends(&file, &trace, err);
  hr__data_file_close(&file);
  if (status == HR_OK) hr__trace_add(&c->trace, &trace);
  return status;
}

hr_status hr__clips_arrays(hr_clips *c, hr_error *err) {
  bool whole = arrays_bytes(c) <= HR_TRACE_WHOLE_BYTES;
  for (size_t i = 0; i < c->count; i++)
    for (int k = 0; k < HR_CLIP_VIDEOS; k++)
      HR_TRY(array_trace(c, &c->list[i].video[k], whole, err));
  return HR_OK;
}

/* ---- frames ---- */

hr_status hr__clip_read(const hr_clip_video *video, int kind, const hr_field *field, uint8_t *to, hr_error *err) {
  int64_t channels = field->desc.dim[1], width = field->desc.dim[4], rows = field->desc.dim[2] * field->desc.dim[3];
  const uint8_t least = kind != HR_CLIP_MASK ? 0 : video->film ? BRIGHT : 1; /* of a mask: what counts as 1 */
  uint64_t begin = video->film ? video->frames.begin : video->begin;
  hr_data_file file;
  uint8_t row[ROW_MOST];
  if (!video->path) {
    memset(to, 0, (size_t)(channels * rows * width));
    return HR_OK;
  }
  HR_TRY(hr__data_file_at(video->film ? video->frames.cache : video->path, &file, err));
  hr_status status = HR_OK;
  for (int64_t y = 0; y < rows && status == HR_OK; y++) {
    size_t bytes = (size_t)(width * channels);
    status = hr__data_file_read(&file, begin + (uint64_t)y * bytes, row, bytes, err);
    for (int64_t i = 0; i < width * channels && status == HR_OK; i++)
      to[i % channels * rows * width + y * width + i / channels] = least > 0 ? row[i] >= least : row[i];
  }
  hr__data_file_close(&file);
  return status;
}
