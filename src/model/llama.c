/* Llama: RMSNorm, grouped-query attention with rotary positions, SiLU-gated MLP; tied or untied head.
 *
 * Settings and parameter names are those of the public checkpoints (config.json, model.safetensors). Shapes in
 * comments: B batch, T length, H hidden, D head_dim, Q query heads, K key-value heads, I intermediate, V vocabulary.
 *
 * Rotary settings come in two forms: rope_theta with rope_scaling (older files) and rope_parameters, which holds both.
 * A recipe gives one of them; what it gives overrules the file of model.path.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "format/json.h"
#include "model/model.h"
#include "model/stack.h"
#include "op/attention.h"
#include "op/embedding.h"
#include "op/head_loss.h"
#include "op/linear.h"
#include "op/rmsnorm.h"
#include "op/rope.h"
#include "op/swiglu.h"

#define CONFIG       "model.config."
#define ROPE_CHOICES "default|llama3"

enum { LAYERS_MAX = 1024, HEADS_MAX = 1 << 16, WIDTH_MAX = 1 << 24, POSITIONS_MAX = 1 << 30 };
static const int64_t PARAMETERS_MAX = INT64_C(10000000000000); /* 10^13 */

#define ROPE_KEYS(section)                                                                                             \
  {.path = section ".rope_type",                                                                                       \
   .type = HR_KEY_CHOICE,                                                                                              \
   .choices = ROPE_CHOICES,                                                                                            \
   .meaning = "default: plain rotary positions; llama3: slow frequencies stretched"},                                  \
      {.path = section ".factor",                                                                                      \
       .type = HR_KEY_FLOAT,                                                                                           \
       .min = 1,                                                                                                       \
       .max = 1e6,                                                                                                     \
       .meaning = "llama3: how far to stretch"},                                                                       \
      {.path = section ".low_freq_factor",                                                                             \
       .type = HR_KEY_FLOAT,                                                                                           \
       .min = 1e-6,                                                                                                    \
       .max = 1e6,                                                                                                     \
       .meaning = "llama3: longer waves than original length / this are stretched fully"},                             \
      {.path = section ".high_freq_factor",                                                                            \
       .type = HR_KEY_FLOAT,                                                                                           \
       .min = 1e-6,                                                                                                    \
       .max = 1e6,                                                                                                     \
       .meaning = "llama3: shorter waves than original length / this stay"},                                           \
  {                                                                                                                    \
    .path = section ".original_max_position_embeddings", .type = HR_KEY_INT, .min = 1, .max = POSITIONS_MAX,           \
    .meaning = "llama3: length before stretching"                                                                      \
  }

