/* The settings of decoders under config, table by table: which of them a family has is said in decoders.c. Defaults are
 * Llama's. */
#include "model/decoder.h"
#include "model/text_keys.h"

#define ROPE_KEYS(section)                                                                                             \
  {.path = section ".rope_type",                                                                                       \
   .type = HR_KEY_TEXT,                                                                                                \
   .example = "llama3",                                                                                                \
   .meaning = "default: plain rotary positions; linear: all stretched; llama3: slow frequencies stretched"},           \
      {.path = section ".factor",                                                                                      \
       .type = HR_KEY_FLOAT,                                                                                           \
       .min = 1,                                                                                                       \
       .max = 1e6,                                                                                                     \
       .meaning = "linear, llama3: how far to stretch"},                                                               \
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
    .path = section ".original_max_position_embeddings", .type = HR_KEY_INT, .min = 1, .max = HR_POSITIONS_MAX,        \
    .meaning = "llama3: length before stretching"                                                                      \
  }

static const hr_key keys[] = {
    {.path = "*.config.num_key_value_heads",
     .type = HR_KEY_INT,
     .min = 1,
     .max = HR_HEADS_MAX,
     .meaning = "number of key and value heads (default: as many as query heads)"},
    {.path = "*.config.head_dim",
     .type = HR_KEY_INT,
     .min = 2,
     .max = HR_HEADS_MAX,
     .meaning = "width of a head, even (default: hidden_size / num_attention_heads)"},
    {.path = "*.config.rms_norm_eps",
     .type = HR_KEY_FLOAT,
     .fallback = "1e-6",
     .min = 0,
     .max = 1,
     .meaning = "added to the mean square in norms"},
    {.path = "*.config.attention_dropout",
     .type = HR_KEY_FLOAT,
     .fallback = "0.0",
     .min = 0,
     .max = 0.99,
     .meaning = "part of the attention's probabilities that is dropped in training"},
    {.path = "*.config.rope_theta",
     .type = HR_KEY_FLOAT,
     .fallback = "10000.0",
     .min = 1,
     .max = 1e12,
     .meaning = "base of the rotary frequencies"},
    ROPE_KEYS("*.config.rope_scaling"),
    {.path = "*.config.rope_parameters.rope_theta",
     .type = HR_KEY_FLOAT,
     .min = 1,
     .max = 1e12,
     .meaning = "base of the rotary frequencies"},
    ROPE_KEYS("*.config.rope_parameters"),
};
const hr_key_table hr_decoder_keys = {keys, sizeof keys / sizeof *keys};

static const hr_key attention_bias_keys[] = {
    {.path = "*.config.attention_bias",
     .type = HR_KEY_BOOL,
     .fallback = "false",
     .meaning = "biases in the projections of attention (llama, qwen3, gemma3)"},
};
const hr_key_table hr_decoder_attention_bias_keys = {attention_bias_keys,
                                                     sizeof attention_bias_keys / sizeof *attention_bias_keys};

static const hr_key mlp_bias_keys[] = {
    {.path = "*.config.mlp_bias", .type = HR_KEY_BOOL, .fallback = "false", .meaning = "biases in the MLP (llama)"},
};
const hr_key_table hr_decoder_mlp_bias_keys = {mlp_bias_keys, sizeof mlp_bias_keys / sizeof *mlp_bias_keys};

static const hr_key window_keys[] = {
    {.path = "*.config.sliding_window",
     .type = HR_KEY_INT,
     .min = 1,
     .max = HR_POSITIONS_MAX,
     .meaning = "keys that a query sees at most, its own included (mistral: 4096, null for all; others: 4096)"},
};
const hr_key_table hr_decoder_window_keys = {window_keys, sizeof window_keys / sizeof *window_keys};

static const hr_key layer_window_keys[] = {
    {.path = "*.config.use_sliding_window",
     .type = HR_KEY_BOOL,
     .meaning = "whether layers have the window (qwen2, qwen3: false)"},
    {.path = "*.config.max_window_layers",
     .type = HR_KEY_INT,
     .min = 0,
     .max = HR_LAYERS_MAX,
     .meaning = "leading layers without the window (qwen2, qwen3: 28)"},
};
const hr_key_table hr_decoder_layer_window_keys = {layer_window_keys,
                                                   sizeof layer_window_keys / sizeof *layer_window_keys};

static const hr_key layer_types_keys[] = {
    {.path = "*.config.layer_types",
     .type = HR_KEY_TEXTS,
     .meaning = "full_attention or sliding_attention for each layer, instead of max_window_layers (qwen2, qwen3) and "
                "sliding_window_pattern (gemma3)"},
};
const hr_key_table hr_decoder_layer_types_keys = {layer_types_keys, sizeof layer_types_keys / sizeof *layer_types_keys};

static const hr_key gemma_keys[] = {
    {.path = "*.config.sliding_window_pattern",
     .type = HR_KEY_INT,
     .min = 1,
     .max = HR_LAYERS_MAX,
     .meaning = "each layer of that number, counted from 1, has no window, all others have it (gemma3: 6)"},
    {.path = "*.config.rope_local_base_freq",
     .type = HR_KEY_FLOAT,
     .min = 1,
     .max = 1e12,
     .meaning = "base of the rotary frequencies in layers with the window (gemma3: 10000)"},
    {.path = "*.config.query_pre_attn_scalar",
     .type = HR_KEY_INT,
     .min = 1,
     .max = 1 << 30,
     .meaning = "scores of the attention are divided by its square root, instead of head_dim's (gemma3: 256)"},
};
const hr_key_table hr_decoder_gemma_keys = {gemma_keys, sizeof gemma_keys / sizeof *gemma_keys};
