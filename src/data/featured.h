/* Rows that a frozen part of a model makes of what a source gives (model/features.h), of a video a row for each frame.
 * They are made once for all runs and kept in files of the cache folder, which samples are filled from.
 *
 * Whoever has the part says what makes the rows; the source finds those that are there, and lists the rows that are
 * missing; their inputs are asked for, and rows put, in the order of that list.
 */
#ifndef HR_DATA_FEATURED_H
#define HR_DATA_FEATURED_H

#include "base/hash.h"

typedef struct hr_features_maker {
  char hash[HR_XXH_HEX]; /* of all that rows depend on beside their inputs: weights, and how is computed with them */
  int64_t width;         /* numbers of a row */
} hr_features_maker;

/* What a source has for it (hr_source.features). */
typedef struct hr_featured {
  /* Which files are whole: *missing rows are in none. What is broken is made again. */
  hr_status (*find)(void *state, const hr_features_maker *maker, uint64_t *missing, hr_error *err);
  /* What missing rows [first, first + count) are made of, one behind the other. */
  hr_status (*inputs)(const void *state, uint64_t first, uint64_t count, void *to, hr_error *err);
  /* The rows that follow those put before. A file is there once its last row is. */
  hr_status (*put)(void *state, uint64_t count, const float *rows, hr_error *err);
} hr_featured;

#endif
