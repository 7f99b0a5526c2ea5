/* See video_pieces.h. */
#include "model/video_pieces.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "model/modules.h"
#include "model/recurrent.h"
#include "op/add.h"
#include "op/concat.h"
#include "op/gelu.h"
#include "op/pointwise.h"
#include "op/rope.h"
#include "op/slice.h"

enum { PATH = 96 };
static const float NORM_EPS = 1e-5f;

static float deviation(int64_t in) { /* of fresh weights, as PyTorch draws them */
  return (float)(1 / sqrt(3 * (double)in));
}

static hr_id linear(hr_builder *b, const char *path, const char *name, int64_t in, int64_t rows, hr_id x, hr_id add) {
  hr_linears l = {
      .path = path, .count = 1, .name = {name}, .rows = {rows}, .in = in, .biased = true, .std = deviation(in)};
  return hr__linears(b, &l, x, add);
}

static hr_id relu(hr_builder *b, hr_id x) {
  return hr__unary(b, HR_FORMULA_relu, x, 0, 0);
}

/* PATH.0, ReLU, dropout, PATH.3: as a list of modules numbers them. */
static hr_id two_linears(hr_builder *b, const char *path, const int64_t widths[3], float dropout, hr_id x) {
  x = relu(b, linear(b, path, "0", widths[0], widths[1], x, HR_NONE));
  x = hr__dropped(b, path, dropout, x);
  return linear(b, path, "3", widths[1], widths[2], x, HR_NONE);
}

hr_id hr__video_features(hr_builder *b, const hr_video_sizes *m, hr_id x, int64_t columns) {
  const int64_t widths[] = {columns, m->feature, m->feature};
  return two_linears(b, "visual_encoder.projection", widths, m->dropout, x);
}

hr_id hr__video_trigger(hr_builder *b, const hr_video_sizes *m, hr_id x, hr_id lengths) {
  const int64_t before[] = {m->feature, m->trigger, m->trigger}, behind[] = {m->trigger, m->trigger / 2, 2};
  hr_lstm_layers lstm = {.path = "trigger_detector.lstm", .in = m->trigger, .width = m->trigger, .layers = 1};
  hr__block_begin(b, "trigger_detector");
  x = relu(b, two_linears(b, "trigger_detector.feature_extractor", before, m->trigger_dropout, x));
  x = hr__lstm_layers(b, &lstm, x, lengths);
  x = two_linears(b, "trigger_detector.classifier", behind, m->trigger_dropout, x);
  hr__block_end(b);
  return x;
}

/* ---- the encoder ---- */

/* Sines and cosines by turns, [T, D]. */
static hr_id positions(hr_builder *b, const hr_video_sizes *m) {
  hr__module(b, "time_encoder.positions");
  hr_rope_table_args waves = {.length = m->frames, .head_dim = m->width, .theta = 10000.0};
  hr_id angles = hr__rope_table(b, HR_NONE, &waves); /* [2, T, D/2]: cosines, sines */
  hr_id halves[] = {hr__window(b, angles, 0, 1, 1), hr__window(b, angles, 0, 0, 1)};
  if (b->status != HR_OK) return HR_NONE;
  hr_id x = hr__permute(b, hr__concat(b, halves, 2, 0), (const int[]){1, 2, 0});
  return hr__reshape(b, x, 2, (const int64_t[]){m->frames, m->width});
}

/* Times as a linear of one column makes them, with positions: [B, T, D]. A product over one column would be slow, and
 * in 16 bits seconds would not be told apart. */
static hr_id times(hr_builder *b, const hr_video_sizes *m, hr_id timestamps) {
  if (b->status != HR_OK) return HR_NONE;
  int64_t samples = b->graph->values[timestamps].desc.dim[0];
  hr_id where = positions(b, m);
  hr__module(b, "time_encoder.time_proj");
  hr_id w = hr__parameter(b, "time_encoder.time_proj.weight", hr__desc2(b->dtype, m->width, 1),
                          (hr_init){.rule = HR_INIT_NORMAL, .a = deviation(1)});
  hr_id bias =
      hr__parameter(b, "time_encoder.time_proj.bias", hr__desc1(b->dtype, m->width), (hr_init){.rule = HR_INIT_ZERO});
  hr_id t = hr__reshape(b, timestamps, 3, (const int64_t[]){samples, m->frames, 1});
  t = hr__binary(b, HR_FORMULA_mul, t, hr__reshape(b, w, 1, &m->width));
  return hr__binary(b, HR_FORMULA_add, hr__binary(b, HR_FORMULA_add, t, bias), where);
}

