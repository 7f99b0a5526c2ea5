/* Which kernel bitsandbytes 0.50 takes for a product with a weight of 4 bits: one that reads it as it is, or cuBLAS
 * with the weight unpacked for the call, which costs twice its elements in bytes. */
#ifndef HR_TORCH_PACKED_KERNEL_H
#define HR_TORCH_PACKED_KERNEL_H

#include <stdbool.h>
#include <stdint.h>

typedef struct hr_packed_gpu {
  int capability, multiprocessors;
} hr_packed_gpu;

/* x [rows, in] in bf16 times a weight [out, in] that is packed by blocks of 64. */
bool hr__packed_is_unpacked(const hr_packed_gpu *gpu, int64_t rows, int64_t in, int64_t out);

#endif
