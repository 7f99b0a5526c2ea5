/* What pointwise and reduce share on the CPU: a program made ready for its operands, evaluated tile by tile.
 *
 * A tile is HR_TILE neighbours in the order of the space that is walked; every value of a program that is alive at once
 * has a place for one in the worker's scratch, all of them together in the first-level cache.
 */
#ifndef HR_OP_POINTWISE_PARTS_H
#define HR_OP_POINTWISE_PARTS_H

#include <string.h>

#include "op/pointwise_chain.h"

enum { HR_TILE = 1024, HR_PROGRAM_VALUES = HR_PROGRAM_INPUTS + HR_PROGRAM_STEPS };

/* What is large of it is as long as the program and lies behind it: most have a step or two, and models hundreds of
 * them. */
typedef struct hr_ready {
  const hr_pointwise_args *args;
  hr_reading *reading;              /* of an operand */
  hr_link *link;                    /* of a step in a chain */
  int8_t place[HR_PROGRAM_VALUES];  /* of a value in the scratch */
  int8_t round[HR_PROGRAM_STEPS];   /* of a step, where it is needed */
  uint8_t reads[HR_PROGRAM_STEPS];  /* bit i: the step reads its operand i */
  uint8_t chain[HR_PROGRAM_STEPS];  /* steps of the chain that begins with this one; 0: none does */
  bool kept[HR_PROGRAM_STEPS];      /* of a step inside of a chain: its result is read by others than the next one */
  int8_t other[HR_PROGRAM_STEPS];   /* the other value that it reads; -1: none */
  bool in_order[HR_PROGRAM_INPUTS]; /* f32 or bf16 that lies in order in every tile: never copied to its place */
  int vector_bytes;                 /* of chains */
  bool narrow;                      /* all operands are bf16: the low halves of NaNs are 0 */
  bool straight; /* one chain is all of it, and nothing has a place: tiles may be as long as operands lie in order */
} hr_ready;

/* Scratch of one worker. */
size_t hr__program_scratch_bytes(const hr_pointwise_args *args);

/* Of a program made ready, with what lies behind it. */
size_t hr__ready_bytes(const hr_pointwise_args *args);

/* Into `ready`, which has that many bytes. `order`: axes of the result in the order in which they are walked; NULL: as
 * they are. `out`: where results are stored, rounded; NULL: they are not. */
void hr__ready_make(const hr_pointwise_args *args, const hr_tensor *in, const hr_desc *result, const int *order,
                    const hr_tensor *out, hr_ready *ready);

/* Fills in what `ready` says of chains, by all else that it says. */
void hr__chains_find(hr_ready *ready);

/* Where the last step's result is to go. */
typedef struct hr_target {
  void *to;
  bool narrow; /* bf16; of programs whose operands all are */
  bool past;   /* past the cache; `to` allows whole vectors */
} hr_target;

/* Elements [at, at + n) of all values, n <= HR_TILE: where they are is left in `values`, but for those that nothing
 * outside of a chain reads. Returns whether the last step's went to `target` (NULL: it is to be with the others). */
bool hr__tile_run(const hr_ready *ready, const hr_tensor *in, int64_t at, int64_t n, float *scratch,
                  const float **values, const hr_target *target);

/* One step over n elements; `narrow` as in hr_ready. */
void hr__step_run(const hr_step *step, int round, bool narrow, int64_t n, const float *const from[3], float *to);

hr_status hr__pointwise_prepare(const hr_call *call, void **prepared, hr_error *err);
void hr__pointwise_release(void *prepared);
hr_status hr__pointwise_run(const hr_call *call);

#endif
