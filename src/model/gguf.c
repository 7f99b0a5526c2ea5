/* Names of tensors and the order of their rows: see model/gguf.h. */
#include <stdio.h>
#include <string.h>

#include "model/gguf_arch.h"

static const hr_gguf_arch archs[] = {
    {.name = "llama", .model_type = "llama", .architecture = "LlamaForCausalLM", .pairs = true},
    {.name = "qwen2", .model_type = "qwen2", .architecture = "Qwen2ForCausalLM"},
    {.name = "qwen3", .model_type = "qwen3", .architecture = "Qwen3ForCausalLM"},
    {.name = "gemma2", .model_type = "gemma2", .architecture = "Gemma2ForCausalLM", .gemma = true},
    {.name = "gemma3", .model_type = "gemma3_text", .architecture = "Gemma3ForCausalLM", .gemma = true},
};

hr_status hr__gguf_arch(const hr_gguf *file, const hr_gguf_arch **out, hr_error *err) {
  hr_gguf_text name = {0};
  if (!hr__gguf_string(hr__gguf_value(file, "general.architecture"), 0, &name))
    return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "the GGUF file has no general.architecture");
  for (size_t i = 0; i < sizeof archs / sizeof archs[0]; i++)
    if (strlen(archs[i].name) == name.bytes && memcmp(archs[i].name, name.text, name.bytes) == 0) {
      *out = &archs[i];
      return HR_OK;
    }
  return hr__fail(err, HR_UNSUPPORTED, NULL, "llama, qwen2, qwen3, gemma2 and gemma3 are read",
                  "GGUF files of the architecture \"%.*s\" are not read", (int)(name.bytes > 60 ? 60 : name.bytes),
                  name.text);
}

/* Outside of the layers, and inside of them. `gemma`: what the gemma family calls it, where that differs. */
static const struct {
  const char *gguf, *name;
} outer[] = {{"token_embd", "model.embed_tokens"}, {"output_norm", "model.norm"}, {"output", "lm_head"}};
static const struct {
  const char *gguf, *name, *gemma;
} inner[] = {
    {"attn_norm", "input_layernorm", NULL},
    {"attn_q", "self_attn.q_proj", NULL},
    {"attn_k", "self_attn.k_proj", NULL},
    {"attn_v", "self_attn.v_proj", NULL},
    {"attn_output", "self_attn.o_proj", NULL},
    {"attn_q_norm", "self_attn.q_norm", NULL},
    {"attn_k_norm", "self_attn.k_norm", NULL},
    {"ffn_norm", "post_attention_layernorm", "pre_feedforward_layernorm"},
    {"ffn_gate", "mlp.gate_proj", NULL},
    {"ffn_up", "mlp.up_proj", NULL},
    {"ffn_down", "mlp.down_proj", NULL},
    {"post_attention_norm", NULL, "post_attention_layernorm"},
    {"post_ffw_norm", NULL, "post_feedforward_layernorm"},
};

static bool is(const char *text, size_t bytes, const char *word) {
  return strlen(word) == bytes && memcmp(text, word, bytes) == 0;
}

/* "blk.12.attn_q": the layer's number and what follows it; NULL: no layer. */
static const char *layer_read(const char *name, long *layer) {
  int read = 0;
  if (sscanf(name, "blk.%9ld.%n", layer, &read) != 1 || read == 0 || *layer < 0) return NULL;
  return name + read;
}

static hr_status heads_find(const hr_gguf *file, const hr_gguf_arch *arch, bool keys, int64_t rows, int64_t *head_rows,
                            hr_error *err) {
  int64_t heads = 0;
  if (!hr__gguf_setting(file, arch, keys ? "attention.head_count_kv" : "attention.head_count", &heads) && keys)
    hr__gguf_setting(file, arch, "attention.head_count", &heads);
  if (heads < 1 || rows % heads || (rows / heads) % 2)
    return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "%lld rows of %c do not make %lld heads", (long long)rows,
                    keys ? 'k' : 'q', (long long)heads);
  *head_rows = rows / heads;
  return HR_OK;
}

hr_status hr__gguf_weight(const hr_gguf *file, const hr_gguf_tensor *tensor, hr_gguf_weight *out, hr_error *err) {
  const hr_gguf_arch *arch = NULL;
  long layer = 0;
  HR_TRY(hr__gguf_arch(file, &arch, err));
  *out = (hr_gguf_weight){0};
  if (strcmp(tensor->name, "rope_freqs.weight") == 0) return HR_OK; /* rope_scaling of the config */
  const char *part = layer_read(tensor->name, &layer), *kind = strrchr(tensor->name, '.'), *found = NULL;
  bool in_layer = part != NULL;
  if (!part) part = tensor->name;
  size_t bytes = kind && kind > part ? (size_t)(kind - part) : 0;
  bool known = kind && (strcmp(kind, ".weight") == 0 || strcmp(kind, ".bias") == 0);
  for (size_t i = 0; known && in_layer && i < sizeof inner / sizeof inner[0]; i++)
    if (is(part, bytes, inner[i].gguf)) found = arch->gemma && inner[i].gemma ? inner[i].gemma : inner[i].name;
  for (size_t i = 0; known && !in_layer && i < sizeof outer / sizeof outer[0]; i++)
    if (is(part, bytes, outer[i].gguf)) found = outer[i].name;
  if (!found)
    return hr__fail(err, HR_UNSUPPORTED, NULL, NULL,
                    "tensor \"%.200s\" is none that models of the architecture %s have", tensor->name, arch->name);
  if (in_layer)
    snprintf(out->name, sizeof out->name, "model.layers.%ld.%s%s", layer, found, kind);
  else
    snprintf(out->name, sizeof out->name, "%s%s", found, kind);
  out->raised = arch->gemma && bytes >= 4 && memcmp(part + bytes - 4, "norm", 4) == 0;
  bool queries = is(part, bytes, "attn_q"), keys = is(part, bytes, "attn_k");
  if (!arch->pairs || !(queries || keys) || tensor->rank < 1) return HR_OK;
  return heads_find(file, arch, keys, tensor->dim[0], &out->head_rows, err);
}

/* Where row `row` of the public checkpoint lies: element p of pair i of a head is its row p * half + i there, and
 * 2 i + p here. */
static int64_t row_in_file(const hr_gguf_weight *weight, int64_t row) {
  if (weight->head_rows == 0) return row;
  int64_t head = row / weight->head_rows, within = row % weight->head_rows, half = weight->head_rows / 2;
  return head * weight->head_rows + 2 * (within % half) + within / half;
}

int64_t hr__gguf_row_width(const hr_gguf_tensor *tensor, const hr_gguf_weight *weight) {
  if (tensor->rank > 1) return tensor->dim[tensor->rank - 1];
  return weight->head_rows > 0 || tensor->rank == 0 ? 1 : tensor->dim[0]; /* biases of q and k lie in pairs as well */
}

hr_status hr__gguf_row_read(const hr_gguf *file, const hr_gguf_tensor *tensor, const hr_gguf_weight *weight,
                            int64_t row, int64_t first, int64_t count, float *out, hr_error *err) {
  int64_t width = hr__gguf_row_width(tensor, weight);
  HR_TRY(hr__gguf_read_f32(file, tensor, row_in_file(weight, row) * width + first, count, out, err));
  for (int64_t i = 0; weight->raised && i < count; i++)
    out[i] -= 1.0f;
  return HR_OK;
}
