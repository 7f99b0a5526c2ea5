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

#include "base/checked.h"
#include "format/json.h"
#include "model/model.h"
#include "model/stack.h"
#include "op/add.h"
#include "op/add_rows.h"
#include "op/attention.h"
#include "op/dropout.h"
#include "op/embedding.h"
#include "op/gelu.h"
#include "op/head_loss.h"
#include "op/layernorm.h"
#include "op/linear.h"

#define CONFIG "model.config."

enum { NAME = 192 };

/* Keys that only this family has; what it shares with others is in their table. They have no defaults there, so that
 * recipes of other families have no such settings. */
static const hr_key keys[] = {
    {.path = CONFIG "type_vocab_size",
     .type = HR_KEY_INT,
     .min = 1,
     .max = 1 << 20,
     .meaning = "bert: number of token types, of which type 0 is used (default: 2)"},
    {.path = CONFIG "layer_norm_eps",
     .type = HR_KEY_FLOAT,
     .min = 0,
     .max = 1,
     .meaning = "bert: added to the variance in norms (default: 1e-12)"},
    {.path = CONFIG "hidden_dropout_prob",
     .type = HR_KEY_FLOAT,
     .min = 0,
     .max = 0.99,
     .meaning = "bert: part of embeddings and of the layers' results that is dropped in training (default: 0.1)"},
    {.path = CONFIG "attention_probs_dropout_prob",
     .type = HR_KEY_FLOAT,
     .min = 0,
     .max = 1,
     .meaning = "bert: only 0 is supported (default: 0)"},
    {.path = CONFIG "position_embedding_type",
     .type = HR_KEY_TEXT,
     .meaning = "bert: only absolute is supported (default)"},
    {.path = CONFIG "is_decoder", .type = HR_KEY_BOOL, .meaning = "bert: only false is supported (default)"},
};
static const hr_key_table table = {keys, sizeof keys / sizeof *keys};

/* bert-base, but for dropout inside of attention. */
static const char defaults[] =
    "{vocab_size: 30522, hidden_size: 768, intermediate_size: 3072, num_hidden_layers: 12, num_attention_heads: 12,"
    " max_position_embeddings: 512, hidden_act: gelu, tie_word_embeddings: true, type_vocab_size: 2,"
    " layer_norm_eps: 1e-12, hidden_dropout_prob: 0.1, attention_probs_dropout_prob: 0,"
    " position_embedding_type: absolute, is_decoder: false}";

typedef struct bert {
  int64_t hidden, inner, layers, heads, vocab, positions, types;
  float std, eps, dropout;
  bool tanh;
} bert;

static bert bert_read(const hr_recipe *r) {
  return (bert){
      .hidden = hr__recipe_int(r, CONFIG "hidden_size"),
      .inner = hr__recipe_int(r, CONFIG "intermediate_size"),
      .layers = hr__recipe_int(r, CONFIG "num_hidden_layers"),
      .heads = hr__recipe_int(r, CONFIG "num_attention_heads"),
      .vocab = hr__recipe_int(r, CONFIG "vocab_size"),
      .positions = hr__recipe_int(r, CONFIG "max_position_embeddings"),
      .types = hr__recipe_int(r, CONFIG "type_vocab_size"),
      .std = (float)hr__recipe_float(r, CONFIG "initializer_range"),
      .eps = (float)hr__recipe_float(r, CONFIG "layer_norm_eps"),
      .dropout = (float)hr__recipe_float(r, CONFIG "hidden_dropout_prob"),
      .tanh = strcmp(hr__recipe_text(r, CONFIG "hidden_act"), "gelu") != 0,
  };
}

/* Elements of all parameters; false when they are more than any machine could hold. */
static bool parameter_count(const bert *m, int64_t *count) {
  int64_t attention, mlp, layers, tables; /* each with its biases and norms */
  if (!hr__mul_i64(m->hidden + 1, 4 * m->hidden, &attention)) return false;
  if (!hr__mul_i64(2 * m->hidden + 1, m->inner, &mlp) || !hr__add_i64(attention, mlp, &layers)) return false;
  if (!hr__add_i64(layers, 5 * m->hidden, &layers) || !hr__mul_i64(layers, m->layers, &layers)) return false;
  if (!hr__mul_i64(m->vocab + m->positions + m->types + m->hidden + 5, m->hidden, &tables)) return false;
  if (!hr__add_i64(layers, tables, count) || !hr__add_i64(*count, m->vocab, count)) return false;
  return *count <= HR_PARAMETERS_MAX;
}

