/* Sizes of array descriptions. Overflow saturates: such a shape is refused by whoever checks it against a budget. */
#include "dev/kernel.h"

#include "base/checked.h"

static int64_t product(const int64_t *dim, int count) {
  int64_t total = 1;
  bool overflow = false;
  for (int i = 0; i < count; i++) {
    if (dim[i] == 0) return 0;
    overflow = overflow || !hr__mul_i64(total, dim[i], &total);
  }
  return overflow ? INT64_MAX : total;
}

int64_t hr_desc_count(const hr_desc *desc) {
  return product(desc->dim, desc->rank);
}

size_t hr_desc_bytes(const hr_desc *desc) {
  size_t bytes;
  return hr__mul_size((size_t)hr_desc_count(desc), hr_dtype_bytes(desc->dtype), &bytes) ? bytes : SIZE_MAX;
}

int64_t hr_desc_rows(const hr_desc *desc) {
  return desc->rank > 1 ? product(desc->dim, desc->rank - 1) : 1;
}

int64_t hr_desc_columns(const hr_desc *desc) {
  return desc->rank ? desc->dim[desc->rank - 1] : 1;
}

bool hr_desc_same_shape(const hr_desc *a, const hr_desc *b) {
  if (a->rank != b->rank) return false;
  for (int i = 0; i < a->rank; i++)
    if (a->dim[i] != b->dim[i]) return false;
  return true;
}
