/* The scan of Mamba-2 and the convolution before it, for programs that generate: a sequence goes on where it was left,
 * some positions at a time. What they carry from call to call is of one size, however long the sequence is:
 *
 *   conv_carry   tail [B, k-1, C]: the last k-1 rows of x that have been read, the oldest first
 *   ssd_carry    state f32 [B, H, N P]: h behind the last position
 *
 * both written in place. Formulas, columns and arguments are those of causal_conv.h and ssd.h. A call brings T
 * positions of each sample, right padded: counts[b] of its T rows are there. Where positions[b] is 0 a sequence begins:
 * what was carried counts as 0. Rows that are not there change nothing, and are zero in y.
 *
 * Positions are taken one after the other: a row has the same bits however a sequence was cut into calls, and whatever
 * else is in the batch.
 */
#ifndef HR_OP_CARRY_H
#define HR_OP_CARRY_H

#include "op/causal_conv.h"
#include "op/ssd.h"

enum {
  HR_CONV_CARRY_X,
  HR_CONV_CARRY_W,
  HR_CONV_CARRY_BIAS,
  HR_CONV_CARRY_TAIL,
  HR_CONV_CARRY_POSITIONS,
  HR_CONV_CARRY_COUNTS,
  HR_CONV_CARRY_OPERANDS
};
/* x [B, T, columns], w [C, 1, k] with k > 1, bias? [C], tail, positions i32 [B], counts i32 [B]   -> y [B, T, C], tail
 */
extern const hr_op hr_op_conv_carry;

enum {
  HR_SSD_CARRY_STATE = HR_SSD_D + 1, /* behind those of ssd */
  HR_SSD_CARRY_POSITIONS,
  HR_SSD_CARRY_COUNTS,
  HR_SSD_CARRY_OPERANDS
};
/* mixed [B, T, H P + 2 G N], steps [B, T, columns], A_log, bias, D, state, positions, counts -> y [B, T, H P], state */
extern const hr_op hr_op_ssd_carry;

hr_id hr__conv_carry(hr_builder *b, hr_id x, hr_id weight, hr_id bias, hr_id tail, hr_id positions, hr_id counts,
                     int64_t first); /* bias: or HR_NONE */
hr_id hr__ssd_carry(hr_builder *b, const hr_id operands[HR_SSD_CARRY_OPERANDS], const hr_ssd_args *args);

/* Rows of a sample that are there. For both devices. */
#ifdef __CUDACC__
__host__ __device__
#endif
    static inline int64_t
    hr__carry_rows(int64_t count, int64_t length) {
  if (count < 0) return 0;
  return count < length ? count : length;
}

#endif