static const hr_key keys[] = {
    {.path = CONFIG "vocab_size",
     .type = HR_KEY_INT,
     .fallback = "32000",
     .min = 1,
     .max = WIDTH_MAX,
     .meaning = "number of different tokens"},
    {.path = CONFIG "hidden_size",
     .type = HR_KEY_INT,
     .fallback = "4096",
     .min = 1,
     .max = WIDTH_MAX,
     .meaning = "width of the residual stream"},
    {.path = CONFIG "intermediate_size",
     .type = HR_KEY_INT,
     .fallback = "11008",
     .min = 1,
     .max = WIDTH_MAX,
     .meaning = "width of the gated MLP"},
    {.path = CONFIG "num_hidden_layers",
     .type = HR_KEY_INT,
     .fallback = "32",
     .min = 1,
     .max = LAYERS_MAX,
     .meaning = "number of layers"},
    {.path = CONFIG "num_attention_heads",
     .type = HR_KEY_INT,
     .fallback = "32",
     .min = 1,
     .max = HEADS_MAX,
     .meaning = "number of query heads"},
    {.path = CONFIG "num_key_value_heads",
     .type = HR_KEY_INT,
     .min = 1,
     .max = HEADS_MAX,
     .meaning = "number of key and value heads (default: as many as query heads)"},
    {.path = CONFIG "head_dim",
     .type = HR_KEY_INT,
     .min = 2,
     .max = HEADS_MAX,
     .meaning = "width of a head, even (default: hidden_size / num_attention_heads)"},
    {.path = CONFIG "hidden_act",
     .type = HR_KEY_CHOICE,
     .choices = "silu|gelu|gelu_new|gelu_pytorch_tanh",
     .meaning = "gate of the MLP: silu; of bert gelu and its forms by tanh (default: silu, bert: gelu)"},
    {.path = CONFIG "max_position_embeddings",
     .type = HR_KEY_INT,
     .fallback = "2048",
     .min = 1,
     .max = POSITIONS_MAX,
     .meaning = "longest sequence the model is made for"},
    {.path = CONFIG "initializer_range",
     .type = HR_KEY_FLOAT,
     .fallback = "0.02",
     .min = 0,
     .max = 100,
     .meaning = "standard deviation of fresh weights"},
    {.path = CONFIG "rms_norm_eps",
     .type = HR_KEY_FLOAT,
     .fallback = "1e-6",
     .min = 0,
     .max = 1,
     .meaning = "added to the mean square in norms"},
    {.path = CONFIG "tie_word_embeddings",
     .type = HR_KEY_BOOL,
     .meaning = "the head uses the embedding's weight (default: false, bert: true)"},
    {.path = CONFIG "attention_bias",
     .type = HR_KEY_BOOL,
     .fallback = "false",
     .meaning = "biases in the projections of attention"},
    {.path = CONFIG "mlp_bias", .type = HR_KEY_BOOL, .fallback = "false", .meaning = "biases in the MLP"},
    {.path = CONFIG "attention_dropout",
     .type = HR_KEY_FLOAT,
     .fallback = "0.0",
     .min = 0,
     .max = 1,
     .meaning = "only 0 is supported"},
    {.path = CONFIG "rope_theta",
     .type = HR_KEY_FLOAT,
     .fallback = "10000.0",
     .min = 1,
     .max = 1e12,
     .meaning = "base of the rotary frequencies"},
    ROPE_KEYS(CONFIG "rope_scaling"),
    {.path = CONFIG "rope_parameters.rope_theta",
     .type = HR_KEY_FLOAT,
     .min = 1,
     .max = 1e12,
     .meaning = "base of the rotary frequencies"},
    ROPE_KEYS(CONFIG "rope_parameters"),
};
static const hr_key_table table = {keys, sizeof keys / sizeof *keys};

typedef struct llama {
  int64_t hidden, inner, layers, heads, kv_heads, head_dim, vocab, positions;
  float std, eps;
  bool tied, attention_bias, mlp_bias;
  double theta;
  const char *rope; /* section that holds the stretching; NULL: plain */
} llama;

static const char *path_in(const char *section, const char *key, char out[128]) {
  snprintf(out, 128, "%s.%s", section, key);
  return out;
}

static const char *const rope_numbers[] = {"factor", "low_freq_factor", "high_freq_factor",
                                           "original_max_position_embeddings"};
enum { ROPE_NUMBERS = sizeof rope_numbers / sizeof *rope_numbers };

static bool rope_any(const hr_recipe *r, const char *section) {
  char path[128];
  bool any = hr__recipe_has(r, path_in(section, "rope_type", path));
  for (int i = 0; i < ROPE_NUMBERS; i++)
    any = any || hr__recipe_has(r, path_in(section, rope_numbers[i], path));
  return any;
}

/* The form of rotary settings that counts; NULL when neither is there. */
static const char *rope_section(const hr_recipe *r) {
  static const char scaling[] = CONFIG "rope_scaling", parameters[] = CONFIG "rope_parameters";
  if (hr__recipe_given(r, scaling)) return scaling;
  if (hr__recipe_given(r, parameters)) return parameters;
  if (rope_any(r, parameters)) return parameters;
  return rope_any(r, scaling) ? scaling : NULL;
}

