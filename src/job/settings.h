/* Settings: all key tables joined in one place, and the settings that training itself owns. */
#ifndef HR_JOB_SETTINGS_H
#define HR_JOB_SETTINGS_H

#include "compile/compile.h"

/* Stages of a recipe, and the one that is meant (hr_key.chooses). */
#define HR_STAGES "stages"
#define HR_STAGE  "stage"

extern const hr_key_table hr_train_keys; /* data.* and training.* that do not shape the graph */

/* Every key table of the program, but for those of families. */
enum { HR_SETTINGS_TABLES = HR_COMPILE_TABLES + 3 };
void hr__settings_tables(hr_key_table out[HR_SETTINGS_TABLES]);
/* Every key that a recipe of a model without parts may have, in `arena`: for help and docs. */
hr_status hr__settings_keys(hr_arena *arena, hr_key_table *out, hr_error *err);

/* A recipe file, or a folder with config.json (then model.path is that folder, on synthetic data where no data.path is
 * set, of 1024 tokens a row, or of max_position_embeddings where that is less). */
hr_status hr__settings_load(const char *path, const char *const *overrides, size_t n_overrides, hr_recipe **out,
                            hr_error *err);
/* Whether a path names a checkpoint in place of a recipe: its folder, or a GGUF file. */
bool hr__settings_is_checkpoint(const char *path);
/* HR_USAGE where that is a checkpoint alone: planning needs no data, training does. */
hr_status hr__settings_data(const char *path, const char *const *overrides, size_t n_overrides, hr_error *err);
/* HR_BAD_INPUT where a setting goes by evaluations, and there are none. */
hr_status hr__settings_evaluated(const hr_recipe *recipe, hr_error *err);
/* A recipe from memory: what tests use. Relative paths begin at `folder`. */
hr_status hr__settings_parse(const char *name, const char *folder, const char *text, size_t bytes,
                             const char *const *overrides, size_t n_overrides, hr_recipe **out, hr_error *err);

#endif
