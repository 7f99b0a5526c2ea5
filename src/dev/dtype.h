/* Element types and the conversions between them. bf16 and f16 are stored as uint16_t. */
#ifndef HR_DEV_DTYPE_H
#define HR_DEV_DTYPE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/*      code     name    safetensors  bytes */
#define HR_DTYPE_MAP(X)                                                                                                \
  X(HR_F32, "f32", "F32", 4)                                                                                           \
  X(HR_BF16, "bf16", "BF16", 2)                                                                                        \
  X(HR_F16, "f16", "F16", 2)                                                                                           \
  X(HR_F64, "f64", "F64", 8)                                                                                           \
  X(HR_I32, "i32", "I32", 4)                                                                                           \
  X(HR_I64, "i64", "I64", 8)                                                                                           \
  X(HR_U8, "u8", "U8", 1)

typedef enum hr_dtype {
#define HR_DTYPE_ENUM(code, name, file_name, bytes) code,
  HR_DTYPE_MAP(HR_DTYPE_ENUM)
#undef HR_DTYPE_ENUM
      HR_DTYPE_COUNT
} hr_dtype;

size_t hr_dtype_bytes(hr_dtype dtype);
const char *hr_dtype_name(hr_dtype dtype);

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

float hr__f16_to_f32(uint16_t bits);
uint16_t hr__f32_to_f16(float value); /* round to nearest even */

#endif
