/* Sums of bytes, which may be without limit (UINT64_MAX). */
#ifndef HR_FIT_BYTES_H
#define HR_FIT_BYTES_H

#include <stdint.h>

static inline uint64_t hr__bytes_add(uint64_t a, uint64_t b) {
  return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static inline uint64_t hr__bytes_less(uint64_t bytes, uint64_t by) {
  return bytes > by ? bytes - by : 0;
}

static inline uint64_t hr__bytes_least(uint64_t a, uint64_t b) {
  return a < b ? a : b;
}

static inline uint64_t hr__bytes_most(uint64_t a, uint64_t b) {
  return a > b ? a : b;
}

#endif
