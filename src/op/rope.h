/* Rotary positions: rope_table makes cosines and sines, rope rotates the pairs (i, i + head_dim/2) of heads by them: of
 * all, or of the leading ones where q, k and v lie side by side. */
#ifndef HR_OP_ROPE_H
#define HR_OP_ROPE_H

#include <math.h>

#include "graph/builder.h"

/* Frequencies are theta^(-2i/head_dim). `scaled` stretches the slow ones as Llama 3 does: wavelengths above
 * original_length/low are divided by `factor`, those below original_length/high stay, and between the two the
 * frequency is blended. */
typedef struct hr_rope_table_args {
  int64_t length;   /* positions 0 .. length-1, or as many of each sample */
  int64_t head_dim; /* even */
  double theta;
  double factor, low, high; /* with `scaled` only */
  int64_t original_length;  /* with `scaled` only */
  bool scaled;
} hr_rope_table_args;

typedef struct hr_rope_args {
  int64_t head_dim;
  int64_t heads; /* leading heads that are rotated, the columns behind them stay; 0: all */
  bool inverse;  /* rotates back: the gradient */
} hr_rope_args;

/* Frequency of pair i in f32, step by step as the public models compute it, so that tables agree to the last bits.
 * Here because the host computes it for every device. */
static inline float hr__rope_frequency(const hr_rope_table_args *args, int64_t i) {
  float f = 1.0f / powf((float)args->theta, (float)(2 * i) / (float)args->head_dim);
  if (!args->scaled) return f;
  float wavelength = 6.283185307179586f / f;
  float length = (float)args->original_length, low = (float)args->low, high = (float)args->high;
  float stretched = f / (float)args->factor;
  if (wavelength < length / high) return f;
  if (wavelength > length / low) return stretched;
  float blend = (length / wavelength - low) / (high - low);
  return (1.0f - blend) * stretched + blend * f;
}

extern const hr_op hr_op_rope_table;
extern const hr_op hr_op_rope;

/* f32 [2, length, head_dim/2]: cos, then sin. With positions, i32 [B], every sample has angles of its own, from its
 * position on: [2, B * length, head_dim/2]. */
hr_id hr__rope_table(hr_builder *b, hr_id positions, const hr_rope_table_args *args);

/* x [B, T, heads * head_dim], table [2, T or B * T, head_dim/2] -> the shape of x */
hr_id hr__rope(hr_builder *b, hr_id x, hr_id table, int64_t head_dim); /* all heads */
hr_id hr__rope_heads(hr_builder *b, hr_id x, hr_id table, int64_t head_dim, int64_t heads);

#endif
