/* From recordings to tokens: every patch of every channel becomes one by convolutions, with where it stands and how
 * large it is added; then layers attend over the patches of a channel and over the channels of a patch. See sensors.h.
 *
 * Tokens lie as [B, P, D, F] throughout. Attention over patches takes all channels at once, as heads: in [B, P, D·F]
 * the columns of a channel are those of its heads. So nothing is permuted, and the lengths of samples are its own.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "model/modules.h"
#include "model/sensors.h"
#include "op/add.h"
#include "op/concat.h"
#include "op/conv.h"
#include "op/embedding.h"
#include "op/gelu.h"
#include "op/linear.h"
#include "op/pointwise.h"
#include "op/rope.h"
#include "op/slice.h"

enum { PATH = 96 };
static const float NORM_EPS = 1e-5f;

float hr__sensors_deviation(int64_t in) {
  return (float)(1 / sqrt(3 * (double)in));
}

hr_id hr__sensors_linear(hr_builder *b, const char *path, const char *name, int64_t in, int64_t rows, hr_id x,
                         hr_id add) {
  hr_linears l = {.path = path,
                  .count = 1,
                  .name = {name},
                  .rows = {rows},
                  .in = in,
                  .biased = true,
                  .std = hr__sensors_deviation(in)};
  return hr__linears(b, &l, x, add);
}

hr_id hr__sensors_norm(hr_builder *b, const hr_sensor_model *m, const char *path, const char *name, hr_id x) {
  char whole[PATH];
  snprintf(whole, sizeof whole, "%s.%s", path, name);
  return hr__layernorm_module(b, whole, m->width, NORM_EPS, x);
}

hr_id hr__sensors_mask(hr_builder *b, const hr_sensor_model *m, const hr_model_batch *batch, int rank) {
  int64_t size[HR_RANK] = {batch->batch, m->patches};
  for (int d = 2; d < rank; d++)
    size[d] = 1;
  return hr__reshape(b, hr__batch_field(batch, "patch_mask"), rank, size);
}

/* ---- the tokenizer ---- */

/* x [N, in, size] -> [N, out, windows]; modules are numbered as in a list that has each GELU in it too. */
static hr_id conv(hr_builder *b, int number, int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t padding,
                  hr_id x) {
  char weight[PATH], bias[PATH];
  hr_conv_args args = {.stride = {stride}, .padding = {padding}, .dilation = {1}, .groups = 1};
  snprintf(weight, sizeof weight, "tokenizer.conv_layers.%d.weight", number);
  snprintf(bias, sizeof bias, "tokenizer.conv_layers.%d.bias", number);
  hr__module(b, "tokenizer.conv_layers.%d", number);
  hr_init init = {.rule = HR_INIT_NORMAL, .a = hr__sensors_deviation(in * kernel)};
  hr_id w = hr__parameter(b, weight, hr__desc3(b->dtype, out, in, kernel), init);
  hr_id shift = hr__parameter(b, bias, hr__desc1(b->dtype, out), (hr_init){.rule = HR_INIT_ZERO});
  return hr__conv(b, x, w, shift, &args);
}

/* Of a patch of a channel, [T]: halved by every convolution but the last, which takes four points: [B, P, D, F]. */
static hr_id tokenize(hr_builder *b, const hr_sensor_model *m, const hr_model_batch *batch) {
  int64_t rows = batch->batch * m->patches * m->channels;
  int number = 0;
  hr__block_begin(b, "tokenizer");
  hr__module(b, "tokenizer");
  hr_id x = hr__reshape(b, hr__batch_field(batch, "patches"), 3, (const int64_t[]){rows, 1, m->points});
  for (int64_t size = m->points; size > 4; size /= 2, number += 2) {
    bool first = size == m->points;
    x = conv(b, number, first ? 1 : m->hidden, m->hidden, first ? 7 : 5, 2, first ? 3 : 2, x);
    hr__module(b, "tokenizer.conv_layers.%d", number + 1);
    x = hr__gelu(b, x, false);
  }
  x = conv(b, number, m->hidden, m->conv_out, 4, 4, 0, x);
  x = hr__reshape(b, x, 4, (const int64_t[]){batch->batch, m->patches, m->channels, m->conv_out});
  x = hr__sensors_linear(b, "tokenizer", "proj", m->conv_out, m->width, x, HR_NONE);
  hr__block_end(b);
  return x;
}

