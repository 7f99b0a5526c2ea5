/* Modalities as tokens: each embedding becomes one, with a learned vector of its modality; so do the class of the
 * object and what was noticed in the video. Layers attend over them; their mean is what heads read. See multistream.h.
 */
#include <inttypes.h>
#include <stdio.h>

#include "model/modules.h"
#include "model/multistream.h"
#include "op/concat.h"
#include "op/embedding.h"
#include "op/gelu.h"
#include "op/pointwise.h"
#include "op/slice.h"

enum { SIZE_MOST = 1 << 14, PATH = 64, KINDS = 6, NOTICED = 3, CLASS_TOKEN = HR_MODALITIES };
static const float NORM_EPS = 1e-5f;

#define SIZE(name, preset, text)                                                                                       \
  {                                                                                                                    \
    .path = "*.config." name, .type = HR_KEY_INT, .fallback = preset, .min = 1, .max = SIZE_MOST,                      \
    .meaning = "crossfusion: " text                                                                                    \
  }
static const hr_key keys[] = {
    SIZE("width", "512", "width of the residual stream; a multiple of 4"),
    SIZE("heads", "8", "heads of each attention"),
    SIZE("layers", "3", "layers"),
    SIZE("mlp", NULL, "width inside of the MLPs (default: 4 x width)"),
    SIZE("image", "768", "numbers of what is seen; fewer are padded with 0"),
    SIZE("thermal", "512", "numbers of what is hot; fewer are padded with 0"),
    SIZE("motion", "384", "numbers of how it moves; fewer are padded with 0"),
    SIZE("class_width", "32", "numbers that stand for the class of an object"),
    SIZE("classes", "100", "classes of objects; there is one more for unknown ones"),
    {.path = "*.config.dropout",
     .type = HR_KEY_FLOAT,
     .fallback = "0.1",
     .min = 0,
     .max = 0.99,
     .meaning = "crossfusion: part that is dropped in training"},
};
const hr_key_table hr_crossfusion_keys = {keys, sizeof keys / sizeof *keys};

int64_t hr__crossfusion_width(const hr_model_part *part) {
  return hr__scope_int(&part->scope, "config.width");
}

/* The modality's vector onto x [B, D]: a token, [B, 1, D]. */
static hr_id token(hr_builder *b, int64_t width, int number, hr_id x) {
  hr__module(b, "tokens");
  hr_id table = hr__parameter(b, "modality_embeddings", hr__desc2(b->dtype, CLASS_TOKEN + 1, width),
                              (hr_init){.rule = HR_INIT_NORMAL, .a = 1});
  x = hr__reshape(b, x, 3, (const int64_t[]){hr__desc_dim(b, x, 0), 1, width});
  return hr__binary(b, HR_FORMULA_add, x, hr__window(b, table, 0, number, 1));
}

/* What was noticed [B, n, 3] is of one kind; the mean of what each comes to is a token without modality. */
static hr_id noticed_token(hr_builder *b, int64_t width, float dropout, hr_id noticed) {
  int64_t samples = hr__desc_dim(b, noticed, 0), count = hr__desc_dim(b, noticed, 1), kind = width / 4;
  hr__module(b, "noticed.kinds");
  hr_id table = hr__table(b, "noticed.kinds", KINDS, kind, 1);
  hr_id of_kind = hr__expand(b, hr__window(b, table, 0, 0, 1), 3, (const int64_t[]){samples, count, kind});
  if (b->status != HR_OK) return HR_NONE;
  hr_id x = hr__concat(b, (hr_id[]){of_kind, noticed}, 2, 2);
  x = hr__stream_linear(b, "noticed", "0", kind + NOTICED, width / 2, x);
  hr__module(b, "noticed.1");
  x = hr__dropped(b, "noticed", dropout, hr__unary(b, HR_FORMULA_relu, x, 0, 0));
  x = hr__stream_linear(b, "noticed", "3", width / 2, width, x);
  hr__module(b, "noticed.mean");
  return hr__reduce(b, HR_REDUCE_MEAN, x, 1u << 1);
}

