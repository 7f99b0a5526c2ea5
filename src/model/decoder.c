/* The forward pass of decoders. See decoder.h. */
#include "model/decoder.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "model/modules.h"
#include "model/text_keys.h"
#include "op/embedding.h"
#include "op/head_loss.h"
#include "op/linear.h"
#include "op/swiglu.h"

enum { PATH = 128 };

static const char *layer_path(char out[PATH], int64_t layer, const char *part) {
  snprintf(out, PATH, "model.layers.%" PRId64 ".%s", layer, part);
  return out;
}

/* q or k by itself, its heads normed where the family does that, and rotated by their positions. */
static hr_id turned_emit(hr_builder *b, const hr_decoder *m, int64_t layer, const hr_linears *in, int i, hr_id x,
                         hr_id table_id) {
  static const char *const norms[] = {"self_attn.q_norm", "self_attn.k_norm"};
  char path[PATH];
  hr_id y = hr__linears_one(b, in, i, x);
  if (m->family->head_norms) y = hr__rmsnorm_module(b, layer_path(path, layer, norms[i]), m->head_dim, m->eps, y);
  return hr__rope(b, y, table_id, m->head_dim);
}

/* A window that reaches over all positions is none. */
static int64_t window_of(const hr_decoder *m, int64_t layer, int64_t length) {
  int64_t window = hr__decoder_window(m, layer);
  return window < length ? window : 0;
}

/* x + attention(norm(x)), [B, T, H]. Documents that are packed into one row are rotated by their positions in the row:
 * what attention sees of a rotation is the distance of two positions, which is the same as in the document alone. */
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
  hr_id y = hr__rmsnorm_module(b, layer_path(before, layer, "input_layernorm"), m->hidden, m->eps, x);
  hr_id q, k = HR_NONE, v = HR_NONE;
  if (!m->family->head_norms && hr__linears_join(r, &in)) { /* q, k and v side by side */
    q = hr__linears(b, &in, y, HR_NONE);
    q = hr__rope_heads(b, q, table_id, m->head_dim, m->heads + m->kv_heads);
  } else {
    q = turned_emit(b, m, layer, &in, 0, y, table_id);
    k = turned_emit(b, m, layer, &in, 1, y, table_id);
    v = hr__linears_one(b, &in, 2, y);
  }
  float scale = (float)(1.0 / sqrt((double)m->head_dim));
  hr_attention_args args = {.heads = m->heads,
                            .kv_heads = m->kv_heads,
                            .head_dim = m->head_dim,
                            .scale = scale,
                            .window = window_of(m, layer, batch->context > 0 ? batch->context : batch->length),
                            .documents = batch->starts != HR_NONE,
                            .dropout = hr__drops(b, m->attention_dropout) ? m->attention_dropout : 0.0f};
  return hr__linears(b, &out, hr__attention_module(b, path, q, k, v, batch, &args), x);
}

/* x + mlp(norm(x)), [B, T, H]. */
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
  hr_id y = hr__rmsnorm_module(b, layer_path(before, layer, "post_attention_layernorm"), m->hidden, m->eps, x);
  hr_id gate, up = HR_NONE;
  if (hr__linears_join(r, &in)) { /* gate and up side by side */
    gate = hr__linears(b, &in, y, HR_NONE);
  } else {
    gate = hr__linears_one(b, &in, 0, y);
    up = hr__linears_one(b, &in, 1, y);
  }
  hr__module(b, "%s", path);
  return hr__linears(b, &out, hr__swiglu(b, gate, up), x);
}

hr_id hr__decoder_embed(hr_builder *b, const hr_model_part *part, const hr_model_batch *batch) {
  hr_decoder m = hr__decoder_read(&part->scope);
  hr__module(b, "model.embed_tokens");
  hr_id table_id = hr__table(b, "model.embed_tokens", m.vocab, m.hidden, m.std);
  return hr__embedding_padded(b, batch->tokens, table_id, hr__padding_token(&part->scope));
}

hr_id hr__decoder_body(hr_builder *b, const hr_model_part *part, hr_id x, const hr_model_batch *batch) {
  const hr_scope *r = &part->scope;
  hr_decoder m = hr__decoder_read(r);
  hr_rope_table_args rope = hr__rope_args(r, &m, batch->length);
  hr__module(b, "model.rotary_emb");
  hr_id table_id = hr__rope_table(b, batch->context > 0 ? batch->positions : HR_NONE, &rope);
  for (int64_t layer = 0; layer < m.layers; layer++) {
    hr__block_begin(b, "model.layers.%" PRId64, layer);
    hr__block_begin(b, "model.layers.%" PRId64 ".self_attn", layer);
    x = attention_half(b, r, &m, layer, batch, x, table_id);
    hr__block_end(b);
    hr__block_begin(b, "model.layers.%" PRId64 ".mlp", layer);
    x = mlp_half(b, r, &m, layer, x);
    hr__block_end(b);
    hr__block_end(b);
  }
  return hr__rmsnorm_module(b, "model.norm", m.hidden, m.eps, x);
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
