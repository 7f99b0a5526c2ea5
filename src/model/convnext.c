/* ConvNeXt-tiny: a stem of patches of 4 x 4, and four stages of blocks: a convolution of kernel 7 for each channel by
 * itself, a norm over the channels of each place and an MLP there, scaled channel by channel, onto what the block
 * reads. Between stages a norm, and a convolution that halves the map. See backbone.h.
 *
 * Norms and MLPs take places as rows, [N, h, w, C]; convolutions take maps, [N, C, h, w]. Each block turns its map once
 * for the first norm, and the sum at its end reads it turned back.
 */
#include <inttypes.h>
#include <stdio.h>

#include "format/json.h"
#include "model/backbone.h"
#include "model/modules.h"
#include "op/conv.h"
#include "op/dropout.h"
#include "op/gelu.h"
#include "op/pointwise.h"

enum { PATH = 64, NAME = 96, KERNEL = 7, PATCH = 4, EXPANSION = 4, BLOCKS = 18 };
static const int64_t stage_blocks[HR_CONVNEXT_STAGES] = {3, 3, 9, 3}; /* BLOCKS together */
static const float NORM_EPS = 1e-6f, SCALE = 1e-6f, STD = 0.02f;

static const hr_key keys[] = {
    {.path = "*.config.width",
     .type = HR_KEY_INT,
     .never_null = true,
     .min = 1,
     .max = 1 << 14,
     .meaning = "convnext: channels of the first stage, doubled by each further one (default: 96)"},
    {.path = "*.config.drop_path",
     .type = HR_KEY_FLOAT,
     .fallback = "0",
     .min = 0,
     .max = 0.99,
     .meaning = "convnext: part of the last block's results that is dropped whole in training, image by image; less in "
                "earlier ones"},
};
const hr_key_table hr_convnext_keys = {keys, sizeof keys / sizeof *keys};

int64_t hr__convnext_width(const hr_model_part *part, int stage) {
  return hr__scope_int(&part->scope, "config.width") << stage;
}

int64_t hr__convnext_features(const hr_model_part *part) {
  return hr__convnext_width(part, HR_CONVNEXT_STAGES - 1);
}

/* PATH: a convolution with a bias, without padding but for that of a kernel that keeps the map's size. */
static hr_id conv(hr_builder *b, const char *path, int64_t in, int64_t out, int64_t kernel, bool apart, hr_id x) {
  char weight[NAME], bias[NAME];
  int64_t stride = apart ? 1 : kernel, padding = apart ? kernel / 2 : 0;
  hr_conv_args args = {
      .stride = {stride, stride}, .padding = {padding, padding}, .dilation = {1, 1}, .groups = apart ? in : 1};
  snprintf(weight, sizeof weight, "%s.weight", path);
  snprintf(bias, sizeof bias, "%s.bias", path);
  hr__module(b, "%s", path);
  hr_id w = hr__parameter(b, weight, (hr_desc){b->dtype, 4, {out, apart ? 1 : in, kernel, kernel}},
                          (hr_init){.rule = HR_INIT_NORMAL, .a = STD});
  return hr__conv(b, x, w, hr__parameter(b, bias, hr__desc1(b->dtype, out), (hr_init){.rule = HR_INIT_ZERO}), &args);
}

/* [N, C, h, w] -> [N, h, w, C], and back. */
static hr_id as_rows(hr_builder *b, hr_id map) {
  return hr__permute(b, map, (const int[]){0, 2, 3, 1});
}
static hr_id as_map(hr_builder *b, hr_id rows) {
  return hr__permute(b, rows, (const int[]){0, 3, 1, 2});
}

static hr_id normed_map(hr_builder *b, const char *path, int64_t width, hr_id map) {
  hr__module(b, "%s", path);
  hr_id x = hr__layernorm_module(b, path, width, NORM_EPS, as_rows(b, map));
  return as_map(b, x);
}

static hr_id linear(hr_builder *b, const char *path, const char *name, int64_t in, int64_t out, hr_id x) {
  const hr_linears one = {
      .path = path, .count = 1, .name = {name}, .rows = {out}, .in = in, .biased = true, .std = STD};
  return hr__linears_one(b, &one, 0, x);
}

/* What the results of a block are multiplied by, [N, 1, 1, 1]: 0 for some images, more than 1 for others. */
static hr_id path_mask(hr_builder *b, hr_id rows, float part) {
  hr_id one = rows;
  for (int axis = 1; axis < 4; axis++)
    one = hr__window(b, one, axis, 0, 1);
  return hr__dropout(b, hr__detached(b, hr__unary(b, HR_FORMULA_affine, one, 0, 1)), part);
}

