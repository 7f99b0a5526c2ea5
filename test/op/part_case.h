/* A case: one op with one sample's shapes, one choice of float types and drawn operands; and how to run it.
 *
 * Every buffer a kernel gets lies between guard bytes; outputs and workspace start as garbage (all bits set: NaN);
 * operands that no output takes over must come back unchanged. Each run checks all of that.
 */
#ifndef HR_TEST_OP_CASE_H
#define HR_TEST_OP_CASE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "part_reference.h"

typedef struct op_case {
  const hr_op *op;
  const reference *reference;
  const hr_sample *sample;
  int sample_number;
  int n_out;                                       /* results of this sample */
  hr_desc in[HR_OP_OPERANDS], out[HR_OP_OPERANDS]; /* rank 0: absent */
  double *value[HR_OP_OPERANDS];                   /* what the operands hold */
  hr_control control;
  hr_arena arena; /* of everything the case and its runs hold */
} op_case;

/* Calls `visit` with every case: op x sample x accepted float types. Absent operands stay as the sample has them. */
void cases_visit(void (*visit)(op_case *c));

/* The same for one sample, which need not be the op's own; `number` is for messages and draws other operands. */
void sample_visit(const hr_op *op, const hr_sample *sample, int number, void (*visit)(op_case *c));

/* The case of one sample with the float operands of `bf16` (bit i) in bf16; false when the op refuses it. */
bool case_create(op_case *c, const hr_op *op, int sample, uint32_t bf16);
/* The same for any sample, with the operands of `narrow` in any type. */
bool case_create_as(op_case *c, const hr_op *op, const hr_sample *sample, int number, uint32_t narrow, hr_dtype dtype);
void case_destroy(op_case *c);
hr_op_view case_view(const op_case *c);
bool operand_is_control(const hr_desc *desc);    /* the control block, among operands of bytes */
bool case_has(const op_case *c, hr_dtype dtype); /* among operands and results */
bool case_is_narrow(const op_case *c);           /* has a 16-bit type */
void case_control(hr_control *control);          /* plausible contents */

/* A message that names op, sample and types. */
__attribute__((format(printf, 2, 3), noreturn)) void case_fail(const op_case *c, const char *format, ...);

typedef struct run_options {
  int threads;
  uint32_t absent;   /* bit i: leave out operand i */
  uint32_t in_place; /* bit a: apply op->alias[a] */
} run_options;

typedef struct run_result {
  void *data[HR_OP_OPERANDS];
  double *value[HR_OP_OPERANDS];
} run_result;

run_result case_run(op_case *c, run_options options);
run_result case_reference(op_case *c); /* values only */

/* The device all runs take: the CPU with a pool of three threads. */
int device_setup(void **state);
int device_teardown(void **state);
hr_device *device_get(void);

/* A dense operand. */
hr_tensor tensor_make(const hr_desc *desc, void *data);

/* Element i of a dense array, and back with rounding. */
double element_read(hr_dtype dtype, const void *data, int64_t i);
void element_write(hr_dtype dtype, void *data, int64_t i, double value);

/* Random numbers of mean 0, variance 1 and at most 3.5 in size; sequence `which` of a name. */
void draw(const char *name, uint64_t which, double *to, int64_t count);

/* What roundings may do to a case's results, as a part of the largest: two to the narrowest type, one of an operand or
 * of what lies between two products (bf16 on processors that multiply it) and one of the result; of f16 four, since
 * small results leave its normal range. */
double case_tolerance(const op_case *c);

/* Fails unless got is within `tolerance` of want: the largest difference relative to the largest |want|, and the L2
 * norm of the difference relative to want's. */
void values_close(const op_case *c, const char *what, const double *got, const double *want, int64_t count,
                  double tolerance);

#endif
