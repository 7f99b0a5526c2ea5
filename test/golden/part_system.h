/* Whole systems against PyTorch. A case is a file of tensors: weights under "w.", what batches hold, under the names of
 * their fields with all steps one behind the other, what is expected of them, and under "g." the gradients of the
 * first. Its recipe is that of the test. */
#ifndef HR_TEST_GOLDEN_SYSTEM_H
#define HR_TEST_GOLDEN_SYSTEM_H

#include "part_golden.h"

typedef struct system_case {
  const char *file;   /* below test/golden: "video/whole" */
  const char *recipe; /* its text */
  const char *set[4]; /* (optional) overrides; ends with NULL */
  int samples;        /* of a batch, that count */
  size_t least;       /* weights and gradients that are compared, at least */
  bool own_state;     /* the file has no state: it begins as the model has it */
  /* (optional) What the file calls a weight that it has under no name of its own. */
  const char *(*other_name)(const char *weight, char out[300]);
  /* (optional) Gradients that are rounding and nothing else. */
  bool (*rounding)(const char *gradient);
} system_case;

/* Opens the case, planned and bound on the CPU, with the file's weights. */
void system_open(golden *g, const system_case *c, int accumulation, const char *precision);

/* What the file has of a field in batch `number` of `batches`, in the case's arena. */
typedef struct system_field {
  void *data;
  size_t bytes;
} system_field;
system_field system_read(golden *g, const char *field, int64_t number, int64_t batches);
/* Writes an input of the program, where it has one. */
void system_write(golden *g, hr_id program, const char *input, const void *data, size_t bytes);
/* The same field of the file and the program. */
system_field system_feed(golden *g, hr_id program, const char *field, int64_t number, int64_t batches);
/* Runs it as step `number`, from 0, of AdamW with the rates that the files were made with. */
void system_run(golden *g, const system_case *c, hr_id program, int64_t number, float loss_weight);
double system_output(golden *g, hr_id program, const char *name);
/* An output against what the file has under the same name: relative L2 distance. */
void system_output_near(golden *g, hr_program_kind kind, const char *name, double tolerance);
int system_targets(const system_field *targets); /* those that count */

/* Gradients of the first micro-batch, which has been run with accumulation: they stay behind as grad.<parameter>. */
void system_gradients(golden *g, const system_case *c);

#endif
