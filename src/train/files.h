/* The files of a checkpoint beside its manifest. A model without parts has config.json and model.safetensors with what
 * is trained of it and, if that is all of it, what its checkpoint has beside (kept.h), or with adapters
 * adapter_config.json and adapter_model.safetensors as PEFT has them; and what other
 * programs need of a model's folder is copied (companions.h). A part has the same in a folder of its own name.
 *
 * What only training reads lies in a folder of its own, since programs that load models take whatever *.safetensors is
 * beside their config.json: training/optimizer.safetensors, and training/ema.safetensors (of a part
 * training/text/ema.safetensors) with the averages of what is trained, under the same names. Checkpoints of before that
 * had them without that folder, and are read.
 */
#ifndef HR_TRAIN_FILES_H
#define HR_TRAIN_FILES_H

#include "model/parts.h"
#include "model/peft.h"
#include "train/companions.h"
#include "train/manifest.h"
#include "train/tensors.h"

#define HR_FILE_MODEL     "model.safetensors"
#define HR_FILE_TRAINING  "training/"
#define HR_FILE_AVERAGES  HR_FILE_TRAINING "ema.safetensors"
#define HR_FILE_OPTIMIZER HR_FILE_TRAINING "optimizer.safetensors"
#define HR_FILE_GROUPS    HR_FILE_TRAINING "clusters.bin" /* hr_groups.saved */
/* Names of averages in a graph begin with this. */
#define HR_AVERAGE_PREFIX "ema."

enum { HR_RUN_FILES = 8 + (6 + HR_COMPANIONS) * (1 + HR_MODEL_PARTS) }; /* at most */

/* Names of all files that a checkpoint of a recipe may have, "text/model.safetensors", whatever is trained. */
typedef struct hr_run_names {
  const char *list[HR_RUN_FILES];
  size_t count;
  const char *folders[1 + 2 * HR_MODEL_PARTS]; /* within the checkpoint; one behind that which it is in */
  size_t n_folders;
} hr_run_names;
hr_status hr__run_names(const hr_recipe *recipe, hr_arena *arena, hr_run_names *out, hr_error *err);

/* The name of one of the files above where it is that of a part; NULL: out of memory. */
const char *hr__run_file_name(const hr_model_part *part, const char *file, hr_arena *arena);
/* The name that it had in checkpoints of before: without the folder for what only training reads. */
const char *hr__run_file_old_name(const char *name);
/* The name under which a checkpoint has a file, that one or the old one; NULL: it has not. */
const char *hr__run_file_in(const hr_manifest *manifest, const char *name);

typedef struct hr_run_file {
  const char *name;
  const char *text;           /* its contents, */
  size_t bytes;               /* of the text */
  const hr_companion *copied; /* what it is a copy of, or both NULL: it holds tensors */
  hr_tensor_file tensors;
  void *restored; /* where its bytes go when a run is resumed: those of `text`, which change; NULL: nowhere */
} hr_run_file;

typedef struct hr_run_files {
  hr_run_file list[HR_RUN_FILES];
  size_t count;
  hr_companions *companions[1 + HR_MODEL_PARTS]; /* open; NULL: none */
  hr_kept kept[1 + HR_MODEL_PARTS];
} hr_run_files;
bool hr__run_file_has_tensors(const hr_run_file *file);
/* Opens what checkpoints copy and keep. It is done before a run takes its memory, since what stands for a GGUF file's
 * tokenizer is made first. Closed also where it fails. */
hr_status hr__run_files_open(const hr_recipe *recipe, hr_arena *arena, hr_run_files *out, hr_error *err);
/* What every checkpoint of a run consists of; contents in `arena`. */
hr_status hr__run_files(const hr_recipe *recipe, const hr_tensors *tensors, hr_arena *arena, hr_run_files *out,
                        hr_error *err);
void hr__run_files_close(hr_run_files *files);
/* Adds a file of `bytes` bytes at `state`, as they are when it is written, and are again when a run is resumed. */
void hr__run_files_add(hr_run_files *files, const char *name, void *state, size_t bytes);
/* Adds the names of files that only this run has: those that end with .tiktoken have any. */
void hr__run_names_add(hr_run_names *names, const hr_run_files *files);

#endif
