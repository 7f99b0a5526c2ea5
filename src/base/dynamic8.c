/* The dynamic 8-bit code: tables made once, on first use. */
#include "base/dynamic8.h"

#include <math.h>
#include <pthread.h>

enum { LEVELS = 7, LAST = HR_DYNAMIC8_CODES - 1 };

static float signed_code[HR_DYNAMIC8_CODES], unsigned_code[HR_DYNAMIC8_CODES];
static hr_dynamic8_bins signed_bins, unsigned_bins;
static pthread_once_t made = PTHREAD_ONCE_INIT;

/* Positive values of all levels in ascending order; level i has `first` * 2^i of them. Returns how many there are. */
static int levels_fill(float *out, int first) {
  static const double decade[LEVELS] = {1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0};
  int count = 0;
  for (int i = 0; i < LEVELS; i++) {
    int intervals = first << i;
    for (int k = 0; k < intervals; k++)
      out[count++] = (float)((0.1 + 0.9 * (k + 0.5) / intervals) * decade[i]);
  }
  return count;
}

/* `value`: the code's values from 0 on, `count` of them. */
static void bins_fill(hr_dynamic8_bins *bins, const float *value, int count) {
  float middle[HR_DYNAMIC8_CODES];
  for (int k = 0; k < count; k++)
    middle[k] = k + 1 < count ? (value[k] + value[k + 1]) * 0.5f : INFINITY;
  int32_t steps = 0;
  for (uint32_t bin = 0; bin < HR_DYNAMIC8_BINS; bin++) {
    uint32_t word = (HR_DYNAMIC8_FIRST_BIN + bin) << 16;
    float smallest;
    memcpy(&smallest, &word, sizeof smallest);
    while (smallest > middle[steps])
      steps++;
    bins->entry[bin] = (hr_dynamic8_entry){steps, middle[steps]};
  }
}

static void codes_make(void) {
  int count = levels_fill(unsigned_code + 1, 2);
  unsigned_code[count + 1] = 1.0f;
  count = levels_fill(signed_code + HR_DYNAMIC8_ZERO + 1, 1);
  for (int k = 1; k <= count; k++)
    signed_code[HR_DYNAMIC8_ZERO - k] = -signed_code[HR_DYNAMIC8_ZERO + k];
  signed_code[LAST] = 1.0f;
  bins_fill(&signed_bins, signed_code + HR_DYNAMIC8_ZERO, HR_DYNAMIC8_CODES - HR_DYNAMIC8_ZERO);
  bins_fill(&unsigned_bins, unsigned_code, HR_DYNAMIC8_CODES);
}

const float *hr__dynamic8_signed(void) {
  pthread_once(&made, codes_make);
  return signed_code;
}

const float *hr__dynamic8_unsigned(void) {
  pthread_once(&made, codes_make);
  return unsigned_code;
}

const hr_dynamic8_bins *hr__dynamic8_signed_bins(void) {
  pthread_once(&made, codes_make);
  return &signed_bins;
}

const hr_dynamic8_bins *hr__dynamic8_unsigned_bins(void) {
  pthread_once(&made, codes_make);
  return &unsigned_bins;
}

uint8_t hr__dynamic8_encode(const float *code, float x) {
  int low = 0, high = LAST; /* the nearest value is one of code[low .. high] */
  while (low < high) {
    int middle = (low + high) / 2;
    if (x > (code[middle] + code[middle + 1]) * 0.5f)
      low = middle + 1;
    else
      high = middle;
  }
  return (uint8_t)low;
}
