/* pointwise: a small program over broadcast operands, element by element; rearrange: one operand looked at in another
 * way.
 *
 * A program is a list of steps, each one formula (op/formulas.h) of operands and of earlier steps. A node of a model
 * has one step; the fuse pass joins chains of them, and backward is a program as well, with a result for each operand's
 * gradient. Both devices run programs without a compiler, over tiles that stay in the cache or in registers. Between
 * two steps a value has the type that it would have in memory (hr_step.round), so joining nodes changes no bit.
 *
 * Operands are floats, or whole numbers (u8, i32: images, masks, counts), which are read as f32 and take no gradient.
 *
 * An operand is read through a map from the axes of the result to its own: in order (plain), permuted, repeated
 * (broadcast), from an index on (slice), or beside its range, where it is 0 (pad).
 */
#ifndef HR_OP_POINTWISE_H
#define HR_OP_POINTWISE_H

#include "graph/builder.h"
#include "op/formulas.h"

/* What one node holds at most. Forward programs are kept so short that their backward fits (pass/fuse.c). */
enum { HR_PROGRAM_INPUTS = 16, HR_PROGRAM_STEPS = 64, HR_PROGRAM_RESULTS = 8, HR_SAME_TYPE = -1 };

typedef struct hr_map {
  int8_t axis[HR_RANK];   /* per axis of the result: the operand's, or -1: the same elements all along it */
  int64_t first[HR_RANK]; /* per axis of the operand: index that index 0 of the result falls on; may lie outside */
} hr_map;

/* Values are numbered: operands first, then steps. */
typedef struct hr_step {
  uint8_t formula; /* hr_formula */
  uint8_t part;    /* hr_part */
  int8_t round;    /* hr_dtype that the value is rounded to, or HR_SAME_TYPE: it is not */
  int8_t from[3];  /* values: (a, b) of a value, (dy, a, b) of a slope; those that are not read are 0 */
  float p, q;
} hr_step;

typedef struct hr_program_result {
  int8_t from;  /* value */
  int8_t dtype; /* hr_dtype, or HR_SAME_TYPE: that of the first operand that is a float; f32: none is */
} hr_program_result;

typedef struct hr_pointwise_args {
  int8_t rank; /* of all results */
  int8_t n_in, n_steps, n_out;
  int64_t size[HR_RANK]; /* of an axis; 0: as the operands that have it */
  hr_map map[HR_PROGRAM_INPUTS];
  hr_step step[HR_PROGRAM_STEPS];
  hr_program_result result[HR_PROGRAM_RESULTS];
} hr_pointwise_args;

/* What reduce makes of the elements along its axes. */
typedef enum hr_reduction { HR_REDUCE_SUM, HR_REDUCE_MEAN, HR_REDUCE_MAX, HR_REDUCE_MIN } hr_reduction;

typedef struct hr_reduce_args {
  hr_pointwise_args program; /* of what is reduced; its one result is never stored */
  hr_reduction reduction;
  uint8_t axes; /* bit d: axis d of the program's result is reduced; they stay, with size 1 */
  int8_t dtype; /* of the result, or HR_SAME_TYPE: that of the program's */
} hr_reduce_args;

/* Types of operands of programs. */
#define HR_PROGRAM_DTYPES (HR_FLOATS | HR_DTYPE_BIT(HR_U8) | HR_DTYPE_BIT(HR_I32))

extern const hr_op hr_op_pointwise, hr_op_pointwise_bwd, hr_op_rearrange, hr_op_reduce;

hr_id hr__unary(hr_builder *b, hr_formula formula, hr_id x, float p, float q);
/* Axes are matched from the last one on; one that is missing, or is 1 where the other's is not, is repeated. */
hr_id hr__binary(hr_builder *b, hr_formula formula, hr_id left, hr_id right);

/* Elements of x where the mask is not 0, of y where it is; broadcast as those of binary ops. What is not selected has
 * no part in the result, be it NaN. (-0 becomes 0.) The mask takes no gradient. */
hr_id hr__select(hr_builder *b, hr_id mask, hr_id x, hr_id y);

/* Axis d of the result is axis order[d] of x. */
hr_id hr__permute(hr_builder *b, hr_id x, const int *order);
/* Elements [first, first + count) along an axis; beyond the ends they are 0 (pad). */
hr_id hr__window(hr_builder *b, hr_id x, int axis, int64_t first, int64_t count);
/* Axes of size 1, and missing leading ones, repeated to that shape. */
hr_id hr__expand(hr_builder *b, hr_id x, int rank, const int64_t *size);
/* Without these axes (bit d: axis d), which have size 1; at least one stays. */
hr_id hr__squeeze(hr_builder *b, hr_id x, unsigned axes);
/* Over any set of axes (bit d: axis d), which stay with size 1. */
hr_id hr__reduce(hr_builder *b, hr_reduction reduction, hr_id x, unsigned axes);

/* ---- for kernels, rules and the fuse pass ---- */

hr_pointwise_args hr__program_plain(int rank, int n_in); /* operands as they are, no step, no result */
bool hr__map_is_plain(const hr_pointwise_args *args, int in);
const char *hr__formula_name(hr_formula formula);
int hr__formula_operands(hr_formula formula);
/* Shape of the results, from the operands' shapes; checks maps and steps. */
hr_status hr__program_shape(const hr_op_view *view, const hr_pointwise_args *args, hr_desc *result, hr_error *err);
double hr__program_flops(const hr_pointwise_args *args);
/* hr_op.batch and hr_op.resize of a program. */
bool hr__program_batch(const hr_op_view *view, const hr_pointwise_args *args, const hr_batch *in, hr_batch *out);
void hr__program_resize(hr_pointwise_args *args, int axis, int64_t size);

/* Emits the gradients of a node's operands, given that of its program's result 0, which is read through `dy_map` in a
 * space of that shape; NULL: it lies as the result does. */
struct hr_adjoint;
void hr__program_grad(struct hr_adjoint *a, const struct hr_node *node, const hr_pointwise_args *args, hr_id dy,
                      const hr_map *dy_map, const hr_desc *space);

#endif
