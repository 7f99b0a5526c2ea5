/* Element types of GGUF: how many elements a block has in how many bytes, and blocks as f32.
 *
 * d, m and dmin are f16. Products are made in the order of the formulas and rounded once each, so that results have
 * the bits of the reference (gguf-py): this file is compiled without fused multiply-add.
 */
#ifndef HR_FORMAT_GGUF_BLOCKS_H
#define HR_FORMAT_GGUF_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct hr_gguf_type {
  uint32_t number;
  const char *name;
  uint32_t elements, bytes; /* of a block */
  /* One block; NULL: its elements cannot be read as f32 here. */
  void (*to_f32)(const unsigned char *block, float *out);
} hr_gguf_type;

const hr_gguf_type *hr__gguf_type(uint32_t number); /* NULL: unknown */

#endif
