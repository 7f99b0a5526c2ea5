/* .npy: an array of integers or, where they are asked for, of f32 or f64 as NumPy saves it, versions 1 to 3, little
 * endian, rows first (C order); and f32 out. */
#ifndef HR_FORMAT_NPY_H
#define HR_FORMAT_NPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum { HR_NPY_RANK = 4, HR_NPY_HEAD = 1 << 16 /* most bytes of a header that are looked at */ };

typedef struct hr_npy_head {
  int rank;
  int64_t dim[HR_NPY_RANK];
  int64_t elements;
  int width; /* bytes of an element: 1, 2, 4 or 8 */
  bool is_signed;
  bool is_float;
  uint64_t data_begin; /* byte of the file */
} hr_npy_head;

/* Reads the header, which is at the beginning of `head`, of a file of `file_bytes` bytes: all elements are in it. */
hr_status hr__npy_head(const char *name, const void *head, size_t head_bytes, uint64_t file_bytes, hr_npy_head *out,
                       hr_error *err);

/* An array in a file. */
typedef struct hr_npy hr_npy;
hr_status hr__npy_open(const char *path, hr_npy **out, hr_error *err);
/* The same of one that may also hold f32 or f64. */
hr_status hr__npy_open_numbers(const char *path, hr_npy **out, hr_error *err);
void hr__npy_close(hr_npy *npy); /* NULL is fine */
const hr_npy_head *hr__npy_shape(const hr_npy *npy);
/* Elements [first, first + count) in the order they lie in. u64 above INT64_MAX is HR_BAD_INPUT. */
hr_status hr__npy_read(const hr_npy *npy, int64_t first, int64_t count, int64_t *out, hr_error *err);

/* The same as f64, of any kind of number; they need not be finite. */
hr_status hr__npy_read_numbers(const hr_npy *npy, int64_t first, int64_t count, double *out, hr_error *err);

/* Writes values [rows, columns] as f32; an old file stays whole on any failure. */
hr_status hr__npy_write(const char *path, const float *values, int64_t rows, int64_t columns, hr_error *err);

/* Element `index` of elements as they lie; false: it does not fit 64 bits with sign. */
bool hr__npy_element(const hr_npy_head *head, const unsigned char *elements, size_t index, int64_t *out);

#endif
