/* The settings of data.video, and data.max_frames. See video.h. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "data/keys.h"
#include "data/video.h"

#define SECTION "data.video"

enum { SIDE_MOST = 4096 };

static const hr_key keys[] = {
    {.path = "data.max_frames",
     .type = HR_KEY_INT,
     .min = 1,
     .max = HR_VIDEO_FRAMES,
     .choices = "auto",
     .quality = true,
     .meaning =
         "source video: frames of a sample, at most; not given or null: as many as data.sequence_length holds "
         "beside data.video.caption_length; auto: as many as fit, up to that length, which is lowered with them"},
    {.path = HR_CACHE_FEATURES,
     .type = HR_KEY_CHOICE,
     .choices = "false|true|auto|make",
     .fallback = "false",
     .meaning = "source video: true: what a frozen backbone makes of frames is made once, before training, kept in the "
                "cache folder and read in place of frames; auto: where the backbone is frozen; make: only that (what "
                "is planned for it)"},
    {.path = SECTION ".fps",
     .type = HR_KEY_FLOAT,
     .fallback = "3",
     .min = 1e-3,
     .max = 1e3,
     .meaning = "source video: frames that are taken of a second"},
    {.path = SECTION ".height",
     .type = HR_KEY_INT,
     .fallback = "224",
     .min = 1,
     .max = SIDE_MOST,
     .meaning = "source video: pixels that frames are brought to"},
    {.path = SECTION ".width",
     .type = HR_KEY_INT,
     .fallback = "224",
     .min = 1,
     .max = SIDE_MOST,
     .meaning = "source video: pixels that frames are brought to"},
    {.path = SECTION ".captions",
     .type = HR_KEY_TEXT,
     .fallback = "captions.json",
     .meaning = "source video: the list of captions, in the folder of data.path"},
    {.path = SECTION ".caption_length",
     .type = HR_KEY_INT,
     .fallback = "64",
     .min = 1,
     .max = 1 << 20,
     .meaning = "source video with data.max_frames null: tokens that are kept for a caption"},
    {.path = SECTION ".uncaptioned",
     .type = HR_KEY_BOOL,
     .fallback = "false",
     .meaning = "source video: true: captions may be missing, and data.path may name a video (headroom generate)"},
    {.path = SECTION ".made",
     .type = HR_KEY_INT,
     .min = 2,
     .max = 1 << 24,
     .meaning = "source video without data.path: how many videos are made, of shapes that appear and move"},
    {.path = SECTION ".made_frames",
     .type = HR_KEY_INT,
     .min = 4,
     .max = HR_VIDEO_FRAMES,
     .meaning = "source video without data.path: frames of a video that is made (default: data.max_frames)"},
};
const hr_key_table hr_video_keys = {keys, sizeof keys / sizeof *keys};

hr_status hr__video_shape(const hr_recipe *recipe, int64_t *frames, int64_t *height, int64_t *width, hr_error *err) {
  *height = hr__recipe_int(recipe, SECTION ".height");
  *width = hr__recipe_int(recipe, SECTION ".width");
  if (hr__recipe_has(recipe, "data.max_frames") && !hr__recipe_is_word(recipe, "data.max_frames")) {
    *frames = hr__recipe_int(recipe, "data.max_frames");
    return HR_OK;
  }
  int64_t length = hr__recipe_int(recipe, "data.sequence_length");
  int64_t captions = hr__recipe_int(recipe, SECTION ".caption_length");
  *frames = length - captions;
  if (*frames >= 1) return HR_OK;
  return hr__recipe_fail(
      recipe, "data.max_frames", "raise data.sequence_length, or lower data.video.caption_length", err,
      "a sample of %" PRId64 " positions has no room for frames beside %" PRId64 " tokens of a caption", length,
      captions);
}

static bool is_folder(const char *path) {
  struct stat facts;
  return stat(path, &facts) == 0 && S_ISDIR(facts.st_mode);
}

static bool is_there(const char *path) {
  struct stat facts;
  return stat(path, &facts) == 0;
}

static hr_status place_of(const hr_recipe *recipe, const char *key, hr_arena *arena, hr_video_settings *out,
                          hr_error *err) {
  size_t count;
  const char *const *paths = hr__recipe_texts(recipe, key, &count);
  if (count != 1)
    return hr__recipe_fail(recipe, key, "name one folder", err, "source video reads one folder, not %zu", count);
  const char *captions = hr__recipe_text(recipe, SECTION ".captions");
  out->folder = paths[0];
  out->captions = hr__arena_format(arena, "%s/%s", paths[0], captions);
  if (!out->captions) return hr__nomem(err);
  if (is_folder(paths[0]) && is_there(out->captions)) return HR_OK;
  if (out->uncaptioned && is_there(paths[0])) {
    out->alone = paths[0];
    return HR_OK;
  }
  if (!is_folder(paths[0]))
    return hr__recipe_fail(recipe, key,
                           "name the folder of captions and videos; relative paths begin at the recipe's folder", err,
                           "\"%s\" is not a folder", paths[0]);
  return hr__recipe_fail(recipe, key, "put the list there, or name it by data.video.captions", err, "\"%s\" has no %s",
                         paths[0], captions);
}

hr_status hr__video_settings(const hr_recipe *recipe, const char *key, hr_arena *arena, hr_video_settings *out,
                             hr_error *err) {
  *out = (hr_video_settings){.fps = hr__recipe_float(recipe, SECTION ".fps"),
                             .uncaptioned = hr__recipe_bool(recipe, SECTION ".uncaptioned")};
  HR_TRY(hr__video_shape(recipe, &out->frames, &out->height, &out->width, err));
  if (hr__recipe_has(recipe, key)) return place_of(recipe, key, arena, out, err);
  if (!hr__recipe_has(recipe, SECTION ".made"))
    return hr__recipe_fail(recipe, "data.source",
                           "give data.path: the folder of captions and videos; or data.video.made: how many to make",
                           err, "source video needs data.path or data.video.made");
  out->made = hr__recipe_int(recipe, SECTION ".made");
  out->made_frames = hr__recipe_has(recipe, SECTION ".made_frames") ? hr__recipe_int(recipe, SECTION ".made_frames")
                                                                    : (out->frames < 4 ? 4 : out->frames);
  return HR_OK;
}
