/* A U-Net over space and time: what happens where in a video (a mask), and one vector of all of it.
 *
 * Each level is a convolution of 3 x 3 x 3 with a group norm and GELU. Between levels a convolution halves every axis,
 * with one row of padding in space (720 x 1280 -> 361 x 641 -> 181 x 321), and on the way up its transpose doubles
 * them; what comes from the way down is interpolated to that size. Levels are blocks: checkpointing keeps what goes
 * from one to the next, and group norms are made again from the outputs of convolutions. They may be split by frames.
 * Frames are made numbers inside of the first level, the mask inside of the last one: nothing else of full size leaves.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "model/multistream.h"
#include "op/conv.h"
#include "op/group_norm.h"
#include "op/pointwise.h"
#include "op/resize.h"

enum { LEVELS = 3, PATH = 64, SIZE_MOST = 1 << 14 };

static const hr_key keys[] = {
    {.path = "*.config.channels",
     .type = HR_KEY_INT,
     .fallback = "3",
     .min = 1,
     .max = 16,
     .meaning = "unet3d: channels of a frame"},
    {.path = "*.config.width",
     .type = HR_KEY_INT,
     .fallback = "32",
     .min = 1,
     .max = SIZE_MOST,
     .meaning = "unet3d: channels of the first level; each of the next has twice as many"},
    {.path = "*.config.groups",
     .type = HR_KEY_INT,
     .fallback = "8",
     .min = 1,
     .max = SIZE_MOST,
     .meaning = "unet3d: groups of channels that are normalised together"},
    {.path = "*.config.embedding",
     .type = HR_KEY_INT,
     .fallback = "512",
     .min = 1,
     .max = SIZE_MOST,
     .meaning = "unet3d: width of the vector that stands for the video"},
};
const hr_key_table hr_unet3d_keys = {keys, sizeof keys / sizeof *keys};

typedef struct unet {
  int64_t channels, width, groups, embedding;
} unet;

static unet unet_read(const hr_model_part *part) {
  return (unet){.channels = hr__scope_int(&part->scope, "config.channels"),
                .width = hr__scope_int(&part->scope, "config.width"),
                .groups = hr__scope_int(&part->scope, "config.groups"),
                .embedding = hr__scope_int(&part->scope, "config.embedding")};
}

/* PATH.weight [a, b, k, k, k] as PyTorch draws it, for `in` numbers that each result is made of; PATH.bias of `out`. */
static hr_id weight_of(hr_builder *b, const char *path, int64_t first, int64_t second, int64_t kernel, int64_t in) {
  char name[PATH + 16];
  snprintf(name, sizeof name, "%s.weight", path);
  hr_init init = {.rule = HR_INIT_NORMAL, .a = (float)(1 / sqrt(3 * (double)in))};
  return hr__parameter(b, name, (hr_desc){b->dtype, 5, {first, second, kernel, kernel, kernel}}, init);
}

static hr_id vector_of(hr_builder *b, const char *path, const char *kind, int64_t size, hr_init_rule rule) {
  char name[PATH + 16];
  snprintf(name, sizeof name, "%s.%s", path, kind);
  return hr__parameter(b, name, hr__desc1(b->dtype, size), (hr_init){.rule = rule});
}

static hr_id conv(hr_builder *b, const char *path, int64_t in, int64_t out, int64_t kernel, hr_conv_args args,
                  hr_id x) {
  hr__module(b, "%s", path);
  hr_id w = weight_of(b, path, out, in, kernel, in * kernel * kernel * kernel);
  return hr__conv(b, x, w, vector_of(b, path, "bias", out, HR_INIT_ZERO), &args);
}

/* Convolution, group norm, GELU. With `beside`, whose channels stand behind those of x for the weight: two
 * convolutions, the second onto the first, so that nothing exists that has the channels of both. */
static hr_id level(hr_builder *b, const unet *u, const char *name, int64_t out, hr_id x, hr_id beside) {
  char path[PATH];
  hr_conv_args args = {.stride = {1, 1, 1}, .padding = {1, 1, 1}, .dilation = {1, 1, 1}, .groups = 1};
  hr_group_norm_args norm = {.groups = u->groups, .eps = 1e-5f, .gelu = true};
  int64_t own = hr__desc_dim(b, x, 1), others = beside == HR_NONE ? 0 : hr__desc_dim(b, beside, 1);
  snprintf(path, sizeof path, "%s.conv", name);
  hr__module(b, "%s", path);
  hr_id w = weight_of(b, path, out, own + others, 3, (own + others) * 27);
  hr_id bias = vector_of(b, path, "bias", out, HR_INIT_ZERO);
  if (beside == HR_NONE) {
    x = hr__conv(b, x, w, bias, &args);
  } else {
    x = hr__conv(b, x, hr__window(b, w, 1, 0, own), bias, &args);
    x = hr__conv_add(b, beside, hr__window(b, w, 1, own, others), HR_NONE, x, &args);
  }
  snprintf(path, sizeof path, "%s.norm", name);
  hr__module(b, "%s", path);
  hr_id scale = vector_of(b, path, "weight", out, HR_INIT_ONE), shift = vector_of(b, path, "bias", out, HR_INIT_ZERO);
  return hr__group_norm(b, x, scale, shift, &norm);
}