static llama llama_read(const hr_recipe *r) {
  llama m = {
      .hidden = hr__recipe_int(r, CONFIG "hidden_size"),
      .inner = hr__recipe_int(r, CONFIG "intermediate_size"),
      .layers = hr__recipe_int(r, CONFIG "num_hidden_layers"),
      .heads = hr__recipe_int(r, CONFIG "num_attention_heads"),
      .vocab = hr__recipe_int(r, CONFIG "vocab_size"),
      .positions = hr__recipe_int(r, CONFIG "max_position_embeddings"),
      .std = (float)hr__recipe_float(r, CONFIG "initializer_range"),
      .eps = (float)hr__recipe_float(r, CONFIG "rms_norm_eps"),
      .tied = hr__recipe_has(r, CONFIG "tie_word_embeddings") && hr__recipe_bool(r, CONFIG "tie_word_embeddings"),
      .attention_bias = hr__recipe_bool(r, CONFIG "attention_bias"),
      .mlp_bias = hr__recipe_bool(r, CONFIG "mlp_bias"),
      .theta = hr__recipe_float(r, CONFIG "rope_theta"),
  };
  bool grouped = hr__recipe_has(r, CONFIG "num_key_value_heads"), sized = hr__recipe_has(r, CONFIG "head_dim");
  m.kv_heads = grouped ? hr__recipe_int(r, CONFIG "num_key_value_heads") : m.heads;
  m.head_dim = sized ? hr__recipe_int(r, CONFIG "head_dim") : m.hidden / m.heads;
  char path[128];
  const char *rope = rope_section(r);
  if (hr__recipe_has(r, CONFIG "rope_parameters.rope_theta") && !hr__recipe_given(r, CONFIG "rope_theta")) {
    m.theta = hr__recipe_float(r, CONFIG "rope_parameters.rope_theta");
  }
  if (rope && hr__recipe_has(r, path_in(rope, "rope_type", path)) && strcmp(hr__recipe_text(r, path), "llama3") == 0) {
    m.rope = rope;
  }
  return m;
}

/* Elements of all parameters; false when they are more than any machine could hold. */
static bool parameter_count(const llama *m, int64_t *count) {
  int64_t q = m->heads * m->head_dim, kv = m->kv_heads * m->head_dim; /* each below 2^32 */
  int64_t attention, mlp, layer, layers, table_size;
  if (!hr__mul_i64(m->hidden, 2 * q + 2 * kv, &attention) || !hr__mul_i64(m->hidden, 3 * m->inner, &mlp)) return false;
  if (m->attention_bias) attention += q + 2 * kv + m->hidden;
  if (m->mlp_bias) mlp += 2 * m->inner + m->hidden;
  if (!hr__add_i64(attention, mlp, &layer) || !hr__add_i64(layer, 2 * m->hidden, &layer)) return false;
  if (!hr__mul_i64(layer, m->layers, &layers) || !hr__mul_i64(m->vocab, m->hidden, &table_size)) return false;
  if (!m->tied && !hr__mul_i64(table_size, 2, &table_size)) return false;
  if (!hr__add_i64(layers, table_size, count) || !hr__add_i64(*count, m->hidden, count)) return false;
  return *count <= PARAMETERS_MAX;
}

/* The llama3 form needs all four of its numbers. */
static hr_status rope_check(const hr_recipe *r, const llama *m, hr_error *err) {
  char path[128];
  const char *section = rope_section(r);
  if (hr__recipe_given(r, CONFIG "rope_scaling") && hr__recipe_given(r, CONFIG "rope_parameters")) {
    return hr__recipe_fail(r, CONFIG "rope_parameters", "keep rope_parameters, which holds rope_theta too", err,
                           CONFIG "rope_scaling and rope_parameters say the same thing twice");
  }
  if (hr__recipe_given(r, CONFIG "rope_theta") && hr__recipe_given(r, CONFIG "rope_parameters.rope_theta")) {
    return hr__recipe_fail(r, CONFIG "rope_parameters.rope_theta", "keep one of them", err,
                           CONFIG "rope_theta is given twice, also in rope_parameters");
  }
  for (int i = 0; i < ROPE_NUMBERS; i++) {
    bool there = section && hr__recipe_has(r, path_in(section, rope_numbers[i], path));
    if (m->rope && !there) {
      return hr__recipe_fail(r, path,
                             "rope_type llama3 needs factor, low_freq_factor, high_freq_factor and "
                             "original_max_position_embeddings",
                             err, "%s is missing", path);
    }
    if (there && !hr__recipe_has(r, path_in(section, "rope_type", path))) {
      return hr__recipe_fail(r, path, "add \"rope_type: llama3\", or remove the section", err,
                             "%s is missing, so %s has no effect", path, rope_numbers[i]);
    }
  }
  if (!m->rope) return HR_OK;
  double low = hr__recipe_float(r, path_in(m->rope, "low_freq_factor", path));
  double high = hr__recipe_float(r, path_in(m->rope, "high_freq_factor", path));
  if (low < high) return HR_OK;
  return hr__recipe_fail(r, path, "Llama 3 uses low_freq_factor 1 and high_freq_factor 4", err,
                         "%s must be larger than low_freq_factor (%g), but it is %g", path, low, high);
}

