/* Recipes and forward graphs for the tests of models. */
#ifndef HR_TEST_MODEL_PART_BUILD_H
#define HR_TEST_MODEL_PART_BUILD_H

#include "model/model.h"

typedef struct hr_built {
  hr_recipe *recipe;
  const hr_model *model;
  hr_model_part part;
  hr_graph *graph;
  hr_error err;
} hr_built;

/* Reads a recipe (a file or folder, or text when `text` is given) with the model's keys and those that models read from
 * later stages; checks it. */
hr_status hr__built_recipe(hr_built *built, const char *path, const char *text, const char *const *overrides,
                           size_t n_overrides);
/* The forward pass as program "step", verified. */
hr_status hr__built_graph(hr_built *built, int64_t batch, int64_t length);
void hr__built_free(hr_built *built);

/* A new empty folder, removed with what is in it by hr__folder_remove. */
void hr__folder_make(char path[64]);
void hr__folder_put(const char *folder, const char *name, const char *text);
void hr__folder_remove(const char *folder);

#endif
