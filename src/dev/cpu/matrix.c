/* Blocks of matrices, compiled for each type and instruction set. */
#include "dev/cpu/matrix.h"

#include <string.h>

#include "base/clones.h"

#define INLINE static inline __attribute__((always_inline))

static inline int64_t smaller(int64_t a, int64_t b) {
  return a < b ? a : b;
}

INLINE float element_get(const void *data, hr_dtype dtype, int64_t index) {
  if (dtype == HR_F32) return ((const float *)data)[index];
  uint16_t bits = ((const uint16_t *)data)[index];
  return dtype == HR_F16 ? hr__f16_to_f32(bits) : hr__bf16_to_f32(bits);
}

INLINE void element_put(void *data, hr_dtype dtype, int64_t index, float value) {
  if (dtype == HR_F32)
    ((float *)data)[index] = value;
  else
    ((uint16_t *)data)[index] = dtype == HR_F16 ? hr__f32_to_f16(value) : hr__f32_to_bf16(value);
}

INLINE void block_copy_as(const hr_matrix_block *b, hr_dtype from, hr_dtype to) {
  for (int64_t r = 0; r < b->rows; r++)
#pragma omp simd
    for (int64_t c = 0; c < b->columns; c++)
      element_put(b->to, to, r * b->to_ld + c, element_get(b->from, from, r * b->from_ld + c));
}

enum { SIDE = 16 }; /* of the squares in which a block is transposed */

typedef float quad __attribute__((vector_size(16)));

/* to[c][r] = from[r][c], in steps of 4 x 4. */
INLINE void square_transpose(float from[SIDE][SIDE], float to[SIDE][SIDE]) {
  for (int r = 0; r < SIDE; r += 4)
    for (int c = 0; c < SIDE; c += 4) {
      quad row[4];
      for (int i = 0; i < 4; i++)
        memcpy(&row[i], &from[r + i][c], sizeof(quad));
      quad low0 = __builtin_shufflevector(row[0], row[1], 0, 4, 1, 5);
      quad low1 = __builtin_shufflevector(row[2], row[3], 0, 4, 1, 5);
      quad high0 = __builtin_shufflevector(row[0], row[1], 2, 6, 3, 7);
      quad high1 = __builtin_shufflevector(row[2], row[3], 2, 6, 3, 7);
      quad column[4] = {
          __builtin_shufflevector(low0, low1, 0, 1, 4, 5), __builtin_shufflevector(low0, low1, 2, 3, 6, 7),
          __builtin_shufflevector(high0, high1, 0, 1, 4, 5), __builtin_shufflevector(high0, high1, 2, 3, 6, 7)};
      for (int i = 0; i < 4; i++)
        memcpy(&to[c + i][r], &column[i], sizeof(quad));
    }
}

/* Each line of `from` is touched once: rows a power of two apart would push each other out of the cache. */
INLINE void block_transpose_as(const hr_matrix_block *b, hr_dtype from, hr_dtype to) {
  float square[SIDE][SIDE], turned[SIDE][SIDE];
  for (int64_t row = 0; row < b->rows; row += SIDE)
    for (int64_t column = 0; column < b->columns; column += SIDE) {
      int64_t rows = smaller(SIDE, b->rows - row), columns = smaller(SIDE, b->columns - column);
      int64_t at = row * b->from_ld + column, out = column * b->to_ld + row;
      if (rows == SIDE && columns == SIDE) {
        for (int r = 0; r < SIDE; r++)
          for (int c = 0; c < SIDE; c++)
            square[r][c] = element_get(b->from, from, at + r * b->from_ld + c);
        square_transpose(square, turned);
        for (int c = 0; c < SIDE; c++)
          for (int r = 0; r < SIDE; r++)
            element_put(b->to, to, out + c * b->to_ld + r, turned[c][r]);
      } else {
        for (int64_t c = 0; c < columns; c++)
          for (int64_t r = 0; r < rows; r++)
            element_put(b->to, to, out + c * b->to_ld + r, element_get(b->from, from, at + r * b->from_ld + c));
      }
    }
}

/* Calls `as` with constant types. f16 is never multiplied in bf16, so it meets only f32. */
#define BLOCK_BY_TYPE(as, b, from, to)                                                                                 \
  do {                                                                                                                 \
    if ((from) == HR_F32 && (to) == HR_F32)                                                                            \
      as(b, HR_F32, HR_F32);                                                                                           \
    else if ((from) == HR_F32 && (to) == HR_BF16)                                                                      \
      as(b, HR_F32, HR_BF16);                                                                                          \
    else if ((from) == HR_F32)                                                                                         \
      as(b, HR_F32, HR_F16);                                                                                           \
    else if ((from) == HR_F16)                                                                                         \
      as(b, HR_F16, HR_F32);                                                                                           \
    else if ((to) == HR_F32)                                                                                           \
      as(b, HR_BF16, HR_F32);                                                                                          \
    else                                                                                                               \
      as(b, HR_BF16, HR_BF16);                                                                                         \
  } while (0)

HR_CLONES void hr__matrix_copy(const hr_matrix_block *b, hr_dtype from, hr_dtype to) {
  BLOCK_BY_TYPE(block_copy_as, b, from, to);
}

HR_CLONES void hr__matrix_transpose(const hr_matrix_block *b, hr_dtype from, hr_dtype to) {
  BLOCK_BY_TYPE(block_transpose_as, b, from, to);
}

void hr__f32_transpose(const float *from, int64_t from_ld, int64_t rows, int64_t columns, float *to, int64_t to_ld) {
  hr__matrix_transpose(&(hr_matrix_block){from, from_ld, rows, columns, to, to_ld}, HR_F32, HR_F32);
}
