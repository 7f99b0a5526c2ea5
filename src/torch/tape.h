/* The tape: what eager PyTorch does with memory while it runs calls, with sizes alone.
 *
 * A tensor is a view of a storage with a count of its owners; a storage is an allocation (torch/events.h), which is
 * freed with its last tensor. Calls (torch/aten.h) make tensors and, where an input wants a gradient, a node of the
 * graph that keeps what its backward needs. hr__tape_backward walks that graph as autograd does: the node that was made
 * last goes first, gradients wait until all branches have arrived, what a node kept is released once it ran.
 *
 * Ownership is Python's. A call returns an *unnamed* tensor: the next call that takes it, or hr__tape_drop, ends it, as
 * the interpreter ends what only its stack holds. hr__tape_name gives it a variable, which holds it until it is
 * dropped:
 *
 *     hr_tt wide = hr__tape_name(hr__at_to(t, x, HR_F32));              wide = x.to(torch.float32)
 *     hr_tt spread = hr__tape_name(hr__at_mean(t, hr__at_square(t, wide)));  spread = wide.pow(2).mean(-1)
 *     ...
 *     hr__tape_drop(t, wide);                                        the function returns
 *
 * A tape that runs out of memory, and one that has recomputed all that backward asked for (checkpointing stops there),
 * is *stopped*: calls do nothing and return HR_TT_NONE, which every call takes.
 */
#ifndef HR_TORCH_TAPE_H
#define HR_TORCH_TAPE_H

#include "dev/dtype.h"
#include "torch/events.h"

/* A tensor: its number, with a bit where nothing names it. */
typedef uint32_t hr_tt;
#define HR_TT_NONE    0u
#define HR_TT_UNNAMED (1u << 31)

enum {
  HR_TAPE_RANK = 5,
  HR_TAPE_INPUTS = 4,
  HR_TAPE_SAVED = 8,
  HR_TAPE_NUMBERS = 6,
  HR_TAPE_THREADS = 2,
  HR_TAPE_WITH = 4,
  HR_TAPE_BIAS_WORKSPACE = 1 << 20
};

typedef struct hr_tdims {
  int n;
  int64_t at[HR_TAPE_RANK];
} hr_tdims;

typedef enum hr_tape_checkpoint {
  HR_TAPE_KEEP,          /* no checkpointing */
  HR_TAPE_NON_REENTRANT, /* torch.utils.checkpoint(use_reentrant=False): what transformers takes */
  HR_TAPE_REENTRANT
} hr_tape_checkpoint;

typedef struct hr_tape_tensor {
  uint32_t owners; /* 0: the entry is free, and `storage` the next free one */
  uint32_t storage;
  uint32_t node; /* that made it; of a leaf the one that adds up its gradient */
  uint32_t grad; /* of a leaf */
  hr_dtype dtype;
  hr_tdims dims;
  bool wants;    /* requires_grad */
  bool leaf;     /* a parameter, or an input that was cut off */
  bool viewed;   /* of another tensor, which autograd holds beside it: never added to in place */
  bool permuted; /* lies in memory as [B, T, heads, D] while its dims are [B, heads, T, D] */
  bool turned;   /* its last two axes are exchanged in memory */
  bool expanded; /* memory has one head, which stands for all */
} hr_tape_tensor;

typedef struct hr_tape_storage {
  uint32_t owners;
  uint32_t event; /* id of its allocation */
} hr_tape_storage;

typedef struct hr_aten hr_aten;

/* What made an input of a node: where its gradient goes, and the form it must have. */
typedef struct hr_tape_edge {
  uint32_t node; /* 0: it wants none */
  hr_dtype dtype;
  hr_tdims dims;
} hr_tape_edge;

typedef struct hr_tape_node {
  uint32_t owners;
  uint32_t next_free;
  uint64_t order; /* later ones go first; leaves at once */
  const hr_aten *call;
  hr_tape_edge input[HR_TAPE_INPUTS];
  int n_inputs;
  uint32_t saved[HR_TAPE_SAVED];   /* tensors; of a checkpoint the numbers of its saved tensors, from 1 */
  uint32_t checkpoint;             /* that has them; 0: the node itself */
  uint32_t part;                   /* that a reentrant checkpoint runs again: with what it reads until the graph goes */
  int64_t number[HR_TAPE_NUMBERS]; /* of the call, for its backward */
  uint32_t leaf;                   /* of a node that adds up: the tensor */
  uint32_t owner;                  /* module */
  uint32_t gradient;               /* that has arrived so far */
  uint32_t waits;                  /* branches that have not */
  uint32_t walk;                   /* the last walk that counted it */
} hr_tape_node;

typedef struct hr_tape hr_tape;
/* Part of a model that is run again in backward: its result from x. */
typedef hr_tt (*hr_tape_fn)(hr_tape *t, void *user, hr_tt x);

/* A part that was checkpointed: what it ran, and the tensors that it ran again to have. */
typedef struct hr_tape_again {
  hr_tape_fn fn;
  void *user;
  hr_tt input;
  hr_tt with[HR_TAPE_WITH]; /* what it reads beside its input */
  uint32_t owners;          /* tensors that nodes still have in it */
  uint32_t count, filled;
  uint32_t *tensors;
  size_t capacity;
  bool autocast;
  hr_dtype narrow;
} hr_tape_again;

