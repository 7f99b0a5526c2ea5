/* A few frames of a video, one after the other: ConvNeXt's maps of each in a feature pyramid, of which the finest level
 * (a quarter of the size) goes through a convolution over time, place by place; what is salient where in each frame,
 * and one vector of all of them. See multistream.h.
 *
 * Shapes in comments: B samples, n frames of h x w, C channels of the pyramid. The three coarser levels end in
 * smoothing convolutions that lead nowhere; checkpoints have them, so they are parameters, which nothing trains. The
 * mean over a map is taken before the map is brought to the size of frames: where that is a multiple of its own, it is
 * the same.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "model/backbone.h"
#include "model/modules.h"
#include "model/multistream.h"
#include "op/concat.h"
#include "op/conv.h"
#include "op/pointwise.h"
#include "op/resize.h"
#include "op/slice.h"

enum { PATH = 64, SIZE_MOST = 1 << 14, INSTANTS = 3 };

#define SIZE(name, preset, most, text)                                                                                 \
  {                                                                                                                    \
    .path = "*.config." name, .type = HR_KEY_INT, .fallback = preset, .min = 1, .max = most,                           \
    .meaning = "temporalconv: " text                                                                                   \
  }
static const hr_key keys[] = {
    SIZE("frames", "3", HR_COURSE_FRAMES, "frames of a video that are followed, evenly spread"),
    SIZE("frame_height", "480", SIZE_MOST, "rows that they are brought to"),
    SIZE("frame_width", "640", SIZE_MOST, "columns that they are brought to"),
    SIZE("pyramid", "256", SIZE_MOST, "channels of the feature pyramid, and over time"),
    SIZE("map_width", "128", SIZE_MOST, "channels in front of what is salient; a multiple of 2"),
    SIZE("embedding", "256", SIZE_MOST, "width of the vector that stands for all frames"),
    {.path = "*.config.dropout",
     .type = HR_KEY_FLOAT,
     .fallback = "0.1",
     .min = 0,
     .max = 0.99,
     .meaning = "temporalconv: part that is dropped in training"},
    {.path = "*.config.batch_norm",
     .type = HR_KEY_CHOICE,
     .choices = "eval|train",
     .fallback = "train",
     .meaning = "temporalconv: norms go in training by the statistics of the batch, which the running ones follow "
                "(train), or by these (eval)"},
};
const hr_key_table hr_temporalconv_keys = {keys, sizeof keys / sizeof *keys};

typedef struct course {
  int64_t frames, size[2], pyramid, map_width, embedding, samples;
  float dropout;
  bool by_batch;
} course;

static course course_read(const hr_model_part *part) {
  const hr_scope *s = &part->scope;
  return (course){.frames = hr__scope_int(s, "config.frames"),
                  .size = {hr__scope_int(s, "config.frame_height"), hr__scope_int(s, "config.frame_width")},
                  .pyramid = hr__scope_int(s, "config.pyramid"),
                  .map_width = hr__scope_int(s, "config.map_width"),
                  .embedding = hr__scope_int(s, "config.embedding"),
                  .dropout = (float)hr__scope_float(s, "config.dropout"),
                  .by_batch = strcmp(hr__scope_text(s, "config.batch_norm"), "train") == 0};
}

/* The middle one of each of n stretches. */
hr_course_frames hr__course_frames(const hr_model_part *part, int64_t frames) {
  hr_course_frames out = {.count = hr__scope_int(&part->scope, "config.frames")};
  for (int64_t i = 0; i < out.count; i++)
    out.number[i] = (2 * i + 1) * frames / (2 * out.count);
  return out;
}

/* In the size of the part. */
static hr_id sized(hr_builder *b, const course *c, hr_id x) {
  bool same = hr__desc_dim(b, x, 2) == c->size[0] && hr__desc_dim(b, x, 3) == c->size[1];
  return same ? x : hr__resize(b, x, c->size);
}

