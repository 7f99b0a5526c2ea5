/* See frames.h. */
#include "data/frames.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cache.h"
#include "base/threads.h"
#include "format/aside.h"
#include "format/file.h"

static const char magic[16] = "headroom frame1";

typedef struct header {
  char magic[sizeof magic];
  int64_t frames, height, width;
} header;

static size_t frame_bytes(const hr_frames_wanted *w) {
  return (size_t)(w->video.height * w->video.width * w->channels);
}

/* ---- a file of frames that is there ---- */

/* Whether it is whole, with times that go on; anything else is made anew. */
static bool facts_hold(const hr_data_file *file, const hr_frames_wanted *w, header *facts) {
  if (file->bytes < sizeof *facts || hr__data_file_read(file, 0, facts, sizeof *facts, NULL) != HR_OK) return false;
  return memcmp(facts->magic, magic, sizeof magic) == 0 && facts->height == w->video.height &&
         facts->width == w->video.width && facts->frames > 0 && facts->frames <= HR_VIDEO_FRAMES &&
         file->bytes == sizeof *facts + (uint64_t)facts->frames * (sizeof(float) + frame_bytes(w));
}

static hr_status times_load(const hr_data_file *file, const header *facts, float **out, hr_error *err) {
  *out = hr__alloc((size_t)facts->frames * sizeof **out);
  if (!*out) return hr__nomem(err);
  return hr__data_file_read(file, sizeof *facts, *out, (size_t)facts->frames * sizeof **out, err);
}

static hr_status cached_load(const char *path, const hr_frames_wanted *wanted, hr_frames *out, bool *there,
                             hr_error *err) {
  hr_data_file file;
  header facts;
  float *times = NULL;
  *there = false;
  if (hr__data_file_at(path, &file, NULL) != HR_OK) {
    hr__data_file_close(&file);
    return HR_OK;
  }
  hr_status status = HR_OK;
  if (facts_hold(&file, wanted, &facts)) status = times_load(&file, &facts, &times, err);
  hr__data_file_close(&file);
  if (status != HR_OK || !times) {
    hr__free(times);
    return status;
  }
  out->times = times;
  out->frames = facts.frames;
  out->begin = sizeof facts + (uint64_t)facts.frames * sizeof *times;
  *there = true;
  return HR_OK;
}

/* ---- making one: pixels as they come behind room for all times, which are then moved up ---- */

typedef struct writing {
  const hr_frames_wanted *wanted;
  hr_aside file;
  uint8_t *grey; /* room for one frame; NULL: frames are RGB */
  float *times;
  int64_t frames, capacity;
} writing;

static uint64_t pixels_begin(int64_t frames) {
  return sizeof(header) + (uint64_t)frames * sizeof(float);
}

static uint8_t brightness(const uint8_t pixel[3]) {
  return (uint8_t)((77 * pixel[0] + 150 * pixel[1] + 29 * pixel[2] + 128) / 256);
}

/* Frames are written where they will lie once as many as there is room for have come; `finish` knows how many did. */
static hr_status frame_put(void *user, double seconds, const uint8_t *pixels, hr_error *err) {
  writing *w = user;
  if (w->grey) {
    for (size_t i = 0; i < frame_bytes(w->wanted); i++)
      w->grey[i] = brightness(pixels + 3 * i);
    pixels = w->grey;
  }
  w->times[w->frames] = (float)seconds;
  return hr__file_write_at(w->file.fd, w->file.unfinished,
                           pixels_begin(w->capacity) + (uint64_t)w->frames++ * frame_bytes(w->wanted), pixels,
                           frame_bytes(w->wanted), err);
}

