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
#include <string.h>

enum { HR_DYNAMIC8_CODES = 256, HR_DYNAMIC8_ZERO = 127 /* index of 0 in the signed code */ };

/* The values, ascending. */
const float *hr__dynamic8_signed(void);
const float *hr__dynamic8_unsigned(void);

/* Nearest value of one of the two codes. */
uint8_t hr__dynamic8_encode(const float *code, float x);

/* The same for loops that must be vectorised, on sizes |x| of 0 to 1, as steps of the code above its 0. Sizes fall into
 * bins by their upper 16 bits, from 2^-23 (all below is one bin) to 1; no bin has more than one midpoint, so one look
 * into the bin and one comparison are exact. */
enum { HR_DYNAMIC8_FIRST_BIN = 104 << 7, HR_DYNAMIC8_BINS = (23 << 7) + 1 };
typedef struct hr_dynamic8_entry {
  int32_t start; /* steps of the smallest size in the bin */
  float middle;  /* between them and one more; beyond the last step infinite */
} hr_dynamic8_entry;
typedef struct hr_dynamic8_bins {
  hr_dynamic8_entry entry[HR_DYNAMIC8_BINS];
} hr_dynamic8_bins;

const hr_dynamic8_bins *hr__dynamic8_signed_bins(void);   /* up to 128 steps, of which 127 exist below 0 */
const hr_dynamic8_bins *hr__dynamic8_unsigned_bins(void); /* up to 255 steps */

static inline __attribute__((always_inline)) int32_t hr__dynamic8_bin(float size) {
  uint32_t word;
  memcpy(&word, &size, sizeof word);
  int32_t bin = (int32_t)(word >> 16) - HR_DYNAMIC8_FIRST_BIN;
  bin = bin < 0 ? 0 : bin;
  return bin > HR_DYNAMIC8_BINS - 1 ? HR_DYNAMIC8_BINS - 1 : bin;
}

/* Whether a size is one step above its bin's start; `middle`: that of the start. `mirrored`: 1 for the size of a
 * negative number, whose ties go to the value farther from 0. */
static inline __attribute__((always_inline)) int32_t hr__dynamic8_above(float size, float middle, int32_t mirrored) {
  return (size > middle) | (mirrored & (size == middle));
}

#endif
