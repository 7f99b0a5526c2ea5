/* The families of decoders: what distinguishes them, their defaults, and the config.json that a run saves. */
#include <assert.h>
#include <string.h>

#include "format/json.h"
#include "model/decoder.h"
#include "model/text_keys.h"

static const hr_decoder_family families[] = {
    {.name = "llama", .architecture = "LlamaForCausalLM"},
    {.name = "mistral", .architecture = "MistralForCausalLM", .windows = HR_WINDOWS_ALL},
    {.name = "qwen2", .architecture = "Qwen2ForCausalLM", .input_biases = true, .windows = HR_WINDOWS_LAYERS},
    {.name = "qwen3", .architecture = "Qwen3ForCausalLM", .head_norms = true, .windows = HR_WINDOWS_LAYERS},
    {.name = "gemma3",
     .architecture = "Gemma3ForCausalLM",
     .head_norms = true,
     .raised_norms = true,
     .outer_norms = true,
     .gelu = true,
     .scaled_embedding = true,
     .local_rope = true,
     .windows = HR_WINDOWS_PATTERN},
};

const hr_decoder_family *hr__decoder_family(const char *name) {
  size_t i = 0, count = sizeof families / sizeof *families;
  while (i < count && strcmp(families[i].name, name) != 0)
    i++;
  assert(i < count);
  return &families[i];
}

static int64_t vocabulary(const hr_model_part *part) {
  return hr__scope_int(&part->scope, "config.vocab_size");
}

static json_t *layer_types_json(const hr_decoder *m) {
  json_t *list = json_array();
  for (int64_t i = 0; i < m->layers; i++)
    json_array_append_new(list, json_string(hr__decoder_slides(m, i) ? "sliding_attention" : "full_attention"));
  return list;
}

/* Numbers keep the recipe's double: a float would turn 1e-6 into 9.99999997e-07. Other token numbers are not known
 * here: null keeps readers of the file from assuming their own. */
static json_t *common_json(const hr_model_part *part, const hr_decoder *m) {
  const hr_scope *r = &part->scope;
  bool narrow = strcmp(hr__scope_precision(r), "bf16-true") == 0; /* else there are f32 masters */
  return json_pack("{s:[s], s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:b, s:f, s:f, s:o, s:n, "
                   "s:n, s:n, s:b}",
                   "architectures", m->family->architecture, "model_type",
                   part->model->model_type ? part->model->model_type : m->family->name,
                   m->family->gelu ? "hidden_activation" : "hidden_act", m->family->gelu ? "gelu_pytorch_tanh" : "silu",
                   "torch_dtype", narrow ? "bfloat16" : "float32", "vocab_size", (json_int_t)m->vocab, "hidden_size",
                   (json_int_t)m->hidden, "intermediate_size", (json_int_t)m->inner, "num_hidden_layers",
                   (json_int_t)m->layers, "num_attention_heads", (json_int_t)m->heads, "num_key_value_heads",
                   (json_int_t)m->kv_heads, "head_dim", (json_int_t)m->head_dim, "max_position_embeddings",
                   (json_int_t)m->positions, "initializer_range", hr__scope_float(r, "config.initializer_range"),
                   "rms_norm_eps", hr__scope_float(r, "config.rms_norm_eps"), "tie_word_embeddings", (int)m->tied,
                   "attention_dropout", hr__scope_float(r, "config.attention_dropout"), "rope_theta", m->theta,
                   "rope_scaling", hr__rope_json(r, m), "bos_token_id", "eos_token_id", "pad_token_id", "use_cache", 1);
}

json_t *hr__decoder_json(const hr_model_part *part) {
  const hr_scope *r = &part->scope;
  hr_decoder m = hr__decoder_read(r);
  const hr_decoder_family *family = m.family;
  hr__json_init();
  json_t *config = common_json(part, &m);
  if (!config) return NULL;
  int failed = 0;
  if (hr__padding_token(r) >= 0)
    failed |= json_object_set_new(config, "pad_token_id", json_integer(hr__padding_token(r)));
  if (hr__scope_has(r, "config.attention_bias"))
    failed |= json_object_set_new(config, "attention_bias", json_boolean(m.output_bias));
  if (hr__scope_has(r, "config.mlp_bias")) failed |= json_object_set_new(config, "mlp_bias", json_boolean(m.mlp_bias));
  if (family->windows != HR_WINDOWS_NONE)
    failed |= json_object_set_new(config, "sliding_window", m.window > 0 ? json_integer(m.window) : json_null());
  if (family->windows == HR_WINDOWS_LAYERS) {
    failed |= json_object_set_new(config, "use_sliding_window", json_boolean(m.window > 0));
    failed |= json_object_set_new(config, "max_window_layers", json_integer(m.first_windowed));
    if (m.layer_types) failed |= json_object_set_new(config, "layer_types", layer_types_json(&m));
  }
  if (family->windows == HR_WINDOWS_PATTERN) /* newer readers take layer_types, older ones the pattern */
    failed |= json_object_set_new(config, "layer_types", layer_types_json(&m)) |
              json_object_set_new(config, "sliding_window_pattern", json_integer(m.window_pattern));
  if (family->local_rope) failed |= json_object_set_new(config, "rope_local_base_freq", json_real(m.local_theta));
  if (hr__scope_has(r, "config.query_pre_attn_scalar"))
    failed |= json_object_set_new(config, "query_pre_attn_scalar",
                                  json_integer(hr__scope_int(r, "config.query_pre_attn_scalar")));
  if (failed == 0) return config;
  json_decref(config);
  return NULL;
}