hr_id hr__course_images(hr_builder *b, const hr_model_part *part, hr_id rgb) {
  static const int order[] = {0, 2, 3, 1};
  course c = course_read(part);
  hr_course_frames followed = hr__course_frames(part, hr__desc_dim(b, rgb, 2));
  int64_t samples = hr__desc_dim(b, rgb, 0), colours = hr__desc_dim(b, rgb, 1);
  hr_id frame[HR_COURSE_FRAMES];
  for (int64_t i = 0; i < followed.count; i++) {
    hr__module(b, "frames");
    hr_id x = hr__squeeze(b, hr__window(b, rgb, 2, followed.number[i], 1), 1u << 2);
    x = sized(b, &c, hr__backbone_images(b, hr__permute(b, x, order)));
    frame[i] = hr__reshape(b, x, 5, (const int64_t[]){samples, 1, colours, c.size[0], c.size[1]});
  }
  if (b->status != HR_OK) return HR_NONE;
  hr_id x = hr__concat(b, frame, (int)followed.count, 1);
  return hr__reshape(b, x, 4, (const int64_t[]){samples * followed.count, colours, c.size[0], c.size[1]});
}

/* PATH: a convolution with a bias that keeps the size; of no x its parameters alone. */
static hr_id conv(hr_builder *b, const char *path, int64_t in, int64_t out, int64_t kernel, hr_id x) {
  char name[PATH + 8];
  hr_conv_args args = {.stride = {1, 1}, .padding = {kernel / 2, kernel / 2}, .dilation = {1, 1}, .groups = 1};
  hr__module(b, "%s", path);
  snprintf(name, sizeof name, "%s.weight", path);
  hr_id w = hr__parameter(b, name, (hr_desc){b->dtype, 4, {out, in, kernel, kernel}},
                          hr__init_kaiming(in * kernel * kernel, 1));
  snprintf(name, sizeof name, "%s.bias", path);
  hr_id bias = hr__parameter(b, name, hr__desc1(b->dtype, out), (hr_init){.rule = HR_INIT_ZERO});
  return x == HR_NONE ? HR_NONE : hr__conv(b, x, w, bias, &args);
}

/* The finest level: what each stage has, coarser ones brought to the size of the next; smoothed. */
static hr_id pyramid(hr_builder *b, const course *c, const hr_id *maps, int levels) {
  char path[PATH];
  hr_id level = HR_NONE;
  for (int i = levels - 1; i >= 0; i--) {
    snprintf(path, sizeof path, "lateral.%d", i);
    hr_id own = conv(b, path, hr__desc_dim(b, maps[i], 1), c->pyramid, 1, maps[i]);
    if (level != HR_NONE) {
      const int64_t size[] = {hr__desc_dim(b, own, 2), hr__desc_dim(b, own, 3)};
      hr__module(b, "pyramid");
      own = hr__binary(b, HR_FORMULA_add, own, hr__resize(b, level, size));
    }
    level = own;
  }
  for (int i = levels - 1; i > 0; i--) {
    snprintf(path, sizeof path, "smooth.%d", i);
    conv(b, path, c->pyramid, c->pyramid, 3, HR_NONE);
  }
  return conv(b, "smooth.0", c->pyramid, c->pyramid, 3, level);
}

static hr_batchnorm norm_of(const course *c, const char *path, const char *at, int64_t channels) {
  return (hr_batchnorm){.path = path,
                        .at = at,
                        .channels = channels,
                        .groups = 1,
                        .eps = 1e-5f,
                        .momentum = 0.1f,
                        .by_batch = c->by_batch};
}

/* Each place through its instants: [B n, C, h, w] -> [B, C, n, h w]. */
static hr_id through_time(hr_builder *b, const course *c, hr_id x) {
  static const int order[] = {0, 2, 1, 3};
  hr_conv_args args = {.stride = {1, 1}, .padding = {INSTANTS / 2, 0}, .dilation = {1, 1}, .groups = 1};
  int64_t places = hr__desc_dim(b, x, 2) * hr__desc_dim(b, x, 3), n = c->pyramid;
  hr_batchnorm norm = norm_of(c, "time.norm", "time.conv", n);
  hr__module(b, "time.conv");
  x = hr__reshape(b, x, 4, (const int64_t[]){c->samples, c->frames, n, places});
  x = hr__permute(b, x, order);
  hr_id w =
      hr__parameter(b, "time.conv.weight", hr__desc3(b->dtype, n, n, INSTANTS), hr__init_kaiming(n * INSTANTS, 1));
  hr_id bias = hr__parameter(b, "time.conv.bias", hr__desc1(b->dtype, n), (hr_init){.rule = HR_INIT_ZERO});
  w = hr__reshape(b, w, 4, (const int64_t[]){n, n, INSTANTS, 1});
  x = hr__batchnorm(b, &norm, hr__conv(b, x, w, bias, &args));
  return hr__unary(b, HR_FORMULA_relu, x, 0, 0);
}

