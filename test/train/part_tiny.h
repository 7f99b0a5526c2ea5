/* A tiny recipe taken to its plan and trained, for the tests of this folder. */
#ifndef HR_TEST_TRAIN_TINY_H
#define HR_TEST_TRAIN_TINY_H

#include "train/train.h"

typedef struct tiny {
  hr_recipe *recipe;
  hr_graph *graph;
  hr_plan *plan;
  hr_device *device;
  hr_rates rates;
} tiny;

/* The text of the recipe: synthetic data, batch 2 x 16 tokens, 8 steps. */
extern const char tiny_text[];

/* Overrides end with NULL; each is "key.path=value". */
hr_status tiny_open(tiny *t, const char *const *overrides, hr_error *err);
void tiny_close(tiny *t);

/* Opens, trains with `options` (recipe, plan and device are set here), closes. */
hr_status tiny_train(const char *const *overrides, hr_train_options options, hr_train_result *result, hr_error *err);

/* The same where only one outcome is right; the test fails on any other. */
hr_train_result train_ok(const char *const *overrides, hr_train_options options);
hr_error train_fails(const char *const *overrides, hr_train_options options, hr_status expected);

/* A fresh empty folder that is unique to the process; and its removal with all below it. */
const char *folder_make(const char *name);
void folder_remove(const char *path);
char *path_join(const char *folder, const char *name); /* in one of a few rotating buffers */

void file_put(const char *path, const void *data, size_t bytes);
char *file_get(const char *path, size_t *bytes); /* malloc; NULL when missing */

#endif
