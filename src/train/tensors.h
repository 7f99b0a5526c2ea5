/* The tensors of a run that outlive it: parameters and optimizer state, listed by name, and their way to and from files
 * without a second copy (a window of fixed size stands in where the host cannot reach the values). */
#ifndef HR_TRAIN_TENSORS_H
#define HR_TRAIN_TENSORS_H

#include "base/hash.h"
#include "format/safetensors.h"
#include "run/run.h"
#include "train/kept.h"

typedef struct hr_tensors {
  hr_run *run;
  /* The trained ones, and those that were in a stage before, sorted by name: frozen ones come from where they came from
   * at first. Without adapters the model's state is among them, as in public checkpoints; else it is with the
   * optimizer's. */
  hr_id *parameters;
  hr_id *state;    /* of the optimizer, sorted by name */
  hr_id *averages; /* of parameters, sorted by name; files have them under the parameters' names */
  size_t n_parameters, n_state, n_averages;
  bool adapters;         /* parameters are those of adapters */
  bool frozen;           /* there are parameters that are not listed */
  unsigned char *window; /* HR_WINDOW_BYTES, for files and for devices the host cannot reach */
  hr_arena arena;
} hr_tensors;

/* How values are called in a file: without the first `drop` characters of their names, with `prefix` in front. */
typedef struct hr_tensor_names {
  const char *prefix;
  size_t drop;
} hr_tensor_names;

/* What a file consists of. */
typedef struct hr_tensor_file {
  const hr_id *values;
  size_t count;
  hr_tensor_names names;
  const hr_kept *kept; /* that follow, as they were; NULL: nothing does */
} hr_tensor_file;

/* carried: per value of the graph, whether a stage before has trained it (handover.h); NULL: none has. */
hr_status hr__tensors_create(hr_run *run, const bool *carried, hr_tensors *out, hr_error *err);
void hr__tensors_destroy(hr_tensors *tensors);

/* Writes a file to the path as it is given, synced and closed. *unread: what is kept could not be read (kept.h). */
hr_status hr__tensors_write(hr_tensors *tensors, const hr_tensor_file *file, const char *path, char hex[HR_SHA256_HEX],
                            uint64_t *bytes, bool *unread, hr_error *err);
hr_status hr__tensors_file_bytes(hr_tensors *tensors, const hr_tensor_file *file, uint64_t *bytes, hr_error *err);
/* Whether a file holds exactly these values, with their shapes and types, and nothing else but what is kept, which
 * checkpoints of before do not have; then reads them into place. */
hr_status hr__tensors_match(hr_tensors *tensors, const hr_tensor_file *file, const char *path, hr_error *err);
hr_status hr__tensors_read(hr_tensors *tensors, const hr_tensor_file *file, const char *path, hr_error *err);

/* HR_FAILURE naming the first tensor that holds a value that is not finite. */
hr_status hr__tensors_finite(hr_tensors *tensors, const hr_id *values, size_t count, hr_error *err);

/* SHA-256 over the trained parameters in order of name, bytes as stored. */
hr_status hr__tensors_sha256(hr_tensors *tensors, char hex[HR_SHA256_HEX], hr_error *err);

#endif
