/* A small recipe with open settings, and budgets for it: what tests of the search plan. */
#ifndef HR_TEST_FIT_WORLD_H
#define HR_TEST_FIT_WORLD_H

#include "fit/search.h"

enum { WORLD_OVERRIDES = 24 };

typedef struct world {
  const char *overrides[WORLD_OVERRIDES];
  size_t n_overrides;
  hr_facts facts;
  hr_rates rates;
  uint64_t budget_bytes, host_bytes, disk_bytes;
} world;

/* hr_space.load of a world; open == NULL: the recipe alone. */
hr_status world_load(void *user, const char *const *more, size_t count, hr_recipe **recipe, hr_open *open,
                     hr_error *err);

/* Of the catalogue's GPU, NULL: of this CPU with one thread; rates are the defaults. */
void world_device(world *w, const char *gpu);

/* Overrides that make the model large enough for tensors to be moved off a GPU. */
void world_enlarge(world *w);

#endif
