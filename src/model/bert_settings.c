/* BERT's settings under model.config: reading them, the checks of those that depend on each other, and the config.json
 * that a run saves. */
#include <inttypes.h>
#include <string.h>

#include "base/checked.h"
#include "format/json.h"
#include "model/bert.h"

#define CONFIG "model.config."

/* Keys that only this family has; what it shares with others is in their table. They have no defaults there, so that
 * recipes of other families have no such settings. */
static const hr_key keys[] = {
    {.path = CONFIG "type_vocab_size",
     .type = HR_KEY_INT,
     .never_null = true,
     .min = 1,
     .max = 1 << 20,
     .meaning = "bert: number of token types, of which type 0 is used (default: 2)"},
    {.path = CONFIG "layer_norm_eps",
     .type = HR_KEY_FLOAT,
     .never_null = true,
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
const hr_key_table hr_bert_keys = {keys, sizeof keys / sizeof *keys};

/* bert-base, but for dropout inside of attention. */
const char hr_bert_defaults[] =
    "{vocab_size: 30522, hidden_size: 768, intermediate_size: 3072, num_hidden_layers: 12, num_attention_heads: 12,"
    " max_position_embeddings: 512, hidden_act: gelu, tie_word_embeddings: true, type_vocab_size: 2,"
    " layer_norm_eps: 1e-12, hidden_dropout_prob: 0.1, attention_probs_dropout_prob: 0,"
    " position_embedding_type: absolute, is_decoder: false}";

hr_bert hr__bert_read(const hr_recipe *r) {
  return (hr_bert){
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
static bool parameter_count(const hr_bert *m, int64_t *count) {
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
  for (size_t i = 0; i < hr_bert_keys.count; i++)
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

hr_status hr__bert_check(const hr_recipe *r, hr_error *err) {
  static const char length_key[] = "data.sequence_length";
  HR_TRY(values_check(r, err));
  HR_TRY(keys_check(r, err));
  HR_TRY(schemes_check(r, err));
  hr_bert m = hr__bert_read(r);
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

/* Numbers keep the recipe's double, as a float would show its rounding. */
json_t *hr__bert_json(const hr_recipe *r) {
  hr_bert m = hr__bert_read(r);
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