static hr_status heads_check(const hr_recipe *r, const llama *m, hr_error *err) {
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

static hr_status llama_check(const hr_recipe *r, hr_error *err) {
  if (!hr__recipe_given(r, "model.config") && !hr__recipe_given(r, "model.path")) {
    return hr__recipe_fail(r, "model.config",
                           "add for example \"config: { hidden_size: 256, num_hidden_layers: 4, ... }\"", err,
                           "neither model.config nor model.path is given");
  }
  llama m = llama_read(r);
  HR_TRY(heads_check(r, &m, err));
  HR_TRY(rope_check(r, &m, err));
  if (hr__recipe_has(r, CONFIG "hidden_act") && strcmp(hr__recipe_text(r, CONFIG "hidden_act"), "silu") != 0) {
    return hr__recipe_fail(r, CONFIG "hidden_act", "family llama has the gate silu", err,
                           "hidden_act \"%s\" is not supported", hr__recipe_text(r, CONFIG "hidden_act"));
  }
  if (hr__recipe_float(r, CONFIG "attention_dropout") > 0) {
    return hr__recipe_fail(r, CONFIG "attention_dropout", "give --set model.config.attention_dropout=0", err,
                           "dropout in attention is not supported");
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
                           "the model would have more than %" PRId64 " parameters", PARAMETERS_MAX);
  }
  return HR_OK;
}

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
static bool projections_join(const hr_recipe *r, const projections *p) {
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
  snprintf(whole, sizeof whole, "%s.%s", b->module, kind);
  hr_desc desc = in > 0 ? hr__desc2(b->dtype, rows, in) : hr__desc1(b->dtype, rows);
  return hr__parameter_stacked(b, whole, desc, members, p->count);
}

/* x [B, T, in] -> [B, T, all rows], on top of `add`, by the parameters NAME.weight [rows, in] and, where the family has
 * it, NAME.bias [rows]. */
static hr_id projections_emit(hr_builder *b, const llama *m, int64_t layer, const projections *p, hr_id x, hr_id add) {
  char joined[128] = "";
  size_t used = 0;
  for (int i = 0; i < p->count; i++)
    used += (size_t)snprintf(joined + used, sizeof joined - used, "%s%s", i ? "+" : "", p->name[i]);
  hr__module(b, "model.layers.%" PRId64 ".%s.%s", layer, p->part, joined);
  hr_id weight = projections_declare(b, p, layer, "weight", p->in, (hr_init){HR_INIT_NORMAL, m->std});
  hr_id bias = HR_NONE;
  if (p->biased) bias = projections_declare(b, p, layer, "bias", 0, (hr_init){.kind = HR_INIT_ZERO});
  return hr__linear_add(b, x, weight, bias, add);
}

/* One of them by itself. */
static hr_id projection_emit(hr_builder *b, const llama *m, int64_t layer, const projections *p, int i, hr_id x) {
  projections one = {.part = p->part, .count = 1, .in = p->in, .biased = p->biased};
  one.name[0] = p->name[i];
  one.rows[0] = p->rows[i];
  return projections_emit(b, m, layer, &one, x, HR_NONE);
}

static hr_id norm(hr_builder *b, const llama *m, const char *path, hr_id x) {
  char name[160];
  hr__module(b, "%s", path);
  snprintf(name, sizeof name, "%s.weight", path);
  hr_id weight = hr__parameter(b, name, hr__desc1(b->dtype, m->hidden), (hr_init){.kind = HR_INIT_ONE});
  return hr__rmsnorm(b, x, weight, m->eps);
}

