/* Merging: a run, or any folder of adapters, with the base that it began from -> a whole model in a folder of its own.
 *
 * Tensors go through one by one, in pieces of rows: W + scale B A in f32, then to the type that is asked for. The
 * folder is written beside its place and renamed at the end, so that one that was cut off never looks whole.
 */
#ifndef HR_TRAIN_MERGE_H
#define HR_TRAIN_MERGE_H

#include "dev/dtype.h"
#include "train/store.h"

typedef struct hr_merge_options {
  const char *run;  /* folder of a run, of one of its checkpoints, of adapters, or of a model */
  const char *base; /* instead of the base that the adapters or the run name; NULL: that one */
  const char *out;  /* must not be there */
  FILE *progress;   /* shows how far it is; NULL: nothing does */
  hr_dtype dtype;   /* F32, BF16 or F16; HR_DTYPE_COUNT: as each tensor is stored */
} hr_merge_options;

typedef struct hr_merge_result {
  size_t tensors;      /* written */
  size_t adapters;     /* merged */
  size_t left;         /* tensors that are no numbers of a model (position ids), left out */
  uint64_t bytes;      /* of the weights' file */
  uint64_t held_bytes; /* most that were held of tensors at a time */
} hr_merge_result;

hr_status hr__merge_run(const hr_merge_options *options, hr_merge_result *result, hr_error *err);

#endif