/* Half of every size; in space with a row of padding. */
static hr_id down(hr_builder *b, const char *path, int64_t channels, hr_id x) {
  hr_conv_args args = {.stride = {2, 2, 2}, .padding = {0, 1, 1}, .dilation = {1, 1, 1}, .groups = 1};
  return conv(b, path, channels, channels, 2, args, x);
}

static hr_id up(hr_builder *b, const char *path, int64_t in, int64_t out, hr_id x) {
  static const int64_t none[HR_CONV_AXES] = {0, 0, 0};
  hr_conv_args args = {.stride = {2, 2, 2}, .padding = {0, 0, 0}, .dilation = {1, 1, 1}, .groups = 1};
  hr__module(b, "%s", path);
  hr_id w = weight_of(b, path, in, out, 2, out * 8);
  return hr__conv_transpose(b, x, w, vector_of(b, path, "bias", out, HR_INIT_ZERO), none, &args);
}

/* What the way down has left at this level, in the size of x. */
static hr_id resized(hr_builder *b, hr_id x, hr_id skip) {
  if (b->status != HR_OK) return HR_NONE;
  const hr_desc *to = &b->graph->values[x].desc, *from = &b->graph->values[skip].desc;
  int64_t size[] = {to->dim[2], to->dim[3], to->dim[4]};
  bool same = from->dim[2] == size[0] && from->dim[3] == size[1] && from->dim[4] == size[2];
  return same ? skip : hr__resize(b, skip, size);
}

/* Mean over all places, and a linear. */
static hr_id pooled(hr_builder *b, const unet *u, hr_id x) {
  hr__module(b, "pooling");
  x = hr__squeeze(b, hr__reduce(b, HR_REDUCE_MEAN, x, 7u << 2), 7u << 2);
  return hr__stream_linear(b, "embedding", "linear", u->width << LEVELS, u->embedding, x);
}

/* Logits of the mask, in the size of the video. */
static hr_id mask_of(hr_builder *b, const unet *u, hr_id x, const int64_t *size) {
  hr_conv_args args = {.stride = {1, 1, 1}, .padding = {0, 0, 0}, .dilation = {1, 1, 1}, .groups = 1};
  x = conv(b, "mask", u->width, 1, 1, args, x);
  return hr__resize(b, x, size);
}

hr_id hr__unet3d(hr_builder *b, const hr_model_part *part, hr_id frames, hr_id *mask) {
  unet u = unet_read(part);
  hr_id skip[LEVELS], x = frames;
  char name[PATH];
  int64_t width = u.width, size[3];
  for (int d = 0; d < 3; d++)
    size[d] = hr__desc_dim(b, frames, 2 + d);
  hr__rows_along(b, frames, 2);
  for (int i = 0; i < LEVELS; i++, width *= 2) { /* widths: w, 2w, 4w */
    hr__block_begin(b, "down.%d", i);
    if (i == 0) {
      hr__module(b, "frames");
      x = hr__unary(b, HR_FORMULA_affine, frames, 1.0f / 255, 0);
    }
    if (i > 0) {
      snprintf(name, sizeof name, "down.%d.halve", i);
      x = down(b, name, width / 2, x);
    }
    snprintf(name, sizeof name, "down.%d", i);
    skip[i] = x = level(b, &u, name, width, x, HR_NONE);
    hr__block_end(b);
  }
  hr__block_begin(b, "bottleneck");
  x = level(b, &u, "bottleneck", width, x, HR_NONE);
  hr__block_end(b);
  hr_id embedding = pooled(b, &u, x);
  for (int i = LEVELS - 1; i >= 0; i--, width /= 2) { /* 8w + 4w -> 4w; 2w + 2w -> 2w; w + w -> w */
    hr__block_begin(b, "up.%d", i);
    if (i < LEVELS - 1) {
      snprintf(name, sizeof name, "up.%d.double", i);
      x = up(b, name, width, width / 2, x);
    }
    snprintf(name, sizeof name, "up.%d", i);
    hr__module(b, "%s", name);
    x = level(b, &u, name, width / 2, x, resized(b, x, skip[i]));
    if (i == 0) *mask = mask_of(b, &u, x, size);
    hr__block_end(b);
  }
  return embedding;
}

static hr_status unet3d_check(const hr_model_part *part, hr_error *err) {
  unet u = unet_read(part);
  if (u.width % u.groups == 0) return HR_OK;
  return hr__scope_fail(&part->scope, "config.groups", "take a divisor of config.width", err,
                        "%" PRId64 " channels cannot be normalised in %" PRId64 " groups", u.width, u.groups);
}

static hr_id unet3d_body(hr_builder *b, const hr_model_part *part, hr_id x, const hr_model_batch *batch) {
  hr_id mask;
  (void)batch;
  return hr__unet3d(b, part, x, &mask);
}

const hr_model hr_model_unet3d = {
    .family = "unet3d", .keys = {&hr_unet3d_keys}, .check = unet3d_check, .body = unet3d_body};
