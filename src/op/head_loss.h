/* head_loss: the output projection and its cross-entropy in one op, so that the logits of all rows never exist at once.
 *
 *   loss = loss_weight * sum over rows with target >= 0 of  log(sum_v exp(l_v)) - l_target,    l = x Wt (+ bias)
 *
 * loss_weight comes from the control block. Rows are taken in chunks; a chunk's logits (f32) live in the workspace.
 */
#ifndef HR_OP_HEAD_LOSS_H
#define HR_OP_HEAD_LOSS_H

#include "graph/builder.h"

typedef struct hr_head_loss_args {
  int64_t chunk_rows; /* 0: chosen from the shape */
} hr_head_loss_args;

typedef struct hr_head_loss_bwd_args {
  int64_t chunk_rows;
  bool want_dx, want_dw; /* an unwanted result has shape [0] */
  hr_dtype dw_dtype;     /* of dW and of its partial sum */
  bool want_db;
  hr_dtype db_dtype; /* of the bias's gradient and of its partial sum */
} hr_head_loss_bwd_args;

/* Operands from the fifth on; those before are x, W, targets and control in both ops. */
enum {
  HR_HEAD_BIAS = 4,
  HR_HEAD_OPERANDS,
  HR_HEAD_BWD_DLOSS = 4,
  HR_HEAD_BWD_DX_PARTIAL,
  HR_HEAD_BWD_DW_PARTIAL,
  HR_HEAD_BWD_BIAS,
  HR_HEAD_BWD_DB_PARTIAL,
  HR_HEAD_BWD_OPERANDS
};

/* x [..., H], W [V, H], targets i32 [...], control, bias? [V] in any float type       -> loss f32 [1] */
extern const hr_op hr_op_head_loss;
/* x, W, targets, control, dloss f32 [1], dx_partial? [..., H], dw_partial? [V, H], bias?, db_partial? [V]
 *                                                                                     -> loss f32 [1], dx, dW, db */
extern const hr_op hr_op_head_loss_bwd;

hr_id hr__head_loss(hr_builder *b, hr_id x, hr_id weight, hr_id targets);
hr_id hr__head_loss_biased(hr_builder *b, hr_id x, hr_id weight, hr_id bias, hr_id targets); /* bias: or HR_NONE */

#endif