static const char *layer_path(char out[128], int64_t layer, const char *part) {
  snprintf(out, 128, "model.layers.%" PRId64 ".%s", layer, part);
  return out;
}

/* x + attention(norm(x)), [B, T, H]. */
static hr_id attention_half(hr_builder *b, const hr_recipe *r, const llama *m, int64_t layer, hr_id x, hr_id table_id) {
  char path[128];
  int64_t q_width = m->heads * m->head_dim, kv_width = m->kv_heads * m->head_dim;
  projections in = {.part = "self_attn",
                    .count = 3,
                    .name = {"q_proj", "k_proj", "v_proj"},
                    .rows = {q_width, kv_width, kv_width},
                    .in = m->hidden,
                    .biased = m->attention_bias};
  projections out = {.part = "self_attn",
                     .count = 1,
                     .name = {"o_proj"},
                     .rows = {m->hidden},
                     .in = q_width,
                     .biased = m->attention_bias};
  hr_id y = norm(b, m, layer_path(path, layer, "input_layernorm"), x), q, k = HR_NONE, v = HR_NONE;
  if (projections_join(r, &in)) { /* q, k and v side by side */
    q = projections_emit(b, m, layer, &in, y, HR_NONE);
    q = hr__rope_heads(b, q, table_id, m->head_dim, m->heads + m->kv_heads);
  } else {
    q = hr__rope(b, projection_emit(b, m, layer, &in, 0, y), table_id, m->head_dim);
    k = hr__rope(b, projection_emit(b, m, layer, &in, 1, y), table_id, m->head_dim);
    v = projection_emit(b, m, layer, &in, 2, y);
  }
  hr__module(b, "%s", layer_path(path, layer, "self_attn"));
  float scale = (float)(1.0 / sqrt((double)m->head_dim));
  hr_attention_args args = {.heads = m->heads, .kv_heads = m->kv_heads, .head_dim = m->head_dim, .scale = scale};
  y = hr__attention(b, q, k, v, HR_NONE, &args);
  return projections_emit(b, m, layer, &out, y, x);
}

/* x + mlp(norm(x)), [B, T, H]. */
static hr_id mlp_half(hr_builder *b, const hr_recipe *r, const llama *m, int64_t layer, hr_id x) {
  char path[128];
  projections in = {.part = "mlp",
                    .count = 2,
                    .name = {"gate_proj", "up_proj"},
                    .rows = {m->inner, m->inner},
                    .in = m->hidden,
                    .biased = m->mlp_bias};
  projections out = {
      .part = "mlp", .count = 1, .name = {"down_proj"}, .rows = {m->hidden}, .in = m->inner, .biased = m->mlp_bias};
  hr_id y = norm(b, m, layer_path(path, layer, "post_attention_layernorm"), x), gate, up = HR_NONE;
  if (projections_join(r, &in)) { /* gate and up side by side */
    gate = projections_emit(b, m, layer, &in, y, HR_NONE);
  } else {
    gate = projection_emit(b, m, layer, &in, 0, y);
    up = projection_emit(b, m, layer, &in, 1, y);
  }
  hr__module(b, "%s", layer_path(path, layer, "mlp"));
  return projections_emit(b, m, layer, &out, hr__swiglu(b, gate, up), x);
}

static hr_id rope_table(hr_builder *b, const hr_recipe *r, const llama *m, int64_t length) {
  hr_rope_table_args args = {.length = length, .head_dim = m->head_dim, .theta = m->theta};
  if (m->rope) {
    char path[128];
    args.scaled = true;
    args.factor = hr__recipe_float(r, path_in(m->rope, "factor", path));
    args.low = hr__recipe_float(r, path_in(m->rope, "low_freq_factor", path));
    args.high = hr__recipe_float(r, path_in(m->rope, "high_freq_factor", path));
    args.original_length = hr__recipe_int(r, path_in(m->rope, "original_max_position_embeddings", path));
  }
  hr__module(b, "model.rotary_emb");
  return hr__rope_table(b, &args);
}