hr_id hr__crossfusion(hr_builder *b, const hr_model_part *part, const hr_fused *from) {
  static const char *const names[] = {"image", "thermal", "motion"};
  const hr_scope *s = &part->scope;
  int64_t width = hr__crossfusion_width(part), layers = hr__scope_int(s, "config.layers");
  int64_t class_width = hr__scope_int(s, "config.class_width"), classes = hr__scope_int(s, "config.classes");
  int64_t inner = hr__scope_has(s, "config.mlp") ? hr__scope_int(s, "config.mlp") : 4 * width;
  float dropout = (float)hr__scope_float(s, "config.dropout");
  hr_id tokens[CLASS_TOKEN + 2];
  int count = 0;
  for (int i = 0; i < HR_MODALITIES; i++) {
    char key[PATH];
    if (from->embedding[i] == HR_NONE) continue;
    snprintf(key, sizeof key, "config.%s", names[i]);
    int64_t in = hr__scope_int(s, key);
    hr__module(b, "projection.%s", names[i]);
    hr_id x = hr__window(b, from->embedding[i], 1, 0, in);
    tokens[count++] = token(b, width, i, hr__stream_linear(b, "projection", names[i], in, width, x));
  }
  hr__module(b, "classes");
  hr_id x = hr__embedding(b, from->class_id, hr__table(b, "classes", classes + 1, class_width, 1));
  tokens[count++] = token(b, width, CLASS_TOKEN, hr__stream_linear(b, "projection", "class", class_width, width, x));
  if (from->noticed != HR_NONE) tokens[count++] = noticed_token(b, width, dropout, from->noticed);
  hr__module(b, "tokens");
  x = b->status == HR_OK ? hr__concat(b, tokens, count, 1) : HR_NONE;
  for (int64_t i = 0; i < layers; i++) {
    char path[PATH];
    snprintf(path, sizeof path, "layers.%" PRId64, i);
    hr_stream_layer l = {.path = path,
                         .width = width,
                         .heads = hr__scope_int(s, "config.heads"),
                         .inner = inner,
                         .dropout = dropout,
                         .before = false};
    x = hr__stream_layer(b, s, &l, x);
  }
  hr__module(b, "output");
  x = hr__squeeze(b, hr__reduce(b, HR_REDUCE_MEAN, x, 1u << 1), 1u << 1);
  x = hr__layernorm_module(b, "output.1", width, NORM_EPS, hr__stream_linear(b, "output", "0", width, width, x));
  hr__module(b, "output.2");
  return hr__dropped(b, "output", dropout, hr__gelu(b, x, false));
}

static hr_status crossfusion_check(const hr_model_part *part, hr_error *err) {
  int64_t width = hr__crossfusion_width(part), heads = hr__scope_int(&part->scope, "config.heads");
  if (width % heads == 0 && width % 4 == 0) return HR_OK;
  return hr__scope_fail(&part->scope, "config.heads", "take a divisor of config.width, which is a multiple of 4", err,
                        "a width of %" PRId64 " with %" PRId64 " heads", width, heads);
}

/* x: embeddings of what is seen. */
static hr_id crossfusion_body(hr_builder *b, const hr_model_part *part, hr_id x, const hr_model_batch *batch) {
  hr_fused from = {
      .embedding = {x, HR_NONE, HR_NONE}, .class_id = hr__batch_field(batch, "class_id"), .noticed = HR_NONE};
  return hr__crossfusion(b, part, &from);
}

static const char *const targets[] = {"q_proj", "k_proj", "v_proj", "out_proj", "linear1", "linear2"};

const hr_model hr_model_crossfusion = {.family = "crossfusion",
                                       .keys = {&hr_crossfusion_keys},
                                       .check = crossfusion_check,
                                       .body = crossfusion_body,
                                       .targets = targets,
                                       .n_targets = sizeof targets / sizeof *targets};
