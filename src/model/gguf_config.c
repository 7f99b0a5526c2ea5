/* config.json out of the keys of a GGUF file. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "format/json.h"
#include "model/gguf_arch.h"

static const hr_gguf_value *value_of(const hr_gguf *file, const hr_gguf_arch *arch, const char *key) {
  char whole[128];
  snprintf(whole, sizeof whole, "%s.%s", arch->name, key);
  return hr__gguf_value(file, whole);
}

bool hr__gguf_setting(const hr_gguf *file, const hr_gguf_arch *arch, const char *key, int64_t *out) {
  return hr__gguf_integer(value_of(file, arch, key), 0, out);
}

/* Keys that are the same number under two names. */
static const struct {
  const char *gguf, *name;
  bool real, required;
} numbers[] = {
    {"block_count", "num_hidden_layers", false, true},
    {"context_length", "max_position_embeddings", false, true},
    {"embedding_length", "hidden_size", false, true},
    {"feed_forward_length", "intermediate_size", false, true},
    {"attention.head_count", "num_attention_heads", false, true},
    {"attention.head_count_kv", "num_key_value_heads", false, false},
    {"attention.key_length", "head_dim", false, false},
    {"attention.sliding_window", "sliding_window", false, false},
    {"attention.layer_norm_rms_epsilon", "rms_norm_eps", true, true},
    {"rope.freq_base", "rope_theta", true, false},
    {"rope.freq_base_swa", "rope_local_base_freq", true, false},
    {"attn_logit_softcapping", "attn_logit_softcapping", true, false},
    {"final_logit_softcapping", "final_logit_softcapping", true, false},
};

/* A float of the file as people write it: 1e-6, not 9.99999997e-07. */
static double shortest(double value) {
  for (int digits = 1; digits < 9; digits++) {
    char text[32];
    double shown;
    snprintf(text, sizeof text, "%.*g", digits, value);
    if (sscanf(text, "%lf", &shown) == 1 && (float)shown == (float)value) return shown;
  }
  return value;
}

static hr_status numbers_put(const hr_gguf *file, const hr_gguf_arch *arch, const char *name, json_t *config,
                             hr_error *err) {
  for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
    const hr_gguf_value *value = value_of(file, arch, numbers[i].gguf);
    int64_t integer;
    double real;
    if (!value && !numbers[i].required) continue;
    if (value && value->count != 1)
      return hr__fail(err, HR_UNSUPPORTED, name, NULL, "%s: layers that differ from each other are not supported",
                      value->key);
    json_t *number = NULL;
    if (numbers[i].real && hr__gguf_real(value, 0, &real))
      number = json_real(shortest(real));
    else if (!numbers[i].real && hr__gguf_integer(value, 0, &integer) && integer >= 0)
      number = json_integer(integer);
    else
      return hr__fail(err, HR_BAD_INPUT, name, NULL, "%s.%s is missing or not a number", arch->name, numbers[i].gguf);
    if (json_object_set_new(config, numbers[i].name, number) != 0) return hr__nomem(err);
  }
  return HR_OK;
}

static hr_status vocabulary_put(const hr_gguf *file, const hr_gguf_arch *arch, const char *name, json_t *config,
                                hr_error *err) {
  const hr_gguf_tensor *table = hr__gguf_find(file, "token_embd.weight");
  int64_t count = table && table->rank == 2 ? table->dim[0] : 0;
  if (!table) hr__gguf_setting(file, arch, "vocab_size", &count);
  if (count < 1)
    return hr__fail(err, HR_BAD_INPUT, name, NULL, "there is no token_embd.weight, which says the vocabulary");
  bool tied = !hr__gguf_find(file, "output.weight");
  if (json_object_set_new(config, "vocab_size", json_integer(count)) != 0 ||
      json_object_set_new(config, "tie_word_embeddings", json_boolean(tied)) != 0)
    return hr__nomem(err);
  return HR_OK;
}

/* Ids of tokens that models begin and end texts with. */
static hr_status roles_put(const hr_gguf *file, json_t *config, hr_error *err) {
  static const char *const roles[] = {"bos_token_id", "eos_token_id"};
  for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) {
    char key[64];
    int64_t id;
    snprintf(key, sizeof key, "tokenizer.ggml.%s", roles[i]);
    if (hr__gguf_integer(hr__gguf_value(file, key), 0, &id) && id >= 0 &&
        json_object_set_new(config, roles[i], json_integer(id)) != 0)
      return hr__nomem(err);
  }
  return HR_OK;
}

/* What Llama 3 stretches the wave of a pair by: all of the long ones, none of the short ones, and in between by how
 * often it turns within the original context. */
enum { ORIGINAL = 8192, LOW = 1, HIGH = 4 };
static double llama3_factor(double theta, int64_t pair, int64_t head_dim, double factor) {
  double wave = 2 * 3.14159265358979323846 * pow(theta, 2.0 * (double)pair / (double)head_dim);
  if (wave < (double)ORIGINAL / HIGH) return 1;
  if (wave > (double)ORIGINAL / LOW) return factor;
  double smooth = (ORIGINAL / wave - LOW) / (HIGH - LOW);
  return 1 / ((1 - smooth) / factor + smooth);
}