static hr_id llama_forward(hr_builder *b, const hr_recipe *r, const hr_model_batch *batch) {
  llama m = llama_read(r);
  hr_init normal = {HR_INIT_NORMAL, m.std};
  hr__module(b, "model.embed_tokens");
  hr_id head = hr__parameter(b, "model.embed_tokens.weight", hr__desc2(b->dtype, m.vocab, m.hidden), normal);
  hr_id x = hr__embedding(b, batch->tokens, head);
  hr_id table_id = rope_table(b, r, &m, batch->length);
  for (int64_t layer = 0; layer < m.layers; layer++) {
    hr__block_begin(b, "model.layers.%" PRId64, layer);
    hr__block_begin(b, "model.layers.%" PRId64 ".self_attn", layer);
    x = attention_half(b, r, &m, layer, x, table_id);
    hr__block_end(b);
    hr__block_begin(b, "model.layers.%" PRId64 ".mlp", layer);
    x = mlp_half(b, r, &m, layer, x);
    hr__block_end(b);
    hr__block_end(b);
  }
  x = norm(b, &m, "model.norm", x);
  hr__module(b, "lm_head");
  if (!m.tied) head = hr__parameter(b, "lm_head.weight", hr__desc2(b->dtype, m.vocab, m.hidden), normal);
  return hr__head_loss(b, x, head, batch->targets);
}

static int64_t llama_vocabulary(const hr_recipe *r) {
  return hr__recipe_int(r, CONFIG "vocab_size");
}

/* null where positions are not stretched. */
static json_t *rope_json(const hr_recipe *r, const llama *m) {
  char path[4][128];
  if (!m->rope) return json_null();
  return json_pack("{s:s, s:f, s:f, s:f, s:I}", "rope_type", "llama3", "factor",
                   hr__recipe_float(r, path_in(m->rope, "factor", path[0])), "low_freq_factor",
                   hr__recipe_float(r, path_in(m->rope, "low_freq_factor", path[1])), "high_freq_factor",
                   hr__recipe_float(r, path_in(m->rope, "high_freq_factor", path[2])),
                   "original_max_position_embeddings",
                   (json_int_t)hr__recipe_int(r, path_in(m->rope, "original_max_position_embeddings", path[3])));
}

/* Numbers keep the recipe's double: a float would turn 1e-6 into 9.99999997e-07. Token numbers are not known here: null
 * keeps readers of the file from assuming their own. */
static json_t *llama_config_json(const hr_recipe *r) {
  llama m = llama_read(r);
  bool narrow = strcmp(hr__recipe_text(r, "model.precision"), "bf16-true") == 0; /* else there are f32 masters */
  hr__json_init();
  return json_pack(
      "{s:[s], s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:b, s:b, s:b, s:f, s:f, s:o,"
      " s:n, s:n, s:n, s:b}",
      "architectures", "LlamaForCausalLM", "model_type", "llama", "hidden_act", "silu", "torch_dtype",
      narrow ? "bfloat16" : "float32", "vocab_size", (json_int_t)m.vocab, "hidden_size", (json_int_t)m.hidden,
      "intermediate_size", (json_int_t)m.inner, "num_hidden_layers", (json_int_t)m.layers, "num_attention_heads",
      (json_int_t)m.heads, "num_key_value_heads", (json_int_t)m.kv_heads, "head_dim", (json_int_t)m.head_dim,
      "max_position_embeddings", (json_int_t)m.positions, "initializer_range",
      hr__recipe_float(r, CONFIG "initializer_range"), "rms_norm_eps", hr__recipe_float(r, CONFIG "rms_norm_eps"),
      "tie_word_embeddings", (int)m.tied, "attention_bias", (int)m.attention_bias, "mlp_bias", (int)m.mlp_bias,
      "attention_dropout", 0.0, "rope_theta", m.theta, "rope_scaling", rope_json(r, &m), "bos_token_id", "eos_token_id",
      "pad_token_id", "use_cache", 1);
}

const hr_model hr_model_llama = {
    .family = "llama",
    .keys = &table,
    .check = llama_check,
    .forward = llama_forward,
    .vocabulary = llama_vocabulary,
    .config_json = llama_config_json,
};
