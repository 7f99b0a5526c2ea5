/* GGUF files in the words of public checkpoints: names of tensors, the order of their rows, config.json.
 *
 * The architecture that a file names (general.architecture) is one row of a table in gguf.c. Files of `llama` have the
 * rows of q and k in pairs that are rotated together; those of the gemma family have 1 added to the weights of norms.
 */
#ifndef HR_MODEL_GGUF_H
#define HR_MODEL_GGUF_H

#include "format/gguf.h"
#include "model/model.h"

typedef struct hr_gguf_weight {
  char name[HR_TENSOR_NAME]; /* in public checkpoints; "": none, since a setting says the same */
  int64_t head_rows;         /* > 0: rows of q or k, in heads of so many, lie in pairs */
  bool raised;               /* 1 was added */
} hr_gguf_weight;

/* What a tensor is. One that the architecture does not have is HR_UNSUPPORTED. */
hr_status hr__gguf_weight(const hr_gguf *file, const hr_gguf_tensor *tensor, hr_gguf_weight *out, hr_error *err);

/* Elements of a row: along the last axis, or single ones where those of a bias are in another order. */
int64_t hr__gguf_row_width(const hr_gguf_tensor *tensor, const hr_gguf_weight *weight);
/* Elements [first, first + count) of a row of the public checkpoint, in f32; both are multiples of the type's block. */
hr_status hr__gguf_row_read(const hr_gguf *file, const hr_gguf_tensor *tensor, const hr_gguf_weight *weight,
                            int64_t row, int64_t first, int64_t count, float *out, hr_error *err);

/* The text of the config.json that the model would have, in `arena`. */
hr_status hr__gguf_config(const hr_gguf *file, const char *name, hr_arena *arena, char **text, size_t *bytes,
                          hr_error *err);

#endif
