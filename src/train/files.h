/* The files of a checkpoint beside its manifest. A model without parts has config.json, model.safetensors with what is
 * trained of it, optimizer.safetensors, and with adapters adapter_config.json and adapter_model.safetensors as PEFT has
 * them; ema.safetensors has the averages of what is trained, under the same names; and what other programs need of a
 * model's folder is copied (companions.h). A part has the same, but for the optimizer, in a folder of its own name.
 */
#ifndef HR_TRAIN_FILES_H
#define HR_TRAIN_FILES_H

#include "model/parts.h"
#include "train/companions.h"
#include "train/tensors.h"

#define HR_FILE_MODEL     "model.safetensors"
#define HR_FILE_ADAPTER   "adapter_model.safetensors"
#define HR_FILE_AVERAGES  "ema.safetensors"
#define HR_FILE_OPTIMIZER "optimizer.safetensors"
/* Names of the adapters' tensors in files begin with this. */
#define HR_ADAPTER_PREFIX "base_model.model."
/* Names of averages in a graph begin with this. */
#define HR_AVERAGE_PREFIX "ema."

enum { HR_RUN_FILES = 8 + (5 + HR_COMPANIONS) * (1 + HR_MODEL_PARTS) }; /* at most */

/* Names of all files that a checkpoint of a recipe may have, "text/model.safetensors", whatever is trained. */
typedef struct hr_run_names {
  const char *list[HR_RUN_FILES];
  size_t count;
  const char *folders[HR_MODEL_PARTS]; /* of parts, within the checkpoint */
  size_t n_folders;
} hr_run_names;
hr_status hr__run_names(const hr_recipe *recipe, hr_arena *arena, hr_run_names *out, hr_error *err);

typedef struct hr_run_file {
  const char *name;
  const char *text;           /* its contents, */
  size_t bytes;               /* of the text */
  const hr_companion *copied; /* what it is a copy of, or both NULL: it holds tensors */
  const hr_id *values;
  size_t count;
  hr_tensor_names names;
} hr_run_file;

typedef struct hr_run_files {
  hr_run_file list[HR_RUN_FILES];
  size_t count;
  hr_companions *companions[1 + HR_MODEL_PARTS]; /* open; NULL: none */
} hr_run_files;
bool hr__run_file_has_tensors(const hr_run_file *file);
/* What every checkpoint of a run consists of; contents in `arena`. Closed also where it fails. */
hr_status hr__run_files(const hr_recipe *recipe, const hr_tensors *tensors, hr_arena *arena, hr_run_files *out,
                        hr_error *err);
void hr__run_files_close(hr_run_files *files);
/* Adds the names of files that only this run has: those that end with .tiktoken have any. */
void hr__run_names_add(hr_run_names *names, const hr_run_files *files);

#endif