/* Fewer came than there was room for: the pixels move up, frame by frame. */
static hr_status pixels_move(const writing *w, hr_error *err) {
  size_t bytes = frame_bytes(w->wanted);
  uint8_t *room = hr__alloc(bytes);
  hr_status status = room ? HR_OK : hr__nomem(err);
  for (int64_t i = 0; i < w->frames && status == HR_OK; i++) {
    uint64_t offset = (uint64_t)i * bytes;
    status = hr__file_read_at(w->file.fd, w->file.unfinished, pixels_begin(w->capacity) + offset, room, bytes, err);
    if (status == HR_OK)
      status = hr__file_write_at(w->file.fd, w->file.unfinished, pixels_begin(w->frames) + offset, room, bytes, err);
  }
  hr__free(room);
  HR_TRY(status);
  if (ftruncate(w->file.fd, (off_t)(pixels_begin(w->frames) + (uint64_t)w->frames * bytes)) != 0)
    return hr__fail_errno(err, w->file.unfinished, "shorten", errno);
  return HR_OK;
}

static hr_status frames_write(writing *w, hr_frames_task *t, hr_error *err) {
  const hr_video_wanted *wanted = &w->wanted->video;
  header facts = {.height = wanted->height, .width = wanted->width};
  HR_TRY(hr__video_read(t->path, wanted, frame_put, w, &t->decoding, err));
  if (w->frames < w->capacity) HR_TRY(pixels_move(w, err));
  memcpy(facts.magic, magic, sizeof magic);
  facts.frames = w->frames;
  HR_TRY(hr__file_write_at(w->file.fd, w->file.unfinished, sizeof facts, w->times, (size_t)w->frames * sizeof *w->times,
                           err));
  return hr__file_write_at(w->file.fd, w->file.unfinished, 0, &facts, sizeof facts, err);
}

static hr_status cached_make(const char *path, hr_frames_task *t, size_t number, hr_arena *arena, hr_error *err) {
  const hr_frames_wanted *wanted = &t->wanted;
  writing w = {.wanted = wanted, .capacity = wanted->video.frames};
  w.times = hr__arena_array(arena, (size_t)w.capacity, sizeof *w.times);
  w.grey = wanted->channels == 1 ? hr__arena_alloc(arena, frame_bytes(wanted)) : NULL;
  if (!w.times || (wanted->channels == 1 && !w.grey)) return hr__nomem(err);
  HR_TRY(hr__aside_begin(path, number, arena, &w.file, err));
  return hr__aside_end(&w.file, frames_write(&w, t, err), err);
}

/* ---- what tells a video from another ---- */

static hr_status plain_trace(const char *path, hr_trace *out, hr_error *err) {
  hr_data_file file;
  hr_status status = hr__data_file_at(path, &file, err);
  if (status == HR_OK) status = hr__trace_file(&file, out, err);
  hr__data_file_close(&file);
  return status;
}

/* Of a folder of images: all of them. */
static hr_status folder_trace(const char *path, hr_arena *arena, hr_trace *out, hr_error *err) {
  const char **names;
  size_t count;
  HR_TRY(hr__video_images(path, arena, &names, &count, err));
  for (size_t i = 0; i < count; i++) {
    hr_trace one;
    HR_TRY(plain_trace(names[i], &one, err));
    hr__trace_add(out, &one);
  }
  return HR_OK;
}

static hr_status video_trace(const char *path, hr_arena *arena, hr_trace *out, hr_error *err) {
  struct stat facts;
  *out = (hr_trace){.whole = true};
  if (stat(path, &facts) == 0 && S_ISDIR(facts.st_mode)) return folder_trace(path, arena, out, err);
  return plain_trace(path, out, err);
}

/* ---- either ---- */

static hr_status name_of(const char *video, const hr_frames_wanted *wanted, const hr_trace *trace, hr_arena *arena,
                         const char **path, hr_error *err) {
  const hr_video_wanted *w = &wanted->video;
  char text[256], key[HR_XXH_HEX], name[64];
  int used =
      snprintf(text, sizeof text, "%.33s %" PRId64 " fps %.17g %" PRId64 " x %" PRId64 " frames %" PRId64 " %s%s",
               trace->hash, trace->changed_ns, w->fps, w->height, w->width, w->frames,
               hr__video_is_array(video) ? "array" : "", wanted->channels == 1 ? " grey" : "");
  hr__xxh128_hex(text, (size_t)used, key);
  snprintf(name, sizeof name, "frames-%s.bin", key);
  return hr__cache_path(arena, name, path, err);
}

