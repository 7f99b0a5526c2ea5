/* A decoder's settings: reading them, and the checks of those that depend on each other. See decoder.h. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "model/decoder.h"

#define CONFIG HR_MODEL_CONFIG

static void windows_read(const hr_recipe *r, hr_decoder *m) {
  bool sized = hr__recipe_has(r, CONFIG "sliding_window");
  bool used = m->family->windows == HR_WINDOWS_ALL;
  if (m->family->windows == HR_WINDOWS_LAYERS) {
    used = hr__recipe_has(r, CONFIG "use_sliding_window") && hr__recipe_bool(r, CONFIG "use_sliding_window");
    if (hr__recipe_has(r, CONFIG "max_window_layers"))
      m->first_windowed = hr__recipe_int(r, CONFIG "max_window_layers");
    if (hr__recipe_has(r, CONFIG "layer_types"))
      m->layer_types = hr__recipe_texts(r, CONFIG "layer_types", &m->n_layer_types);
  }
  if (sized && used) m->window = hr__recipe_int(r, CONFIG "sliding_window");
}

hr_decoder hr__decoder_read(const hr_recipe *r) {
  hr_decoder m = {
      .family = hr__decoder_family(hr__recipe_text(r, "model.family")),
      .hidden = hr__recipe_int(r, CONFIG "hidden_size"),
      .inner = hr__recipe_int(r, CONFIG "intermediate_size"),
      .layers = hr__recipe_int(r, CONFIG "num_hidden_layers"),
      .heads = hr__recipe_int(r, CONFIG "num_attention_heads"),
      .vocab = hr__recipe_int(r, CONFIG "vocab_size"),
      .positions = hr__recipe_int(r, CONFIG "max_position_embeddings"),
      .std = (float)hr__recipe_float(r, CONFIG "initializer_range"),
      .eps = (float)hr__recipe_float(r, CONFIG "rms_norm_eps"),
      .tied = hr__recipe_bool(r, CONFIG "tie_word_embeddings"),
  };
  bool biased = m.family->attention_bias_key && hr__recipe_bool(r, CONFIG "attention_bias");
  m.input_biases = m.family->input_biases || biased;
  m.output_bias = biased;
  m.mlp_bias = m.family->mlp_bias_key && hr__recipe_bool(r, CONFIG "mlp_bias");
  bool grouped = hr__recipe_has(r, CONFIG "num_key_value_heads"), sized = hr__recipe_has(r, CONFIG "head_dim");
  m.kv_heads = grouped ? hr__recipe_int(r, CONFIG "num_key_value_heads") : m.heads;
  m.head_dim = sized ? hr__recipe_int(r, CONFIG "head_dim") : m.hidden / m.heads;
  windows_read(r, &m);
  hr__rope_read(r, &m);
  return m;
}

static bool layer_slides(const hr_decoder *m, int64_t layer) {
  if (m->family->windows == HR_WINDOWS_ALL) return true;
  if (m->layer_types) return strcmp(m->layer_types[layer], "sliding_attention") == 0;
  return layer >= m->first_windowed;
}

int64_t hr__decoder_window(const hr_decoder *m, int64_t layer) {
  return m->window > 0 && layer_slides(m, layer) ? m->window : 0;
}

/* Elements of all parameters; false when they are more than any machine could hold. */
static bool parameter_count(const hr_decoder *m, int64_t *count) {
  int64_t q = m->heads * m->head_dim, kv = m->kv_heads * m->head_dim; /* each below 2^32 */
  int64_t attention, mlp, layer, layers, table_size;
  if (!hr__mul_i64(m->hidden, 2 * q + 2 * kv, &attention) || !hr__mul_i64(m->hidden, 3 * m->inner, &mlp)) return false;
  if (m->input_biases) attention += q + 2 * kv;
  if (m->output_bias) attention += m->hidden;
  if (m->family->head_norms) attention += 2 * m->head_dim;
  if (m->mlp_bias) mlp += 2 * m->inner + m->hidden;
  if (!hr__add_i64(attention, mlp, &layer) || !hr__add_i64(layer, 2 * m->hidden, &layer)) return false;
  if (!hr__mul_i64(layer, m->layers, &layers) || !hr__mul_i64(m->vocab, m->hidden, &table_size)) return false;
  if (!m->tied && !hr__mul_i64(table_size, 2, &table_size)) return false;
  if (!hr__add_i64(layers, table_size, count) || !hr__add_i64(*count, m->hidden, count)) return false;
  return *count <= HR_PARAMETERS_MAX;
}

/* Settings that the family does not have may stand in a file, where other programs pass over them too, but whoever
 * writes them into a recipe means them. */
static hr_status keys_check(const hr_recipe *r, const hr_decoder_family *family, hr_error *err) {
  bool windows = family->windows != HR_WINDOWS_NONE, layers = family->windows == HR_WINDOWS_LAYERS;
  const struct {
    const char *path;
    bool had;
  } some[] = {
      {CONFIG "attention_bias", family->attention_bias_key},
      {CONFIG "mlp_bias", family->mlp_bias_key},
      {CONFIG "sliding_window", windows},
      {CONFIG "use_sliding_window", layers},
      {CONFIG "max_window_layers", layers},
      {CONFIG "layer_types", layers},
      {CONFIG "type_vocab_size", false}, /* bert's, from here on */
      {CONFIG "layer_norm_eps", false},
      {CONFIG "hidden_dropout_prob", false},
      {CONFIG "attention_probs_dropout_prob", false},
      {CONFIG "position_embedding_type", false},
      {CONFIG "is_decoder", false},
  };
  for (size_t i = 0; i < sizeof some / sizeof *some; i++)
    if (!some[i].had && hr__recipe_given(r, some[i].path))
      return hr__recipe_fail(r, some[i].path, "remove it, or name another family", err,
                             "models of the family %s have no %s", family->name, some[i].path);
  return HR_OK;
}

