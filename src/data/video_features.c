/* See video_features.h. */
#include "data/video_features.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cache.h"
#include "format/aside.h"
#include "format/file.h"

static const char magic[16] = "headroom featur1";

/* Of what makes features, beside what their key tells: to be raised where its arithmetic gives other numbers, so that
 * none are taken over that were made before. */
enum { ARITHMETIC = 1 };

typedef struct header {
  char magic[sizeof magic];
  int64_t frames, width;
  char hash[HR_XXH_HEX]; /* of the rows */
  char unused[7];
} header;

/* A video whose features are missing. */
typedef struct missing {
  size_t unit;
  uint64_t first; /* row, of all that are missing */
} missing;

/* `units` are videos, or all that are made together. Those that are there, or will be, have a path. */
struct hr_video_features {
  hr_arena arena;
  int64_t width;
  const char **paths; /* of each unit */
  missing *missing;
  size_t n_missing;
  uint64_t rows; /* that are missing */
  /* what is being made: */
  size_t at; /* among the missing */
  hr_aside file;
  int64_t done; /* rows of it */
  hr_hash *hash;
};

/* Videos, where there are any. */
static size_t units_of(const hr_videos *v) {
  return v->settings.made > 0 ? 1 : v->n_files;
}

static bool is_used(const hr_videos *v, size_t unit) {
  return v->settings.made > 0 || !v->files[unit].bad;
}

static int64_t frames_of(const hr_videos *v, size_t unit) {
  return v->settings.made > 0 ? v->settings.made * v->settings.made_frames : v->files[unit].frames;
}

static size_t row_bytes(const hr_videos *v) {
  return (size_t)v->features->width * sizeof(float);
}

/* ---- a file that is there ---- */

/* Whether the rows are those that the header tells of, read through a window. */
static hr_status rows_hold(const hr_data_file *file, const header *facts, bool *hold, hr_error *err) {
  enum { WINDOW = 1 << 18 };
  char hex[HR_SHA256_HEX];
  hr_hash *hash = NULL;
  char *window = hr__alloc(WINDOW);
  hr_status status = window ? hr__hash_create(HR_HASH_XXH128, &hash, err) : hr__nomem(err);
  for (uint64_t at = sizeof *facts; at < file->bytes && status == HR_OK; at += WINDOW) {
    size_t bytes = file->bytes - at < WINDOW ? (size_t)(file->bytes - at) : WINDOW;
    status = hr__data_file_read(file, at, window, bytes, err);
    if (status == HR_OK) status = hr__hash_update(hash, window, bytes, err);
  }
  if (status == HR_OK) status = hr__hash_hex(hash, hex, err);
  *hold = status == HR_OK && memcmp(hex, facts->hash, sizeof facts->hash) == 0;
  hr__hash_destroy(hash);
  hr__free(window);
  return status;
}

/* Anything but a whole file of these frames is made anew. */
static hr_status file_look(const hr_videos *v, size_t unit, bool *there, hr_error *err) {
  hr_data_file file;
  header facts;
  *there = false;
  hr_status status = HR_OK;
  if (hr__data_file_at(v->features->paths[unit], &file, NULL) == HR_OK && file.bytes >= sizeof facts &&
      hr__data_file_read(&file, 0, &facts, sizeof facts, NULL) == HR_OK &&
      memcmp(facts.magic, magic, sizeof magic) == 0 && facts.frames == frames_of(v, unit) &&
      facts.width == v->features->width && file.bytes == sizeof facts + (uint64_t)facts.frames * row_bytes(v))
    status = rows_hold(&file, &facts, there, err);
  hr__data_file_close(&file);
  return status == HR_NOMEM ? status : HR_OK;
}

/* ---- finding them ---- */

static hr_status unit_path(hr_videos *v, size_t unit, const hr_features_maker *maker, hr_error *err) {
  hr_video_features *f = v->features;
  const hr_video_settings *s = &v->settings;
  char key[HR_XXH_HEX], name[64];
  const char *text =
      s->made > 0
          ? hr__arena_format(&f->arena,
                             "made %" PRIu64 " %" PRId64 " x %" PRId64 " of %" PRId64 " x %" PRId64 " %s %" PRId64,
                             v->seed, s->made, s->made_frames, s->height, s->width, maker->hash, maker->width)
          : hr__arena_format(&f->arena, "%s %s %" PRId64, strrchr(v->files[unit].cache, '/'), maker->hash,
                             maker->width);
  if (!text) return hr__nomem(err);
  text = hr__arena_format(&f->arena, "%s arithmetic %d", text, ARITHMETIC);
  if (!text) return hr__nomem(err);
  hr__xxh128_hex(text, strlen(text), key);
  snprintf(name, sizeof name, "features-%s.bin", key);
  return hr__cache_path(&f->arena, name, &f->paths[unit], err);
}

static hr_status units_find(hr_videos *v, const hr_features_maker *maker, hr_error *err) {
  hr_video_features *f = v->features;
  size_t units = units_of(v);
  f->paths = hr__arena_array(&f->arena, units + 1, sizeof *f->paths);
  f->missing = hr__arena_array(&f->arena, units + 1, sizeof *f->missing);
  if (!f->paths || !f->missing) return hr__nomem(err);
  for (size_t unit = 0; unit < units; unit++) {
    bool there = true;
    if (!is_used(v, unit)) continue;
    HR_TRY(unit_path(v, unit, maker, err));
    HR_TRY(file_look(v, unit, &there, err));
    if (there) continue;
    f->missing[f->n_missing++] = (missing){unit, f->rows};
    f->rows += (uint64_t)frames_of(v, unit);
  }
  return HR_OK;
}

