/* Eager: a training run of PyTorch as calls on a tape (torch/tape.h): the model is built, then steps of forward,
 * backward and update follow, and all that is allocated and freed goes into a list of events.
 *
 * What is trained by which optimizer in which precision is `hr_eager_settings`; which modules there are, and what their
 * forward calls, is a family's own description (hr_model.torch), made of the modules below.
 */
#ifndef HR_TORCH_EAGER_H
#define HR_TORCH_EAGER_H

#include "torch/aten.h"

typedef enum hr_torch_attention {
  HR_TORCH_SDPA,
  HR_TORCH_EAGER_ATTENTION,
  HR_TORCH_FLASH_ATTENTION
} hr_torch_attention;

/* BNB: of 32 bits in bitsandbytes, which may be paged */
typedef enum hr_torch_optimizer {
  HR_TORCH_ADAMW,
  HR_TORCH_ADAMW8BIT,
  HR_TORCH_ADAMW_BNB,
  HR_TORCH_SGD
} hr_torch_optimizer;
/* How torch.optim goes through parameters; bitsandbytes has one way of its own. */
typedef enum hr_torch_update_by { HR_TORCH_FUSED, HR_TORCH_FOREACH, HR_TORCH_FOR_LOOP } hr_torch_update_by;

/* DeepSpeed on one GPU: zero.h. */
typedef struct hr_zero_settings {
  int stage;         /* of ZeRO, 1 to 3; 0: DeepSpeed has no part in the run */
  bool overlap;      /* overlap_comm */
  bool offloaded;    /* offload_optimizer: what is updated is on the host */
  int64_t bucket;    /* reduce_bucket_size, in elements */
  int64_t sub_group; /* sub_group_size of the third stage, in elements */
} hr_zero_settings;

typedef struct hr_eager_settings {
  int64_t batch, length, accumulation;
  bool padded;    /* rows are of different lengths: attention gets a mask of those positions */
  bool documents; /* rows are packed: several in each, with positions of their own; padded: attention's mask parts them
                   */
  int64_t eval_batch; /* rows at a time of the evaluation behind every step; 0: there is none */
  bool eval_padded;
  int steps;
  hr_dtype weights; /* of the model as it is built */
  bool autocast;
  hr_dtype narrow; /* of its products */
  bool scaled;     /* GradScaler */
  /* Adapters (PEFT's LoRA); 0: all that `trained` names is trained. */
  int64_t rank;
  double adapter_dropout;
  bool plain_adapters; /* lin(x) + B(A x), with A and B cast to the type of x, without PEFT */
  bool packed;         /* bitsandbytes' NF4 under the adapters, and prepare_model_for_kbit_training */
  void *user;
  bool (*adapted)(void *user, const char *module); /* whether a linear module has one */
  bool (*trained)(void *user, const char *parameter);
  hr_tape_checkpoint checkpointing;
  hr_torch_attention attention;
  hr_sdpa_rules sdpa;
  hr_zero_settings zero;
  hr_torch_optimizer optimizer;
  hr_torch_update_by update;
  bool paged;
  double momentum, weight_decay;
  bool clipped;
  uint64_t workspace_bytes;                      /* of cuBLAS, for each thread */
  int capability, multiprocessors, threads_each; /* of the GPU */
} hr_eager_settings;

typedef struct hr_eager hr_eager;
typedef struct hr_zero hr_zero; /* zero.c */

/* A linear module, plain, packed or with an adapter. */
typedef struct hr_torch_linear {
  const char *name;
  int64_t in, out;
  hr_tt weight, bias;
  const hr_tt *tied; /* the weight of another module, in place of its own */
  hr_tt a, b;        /* of its adapter, or NONE */
  bool packed;
} hr_torch_linear;

/* What a family says of itself: `state` and `forward` are set by it. */
typedef hr_tt (*hr_torch_forward)(hr_eager *e, void *state);

typedef struct hr_eager_parameter {
  const char *name;
  hr_tt *slot; /* where the module has it */
  bool fixed;  /* a buffer, or packed: never cast */
} hr_eager_parameter;

