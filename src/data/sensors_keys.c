/* Settings of recordings: data.sensors.*. */
#include "data/keys.h"
#include "data/sensors.h"

#define SECTION "data.sensors"

enum { PATCHES_MOST = 1 << 20 };

static const hr_key keys[] = {
    {.path = SECTION ".context_size",
     .type = HR_KEY_INT,
     .fallback = "60",
     .min = -1,
     .max = PATCHES_MOST,
     .meaning = "source sensors: patches of a sample, at most; of more the last ones count. -1: all"},
    {.path = SECTION ".max_patches",
     .type = HR_KEY_INT,
     .min = 1,
     .max = PATCHES_MOST,
     .meaning = "source sensors: patches that there is room for, with context_size -1"},
};
const hr_key_table hr_sensors_keys = {keys, sizeof keys / sizeof *keys};

hr_status hr__sensors_patches(const hr_recipe *recipe, int64_t *out, hr_error *err) {
  *out = hr__recipe_int(recipe, SECTION ".context_size");
  if (*out > 0) return HR_OK;
  if (*out == -1 && hr__recipe_has(recipe, SECTION ".max_patches")) {
    *out = hr__recipe_int(recipe, SECTION ".max_patches");
    return HR_OK;
  }
  return hr__recipe_fail(recipe, SECTION ".context_size", "give " SECTION ".max_patches", err,
                         "samples may have any number of patches");
}
