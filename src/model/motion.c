/* The motion of an object at three instants: an MLP over the numbers and what the host makes of them (geomlp), and a
 * small transformer over the instants (tempoformer). See multistream.h.
 */
#include <inttypes.h>
#include <stdio.h>

#include "model/modules.h"
#include "model/multistream.h"
#include "op/add_rows.h"
#include "op/concat.h"
#include "op/gelu.h"
#include "op/pointwise.h"
#include "op/rope.h"
#include "op/slice.h"

enum { SIZE_MOST = 1 << 14, PATH = 64 };
static const float NORM_EPS = 1e-5f;

#define SIZE(family, name, preset, text)                                                                               \
  {                                                                                                                    \
    .path = "*.config." name, .type = HR_KEY_INT, .fallback = preset, .min = 1, .max = SIZE_MOST,                      \
    .meaning = family ": " text                                                                                        \
  }
#define DROPOUT(family, preset)                                                                                        \
  {                                                                                                                    \
    .path = "*.config.dropout", .type = HR_KEY_FLOAT, .fallback = preset, .min = 0, .max = 0.99,                       \
    .meaning = family ": part that is dropped in training"                                                             \
  }

static const hr_key mlp_keys[] = {
    SIZE("geomlp", "hidden", "128", "width of the first layer"),
    SIZE("geomlp", "embedding", "192", "width of the second layer and of what it gives"),
    SIZE("geomlp", "importance", "64", "width inside of the layers that tell how much each number matters"),
    DROPOUT("geomlp", "0.05"),
};
const hr_key_table hr_motion_mlp_keys = {mlp_keys, sizeof mlp_keys / sizeof *mlp_keys};

static const hr_key temporal_keys[] = {
    SIZE("tempoformer", "width", "192", "width of the residual stream"),
    SIZE("tempoformer", "heads", "4", "heads of each attention"),
    SIZE("tempoformer", "layers", "2", "layers"),
    SIZE("tempoformer", "mlp", "768", "width inside of the MLPs"),
    SIZE("tempoformer", "embedding", "192", "width of what it gives"),
    DROPOUT("tempoformer", "0.1"),
};
const hr_key_table hr_motion_temporal_keys = {temporal_keys, sizeof temporal_keys / sizeof *temporal_keys};

/* linear, norm, GELU, dropout: modules NUMBER and NUMBER + 1 of a list. */
static hr_id layer(hr_builder *b, const char *path, int number, int64_t in, int64_t out, float dropout, hr_id x) {
  char name[16], norm[PATH];
  snprintf(name, sizeof name, "%d", number);
  x = hr__stream_linear(b, path, name, in, out, x);
  snprintf(norm, sizeof norm, "%s.%d", path, number + 1);
  x = hr__layernorm_module(b, norm, out, NORM_EPS, x);
  hr__module(b, "%s.%d", path, number + 2);
  return hr__dropped(b, norm, dropout, hr__gelu(b, x, false));
}

/* [B, 69]: the numbers of all instants, their differences from one to the next, and the features. */
static hr_id numbers_of(hr_builder *b, hr_id motion, hr_id features) {
  enum { N = HR_MOTION_NUMBERS, ALL = HR_MOTION_INSTANTS * N, STEPS = (HR_MOTION_INSTANTS - 1) * N };
  int64_t samples = hr__desc_dim(b, motion, 0);
  hr__module(b, "numbers");
  hr_id next = hr__window(b, motion, 1, 1, HR_MOTION_INSTANTS - 1);
  hr_id steps = hr__binary(b, HR_FORMULA_sub, next, hr__window(b, motion, 1, 0, HR_MOTION_INSTANTS - 1));
  hr_id raw = hr__reshape(b, motion, 2, (const int64_t[]){samples, ALL});
  steps = hr__reshape(b, steps, 2, (const int64_t[]){samples, STEPS});
  return b->status == HR_OK ? hr__concat(b, (hr_id[]){raw, steps, features}, 3, 1) : HR_NONE;
}