/* A null takes a setting of this family away, and the default of the family with it. */
static hr_status values_check(const hr_recipe *r, hr_error *err) {
  for (size_t i = 0; i < table.count; i++)
    if (!hr__recipe_has(r, keys[i].path))
      return hr__recipe_fail(r, keys[i].path, "leave it out instead of writing null: it has a default", err,
                             "%s has no value", keys[i].path);
  return HR_OK;
}

/* Settings of the other families, which a recipe of this one does not give. */
static hr_status keys_check(const hr_recipe *r, hr_error *err) {
  static const char *const other[] = {
      CONFIG "num_key_value_heads", CONFIG "head_dim",           CONFIG "rms_norm_eps",
      CONFIG "attention_bias",      CONFIG "mlp_bias",           CONFIG "attention_dropout",
      CONFIG "sliding_window",      CONFIG "use_sliding_window", CONFIG "max_window_layers",
      CONFIG "layer_types",         CONFIG "rope_theta",         CONFIG "rope_scaling",
      CONFIG "rope_parameters"};
  for (size_t i = 0; i < sizeof other / sizeof *other; i++)
    if (hr__recipe_given(r, other[i]))
      return hr__recipe_fail(r, other[i], "remove it, or name another family", err,
                             "models of the family bert have no %s", other[i]);
  return HR_OK;
}

/* Schemes that change what the model computes and that are not there: better refused than ignored. */
static hr_status schemes_check(const hr_recipe *r, hr_error *err) {
  static const char act[] = CONFIG "hidden_act", attention[] = CONFIG "attention_probs_dropout_prob",
                    positions[] = CONFIG "position_embedding_type", decoder[] = CONFIG "is_decoder",
                    tied[] = CONFIG "tie_word_embeddings";
  if (strncmp(hr__recipe_text(r, act), "gelu", 4) != 0)
    return hr__recipe_fail(r, act, "family bert takes gelu, gelu_new and gelu_pytorch_tanh", err,
                           "bert with %s %s is not supported", act, hr__recipe_text(r, act));
  if (hr__recipe_float(r, attention) > 0)
    return hr__recipe_fail(r, attention, "give --set model.config.attention_probs_dropout_prob=0", err,
                           "%s: dropout inside of attention is not supported, only 0", attention);
  if (strcmp(hr__recipe_text(r, positions), "absolute") != 0)
    return hr__recipe_fail(r, positions, "take a checkpoint with absolute positions", err,
                           "%s \"%.40s\" is not supported", positions, hr__recipe_text(r, positions));
  if (hr__recipe_bool(r, decoder))
    return hr__recipe_fail(r, decoder, "give --set model.config.is_decoder=false", err,
                           "%s: family bert looks to both sides only", decoder);
  if (!hr__recipe_bool(r, tied))
    return hr__recipe_fail(r, tied, "give --set model.config.tie_word_embeddings=true", err,
                           "%s: the head of family bert shares the embedding's weight", tied);
  return HR_OK;
}

static hr_status bert_check(const hr_recipe *r, hr_error *err) {
  static const char length_key[] = "data.sequence_length";
  HR_TRY(values_check(r, err));
  HR_TRY(keys_check(r, err));
  HR_TRY(schemes_check(r, err));
  bert m = bert_read(r);
  if (m.hidden % m.heads != 0)
    return hr__recipe_fail(r, CONFIG "num_attention_heads", "change one of them", err,
                           CONFIG "hidden_size (%" PRId64 ") is no multiple of num_attention_heads (%" PRId64 ")",
                           m.hidden, m.heads);
  if (!hr__recipe_is_word(r, length_key) && hr__recipe_int(r, length_key) > m.positions)
    return hr__recipe_fail(r, length_key, "use shorter sequences: the model has no embeddings of later positions", err,
                           "%s (%" PRId64 ") is longer than the model is made for (max_position_embeddings %" PRId64
                           ")",
                           length_key, hr__recipe_int(r, length_key), m.positions);
  int64_t count;
  if (!parameter_count(&m, &count))
    return hr__recipe_fail(r, CONFIG "hidden_size", "use smaller sizes", err,
                           "the model would have more than %" PRId64 " parameters", HR_PARAMETERS_MAX);
  return HR_OK;
}

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
  snprintf(whole, sizeof whole, "%s.%s", b->module, kind);
  int64_t rows = d->count * d->rows;
  hr_desc desc = in > 0 ? hr__desc2(b->dtype, rows, in) : hr__desc1(b->dtype, rows);
  return hr__parameter_stacked(b, whole, desc, members, d->count);
}

