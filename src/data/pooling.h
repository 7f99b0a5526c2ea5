/* Pooling at several scales, as weights of a sample's positions: the result of a scale is their weighted sum.
 *
 * Scale 1 is the mean. Scale s > 1 cuts n positions into windows of max(1, n / s), the last of which may be shorter,
 * and takes the mean of the windows' means.
 */
#ifndef HR_DATA_POOLING_H
#define HR_DATA_POOLING_H

#include "recipe/recipe.h"

enum { HR_POOLING_SCALES = 8 };
typedef struct hr_pooling {
  int count;
  int64_t scale[HR_POOLING_SCALES];
} hr_pooling;

/* The list at a key; [1, 2, 4] where it is not given. */
hr_status hr__pooling_scales(const hr_recipe *recipe, const char *path, hr_pooling *out, hr_error *err);

/* Weights of a sample of `length` positions from `first` on: to [scales, room], 0 behind the sample. */
void hr__pooling_weights(const hr_pooling *pooling, int64_t length, int64_t first, int64_t room, float *to);

#endif
