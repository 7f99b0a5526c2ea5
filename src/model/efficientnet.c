/* EfficientNet-B0: a stem, and seven stages of blocks: a convolution of kernel 1 that gives many channels, one for each
 * channel by itself, a gate for each channel from the mean over its map, and a convolution of kernel 1 to few channels,
 * which are added to what the block reads where they lie alike. See backbone.h.
 */
#include <stdio.h>

#include "model/backbone.h"
#include "op/conv.h"
#include "op/pointwise.h"

enum { PATH = 64, NAME = 96, STEM = 32, HEAD = 1280 };

typedef struct stage {
  int blocks, kernel, stride, expansion, channels;
} stage;
static const stage stages[] = {
    {1, 3, 1, 1, 16},  {2, 3, 2, 6, 24},  {2, 5, 2, 6, 40},  {3, 3, 2, 6, 80},
    {3, 5, 1, 6, 112}, {4, 5, 2, 6, 192}, {1, 3, 1, 6, 320},
};
enum { STAGES = sizeof stages / sizeof *stages };

/* A number of channels, multiplied: to the nearest multiple of 8, which is not below nine tenths of it. */
static int64_t scaled(const hr_backbone *m, int64_t channels) {
  double wanted = (double)channels * m->multiplier;
  int64_t near = ((int64_t)(wanted + 4) / 8) * 8;
  if (near < 8) near = 8;
  return (double)near < 0.9 * wanted ? near + 8 : near;
}

int64_t hr__efficientnet_features(const hr_model_part *part) {
  hr_backbone m = hr__backbone_read(part);
  return scaled(&m, HEAD);
}

static hr_id silu(hr_builder *b, hr_id x) {
  return hr__unary(b, HR_FORMULA_silu, x, 0, 0);
}

/* Convolution PATH CONV with norm PATH NORM, on top of `add`; `apart`: each channel by itself. */
static hr_id normed(hr_builder *b, const hr_backbone *m, const char *path, const char *conv, const char *norm,
                    const int64_t channels[2], int64_t kernel, int64_t stride, bool apart, hr_id x, hr_id add) {
  char conv_path[NAME], norm_path[NAME];
  snprintf(conv_path, sizeof conv_path, "%s%s", path, conv);
  snprintf(norm_path, sizeof norm_path, "%s%s", path, norm);
  hr_normed_conv c = {.path = conv_path,
                      .in = channels[0],
                      .out = channels[1],
                      .kernel = kernel,
                      .stride = stride,
                      .groups = apart ? channels[0] : 1,
                      .norm = hr__backbone_norm(m, norm_path)};
  return hr__normed_conv(b, &c, x, add);
}

/* A convolution of kernel 1 over one place, with a bias. */
static hr_id mixed(hr_builder *b, const char *path, const char *name, int64_t in, int64_t out, hr_id x) {
  char weight[NAME], bias[NAME];
  hr_conv_args args = {.stride = {1, 1}, .padding = {0, 0}, .dilation = {1, 1}, .groups = 1};
  hr_desc desc = {b->dtype, 4, {out, in, 1, 1}};
  snprintf(weight, sizeof weight, "%s%s.weight", path, name);
  snprintf(bias, sizeof bias, "%s%s.bias", path, name);
  hr__module(b, "%s%s", path, name);
  hr_id w = hr__parameter(b, weight, desc, hr__init_kaiming(out, 1.41421356));
  return hr__conv(b, x, w, hr__parameter(b, bias, hr__desc1(b->dtype, out), (hr_init){.rule = HR_INIT_ZERO}), &args);
}

/* x times a gate for each channel, by way of `reduced` numbers. */
static hr_id gated(hr_builder *b, const char *path, int64_t channels, int64_t reduced, hr_id x) {
  hr__module(b, "%sse", path);
  hr_id y = hr__reduce(b, HR_REDUCE_MEAN, x, 1u << 2 | 1u << 3);
  y = silu(b, mixed(b, path, "se.conv_reduce", channels, reduced, y));
  y = hr__unary(b, HR_FORMULA_sigmoid, mixed(b, path, "se.conv_expand", reduced, channels, y), 0, 0);
  hr__module(b, "%sse", path);
  return hr__binary(b, HR_FORMULA_mul, x, y);
}

/* Without the first convolution where nothing is expanded: names of what follows are then one less. */
static hr_id block(hr_builder *b, const hr_backbone *m, const stage *s, const char *path, int64_t in, int64_t out,
                   int64_t stride, hr_id x) {
  bool expands = s->expansion > 1;
  int64_t inner = in * s->expansion;
  hr_id y = x, beside = in == out && stride == 1 ? x : HR_NONE;
  if (expands) y = silu(b, normed(b, m, path, "conv_pw", "bn1", (const int64_t[]){in, inner}, 1, 1, false, y, HR_NONE));
  y = silu(b, normed(b, m, path, "conv_dw", expands ? "bn2" : "bn1", (const int64_t[]){inner, inner}, s->kernel, stride,
                     true, y, HR_NONE));
  y = gated(b, path, inner, in / 4, y);
  return normed(b, m, path, expands ? "conv_pwl" : "conv_pw", expands ? "bn3" : "bn2", (const int64_t[]){inner, out}, 1,
                1, false, y, beside);
}

hr_id hr__efficientnet_map(hr_builder *b, const hr_model_part *part, hr_id images) {
  hr_backbone m = hr__backbone_read(part);
  int64_t in = scaled(&m, STEM);
  char path[PATH];
  hr__block_begin(b, "stem");
  hr_id x = hr__backbone_images(b, images);
  x = silu(b, normed(b, &m, "", "conv_stem", "bn1", (const int64_t[]){3, in}, 3, 2, false, x, HR_NONE));
  hr__block_end(b);
  for (int s = 0; s < STAGES; s++)
    for (int i = 0; i < stages[s].blocks; i++) {
      int64_t out = scaled(&m, stages[s].channels);
      snprintf(path, sizeof path, "blocks.%d.%d.", s, i);
      hr__block_begin(b, "blocks.%d.%d", s, i);
      x = block(b, &m, &stages[s], path, in, out, i == 0 ? stages[s].stride : 1, x);
      hr__block_end(b);
      in = out;
    }
  return x;
}

static hr_id body(hr_builder *b, const hr_model_part *part, hr_id images, const hr_model_batch *batch) {
  hr_backbone m = hr__backbone_read(part);
  int64_t in = scaled(&m, stages[STAGES - 1].channels);
  (void)batch;
  hr_id x = hr__efficientnet_map(b, part, images);
  hr__block_begin(b, "head");
  x = silu(b, normed(b, &m, "", "conv_head", "bn2", (const int64_t[]){in, scaled(&m, HEAD)}, 1, 1, false, x, HR_NONE));
  x = hr__backbone_mean(b, x);
  hr__block_end(b);
  return x;
}

/* Norms are made of few numbers, in f32 whatever the precision. */
static const char *const wide[] = {"bn1", "bn2", "bn3", NULL};

const hr_model hr_model_efficientnet_b0 = {
    .family = "efficientnet_b0",
    .keys = {&hr_backbone_keys, &hr_efficientnet_keys},
    .defaults = "{channel_multiplier: 1.0}",
    .body = body,
    .wide = wide,
    .config_json = hr__backbone_json,
    .unused = hr__backbone_unused,
};