/* x [B, T, in] -> [B, T, all rows], on top of `add` (or HR_NONE). */
static hr_id dense_emit(hr_builder *b, const bert *m, const dense *d, hr_id x, hr_id add) {
  char joined[NAME] = "";
  size_t used = 0;
  for (int i = 0; i < d->count; i++)
    used += (size_t)snprintf(joined + used, sizeof joined - used, "%s%s", i ? "+" : "", d->name[i]);
  hr__module(b, "%s.%s", d->path, joined);
  hr_id weight = dense_parameter(b, d, "weight", d->in, (hr_init){HR_INIT_NORMAL, m->std});
  hr_id bias = dense_parameter(b, d, "bias", 0, (hr_init){.kind = HR_INIT_ZERO});
  return hr__linear_add(b, x, weight, bias, add);
}

static hr_id norm(hr_builder *b, const bert *m, const char *path, hr_id x) {
  char name[2][NAME];
  hr__module(b, "%s.LayerNorm", path);
  snprintf(name[0], NAME, "%s.LayerNorm.weight", path);
  snprintf(name[1], NAME, "%s.LayerNorm.bias", path);
  hr_desc desc = hr__desc1(b->dtype, m->hidden);
  hr_id weight = hr__parameter(b, name[0], desc, (hr_init){.kind = HR_INIT_ONE});
  hr_id bias = hr__parameter(b, name[1], desc, (hr_init){.kind = HR_INIT_ZERO});
  return hr__layernorm(b, x, weight, bias, m->eps);
}

/* Programs that only evaluate do not drop. */
static bool drops(const hr_builder *b, const bert *m) {
  return m->dropout > 0 && strcmp(b->graph->programs[b->program].name, "eval") != 0;
}

static hr_id dropped(hr_builder *b, const bert *m, const char *path, hr_id x) {
  if (b->status != HR_OK || !drops(b, m)) return x;
  hr__module(b, "%s.dropout", path);
  return hr__dropout(b, x, m->dropout);
}

/* LayerNorm(x + dropout(dense(y))), [B, T, H]: the end of each half of a layer. */
static hr_id half_end(hr_builder *b, const bert *m, const char *path, int64_t in, hr_id y, hr_id x) {
  dense out = {.path = path, .name = {"dense"}, .count = 1, .in = in, .rows = m->hidden};
  if (b->status == HR_OK && drops(b, m))
    y = hr__add(b, dropped(b, m, path, dense_emit(b, m, &out, y, HR_NONE)), x, 1.0f);
  else
    y = dense_emit(b, m, &out, y, x);
  return norm(b, m, path, y);
}

