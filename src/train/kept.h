/* Tensors of a checkpoint that the model of a run does not have: poolers, heads for other tasks (HR_UNUSED_KEPT). What
 * a run saves has them as they were, so that a model that was trained whole stays whole.
 */
#ifndef HR_TRAIN_KEPT_H
#define HR_TRAIN_KEPT_H

#include "model/parts.h"
#include "model/stored.h"

typedef struct hr_kept {
  hr_stored
      *from; /* open from the beginning of a run, so that they are there when the run saves; NULL: there are none */
  hr_safetensor *list; /* as files have them, each from 0 on */
  size_t *numbers;     /* in `from` */
  size_t count;
} hr_kept;

/* Those of the checkpoint that a part comes from, under the names of whole models; tables in `arena`. A part with
 * adapters has none: they stay with its base. */
hr_status hr__kept_open(const hr_model_part *part, hr_arena *arena, hr_kept *out, hr_error *err);
void hr__kept_close(hr_kept *kept);

/* Hands their bytes to a writer that has them declared, through a window of `bytes`. *unread tells that the original
 * could not be read: it has changed since it was opened. */
hr_status hr__kept_put(const hr_kept *kept, hr_safetensors_writer *writer, unsigned char *window, size_t bytes,
                       bool *unread, hr_error *err);

#endif
