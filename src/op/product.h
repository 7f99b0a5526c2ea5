/* What ops made of matrix products share on the CPU. */
#ifndef HR_OP_PRODUCT_H
#define HR_OP_PRODUCT_H

#include "dev/cpu/gemm_set.h"
#include "graph/op.h"

/* Brings the sum so far into `out`, unless the plan already put both in the same place. */
void hr__sum_begin(const hr_call *call, const hr_tensor *partial, const hr_tensor *out);

/* Whether the planned workspace covers what the kernel will use; a failure is a fault of headroom itself. */
hr_status hr__workspace_check(const hr_call *call, size_t bytes, hr_error *err);

/* Raises *cap to the scratch of that product. */
void hr__product_cap(size_t *cap, hr_gemm_spec spec, int threads);

/* For prepare: that product, for the threads of the call. */
hr_status hr__product_make(hr_gemm **gemm, hr_gemm_spec spec, const hr_call *call, hr_error *err);

/* A product as the cost rule lists it. */
hr_product hr__product_of(const hr_gemm_spec *spec);

#endif