/* Query, key and value by one product where the recipe cannot tell them apart (model/stack.h). */
static hr_id attention_half(hr_builder *b, const hr_recipe *r, const bert *m, const char *layer, hr_id x,
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

static hr_id mlp_half(hr_builder *b, const bert *m, const char *layer, hr_id x) {
  char path[NAME], out[NAME];
  snprintf(path, sizeof path, "%s.intermediate", layer);
  snprintf(out, sizeof out, "%s.output", layer);
  dense in = {.path = path, .name = {"dense"}, .count = 1, .in = m->hidden, .rows = m->inner};
  hr_id y = dense_emit(b, m, &in, x, HR_NONE);
  hr__module(b, "%s", path);
  return half_end(b, m, out, m->inner, hr__gelu(b, y, m->tanh), x);
}

/* A table of embeddings, named as in the checkpoints. */
static hr_id table_declare(hr_builder *b, const bert *m, const char *name, int64_t rows) {
  char whole[NAME];
  hr__module(b, "bert.embeddings.%s", name);
  snprintf(whole, sizeof whole, "bert.embeddings.%s.weight", name);
  return hr__parameter(b, whole, hr__desc2(b->dtype, rows, m->hidden), (hr_init){HR_INIT_NORMAL, m->std});
}

/* tokens -> [B, T, H]; *words is the table of the tokens. */
static hr_id embeddings(hr_builder *b, const bert *m, const hr_model_batch *batch, hr_id *words) {
  *words = table_declare(b, m, "word_embeddings", m->vocab);
  hr_id x = hr__embedding(b, batch->tokens, *words);
  hr_id types = table_declare(b, m, "token_type_embeddings", m->types);
  x = hr__add_rows(b, x, types, 1); /* all tokens are of type 0 */
  hr_id positions = table_declare(b, m, "position_embeddings", m->positions);
  x = hr__add_rows(b, x, positions, batch->length);
  return dropped(b, m, "bert.embeddings", norm(b, m, "bert.embeddings", x));
}

static hr_id head(hr_builder *b, const bert *m, hr_id x, hr_id words, hr_id targets) {
  static const char path[] = "cls.predictions.transform";
  dense transform = {.path = path, .name = {"dense"}, .count = 1, .in = m->hidden, .rows = m->hidden};
  x = dense_emit(b, m, &transform, x, HR_NONE);
  hr__module(b, "%s", path);
  x = norm(b, m, path, hr__gelu(b, x, m->tanh));
  hr__module(b, "cls.predictions.decoder");
  hr_id bias = hr__parameter(b, "cls.predictions.bias", hr__desc1(b->dtype, m->vocab), (hr_init){.kind = HR_INIT_ZERO});
  return hr__head_loss_biased(b, x, words, bias, targets);
}

static hr_id bert_forward(hr_builder *b, const hr_recipe *r, const hr_model_batch *batch) {
  bert m = bert_read(r);
  char layer[NAME / 2];
  hr_id words, x = embeddings(b, &m, batch, &words);
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
  return head(b, &m, x, words, batch->targets);
}

static int64_t bert_vocabulary(const hr_recipe *r) {
  return hr__recipe_int(r, CONFIG "vocab_size");
}

/* Numbers keep the recipe's double, as a float would show its rounding. */
static json_t *bert_config_json(const hr_recipe *r) {
  bert m = bert_read(r);
  bool narrow = strcmp(hr__recipe_text(r, "model.precision"), "bf16-true") == 0; /* else there are f32 masters */
  hr__json_init();
  return json_pack("{s:[s], s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:s, s:b}",
                   "architectures", "BertForMaskedLM", "model_type", "bert", "hidden_act",
                   hr__recipe_text(r, CONFIG "hidden_act"), "torch_dtype", narrow ? "bfloat16" : "float32",
                   "vocab_size", (json_int_t)m.vocab, "hidden_size", (json_int_t)m.hidden, "intermediate_size",
                   (json_int_t)m.inner, "num_hidden_layers", (json_int_t)m.layers, "num_attention_heads",
                   (json_int_t)m.heads, "max_position_embeddings", (json_int_t)m.positions, "type_vocab_size",
                   (json_int_t)m.types, "initializer_range", hr__recipe_float(r, CONFIG "initializer_range"),
                   "layer_norm_eps", hr__recipe_float(r, CONFIG "layer_norm_eps"), "hidden_dropout_prob",
                   hr__recipe_float(r, CONFIG "hidden_dropout_prob"), "attention_probs_dropout_prob", 0.0,
                   "position_embedding_type", "absolute", "tie_word_embeddings", 1);
}

/* `name` without the given ending, as a length; 0: it ends otherwise. */
static int stem(const char *name, const char *ending) {
  size_t length = strlen(name), tail = strlen(ending);
  return length > tail && length < HR_BERT_NAME - 8 && strcmp(name + length - tail, ending) == 0 ? (int)(length - tail)
                                                                                                 : 0;
}

bool hr__bert_leaves(const char *tensor) {
  static const char *const names[] = {"cls.predictions.decoder.weight", "cls.predictions.decoder.bias",
                                      "cls.seq_relationship.weight",    "cls.seq_relationship.bias",
                                      "bert.pooler.dense.weight",       "bert.pooler.dense.bias",
                                      "bert.embeddings.position_ids"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strcmp(tensor, names[i]) == 0) return true;
  return stem(tensor, ".LayerNorm.gamma") || stem(tensor, ".LayerNorm.beta");
}

const char *hr__bert_old_name(const char *parameter, char out[HR_BERT_NAME]) {
  int weight = stem(parameter, ".LayerNorm.weight"), bias = stem(parameter, ".LayerNorm.bias");
  if (!weight && !bias) return NULL;
  snprintf(out, HR_BERT_NAME, "%.*s.LayerNorm.%s", weight ? weight : bias, parameter, weight ? "gamma" : "beta");
  return out;
}

static const char *const targets[] = {"query", "key", "value", "dense"};

const hr_model hr_model_bert = {
    .family = "bert",
    .keys = &table,
    .defaults = defaults,
    .task = "ForMaskedLM",
    .other_task = "ForPreTraining", /* with a head for the next sentence, which is left */
    .masked = true,
    .targets = targets,
    .n_targets = sizeof targets / sizeof *targets,
    .check = bert_check,
    .forward = bert_forward,
    .vocabulary = bert_vocabulary,
    .config_json = bert_config_json,
};