/* rope_freqs.weight has a factor for each pair; those that Llama 3 makes are told by the largest. */
static hr_status rope_freqs_put(const hr_gguf *file, const hr_gguf_tensor *tensor, const char *name, json_t *config,
                                hr_error *err) {
  enum { MOST = 512 };
  float factors[MOST];
  double theta = json_real_value(json_object_get(config, "rope_theta"));
  if (tensor->elements < 2 || tensor->elements > MOST || theta <= 0)
    return hr__fail(err, HR_BAD_INPUT, name, NULL, "rope_freqs.weight has %lld factors", (long long)tensor->elements);
  HR_TRY(hr__gguf_read_f32(file, tensor, 0, tensor->elements, factors, err));
  double factor = (double)factors[tensor->elements - 1];
  for (int64_t i = 0; i < tensor->elements; i++)
    if (!(fabs((double)factors[i] - llama3_factor(theta, i, 2 * tensor->elements, factor)) < 1e-3 * factor))
      return hr__fail(err, HR_UNSUPPORTED, name, NULL,
                      "rope_freqs.weight stretches positions in a way that is not known");
  json_t *scaling =
      json_pack("{s:s, s:f, s:f, s:f, s:i}", "rope_type", "llama3", "factor", factor, "low_freq_factor", (double)LOW,
                "high_freq_factor", (double)HIGH, "original_max_position_embeddings", ORIGINAL);
  return json_object_set_new(config, "rope_scaling", scaling) == 0 ? HR_OK : hr__nomem(err);
}

static hr_status rope_put(const hr_gguf *file, const hr_gguf_arch *arch, const char *name, json_t *config,
                          hr_error *err) {
  const hr_gguf_tensor *freqs = hr__gguf_find(file, "rope_freqs.weight");
  hr_gguf_text type = {0};
  double factor = 1;
  if (freqs) return rope_freqs_put(file, freqs, name, config, err);
  if (!hr__gguf_string(value_of(file, arch, "rope.scaling.type"), 0, &type)) return HR_OK;
  if (type.bytes == 4 && memcmp(type.text, "none", 4) == 0) return HR_OK;
  hr__gguf_real(value_of(file, arch, "rope.scaling.factor"), 0, &factor);
  json_t *scaling = json_pack("{s:s%, s:f}", "rope_type", type.text, type.bytes, "factor", shortest(factor));
  int64_t original;
  bool added = true;
  if (hr__gguf_setting(file, arch, "rope.scaling.original_context_length", &original))
    added = json_object_set_new(scaling, "original_max_position_embeddings", json_integer(original)) == 0;
  /* The config takes it over, also where that fails. */
  return json_object_set_new(config, "rope_scaling", scaling) == 0 && added ? HR_OK : hr__nomem(err);
}

/* What the scores of gemma3 are divided by the square root of, which files do not say: the width of a head, but in the
 * model of 62 layers (27B) what a head would have of the hidden width. */
static hr_status gemma_put(const hr_gguf *file, const hr_gguf_arch *arch, json_t *config, hr_error *err) {
  int64_t layers = 0, hidden = 0, heads = 0, divisor = 0;
  if (strcmp(arch->name, "gemma3") != 0) return HR_OK;
  hr__gguf_setting(file, arch, "block_count", &layers);
  hr__gguf_setting(file, arch, "embedding_length", &hidden);
  hr__gguf_setting(file, arch, "attention.head_count", &heads);
  if (layers == 62 && heads > 0)
    divisor = hidden / heads;
  else
    hr__gguf_setting(file, arch, "attention.key_length", &divisor);
  if (divisor < 1) return HR_OK;
  return json_object_set_new(config, "query_pre_attn_scalar", json_integer(divisor)) == 0 ? HR_OK : hr__nomem(err);
}

static hr_status config_fill(const hr_gguf *file, const hr_gguf_arch *arch, const char *name, json_t *config,
                             hr_error *err) {
  HR_TRY(numbers_put(file, arch, name, config, err));
  HR_TRY(vocabulary_put(file, arch, name, config, err));
  HR_TRY(roles_put(file, config, err));
  HR_TRY(gemma_put(file, arch, config, err));
  if (hr__gguf_find(file, "blk.0.attn_output.bias") && json_object_set_new(config, "attention_bias", json_true()) != 0)
    return hr__nomem(err);
  return rope_put(file, arch, name, config, err);
}

hr_status hr__gguf_config(const hr_gguf *file, const char *name, hr_arena *arena, char **text, size_t *bytes,
                          hr_error *err) {
  const hr_gguf_arch *arch = NULL;
  HR_TRY(hr__gguf_arch(file, &arch, err));
  hr__json_init();
  const char *act = arch->gemma ? "hidden_activation" : "hidden_act";
  json_t *config = json_pack("{s:[s], s:s, s:s}", "architectures", arch->architecture, "model_type", arch->model_type,
                             act, arch->gemma ? "gelu_pytorch_tanh" : "silu");
  hr_status status = config ? config_fill(file, arch, name, config, err) : hr__nomem(err);
  if (status == HR_OK) status = hr__json_text(config, JSON_INDENT(2), arena, text, bytes, err);
  json_decref(config);
  return status;
}