/* ---- where tokens stand, and how large their signals are ---- */

/* Encodings [n, E] brought to the encoder's width: [n, F], by a gate of their own. Three of them are added. */
static hr_id placed(hr_builder *b, const hr_sensor_model *m, const char *path, hr_id x) {
  char name[PATH];
  x = hr__sensors_linear(b, path, "proj", m->encoding, m->width, x, HR_NONE);
  x = hr__sensors_norm(b, m, path, "norm", x);
  hr__module(b, "%s", path);
  snprintf(name, sizeof name, "%s.gate", path);
  hr_id gate = hr__parameter(b, name, hr__desc1(b->dtype, 1), (hr_init){.rule = HR_INIT_ONE});
  return hr__binary(b, HR_FORMULA_mul, x, hr__unary(b, HR_FORMULA_affine, gate, (float)(1 / sqrt(3)), 0));
}

static hr_id table(hr_builder *b, const hr_sensor_model *m, const char *path, int64_t rows) {
  hr__module(b, "%s", path);
  return hr__table(b, path, rows, m->encoding, 1);
}

/* What each part adds, for all patches, channels and samples that can be told apart. */
typedef struct positions {
  hr_id patch, channel, size; /* [B, P, 1, F], [D, F], [B, 1, 1, F] */
} positions;

static positions positions_of(hr_builder *b, const hr_sensor_model *m, const hr_model_batch *batch) {
  static const char patch[] = "encoder.positions.patch", channel[] = "encoder.positions.channel",
                    size[] = "encoder.positions.patch_size";
  int64_t samples = batch->batch;
  positions out;
  hr__module(b, "%s", patch);
  hr_rope_table_args waves = {.length = m->patches, .head_dim = m->encoding, .theta = 10000.0};
  hr_id angles = hr__rope_table(b, HR_NONE, &waves); /* [2, P, E/2]: cosines, sines */
  hr_id halves[] = {hr__window(b, angles, 0, 1, 1), hr__window(b, angles, 0, 0, 1)};
  hr_id x = b->status == HR_OK ? hr__squeeze(b, hr__concat(b, halves, 2, 2), 1u << 0) : HR_NONE;
  x = hr__embedding(b, hr__batch_field(batch, "patch_positions"), placed(b, m, patch, x));
  out.patch = hr__reshape(b, x, 4, (const int64_t[]){samples, m->patches, 1, m->width});
  x = hr__window(b, table(b, m, "encoder.positions.channel.embedding", m->channel_rows), 0, 0, m->channels);
  out.channel = placed(b, m, channel, x);
  x = table(b, m, "encoder.positions.patch_size.embedding", m->size_rows);
  x = placed(b, m, size, hr__embedding(b, hr__batch_field(batch, "patch_size"), x));
  out.size = hr__reshape(b, x, 4, (const int64_t[]){samples, 1, 1, m->width});
  return out;
}

/* Their sum, [B, P, D, F]. It is made once for each use, so that nothing of its size is kept. */
static hr_id position_sum(hr_builder *b, const positions *p) {
  return hr__binary(b, HR_FORMULA_add, hr__binary(b, HR_FORMULA_add, p->patch, p->channel), p->size);
}

/* Mean square over the valid elements of each sample, times the valid part of them: [B, 1, 1, 1]. Backward takes it as
 * given. */
