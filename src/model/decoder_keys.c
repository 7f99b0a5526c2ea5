/* The settings of decoders under model.config. Defaults are Llama's; those of the other families are in decoders.c. */
#include "model/decoder.h"

#define ROPE_CHOICES "default|llama3"

enum { LAYERS_MAX = 1024, HEADS_MAX = 1 << 16, WIDTH_MAX = 1 << 24, POSITIONS_MAX = 1 << 30 };

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
    {.path = HR_MODEL_CONFIG "vocab_size",
     .type = HR_KEY_INT,
     .fallback = "32000",
     .min = 1,
     .max = WIDTH_MAX,
     .meaning = "number of different tokens"},
    {.path = HR_MODEL_CONFIG "hidden_size",
     .type = HR_KEY_INT,
     .fallback = "4096",
     .min = 1,
     .max = WIDTH_MAX,
     .meaning = "width of the residual stream"},
    {.path = HR_MODEL_CONFIG "intermediate_size",
     .type = HR_KEY_INT,
     .fallback = "11008",
     .min = 1,
     .max = WIDTH_MAX,
     .meaning = "width of the gated MLP"},
    {.path = HR_MODEL_CONFIG "num_hidden_layers",
     .type = HR_KEY_INT,
     .fallback = "32",
     .min = 1,
     .max = LAYERS_MAX,
     .meaning = "number of layers"},
    {.path = HR_MODEL_CONFIG "num_attention_heads",
     .type = HR_KEY_INT,
     .fallback = "32",
     .min = 1,
     .max = HEADS_MAX,
     .meaning = "number of query heads"},
    {.path = HR_MODEL_CONFIG "num_key_value_heads",
     .type = HR_KEY_INT,
     .min = 1,
     .max = HEADS_MAX,
     .meaning = "number of key and value heads (default: as many as query heads)"},
    {.path = HR_MODEL_CONFIG "head_dim",
     .type = HR_KEY_INT,
     .min = 2,
     .max = HEADS_MAX,
     .meaning = "width of a head, even (default: hidden_size / num_attention_heads)"},
    {.path = HR_MODEL_CONFIG "hidden_act",
     .type = HR_KEY_CHOICE,
     .fallback = "silu",
     .choices = "silu|gelu|gelu_new|gelu_pytorch_tanh",
     .meaning = "activation of the MLP: silu in decoders"},
    {.path = HR_MODEL_CONFIG "max_position_embeddings",
     .type = HR_KEY_INT,
     .fallback = "2048",
     .min = 1,
     .max = POSITIONS_MAX,
     .meaning = "longest sequence the model is made for"},
    {.path = HR_MODEL_CONFIG "initializer_range",
     .type = HR_KEY_FLOAT,
     .fallback = "0.02",
     .min = 0,
     .max = 100,
     .meaning = "standard deviation of fresh weights"},
    {.path = HR_MODEL_CONFIG "rms_norm_eps",
     .type = HR_KEY_FLOAT,
     .fallback = "1e-6",
     .min = 0,
     .max = 1,
     .meaning = "added to the mean square in norms"},
    {.path = HR_MODEL_CONFIG "tie_word_embeddings",
     .type = HR_KEY_BOOL,
     .fallback = "false",
     .meaning = "the head uses the embedding's weight"},
    {.path = HR_MODEL_CONFIG "attention_bias",
     .type = HR_KEY_BOOL,
     .fallback = "false",
     .meaning = "biases in the projections of attention (llama, qwen3)"},
    {.path = HR_MODEL_CONFIG "mlp_bias",
     .type = HR_KEY_BOOL,
     .fallback = "false",
     .meaning = "biases in the MLP (llama)"},
    {.path = HR_MODEL_CONFIG "attention_dropout",
     .type = HR_KEY_FLOAT,
     .fallback = "0.0",
     .min = 0,
     .max = 1,
     .meaning = "only 0 is supported"},
    {.path = HR_MODEL_CONFIG "sliding_window",
     .type = HR_KEY_INT,
     .min = 1,
     .max = POSITIONS_MAX,
     .meaning = "keys that a query sees at most, its own included (mistral: 4096, null for all; qwen2, qwen3: 4096)"},
    {.path = HR_MODEL_CONFIG "use_sliding_window",
     .type = HR_KEY_BOOL,
     .meaning = "whether layers have the window (qwen2, qwen3: false)"},
    {.path = HR_MODEL_CONFIG "max_window_layers",
     .type = HR_KEY_INT,
     .min = 0,
     .max = LAYERS_MAX,
     .meaning = "leading layers without the window (qwen2, qwen3: 28)"},
    {.path = HR_MODEL_CONFIG "layer_types",
     .type = HR_KEY_TEXTS,
     .meaning = "full_attention or sliding_attention for each layer, instead of max_window_layers (qwen2, qwen3)"},
    {.path = HR_MODEL_CONFIG "rope_theta",
     .type = HR_KEY_FLOAT,
     .fallback = "10000.0",
     .min = 1,
     .max = 1e12,
     .meaning = "base of the rotary frequencies"},
    ROPE_KEYS(HR_MODEL_CONFIG "rope_scaling"),
    {.path = HR_MODEL_CONFIG "rope_parameters.rope_theta",
     .type = HR_KEY_FLOAT,
     .min = 1,
     .max = 1e12,
     .meaning = "base of the rotary frequencies"},
    ROPE_KEYS(HR_MODEL_CONFIG "rope_parameters"),
};
const hr_key_table hr_decoder_keys = {keys, sizeof keys / sizeof *keys};