/* `number` tells threads apart that write at the same time. */
static hr_status frames_cached(hr_frames_task *t, size_t number, hr_arena *scratch, _Atomic int64_t *decoded,
                               hr_error *err) {
  const char *path;
  struct stat facts;
  bool there;
  if (stat(t->path, &facts) != 0)
    return hr__fail(err, HR_BAD_INPUT, t->line, "put it where it is looked for, or leave the row out",
                    "there is no video %s: %s", t->name, strerror(errno));
  HR_TRY(video_trace(t->path, scratch, &t->trace, err));
  HR_TRY(name_of(t->path, &t->wanted, &t->trace, scratch, &path, err));
  HR_TRY(cached_load(path, &t->wanted, &t->frames, &there, err));
  if (!there) {
    if (!hr__video_is_array(t->path)) ++*decoded;
    HR_TRY(cached_make(path, t, number, scratch, err));
    HR_TRY(cached_load(path, &t->wanted, &t->frames, &there, err));
    if (!there)
      return hr__fail(err, HR_IO, path, "look at the file system", "the frames that were just written cannot be read");
  }
  size_t bytes = strlen(path) + 1;
  t->frames.cache = hr__alloc(bytes);
  if (!t->frames.cache) return hr__nomem(err);
  memcpy(t->frames.cache, path, bytes);
  return HR_OK;
}

/* ---- all of them ---- */

typedef struct making {
  hr_frames_task *tasks;
  bool none_bad;
  _Atomic int64_t stop;    /* videos from this one on need not be read: it is bad, and none may be */
  _Atomic int64_t decoded; /* videos that are no arrays */
} making;

/* Videos are taken up in their order, so all before the first bad one are read whatever the number of threads. */
static void task_run(void *arg, int64_t number, int worker) {
  (void)worker;
  making *m = arg;
  hr_frames_task *t = &m->tasks[number];
  hr_error why = {0};
  hr_arena arena;
  if (number > m->stop) return;
  hr__arena_init(&arena);
  t->status = frames_cached(t, (size_t)number, &arena, &m->decoded, &why);
  hr__arena_fini(&arena);
  if (t->status == HR_OK) return;
  t->why = hr__alloc(sizeof *t->why);
  if (t->why) *t->why = why;
  int64_t stop = m->stop;
  while (m->none_bad && number < stop)
    if (atomic_compare_exchange_weak(&m->stop, &stop, number)) break;
}

hr_status hr__frames_all(hr_frames_task *tasks, size_t count, int threads, bool none_bad, uint64_t *decoding,
                         hr_error *err) {
  making m = {.tasks = tasks, .none_bad = none_bad, .stop = INT64_MAX};
  hr_pool *pool = NULL;
  if (threads < 1) threads = 1;
  if (threads > 1) HR_TRY(hr__pool_create(threads, &pool, err));
  hr__pool_run(pool, threads, (int64_t)count, task_run, &m);
  if (pool) hr__pool_destroy(pool);
  uint64_t most = 0;
  for (size_t i = 0; i < count; i++)
    if (tasks[i].decoding > most) most = tasks[i].decoding;
  *decoding = (uint64_t)(m.decoded < threads ? m.decoded : threads) * most;
  for (size_t i = 0; i < count; i++) {
    const hr_frames_task *t = &tasks[i];
    if (t->status == HR_OK) continue;
    if (!t->why) return hr__nomem(err);
    if (t->status == HR_BAD_INPUT && none_bad) return HR_OK; /* those behind it may not have been read */
    if (t->status == HR_BAD_INPUT) continue;
    if (err) *err = *t->why;
    return t->status;
  }
  return HR_OK;
}

void hr__frames_free(hr_frames *frames) {
  hr__free(frames->cache);
  hr__free(frames->times);
  *frames = (hr_frames){0};
}

void hr__frames_tasks_free(hr_frames_task *tasks, size_t count) {
  for (size_t i = 0; i < count; i++) {
    hr__frames_free(&tasks[i].frames);
    hr__free(tasks[i].why);
    tasks[i].why = NULL;
  }
}
