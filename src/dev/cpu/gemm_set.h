/* What of the library some products take together, known without making them: code for each shape of tile, which equal
 * ones share, and objects for each worker. Which way bf16 is multiplied is not known here (where the library has no
 * product for a shape, it is done in f32): both are counted, and the larger holds.
 */
#ifndef HR_DEV_CPU_GEMM_SET_H
#define HR_DEV_CPU_GEMM_SET_H

#include "base/mem.h"
#include "dev/cpu/gemm.h"

enum { HR_GEMM_WAYS = 2 }; /* without and with products of bf16 */

typedef struct hr_gemm_shape {
  hr_gemm_tile tile;
  int workers; /* 0: no shape */
} hr_gemm_shape;

typedef struct hr_gemm_shapes {
  hr_gemm_shape *slots; /* by hash; a power of two of them */
  size_t capacity, count, workers;
} hr_gemm_shapes;

typedef struct hr_gemm_set {
  hr_arena *arena;
  hr_gemm_shapes added; /* whole products: equal ones have the same tiles */
  hr_gemm_shapes ways[HR_GEMM_WAYS];
  bool failed; /* out of memory: something is missing */
} hr_gemm_set;

void hr__gemm_set_add(hr_gemm_set *set, const hr_gemm_spec *spec, int threads);

/* Shapes, and workers of all of them, of the way that has more. */
size_t hr__gemm_set_shapes(const hr_gemm_set *set);
size_t hr__gemm_set_workers(const hr_gemm_set *set);

#endif
