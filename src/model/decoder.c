/* The forward pass of decoders. See decoder.h. */
#include "model/decoder.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/half.h"
#include "model/modules.h"
#include "model/text_keys.h"
#include "op/add.h"
#include "op/embedding.h"
#include "op/head_loss.h"
#include "op/linear.h"
#include "op/pointwise.h"
#include "op/swiglu.h"

enum { PATH = 128 };

static const char *layer_path(char out[PATH], int64_t layer, const char *part) {
  snprintf(out, PATH, "model.layers.%" PRId64 ".%s", layer, part);
  return out;
}

static hr_id norm_emit(hr_builder *b, const hr_decoder *m, const char *path, int64_t width, hr_id x) {
  return m->family->raised_norms ? hr__rmsnorm_raised_module(b, path, width, m->eps, x)
                                 : hr__rmsnorm_module(b, path, width, m->eps, x);
}

/* x + out(y), or x + norm(out(y)), [B, T, H]. */
static hr_id added(hr_builder *b, const hr_decoder *m, int64_t layer, const hr_linears *out, hr_id y, const char *norm,
                   hr_id x) {
  char path[PATH];
  if (!m->family->outer_norms) return hr__linears(b, out, y, x);
  y = hr__linears(b, out, y, HR_NONE);
  return hr__add(b, x, norm_emit(b, m, layer_path(path, layer, norm), m->hidden, y), 1.0f);
}

/* q or k by itself, its heads normed where the family does that, and rotated by their positions. */
static hr_id turned_emit(hr_builder *b, const hr_decoder *m, int64_t layer, const hr_linears *in, int i, hr_id x,
                         hr_id table_id) {
  static const char *const norms[] = {"self_attn.q_norm", "self_attn.k_norm"};
  char path[PATH];
  hr_id y = hr__linears_one(b, in, i, x);
  if (m->family->head_norms) y = norm_emit(b, m, layer_path(path, layer, norms[i]), m->head_dim, y);
  return hr__rope(b, y, table_id, m->head_dim);
}

/* A window that reaches over all positions is none. */
static int64_t window_of(const hr_decoder *m, int64_t layer, int64_t length) {
  int64_t window = hr__decoder_window(m, layer);
  return window < length ? window : 0;
}

/* x + attention(norm(x)), what is added perhaps normed, [B, T, H]. Documents that are packed into one row are rotated
 * by their positions in the row: what attention sees of a rotation is the distance of two positions, which is the same
 * as in the document alone. */
static hr_id attention_half(hr_builder *b, const hr_scope *r, const hr_decoder *m, int64_t layer,
                            const hr_model_batch *batch, hr_id x, hr_id table_id) {
  char before[PATH], path[PATH];
  int64_t q_width = m->heads * m->head_dim, kv_width = m->kv_heads * m->head_dim;
  layer_path(path, layer, "self_attn");
  hr_linears in = {.path = path,
                   .count = 3,
                   .name = {"q_proj", "k_proj", "v_proj"},
                   .rows = {q_width, kv_width, kv_width},
                   .in = m->hidden,
                   .biased = m->input_biases,
                   .std = m->std};
  hr_linears out = {.path = path,
                    .count = 1,
                    .name = {"o_proj"},
                    .rows = {m->hidden},
                    .in = q_width,
                    .biased = m->output_bias,
                    .std = m->std};
  hr_id y = norm_emit(b, m, layer_path(before, layer, "input_layernorm"), m->hidden, x);
  hr_id q, k = HR_NONE, v = HR_NONE;
  if (!m->family->head_norms && hr__linears_join(r, &in)) { /* q, k and v side by side */
    q = hr__linears(b, &in, y, HR_NONE);
    q = hr__rope_heads(b, q, table_id, m->head_dim, m->heads + m->kv_heads);
  } else {
    q = turned_emit(b, m, layer, &in, 0, y, table_id);
    k = turned_emit(b, m, layer, &in, 1, y, table_id);
    v = hr__linears_one(b, &in, 2, y);
  }
  hr_attention_args args = {.heads = m->heads,
                            .kv_heads = m->kv_heads,
                            .head_dim = m->head_dim,
                            .scale = m->attention_scale,
                            .window = window_of(m, layer, batch->context > 0 ? batch->context : batch->length),
                            .documents = batch->starts != HR_NONE,
                            .dropout = hr__drops(b, m->attention_dropout) ? m->attention_dropout : 0.0f};
  y = hr__attention_module(b, path, q, k, v, batch, &args);
  return added(b, m, layer, &out, y, "post_attention_layernorm", x);
}

