/* ResNet: a stem, and four stages of blocks whose results are added to what they read. See backbone.h.
 *
 * A block is two convolutions of kernel 3, or a bottleneck: 1, 3 and 1, the last of which has four times the channels;
 * the first block of a stage halves the map by the convolution of kernel 3 (all but those of the first stage).
 */
#include <stdio.h>

#include "model/backbone.h"
#include "op/pointwise.h"
#include "op/pool.h"

enum { STAGES = 4, PATH = 64, NAME = 96 };

typedef struct shape {
  bool bottleneck;
  int blocks[STAGES];
} shape;
static const shape shape18 = {false, {2, 2, 2, 2}}, shape50 = {true, {3, 4, 6, 3}};

static const shape *shape_of(const hr_model_part *part) {
  return part->model == &hr_model_resnet50 ? &shape50 : &shape18;
}

static int64_t expansion(const shape *s) {
  return s->bottleneck ? 4 : 1;
}

int64_t hr__resnet_features(const hr_model_part *part) {
  return (hr__backbone_read(part).width << (STAGES - 1)) * expansion(shape_of(part));
}

static hr_id relu(hr_builder *b, hr_id x) {
  return hr__unary(b, HR_FORMULA_relu, x, 0, 0);
}

/* Convolution PATH.CONV with norm PATH.NORM, on top of `add`. */
static hr_id normed(hr_builder *b, const hr_backbone *m, const char *path, const char *conv, const char *norm,
                    const int64_t channels[2], int64_t kernel, int64_t stride, hr_id x, hr_id add) {
  char conv_path[NAME], norm_path[NAME];
  snprintf(conv_path, sizeof conv_path, "%s%s", path, conv);
  snprintf(norm_path, sizeof norm_path, "%s%s", path, norm);
  hr_normed_conv c = {.path = conv_path,
                      .in = channels[0],
                      .out = channels[1],
                      .kernel = kernel,
                      .stride = stride,
                      .groups = 1,
                      .norm = hr__backbone_norm(m, norm_path)};
  return hr__normed_conv(b, &c, x, add);
}

/* in channels -> width x expansion. */
static hr_id block(hr_builder *b, const hr_backbone *m, const shape *s, const char *path, int64_t in, int64_t width,
                   int64_t stride, hr_id x) {
  int64_t out = width * expansion(s);
  hr_id y, beside = x;
  if (s->bottleneck) {
    y = relu(b, normed(b, m, path, "conv1", "bn1", (const int64_t[]){in, width}, 1, 1, x, HR_NONE));
    y = relu(b, normed(b, m, path, "conv2", "bn2", (const int64_t[]){width, width}, 3, stride, y, HR_NONE));
  } else {
    y = relu(b, normed(b, m, path, "conv1", "bn1", (const int64_t[]){in, width}, 3, stride, x, HR_NONE));
  }
  if (in != out || stride != 1)
    beside = normed(b, m, path, "downsample.0", "downsample.1", (const int64_t[]){in, out}, 1, stride, x, HR_NONE);
  y = normed(b, m, path, s->bottleneck ? "conv3" : "conv2", s->bottleneck ? "bn3" : "bn2",
             (const int64_t[]){width, out}, s->bottleneck ? 1 : 3, 1, y, beside);
  return relu(b, y);
}

hr_id hr__resnet_map(hr_builder *b, const hr_model_part *part, hr_id images) {
  const shape *s = shape_of(part);
  hr_backbone m = hr__backbone_read(part);
  const hr_pool_args halving = {.pooling = HR_POOL_MAX, .kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}};
  int64_t in = m.width;
  char path[PATH];
  hr__block_begin(b, "stem");
  hr_id x = hr__backbone_images(b, images);
  x = relu(b, normed(b, &m, "", "conv1", "bn1", (const int64_t[]){3, m.width}, 7, 2, x, HR_NONE));
  hr__module(b, "maxpool");
  x = hr__pool(b, x, &halving);
  hr__block_end(b);
  for (int stage = 0; stage < STAGES; stage++)
    for (int i = 0; i < s->blocks[stage]; i++) {
      int64_t width = m.width << stage;
      snprintf(path, sizeof path, "layer%d.%d.", stage + 1, i);
      hr__block_begin(b, "layer%d.%d", stage + 1, i);
      x = block(b, &m, s, path, in, width, i == 0 && stage > 0 ? 2 : 1, x);
      hr__block_end(b);
      in = width * expansion(s);
    }
  return x;
}

static hr_id body(hr_builder *b, const hr_model_part *part, hr_id images, const hr_model_batch *batch) {
  (void)batch;
  return hr__backbone_mean(b, hr__resnet_map(b, part, images));
}

/* Norms are made of few numbers, in f32 whatever the precision. */
static const char *const wide[] = {"bn1", "bn2", "bn3", "downsample.1", NULL};

#define RESNET(name)                                                                                                   \
  const hr_model hr_model_##name = {.family = #name,                                                                   \
                                    .keys = {&hr_backbone_keys, &hr_resnet_keys},                                      \
                                    .defaults = "{width: 64}",                                                         \
                                    .body = body,                                                                      \
                                    .wide = wide,                                                                      \
                                    .config_json = hr__backbone_json,                                                  \
                                    .unused = hr__backbone_unused}
RESNET(resnet18);
RESNET(resnet50);
