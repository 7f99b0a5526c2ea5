/* Element types. bf16 and f16 are stored as uint16_t; base/half.h converts them. */
#ifndef HR_DEV_DTYPE_H
#define HR_DEV_DTYPE_H

#include <stddef.h>
#include <stdint.h>

#include "base/half.h"

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

#endif
