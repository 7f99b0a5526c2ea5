/* BERT with its head for masked tokens: embeddings of token, position and type 0, layers of attention to both sides and
 * of an MLP with gelu, each followed by a LayerNorm, and a head that shares the embedding's weight.
 *
 * Settings and parameter names are those of the public checkpoints (config.json, model.safetensors). Shapes in
 * comments: B batch, T length, H hidden, I intermediate, V vocabulary. The next-sentence head, which some checkpoints
 * hold, is not part of it, nor is the pooler unless it is asked for.
 */
#include "model/bert.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model/modules.h"
#include "model/text_keys.h"
#include "op/add.h"
#include "op/add_rows.h"
#include "op/attention.h"
#include "op/embedding.h"
#include "op/gelu.h"
#include "op/head_loss.h"
#include "op/pointwise.h"

enum { NAME = 192 };

/* "PATH.dense", x [B, T, in] -> [B, T, rows]. */
static hr_linears dense(const hr_bert *m, const char *path, int64_t in, int64_t rows) {
  return (hr_linears){
      .path = path, .count = 1, .name = {"dense"}, .rows = {rows}, .in = in, .biased = true, .std = m->std};
}

static hr_id norm(hr_builder *b, const hr_bert *m, const char *path, hr_id x) {
  char name[NAME];
  snprintf(name, sizeof name, "%s.LayerNorm", path);
  return hr__layernorm_module(b, name, m->hidden, m->eps, x);
}

/* LayerNorm(x + dropout(dense(y))), [B, T, H]: the end of each half of a layer. */
static hr_id half_end(hr_builder *b, const hr_bert *m, const char *path, int64_t in, hr_id y, hr_id x) {
  hr_linears out = dense(m, path, in, m->hidden);
  if (hr__drops(b, m->dropout))
    y = hr__add(b, hr__dropped(b, path, m->dropout, hr__linears(b, &out, y, HR_NONE)), x, 1.0f);
  else
    y = hr__linears(b, &out, y, x);
  return norm(b, m, path, y);
}

/* Query, key and value by one product where the recipe cannot tell them apart (model/stack.h). */
static hr_id attention_half(hr_builder *b, const hr_scope *r, const hr_bert *m, const char *layer, hr_id x,
                            hr_id lengths) {
  char path[NAME], out[NAME];
  snprintf(path, sizeof path, "%s.attention.self", layer);
  snprintf(out, sizeof out, "%s.attention.output", layer);
  hr_linears in = {.path = path,
                   .count = 3,
                   .name = {"query", "key", "value"},
                   .rows = {m->hidden, m->hidden, m->hidden},
                   .in = m->hidden,
                   .biased = true,
                   .std = m->std};
  hr_id part[3] = {HR_NONE, HR_NONE, HR_NONE};
  if (hr__linears_join(r, &in))
    part[0] = hr__linears(b, &in, x, HR_NONE);
  else
    for (int i = 0; i < 3; i++)
      part[i] = hr__linears_one(b, &in, i, x);
  hr__module(b, "%s", path);
  int64_t head_dim = m->hidden / m->heads;
  hr_attention_args args = {.heads = m->heads,
                            .kv_heads = m->heads,
                            .head_dim = head_dim,
                            .scale = (float)(1.0 / sqrt((double)head_dim)),
                            .bidirectional = true,
                            .dropout = hr__drops(b, m->attention_dropout) ? m->attention_dropout : 0.0f};
  return half_end(b, m, out, m->hidden, hr__attention(b, part[0], part[1], part[2], lengths, &args), x);
}

static hr_id mlp_half(hr_builder *b, const hr_bert *m, const char *layer, hr_id x) {
  char path[NAME], out[NAME];
  snprintf(path, sizeof path, "%s.intermediate", layer);
  snprintf(out, sizeof out, "%s.output", layer);
  hr_linears in = dense(m, path, m->hidden, m->inner);
  hr_id y = hr__linears(b, &in, x, HR_NONE);
  hr__module(b, "%s", path);
  return half_end(b, m, out, m->inner, hr__gelu(b, y, m->tanh), x);
}

