/* What there is to generate from: a model, an adapter with its base, or a run, whose newest checkpoint is one of both.
 */
#ifndef HR_TRAIN_ORIGIN_H
#define HR_TRAIN_ORIGIN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/mem.h"
#include "base/status.h"

enum { HR_ORIGIN_SETTINGS = 8 };
typedef struct hr_origin {
  const char *model;                        /* folder or file of the model, or of the adapter's base */
  bool adapted;                             /* it is the base of an adapter, which the settings name */
  int64_t step;                             /* of a run: that its checkpoint is of; 0: it is no run */
  const char *settings[HR_ORIGIN_SETTINGS]; /* that go with it, as overrides: "model.precision=bf16-true" */
  size_t n_settings;
} hr_origin;

/* All texts in `arena`. What cannot be generated from is HR_BAD_INPUT. */
hr_status hr__origin_find(const char *path, hr_arena *arena, hr_origin *out, hr_error *err);

#endif
