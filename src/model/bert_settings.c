/* BERT's settings under model.config: reading them, the checks of those that depend on each other, and the config.json
 * that a run saves. */
#include <inttypes.h>
#include <string.h>

#include "base/checked.h"
#include "format/json.h"
#include "model/bert.h"
#include "model/text_keys.h"

/* Keys beside those of all text models. Their defaults are the family's, below. */
static const hr_key keys[] = {
    {.path = "*.config.type_vocab_size",
     .type = HR_KEY_INT,
     .never_null = true,
     .min = 1,
     .max = 1 << 20,
     .meaning = "bert: number of token types, of which type 0 is used (default: 2)"},
    {.path = "*.config.layer_norm_eps",
     .type = HR_KEY_FLOAT,
     .never_null = true,
     .min = 0,
     .max = 1,
     .meaning = "bert: added to the variance in norms (default: 1e-12)"},
    {.path = "*.config.hidden_dropout_prob",
     .type = HR_KEY_FLOAT,
     .min = 0,
     .max = 0.99,
     .meaning = "bert: part of embeddings and of the layers' results that is dropped in training (default: 0.1)"},
    {.path = "*.config.attention_probs_dropout_prob",
     .type = HR_KEY_FLOAT,
     .min = 0,
     .max = 0.99,
     .meaning = "bert: part of the attention's probabilities that is dropped in training (default: 0.1)"},
    {.path = "*.config.position_embedding_type",
     .type = HR_KEY_TEXT,
     .meaning = "bert: only absolute is supported (default)"},
    {.path = "*.config.add_pooling_layer",
     .type = HR_KEY_BOOL,
     .fallback = "false",
     .meaning = "bert: the pooler of checkpoints is there, though nothing reads its result: adapters go to it, as in "
                "libraries that load it"},
    {.path = "*.config.is_decoder", .type = HR_KEY_BOOL, .meaning = "bert: only false is supported (default)"},
};
const hr_key_table hr_bert_keys = {keys, sizeof keys / sizeof *keys};

/* bert-base. */
const char hr_bert_defaults[] =
    "{vocab_size: 30522, hidden_size: 768, intermediate_size: 3072, num_hidden_layers: 12, num_attention_heads: 12,"
    " max_position_embeddings: 512, hidden_act: gelu, tie_word_embeddings: true, type_vocab_size: 2,"
    " layer_norm_eps: 1e-12, hidden_dropout_prob: 0.1, attention_probs_dropout_prob: 0.1,"
    " position_embedding_type: absolute, is_decoder: false, pad_token_id: 0}";

