/* The dynamic 8-bit code: 256 floats in [-1, 1], dense near 0 in ratio and near 1 in value, for numbers divided by the
 * largest of their block.
 *
 * Seven levels i = 0..6, each a decade wide: [0.1, 1] * 10^(i - 6) cut into 2^i (signed) or 2^(i + 1) (unsigned) equal
 * intervals, of which the midpoints are values of the code. Signed: both signs of these, 0 (index 127) and +1 (index
 * 255); there is no -1, index 0 is -0.99296875. Unsigned: these, 0 (index 0) and 1 (index 255).
 *
 * A number is encoded as the index of the nearest value: the upper one of two neighbours where it is greater than their
 * midpoint, which is (lower + upper) / 2 in f32. NaN gives index 0.
 */
#ifndef HR_BASE_DYNAMIC8_H
#define HR_BASE_DYNAMIC8_H

#include <stdint.h>

enum { HR_DYNAMIC8_CODES = 256, HR_DYNAMIC8_ZERO = 127 /* index of 0 in the signed code */ };

/* The values, ascending. */
const float *hr__dynamic8_signed(void);
const float *hr__dynamic8_unsigned(void);

/* Nearest value of one of the two codes. */
uint8_t hr__dynamic8_encode(const float *code, float x);

#endif
