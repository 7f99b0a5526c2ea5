/* A detector of hot spots in infrared video: every frame by itself through residual stages and a feature pyramid, of
 * which the middle level (a cell for 8 x 8 pixels) has four maps: whether a spot's middle is there, where in the cell,
 * how large, how bright. One vector stands for the whole video. What is made of the maps is spots.c's.
 *
 * Frames go through frame by frame, [T B, C, h, w]: in training norms take the statistics of a frame over all samples,
 * one frame after another, as one that is called frame by frame does. The pyramid's finest level and two of its
 * smoothing convolutions lead nowhere; checkpoints have them, so they are parameters, which nothing trains.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "data/spots.h"
#include "model/batchnorm.h"
#include "model/multistream.h"
#include "op/conv.h"
#include "op/pointwise.h"
#include "op/pool.h"
#include "op/resize.h"
#include "op/slice.h"

enum { STAGES = 3, MIDDLE = 1, PATH = 64, SIZE_MOST = 1 << 14 };

#define SIZE(name, preset, text)                                                                                       \
  {                                                                                                                    \
    .path = "*.config." name, .type = HR_KEY_INT, .fallback = preset, .min = 1, .max = SIZE_MOST,                      \
    .meaning = "hotspots: " text                                                                                       \
  }
static const hr_key keys[] = {
    SIZE("width", "32", "channels of the first stage; each of the next has twice as many"),
    SIZE("pyramid", "128", "channels of the feature pyramid"),
    SIZE("map_width", "64", "channels in front of each map"),
    SIZE("embedding", "256", "width of the vector that stands for the video"),
    {.path = "*.config.batch_norm",
     .type = HR_KEY_CHOICE,
     .choices = "eval|train",
     .fallback = "train",
     .meaning =
         "hotspots: norms go in training by the statistics of each frame, which the running ones follow (train), "
         "or by these (eval)"},
};
const hr_key_table hr_hotspots_keys = {keys, sizeof keys / sizeof *keys};

typedef struct detector {
  int64_t width, pyramid, map_width, embedding, frames;
  bool by_batch;
} detector;

static detector detector_read(const hr_model_part *part) {
  const hr_scope *s = &part->scope;
  return (detector){.width = hr__scope_int(s, "config.width"),
                    .pyramid = hr__scope_int(s, "config.pyramid"),
                    .map_width = hr__scope_int(s, "config.map_width"),
                    .embedding = hr__scope_int(s, "config.embedding"),
                    .by_batch = strcmp(hr__scope_text(s, "config.batch_norm"), "train") == 0};
}

static hr_id relu(hr_builder *b, hr_id x) {
  return hr__unary(b, HR_FORMULA_relu, x, 0, 0);
}

/* PATH.CONV with a bias, and PATH.NORM, on top of `add`. */
static hr_id normed(hr_builder *b, const detector *d, const char *path, const char *number, const int64_t channels[2],
                    int64_t kernel, int64_t stride, hr_id x, hr_id add) {
  char conv_path[PATH], norm_path[PATH];
  snprintf(conv_path, sizeof conv_path, "%s.conv%s", path, number);
  snprintf(norm_path, sizeof norm_path, "%s.norm%s", path, number);
  hr_normed_conv c = {
      .path = conv_path,
      .in = channels[0],
      .out = channels[1],
      .kernel = kernel,
      .stride = stride,
      .groups = 1,
      .biased = true,
      .norm = {.path = norm_path, .groups = d->frames, .eps = 1e-5f, .momentum = 0.1f, .by_batch = d->by_batch}};
  return hr__normed_conv(b, &c, x, add);
}

/* The parameters of a convolution; its bias begins at `begin`. */
typedef struct plain {
  hr_id weight, bias;
} plain;
static plain plain_of(hr_builder *b, const char *path, int64_t in, int64_t out, int64_t kernel, float begin) {
  char name[PATH + 8];
  hr_desc desc = {b->dtype, 4, {out, in, kernel, kernel}};
  plain p;
  hr__module(b, "%s", path);
  snprintf(name, sizeof name, "%s.weight", path);
  p.weight = hr__parameter(b, name, desc, hr__init_kaiming(in * kernel * kernel, 1));
  snprintf(name, sizeof name, "%s.bias", path);
  p.bias = hr__parameter(b, name, hr__desc1(b->dtype, out), (hr_init){.rule = HR_INIT_CONSTANT, .a = begin});
  return p;
}