hr_bert hr__bert_read(const hr_scope *r) {
  return (hr_bert){
      .hidden = hr__scope_int(r, "config.hidden_size"),
      .inner = hr__scope_int(r, "config.intermediate_size"),
      .layers = hr__scope_int(r, "config.num_hidden_layers"),
      .heads = hr__scope_int(r, "config.num_attention_heads"),
      .vocab = hr__scope_int(r, "config.vocab_size"),
      .positions = hr__scope_int(r, "config.max_position_embeddings"),
      .types = hr__scope_int(r, "config.type_vocab_size"),
      .std = (float)hr__scope_float(r, "config.initializer_range"),
      .eps = (float)hr__scope_float(r, "config.layer_norm_eps"),
      .dropout = (float)hr__scope_float(r, "config.hidden_dropout_prob"),
      .attention_dropout = (float)hr__scope_float(r, "config.attention_probs_dropout_prob"),
      .pooler = hr__scope_bool(r, "config.add_pooling_layer"),
      .tanh = strcmp(hr__scope_text(r, "config.hidden_act"), "gelu") != 0,
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
static hr_status values_check(const hr_scope *r, hr_error *err) {
  for (size_t i = 0; i < hr_bert_keys.count; i++) {
    const char *key = keys[i].path + 2; /* behind the scope */
    if (!hr__scope_has(r, key))
      return hr__scope_fail(r, key, "leave it out instead of writing null: it has a default", err, "%s.%s has no value",
                            r->section, key);
  }
  return HR_OK;
}

/* Schemes that change what the model computes and that are not there: better refused than ignored. */
static hr_status schemes_check(const hr_scope *r, hr_error *err) {
  static const char act[] = "config.hidden_act", positions[] = "config.position_embedding_type",
                    decoder[] = "config.is_decoder", tied[] = "config.tie_word_embeddings";
  char remedy[HR_SCOPE_PATH];
  if (strncmp(hr__scope_text(r, act), "gelu", 4) != 0)
    return hr__scope_fail(r, act, "family bert takes gelu, gelu_new and gelu_pytorch_tanh", err,
                          "bert with %s.%s %s is not supported", r->section, act, hr__scope_text(r, act));
  if (strcmp(hr__scope_text(r, positions), "absolute") != 0)
    return hr__scope_fail(r, positions, "take a checkpoint with absolute positions", err,
                          "%s.%s \"%.40s\" is not supported", r->section, positions, hr__scope_text(r, positions));
  if (hr__scope_bool(r, decoder))
    return hr__scope_fail(r, decoder, hr__scope_remedy(r, "config.is_decoder=false", remedy), err,
                          "%s.%s: family bert looks to both sides only", r->section, decoder);
  if (!hr__scope_bool(r, tied))
    return hr__scope_fail(r, tied, hr__scope_remedy(r, "config.tie_word_embeddings=true", remedy), err,
                          "%s.%s: the head of family bert shares the embedding's weight", r->section, tied);
  return HR_OK;
}

hr_status hr__bert_check(const hr_model_part *part, hr_error *err) {
  const hr_scope *r = &part->scope;
  static const char length_key[] = "data.sequence_length";
  HR_TRY(values_check(r, err));
  HR_TRY(schemes_check(r, err));
  HR_TRY(hr__padding_check(r, err));
  hr_bert m = hr__bert_read(r);
  if (m.hidden % m.heads != 0)
    return hr__scope_fail(r, "config.num_attention_heads", "change one of them", err,
                          "%s.config.hidden_size (%" PRId64 ") is not a multiple of num_attention_heads (%" PRId64 ")",
                          r->section, m.hidden, m.heads);
  if (hr__recipe_has(r->recipe, length_key) && !hr__recipe_is_word(r->recipe, length_key) &&
      hr__recipe_int(r->recipe, length_key) > m.positions)
    return hr__recipe_fail(
        r->recipe, length_key, "use shorter sequences: the model has no embeddings of later positions", err,
        "%s (%" PRId64 ") is longer than the model is made for (max_position_embeddings %" PRId64 ")", length_key,
        hr__recipe_int(r->recipe, length_key), m.positions);
  int64_t count;
  if (!parameter_count(&m, &count))
    return hr__scope_fail(r, "config.hidden_size", "use smaller sizes", err,
                          "the model would have more than %" PRId64 " parameters", HR_PARAMETERS_MAX);
  return HR_OK;
}

/* Numbers keep the recipe's double, as a float would show its rounding. */
json_t *hr__bert_json(const hr_model_part *part) {
  const hr_scope *r = &part->scope;
  hr_bert m = hr__bert_read(r);
  bool narrow = strcmp(hr__scope_precision(r), "bf16-true") == 0; /* else there are f32 masters */
  hr__json_init();
  return json_pack("{s:[s], s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:s, s:b, s:o}",
                   "architectures", "BertForMaskedLM", "model_type", "bert", "hidden_act",
                   hr__scope_text(r, "config.hidden_act"), "torch_dtype", narrow ? "bfloat16" : "float32", "vocab_size",
                   (json_int_t)m.vocab, "hidden_size", (json_int_t)m.hidden, "intermediate_size", (json_int_t)m.inner,
                   "num_hidden_layers", (json_int_t)m.layers, "num_attention_heads", (json_int_t)m.heads,
                   "max_position_embeddings", (json_int_t)m.positions, "type_vocab_size", (json_int_t)m.types,
                   "initializer_range", hr__scope_float(r, "config.initializer_range"), "layer_norm_eps",
                   hr__scope_float(r, "config.layer_norm_eps"), "hidden_dropout_prob",
                   hr__scope_float(r, "config.hidden_dropout_prob"), "attention_probs_dropout_prob",
                   hr__scope_float(r, "config.attention_probs_dropout_prob"), "position_embedding_type", "absolute",
                   "tie_word_embeddings", 1, "pad_token_id",
                   hr__padding_token(r) < 0 ? json_null() : json_integer(hr__padding_token(r)));
}
