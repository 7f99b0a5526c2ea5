#include "graph/init.h"

#include <math.h>

void hr__init_one(const hr_init *init, hr_random_key key, uint64_t first, int64_t count, float *to) {
  (void)init, (void)key, (void)first;
  for (int64_t i = 0; i < count; i++)
    to[i] = 1.0f;
}

void hr__init_constant(const hr_init *init, hr_random_key key, uint64_t first, int64_t count, float *to) {
  (void)key, (void)first;
  for (int64_t i = 0; i < count; i++)
    to[i] = init->a;
}

void hr__init_normal(const hr_init *init, hr_random_key key, uint64_t first, int64_t count, float *to) {
  float pair[2];
  for (int64_t i = 0; i < count; i++) {
    uint64_t index = first + (uint64_t)i;
    if (i == 0 || index % 2 == 0) hr__random_normals(key, 0, index / 2, pair);
    to[i] = init->a * pair[index % 2];
  }
}

/* 24 bits, one word an element. */
static uint32_t bits_of(hr_random_key key, uint64_t index) {
  return hr__random_at(key, 0, index / 4).word[index % 4] >> 8;
}

void hr__init_uniform(const hr_init *init, hr_random_key key, uint64_t first, int64_t count, float *to) {
  for (int64_t i = 0; i < count; i++)
    to[i] = init->a * ((float)bits_of(key, first + (uint64_t)i) * 0x1p-23f - 1.0f);
}

void hr__init_log_uniform(const hr_init *init, hr_random_key key, uint64_t first, int64_t count, float *to) {
  double low = log((double)init->a), high = log((double)init->b);
  for (int64_t i = 0; i < count; i++)
    to[i] = (float)exp(low + (high - low) * ((double)bits_of(key, first + (uint64_t)i) * 0x1p-24));
}

void hr__init_log_of_uniform(const hr_init *init, hr_random_key key, uint64_t first, int64_t count, float *to) {
  double low = (double)init->a, high = (double)init->b;
  for (int64_t i = 0; i < count; i++)
    to[i] = (float)log(low + (high - low) * ((double)bits_of(key, first + (uint64_t)i) * 0x1p-24));
}

void hr__init_step_bias(const hr_init *init, hr_random_key key, uint64_t first, int64_t count, float *to) {
  hr__init_log_uniform(init, key, first, count, to);
  for (int64_t i = 0; i < count; i++)
    to[i] = (float)log(expm1((double)to[i]));
}

hr_init hr__init_xavier(int64_t inputs, int64_t outputs) {
  return (hr_init){.rule = HR_INIT_UNIFORM, .a = (float)sqrt(6.0 / (double)(inputs + outputs))};
}

hr_init hr__init_kaiming(int64_t inputs, double gain) {
  return (hr_init){.rule = HR_INIT_NORMAL, .a = (float)(gain / sqrt((double)inputs))};
}