static hr_id power(hr_builder *b, hr_id x, hr_id mask) {
  x = hr__unary(b, HR_FORMULA_square, hr__binary(b, HR_FORMULA_keep, x, mask), 0, 0);
  return hr__detached(b, hr__reduce(b, HR_REDUCE_MEAN, x, 1u << 1 | 1u << 2 | 1u << 3));
}

/* Factor of positions: a learned part of what brings them to the size of the content, [B, 1, 1, 1]. */
static hr_id position_scale(hr_builder *b, const positions *p, hr_id content, hr_id mask) {
  const float least = 1e-8f;
  hr__module(b, "encoder.tokens");
  hr_id own = power(b, content, mask), other = power(b, position_sum(b, p), mask);
  hr__module(b, "encoder.positions");
  own = hr__unary(b, HR_FORMULA_affine, own, 1, least);
  other = hr__unary(b, HR_FORMULA_affine, other, 1, least);
  hr_id ratio = hr__unary(b, HR_FORMULA_sqrt, hr__binary(b, HR_FORMULA_div, own, other), 0, 0);
  hr_id part = hr__parameter(b, "encoder.positions.scale", hr__desc1(b->dtype, 1),
                             (hr_init){.rule = HR_INIT_CONSTANT, .a = 0.5f});
  return hr__unary(b, HR_FORMULA_clamp, hr__binary(b, HR_FORMULA_mul, ratio, part), 0.1f, 10);
}

/* [B, P, D, F] of the six statistics. They and the weight are padded to eight columns of zeros: rows of 16 bits that
 * are no multiple of 16 bytes have products of another kind on a GPU, for which its library holds memory of its own. */
static hr_id statistics_linear(hr_builder *b, const hr_sensor_model *m, const hr_model_batch *batch) {
  enum { STATISTICS = 6, PADDED = 8 };
  hr_init init = {.rule = HR_INIT_NORMAL, .a = hr__sensors_deviation(STATISTICS)};
  hr__module(b, "encoder.scale_mlp.0");
  hr_id w = hr__parameter(b, "encoder.scale_mlp.0.weight", hr__desc2(b->dtype, m->width, STATISTICS), init);
  hr_id bias =
      hr__parameter(b, "encoder.scale_mlp.0.bias", hr__desc1(b->dtype, m->width), (hr_init){.rule = HR_INIT_ZERO});
  hr_id x = hr__window(b, hr__batch_field(batch, "statistics"), 3, 0, PADDED);
  return hr__linear(b, x, hr__window(b, w, 1, 0, PADDED), bias);
}

/* content [B, P, D, F] with positions and what statistics say; 0 where a patch is not valid. */
static hr_id tokens_of(hr_builder *b, const hr_sensor_model *m, const hr_model_batch *batch, hr_id content) {
  positions p = positions_of(b, m, batch);
  hr_id mask = hr__sensors_mask(b, m, batch, 4);
  hr_id scale = position_scale(b, &p, content, mask);
  hr_id x = statistics_linear(b, m, batch);
  hr__module(b, "encoder.scale_mlp");
  x = hr__sensors_linear(b, "encoder.scale_mlp", "2", m->width, m->width, hr__gelu(b, x, false), content);
  hr__module(b, "encoder.tokens");
  x = hr__binary(b, HR_FORMULA_add, x, hr__binary(b, HR_FORMULA_mul, position_sum(b, &p), scale));
  return hr__binary(b, HR_FORMULA_keep, x, mask);
}

/* ---- layers ---- */

/* x + dropout(linear(y)). */
static hr_id residual(hr_builder *b, const hr_sensor_model *m, const char *path, const char *name, int64_t in, hr_id y,
                      hr_id x) {
  if (!hr__drops(b, m->dropout)) return hr__sensors_linear(b, path, name, in, m->width, y, x);
  y = hr__sensors_linear(b, path, name, in, m->width, y, HR_NONE);
  return hr__add(b, hr__dropped(b, path, m->dropout, y), x, 1.0f);
}

