/* Mamba-2 as a language model: an embedding, layers of norm and mixer beside a residual stream, a norm and a head.
 * Names and settings are those of the public checkpoints of model type mamba2.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "format/json.h"
#include "model/mixer.h"
#include "model/modules.h"
#include "model/text_keys.h"
#include "op/embedding.h"
#include "op/head_loss.h"
#include "op/linear.h"

enum { PATH = 128 };

#define SIZE(name, preset, most, text)                                                                                 \
  {                                                                                                                    \
    .path = "*.config." name, .type = HR_KEY_INT, .fallback = preset, .min = 1, .max = most,                           \
    .meaning = "mamba2: " text                                                                                         \
  }
#define NUMBER(name, preset, least, most, text)                                                                        \
  {                                                                                                                    \
    .path = "*.config." name, .type = HR_KEY_FLOAT, .fallback = preset, .min = least, .max = most,                     \
    .meaning = "mamba2: " text                                                                                         \
  }
#define SWITCH(name, preset, text)                                                                                     \
  { .path = "*.config." name, .type = HR_KEY_BOOL, .fallback = preset, .meaning = "mamba2: " text }

static const hr_key keys[] = {
    SIZE("vocab_size", "32768", HR_WIDTH_MAX, "number of different tokens"),
    SIZE("hidden_size", "4096", HR_WIDTH_MAX, "width of the residual stream"),
    SIZE("num_hidden_layers", "64", HR_LAYERS_MAX, "number of layers"),
    SIZE("state_size", "128", HR_WIDTH_MAX, "numbers of a state, for each of a head's channels"),
    SIZE("num_heads", "128", HR_HEADS_MAX, "heads of the scan"),
    SIZE("head_dim", "64", HR_HEADS_MAX, "channels of a head; num_heads x head_dim is expand x hidden_size"),
    SIZE("n_groups", "8", HR_HEADS_MAX, "groups of heads that share B and C, and that are normed together"),
    NUMBER("expand", "2", 0.001, 1000, "inner width, as a multiple of hidden_size"),
    SIZE("conv_kernel", "4", 16, "positions of the causal convolution"),
    SIZE("chunk_size", "256", 256, "positions between two states that are kept"),
    SWITCH("use_bias", "false", "biases in both projections"),
    SWITCH("use_conv_bias", "true", "a bias in the convolution"),
    NUMBER("layer_norm_epsilon", "1e-5", 0, 1, "added to the mean square in norms"),
    {.path = "*.config.time_step_limit",
     .type = HR_KEY_TREE,
     .example = "[0.0, .inf]",
     .meaning = "mamba2: least and largest step size of the scan (default: no limits)"},
    NUMBER("initializer_range", "0.1", 0, 100, "standard deviation of fresh weights"),
    SWITCH("tie_word_embeddings", "false", "the head uses the embedding's weight"),
    {.path = "*.config.hidden_act",
     .type = HR_KEY_CHOICE,
     .fallback = "silu",
     .choices = "silu|swish",
     .meaning = "mamba2: activation of the convolution and of gates"},
};
static const hr_key_table key_table = {keys, sizeof keys / sizeof *keys};

typedef struct mamba2 {
  int64_t vocab, layers;
  float std;
  bool tied;
  hr_mixer mixer;
} mamba2;

/* One end of time_step_limit; what is no number, such as Infinity, is no limit. */
static float limit_read(const hr_doc_node *node, float otherwise) {
  double limit;
  return node && node->kind == HR_DOC_SCALAR && hr__doc_float(node, &limit) ? (float)limit : otherwise;
}

