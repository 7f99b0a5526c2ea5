/* Element types: see dev/dtype.h. */
#include "dev/dtype.h"

static const struct {
  const char *name;
  size_t bytes;
} dtypes[HR_DTYPE_COUNT] = {
#define HR_DTYPE_ROW(code, name, file_name, bytes) [code] = {name, bytes},
    HR_DTYPE_MAP(HR_DTYPE_ROW)
#undef HR_DTYPE_ROW
};

size_t hr_dtype_bytes(hr_dtype dtype) {
  return (unsigned)dtype < HR_DTYPE_COUNT ? dtypes[dtype].bytes : 0;
}

const char *hr_dtype_name(hr_dtype dtype) {
  return (unsigned)dtype < HR_DTYPE_COUNT ? dtypes[dtype].name : "?";
}
