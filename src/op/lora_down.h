/* lora_down: the first half of low-rank adapters behind their dropout, which is never stored.
 *
 *   h  [..., n]  = dropout(x) At                        x [samples, ..., in], A [n, in]
 *   dx [..., in] = mask (dh A) / (1 - p)  (+ partial)
 *   dA [n, in]   = dht dropout(x)         (+ partial)
 *
 * The mask is the one that `dropout` draws (op/dropout.h); 1 / (1 - p) is put on f32 sums, so that x is rounded
 * nowhere.
 */
#ifndef HR_OP_LORA_DOWN_H
#define HR_OP_LORA_DOWN_H

#include "op/dropout.h"

typedef struct hr_lora_down_dw_args {
  hr_dropout_args drop;
  hr_dtype dtype; /* of dA and its partial sum: the parameter's */
} hr_lora_down_dw_args;

extern const hr_op hr_op_lora_down;    /* x, A, control -> h; arguments: hr_dropout_args */
extern const hr_op hr_op_lora_down_dx; /* dh, A, control, partial? -> dx; arguments: hr_dropout_args */
extern const hr_op hr_op_lora_down_dw; /* dh, x, control, partial? -> dA */

hr_id hr__lora_down(hr_builder *b, hr_id x, hr_id A, float p);

#endif
