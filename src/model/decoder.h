/* Decoders: RMSNorm, grouped-query attention with rotary positions, gated MLP; tied or untied head. One core
 * (decoder.c); what distinguishes the families is data (hr_decoder_family).
 *
 * Settings and parameter names are those of the public checkpoints (config.json, model.safetensors). Shapes in
 * comments: B batch, T length, H hidden, D head_dim, Q query heads, K key-value heads, I intermediate, V vocabulary.
 */
#ifndef HR_MODEL_DECODER_H
#define HR_MODEL_DECODER_H

#include "model/model.h"
#include "op/rope.h"

/* Which layers see only a window of keys. */
typedef enum hr_decoder_windows {
  HR_WINDOWS_NONE,
  HR_WINDOWS_ALL,    /* every layer, where sliding_window is a number */
  HR_WINDOWS_LAYERS, /* with use_sliding_window: those that layer_types names, or all from max_window_layers on */
  HR_WINDOWS_PATTERN /* those that layer_types names, or all but each sliding_window_pattern-th */
} hr_decoder_windows;

typedef struct hr_decoder_family {
  const char *name, *architecture;
  bool input_biases;     /* q, k and v have biases, whatever the settings */
  bool head_norms;       /* q and k are normed head by head, before they are rotated */
  bool raised_norms;     /* norms multiply by 1 + their weight, which begins as 0 */
  bool outer_norms;      /* what attention and the MLP give is normed as well, before it is added */
  bool gelu;             /* the gate of the MLP is gelu by tanh; else silu */
  bool scaled_embedding; /* by sqrt(hidden) */
  bool local_rope;       /* layers with a window have a rotary base of their own, and nothing stretched */
  hr_decoder_windows windows;
} hr_decoder_family;

/* A decoder's settings as its recipe has them. */
typedef struct hr_decoder {
  const hr_decoder_family *family;
  int64_t hidden, inner, layers, heads, kv_heads, head_dim, vocab, positions;
  float std, eps, attention_dropout;
  bool tied, input_biases, output_bias, mlp_bias;
  int64_t window;                 /* 0: no layer has one */
  int64_t first_windowed;         /* layer, where layer_types are not given */
  int64_t window_pattern;         /* likewise: each such layer has no window, counted from 1; 0: not the family's way */
  const char *const *layer_types; /* NULL: not given */
  size_t n_layer_types;
  float attention_scale;
  double theta, local_theta; /* the latter of layers with a window, where the family has one; else 0 */
  const char *rope;          /* section that holds the stretching; NULL: plain */
  bool rope_linear;          /* all frequencies are stretched alike; else as Llama 3 does */
} hr_decoder;

extern const hr_key_table hr_decoder_keys;                /* of all of them; those below of some */
extern const hr_key_table hr_decoder_attention_bias_keys; /* biases of q, k, v and o */
extern const hr_key_table hr_decoder_mlp_bias_keys;
extern const hr_key_table hr_decoder_window_keys, hr_decoder_layer_window_keys, hr_decoder_layer_types_keys;
extern const hr_key_table hr_decoder_gemma_keys;
/* By the name of a recipe whose hr_model is a decoder. */
const hr_decoder_family *hr__decoder_family(const char *name);
hr_decoder hr__decoder_read(const hr_scope *scope);
hr_status hr__decoder_check(const hr_model_part *part, hr_error *err);
hr_id hr__decoder_embed(hr_builder *b, const hr_model_part *part, const hr_model_batch *batch);
hr_id hr__decoder_body(hr_builder *b, const hr_model_part *part, hr_id x, const hr_model_batch *batch);
hr_id hr__decoder_loss(hr_builder *b, const hr_model_part *part, hr_id hidden, const hr_model_batch *batch);
hr_id hr__decoder_logits(hr_builder *b, const hr_model_part *part, hr_id hidden);
/* torch_decoder.c: hr_model.torch of all of them. */
void hr__decoder_torch(const hr_model_part *part, hr_eager *e);
int64_t hr__decoder_window(const hr_decoder *m, int64_t layer); /* 0: none */
bool hr__decoder_slides(const hr_decoder *m, int64_t layer);    /* a layer with a window, if there is one */
/* config.json of the public checkpoints. NULL: out of memory. */
json_t *hr__decoder_json(const hr_model_part *part);

/* decoder_rope.c. Rotary settings come in two forms: rope_theta with rope_scaling (older files) and rope_parameters,
 * which holds both. A recipe gives one of them; what it gives overrules the file of model.path. */
/* Brings what config.json says of them into these forms, before it is merged; what headroom has not is HR_BAD_INPUT.
 * (config_rope.c) */
hr_status hr__rope_config(hr_doc_node *config, const char *name, hr_error *err);
void hr__rope_read(const hr_scope *scope, hr_decoder *m);
hr_status hr__rope_check(const hr_scope *scope, const hr_decoder *m, hr_error *err);
hr_rope_table_args hr__rope_args(const hr_scope *scope, const hr_decoder *m, int64_t length);
hr_rope_table_args hr__rope_local_args(const hr_decoder *m, int64_t length); /* of layers with a window */
json_t *hr__rope_json(const hr_scope *scope, const hr_decoder *m); /* null where positions are not stretched */

/* gemma.c: what public checkpoints of that family have in their own way. Those that also see (gemma-3-4b and larger)
 * have the text model in them, as text_config and under prefixes of names. */
hr_status hr__gemma_config(hr_doc_node *config, const char *name, hr_error *err);         /* hr_model.config_read */
const char *hr__gemma_other_name(const char *parameter, int i, char out[HR_TENSOR_NAME]); /* hr_model.other_name */
/* What a tensor is called in a checkpoint of the text model alone; NULL: it is of what turns images into tokens. */
const char *hr__gemma_text_name(const char *tensor);

#endif
