/* Checked arithmetic for every size that comes from outside: false means overflow, *out is then untouched or junk. */
#ifndef HR_BASE_CHECKED_H
#define HR_BASE_CHECKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool hr__mul_size(size_t a, size_t b, size_t *out) {
  return !__builtin_mul_overflow(a, b, out);
}
static inline bool hr__add_size(size_t a, size_t b, size_t *out) {
  return !__builtin_add_overflow(a, b, out);
}
static inline bool hr__mul_i64(int64_t a, int64_t b, int64_t *out) {
  return !__builtin_mul_overflow(a, b, out);
}
static inline bool hr__add_i64(int64_t a, int64_t b, int64_t *out) {
  return !__builtin_add_overflow(a, b, out);
}

/* Rounds up to a multiple of a power of two; false on overflow. */
static inline bool hr__round_up(size_t bytes, size_t power_of_two, size_t *out) {
  size_t raised;
  if (!hr__add_size(bytes, power_of_two - 1, &raised)) return false;
  *out = raised & ~(power_of_two - 1);
  return true;
}

#endif