static hr_id conv(hr_builder *b, const char *path, int64_t in, int64_t out, int64_t kernel, float begin, hr_id x) {
  hr_conv_args args = {.stride = {1, 1}, .padding = {kernel / 2, kernel / 2}, .dilation = {1, 1}, .groups = 1};
  plain p = plain_of(b, path, in, out, kernel, begin);
  return hr__conv(b, x, p.weight, p.bias, &args);
}

static hr_id residual(hr_builder *b, const detector *d, const char *path, int64_t in, int64_t out, hr_id x) {
  char name[PATH];
  snprintf(name, sizeof name, "%s.shortcut", path);
  hr_id y = relu(b, normed(b, d, path, "1", (const int64_t[]){in, out}, 3, 1, x, HR_NONE));
  hr_id beside = in == out ? x : conv(b, name, in, out, 1, 0, x);
  return relu(b, normed(b, d, path, "2", (const int64_t[]){out, out}, 3, 1, y, beside));
}

static hr_id halved(hr_builder *b, hr_id x) {
  const hr_pool_args args = {.pooling = HR_POOL_MAX, .kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}};
  hr__module(b, "halve");
  return hr__pool(b, x, &args);
}

/* The middle level: what its stage has, and the coarser level in its size; smoothed. */
static hr_id pyramid(hr_builder *b, const detector *d, const hr_id stage[STAGES]) {
  char path[PATH];
  hr_id level = HR_NONE;
  for (int i = STAGES - 1; i >= 0; i--) {
    snprintf(path, sizeof path, "lateral.%d", i);
    if (i < MIDDLE) {
      plain_of(b, path, d->width << i, d->pyramid, 1, 0);
      continue;
    }
    hr_id own = conv(b, path, d->width << i, d->pyramid, 1, 0, stage[i]);
    if (level != HR_NONE) {
      const int64_t size[] = {hr__desc_dim(b, own, 2), hr__desc_dim(b, own, 3)};
      hr__module(b, "pyramid");
      own = hr__binary(b, HR_FORMULA_add, own, hr__resize(b, level, size));
    }
    level = own;
  }
  for (int i = 0; i < STAGES; i++) {
    snprintf(path, sizeof path, "smooth.%d", i);
    if (i != MIDDLE) plain_of(b, path, d->pyramid, d->pyramid, 3, 0);
  }
  snprintf(path, sizeof path, "smooth.%d", MIDDLE);
  return conv(b, path, d->pyramid, d->pyramid, 3, 0, level);
}

static hr_id map_of(hr_builder *b, const detector *d, const char *name, int64_t channels, float begin, hr_id x) {
  char path[PATH], out[PATH];
  snprintf(path, sizeof path, "maps.%s", name);
  snprintf(out, sizeof out, "maps.%s.out", name);
  x = relu(b, normed(b, d, path, "", (const int64_t[]){d->pyramid, d->map_width}, 3, 1, x, HR_NONE));
  return conv(b, out, d->map_width, channels, 1, begin, x);
}

/* A sample's axis behind the frames': [B, 1, T, H, W] of bytes -> [T B, 1, H, W]. */
static hr_id frame_by_frame(hr_builder *b, hr_id infrared) {
  static const int order[] = {2, 0, 1, 3, 4};
  int64_t samples = hr__desc_dim(b, infrared, 0), frames = hr__desc_dim(b, infrared, 2);
  int64_t height = hr__desc_dim(b, infrared, 3), width = hr__desc_dim(b, infrared, 4);
  hr__module(b, "frames");
  hr_id x = hr__permute(b, hr__unary(b, HR_FORMULA_affine, infrared, 1.0f / 255, 0), order);
  return hr__reshape(b, x, 4, (const int64_t[]){samples * frames, 1, height, width});
}

