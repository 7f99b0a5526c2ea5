/* Two frames of a video beside each other, one from its first half and one from its second: a backbone's last map of
 * each as tokens with learned places, layers of attention over both, and what is different in the later one as a mask
 * of it. See multistream.h.
 *
 * Shapes in comments: P places of the backbone's map, D width. The frames of all samples go through the backbone
 * together, earlier ones first.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "model/backbone.h"
#include "model/modules.h"
#include "model/multistream.h"
#include "op/add_rows.h"
#include "op/conv.h"
#include "op/pointwise.h"
#include "op/resize.h"
#include "op/slice.h"

enum { PATH = 64, SIZE_MOST = 1 << 14, DOUBLINGS = 3, FRAMES = 2 };

#define SIZE(name, preset, text)                                                                                       \
  {                                                                                                                    \
    .path = "*.config." name, .type = HR_KEY_INT, .fallback = preset, .min = 1, .max = SIZE_MOST,                      \
    .meaning = "twoframe: " text                                                                                       \
  }
static const hr_key keys[] = {
    SIZE("width", "256", "width of the residual stream; a multiple of 8"),
    SIZE("heads", "4", "heads of each attention"),
    SIZE("layers", "2", "layers"),
    SIZE("mlp", "256", "width inside of the MLPs"),
    SIZE("embedding", "256", "width of the vector that stands for both frames"),
    {.path = "*.config.dropout",
     .type = HR_KEY_FLOAT,
     .fallback = "0.1",
     .min = 0,
     .max = 0.99,
     .meaning = "twoframe: part that is dropped in training"},
    {.path = "*.config.batch_norm",
     .type = HR_KEY_CHOICE,
     .choices = "eval|train",
     .fallback = "train",
     .meaning = "twoframe: norms of the mask go in training by the statistics of the batch, which the running ones "
                "follow (train), or by these (eval)"},
};
const hr_key_table hr_twoframe_keys = {keys, sizeof keys / sizeof *keys};

hr_id hr__twoframe_images(hr_builder *b, hr_id rgb) {
  static const int order[] = {2, 0, 3, 4, 1};
  int64_t size[5];
  for (int d = 0; d < 5; d++)
    size[d] = hr__desc_dim(b, rgb, d);
  int64_t half = size[2] / FRAMES;
  hr__module(b, "frames");
  hr_id x = hr__reshape(b, rgb, 6, (const int64_t[]){size[0], size[1], FRAMES, half, size[3], size[4]});
  x = hr__squeeze(b, hr__window(b, x, 3, half / 2, 1), 1u << 3);
  return hr__reshape(b, hr__permute(b, x, order), 4, (const int64_t[]){FRAMES * size[0], size[3], size[4], size[1]});
}

/* [2 B, C, h, w] -> [B, 2 P, C] */
static hr_id tokens_of(hr_builder *b, hr_id map) {
  static const int order[] = {1, 0, 3, 2};
  int64_t samples = hr__desc_dim(b, map, 0) / FRAMES, channels = hr__desc_dim(b, map, 1);
  int64_t places = hr__desc_dim(b, map, 2) * hr__desc_dim(b, map, 3);
  hr__module(b, "tokens");
  map = hr__reshape(b, map, 4, (const int64_t[]){FRAMES, samples, channels, places});
  return hr__reshape(b, hr__permute(b, map, order), 3, (const int64_t[]){samples, FRAMES * places, channels});
}

/* Twice the size in both axes, half of the channels; norm, relu. */
static hr_id doubled(hr_builder *b, bool by_batch, int number, int64_t in, hr_id x) {
  static const int64_t none[HR_CONV_AXES] = {0, 0, 0};
  hr_conv_args args = {.stride = {2, 2}, .padding = {1, 1}, .dilation = {1, 1}, .groups = 1};
  char path[PATH], norm_path[PATH], name[PATH + 8];
  snprintf(path, sizeof path, "mask.%d.double", number);
  snprintf(norm_path, sizeof norm_path, "mask.%d.norm", number);
  hr__module(b, "%s", path);
  snprintf(name, sizeof name, "%s.weight", path);
  hr_id w = hr__parameter(b, name, (hr_desc){b->dtype, 4, {in, in / 2, 4, 4}}, hr__init_kaiming(in * 4, 1.41421356));
  snprintf(name, sizeof name, "%s.bias", path);
  hr_id bias = hr__parameter(b, name, hr__desc1(b->dtype, in / 2), (hr_init){.rule = HR_INIT_ZERO});
  hr_batchnorm norm = {.path = norm_path,
                       .at = path,
                       .channels = in / 2,
                       .groups = 1,
                       .eps = 1e-5f,
                       .momentum = 0.1f,
                       .by_batch = by_batch};
  x = hr__batchnorm(b, &norm, hr__conv_transpose(b, x, w, bias, none, &args));
  return hr__unary(b, HR_FORMULA_relu, x, 0, 0);
}

