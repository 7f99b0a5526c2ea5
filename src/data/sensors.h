/* Recordings of sensors as samples: how many patches they have. */
#ifndef HR_DATA_SENSORS_H
#define HR_DATA_SENSORS_H

#include "recipe/recipe.h"

/* Patches of a sample, at most, by the recipe: data.sensors.context_size, or max_patches where that is -1. */
hr_status hr__sensors_patches(const hr_recipe *recipe, int64_t *out, hr_error *err);

#endif
