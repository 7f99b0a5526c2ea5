/* See video.h. */
#include "format/video.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "format/file.h"
#include "format/npy.h"
#include "format/video_frames.h"

/* ---- size, rate, number ---- */

/* Where a line of the result comes from: between lines `low` and `high` of the source, `part` of 2048 of the latter. */
enum { PARTS = 1 << 11 };
typedef struct between {
  int64_t low, high, part;
} between;

/* The centre of pixel i of `to` lies at (i + 1/2) from / to - 1/2 of `from`; beyond the border is the border. */
static between between_of(int64_t i, int64_t from, int64_t to) {
  int64_t at = ((2 * i + 1) * from * PARTS / to - PARTS) / 2; /* in parts */
  if (at < 0) at = 0;
  if (at > (from - 1) * PARTS) at = (from - 1) * PARTS;
  between b = {.low = at / PARTS, .part = at % PARTS};
  b.high = b.low + 1 < from ? b.low + 1 : b.low;
  return b;
}

void hr__video_resize(const uint8_t *from, hr_picture_size size, hr_picture_size wanted, uint8_t *to) {
  if (size.height == wanted.height && size.width == wanted.width) {
    memcpy(to, from, (size_t)(size.height * size.width * 3));
    return;
  }
  for (int64_t y = 0; y < wanted.height; y++) {
    between v = between_of(y, size.height, wanted.height);
    const uint8_t *above = from + v.low * size.width * 3, *below = from + v.high * size.width * 3;
    for (int64_t x = 0; x < wanted.width; x++) {
      between h = between_of(x, size.width, wanted.width);
      for (int64_t c = 0; c < 3; c++) {
        int64_t upper = above[h.low * 3 + c] * (PARTS - h.part) + above[h.high * 3 + c] * h.part;
        int64_t lower = below[h.low * 3 + c] * (PARTS - h.part) + below[h.high * 3 + c] * h.part;
        int64_t sum = upper * (PARTS - v.part) + lower * v.part;
        *to++ = (uint8_t)((sum + PARTS * PARTS / 2) / (PARTS * PARTS));
      }
    }
  }
}

bool hr__frame_wanted(const hr_video_frames *f, double seconds) {
  const double rounding = 1e-4; /* times are whole numbers of the file's own ticks */
  return !hr__frames_done(f) && seconds + rounding >= (double)f->taken / f->wanted->fps;
}

hr_status hr__frame_take(hr_video_frames *f, double seconds, const uint8_t *pixels, hr_picture_size size,
                         hr_error *err) {
  hr__video_resize(pixels, size, (hr_picture_size){f->wanted->height, f->wanted->width}, f->sized);
  f->taken++;
  return f->each(f->user, seconds, f->sized, err);
}

/* ---- .npy ---- */

static hr_status array_check(const char *path, const hr_npy_head *head, hr_error *err) {
  static const char remedy[] = "save frames as numpy.uint8 of shape [frames, height, width, 3], colours as RGB";
  if (head->width != 1 || head->is_signed)
    return hr__fail(err, HR_BAD_INPUT, path, remedy,
                    "elements of frames are bytes from 0 to 255, not whole numbers of %d bytes", head->width);
  if (head->rank != 4 || head->dim[3] != 3)
    return hr__fail(err, HR_BAD_INPUT, path, remedy,
                    "frames are [frames, height, width, 3], but the array has %d axes, the last of %" PRId64,
                    head->rank, head->rank > 0 ? head->dim[head->rank - 1] : 0);
  if (head->dim[0] == 0) return hr__fail(err, HR_BAD_INPUT, path, NULL, "there is no frame in it");
  for (int i = 1; i < 3; i++)
    if (head->dim[i] < 1 || head->dim[i] > HR_VIDEO_SIDE)
      return hr__fail(err, HR_BAD_INPUT, path, remedy, "a frame has 1 to %d pixels each way, not %" PRId64,
                      HR_VIDEO_SIDE, head->dim[i]);
  return HR_OK;
}

static hr_status array_frames(hr_video_frames *f, int fd, const hr_npy_head *head, uint8_t *room, hr_error *err) {
  hr_picture_size size = {head->dim[1], head->dim[2]};
  size_t bytes = (size_t)(size.height * size.width * 3);
  for (int64_t i = 0; i < head->dim[0] && !hr__frames_done(f); i++) {
    HR_TRY(hr__file_read_at(fd, f->path, head->data_begin + (uint64_t)i * bytes, room, bytes, err));
    HR_TRY(hr__frame_take(f, (double)i / f->wanted->fps, room, size, err));
  }
  return HR_OK;
}

