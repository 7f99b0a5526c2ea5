/* The forward pass of decoders. See decoder.h. */
#include "model/decoder.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "model/stack.h"
#include "op/attention.h"
#include "op/embedding.h"
#include "op/head_loss.h"
#include "op/linear.h"
#include "op/rmsnorm.h"
#include "op/swiglu.h"

/* Linear modules of a layer that read the same x: one, or several side by side. */
typedef struct projections {
  const char *part; /* of the layer: "self_attn" */
  int count;
  const char *name[HR_MEMBERS]; /* "q_proj" */
  int64_t rows[HR_MEMBERS];     /* columns of its result */
  int64_t in;
  bool biased;
} projections;

/* Whether they may be one product. */
static bool projections_join(const hr_scope *r, const projections *p) {
  int64_t weights[HR_MEMBERS];
  for (int i = 0; i < p->count; i++)
    weights[i] = p->rows[i] * p->in;
  return hr__stackable(r, weights, p->count) && (!p->biased || hr__stackable(r, p->rows, p->count));
}

/* The parameters of one kind, stacked: "PATH.NAME+NAME.weight", with a column of `in` or without. */
static hr_id projections_declare(hr_builder *b, const projections *p, int64_t layer, const char *kind, int64_t in,
                                 hr_init init) {
  char whole[192], name[HR_MEMBERS][192];
  hr_member members[HR_MEMBERS];
  int64_t rows = 0;
  for (int i = 0; i < p->count; i++) {
    snprintf(name[i], sizeof name[i], "model.layers.%" PRId64 ".%s.%s.%s", layer, p->part, p->name[i], kind);
    members[i] = (hr_member){name[i], p->rows[i], init};
    rows += p->rows[i];
  }
  snprintf(whole, sizeof whole, "%s.%s", hr__module_here(b), kind);
  hr_desc desc = in > 0 ? hr__desc2(b->dtype, rows, in) : hr__desc1(b->dtype, rows);
  return hr__parameter_stacked(b, whole, desc, members, p->count);
}

/* x [B, T, in] -> [B, T, all rows], on top of `add`, by the parameters NAME.weight [rows, in] and, where the family has
 * it, NAME.bias [rows]. */
static hr_id projections_emit(hr_builder *b, const hr_decoder *m, int64_t layer, const projections *p, hr_id x,
                              hr_id add) {
  char joined[128] = "";
  size_t used = 0;
  for (int i = 0; i < p->count; i++)
    used += (size_t)snprintf(joined + used, sizeof joined - used, "%s%s", i ? "+" : "", p->name[i]);
  hr__module(b, "model.layers.%" PRId64 ".%s.%s", layer, p->part, joined);
  hr_id weight = projections_declare(b, p, layer, "weight", p->in, (hr_init){.rule = HR_INIT_NORMAL, .a = m->std});
  hr_id bias = HR_NONE;
  if (p->biased) bias = projections_declare(b, p, layer, "bias", 0, (hr_init){.rule = HR_INIT_ZERO});
  return hr__linear_add(b, x, weight, bias, add);
}

/* One of them by itself. */
static hr_id projection_emit(hr_builder *b, const hr_decoder *m, int64_t layer, const projections *p, int i, hr_id x) {
  projections one = {.part = p->part, .count = 1, .in = p->in, .biased = p->biased};
  one.name[0] = p->name[i];
  one.rows[0] = p->rows[i];
  return projections_emit(b, m, layer, &one, x, HR_NONE);
}

/* Over `width` columns at a time: the residual stream's, or a head's. */
static hr_id norm(hr_builder *b, const hr_decoder *m, const char *path, int64_t width, hr_id x) {
  char name[160];
  hr__module(b, "%s", path);
  snprintf(name, sizeof name, "%s.weight", path);
  hr_id weight = hr__parameter(b, name, hr__desc1(b->dtype, width), (hr_init){.rule = HR_INIT_ONE});
  return hr__rmsnorm(b, x, weight, m->eps);
}

static const char *layer_path(char out[128], int64_t layer, const char *part) {
  snprintf(out, 128, "model.layers.%" PRId64 ".%s", layer, part);
  return out;
}

/* q or k by itself, its heads normed where the family does that, and turned by their positions. */
static hr_id turned_emit(hr_builder *b, const hr_decoder *m, int64_t layer, const projections *p, int i, hr_id x,
                         hr_id table_id) {
  static const char *const norms[] = {"self_attn.q_norm", "self_attn.k_norm"};
  char path[128];
  hr_id y = projection_emit(b, m, layer, p, i, x);
  if (m->family->head_norms) y = norm(b, m, layer_path(path, layer, norms[i]), m->head_dim, y);
  return hr__rope(b, y, table_id, m->head_dim);
}

/* A window that reaches over the whole sample is none. */
static int64_t window_of(const hr_decoder *m, int64_t layer, int64_t length) {
  int64_t window = hr__decoder_window(m, layer);
  return window < length ? window : 0;
}