static hr_id attend(hr_builder *b, const hr_scope *scope, const hr_sensor_model *m, const char *path,
                    const hr_model_batch *batch, bool over_patches, hr_id x) {
  int64_t samples = batch->batch, head_dim = m->width / m->heads;
  int64_t rows = over_patches ? samples : samples * m->patches, length = over_patches ? m->patches : m->channels;
  int64_t heads = over_patches ? m->channels * m->heads : m->heads;
  hr_linears in = {.path = path,
                   .count = 3,
                   .name = {"q_proj", "k_proj", "v_proj"},
                   .rows = {m->width, m->width, m->width},
                   .in = m->width,
                   .biased = true,
                   .std = hr__sensors_deviation(m->width)};
  bool packed = !over_patches && hr__linears_join(scope, &in);
  hr_id part[3] = {HR_NONE, HR_NONE, HR_NONE};
  for (int i = 0; i < (packed ? 1 : 3); i++) {
    part[i] = packed ? hr__linears(b, &in, x, HR_NONE) : hr__linears_one(b, &in, i, x);
    part[i] = hr__reshape(b, part[i], 3, (const int64_t[]){rows, length, heads * head_dim * (packed ? 3 : 1)});
  }
  hr__module(b, "%s", path);
  hr_attention_args args = {.heads = heads,
                            .kv_heads = heads,
                            .head_dim = head_dim,
                            .scale = (float)(1 / sqrt((double)head_dim)),
                            .bidirectional = true,
                            .dropout = hr__drops(b, m->dropout) ? m->dropout : 0.0f};
  hr_id lengths = over_patches ? hr__batch_field(batch, "patch_counts") : HR_NONE;
  x = hr__attention(b, part[0], part[1], part[2], lengths, &args);
  return hr__reshape(b, x, 4, (const int64_t[]){samples, m->patches, m->channels, m->width});
}

/* One kind of attention and its MLP, each behind a norm: x + attention(norm(x)), x + mlp(norm(x)). */
static hr_id half(hr_builder *b, const hr_scope *scope, const hr_sensor_model *m, const char *path,
                  const hr_model_batch *batch, bool over_patches, hr_id x) {
  char attention[PATH + 16], mlp[PATH + 16];
  snprintf(attention, sizeof attention, "%s.self_attn", path);
  snprintf(mlp, sizeof mlp, "%s.ffn", path);
  hr__block_begin(b, "%s", path);
  hr_id y = hr__sensors_norm(b, m, path, "pre_norm_attn", x);
  x = residual(b, m, attention, "out_proj", m->width, attend(b, scope, m, attention, batch, over_patches, y), x);
  y = hr__sensors_norm(b, m, path, "pre_norm_mlp", x);
  y = hr__sensors_linear(b, mlp, "0", m->width, m->mlp, y, HR_NONE);
  hr__module(b, "%s.1", mlp);
  y = hr__gelu(b, y, false);
  y = hr__dropped(b, mlp, m->dropout, y);
  x = residual(b, m, mlp, "3", m->mlp, y, x);
  hr__block_end(b);
  return x;
}

hr_id hr__sensors_encode(hr_builder *b, const hr_scope *scope, const hr_sensor_model *m, const hr_model_batch *batch) {
  char path[PATH];
  hr__component_begin(b, "encoder"); /* from patches on: slices of samples keep nothing that is larger */
  hr_id x = tokens_of(b, m, batch, tokenize(b, m, batch));
  for (int64_t i = 0; i < m->layers; i++) {
    hr__block_begin(b, "encoder.layers.%" PRId64, i);
    snprintf(path, sizeof path, "encoder.layers.%" PRId64 ".temporal", i);
    x = half(b, scope, m, path, batch, true, x);
    snprintf(path, sizeof path, "encoder.layers.%" PRId64 ".channel", i);
    x = half(b, scope, m, path, batch, false, x);
    hr__block_end(b);
  }
  hr__block_end(b);
  return x;
}
