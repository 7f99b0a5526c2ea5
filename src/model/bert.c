/* BERT with its head for masked tokens: embeddings of token, position and type 0, layers of attention to both sides and
 * of an MLP with gelu, each followed by a LayerNorm, and a head that shares the embedding's weight.
 *
 * Settings and parameter names are those of the public checkpoints (config.json, model.safetensors). Shapes in
 * comments: B batch, T length, H hidden, I intermediate, V vocabulary. Pooler and next-sentence head, which some
 * checkpoints hold, are not part of it.
 */
#include "model/bert.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model/stack.h"
#include "model/text_keys.h"
#include "op/add.h"
#include "op/add_rows.h"
#include "op/attention.h"
#include "op/dropout.h"
#include "op/embedding.h"
#include "op/gelu.h"
#include "op/head_loss.h"
#include "op/layernorm.h"
#include "op/linear.h"

enum { NAME = 192 };

/* A linear module, or several side by side that read the same x: "PATH.NAME+NAME". */
typedef struct dense {
  const char *path;
  const char *name[HR_MEMBERS];
  int count;
  int64_t in, rows; /* rows: of each */
} dense;

static hr_id dense_parameter(hr_builder *b, const dense *d, const char *kind, int64_t in, hr_init init) {
  char whole[2 * NAME], name[HR_MEMBERS][NAME];
  hr_member members[HR_MEMBERS];
  for (int i = 0; i < d->count; i++) {
    snprintf(name[i], sizeof name[i], "%s.%s.%s", d->path, d->name[i], kind);
    members[i] = (hr_member){name[i], d->rows, init};
  }
  snprintf(whole, sizeof whole, "%s.%s", hr__module_here(b), kind);
  int64_t rows = d->count * d->rows;
  hr_desc desc = in > 0 ? hr__desc2(b->dtype, rows, in) : hr__desc1(b->dtype, rows);
  return hr__parameter_stacked(b, whole, desc, members, d->count);
}

/* x [B, T, in] -> [B, T, all rows], on top of `add` (or HR_NONE). */
static hr_id dense_emit(hr_builder *b, const hr_bert *m, const dense *d, hr_id x, hr_id add) {
  char joined[NAME] = "";
  size_t used = 0;
  for (int i = 0; i < d->count; i++)
    used += (size_t)snprintf(joined + used, sizeof joined - used, "%s%s", i ? "+" : "", d->name[i]);
  hr__module(b, "%s.%s", d->path, joined);
  hr_id weight = dense_parameter(b, d, "weight", d->in, (hr_init){.rule = HR_INIT_NORMAL, .a = m->std});
  hr_id bias = dense_parameter(b, d, "bias", 0, (hr_init){.rule = HR_INIT_ZERO});
  return hr__linear_add(b, x, weight, bias, add);
}

static hr_id norm(hr_builder *b, const hr_bert *m, const char *path, hr_id x) {
  char name[2][NAME];
  hr__module(b, "%s.LayerNorm", path);
  snprintf(name[0], NAME, "%s.LayerNorm.weight", path);
  snprintf(name[1], NAME, "%s.LayerNorm.bias", path);
  hr_desc desc = hr__desc1(b->dtype, m->hidden);
  hr_id weight = hr__parameter(b, name[0], desc, (hr_init){.rule = HR_INIT_ONE});
  hr_id bias = hr__parameter(b, name[1], desc, (hr_init){.rule = HR_INIT_ZERO});
  return hr__layernorm(b, x, weight, bias, m->eps);
}

/* Programs that only evaluate do not drop. */
static bool drops(const hr_builder *b, const hr_bert *m) {
  return m->dropout > 0 && hr__program_kind_trains(b->graph->programs[b->program].key.kind);
}

static hr_id dropped(hr_builder *b, const hr_bert *m, const char *path, hr_id x) {
  if (b->status != HR_OK || !drops(b, m)) return x;
  hr__module(b, "%s.dropout", path);
  return hr__dropout(b, x, m->dropout);
}

/* LayerNorm(x + dropout(dense(y))), [B, T, H]: the end of each half of a layer. */
static hr_id half_end(hr_builder *b, const hr_bert *m, const char *path, int64_t in, hr_id y, hr_id x) {
  dense out = {.path = path, .name = {"dense"}, .count = 1, .in = in, .rows = m->hidden};
  if (b->status == HR_OK && drops(b, m))
    y = hr__add(b, dropped(b, m, path, dense_emit(b, m, &out, y, HR_NONE)), x, 1.0f);
  else
    y = dense_emit(b, m, &out, y, x);
  return norm(b, m, path, y);
}