struct hr_eager {
  hr_eager_settings settings;
  hr_tape tape;
  hr_arena arena;
  hr_eager_parameter *parameters; /* in the order of model.parameters() */
  size_t n_parameters, parameters_capacity;
  hr_torch_linear **linears; /* in the order of modules */
  size_t n_linears, linears_capacity;
  hr_tt *trained; /* of these and of adapters, those that the optimizer has */
  size_t n_trained, trained_capacity;
  hr_tt ids, labels, loss;
  hr_tt positions;    /* where rows have some of their own */
  hr_tape_work micro; /* what one micro-batch computes, and an update */
  hr_tape_work update;
  hr_zero *zero; /* where DeepSpeed trains */
  bool masked;   /* labels are a tensor of their own, not the ids */
  void *state;
  hr_torch_forward forward;
};

/* --- for descriptions of families: building ----------------------------------------------------------------------- */

/* Storage of the description's own, zeroed, until the run is over; NULL stops the tape. */
void *hr__eager_room(hr_eager *e, size_t count, size_t size);
/* A name from its parts, to stay as long. */
__attribute__((format(printf, 2, 3))) const char *hr__eager_name(hr_eager *e, const char *format, ...);
/* A weight in its slot; "PATH.weight". */
void hr__eager_weight(hr_eager *e, hr_tt *slot, const char *name, hr_tdims dims);
void hr__eager_buffer(hr_eager *e, hr_tt *slot, const char *name, hr_tdims dims, hr_dtype dtype);
/* nn.Linear; one that is `head` is never packed or adapted. */
void hr__eager_linear_make(hr_eager *e, hr_torch_linear *linear, const char *name, int64_t in, int64_t out, bool biased,
                           bool head);
/* A head that shares the weight of another module: made, and dropped for it once the model is whole. Its bias is its
 * own. */
void hr__eager_tied_head(hr_eager *e, hr_torch_linear *linear, const char *name, hr_tt *weight);

/* --- for descriptions of families: running ------------------------------------------------------------------------ */

hr_tt hr__eager_linear(hr_eager *e, const hr_torch_linear *linear, hr_tt x);
/* Attention over [B, heads, T, D] by the implementation that is set, to [B, T, heads D]. */
typedef struct hr_eager_attention_args {
  hr_tt mask;  /* or NONE */
  bool causal; /* without a mask: each position sees those before it */
  double dropout;
  bool wide; /* written out, the softmax is made in f32 and cast back */
} hr_eager_attention_args;
/* *weights: the probabilities where they are written out (named; NONE else), which layers hold to their end. */
hr_tt hr__eager_attention(hr_eager *e, hr_tt q, hr_tt k, hr_tt v, const hr_eager_attention_args *args, hr_tt *weights);

/* language.c. Tokens looked up, and `scaled` by a number. Checkpointed layers need an input that wants a gradient:
 * where nothing below them is trained, transformers' enable_input_require_grads makes the embedding's result a leaf
 * that wants one. */
hr_tt hr__eager_tokens(hr_eager *e, hr_tt weight, bool scaled);
/* Masks of a model that looks back: of all positions, and of the last `window` (0: there is none; mixed:
 * only some layers have it). NONE where the implementation of attention needs none. */
void hr__eager_causal_masks(hr_eager *e, hr_dtype dtype, int64_t window, bool mixed, hr_tt *all, hr_tt *windowed);
/* The mask of rows that are padded, for a model that looks to both sides; NONE where they are not. */
hr_tt hr__eager_padding_mask(hr_eager *e, hr_dtype dtype);
/* The mean loss of the tokens that follow: logits in f32, targets shifted. */
hr_tt hr__eager_next_token_loss(hr_eager *e, hr_tt logits);
/* The mean loss of tokens that were hidden. */
hr_tt hr__eager_masked_token_loss(hr_eager *e, hr_tt logits);

/* --- the run ------------------------------------------------------------------------------------------------------ */

hr_status hr__eager_init(hr_eager *e, const hr_eager_settings *settings, hr_torch_events *events, hr_error *err);
void hr__eager_fini(hr_eager *e);
/* Behind the family's own building: adapters, what is trained, the optimizer; then all steps. */
hr_status hr__eager_run(hr_eager *e, hr_error *err);
/* optimizer.c: what an update of all that is trained allocates; `first` makes states. */
void hr__eager_update(hr_eager *e, bool first);

#endif