static hr_status windows_check(const hr_recipe *r, const hr_decoder *m, hr_error *err) {
  static const char path[] = CONFIG "layer_types";
  if (!m->layer_types) return HR_OK;
  if (m->n_layer_types < (size_t)m->layers)
    return hr__recipe_fail(r, path, "name every layer, or remove it: max_window_layers serves as well", err,
                           "%s names %zu layers, but there are %" PRId64, path, m->n_layer_types, m->layers);
  for (int64_t i = 0; i < m->layers; i++) {
    bool slides = strcmp(m->layer_types[i], "sliding_attention") == 0;
    if (!slides && strcmp(m->layer_types[i], "full_attention") != 0)
      return hr__recipe_fail(r, path, "supported: full_attention, sliding_attention", err,
                             "layer %" PRId64 " is of the type \"%.60s\" (%s), which is not supported", i,
                             m->layer_types[i], path);
    if (slides && m->window == 0)
      return hr__recipe_fail(r, path, "give use_sliding_window: true and sliding_window", err,
                             "layer %" PRId64 " has sliding_attention (%s), but there is no window", i, path);
  }
  return HR_OK;
}

static hr_status heads_check(const hr_recipe *r, const hr_decoder *m, hr_error *err) {
  char remedy[256];
  if (!hr__recipe_has(r, CONFIG "head_dim") && m->hidden % m->heads != 0) {
    snprintf(remedy, sizeof remedy, "change one of them, for example hidden_size: %" PRId64 ", or give head_dim",
             (m->hidden / m->heads + 1) * m->heads);
    return hr__recipe_fail(r, CONFIG "hidden_size", remedy, err,
                           CONFIG "hidden_size (%" PRId64 ") is no multiple of num_attention_heads (%" PRId64 ")",
                           m->hidden, m->heads);
  }
  if (m->head_dim < 2 || m->head_dim % 2 != 0) {
    bool given = hr__recipe_has(r, CONFIG "head_dim");
    return hr__recipe_fail(r, given ? CONFIG "head_dim" : CONFIG "hidden_size",
                           "rotary positions turn pairs: use an even width such as 64", err,
                           "the width of a head must be even, but %s is %" PRId64,
                           given ? CONFIG "head_dim" : "hidden_size / num_attention_heads", m->head_dim);
  }
  if (m->heads % m->kv_heads != 0) {
    return hr__recipe_fail(
        r, CONFIG "num_key_value_heads", "every key-value head serves the same number of query heads: use a divisor",
        err, CONFIG "num_attention_heads (%" PRId64 ") is no multiple of num_key_value_heads (%" PRId64 ")", m->heads,
        m->kv_heads);
  }
  return HR_OK;
}

hr_status hr__decoder_check(const hr_recipe *r, hr_error *err) {
  if (!hr__recipe_given(r, "model.config") && !hr__recipe_given(r, "model.path")) {
    return hr__recipe_fail(r, "model.config",
                           "add for example \"config: { hidden_size: 256, num_hidden_layers: 4, ... }\"", err,
                           "neither model.config nor model.path is given");
  }
  hr_decoder m = hr__decoder_read(r);
  HR_TRY(keys_check(r, m.family, err));
  HR_TRY(heads_check(r, &m, err));
  HR_TRY(hr__rope_check(r, &m, err));
  HR_TRY(windows_check(r, &m, err));
  if (hr__recipe_float(r, CONFIG "attention_dropout") > 0) {
    return hr__recipe_fail(r, CONFIG "attention_dropout", "give --set model.config.attention_dropout=0", err,
                           "dropout in attention is not supported");
  }
  const char *act = hr__recipe_text(r, CONFIG "hidden_act");
  if (strcmp(act, "silu") != 0) {
    return hr__recipe_fail(r, CONFIG "hidden_act", "only silu is supported here", err,
                           "%s with " CONFIG "hidden_act %s is not supported", m.family->name, act);
  }
  static const char length_key[] = "data.sequence_length";
  if (hr__recipe_has(r, length_key) && !hr__recipe_is_word(r, length_key) &&
      hr__recipe_int(r, length_key) > m.positions) {
    return hr__recipe_fail(r, length_key, "use shorter sequences, or raise model.config.max_position_embeddings", err,
                           "%s (%" PRId64 ") is longer than the model is made for (max_position_embeddings %" PRId64
                           ")",
                           length_key, hr__recipe_int(r, length_key), m.positions);
  }
  int64_t count;
  if (!parameter_count(&m, &count)) {
    return hr__recipe_fail(r, CONFIG "hidden_size", "use smaller sizes", err,
                           "the model would have more than %" PRId64 " parameters", HR_PARAMETERS_MAX);
  }
  return HR_OK;
}
