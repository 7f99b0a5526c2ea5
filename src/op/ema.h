/* ema: a value that persists follows another, in place: running statistics of a batch norm, averages of weights.
 *
 *   e = decay e + (1 - decay) x        in f32; decay 0: e = x
 *
 * With a control block a skipped step leaves it as it is. */
#ifndef HR_OP_EMA_H
#define HR_OP_EMA_H

#include "graph/builder.h"

typedef struct hr_ema_args {
  float decay;
} hr_ema_args;

/* e f32, x as e in any float type, control? u8 [sizeof(hr_control)] -> e, in place */
extern const hr_op hr_op_ema;

hr_id hr__ema(hr_builder *b, hr_id e, hr_id x, hr_id control, float decay);

/* Lets a state (hr__state) follow a value once per micro-batch. What reads the state in this program reads it as it was
 * before, backward too: the node goes to the program's end (pass/state.c). Programs that do not train leave states as
 * they are. Returns the new value, for a further one to follow. */
hr_id hr__state_follow(hr_builder *b, hr_id state, hr_id x, float decay);

#endif
