/* See convert.h. */
#include "model/convert.h"

#include <string.h>

#include "base/clones.h"

/* Loops over two fixed types each, so that the compiler vectorises them where it can. */
HR_CLONES static void f32_from_bf16(float *to, const uint16_t *from, size_t count) {
  for (size_t i = 0; i < count; i++)
    to[i] = hr__bf16_to_f32(from[i]);
}
HR_CLONES static void f32_from_f16(float *to, const uint16_t *from, size_t count) {
  for (size_t i = 0; i < count; i++)
    to[i] = hr__f16_to_f32(from[i]);
}
HR_CLONES static void bf16_from_f32(uint16_t *to, const float *from, size_t count) {
  for (size_t i = 0; i < count; i++)
    to[i] = hr__f32_to_bf16(from[i]);
}
HR_CLONES static void bf16_from_f16(uint16_t *to, const uint16_t *from, size_t count) {
  for (size_t i = 0; i < count; i++)
    to[i] = hr__f32_to_bf16(hr__f16_to_f32(from[i]));
}
HR_CLONES static void f16_from_f32(uint16_t *to, const float *from, size_t count) {
  for (size_t i = 0; i < count; i++)
    to[i] = hr__f32_to_f16(from[i]);
}
HR_CLONES static void f16_from_bf16(uint16_t *to, const uint16_t *from, size_t count) {
  for (size_t i = 0; i < count; i++)
    to[i] = hr__f32_to_f16(hr__bf16_to_f32(from[i]));
}

void hr__convert(hr_dtype to_type, void *to, hr_dtype from_type, const void *from, size_t count) {
  if (to_type == from_type) memcpy(to, from, count * hr_dtype_bytes(to_type));
  if (to_type == HR_F32 && from_type == HR_BF16) f32_from_bf16(to, from, count);
  if (to_type == HR_F32 && from_type == HR_F16) f32_from_f16(to, from, count);
  if (to_type == HR_BF16 && from_type == HR_F32) bf16_from_f32(to, from, count);
  if (to_type == HR_BF16 && from_type == HR_F16) bf16_from_f16(to, from, count);
  if (to_type == HR_F16 && from_type == HR_F32) f16_from_f32(to, from, count);
  if (to_type == HR_F16 && from_type == HR_BF16) f16_from_bf16(to, from, count);
}
