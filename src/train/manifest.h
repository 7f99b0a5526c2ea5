/* The manifest of a checkpoint: what the run was, and length and hash of every file. It is written last and makes the
 * checkpoint valid. Its text is canonical: reading and writing it again gives the same bytes, so that no flipped bit
 * can hide in it.
 */
#ifndef HR_TRAIN_MANIFEST_H
#define HR_TRAIN_MANIFEST_H

#include "base/hash.h"
#include "base/mem.h"
#include "train/best.h"
#include "train/scaler.h"

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
  hr_best best;          /* evaluation; all 0: none yet */
  char base[HR_XXH_HEX]; /* hash of the frozen weights of model.path; empty: there are none */
} hr_run_state;

enum { HR_MANIFEST_FILES = 512 };
typedef struct hr_manifest_file {
  const char *name; /* "config.json", "text/model.safetensors" */
  uint64_t bytes;
  char hash[HR_XXH_HEX]; /* XXH3-128 */
} hr_manifest_file;

typedef struct hr_manifest {
  int64_t step;
  hr_run_state state;
  int64_t seed;
  char fingerprint[HR_XXH_HEX]; /* of the plan */
  char recipe_hash[HR_XXH_HEX]; /* of the settings below */
  hr_run_setting *settings;     /* the closed recipe, flat */
  size_t n_settings;
  hr_manifest_file files[HR_MANIFEST_FILES]; /* in the order in which they are listed */
  size_t n_files;
} hr_manifest;

enum { HR_MANIFEST_MAX_BYTES = 1 << 20, HR_MANIFEST_MAX_SETTINGS = 4096 };

/* Hash of a list of settings. */
hr_status hr__settings_hash(const hr_run_setting *settings, size_t count, char out[HR_XXH_HEX], hr_error *err);

/* Whether a file may be called so: its name stays inside of the checkpoint's folder. */
bool hr__manifest_name_is_safe(const char *name);
const hr_manifest_file *hr__manifest_file(const hr_manifest *manifest, const char *name); /* NULL: not listed */

/* NUL-terminated text in `arena`. */
/* Its own hash, as its text has it. */
hr_status hr__manifest_hash(const hr_manifest *m, hr_arena *arena, char out[HR_XXH_HEX], hr_error *err);
hr_status hr__manifest_text(const hr_manifest *manifest, hr_arena *arena, char **text, size_t *bytes, hr_error *err);
/* HR_BAD_INPUT when anything is missing, superfluous or different from what hr__manifest_text writes. `name` is put
 * into error places. Strings live in `arena`. */
hr_status hr__manifest_parse(const char *name, const char *text, size_t bytes, hr_arena *arena, hr_manifest *out,
                             hr_error *err);

#endif