/* Convolution PATH.conv with a bias, norm PATH.norm, relu. */
static hr_id normed(hr_builder *b, const course *c, const char *path, int64_t in, int64_t out, hr_id x) {
  char conv_path[PATH], norm_path[PATH];
  snprintf(conv_path, sizeof conv_path, "%s.conv", path);
  snprintf(norm_path, sizeof norm_path, "%s.norm", path);
  hr_normed_conv args = {.path = conv_path,
                         .in = in,
                         .out = out,
                         .kernel = 3,
                         .stride = 1,
                         .groups = 1,
                         .biased = true,
                         .norm = norm_of(c, norm_path, conv_path, out)};
  return hr__unary(b, HR_FORMULA_relu, hr__normed_conv(b, &args, x, HR_NONE), 0, 0);
}

/* Logits of what is salient, [B n, 1, h, w] in the size of frames. */
static hr_id salient(hr_builder *b, const course *c, hr_id x) {
  hr__module(b, "saliency");
  x = normed(b, c, "saliency.0", c->pyramid, c->map_width, sized(b, c, x));
  x = normed(b, c, "saliency.1", c->map_width, c->map_width / 2, x);
  return conv(b, "saliency.out", c->map_width / 2, 1, 1, x);
}

static hr_id followed(hr_builder *b, const hr_model_part *part, const hr_id *maps, int levels, int64_t samples,
                      hr_id *saliency) {
  static const int order[] = {0, 2, 1, 3};
  course c = course_read(part);
  c.samples = samples;
  hr__block_begin(b, "pyramid");
  hr_id x = pyramid(b, &c, maps, levels);
  int64_t height = hr__desc_dim(b, x, 2), width = hr__desc_dim(b, x, 3);
  hr__block_end(b);
  hr__block_begin(b, "time");
  x = through_time(b, &c, x);
  hr__block_end(b);
  hr__module(b, "pooling");
  hr_id y = hr__squeeze(b, hr__reduce(b, HR_REDUCE_MEAN, x, 3u << 2), 3u << 2);
  y = hr__stream_linear(b, "embedding", "0", c.pyramid, c.embedding, y);
  hr__module(b, "embedding.1");
  y = hr__unary(b, HR_FORMULA_relu, hr__dropped(b, "embedding", c.dropout, y), 0, 0);
  y = hr__stream_linear(b, "embedding", "3", c.embedding, c.embedding, y);
  hr__block_begin(b, "saliency");
  hr__module(b, "saliency");
  x = hr__reshape(b, hr__permute(b, x, order), 4, (const int64_t[]){samples * c.frames, c.pyramid, height, width});
  *saliency = salient(b, &c, x);
  hr__block_end(b);
  return y;
}

hr_id hr__course(hr_builder *b, const hr_model_part *part, const hr_id *maps, int64_t samples, hr_id *saliency) {
  return followed(b, part, maps, HR_CONVNEXT_STAGES, samples, saliency);
}

/* x: one map of the frames, a sample's one behind another: a pyramid of one level. */
static hr_id temporalconv_body(hr_builder *b, const hr_model_part *part, hr_id x, const hr_model_batch *batch) {
  hr_id saliency;
  (void)batch;
  return followed(b, part, &x, 1, hr__desc_dim(b, x, 0) / course_read(part).frames, &saliency);
}

static hr_status temporalconv_check(const hr_model_part *part, hr_error *err) {
  course c = course_read(part);
  if (c.map_width % 2 != 0)
    return hr__scope_fail(&part->scope, "config.map_width", "take an even number", err,
                          "%" PRId64 " channels have no half", c.map_width);
  if (c.size[0] % 32 == 0 && c.size[1] % 32 == 0) return HR_OK;
  return hr__scope_fail(&part->scope, "config.frame_height", "take multiples of 32", err,
                        "frames of %" PRId64 " x %" PRId64 " cannot be halved five times", c.size[0], c.size[1]);
}

/* Norms are made of few numbers, in f32 whatever the precision. */
static const char *const wide[] = {"norm", NULL};

const hr_model hr_model_temporalconv = {.family = "temporalconv",
                                        .keys = {&hr_temporalconv_keys},
                                        .check = temporalconv_check,
                                        .body = temporalconv_body,
                                        .wide = wide};