static hr_status array_opened(hr_video_frames *f, int fd, uint64_t bytes, hr_error *err) {
  hr_npy_head head;
  size_t begin = bytes < HR_NPY_HEAD ? (size_t)bytes : HR_NPY_HEAD;
  unsigned char *first = hr__alloc(HR_NPY_HEAD);
  hr_status status = first ? hr__file_read_at(fd, f->path, 0, first, begin, err) : hr__nomem(err);
  if (status == HR_OK) status = hr__npy_head(f->path, first, begin, bytes, &head, err);
  if (status == HR_OK) status = array_check(f->path, &head, err);
  hr__free(first);
  HR_TRY(status);
  uint8_t *room = hr__alloc((size_t)(head.dim[1] * head.dim[2] * 3));
  if (!room) return hr__nomem(err);
  status = array_frames(f, fd, &head, room, err);
  hr__free(room);
  return status;
}

static hr_status array_read(hr_video_frames *f, hr_error *err) {
  int fd;
  uint64_t bytes;
  HR_TRY(hr__file_open(f->path, &fd, &bytes, err));
  hr_status status = array_opened(f, fd, bytes, err);
  close(fd);
  return status;
}

/* ---- a folder of images ---- */

static int name_compare(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

hr_status hr__video_images(const char *path, hr_arena *arena, const char ***out, size_t *count, hr_error *err) {
  size_t capacity = 0;
  DIR *folder = opendir(path);
  if (!folder)
    return hr__fail(err, HR_BAD_INPUT, path, "check that it can be read", "cannot open the folder: %s",
                    strerror(errno));
  hr_status status = HR_OK;
  *out = NULL;
  *count = 0;
  for (struct dirent *entry; status == HR_OK && (entry = readdir(folder));) {
    if (entry->d_name[0] == '.') continue;
    char *name = hr__arena_format(arena, "%s/%s", path, entry->d_name);
    if (*count == HR_VIDEO_FRAMES)
      status = hr__fail(err, HR_BAD_INPUT, path, "leave some out, or make several videos of it",
                        "it has more than %d images", HR_VIDEO_FRAMES);
    else if (!name || hr__arena_grow(arena, (void **)out, &capacity, *count, sizeof **out) != 0)
      status = hr__nomem(err);
    else
      (*out)[(*count)++] = name;
  }
  closedir(folder);
  HR_TRY(status);
  if (*count == 0) return hr__fail(err, HR_BAD_INPUT, path, "put its images there", "there is no frame in it");
  qsort(*out, *count, sizeof **out, name_compare);
  return HR_OK;
}

static hr_status images_read(hr_video_frames *f, hr_error *err) {
  hr_arena arena;
  const char **names = NULL;
  size_t count = 0;
  hr__arena_init(&arena);
  hr_status status = hr__video_images(f->path, &arena, &names, &count, err);
  for (size_t i = 0; i < count && status == HR_OK && !hr__frames_done(f); i++)
    status = hr__video_decode(f, names[i], true, (double)i / f->wanted->fps, err);
  hr__arena_fini(&arena);
  return status;
}

/* ---- any of them ---- */

bool hr__video_is_array(const char *path) {
  size_t length = strlen(path);
  return length > 4 && strcmp(path + length - 4, ".npy") == 0;
}

static hr_status frames_read(hr_video_frames *f, hr_error *err) {
  struct stat facts;
  if (stat(f->path, &facts) != 0)
    return hr__fail(err, HR_BAD_INPUT, f->path, "check its name", "cannot open the video: %s", strerror(errno));
  if (S_ISDIR(facts.st_mode)) return images_read(f, err);
  if (!S_ISREG(facts.st_mode))
    return hr__fail(err, HR_BAD_INPUT, f->path, "name a video, a folder of images, or an .npy file",
                    "this is not a plain file");
  return hr__video_is_array(f->path) ? array_read(f, err) : hr__video_decode(f, f->path, false, 0, err);
}

hr_status hr__video_read(const char *path, const hr_video_wanted *wanted, hr_video_each each, void *user,
                         uint64_t *held, hr_error *err) {
  hr_video_frames f = {.path = path, .wanted = wanted, .each = each, .user = user};
  f.sized = hr__alloc((size_t)(wanted->height * wanted->width * 3));
  if (!f.sized) return hr__nomem(err);
  hr_status status = frames_read(&f, err);
  hr__free(f.sized);
  if (held) *held = f.held;
  if (status == HR_OK && f.taken == 0) return hr__fail(err, HR_BAD_INPUT, path, NULL, "there is no frame in it");
  return status;
}

hr_status hr__video_library_check(const char *name, unsigned built, unsigned found, hr_error *err) {
  if (found == built) return HR_OK;
  if (found == 0)
    return hr__fail(err, HR_UNSUPPORTED, name,
                    "install FFmpeg's libraries (Debian: libavformat, libavcodec, libavutil and libswscale, with "
                    "ffmpeg), or give frames as .npy",
                    "videos and images are decoded by %s %u, which is not here", name, built);
  return hr__fail(err, HR_UNSUPPORTED, name,
                  "build headroom anew with the headers of that version, install the other one, or give frames as .npy",
                  "%s %u is here, but headroom was built with version %u: other versions lay their data out otherwise",
                  name, found, built);
}