static hr_id attend(hr_builder *b, const hr_scope *scope, const hr_video_sizes *m, const char *path, hr_id x,
                    hr_id lengths) {
  int64_t head_dim = m->width / m->heads;
  hr_linears in = {.path = path,
                   .count = 3,
                   .name = {"q_proj", "k_proj", "v_proj"},
                   .rows = {m->width, m->width, m->width},
                   .in = m->width,
                   .biased = true,
                   .std = deviation(m->width)};
  bool packed = hr__linears_join(scope, &in);
  hr_id part[3] = {HR_NONE, HR_NONE, HR_NONE};
  for (int i = 0; i < (packed ? 1 : 3); i++)
    part[i] = packed ? hr__linears(b, &in, x, HR_NONE) : hr__linears_one(b, &in, i, x);
  hr__module(b, "%s", path);
  hr_attention_args args = {.heads = m->heads,
                            .kv_heads = m->heads,
                            .head_dim = head_dim,
                            .scale = (float)(1 / sqrt((double)head_dim)),
                            .bidirectional = true,
                            .dropout = hr__drops(b, m->dropout) ? m->dropout : 0.0f};
  return hr__attention(b, part[0], part[1], part[2], lengths, &args);
}

/* x + dropout(linear(y)). */
static hr_id residual(hr_builder *b, const hr_video_sizes *m, const char *path, const char *name, int64_t in, hr_id y,
                      hr_id x) {
  if (!hr__drops(b, m->dropout)) return linear(b, path, name, in, m->width, y, x);
  y = linear(b, path, name, in, m->width, y, HR_NONE);
  char whole[2 * PATH];
  snprintf(whole, sizeof whole, "%s.%s", path, name);
  return hr__add(b, hr__dropped(b, whole, m->dropout, y), x, 1.0f);
}

static hr_id norm(hr_builder *b, const hr_video_sizes *m, const char *path, const char *name, hr_id x) {
  char whole[2 * PATH];
  snprintf(whole, sizeof whole, "%s.%s", path, name);
  return hr__layernorm_module(b, whole, m->width, NORM_EPS, x);
}

/* Norms stand behind: norm(x + attention(x)), norm(x + mlp(x)). */
static hr_id layer(hr_builder *b, const hr_scope *scope, const hr_video_sizes *m, const char *path, hr_id x,
                   hr_id lengths) {
  char attention[2 * PATH];
  snprintf(attention, sizeof attention, "%s.self_attn", path);
  x = residual(b, m, attention, "out_proj", m->width, attend(b, scope, m, attention, x, lengths), x);
  x = norm(b, m, path, "norm1", x);
  hr_id y = linear(b, path, "linear1", m->width, m->mlp, x, HR_NONE);
  y = hr__dropped(b, path, m->dropout, hr__gelu(b, y, false));
  x = residual(b, m, path, "linear2", m->mlp, y, x);
  return norm(b, m, path, "norm2", x);
}

hr_id hr__video_encode(hr_builder *b, const hr_scope *scope, const hr_video_sizes *m, hr_id x, hr_id timestamps,
                       hr_id lengths) {
  static const char name[] = "time_encoder";
  char path[PATH];
  hr__component_begin(b, "%s", name);
  hr_id more = times(b, m, timestamps);
  x = linear(b, name, "feature_proj", m->feature, m->width, x, more);
  x = norm(b, m, name, "norm", hr__dropped(b, name, m->dropout, x));
  for (int64_t i = 0; i < m->layers; i++) {
    hr__block_begin(b, "%s.layers.%" PRId64, name, i);
    snprintf(path, sizeof path, "%s.layers.%" PRId64, name, i);
    x = layer(b, scope, m, path, x, lengths);
    hr__block_end(b);
  }
  hr__block_end(b);
  return x;
}

hr_id hr__video_temporal(hr_builder *b, const hr_video_sizes *m, hr_id x, hr_id lengths) {
  hr_lstm_layers lstm = {
      .path = "temporal.lstm", .in = m->width, .width = m->lstm, .layers = m->lstm_layers, .both = true};
  hr__block_begin(b, "temporal");
  x = hr__lstm_layers(b, &lstm, x, lengths);
  x = linear(b, "temporal", "proj", 2 * m->lstm, m->width, x, HR_NONE);
  hr__block_end(b);
  return x;
}

hr_id hr__video_project(hr_builder *b, const hr_video_sizes *m, hr_id x, int64_t columns) {
  static const char path[] = "llm_projection";
  hr__block_begin(b, "%s", path);
  x = linear(b, path, "0", m->width, columns, x, HR_NONE);
  x = hr__layernorm_module(b, "llm_projection.1", columns, NORM_EPS, x);
  hr__module(b, "llm_projection.2");
  x = hr__dropped(b, path, m->dropout, hr__gelu(b, x, false));
  hr__block_end(b);
  return x;
}
