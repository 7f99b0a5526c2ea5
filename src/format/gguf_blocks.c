#include "format/gguf_blocks.h"

#include <string.h>

#include "base/half.h"

static uint16_t u16_at(const unsigned char *at) {
  return (uint16_t)(at[0] | at[1] << 8);
}
static uint32_t u32_at(const unsigned char *at) {
  return (uint32_t)u16_at(at) | (uint32_t)u16_at(at + 2) << 16;
}
static float f16_at(const unsigned char *at) {
  return hr__f16_to_f32(u16_at(at));
}

static void f32_block(const unsigned char *block, float *out) {
  uint32_t word = u32_at(block);
  memcpy(out, &word, sizeof *out);
}
static void f16_block(const unsigned char *block, float *out) {
  *out = f16_at(block);
}
static void bf16_block(const unsigned char *block, float *out) {
  *out = hr__bf16_to_f32(u16_at(block));
}

/* d, 32 i8: d * q */
static void q8_0_block(const unsigned char *block, float *out) {
  float d = f16_at(block);
  for (int i = 0; i < 32; i++)
    out[i] = d * (float)(int8_t)block[2 + i];
}

/* Low nibbles are elements 0 to 15, high ones 16 to 31. */
static int nibble(const unsigned char *bytes, int i) {
  return i < 16 ? bytes[i] & 15 : bytes[i - 16] >> 4;
}

/* d, nibbles: d * (q - 8) */
static void q4_0_block(const unsigned char *block, float *out) {
  float d = f16_at(block);
  for (int i = 0; i < 32; i++)
    out[i] = d * (float)(nibble(block + 2, i) - 8);
}

/* d, m, nibbles: d * q + m */
static void q4_1_block(const unsigned char *block, float *out) {
  float d = f16_at(block), m = f16_at(block + 2);
  for (int i = 0; i < 32; i++)
    out[i] = d * (float)nibble(block + 4, i) + m;
}

/* d, fifth bits, nibbles: d * (q - 16) */
static void q5_0_block(const unsigned char *block, float *out) {
  float d = f16_at(block);
  uint32_t high = u32_at(block + 2);
  for (int i = 0; i < 32; i++)
    out[i] = d * (float)((nibble(block + 6, i) | (int)(high >> i & 1) << 4) - 16);
}

/* d, m, fifth bits, nibbles: d * q + m */
static void q5_1_block(const unsigned char *block, float *out) {
  float d = f16_at(block), m = f16_at(block + 2);
  uint32_t high = u32_at(block + 4);
  for (int i = 0; i < 32; i++)
    out[i] = d * (float)(nibble(block + 8, i) | (int)(high >> i & 1) << 4) + m;
}

/* Scale and least value of the 32 elements j of 8: 6 bits each, packed into 12 bytes. */
static void scales(const unsigned char *s, int j, int *scale, int *least) {
  if (j < 4) {
    *scale = s[j] & 63;
    *least = s[j + 4] & 63;
  } else {
    *scale = (s[j + 4] & 15) | (s[j - 4] >> 6) << 4;
    *least = s[j + 4] >> 4 | (s[j] >> 6) << 4;
  }
}

/* d, dmin, scales, (fifth bits,) nibbles: (d * scale) * q - (dmin * least). Bytes of nibbles serve two neighbours, the
 * lower one with their low halves. */
static void k_block(const unsigned char *block, const unsigned char *high, const unsigned char *low, float *out) {
  float d = f16_at(block), dmin = f16_at(block + 2);
  for (int j = 0; j < 8; j++) {
    int scale, least;
    scales(block + 4, j, &scale, &least);
    float by = d * (float)scale, minus = dmin * (float)least;
    for (int i = 0; i < 32; i++) {
      int q = low[32 * (j / 2) + i] >> 4 * (j & 1) & 15;
      if (high) q |= (high[i] >> j & 1) << 4;
      out[32 * j + i] = by * (float)q - minus;
    }
  }
}
static void q4_k_block(const unsigned char *block, float *out) {
  k_block(block, NULL, block + 16, out);
}
static void q5_k_block(const unsigned char *block, float *out) {
  k_block(block, block + 16, block + 48, out);
}

/* 128 bytes of low nibbles, 64 of upper two bits, 16 i8 scales, d: (d * scale) * (q - 32) */
static void q6_k_block(const unsigned char *block, float *out) {
  const unsigned char *low = block, *high = block + 128, *scale = block + 192;
  float d = f16_at(block + 208);
  for (int half = 0; half < 2; half++)
    for (int quarter = 0; quarter < 4; quarter++)
      for (int i = 0; i < 32; i++) {
        int q = low[64 * half + 32 * (quarter & 1) + i] >> 4 * (quarter >> 1) & 15;
        q |= (high[32 * half + i] >> 2 * quarter & 3) << 4;
        float by = d * (float)(int8_t)scale[8 * half + 2 * quarter + i / 16];
        out[128 * half + 32 * quarter + i] = by * (float)(q - 32);
      }
}

static const hr_gguf_type types[] = {
    {0, "F32", 1, 4, f32_block},
    {1, "F16", 1, 2, f16_block},
    {2, "Q4_0", 32, 18, q4_0_block},
    {3, "Q4_1", 32, 20, q4_1_block},
    {6, "Q5_0", 32, 22, q5_0_block},
    {7, "Q5_1", 32, 24, q5_1_block},
    {8, "Q8_0", 32, 34, q8_0_block},
    {9, "Q8_1", 32, 40, NULL},
    {10, "Q2_K", 256, 84, NULL},
    {11, "Q3_K", 256, 110, NULL},
    {12, "Q4_K", 256, 144, q4_k_block},
    {13, "Q5_K", 256, 176, q5_k_block},
    {14, "Q6_K", 256, 210, q6_k_block},
    {15, "Q8_K", 256, 292, NULL},
    {16, "IQ2_XXS", 256, 66, NULL},
    {17, "IQ2_XS", 256, 74, NULL},
    {18, "IQ3_XXS", 256, 98, NULL},
    {19, "IQ1_S", 256, 50, NULL},
    {20, "IQ4_NL", 32, 18, NULL},
    {21, "IQ3_S", 256, 110, NULL},
    {22, "IQ2_S", 256, 82, NULL},
    {23, "IQ4_XS", 256, 136, NULL},
    {24, "I8", 1, 1, NULL},
    {25, "I16", 1, 2, NULL},
    {26, "I32", 1, 4, NULL},
    {27, "I64", 1, 8, NULL},
    {28, "F64", 1, 8, NULL},
    {29, "IQ1_M", 256, 56, NULL},
    {30, "BF16", 1, 2, bf16_block},
    {34, "TQ1_0", 256, 54, NULL},
    {35, "TQ2_0", 256, 66, NULL},
    {39, "MXFP4", 32, 17, NULL},
    {40, "NVFP4", 64, 36, NULL},
};

const hr_gguf_type *hr__gguf_type(uint32_t number) {
  for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
    if (types[i].number == number) return &types[i];
  return NULL;
}