/* What is different [B, P, D] as logits of a mask, [B, 1, H, W]. */
static hr_id mask_of(hr_builder *b, const hr_model_part *part, const int64_t map[2], const int64_t size[2], hr_id x) {
  static const int order[] = {0, 2, 1};
  hr_conv_args args = {.stride = {1, 1}, .padding = {1, 1}, .dilation = {1, 1}, .groups = 1};
  bool by_batch = strcmp(hr__scope_text(&part->scope, "config.batch_norm"), "train") == 0;
  int64_t samples = hr__desc_dim(b, x, 0), width = hr__desc_dim(b, x, 2);
  hr__block_begin(b, "mask");
  hr__module(b, "mask");
  x = hr__reshape(b, hr__permute(b, x, order), 4, (const int64_t[]){samples, width, map[0], map[1]});
  for (int i = 0; i < DOUBLINGS; i++, width /= 2)
    x = doubled(b, by_batch, i, width, x);
  hr__module(b, "mask.out");
  hr_id w =
      hr__parameter(b, "mask.out.weight", (hr_desc){b->dtype, 4, {1, width, 3, 3}}, hr__init_kaiming(width * 9, 1));
  hr_id bias = hr__parameter(b, "mask.out.bias", hr__desc1(b->dtype, 1), (hr_init){.rule = HR_INIT_ZERO});
  x = hr__resize(b, hr__conv(b, x, w, bias, &args), size);
  hr__block_end(b);
  return x;
}

/* How whole what was there still is, in (-1, 1): [B, 1]. */
static hr_id integrity_of(hr_builder *b, int64_t width, hr_id x) {
  x = hr__stream_linear(b, "integrity", "0", width, width / 4, x);
  hr__module(b, "integrity.1");
  x = hr__stream_linear(b, "integrity", "2", width / 4, 1, hr__unary(b, HR_FORMULA_relu, x, 0, 0));
  return hr__unary(b, HR_FORMULA_tanh, x, 0, 0);
}

hr_id hr__twoframe(hr_builder *b, const hr_model_part *part, hr_id map, const int64_t size[2], hr_two_frames *out) {
  const hr_scope *s = &part->scope;
  int64_t width = hr__scope_int(s, "config.width"), layers = hr__scope_int(s, "config.layers");
  int64_t channels = hr__desc_dim(b, map, 1), maps[] = {hr__desc_dim(b, map, 2), hr__desc_dim(b, map, 3)};
  int64_t places = maps[0] * maps[1];
  hr_id x = hr__stream_linear(b, "input", "linear", channels, width, tokens_of(b, map));
  hr__module(b, "positions");
  hr_id table = hr__table(b, "positions", FRAMES * places, width, 0.02f);
  x = hr__add_rows(b, x, table, FRAMES * places);
  for (int64_t i = 0; i < layers; i++) {
    char path[PATH];
    snprintf(path, sizeof path, "layers.%" PRId64, i);
    hr_stream_layer l = {.path = path,
                         .width = width,
                         .heads = hr__scope_int(s, "config.heads"),
                         .inner = hr__scope_int(s, "config.mlp"),
                         .dropout = (float)hr__scope_float(s, "config.dropout"),
                         .before = false};
    x = hr__stream_layer(b, s, &l, x);
  }
  hr__module(b, "difference");
  hr_id other = hr__binary(b, HR_FORMULA_sub, hr__window(b, x, 1, places, places), hr__window(b, x, 1, 0, places));
  out->mask = mask_of(b, part, maps, size, other);
  hr__module(b, "pooling");
  x = hr__squeeze(b, hr__reduce(b, HR_REDUCE_MEAN, x, 1u << 1), 1u << 1);
  out->integrity = integrity_of(b, width, x);
  return hr__stream_linear(b, "embedding", "linear", width, hr__scope_int(s, "config.embedding"), x);
}

static hr_status twoframe_check(const hr_model_part *part, hr_error *err) {
  int64_t width = hr__scope_int(&part->scope, "config.width"), heads = hr__scope_int(&part->scope, "config.heads");
  if (width % heads == 0 && width % 8 == 0) return HR_OK;
  return hr__scope_fail(&part->scope, "config.heads", "take a divisor of config.width, which is a multiple of 8", err,
                        "a width of %" PRId64 " with %" PRId64 " heads", width, heads);
}

/* x: a backbone's map of the two frames; the mask has its size. */
static hr_id twoframe_body(hr_builder *b, const hr_model_part *part, hr_id x, const hr_model_batch *batch) {
  const int64_t size[] = {hr__desc_dim(b, x, 2), hr__desc_dim(b, x, 3)};
  hr_two_frames out;
  (void)batch;
  return hr__twoframe(b, part, x, size, &out);
}

static const char *const targets[] = {"q_proj", "k_proj", "v_proj", "out_proj", "linear1", "linear2"};
static const char *const wide[] = {"norm", NULL};

const hr_model hr_model_twoframe = {.family = "twoframe",
                                    .keys = {&hr_twoframe_keys},
                                    .check = twoframe_check,
                                    .body = twoframe_body,
                                    .wide = wide,
                                    .targets = targets,
                                    .n_targets = sizeof targets / sizeof *targets};