static mamba2 mamba2_read(const hr_scope *r) {
  mamba2 m = {.vocab = hr__scope_int(r, "config.vocab_size"),
              .layers = hr__scope_int(r, "config.num_hidden_layers"),
              .std = (float)hr__scope_float(r, "config.initializer_range"),
              .tied = hr__scope_bool(r, "config.tie_word_embeddings")};
  hr_init init = {.rule = HR_INIT_NORMAL, .a = m.std};
  m.mixer = (hr_mixer){.width = hr__scope_int(r, "config.hidden_size"),
                       .heads = hr__scope_int(r, "config.num_heads"),
                       .head_dim = hr__scope_int(r, "config.head_dim"),
                       .groups = hr__scope_int(r, "config.n_groups"),
                       .state = hr__scope_int(r, "config.state_size"),
                       .kernel = hr__scope_int(r, "config.conv_kernel"),
                       .chunk = hr__scope_int(r, "config.chunk_size"),
                       .eps = (float)hr__scope_float(r, "config.layer_norm_epsilon"),
                       .biased = hr__scope_bool(r, "config.use_bias"),
                       .conv_biased = hr__scope_bool(r, "config.use_conv_bias"),
                       .in_init = init,
                       .out_init = init};
  char path[HR_SCOPE_PATH];
  if (hr__scope_has(r, "config.time_step_limit")) {
    const hr_doc_node *limits = hr__recipe_tree(r->recipe, hr__scope_path(r, "config.time_step_limit", path));
    const hr_doc_node *first = limits ? limits->child : NULL;
    m.mixer.step_least = limit_read(first, 0);
    m.mixer.step_most = limit_read(first ? first->next : NULL, 0);
  }
  return m;
}

/* Whether the parameters are fewer than any machine could hold. */
static bool countable(const mamba2 *m) {
  const hr_mixer *x = &m->mixer;
  int64_t columns = hr__mixer_columns(x) + hr__mixer_inner(x), layer, layers, tables, count;
  return hr__mul_i64(columns, x->width, &layer) && hr__mul_i64(layer, m->layers, &layers) &&
         hr__mul_i64(2 * m->vocab, x->width, &tables) && hr__add_i64(layers, tables, &count) &&
         count <= HR_PARAMETERS_MAX;
}

static hr_status check(const hr_model_part *part, hr_error *err) {
  const hr_scope *r = &part->scope;
  if (!hr__scope_given(r, "config") && !hr__scope_given(r, "path"))
    return hr__scope_fail(r, "config", "add for example \"config: { hidden_size: 256, num_heads: 8, ... }\"", err,
                          "neither %s.config nor %s.path is given", r->section, r->section);
  mamba2 m = mamba2_read(r);
  int64_t inner = hr__mixer_inner(&m.mixer);
  if (fabs(hr__scope_float(r, "config.expand") * (double)m.mixer.width - (double)inner) >= 1)
    return hr__scope_fail(r, "config.num_heads", "make num_heads x head_dim equal to expand x hidden_size", err,
                          "%" PRId64 " heads of %" PRId64 " channels are not expand x hidden_size, %g x %" PRId64,
                          m.mixer.heads, m.mixer.head_dim, hr__scope_float(r, "config.expand"), m.mixer.width);
  if (m.mixer.heads % m.mixer.groups != 0)
    return hr__scope_fail(r, "config.n_groups", "take a divisor of num_heads", err,
                          "%" PRId64 " heads do not form %" PRId64 " groups", m.mixer.heads, m.mixer.groups);
  if (m.mixer.step_most > 0 && m.mixer.step_most <= m.mixer.step_least)
    return hr__scope_fail(r, "config.time_step_limit", "write the lesser one first, as [0.0, 0.1]", err,
                          "step sizes cannot lie between %g and %g", (double)m.mixer.step_least,
                          (double)m.mixer.step_most);
  if (!countable(&m))
    return hr__scope_fail(r, "config.hidden_size", "use smaller sizes", err,
                          "the model would have more than %" PRId64 " parameters", HR_PARAMETERS_MAX);
  return HR_OK;
}

static hr_id embed(hr_builder *b, const hr_model_part *part, const hr_model_batch *batch) {
  mamba2 m = mamba2_read(&part->scope);
  hr__module(b, "backbone.embeddings");
  hr_id table = hr__table(b, "backbone.embeddings", m.vocab, m.mixer.width, m.std);
  return hr__embedding(b, batch->tokens, table);
}

/* A position sees those before it in its document: what lies behind a sample changes nothing. */
static hr_id body(hr_builder *b, const hr_model_part *part, hr_id x, const hr_model_batch *batch) {
  mamba2 m = mamba2_read(&part->scope);
  char path[PATH];
  for (int64_t layer = 0; layer < m.layers; layer++) {
    hr__block_begin(b, "backbone.layers.%" PRId64, layer);
    snprintf(path, sizeof path, "backbone.layers.%" PRId64 ".norm", layer);
    hr_id y = hr__rmsnorm_module(b, path, m.mixer.width, m.mixer.eps, x);
    snprintf(path, sizeof path, "backbone.layers.%" PRId64 ".mixer", layer);
    x = hr__mixer_module(b, path, &m.mixer, y, batch->starts, batch, x);
    hr__block_end(b);
  }
  return hr__rmsnorm_module(b, "backbone.norm_f", m.mixer.width, m.mixer.eps, x);
}