/* A table of embeddings, named as in the checkpoints. */
static hr_id table_declare(hr_builder *b, const hr_bert *m, const char *name, int64_t rows) {
  char path[NAME];
  snprintf(path, sizeof path, "bert.embeddings.%s", name);
  hr__module(b, "%s", path);
  return hr__table(b, path, rows, m->hidden, m->std);
}

/* tokens -> [B, T, H] */
static hr_id bert_embed(hr_builder *b, const hr_model_part *part, const hr_model_batch *batch) {
  hr_bert bert = hr__bert_read(&part->scope), *m = &bert;
  hr_id words = table_declare(b, m, "word_embeddings", m->vocab);
  hr_id x = hr__embedding_padded(b, batch->tokens, words, hr__padding_token(&part->scope));
  hr_id types = table_declare(b, m, "token_type_embeddings", m->types);
  x = hr__add_rows(b, x, types, 1); /* all tokens are of type 0 */
  hr_id positions = table_declare(b, m, "position_embeddings", m->positions);
  x = hr__add_rows(b, x, positions, batch->length);
  return hr__dropped(b, "bert.embeddings", m->dropout, norm(b, m, "bert.embeddings", x));
}

static hr_id bert_body(hr_builder *b, const hr_model_part *part, hr_id x, const hr_model_batch *batch) {
  const hr_scope *r = &part->scope;
  hr_bert m = hr__bert_read(r);
  char layer[NAME / 2];
  for (int64_t i = 0; i < m.layers; i++) {
    snprintf(layer, sizeof layer, "bert.encoder.layer.%" PRId64, i);
    hr__block_begin(b, "%s", layer);
    hr__block_begin(b, "%s.attention", layer);
    x = attention_half(b, r, &m, layer, x, batch->lengths);
    hr__block_end(b);
    hr__block_begin(b, "%s.mlp", layer);
    x = mlp_half(b, &m, layer, x);
    hr__block_end(b);
    hr__block_end(b);
  }
  if (m.pooler) { /* of the first token of each text; the pass `prune` drops it, and its weights stay */
    hr_linears pooler = dense(&m, "bert.pooler", m.hidden, m.hidden);
    hr__module(b, "bert.pooler");
    hr__linears(b, &pooler, hr__squeeze(b, hr__window(b, x, 1, 0, 1), 1u << 1), HR_NONE);
  }
  return x;
}

static hr_id bert_loss(hr_builder *b, const hr_model_part *part, hr_id x, const hr_model_batch *batch) {
  static const char path[] = "cls.predictions.transform";
  hr_bert bert = hr__bert_read(&part->scope), *m = &bert;
  hr_linears transform = dense(m, path, m->hidden, m->hidden);
  x = hr__linears(b, &transform, x, HR_NONE);
  hr__module(b, "%s", path);
  x = norm(b, m, path, hr__gelu(b, x, m->tanh));
  hr_id words = table_declare(b, m, "word_embeddings", m->vocab);
  hr__module(b, "cls.predictions.decoder");
  hr_id bias = hr__parameter(b, "cls.predictions.bias", hr__desc1(b->dtype, m->vocab), (hr_init){.rule = HR_INIT_ZERO});
  return hr__head_loss_biased(b, x, words, bias, batch->targets);
}

static int64_t bert_vocabulary(const hr_model_part *part) {
  return hr__scope_int(&part->scope, "config.vocab_size");
}

static const char *const targets[] = {"query", "key", "value", "dense"};

const hr_model hr_model_bert = {
    .family = "bert",
    .keys = {&hr_text_keys, &hr_bert_keys},
    .defaults = hr_bert_defaults,
    .task = "ForMaskedLM",
    .other_task = "ForPreTraining", /* with a head for the next sentence, which is left */
    .masked = true,
    .targets = targets,
    .n_targets = sizeof targets / sizeof *targets,
    .check = hr__bert_check,
    .embed = bert_embed,
    .body = bert_body,
    .loss = bert_loss,
    .forward = hr__model_forward,
    .vocabulary = bert_vocabulary,
    .config_json = hr__bert_json,
    .unused = hr__bert_unused,
    .body_name = "bert.",
    .other_name = hr__bert_other_name,
    .torch = hr__bert_torch,
};