/* Query, key and value by one product where the recipe cannot tell them apart (model/stack.h). */
static hr_id attention_half(hr_builder *b, const hr_scope *r, const hr_bert *m, const char *layer, hr_id x,
                            hr_id lengths) {
  char path[NAME], out[NAME];
  snprintf(path, sizeof path, "%s.attention.self", layer);
  snprintf(out, sizeof out, "%s.attention.output", layer);
  dense in = {.path = path, .name = {"query", "key", "value"}, .count = 3, .in = m->hidden, .rows = m->hidden};
  const int64_t weights[] = {m->hidden * m->hidden, m->hidden * m->hidden, m->hidden * m->hidden};
  const int64_t biases[] = {m->hidden, m->hidden, m->hidden};
  hr_id part[3] = {HR_NONE, HR_NONE, HR_NONE};
  if (hr__stackable(r, weights, 3) && hr__stackable(r, biases, 3)) {
    part[0] = dense_emit(b, m, &in, x, HR_NONE);
  } else {
    for (int i = 0; i < 3; i++) {
      dense one = {.path = path, .name = {in.name[i]}, .count = 1, .in = in.in, .rows = in.rows};
      part[i] = dense_emit(b, m, &one, x, HR_NONE);
    }
  }
  hr__module(b, "%s", path);
  int64_t head_dim = m->hidden / m->heads;
  hr_attention_args args = {.heads = m->heads,
                            .kv_heads = m->heads,
                            .head_dim = head_dim,
                            .scale = (float)(1.0 / sqrt((double)head_dim)),
                            .bidirectional = true};
  return half_end(b, m, out, m->hidden, hr__attention(b, part[0], part[1], part[2], lengths, &args), x);
}

static hr_id mlp_half(hr_builder *b, const hr_bert *m, const char *layer, hr_id x) {
  char path[NAME], out[NAME];
  snprintf(path, sizeof path, "%s.intermediate", layer);
  snprintf(out, sizeof out, "%s.output", layer);
  dense in = {.path = path, .name = {"dense"}, .count = 1, .in = m->hidden, .rows = m->inner};
  hr_id y = dense_emit(b, m, &in, x, HR_NONE);
  hr__module(b, "%s", path);
  return half_end(b, m, out, m->inner, hr__gelu(b, y, m->tanh), x);
}

/* A table of embeddings, named as in the checkpoints. */
static hr_id table_declare(hr_builder *b, const hr_bert *m, const char *name, int64_t rows) {
  char whole[NAME];
  hr__module(b, "bert.embeddings.%s", name);
  snprintf(whole, sizeof whole, "bert.embeddings.%s.weight", name);
  return hr__parameter(b, whole, hr__desc2(b->dtype, rows, m->hidden), (hr_init){.rule = HR_INIT_NORMAL, .a = m->std});
}

/* tokens -> [B, T, H] */
static hr_id bert_embed(hr_builder *b, const hr_model_part *part, const hr_model_batch *batch) {
  hr_bert bert = hr__bert_read(&part->scope), *m = &bert;
  hr_id words = table_declare(b, m, "word_embeddings", m->vocab);
  hr_id x = hr__embedding(b, batch->tokens, words);
  hr_id types = table_declare(b, m, "token_type_embeddings", m->types);
  x = hr__add_rows(b, x, types, 1); /* all tokens are of type 0 */
  hr_id positions = table_declare(b, m, "position_embeddings", m->positions);
  x = hr__add_rows(b, x, positions, batch->length);
  return dropped(b, m, "bert.embeddings", norm(b, m, "bert.embeddings", x));
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
  return x;
}

static hr_id bert_loss(hr_builder *b, const hr_model_part *part, hr_id x, const hr_model_batch *batch) {
  static const char path[] = "cls.predictions.transform";
  hr_bert bert = hr__bert_read(&part->scope), *m = &bert;
  dense transform = {.path = path, .name = {"dense"}, .count = 1, .in = m->hidden, .rows = m->hidden};
  x = dense_emit(b, m, &transform, x, HR_NONE);
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
    .leaves = hr__bert_leaves,
    .other_name = hr__bert_other_name,
};
