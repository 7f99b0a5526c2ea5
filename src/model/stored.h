/* Weights as a checkpoint stores them: a folder of safetensors, one such file, or a GGUF file. Tensors have the names,
 * shapes and order of rows of public checkpoints, whatever the file has, and are read in the type that is asked for
 * through small windows, so that no second copy of a tensor ever exists.
 */
#ifndef HR_MODEL_STORED_H
#define HR_MODEL_STORED_H

#include <stdbool.h>

#include "dev/dtype.h"
#include "format/safetensors.h"

typedef struct hr_stored hr_stored;

typedef struct hr_stored_tensor {
  const char *name;
  const char *type; /* as the file calls it: "BF16", "Q4_K" */
  hr_dtype dtype;   /* that holds it without loss; HR_DTYPE_COUNT: it is of a type that is not read */
  int rank;
  int64_t dim[HR_SAFETENSORS_RANK];
} hr_stored_tensor;

/* A folder has model.safetensors, or model.safetensors.index.json with its shards. */
hr_status hr__stored_open(const char *path, hr_stored **out, hr_error *err);
void hr__stored_close(hr_stored *stored); /* NULL is fine */

/* Whether there are weights at all, be it in a format that is not read: a folder with config.json alone can be planned.
 */
bool hr__stored_is_there(const char *path);

size_t hr__stored_count(const hr_stored *stored);
const hr_stored_tensor *hr__stored_at(const hr_stored *stored, size_t index); /* sorted by name */
size_t hr__stored_find(const hr_stored *stored, const char *name);            /* SIZE_MAX: there is none */
int64_t hr__stored_elements(const hr_stored_tensor *tensor);

/* Elements [first, first + count) as F32, BF16 or F16, to nearest even. Any number of threads may read. */
hr_status hr__stored_read(const hr_stored *stored, size_t index, hr_dtype dtype, int64_t first, int64_t count, void *to,
                          hr_error *err);

/* A tensor as safetensors have it: of such a file the very bytes, of a GGUF file elements of the type that holds them
 * without loss. NULL as type: there is none. */
typedef struct hr_stored_bytes {
  const char *type;
  uint64_t bytes;
} hr_stored_bytes;
hr_stored_bytes hr__stored_bytes(const hr_stored *stored, size_t index);
/* Some of these; `at` and `bytes` are multiples of an element's. */
hr_status hr__stored_copy(const hr_stored *stored, size_t index, uint64_t at, size_t bytes, void *to, hr_error *err);

#endif
