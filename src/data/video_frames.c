/* Frames of videos: decoded once into a file of the cache folder, and read there by any thread. See video.h.
 *
 * The file is named after a hash of the video's bytes and of what is wanted of it, so that one that is there is right.
 * It holds a header, when each frame is shown (f32, seconds), and the pixels.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cache.h"
#include "base/random.h"
#include "base/threads.h"
#include "data/video.h"
#include "format/file.h"

static const char magic[16] = "headroom frame1";

typedef struct header {
  char magic[sizeof magic];
  int64_t frames, height, width;
} header;

static size_t frame_bytes(const hr_video_settings *s) {
  return (size_t)(s->height * s->width * 3);
}

/* ---- a file of frames that is there ---- */

/* Whether it is whole, with times that go on; anything else is made anew. */
static bool facts_hold(const hr_data_file *file, const hr_video_settings *s, header *facts) {
  if (file->bytes < sizeof *facts || hr__data_file_read(file, 0, facts, sizeof *facts, NULL) != HR_OK) return false;
  return memcmp(facts->magic, magic, sizeof magic) == 0 && facts->height == s->height && facts->width == s->width &&
         facts->frames > 0 && facts->frames <= HR_VIDEO_FRAMES &&
         file->bytes == sizeof *facts + (uint64_t)facts->frames * (sizeof(float) + frame_bytes(s));
}

static hr_status times_load(const hr_data_file *file, const header *facts, float **out, hr_error *err) {
  *out = hr__alloc((size_t)facts->frames * sizeof **out);
  if (!*out) return hr__nomem(err);
  return hr__data_file_read(file, sizeof *facts, *out, (size_t)facts->frames * sizeof **out, err);
}

static hr_status cached_load(const char *path, const hr_video_settings *s, hr_video_file *out, bool *there,
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
  if (facts_hold(&file, s, &facts)) status = times_load(&file, &facts, &times, err);
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
  const hr_video_settings *s;
  const char *path, *unfinished;
  int fd;
  float *times;
  int64_t frames, capacity;
} writing;