/* x + attention(norm(x)), [B, T, H]. */
static hr_id attention_half(hr_builder *b, const hr_scope *r, const hr_decoder *m, int64_t layer, int64_t length,
                            hr_id x, hr_id table_id) {
  char path[128];
  int64_t q_width = m->heads * m->head_dim, kv_width = m->kv_heads * m->head_dim;
  projections in = {.part = "self_attn",
                    .count = 3,
                    .name = {"q_proj", "k_proj", "v_proj"},
                    .rows = {q_width, kv_width, kv_width},
                    .in = m->hidden,
                    .biased = m->input_biases};
  projections out = {.part = "self_attn",
                     .count = 1,
                     .name = {"o_proj"},
                     .rows = {m->hidden},
                     .in = q_width,
                     .biased = m->output_bias};
  hr_id y = norm(b, m, layer_path(path, layer, "input_layernorm"), m->hidden, x), q, k = HR_NONE, v = HR_NONE;
  if (!m->family->head_norms && projections_join(r, &in)) { /* q, k and v side by side */
    q = projections_emit(b, m, layer, &in, y, HR_NONE);
    q = hr__rope_heads(b, q, table_id, m->head_dim, m->heads + m->kv_heads);
  } else {
    q = turned_emit(b, m, layer, &in, 0, y, table_id);
    k = turned_emit(b, m, layer, &in, 1, y, table_id);
    v = projection_emit(b, m, layer, &in, 2, y);
  }
  hr__module(b, "%s", layer_path(path, layer, "self_attn"));
  float scale = (float)(1.0 / sqrt((double)m->head_dim));
  hr_attention_args args = {.heads = m->heads,
                            .kv_heads = m->kv_heads,
                            .head_dim = m->head_dim,
                            .scale = scale,
                            .window = window_of(m, layer, length)};
  y = hr__attention(b, q, k, v, HR_NONE, &args);
  return projections_emit(b, m, layer, &out, y, x);
}

/* x + mlp(norm(x)), [B, T, H]. */
static hr_id mlp_half(hr_builder *b, const hr_scope *r, const hr_decoder *m, int64_t layer, hr_id x) {
  char path[128];
  projections in = {.part = "mlp",
                    .count = 2,
                    .name = {"gate_proj", "up_proj"},
                    .rows = {m->inner, m->inner},
                    .in = m->hidden,
                    .biased = m->mlp_bias};
  projections out = {
      .part = "mlp", .count = 1, .name = {"down_proj"}, .rows = {m->hidden}, .in = m->inner, .biased = m->mlp_bias};
  hr_id y = norm(b, m, layer_path(path, layer, "post_attention_layernorm"), m->hidden, x), gate, up = HR_NONE;
  if (projections_join(r, &in)) { /* gate and up side by side */
    gate = projections_emit(b, m, layer, &in, y, HR_NONE);
  } else {
    gate = projection_emit(b, m, layer, &in, 0, y);
    up = projection_emit(b, m, layer, &in, 1, y);
  }
  hr__module(b, "%s", layer_path(path, layer, "mlp"));
  return projections_emit(b, m, layer, &out, hr__swiglu(b, gate, up), x);
}

static hr_id table(hr_builder *b, const hr_decoder *m, const char *name) {
  return hr__parameter(b, name, hr__desc2(b->dtype, m->vocab, m->hidden),
                       (hr_init){.rule = HR_INIT_NORMAL, .a = m->std});
}

hr_id hr__decoder_embed(hr_builder *b, const hr_model_part *part, const hr_model_batch *batch) {
  hr_decoder m = hr__decoder_read(&part->scope);
  hr__module(b, "model.embed_tokens");
  return hr__embedding(b, batch->tokens, table(b, &m, "model.embed_tokens.weight"));
}

hr_id hr__decoder_body(hr_builder *b, const hr_model_part *part, hr_id x, const hr_model_batch *batch) {
  const hr_scope *r = &part->scope;
  hr_decoder m = hr__decoder_read(r);
  hr_rope_table_args rope = hr__rope_args(r, &m, batch->length);
  hr__module(b, "model.rotary_emb");
  hr_id table_id = hr__rope_table(b, &rope);
  for (int64_t layer = 0; layer < m.layers; layer++) {
    hr__block_begin(b, "model.layers.%" PRId64, layer);
    hr__block_begin(b, "model.layers.%" PRId64 ".self_attn", layer);
    x = attention_half(b, r, &m, layer, batch->length, x, table_id);
    hr__block_end(b);
    hr__block_begin(b, "model.layers.%" PRId64 ".mlp", layer);
    x = mlp_half(b, r, &m, layer, x);
    hr__block_end(b);
    hr__block_end(b);
  }
  return norm(b, &m, "model.norm", m.hidden, x);
}

hr_id hr__decoder_loss(hr_builder *b, const hr_model_part *part, hr_id hidden, const hr_model_batch *batch) {
  hr_decoder m = hr__decoder_read(&part->scope);
  hr__module(b, "lm_head");
  hr_id head = table(b, &m, m.tied ? "model.embed_tokens.weight" : "lm_head.weight");
  return hr__head_loss(b, hidden, head, batch->targets);
}