hr_id hr__motion_mlp(hr_builder *b, const hr_model_part *part, hr_id motion, hr_id features, hr_id *importance) {
  enum { NUMBERS = (2 * HR_MOTION_INSTANTS - 1) * HR_MOTION_NUMBERS + HR_MOTION_FEATURES };
  const hr_scope *s = &part->scope;
  int64_t hidden = hr__scope_int(s, "config.hidden"), width = hr__scope_int(s, "config.embedding");
  int64_t inner = hr__scope_int(s, "config.importance");
  float dropout = (float)hr__scope_float(s, "config.dropout");
  hr_id x = numbers_of(b, motion, features);
  x = layer(b, "mlp", 0, NUMBERS, hidden, dropout, x);
  x = layer(b, "mlp", 4, hidden, width, dropout, x);
  hr_id y = hr__stream_linear(b, "importance", "0", width, inner, x);
  hr__module(b, "importance.1");
  y = hr__stream_linear(b, "importance", "2", inner, NUMBERS, hr__gelu(b, y, false));
  *importance = hr__unary(b, HR_FORMULA_sigmoid, y, 0, 0);
  return x;
}

/* x [B, n, width] with sines, then cosines, of its places added. */
static hr_id placed(hr_builder *b, int64_t length, int64_t width, hr_id x) {
  hr_rope_table_args waves = {.length = length, .head_dim = width, .theta = 10000.0};
  hr__module(b, "positions");
  hr_id angles = hr__rope_table(b, HR_NONE, &waves); /* [2, n, width / 2]: cosines, sines */
  hr_id halves[] = {hr__window(b, angles, 0, 1, 1), hr__window(b, angles, 0, 0, 1)};
  hr_id rows = b->status == HR_OK ? hr__squeeze(b, hr__concat(b, halves, 2, 2), 1u << 0) : HR_NONE;
  return hr__add_rows(b, x, rows, length);
}

hr_id hr__motion_temporal(hr_builder *b, const hr_model_part *part, hr_id motion) {
  enum { PADDED = 32 }; /* numbers of an instant: there is room for more of them */
  const hr_scope *s = &part->scope;
  int64_t width = hr__scope_int(s, "config.width"), layers = hr__scope_int(s, "config.layers");
  int64_t out = hr__scope_int(s, "config.embedding"), samples = hr__desc_dim(b, motion, 0);
  float dropout = (float)hr__scope_float(s, "config.dropout");
  hr__module(b, "numbers");
  hr_id x = hr__stream_linear(b, "input", "linear", PADDED, width, hr__window(b, motion, 2, 0, PADDED));
  x = placed(b, HR_MOTION_INSTANTS, width, x);
  for (int64_t i = 0; i < layers; i++) {
    char path[PATH];
    snprintf(path, sizeof path, "layers.%" PRId64, i);
    hr_stream_layer l = {.path = path,
                         .width = width,
                         .heads = hr__scope_int(s, "config.heads"),
                         .inner = hr__scope_int(s, "config.mlp"),
                         .dropout = dropout,
                         .before = true};
    x = hr__stream_layer(b, s, &l, x);
  }
  hr__module(b, "output");
  x = hr__reshape(b, x, 2, (const int64_t[]){samples, HR_MOTION_INSTANTS * width});
  x = layer(b, "output", 0, HR_MOTION_INSTANTS * width, out, dropout, x);
  return hr__stream_linear(b, "output", "4", out, out, x);
}

static hr_status temporal_check(const hr_model_part *part, hr_error *err) {
  int64_t width = hr__scope_int(&part->scope, "config.width"), heads = hr__scope_int(&part->scope, "config.heads");
  if (width % heads == 0 && width % 2 == 0) return HR_OK;
  return hr__scope_fail(&part->scope, "config.heads", "take a divisor of config.width", err,
                        "a width of %" PRId64 " cannot be divided into %" PRId64 " heads", width, heads);
}

static hr_status nothing_to_check(const hr_model_part *part, hr_error *err) {
  (void)part, (void)err;
  return HR_OK;
}

static const char *const targets[] = {"q_proj", "k_proj", "v_proj", "out_proj", "linear1", "linear2"};

/* x: the motion. */
static hr_id mlp_body(hr_builder *b, const hr_model_part *part, hr_id x, const hr_model_batch *batch) {
  hr_id importance;
  return hr__motion_mlp(b, part, x, hr__batch_field(batch, "motion_features"), &importance);
}

static hr_id temporal_body(hr_builder *b, const hr_model_part *part, hr_id x, const hr_model_batch *batch) {
  (void)batch;
  return hr__motion_temporal(b, part, x);
}

const hr_model hr_model_geomlp = {
    .family = "geomlp", .keys = {&hr_motion_mlp_keys}, .check = nothing_to_check, .body = mlp_body};
const hr_model hr_model_tempoformer = {.family = "tempoformer",
                                       .keys = {&hr_motion_temporal_keys},
                                       .check = temporal_check,
                                       .body = temporal_body,
                                       .targets = targets,
                                       .n_targets = sizeof targets / sizeof *targets};
