/* Blocks of matrices: copied or transposed, from one type to another, in the calling thread. */
#ifndef HR_DEV_CPU_MATRIX_H
#define HR_DEV_CPU_MATRIX_H

#include <stdint.h>

#include "dev/dtype.h"

typedef struct hr_matrix_block {
  const void *from;
  int64_t from_ld, rows, columns; /* as stored in `from` */
  void *to;
  int64_t to_ld;
} hr_matrix_block;

/* Of f16 only from and to f32. */
void hr__matrix_copy(const hr_matrix_block *b, hr_dtype from, hr_dtype to);
void hr__matrix_transpose(const hr_matrix_block *b, hr_dtype from, hr_dtype to);

/* to [columns, rows] = from [rows, columns] transposed. */
void hr__f32_transpose(const float *from, int64_t from_ld, int64_t rows, int64_t columns, float *to, int64_t to_ld);

#endif
