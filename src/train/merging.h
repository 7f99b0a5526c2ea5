/* What a merge works on, shared by merge_sources.c (what goes where), merge_write.c (the tensors) and merge.c (the
 * folder). */
#ifndef HR_TRAIN_MERGING_H
#define HR_TRAIN_MERGING_H

#include "model/peft.h"
#include "train/merge.h"

/* A tensor of the result. */
typedef struct hr_merged {
  const hr_stored *file;
  size_t index;   /* in the file */
  size_t a, b;    /* of its adapter; SIZE_MAX: it has none */
  hr_dtype dtype; /* of the result */
} hr_merged;

typedef struct hr_merging {
  const hr_merge_options *options;
  hr_arena arena;
  const char *folder;  /* what is merged */
  const char *base;    /* folder or file that the rest comes from; NULL: nothing does */
  hr_stored *trained;  /* weights of the folder; NULL: it has none */
  hr_stored *original; /* of the base */
  hr_stored *adapters; /* NULL: there are none */
  hr_peft peft;        /* of the adapters */
  hr_merged *tensors;  /* of the result, in order of name */
  size_t count;
} hr_merging;

/* Finds and opens all of it, and matches adapters with weights; to be closed also after a failure. */
hr_status hr__merging_open(const hr_merge_options *options, hr_merging *out, hr_merge_result *result, hr_error *err);
void hr__merging_close(hr_merging *merging);

/* Length of the file that hr__merging_write makes. */
hr_status hr__merging_bytes(hr_merging *merging, uint64_t *bytes, hr_error *err);
hr_status hr__merging_write(hr_merging *merging, const char *path, hr_merge_result *result, hr_error *err);

#endif