static hr_id head_declare(hr_builder *b, const hr_model_part *part) {
  mamba2 m = mamba2_read(&part->scope);
  hr__module(b, "lm_head");
  return hr__table(b, m.tied ? "backbone.embeddings" : "lm_head", m.vocab, m.mixer.width, m.std);
}

static hr_id loss(hr_builder *b, const hr_model_part *part, hr_id hidden, const hr_model_batch *batch) {
  return hr__head_loss(b, hidden, head_declare(b, part), batch->targets);
}

static hr_id logits(hr_builder *b, const hr_model_part *part, hr_id hidden) {
  return hr__linear(b, hidden, head_declare(b, part), HR_NONE);
}

static int64_t vocabulary(const hr_model_part *part) {
  return hr__scope_int(&part->scope, "config.vocab_size");
}

/* An upper limit that is none is written as the public library does: JSON has no word for it. */
static json_t *limits_json(const hr_mixer *m) {
  json_t *most = m->step_most > 0 ? json_real((double)m->step_most) : json_pack("{s:s}", "__float__", "Infinity");
  return json_pack("[f, o]", (double)m->step_least, most);
}

static json_t *config_json(const hr_model_part *part) {
  const hr_scope *r = &part->scope;
  mamba2 m = mamba2_read(r);
  bool narrow = strcmp(hr__scope_precision(r), "bf16-true") == 0; /* else there are f32 masters */
  hr__json_init();
  return json_pack(
      "{s:[s], s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:I, s:I, s:b, s:b, s:f, s:f, s:o, "
      "s:b, s:b, s:n, s:n, s:n}",
      "architectures", "Mamba2ForCausalLM", "model_type", "mamba2", "hidden_act", "silu", "torch_dtype",
      narrow ? "bfloat16" : "float32", "vocab_size", (json_int_t)m.vocab, "hidden_size", (json_int_t)m.mixer.width,
      "num_hidden_layers", (json_int_t)m.layers, "state_size", (json_int_t)m.mixer.state, "num_heads",
      (json_int_t)m.mixer.heads, "head_dim", (json_int_t)m.mixer.head_dim, "n_groups", (json_int_t)m.mixer.groups,
      "expand", hr__scope_float(r, "config.expand"), "conv_kernel", (json_int_t)m.mixer.kernel, "chunk_size",
      (json_int_t)m.mixer.chunk, "use_bias", (int)m.mixer.biased, "use_conv_bias", (int)m.mixer.conv_biased,
      "layer_norm_epsilon", hr__scope_float(r, "config.layer_norm_epsilon"), "initializer_range",
      hr__scope_float(r, "config.initializer_range"), "time_step_limit", limits_json(&m.mixer), "tie_word_embeddings",
      (int)m.tied, "use_cache", 1, "bos_token_id", "eos_token_id", "pad_token_id");
}

/* The second copy of a tied head, and the head of a part, which has none. */
static hr_unused unused(const hr_model_part *part, const char *tensor) {
  if (strcmp(tensor, "lm_head.weight") != 0) return HR_UNUSED_WRONG;
  return *part->name && !hr__scope_bool(&part->scope, "config.tie_word_embeddings") ? HR_UNUSED_KEPT : HR_UNUSED_AGAIN;
}

/* Checkpoints of the authors' own library. */
static const char *other_name(const char *parameter, int i, char out[HR_TENSOR_NAME]) {
  if (i > 0 || strcmp(parameter, "backbone.embeddings.weight") != 0) return NULL;
  snprintf(out, HR_TENSOR_NAME, "backbone.embedding.weight");
  return out;
}

static const char *const targets[] = {"in_proj", "out_proj"};

const hr_model hr_model_mamba2 = {
    .family = "mamba2",
    .keys = {&key_table},
    .task = "ForCausalLM",
    .targets = targets,
    .n_targets = sizeof targets / sizeof *targets,
    .check = check,
    .embed = embed,
    .body = body,
    .loss = loss,
    .logits = logits,
    .onward = true,
    .head = "lm_head",
    .forward = hr__model_forward,
    .vocabulary = vocabulary,
    .config_json = config_json,
    .unused = unused,
    .body_name = "backbone.",
    .other_name = other_name,
};