static hr_id embedded(hr_builder *b, const detector *d, int64_t samples, hr_id level) {
  hr__module(b, "pooling");
  hr_id x = hr__squeeze(b, hr__reduce(b, HR_REDUCE_MEAN, level, 3u << 2), 3u << 2);
  x = hr__reshape(b, x, 3, (const int64_t[]){d->frames, samples, d->pyramid});
  x = hr__squeeze(b, hr__reduce(b, HR_REDUCE_MEAN, x, 1u << 0), 1u << 0);
  return hr__stream_linear(b, "embedding", "linear", d->pyramid, d->embedding, x);
}

/* [T B, C, h, w] -> [B T, h w, C] */
static hr_id rows_of(hr_builder *b, const detector *d, int64_t samples, hr_id map) {
  static const int order[] = {1, 0, 3, 2};
  int64_t channels = hr__desc_dim(b, map, 1), cells = hr__desc_dim(b, map, 2) * hr__desc_dim(b, map, 3);
  map = hr__reshape(b, map, 4, (const int64_t[]){d->frames, samples, channels, cells});
  return hr__reshape(b, hr__permute(b, map, order), 3, (const int64_t[]){samples * d->frames, cells, channels});
}

hr_id hr__hotspots(hr_builder *b, const hr_model_part *part, hr_id infrared, hr_spot_maps *maps) {
  const float rarely = -4.6f; /* a spot's middle is in one of a hundred cells, to begin with */
  detector d = detector_read(part);
  int64_t samples = hr__desc_dim(b, infrared, 0);
  hr_id stage[STAGES];
  d.frames = hr__desc_dim(b, infrared, 2);
  hr__block_begin(b, "stem");
  hr_id x = frame_by_frame(b, infrared);
  x = halved(b, relu(b, normed(b, &d, "stem", "", (const int64_t[]){1, d.width}, 7, 2, x, HR_NONE)));
  hr__block_end(b);
  for (int i = 0; i < STAGES; i++) {
    char path[PATH];
    snprintf(path, sizeof path, "stages.%d", i);
    hr__block_begin(b, "%s", path);
    if (i > 0) x = halved(b, x);
    stage[i] = x = residual(b, &d, path, i == 0 ? d.width : d.width << (i - 1), d.width << i, x);
    hr__block_end(b);
  }
  hr__block_begin(b, "pyramid");
  x = pyramid(b, &d, stage);
  hr_id embedding = embedded(b, &d, samples, x);
  hr__block_end(b);
  hr__block_begin(b, "maps");
  *maps = (hr_spot_maps){.rows = hr__desc_dim(b, x, 2),
                         .columns = hr__desc_dim(b, x, 3),
                         .found = map_of(b, &d, "found", 1, rarely, x),
                         .offset = map_of(b, &d, "offset", 2, 0.5f, x),
                         .size = relu(b, map_of(b, &d, "size", 2, 1, x)),
                         .brightness = relu(b, map_of(b, &d, "brightness", 1, 0.5f, x))};
  hr__module(b, "maps");
  maps->found = rows_of(b, &d, samples, maps->found);
  maps->offset = rows_of(b, &d, samples, maps->offset);
  maps->size = rows_of(b, &d, samples, maps->size);
  maps->brightness = rows_of(b, &d, samples, maps->brightness);
  hr__block_end(b);
  return embedding;
}

static hr_status hotspots_check(const hr_model_part *part, hr_error *err) {
  (void)part, (void)err;
  return HR_OK;
}

static hr_id hotspots_body(hr_builder *b, const hr_model_part *part, hr_id x, const hr_model_batch *batch) {
  hr_spot_maps maps;
  (void)batch;
  return hr__hotspots(b, part, x, &maps);
}

/* Norms are made of few numbers, in f32 whatever the precision. */
static const char *const wide[] = {"norm", "norm1", "norm2", NULL};

const hr_model hr_model_hotspots = {
    .family = "hotspots", .keys = {&hr_hotspots_keys}, .check = hotspots_check, .body = hotspots_body, .wide = wide};
