/* The manifest of a checkpoint: what the run was, and length and hash of every file. It is written last and makes the
 * checkpoint valid. Its text is canonical: reading and writing it again gives the same bytes, so that no flipped bit
 * can hide in it.
 */
#ifndef HR_TRAIN_MANIFEST_H
#define HR_TRAIN_MANIFEST_H

#include "base/hash.h"
#include "base/mem.h"
#include "train/scaler.h"

/* The files of a checkpoint beside the manifest, in the order in which they are listed. A run with adapters saves those
 * with their settings in place of the model. */
typedef enum hr_run_file {
  HR_RUN_CONFIG,
  HR_RUN_MODEL,
  HR_RUN_OPTIMIZER,
  HR_RUN_ADAPTER_CONFIG,
  HR_RUN_ADAPTER,
  HR_RUN_EMA, /* averages of what the model's or the adapters' file has, under the same names */
  HR_RUN_FILES
} hr_run_file;
extern const char *const hr_run_file_names[HR_RUN_FILES];
#define HR_MANIFEST_NAME "manifest.json"

typedef struct hr_run_setting {
  const char *path;  /* "training.optimizer.lr" */
  const char *value; /* as JSON text */
  bool fallback;     /* nobody gave it: it is the default; not part of a manifest */
} hr_run_setting;

/* Where a run stands beside its tensors. */
typedef struct hr_run_state {
  bool known;      /* false: a manifest from before there was such a state, which then follows from the step */
  uint64_t sample; /* number of the next row of data */
  hr_scaler scaler;
  char base[HR_XXH_HEX]; /* hash of the frozen weights of model.path; empty: there are none */
} hr_run_state;

typedef struct hr_manifest {
  int64_t step;
  hr_run_state state;
  int64_t seed;
  char fingerprint[HR_XXH_HEX]; /* of the plan */
  char recipe_hash[HR_XXH_HEX]; /* of the settings below */
  hr_run_setting *settings;     /* the closed recipe, flat */
  size_t n_settings;
  struct {
    uint64_t bytes;
    char hash[HR_XXH_HEX]; /* XXH3-128; empty: there is no such file */
  } files[HR_RUN_FILES];
} hr_manifest;

enum { HR_MANIFEST_MAX_BYTES = 1 << 20, HR_MANIFEST_MAX_SETTINGS = 4096 };

/* Hash of a list of settings. */
hr_status hr__settings_hash(const hr_run_setting *settings, size_t count, char out[HR_XXH_HEX], hr_error *err);

/* NUL-terminated text in `arena`. */
hr_status hr__manifest_text(const hr_manifest *manifest, hr_arena *arena, char **text, size_t *bytes, hr_error *err);
/* HR_BAD_INPUT when anything is missing, superfluous or different from what hr__manifest_text writes. `name` is put
 * into error places. Strings live in `arena`. */
hr_status hr__manifest_parse(const char *name, const char *text, size_t bytes, hr_arena *arena, hr_manifest *out,
                             hr_error *err);

#endif