static hr_status put_at(const writing *w, const void *data, size_t bytes, uint64_t at, hr_error *err) {
  for (size_t done = 0; done < bytes;) {
    long n = hr__file_calls.pwrite(w->fd, (const char *)data + done, bytes - done, (int64_t)(at + done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return hr__fail_errno(err, w->unfinished, "write", n < 0 ? errno : EIO);
    done += (size_t)n;
  }
  return HR_OK;
}

static uint64_t pixels_begin(int64_t frames) {
  return sizeof(header) + (uint64_t)frames * sizeof(float);
}

/* Frames are written where they will lie once as many as there is room for have come; `finish` knows how many did. */
static hr_status frame_put(void *user, double seconds, const uint8_t *pixels, hr_error *err) {
  writing *w = user;
  w->times[w->frames] = (float)seconds;
  return put_at(w, pixels, frame_bytes(w->s), pixels_begin(w->capacity) + (uint64_t)w->frames++ * frame_bytes(w->s),
                err);
}

/* Fewer came than there was room for: the pixels move up, frame by frame. */
static hr_status pixels_move(const writing *w, hr_error *err) {
  size_t bytes = frame_bytes(w->s);
  uint8_t *room = hr__alloc(bytes);
  hr_status status = room ? HR_OK : hr__nomem(err);
  for (int64_t i = 0; i < w->frames && status == HR_OK; i++) {
    uint64_t offset = (uint64_t)i * bytes;
    status = hr__file_read_at(w->fd, w->unfinished, pixels_begin(w->capacity) + offset, room, bytes, err);
    if (status == HR_OK) status = put_at(w, room, bytes, pixels_begin(w->frames) + offset, err);
  }
  hr__free(room);
  HR_TRY(status);
  if (ftruncate(w->fd, (off_t)(pixels_begin(w->frames) + (uint64_t)w->frames * bytes)) != 0)
    return hr__fail_errno(err, w->unfinished, "shorten", errno);
  return HR_OK;
}

static hr_status frames_write(writing *w, const char *video, hr_error *err) {
  header facts = {.height = w->s->height, .width = w->s->width};
  hr_video_wanted wanted = {.fps = w->s->fps, .height = w->s->height, .width = w->s->width, .frames = w->capacity};
  HR_TRY(hr__video_read(video, &wanted, frame_put, w, err));
  if (w->frames < w->capacity) HR_TRY(pixels_move(w, err));
  memcpy(facts.magic, magic, sizeof magic);
  facts.frames = w->frames;
  HR_TRY(put_at(w, w->times, (size_t)w->frames * sizeof *w->times, sizeof facts, err));
  return put_at(w, &facts, sizeof facts, 0, err);
}

static hr_status file_write(writing *w, const char *video, hr_error *err) {
  w->fd = hr__file_calls.open(w->unfinished, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (w->fd < 0) return hr__fail_errno(err, w->unfinished, "write", errno);
  hr_status status = frames_write(w, video, err);
  if (hr__file_calls.close(w->fd) != 0 && status == HR_OK) status = hr__fail_errno(err, w->unfinished, "write", errno);
  if (status == HR_OK && hr__file_calls.rename(w->unfinished, w->path) != 0)
    status = hr__fail_errno(err, w->path, "write", errno);
  if (status != HR_OK) hr__file_calls.unlink(w->unfinished);
  return status;
}

static hr_status cached_make(const char *path, const hr_video_settings *s, const hr_video_file *file, int64_t frames,
                             size_t number, hr_arena *arena, hr_error *err) {
  const char *slash = strrchr(path, '/');
  const char *folder = hr__arena_format(arena, "%.*s", (int)(slash - path), path);
  writing w = {.s = s, .path = path, .fd = -1, .capacity = frames};
  w.unfinished = hr__arena_format(arena, "%s.%ld.%zu.tmp", path, (long)getpid(), number);
  w.times = hr__arena_array(arena, (size_t)frames, sizeof *w.times);
  if (!folder || !w.unfinished || !w.times) return hr__nomem(err);
  HR_TRY(hr__file_make_folders(folder, err));
  return file_write(&w, file->path, err);
}

/* ---- what tells a video from another ---- */

static hr_status plain_trace(const char *path, hr_trace *out, hr_error *err) {
  hr_data_file file;
  hr_status status = hr__data_file_at(path, &file, err);
  if (status == HR_OK) status = hr__trace_file(&file, out, err);
  hr__data_file_close(&file);
  return status;
}

static int name_compare(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Of a folder of images: all of them, by name. */
static hr_status folder_trace(const char *path, hr_arena *arena, hr_trace *out, hr_error *err) {
  char **names = NULL;
  size_t count = 0, capacity = 0;
  hr_status status = HR_OK;
  DIR *folder = opendir(path);
  if (!folder)
    return hr__fail(err, HR_BAD_INPUT, path, "check that it can be read", "cannot open the folder: %s",
                    strerror(errno));
  for (struct dirent *entry; status == HR_OK && (entry = readdir(folder));) {
    if (entry->d_name[0] == '.') continue;
    if (hr__arena_grow(arena, (void **)&names, &capacity, count, sizeof *names) != 0 ||
        !(names[count++] = hr__arena_format(arena, "%s/%s", path, entry->d_name)))
      status = hr__nomem(err);
  }
  closedir(folder);
  HR_TRY(status);
  if (count == 0) return hr__fail(err, HR_BAD_INPUT, path, "put its images there", "there is no frame in it");
  qsort(names, count, sizeof *names, name_compare);
  for (size_t i = 0; i < count; i++) {
    hr_trace one;
    HR_TRY(plain_trace(names[i], &one, err));
    hr__trace_add(out, &one);
  }
  return HR_OK;
}

static hr_status video_trace(const hr_video_file *file, hr_arena *arena, hr_trace *out, hr_error *err) {
  struct stat facts;
  *out = (hr_trace){.whole = true};
  if (stat(file->path, &facts) != 0)
    return hr__fail(err, HR_BAD_INPUT, file->line, "put it into the folder of data.path, or leave the caption out",
                    "there is no video %s: %s", file->name, strerror(errno));
  return S_ISDIR(facts.st_mode) ? folder_trace(file->path, arena, out, err) : plain_trace(file->path, out, err);
}

/* ---- all of them ---- */

typedef struct outcome {
  hr_status status;
  hr_error *why; /* NULL: nothing is wrong, or there is no memory to say it */
  hr_trace trace;
} outcome;

typedef struct making {
  hr_videos *v;
  outcome *outcomes;
  _Atomic int64_t stop; /* videos from this one on need not be read: it is bad, and none may be */
  atomic_bool decoded;
} making;

/* How many frames are of use: up to the end of the last segment, and a whole sample at least. */
static int64_t frames_of_use(const hr_video_settings *s, const hr_video_file *file) {
  double last = ceil(file->last_end * s->fps) + 1;
  int64_t frames = last < HR_VIDEO_FRAMES ? (int64_t)last : HR_VIDEO_FRAMES;
  if (frames < s->frames) frames = s->frames;
  return frames;
}

static hr_status video_make(making *m, hr_video_file *file, hr_arena *arena, hr_trace *trace, hr_error *err) {
  const hr_video_settings *s = &m->v->settings;
  char text[256], key[HR_XXH_HEX], name[64];
  const char *path;
  bool there;
  HR_TRY(video_trace(file, arena, trace, err));
  int64_t frames = frames_of_use(s, file);
  int used = snprintf(text, sizeof text, "%.33s %" PRId64 " fps %.17g %" PRId64 " x %" PRId64 " frames %" PRId64 " %s",
                      trace->hash, trace->changed_ns, s->fps, s->height, s->width, frames,
                      hr__video_is_array(file->path) ? "array" : "");
  hr__xxh128_hex(text, (size_t)used, key);
  snprintf(name, sizeof name, "frames-%s.bin", key);
  HR_TRY(hr__cache_path(arena, name, &path, err));
  HR_TRY(cached_load(path, s, file, &there, err));
  if (!there) {
    m->decoded = true;
    HR_TRY(cached_make(path, s, file, frames, (size_t)(file - m->v->files), arena, err));
    HR_TRY(cached_load(path, s, file, &there, err));
    if (!there)
      return hr__fail(err, HR_IO, path, "look at the file system", "the frames that were just written cannot be read");
  }
  size_t bytes = strlen(path) + 1;
  char *kept = hr__alloc(bytes);
  if (!kept) return hr__nomem(err);
  memcpy(kept, path, bytes);
  file->cache = kept;
  return HR_OK;
}

/* Videos are taken up in their order, so all before the first bad one are read whatever the number of threads. */
static void video_task(void *arg, int64_t number, int worker) {
  (void)worker;
  making *m = arg;
  outcome *out = &m->outcomes[number];
  hr_video_file *file = &m->v->files[number];
  hr_error why = {0};
  hr_arena arena;
  if (number > m->stop) return;
  hr__arena_init(&arena);
  out->status = video_make(m, file, &arena, &out->trace, &why);
  hr__arena_fini(&arena);
  file->bad = out->status != HR_OK;
  if (out->status == HR_OK) return;
  out->why = hr__alloc(sizeof *out->why);
  if (out->why) *out->why = why;
  int64_t stop = m->stop;
  while (m->v->bad_videos.allowed == 0 && number < stop)
    if (atomic_compare_exchange_weak(&m->stop, &stop, number)) break;
}

/* In order: what was read, and what is bad. Libraries that are missing are no fault of a video. */
static hr_status videos_judge(making *m, hr_error *err) {
  hr_videos *v = m->v;
  v->bad_videos.rows = v->n_files;
  for (size_t i = 0; i < v->n_files; i++) {
    const outcome *out = &m->outcomes[i];
    if (out->status == HR_OK) {
      hr__trace_add(&v->trace, &out->trace);
      continue;
    }
    if (!out->why) return hr__nomem(err);
    if (out->status != HR_BAD_INPUT) {
      if (err) *err = *out->why;
      return out->status;
    }
    HR_TRY(hr__bad_row(&v->bad_videos, out->why, err));
  }
  return hr__bad_rows_judge(&v->bad_videos, err);
}

static hr_status videos_read(making *m, int threads, hr_error *err) {
  hr_videos *v = m->v;
  hr_pool *pool = NULL;
  m->outcomes = hr__alloc_zero(v->n_files + 1, sizeof *m->outcomes);
  if (!m->outcomes) return hr__nomem(err);
  if (threads > 1) HR_TRY(hr__pool_create(threads, &pool, err));
  hr__pool_run(pool, threads, (int64_t)v->n_files, video_task, m);
  if (pool) hr__pool_destroy(pool);
  v->decoded = m->decoded;
  return videos_judge(m, err);
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
    char place[4200];
    clip->bad = true;
    snprintf(place, sizeof place, "%.4000s:%" PRIu64, v->settings.captions, clip->line);
    hr__fail(&why, HR_BAD_INPUT, place, "mend start_time",
             "the segment begins at %g s, but the last frame of %s is shown at %g s", clip->start, clip->video, last);
    HR_TRY(hr__bad_row(&v->bad_captions, &why, err));
  }
  return hr__bad_rows_judge(&v->bad_captions, err);
}

hr_status hr__video_frames(hr_videos *v, int threads, hr_error *err) {
  making m = {.v = v, .stop = INT64_MAX};
  hr_status status = videos_read(&m, threads > 1 ? threads : 1, err);
  for (size_t i = 0; i < v->n_files && m.outcomes; i++)
    hr__free(m.outcomes[i].why);
  hr__free(m.outcomes);
  HR_TRY(status);
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

hr_status hr__clip_pixels(const hr_videos *v, const hr_clip *clip, hr_window window, uint8_t *to, hr_error *err) {
  size_t bytes = frame_bytes(&v->settings);
  if (v->settings.made > 0) {
    for (int64_t i = 0; i < window.count; i++)
      hr__shapes_paint(v, (uint64_t)(clip - v->clips), window.first + i, to + (size_t)i * bytes);
    return HR_OK;
  }
  const hr_video_file *video = &v->files[clip->file];
  hr_data_file file;
  hr_status status = hr__data_file_at(video->cache, &file, err);
  if (status == HR_OK)
    status =
        hr__data_file_read(&file, video->begin + (uint64_t)window.first * bytes, to, (size_t)window.count * bytes, err);
  hr__data_file_close(&file);
  return status;
}
