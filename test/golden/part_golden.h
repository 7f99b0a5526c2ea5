/* What the golden tests share: a case from its files, as a recipe with further settings, running on the CPU with
 * the golden weights. */
#ifndef HR_TEST_GOLDEN_H
#define HR_TEST_GOLDEN_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "compile/compile.h"
#include "format/safetensors.h"
#include "run/run.h"

/* One case: its files, and a program of its model on the CPU with the golden weights. */
typedef struct golden {
  hr_arena arena;
  char folder[512];
  hr_safetensors *io;
  int64_t steps, batch, length;
  int32_t *tokens, *targets; /* [steps, batch, length] */
  hr_recipe *recipe;
  hr_graph *graph;
  hr_device *device;
  hr_plan *plan;
  hr_run *run;
} golden;

void check(hr_status status, const hr_error *err);
/* A tensor of a file, in the case's arena; `count` (optional): elements. */
void *golden_tensor(golden *g, hr_safetensors *file, const char *name, const char *dtype, size_t element,
                    size_t *count);
/* The files in the folder `name` and the recipe; `overrides` as --set takes them. */
void golden_open(golden *g, const char *name, int accumulation, const char *const *overrides, size_t n_overrides);
/* Plans and binds g->graph; with weights that are drawn, and with those of the folder. */
void golden_bind(golden *g, int accumulation);
void golden_start(golden *g, int accumulation);
void golden_close(golden *g);
/* Runs a program on batch `number` and gives its loss: the mean over the targets that count. */
double golden_run(golden *g, hr_program_kind kind, int64_t number, float loss_scale);
void expect_near(double got, double expected, double tolerance, const char *what);
/* Relative L2 distance of a value from what was expected. */
double golden_distance(golden *g, hr_id value, const float *expected, size_t count);

#endif