/* `number`: of all blocks, from 0 on. */
static hr_id block(hr_builder *b, const hr_model_part *part, const char *path, int64_t width, int number, hr_id x) {
  char name[NAME];
  float dropped = (float)hr__scope_float(&part->scope, "config.drop_path") * (float)number / (float)(BLOCKS - 1);
  snprintf(name, sizeof name, "%s.conv_dw", path);
  hr_id y = as_rows(b, conv(b, name, width, width, KERNEL, true, x));
  snprintf(name, sizeof name, "%s.norm", path);
  y = hr__layernorm_module(b, name, width, NORM_EPS, y);
  snprintf(name, sizeof name, "%s.mlp", path);
  y = linear(b, name, "fc1", width, EXPANSION * width, y);
  hr__module(b, "%s.act", name);
  y = linear(b, name, "fc2", EXPANSION * width, width, hr__gelu(b, y, false));
  hr__module(b, "%s", path);
  snprintf(name, sizeof name, "%s.gamma", path);
  hr_id gamma = hr__parameter(b, name, hr__desc1(b->dtype, width), (hr_init){.rule = HR_INIT_CONSTANT, .a = SCALE});
  y = hr__binary(b, HR_FORMULA_mul, y, gamma);
  if (hr__drops(b, dropped)) {
    hr__module(b, "%s.drop_path", path);
    y = hr__binary(b, HR_FORMULA_mul, y, path_mask(b, y, dropped));
  }
  return hr__binary(b, HR_FORMULA_add, x, as_map(b, y));
}

void hr__convnext_maps(hr_builder *b, const hr_model_part *part, hr_id images, hr_id maps[HR_CONVNEXT_STAGES]) {
  char path[PATH];
  int number = 0;
  hr_id x = images;
  hr__block_begin(b, "stem");
  x = normed_map(b, "stem.1", hr__convnext_width(part, 0),
                 conv(b, "stem.0", 3, hr__convnext_width(part, 0), PATCH, false, x));
  hr__block_end(b);
  for (int s = 0; s < HR_CONVNEXT_STAGES; s++) {
    int64_t width = hr__convnext_width(part, s);
    if (s > 0) {
      hr__block_begin(b, "stages.%d.downsample", s);
      snprintf(path, sizeof path, "stages.%d.downsample.0", s);
      x = normed_map(b, path, width / 2, x);
      snprintf(path, sizeof path, "stages.%d.downsample.1", s);
      x = conv(b, path, width / 2, width, 2, false, x);
      hr__block_end(b);
    }
    for (int64_t i = 0; i < stage_blocks[s]; i++, number++) {
      snprintf(path, sizeof path, "stages.%d.blocks.%" PRId64, s, i);
      hr__block_begin(b, "%s", path);
      x = block(b, part, path, width, number, x);
      hr__block_end(b);
    }
    maps[s] = x;
  }
}

hr_id hr__convnext_map(hr_builder *b, const hr_model_part *part, hr_id images) {
  hr_id maps[HR_CONVNEXT_STAGES];
  hr__convnext_maps(b, part, hr__backbone_images(b, images), maps);
  return maps[HR_CONVNEXT_STAGES - 1];
}

/* The norm of the classifier, over means of the last map. */
static hr_id body(hr_builder *b, const hr_model_part *part, hr_id images, const hr_model_batch *batch) {
  (void)batch;
  hr_id x = hr__backbone_mean(b, hr__convnext_map(b, part, images));
  return hr__layernorm_module(b, "head.norm", hr__convnext_features(part), NORM_EPS, x);
}

static json_t *config_json(const hr_model_part *part) {
  hr__json_init();
  return json_pack("{s:s, s:I, s:s, s:I, s:f}", "architecture", part->model->family, "num_features",
                   (json_int_t)hr__convnext_features(part), "global_pool", "avg", "width",
                   (json_int_t)hr__convnext_width(part, 0), "drop_path",
                   hr__scope_float(&part->scope, "config.drop_path"));
}

const hr_model hr_model_convnext_tiny = {
    .family = "convnext_tiny",
    .keys = {&hr_convnext_keys},
    .defaults = "{width: 96}",
    .body = body,
    .config_json = config_json,
    .unused = hr__backbone_unused,
};
