/* Shapes of the tape's tensors. See tape.h. */
#include "base/checked.h"
#include "torch/tape.h"

hr_tdims hr__tdims1(int64_t a) {
  return (hr_tdims){1, {a}};
}

hr_tdims hr__tdims2(int64_t a, int64_t b) {
  return (hr_tdims){2, {a, b}};
}

hr_tdims hr__tdims3(int64_t a, int64_t b, int64_t c) {
  return (hr_tdims){3, {a, b, c}};
}

hr_tdims hr__tdims4(int64_t a, int64_t b, int64_t c, int64_t d) {
  return (hr_tdims){4, {a, b, c, d}};
}

int64_t hr__tdims_elements(hr_tdims dims) {
  int64_t elements = 1;
  for (int i = 0; i < dims.n; i++)
    if (!hr__mul_i64(elements, dims.at[i], &elements))
      return INT64_MAX / 16; /* more than any device has, in bytes too */
  return elements;
}

bool hr__tdims_equal(hr_tdims a, hr_tdims b) {
  if (a.n != b.n) return false;
  for (int i = 0; i < a.n; i++)
    if (a.at[i] != b.at[i]) return false;
  return true;
}

hr_tdims hr__tdims_broadcast(hr_tdims a, hr_tdims b) {
  if (a.n < b.n) return hr__tdims_broadcast(b, a);
  for (int i = 1; i <= b.n; i++)
    if (a.at[a.n - i] < b.at[b.n - i]) a.at[a.n - i] = b.at[b.n - i];
  return a;
}