typedef struct hr_tape_cast {
  uint32_t weight, cast;
} hr_tape_cast;

/* A growing list of records. */
typedef struct hr_tape_list {
  void *items;
  size_t count, capacity;
  uint32_t free; /* first of the entries that are free */
} hr_tape_list;

/* What was computed so far, for a rough estimate of its time. */
typedef struct hr_tape_work {
  double flops[HR_DTYPE_COUNT]; /* of products, by their type */
  double attention_flops;       /* of kernels that never form the scores */
  double bytes;                 /* that calls have written, products too */
  double calls;
} hr_tape_work;

struct hr_tape {
  hr_torch_events *events;
  hr_tape_list tensors, storages, nodes, agains; /* entry 0 is none */
  hr_tape_list casts;                            /* of weights, by autocast */
  hr_tape_list dying;                            /* nodes that nobody owns any more */
  bool burying;                                  /* somebody goes through them */
  uint64_t order;
  uint32_t walks;
  bool grad;      /* gradients are recorded */
  bool evaluates; /* nothing is dropped */
  bool stopped, failed;
  bool backward;       /* runs on autograd's thread */
  uint32_t checkpoint; /* that is being run for the first time; 0: none */
  uint32_t recomputed; /* or again */
  bool autocast;       /* products in `narrow` */
  hr_dtype narrow;
  hr_tape_checkpoint checkpointing;
  uint64_t workspace_bytes;                      /* of cuBLAS, for each thread that multiplies */
  int capability, multiprocessors, threads_each; /* of the GPU: threads that each of them holds */
  bool workspace_made[HR_TAPE_THREADS], bias_workspace_made[HR_TAPE_THREADS];
  uint32_t owner;             /* module that runs */
  hr_torch_category category; /* of what is made */
  uint8_t stream;             /* of what is made: hr_torch_event */
  bool zero_linear;           /* linear modules are those of DeepSpeed's third stage */
  hr_tape_work work;
  bool attended; /* by a kernel of 16 bits, whose library takes memory of its own */
  /* (optional) A leaf has its gradient, or one more was added to it: a hook of the parameter. */
  void (*arrived)(void *user, hr_tt leaf);
  void *user;
};

void hr__tape_init(hr_tape *t, hr_torch_events *events);
void hr__tape_fini(hr_tape *t);
/* HR_NOMEM where the tape is not whole. */
hr_status hr__tape_check(const hr_tape *t, hr_error *err);

/* --- what those who describe models use -------------------------------------------------------------------------- */

/* The module that runs from here on, as named_modules has it; returns the one before, to be set again. */
uint32_t hr__tape_module(hr_tape *t, const char *name);
/* A weight or buffer of a model. */
hr_tt hr__tape_parameter(hr_tape *t, hr_tdims dims, hr_dtype dtype, bool trained);
/* A tensor that nothing is computed from: made by `call`. */
hr_tt hr__tape_made(hr_tape *t, const char *call, hr_tdims dims, hr_dtype dtype);
hr_tt hr__tape_name(hr_tt x);
hr_tt hr__tape_again(hr_tape *t, hr_tt x); /* another name for it */
void hr__tape_drop(hr_tape *t, hr_tt x);
/* name = value: what it named is dropped. */
void hr__tape_assign(hr_tape *t, hr_tt *name, hr_tt value);
/* Runs a part of the model as checkpointing has it. `with` (n of them) is what it reads beside x, which checkpoints
 * hold as long. */
hr_tt hr__tape_part(hr_tape *t, hr_tape_fn fn, void *user, hr_tt x, const hr_tt *with, int n);
/* x.data = x.data.to(dtype), of a parameter. */
void hr__tape_retype(hr_tape *t, hr_tt x, hr_dtype dtype);
/* x.data = a part of from.data. */
void hr__tape_onto(hr_tape *t, hr_tt x, hr_tt from);
/* A tensor that wants a gradient from here on (enable_input_require_grads). */
void hr__tape_want(hr_tape *t, hr_tt x);

/* Between them products take `narrow`; casts of weights are kept until the end. */
void hr__tape_autocast_begin(hr_tape *t, hr_dtype narrow);
void hr__tape_autocast_end(hr_tape *t);
/* x as products take it there; itself elsewhere. */
hr_tt hr__tape_narrowed(hr_tape *t, hr_tt x);

/* From a loss to the leaves. */
void hr__tape_backward(hr_tape *t, hr_tt loss);
hr_dtype hr__tape_dtype(const hr_tape *t, hr_tt x); /* f32 of NONE */
uint64_t hr__tape_bytes(const hr_tape *t, hr_tt x);
int64_t hr__tape_elements(const hr_tape *t, hr_tt x);

/* --- shapes ------------------------------------------------------------------------------------------------------ */

hr_tdims hr__tdims1(int64_t a);
hr_tdims hr__tdims2(int64_t a, int64_t b);
hr_tdims hr__tdims3(int64_t a, int64_t b, int64_t c);
hr_tdims hr__tdims4(int64_t a, int64_t b, int64_t c, int64_t d);
int64_t hr__tdims_elements(hr_tdims dims);
bool hr__tdims_equal(hr_tdims a, hr_tdims b);
hr_tdims hr__tdims_broadcast(hr_tdims a, hr_tdims b);

#endif
