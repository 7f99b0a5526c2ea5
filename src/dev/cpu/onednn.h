/* oneDNN behind four functions: a single-threaded matrix product with scratch given by the caller.
 *
 * Creating a product compiles machine code for its shape; equal shapes share the code (counted references). A
 * product holds library objects for each worker (2 KiB and more): running it from several workers at once is safe as
 * long as no two of them use the same worker number. Equal products of one user, who runs one after another, are one
 * object (counted references); those of different users never meet.
 */
#ifndef HR_DEV_CPU_ONEDNN_H
#define HR_DEV_CPU_ONEDNN_H

#include "base/status.h"
#include "dev/cpu/gemm.h"

typedef struct hr_dnn_product hr_dnn_product;

/* Whether this processor multiplies this type itself (f32: always; bf16: AVX-512 BF16 or AMX). */
bool hr__dnn_native(hr_dtype dtype);

/* Whether the library multiplies bf16 in tiles (AMX), as far as the processor goes. */
bool hr__dnn_tiles(void);

/* Of the widest vectors that the processor has and the library's limit on instructions (DNNL_MAX_CPU_ISA) lets it use:
 * 64 (AVX-512), 32 (AVX2 with FMA) or 16. */
int hr__dnn_vector_bytes(void);

/* The product of `spec` as one library call, for worker numbers below `workers`. `user` NULL: it is shared with none.
 * Takes the library's first way to compute it with at most `scratch_most` bytes of scratch: in f32 there always is one,
 * in bf16 HR_UNSUPPORTED says that there is none, or only one that is slower than f32. */
hr_status hr__dnn_create(const hr_gemm_spec *spec, size_t scratch_most, int workers, const void *user,
                         hr_dnn_product **out, hr_error *err);
void hr__dnn_destroy(hr_dnn_product *product);
/* Drops the code that the library keeps of products that are no more. */
void hr__dnn_forget(void);

/* How many shapes have code now. */
size_t hr__dnn_compiled(void);

size_t hr__dnn_scratch_bytes(const hr_dnn_product *product);
hr_status hr__dnn_run(const hr_dnn_product *product, int worker, const void *a, const void *b, void *c, void *scratch);

#endif
