/* Matrix products on the CPU: C (+)= op(A) op(B), row-major, in tiles on the pool. Tiles are multiplied by oneDNN
 * (dev/cpu/onednn.c), on processors without AVX-512 by dev/cpu/rowwise.c.
 *
 * The tile grid is a function of the shape only, so results do not depend on the number of threads. Each tile is one
 * single-threaded product whose scratch comes from the caller's workspace. Where the processor has no 16-bit
 * product (or oneDNN has none for the type), tiles are converted to f32 in that workspace, multiplied in f32 and
 * converted back: faster than the library's emulation and exact in the inputs.
 */
#ifndef HR_DEV_CPU_GEMM_H
#define HR_DEV_CPU_GEMM_H

#include <stdbool.h>

#include "base/threads.h"
#include "dev/dtype.h"

typedef struct hr_gemm_spec {
  int64_t m, n, k;
  int64_t lda, ldb, ldc; /* elements between rows as stored */
  bool transpose_a;      /* A is stored [k, m] */
  bool transpose_b;      /* B is stored [n, k] */
  bool accumulate;       /* C += instead of C = */
  hr_dtype a, b, c;      /* each f32, bf16 or f16 */
} hr_gemm_spec;

bool hr__gemm_spec_equal(const hr_gemm_spec *x, const hr_gemm_spec *y);
uint64_t hr__gemm_spec_hash(const hr_gemm_spec *spec);

/* Whether tiles are the library's, on this processor. */
bool hr__gemm_is_compiled(void);

/* One kind of tile of a product: the library has code of its own for it. */
typedef struct hr_gemm_tile {
  hr_gemm_spec spec;
  size_t scratch_bytes;
} hr_gemm_tile;

/* The kinds of tiles that a product has where the library multiplies, with or without products of bf16: plain
 * arithmetic. Returns how many there are. */
enum { HR_GEMM_TILES = 16 };
int hr__gemm_tiles(const hr_gemm_spec *spec, bool narrow, hr_gemm_tile tiles[HR_GEMM_TILES]);

typedef struct hr_gemm hr_gemm; /* library objects for one spec; shared by equal specs */

/* Upper bound of the workspace for `threads` threads: plain arithmetic, no library. */
size_t hr__gemm_workspace(const hr_gemm_spec *spec, int threads);

/* `user` (a device) runs its products one after another, so that equal ones may be one library object; NULL: it does
 * not. */
hr_status hr__gemm_create(const hr_gemm_spec *spec, int threads, const void *user, hr_gemm **out, hr_error *err);
void hr__gemm_destroy(hr_gemm *gemm);

/* On the pool with at most `threads` threads (as created). */
hr_status hr__gemm_run(const hr_gemm *gemm, hr_pool *pool, int threads, const void *a, const void *b, void *c,
                       void *workspace);

/* One product in the calling thread, for kernels that already run inside a pool task; `worker` selects the library
 * objects and `workspace` is this worker's own part (hr__gemm_workspace(spec, 1) bytes). */
hr_status hr__gemm_run_here(const hr_gemm *gemm, int worker, const void *a, const void *b, void *c, void *workspace);

#endif
