/* A decoder's settings: reading them, and the checks of those that depend on each other. See decoder.h. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "model/decoder.h"
#include "model/text_keys.h"

static void windows_read(const hr_scope *r, hr_decoder *m) {
  bool sized = hr__scope_has(r, "config.sliding_window");
  bool used = m->family->windows == HR_WINDOWS_ALL || m->family->windows == HR_WINDOWS_PATTERN;
  if (m->family->windows == HR_WINDOWS_LAYERS) {
    used = hr__scope_has(r, "config.use_sliding_window") && hr__scope_bool(r, "config.use_sliding_window");
    if (hr__scope_has(r, "config.max_window_layers")) m->first_windowed = hr__scope_int(r, "config.max_window_layers");
  }
  if (m->family->windows == HR_WINDOWS_PATTERN) m->window_pattern = hr__scope_int(r, "config.sliding_window_pattern");
  if (hr__scope_has(r, "config.layer_types"))
    m->layer_types = hr__scope_texts(r, "config.layer_types", &m->n_layer_types);
  if (sized && used) m->window = hr__scope_int(r, "config.sliding_window");
}

hr_decoder hr__decoder_read(const hr_scope *r) {
  hr_decoder m = {
      .family = hr__decoder_family(hr__scope_text(r, "family")),
      .hidden = hr__scope_int(r, "config.hidden_size"),
      .inner = hr__scope_int(r, "config.intermediate_size"),
      .layers = hr__scope_int(r, "config.num_hidden_layers"),
      .heads = hr__scope_int(r, "config.num_attention_heads"),
      .vocab = hr__scope_int(r, "config.vocab_size"),
      .positions = hr__scope_int(r, "config.max_position_embeddings"),
      .std = (float)hr__scope_float(r, "config.initializer_range"),
      .eps = (float)hr__scope_float(r, "config.rms_norm_eps"),
      .attention_dropout = (float)hr__scope_float(r, "config.attention_dropout"),
      .tied = hr__scope_bool(r, "config.tie_word_embeddings"),
  };
  bool biased = hr__scope_has(r, "config.attention_bias") && hr__scope_bool(r, "config.attention_bias");
  m.input_biases = m.family->input_biases || biased;
  m.output_bias = biased;
  m.mlp_bias = hr__scope_has(r, "config.mlp_bias") && hr__scope_bool(r, "config.mlp_bias");
  bool grouped = hr__scope_has(r, "config.num_key_value_heads"), sized = hr__scope_has(r, "config.head_dim");
  m.kv_heads = grouped ? hr__scope_int(r, "config.num_key_value_heads") : m.heads;
  m.head_dim = sized ? hr__scope_int(r, "config.head_dim") : m.hidden / m.heads;
  static const char scalar[] = "config.query_pre_attn_scalar";
  int64_t divisor = hr__scope_has(r, scalar) ? hr__scope_int(r, scalar) : m.head_dim;
  m.attention_scale = (float)(1.0 / sqrt((double)divisor));
  windows_read(r, &m);
  hr__rope_read(r, &m);
  return m;
}

bool hr__decoder_slides(const hr_decoder *m, int64_t layer) {
  if (m->family->windows == HR_WINDOWS_ALL) return true;
  if (m->layer_types) return strcmp(m->layer_types[layer], "sliding_attention") == 0;
  if (m->window_pattern > 0) return (layer + 1) % m->window_pattern != 0;
  return layer >= m->first_windowed;
}

int64_t hr__decoder_window(const hr_decoder *m, int64_t layer) {
  return m->window > 0 && hr__decoder_slides(m, layer) ? m->window : 0;
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
  if (!hr__add_i64(attention, mlp, &layer) || !hr__add_i64(layer, (m->family->outer_norms ? 4 : 2) * m->hidden, &layer))
    return false;
  if (!hr__mul_i64(layer, m->layers, &layers) || !hr__mul_i64(m->vocab, m->hidden, &table_size)) return false;
  if (!m->tied && !hr__mul_i64(table_size, 2, &table_size)) return false;
  if (!hr__add_i64(layers, table_size, count) || !hr__add_i64(*count, m->hidden, count)) return false;
  return *count <= HR_PARAMETERS_MAX;
}

static hr_status windows_check(const hr_scope *r, const hr_decoder *m, hr_error *err) {
  static const char path[] = "config.layer_types";
  if (!m->layer_types) return HR_OK;
  if (m->n_layer_types < (size_t)m->layers)
    return hr__scope_fail(
        r, path,
        m->window_pattern > 0 ? "name every layer, or remove it: sliding_window_pattern serves as well"
                              : "name every layer, or remove it: max_window_layers serves as well",
        err, "%s.%s names %zu layers, but there are %" PRId64, r->section, path, m->n_layer_types, m->layers);
  for (int64_t i = 0; i < m->layers; i++) {
    bool slides = strcmp(m->layer_types[i], "sliding_attention") == 0;
    if (!slides && strcmp(m->layer_types[i], "full_attention") != 0)
      return hr__scope_fail(r, path, "supported: full_attention, sliding_attention", err,
                            "layer %" PRId64 " is of the type \"%.60s\" (%s.%s), which is not supported", i,
                            m->layer_types[i], r->section, path);
    if (slides && m->window == 0)
      return hr__scope_fail(
          r, path, m->window_pattern > 0 ? "give sliding_window" : "give use_sliding_window: true and sliding_window",
          err, "layer %" PRId64 " has sliding_attention (%s.%s), but there is no window", i, r->section, path);
  }
  return HR_OK;
}

static hr_status heads_check(const hr_scope *r, const hr_decoder *m, hr_error *err) {
  char remedy[256];
  if (!hr__scope_has(r, "config.head_dim") && m->hidden % m->heads != 0) {
    snprintf(remedy, sizeof remedy, "change one of them, for example hidden_size: %" PRId64 ", or give head_dim",
             (m->hidden / m->heads + 1) * m->heads);
    return hr__scope_fail(r, "config.hidden_size", remedy, err,
                          "%s.config.hidden_size (%" PRId64 ") is not a multiple of num_attention_heads (%" PRId64 ")",
                          r->section, m->hidden, m->heads);
  }
  if (m->head_dim < 2 || m->head_dim % 2 != 0) {
    bool given = hr__scope_has(r, "config.head_dim");
    return hr__scope_fail(r, given ? "config.head_dim" : "config.hidden_size",
                          "rotary positions rotate pairs: use an even width such as 64", err,
                          "the width of a head must be even, but %s%s is %" PRId64, given ? r->section : "",
                          given ? ".config.head_dim" : "hidden_size / num_attention_heads", m->head_dim);
  }
  if (m->heads % m->kv_heads != 0) {
    return hr__scope_fail(
        r, "config.num_key_value_heads", "every key-value head serves the same number of query heads: use a divisor",
        err, "%s.config.num_attention_heads (%" PRId64 ") is not a multiple of num_key_value_heads (%" PRId64 ")",
        r->section, m->heads, m->kv_heads);
  }
  return HR_OK;
}

hr_status hr__decoder_check(const hr_model_part *part, hr_error *err) {
  const hr_scope *r = &part->scope;
  if (!hr__scope_given(r, "config") && !hr__scope_given(r, "path")) {
    return hr__scope_fail(r, "config", "add for example \"config: { hidden_size: 256, num_hidden_layers: 4, ... }\"",
                          err, "neither %s.config nor %s.path is given", r->section, r->section);
  }
  hr_decoder m = hr__decoder_read(r);
  HR_TRY(heads_check(r, &m, err));
  HR_TRY(hr__rope_check(r, &m, err));
  HR_TRY(hr__padding_check(r, err));
  HR_TRY(windows_check(r, &m, err));
  const char *act = hr__scope_text(r, "config.hidden_act");
  const char *gate = m.family->gelu ? "gelu_pytorch_tanh" : "silu";
  if (strcmp(act, gate) != 0) {
    char remedy[64];
    snprintf(remedy, sizeof remedy, "only %s is supported here", gate);
    return hr__scope_fail(r, "config.hidden_act", remedy, err, "%s with %s.config.hidden_act %s is not supported",
                          m.family->name, r->section, act);
  }
  static const char length_key[] = "data.sequence_length";
  if (hr__recipe_has(r->recipe, length_key) && !hr__recipe_is_word(r->recipe, length_key) &&
      hr__recipe_int(r->recipe, length_key) > m.positions) {
    return hr__recipe_fail(r->recipe, length_key, "use shorter sequences, or raise max_position_embeddings", err,
                           "%s (%" PRId64 ") is longer than the model is made for (max_position_embeddings %" PRId64
                           ")",
                           length_key, hr__recipe_int(r->recipe, length_key), m.positions);
  }
  int64_t count;
  if (!parameter_count(&m, &count)) {
    return hr__scope_fail(r, "config.hidden_size", "use smaller sizes", err,
                          "the model would have more than %" PRId64 " parameters", HR_PARAMETERS_MAX);
  }
  return HR_OK;
}
