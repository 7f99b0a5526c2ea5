/* Settings under config that all text models have. */
#include "model/text_keys.h"

#include <inttypes.h>

static const hr_key keys[] = {
    {.path = "*.config.vocab_size",
     .type = HR_KEY_INT,
     .fallback = "32000",
     .min = 1,
     .max = HR_WIDTH_MAX,
     .meaning = "number of different tokens"},
    {.path = "*.config.pad_token_id",
     .type = HR_KEY_INT,
     .min = -HR_WIDTH_MAX,
     .max = HR_WIDTH_MAX,
     .meaning =
         "token of padding, whose row of the embedding gets no gradient from being read; below 0: counted from the "
         "end (default: that of the family, if any)"},
    {.path = "*.config.hidden_size",
     .type = HR_KEY_INT,
     .fallback = "4096",
     .min = 1,
     .max = HR_WIDTH_MAX,
     .meaning = "width of the residual stream"},
    {.path = "*.config.intermediate_size",
     .type = HR_KEY_INT,
     .fallback = "11008",
     .min = 1,
     .max = HR_WIDTH_MAX,
     .meaning = "width of the gated MLP"},
    {.path = "*.config.num_hidden_layers",
     .type = HR_KEY_INT,
     .fallback = "32",
     .min = 1,
     .max = HR_LAYERS_MAX,
     .meaning = "number of layers"},
    {.path = "*.config.num_attention_heads",
     .type = HR_KEY_INT,
     .fallback = "32",
     .min = 1,
     .max = HR_HEADS_MAX,
     .meaning = "number of query heads"},
    {.path = "*.config.hidden_act",
     .type = HR_KEY_CHOICE,
     .fallback = "silu",
     .choices = "silu|gelu|gelu_new|gelu_pytorch_tanh",
     .meaning = "activation of the MLP: silu in decoders, gelu_pytorch_tanh in gemma3"},
    {.path = "*.config.max_position_embeddings",
     .type = HR_KEY_INT,
     .fallback = "2048",
     .min = 1,
     .max = HR_POSITIONS_MAX,
     .meaning = "longest sequence the model is made for"},
    {.path = "*.config.initializer_range",
     .type = HR_KEY_FLOAT,
     .fallback = "0.02",
     .min = 0,
     .max = 100,
     .meaning = "standard deviation of fresh weights"},
    {.path = "*.config.tie_word_embeddings",
     .type = HR_KEY_BOOL,
     .fallback = "false",
     .meaning = "the head uses the embedding's weight"},
};
const hr_key_table hr_text_keys = {keys, sizeof keys / sizeof *keys};

static const char PADDING[] = "config.pad_token_id";

int64_t hr__padding_token(const hr_scope *scope) {
  if (!hr__scope_has(scope, PADDING)) return -1;
  int64_t token = hr__scope_int(scope, PADDING), vocabulary = hr__scope_int(scope, "config.vocab_size");
  return token < 0 ? token + vocabulary : token;
}

hr_status hr__padding_check(const hr_scope *scope, hr_error *err) {
  int64_t vocabulary = hr__scope_int(scope, "config.vocab_size");
  if (!hr__scope_has(scope, PADDING)) return HR_OK;
  if (hr__padding_token(scope) >= 0 && hr__padding_token(scope) < vocabulary) return HR_OK;
  char remedy[HR_SCOPE_PATH];
  return hr__scope_fail(scope, PADDING, hr__scope_remedy(scope, "config.pad_token_id=null", remedy), err,
                        "%s.%s (%" PRId64 ") is not in the vocabulary of %" PRId64 " tokens", scope->section, PADDING,
                        hr__scope_int(scope, PADDING), vocabulary);
}
