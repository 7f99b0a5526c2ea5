/* Numbers of 16 bits, stored as uint16_t, from and to f32. */
#ifndef HR_BASE_HALF_H
#define HR_BASE_HALF_H

#include <stdint.h>
#include <string.h>

static inline float hr__bf16_to_f32(uint16_t bits) {
  uint32_t word = (uint32_t)bits << 16;
  float value;
  memcpy(&value, &word, sizeof value);
  return value;
}

/* Round to nearest even; NaN stays NaN. */
static inline uint16_t hr__f32_to_bf16(float value) {
  uint32_t word;
  memcpy(&word, &value, sizeof word);
  uint32_t rounded = (word + 0x7fffu + ((word >> 16) & 1u)) >> 16;
  uint32_t quiet = (word >> 16) | 0x40u;
  return (uint16_t)((word & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
}

/* f16 both ways without branches, so that compilers vectorise loops over them: every case is computed, one is chosen.
 * Exact for zeros, subnormals and infinities; NaN stays NaN, made quiet. */
static inline float hr__f16_to_f32(uint16_t bits) {
  int32_t magnitude = bits & 0x7fff, fraction = bits & 0x3ff;
  float small = (float)fraction * 0x1p-24f; /* zero and subnormals */
  int32_t small_word, quiet = fraction ? 0x400000 : 0;
  memcpy(&small_word, &small, sizeof small_word);
  int32_t word = (magnitude << 13) + (112 << 23); /* the exponent's bias is 15 here, 127 there */
  word = magnitude < 0x400 ? small_word : word;
  word = magnitude < 0x7c00 ? word : (0x7f800000 | fraction << 13 | quiet);
  uint32_t all = (uint32_t)word | (uint32_t)(bits & 0x8000) << 16;
  float value;
  memcpy(&value, &all, sizeof value);
  return value;
}

/* Round to nearest even; 65520 and above become infinite. */
static inline uint16_t hr__f32_to_f16(float value) {
  uint32_t all;
  memcpy(&all, &value, sizeof all);
  int32_t sign = (int32_t)(all >> 16 & 0x8000), magnitude = (int32_t)(all & 0x7fffffff);
  int32_t half = (magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13;
  /* Subnormal: adding 0.5 puts units of 2^-24 into the low bits of the sum, rounded by the addition itself. */
  float shifted;
  memcpy(&shifted, &magnitude, sizeof shifted);
  shifted += 0.5f;
  int32_t low;
  memcpy(&low, &shifted, sizeof low);
  half = magnitude < 0x38800000 ? low - 0x3f000000 : half;
  half = magnitude < 0x477ff000 ? half : 0x7c00;
  half = magnitude > 0x7f800000 ? (0x7e00 | (magnitude >> 13 & 0x3ff)) : half;
  return (uint16_t)(sign | half);
}

#endif
