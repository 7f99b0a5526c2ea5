/* Frames of a video: a file that libavformat can open, a folder of images, or an .npy array of bytes [T, H, W, 3].
 *
 * Frames are RGB, 8 bits a channel, brought to one size (bilinear between the centres of pixels, as image libraries do
 * without antialiasing) and to at most `fps` of them a second: the k-th is the first that is shown at k / fps seconds
 * or later. Images of a folder go by name; they and arrays have `fps` frames a second.
 *
 * FFmpeg's libraries are no part of headroom: they are loaded when a video or an image is read (video_libav.c). Arrays
 * need none.
 */
#ifndef HR_FORMAT_VIDEO_H
#define HR_FORMAT_VIDEO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"
#include "base/status.h"

enum {
  HR_VIDEO_SIDE = 1 << 14,      /* pixels of a side of a frame, at most, before it is brought to size */
  HR_VIDEO_FRAMES = 1 << 16,    /* of a video that are read, at most */
  HR_VIDEO_DECODING = 96 << 20, /* bytes while a video is decoded, at least: 28 MiB with a small film; decoders keep up
                                   to 16 frames, of 3 MiB at 1920 x 1080 */
};

typedef struct hr_video_wanted {
  double fps;
  int64_t height, width, frames; /* frames: the first ones, at most */
} hr_video_wanted;

/* Told of each frame in order: when it is shown, in seconds, and its pixels [height, width, 3], which are there until
 * it returns. */
typedef hr_status (*hr_video_each)(void *user, double seconds, const uint8_t *pixels, hr_error *err);

/* HR_BAD_INPUT where it cannot be decoded or has no frame; HR_UNSUPPORTED where the libraries are missing. `held` (may
 * be NULL): bytes that these may have held for frames as large as its; 0: they were not asked. */
hr_status hr__video_read(const char *path, const hr_video_wanted *wanted, hr_video_each each, void *user,
                         uint64_t *held, hr_error *err);

/* Paths of a folder's images, by name, in `arena`; HR_BAD_INPUT where there is none, or more than can be read. */
hr_status hr__video_images(const char *folder, hr_arena *arena, const char ***out, size_t *count, hr_error *err);

/* Whether a path is read without FFmpeg's libraries. */
bool hr__video_is_array(const char *path);

/* HR_OK where FFmpeg's libraries are here and of the versions that headroom was built with; else HR_UNSUPPORTED with
 * what to install. */
hr_status hr__video_libraries(hr_error *err);
/* The same of one library: of the major version `built`, where `found` (0: none) is here. */
hr_status hr__video_library_check(const char *name, unsigned built, unsigned found, hr_error *err);

/* from [height, width, 3] brought to the size of `wanted`. */
typedef struct hr_picture_size {
  int64_t height, width;
} hr_picture_size;
void hr__video_resize(const uint8_t *from, hr_picture_size size, hr_picture_size wanted, uint8_t *to);

#endif