/* Tables that a model computes itself, the second copy of a tied head, and the head of a part, which has none. */
static hr_unused unused(const hr_model_part *part, const char *tensor) {
  static const char frequencies[] = "rotary_emb.inv_freq";
  size_t length = strlen(tensor), tail = sizeof frequencies - 1;
  if (length >= tail && strcmp(tensor + length - tail, frequencies) == 0) return HR_UNUSED_AGAIN;
  if (strcmp(tensor, "lm_head.weight") != 0) return HR_UNUSED_WRONG;
  return *part->name && !hr__scope_bool(&part->scope, "config.tie_word_embeddings") ? HR_UNUSED_KEPT : HR_UNUSED_AGAIN;
}

static const char *const targets[] = {"q_proj", "k_proj", "v_proj", "o_proj"};

static hr_unused gemma_unused(const hr_model_part *part, const char *tensor) {
  const char *name = hr__gemma_text_name(tensor);
  return name ? unused(part, name) : HR_UNUSED_KEPT;
}

/* What all decoders have. */
#define COMMON(NAME)                                                                                                   \
  .family = #NAME, .task = "ForCausalLM", .targets = targets, .n_targets = sizeof targets / sizeof *targets,           \
  .check = hr__decoder_check, .embed = hr__decoder_embed, .body = hr__decoder_body, .loss = hr__decoder_loss,          \
  .logits = hr__decoder_logits, .head = "lm_head", .forward = hr__model_forward, .vocabulary = vocabulary,             \
  .config_json = hr__decoder_json, .body_name = "model."

/* NAME, the family's defaults, and its tables of keys beside those of all decoders. */
#define DECODER(NAME, DEFAULTS, ...)                                                                                   \
  const hr_model hr_model_##NAME = {                                                                                   \
      COMMON(NAME),         .keys = {&hr_text_keys, &hr_decoder_keys, __VA_ARGS__},                                    \
      .defaults = DEFAULTS, .config_read = hr__rope_config,                                                            \
      .unused = unused,     .torch = hr__decoder_torch,                                                                \
  }

DECODER(llama, NULL, &hr_decoder_attention_bias_keys, &hr_decoder_mlp_bias_keys);
DECODER(mistral,
        "{intermediate_size: 14336, num_key_value_heads: 8, max_position_embeddings: 131072, sliding_window: 4096}",
        &hr_decoder_window_keys);
DECODER(qwen2,
        "{vocab_size: 151936, intermediate_size: 22016, max_position_embeddings: 32768,"
        " use_sliding_window: false, sliding_window: 4096, max_window_layers: 28}",
        &hr_decoder_window_keys, &hr_decoder_layer_window_keys, &hr_decoder_layer_types_keys);
DECODER(qwen3,
        "{vocab_size: 151936, intermediate_size: 22016, max_position_embeddings: 32768, head_dim: 128,"
        " use_sliding_window: false, sliding_window: 4096, max_window_layers: 28}",
        &hr_decoder_attention_bias_keys, &hr_decoder_window_keys, &hr_decoder_layer_window_keys,
        &hr_decoder_layer_types_keys);

const hr_model hr_model_gemma3 = {
    COMMON(gemma3),
    .keys = {&hr_text_keys, &hr_decoder_keys, &hr_decoder_attention_bias_keys, &hr_decoder_window_keys,
             &hr_decoder_layer_types_keys, &hr_decoder_gemma_keys},
    .defaults = "{vocab_size: 262208, hidden_size: 2304, intermediate_size: 9216, num_hidden_layers: 26,"
                " num_attention_heads: 8, num_key_value_heads: 4, head_dim: 256, hidden_act: gelu_pytorch_tanh,"
                " max_position_embeddings: 131072, tie_word_embeddings: true, pad_token_id: 0, rope_theta: 1000000.0,"
                " rope_local_base_freq: 10000.0, query_pre_attn_scalar: 256, sliding_window: 4096,"
                " sliding_window_pattern: 6}",
    .model_type = "gemma3_text",
    .other_task = "ForConditionalGeneration",
    .config_read = hr__gemma_config,
    .unused = gemma_unused,
    .torch = hr__decoder_torch,
    .other_name = hr__gemma_other_name,
};