static hr_status features_find(void *state, const hr_features_maker *maker, uint64_t *rows, hr_error *err) {
  hr_videos *v = state;
  hr__video_features_close(v);
  v->features = hr__alloc_zero(1, sizeof *v->features);
  if (!v->features) return hr__nomem(err);
  v->features->width = maker->width;
  v->features->file.fd = -1;
  hr__arena_init(&v->features->arena);
  HR_TRY(units_find(v, maker, err));
  *rows = v->features->rows;
  return HR_OK;
}

/* ---- making them ---- */

/* Frames of a unit, which follow one another in its file of pixels; of those that are made clip after clip. */
static hr_status frames_read(const hr_videos *v, size_t unit, int64_t first, int64_t count, uint8_t *to,
                             hr_error *err) {
  size_t bytes = (size_t)(v->settings.height * v->settings.width * 3);
  if (v->settings.made == 0) return hr__video_pixels(v, &v->files[unit], (hr_window){first, count}, to, err);
  for (int64_t i = 0; i < count; i++)
    hr__shapes_paint(v, (uint64_t)((first + i) / v->settings.made_frames), (first + i) % v->settings.made_frames,
                     to + (size_t)i * bytes);
  return HR_OK;
}

static hr_status features_inputs(const void *state, uint64_t first, uint64_t count, void *to, hr_error *err) {
  const hr_videos *v = state;
  const hr_video_features *f = v->features;
  size_t bytes = (size_t)(v->settings.height * v->settings.width * 3), at = 0;
  while (at + 1 < f->n_missing && f->missing[at + 1].first <= first)
    at++;
  for (uint64_t done = 0; done < count; at++) {
    int64_t begin = (int64_t)(first + done - f->missing[at].first);
    uint64_t left = (uint64_t)(frames_of(v, f->missing[at].unit) - begin);
    uint64_t here = left < count - done ? left : count - done;
    HR_TRY(frames_read(v, f->missing[at].unit, begin, (int64_t)here, (uint8_t *)to + done * bytes, err));
    done += here;
  }
  return HR_OK;
}

static hr_status file_begin(hr_video_features *f, hr_error *err) {
  f->done = 0;
  HR_TRY(hr__hash_create(HR_HASH_XXH128, &f->hash, err));
  return hr__aside_begin(f->paths[f->missing[f->at].unit], 0, &f->arena, &f->file, err);
}

static hr_status header_put(const hr_video_features *f, hr_error *err) {
  char hex[HR_SHA256_HEX];
  header facts = {.frames = f->done, .width = f->width};
  memcpy(facts.magic, magic, sizeof magic);
  HR_TRY(hr__hash_hex(f->hash, hex, err));
  memcpy(facts.hash, hex, sizeof facts.hash);
  return hr__file_write_at(f->file.fd, f->file.unfinished, 0, &facts, sizeof facts, err);
}

/* Nothing of a file that is not whole is left. */
static hr_status file_end(hr_video_features *f, hr_status status, hr_error *err) {
  if (status == HR_OK) status = header_put(f, err);
  hr__hash_destroy(f->hash);
  f->hash = NULL;
  f->at++;
  return hr__aside_end(&f->file, status, err);
}

static hr_status rows_put(hr_videos *v, uint64_t count, const float *rows, hr_error *err) {
  hr_video_features *f = v->features;
  size_t bytes = row_bytes(v);
  for (uint64_t done = 0; done < count;) {
    if (f->file.fd < 0) HR_TRY(file_begin(f, err));
    int64_t frames = frames_of(v, f->missing[f->at].unit);
    uint64_t left = (uint64_t)(frames - f->done), here = left < count - done ? left : count - done;
    const char *from = (const char *)rows + done * bytes;
    HR_TRY(hr__file_write_at(f->file.fd, f->file.unfinished, sizeof(header) + (uint64_t)f->done * bytes, from,
                             here * bytes, err));
    HR_TRY(hr__hash_update(f->hash, from, here * bytes, err));
    f->done += (int64_t)here;
    done += here;
    if (f->done == frames) HR_TRY(file_end(f, HR_OK, err));
  }
  return HR_OK;
}

static hr_status features_put(void *state, uint64_t count, const float *rows, hr_error *err) {
  hr_videos *v = state;
  hr_status status = rows_put(v, count, rows, err);
  return status == HR_OK ? HR_OK : file_end(v->features, status, err);
}

const hr_featured hr_video_featured = {.find = features_find, .inputs = features_inputs, .put = features_put};

void hr__video_features_close(hr_videos *v) {
  if (!v->features) return;
  file_end(v->features, HR_FAILURE, NULL);
  hr__arena_fini(&v->features->arena);
  hr__free(v->features);
  v->features = NULL;
}

/* ---- a sample ---- */

hr_status hr__clip_features(const hr_videos *v, const hr_clip *clip, hr_window window, float *to, hr_error *err) {
  bool made = v->settings.made > 0;
  const char *path = v->features->paths[made ? 0 : clip->file];
  uint64_t first =
      (uint64_t)window.first + (made ? (uint64_t)(clip - v->clips) * (uint64_t)v->settings.made_frames : 0);
  hr_data_file file;
  hr_status status = hr__data_file_at(path, &file, err);
  if (status == HR_OK)
    status =
        hr__data_file_read(&file, sizeof(header) + first * row_bytes(v), to, (size_t)window.count * row_bytes(v), err);
  hr__data_file_close(&file);
  return status;
}
