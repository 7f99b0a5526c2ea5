/* compile: recipe -> the whole training graph, through model, the passes before grad, grad, and the passes after it.
 * pass/passes.def lists the passes of both halves in order. */
#ifndef HR_PASS_COMPILE_H
#define HR_PASS_COMPILE_H

#include "model/model.h"

/* Settings that shape the graph, read from the recipe once and checked against each other. */
typedef struct hr_training_shape {
  int64_t batch, length, accumulation;
  bool eval;
} hr_training_shape;
hr_status hr__training_shape(const hr_recipe *recipe, hr_training_shape *out, hr_error *err);

extern const hr_key_table hr_compile_keys; /* training.* settings that shape the graph: batch, optimizer, clipping */

/* Compiles up to and including the stage named `until` ("model", "grad", a pass; NULL: all). */
hr_status hr__compile(const hr_recipe *recipe, const char *until, hr_graph **out, hr_error *err);

#endif
