/* What a recipe leaves to be chosen (`auto`), as passes get it. */
#ifndef HR_PASS_CHOICES_H
#define HR_PASS_CHOICES_H

#include "graph/graph.h"

/* Kinds of values that may be offloaded: memory.offload.<name>. */
typedef enum hr_offload_kind {
  HR_OFFLOAD_OPTIMIZER,
  HR_OFFLOAD_PARAMETERS,
  HR_OFFLOAD_GRADIENTS,
  HR_OFFLOAD_ACTIVATIONS,
  HR_OFFLOAD_KINDS
} hr_offload_kind;

/* What to keep of a block between its forward and its backward pass. */
typedef enum hr_keep {
  HR_KEEP_ALL,       /* everything that backward reads */
  HR_KEEP_SELECTIVE, /* results of matrix products and attention, or what is made of them if that is smaller */
  HR_KEEP_INPUT,     /* only what enters the block */
  HR_KEEP_OFFLOADED  /* what enters it, on a lower tier */
} hr_keep;

/* What a recipe leaves to be chosen (`auto`), chosen. Without choices `auto` means: keep all, all on the device, all
 * blocks whole. */
typedef struct hr_choices {
  const hr_keep *keep; /* per layer (hr__program_layers), the same in every program and slice; NULL: by the recipe */
  size_t n_keep;
  /* memory.offload.* = auto: bytes of each kind that stay on the device; the rest goes to `tier`, where that is the
   * disk all but host_bytes of it. */
  struct {
    uint64_t resident_bytes, host_bytes;
    hr_tier tier;
  } offload[HR_OFFLOAD_KINDS];
  bool largest_stay;   /* of parameters that stay in part the largest, before the others are spread evenly */
  bool update_on_host; /* memory.offload.update = auto */
  int64_t slices;      /* memory.split = auto: of every outermost block; below 2: they stay whole */
  bool few_tiles;      /* of updates of offloaded state, one for several: for a plan that is only to be judged */
} hr_choices;

#endif
