/* compile: recipe -> the whole training graph, through model, the passes before grad, grad, and the passes after it.
 * pass/passes.def lists the passes of both halves in order. */
#ifndef HR_PASS_COMPILE_H
#define HR_PASS_COMPILE_H

#include "model/model.h"

/* Settings that shape the graph, read from the recipe once and checked against each other. */
typedef struct hr_training_shape {
  int64_t batch, length, accumulation;
  bool eval;
} hr_training_shape;
hr_status hr__training_shape(const hr_recipe *recipe, hr_training_shape *out, hr_error *err);

/* Kinds of values that may live below the device: memory.offload.<name>. */
typedef enum hr_offload_kind {
  HR_OFFLOAD_OPTIMIZER,
  HR_OFFLOAD_PARAMETERS,
  HR_OFFLOAD_GRADIENTS,
  HR_OFFLOAD_ACTIVATIONS,
  HR_OFFLOAD_KINDS
} hr_offload_kind;

extern const hr_key_table hr_offload_keys; /* memory.offload.* */
extern const hr_key_table hr_compile_keys; /* training.* settings that shape the graph: batch, clipping */

/* What to keep of a block between its forward and its backward pass. */
typedef enum hr_keep {
  HR_KEEP_ALL,       /* everything that backward reads */
  HR_KEEP_SELECTIVE, /* results of matrix products and attention, or what is made of them if that is smaller */
  HR_KEEP_INPUT,     /* only what enters the block */
  HR_KEEP_OFFLOADED  /* what enters it, on a lower tier */
} hr_keep;

/* What a recipe leaves to be chosen (`auto`), chosen. Without choices `auto` means: keep all, all on the device. */
typedef struct hr_choices {
  const hr_keep *keep; /* per outermost block in order of execution, the same in every program; NULL: by the recipe */
  size_t n_keep;
  /* memory.offload.* = auto: bytes of each kind that stay on the device; the rest goes to `tier`. */
  struct {
    uint64_t resident_bytes;
    hr_tier tier;
  } offload[HR_OFFLOAD_KINDS];
} hr_choices;

/* Compiles up to and including the stage named `until` ("model", "grad", a pass; NULL: all). */
hr_status hr__compile(const hr_recipe *recipe, const hr_choices *choices, const char *until, hr_graph **out,
                      hr_error *err);

#endif
