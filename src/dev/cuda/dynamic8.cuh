/* The dynamic 8-bit code on the device: its values and, for encoding, its bins in one word each. base/dynamic8.h has
 * the definition, base/dynamic8.c the same arithmetic; here the compiler does it.
 */
#ifndef HR_DEV_CUDA_DYNAMIC8_CUH
#define HR_DEV_CUDA_DYNAMIC8_CUH

#include "dev/cuda/launch.cuh"
extern "C" {
#include "base/dynamic8.h"
}

struct dynamic8_values {
  float value[HR_DYNAMIC8_CODES];
};

/* The positive values of all seven levels from value[at] on, level i with `first` * 2^i of them, and 1 behind them. */
constexpr void dynamic8_fill(dynamic8_values &values, int at, int first) {
  constexpr double decade[] = {1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0};
  for (int i = 0; i < 7; i++) {
    int intervals = first << i;
    for (int k = 0; k < intervals; k++)
      values.value[at++] = (float)((0.1 + 0.9 * (k + 0.5) / intervals) * decade[i]);
  }
  values.value[at] = 1.0f;
}

constexpr dynamic8_values dynamic8_signed() {
  dynamic8_values values = {};
  dynamic8_fill(values, HR_DYNAMIC8_ZERO + 1, 1);
  for (int k = 1; k <= HR_DYNAMIC8_ZERO; k++)
    values.value[HR_DYNAMIC8_ZERO - k] = -values.value[HR_DYNAMIC8_ZERO + k];
  return values;
}

constexpr dynamic8_values dynamic8_unsigned() {
  dynamic8_values values = {};
  dynamic8_fill(values, 1, 2);
  return values;
}

/* An entry: steps of the bin's smallest size << 17 | lower 16 bits of the one midpoint within the bin, or, without one,
 * 2^16, which no lower half of a size is above. */
enum { DYNAMIC8_NO_MIDDLE = 1 << 16, DYNAMIC8_STEPS_AT = 17 };
struct dynamic8_bins {
  uint32_t entry[HR_DYNAMIC8_BINS];
};

/* zero: index of the value 0. A bin is 2^-7 of a power of two wide: doubles hold all its bounds exactly. */
constexpr dynamic8_bins dynamic8_bins_of(const dynamic8_values &values, int zero) {
  dynamic8_bins bins = {};
  int steps = 0, last = HR_DYNAMIC8_CODES - 1 - zero;
  double power = 1.0 / (1 << 23); /* HR_DYNAMIC8_FIRST_BIN's */
  for (int bin = 0; bin < HR_DYNAMIC8_BINS; bin++) {
    if (bin > 0 && bin % 128 == 0) power *= 2.0;
    double smallest = power * (1.0 + bin % 128 / 128.0), beyond = smallest + power / 128.0, middle = 2.0;
    for (;;) {
      middle = 2.0; /* beyond the last step there is none */
      if (steps < last) {
        float lower = values.value[zero + steps], upper = values.value[zero + steps + 1];
        float sum = lower + upper;
        middle = (double)(sum * 0.5f);
      }
      if (!(smallest > middle)) break;
      steps++;
    }
    uint32_t low = DYNAMIC8_NO_MIDDLE;
    if (middle < beyond) low = (uint32_t)((middle - smallest) / power * (1 << 23));
    bins.entry[bin] = (uint32_t)steps << DYNAMIC8_STEPS_AT | low;
  }
  return bins;
}

/* Steps above 0 of the value nearest to `size`, of 0 to 1. mirrored: 1 for the size of a negative number, whose ties go
 * to the value farther from 0. */
__device__ inline int dynamic8_steps(const uint32_t *bins, float size, uint32_t mirrored) {
  uint32_t word = __float_as_uint(size);
  int bin = min(max((int)(word >> 16) - (int)HR_DYNAMIC8_FIRST_BIN, 0), (int)HR_DYNAMIC8_BINS - 1);
  uint32_t entry = bins[bin], low = entry & ((1u << DYNAMIC8_STEPS_AT) - 1);
  return (int)(entry >> DYNAMIC8_STEPS_AT) + ((word & 0xffffu) + mirrored > low ? 1 : 0);
}

#endif