/* x + mlp(norm(x)), what is added perhaps normed, [B, T, H]. */
static hr_id mlp_half(hr_builder *b, const hr_scope *r, const hr_decoder *m, int64_t layer, hr_id x) {
  char before[PATH], path[PATH];
  layer_path(path, layer, "mlp");
  hr_linears in = {.path = path,
                   .count = 2,
                   .name = {"gate_proj", "up_proj"},
                   .rows = {m->inner, m->inner},
                   .in = m->hidden,
                   .biased = m->mlp_bias,
                   .std = m->std};
  hr_linears out = {.path = path,
                    .count = 1,
                    .name = {"down_proj"},
                    .rows = {m->hidden},
                    .in = m->inner,
                    .biased = m->mlp_bias,
                    .std = m->std};
  const char *norm = m->family->outer_norms ? "pre_feedforward_layernorm" : "post_attention_layernorm";
  hr_id y = norm_emit(b, m, layer_path(before, layer, norm), m->hidden, x);
  hr_id gate, up = HR_NONE;
  if (hr__linears_join(r, &in)) { /* gate and up side by side */
    gate = hr__linears(b, &in, y, HR_NONE);
  } else {
    gate = hr__linears_one(b, &in, 0, y);
    up = hr__linears_one(b, &in, 1, y);
  }
  hr__module(b, "%s", path);
  y = m->family->gelu ? hr__geglu(b, gate, up) : hr__swiglu(b, gate, up);
  return added(b, m, layer, &out, y, "post_feedforward_layernorm", x);
}

/* sqrt(hidden) in the type that the embedding is stored in, as the public models have it. */
static float embedding_scale(const hr_scope *r, const hr_decoder *m) {
  float scale = (float)sqrt((double)m->hidden);
  return strcmp(hr__scope_precision(r), "bf16-true") == 0 ? hr__bf16_to_f32(hr__f32_to_bf16(scale)) : scale;
}

hr_id hr__decoder_embed(hr_builder *b, const hr_model_part *part, const hr_model_batch *batch) {
  hr_decoder m = hr__decoder_read(&part->scope);
  hr__module(b, "model.embed_tokens");
  hr_id table_id = hr__table(b, "model.embed_tokens", m.vocab, m.hidden, m.std);
  hr_id x = hr__embedding_padded(b, batch->tokens, table_id, hr__padding_token(&part->scope));
  if (!m.family->scaled_embedding) return x;
  return hr__unary(b, HR_FORMULA_affine, x, embedding_scale(&part->scope, &m), 0.0f);
}

hr_id hr__decoder_body(hr_builder *b, const hr_model_part *part, hr_id x, const hr_model_batch *batch) {
  const hr_scope *r = &part->scope;
  hr_decoder m = hr__decoder_read(r);
  hr_rope_table_args rope = hr__rope_args(r, &m, batch->length);
  hr__module(b, "model.rotary_emb");
  hr_id positions = batch->context > 0 ? batch->positions : HR_NONE;
  hr_id table_id = hr__rope_table(b, positions, &rope), local_id = table_id;
  if (m.family->local_rope) {
    hr_rope_table_args local = hr__rope_local_args(&m, batch->length);
    local_id = hr__rope_table(b, positions, &local);
  }
  for (int64_t layer = 0; layer < m.layers; layer++) {
    hr__block_begin(b, "model.layers.%" PRId64, layer);
    hr__block_begin(b, "model.layers.%" PRId64 ".self_attn", layer);
    x = attention_half(b, r, &m, layer, batch, x, hr__decoder_slides(&m, layer) ? local_id : table_id);
    hr__block_end(b);
    hr__block_begin(b, "model.layers.%" PRId64 ".mlp", layer);
    x = mlp_half(b, r, &m, layer, x);
    hr__block_end(b);
    hr__block_end(b);
  }
  return norm_emit(b, &m, "model.norm", m.hidden, x);
}

static hr_id head_declare(hr_builder *b, const hr_model_part *part) {
  hr_decoder m = hr__decoder_read(&part->scope);
  hr__module(b, "lm_head");
  return hr__table(b, m.tied ? "model.embed_tokens" : "lm_head", m.vocab, m.hidden, m.std);
}

hr_id hr__decoder_loss(hr_builder *b, const hr_model_part *part, hr_id hidden, const hr_model_batch *batch) {
  return hr__head_loss(b, hidden, head_declare(b, part), batch->targets);
}

hr_id hr__decoder_logits(hr_builder *b, const hr_model_part *part, hr_id hidden) {
  return hr__linear(b, hidden, head_declare(b, part), HR_NONE);
}
