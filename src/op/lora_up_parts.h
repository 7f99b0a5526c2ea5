/* What the rules of lora_up (op/lora_up.c) and the CPU's kernels (op/lora_up_kernel.c) share. */
#ifndef HR_OP_LORA_UP_PARTS_H
#define HR_OP_LORA_UP_PARTS_H

#include "op/lora_up.h"

/* Rows of B before group g; g = groups: all. */
static inline int64_t hr__lora_rows_before(const hr_lora_up_args *a, int g) {
  int64_t rows = 0;
  for (int i = 0; i < g; i++)
    rows += a->rows[i];
  return rows;
}

/* Scratch of the CPU's kernels; `add`: something is in y, or in dB, already. */
size_t hr__lora_up_bytes(const hr_desc *h, const hr_lora_up_args *args, bool add, int threads);
size_t hr__lora_up_bwd_bytes(const hr_desc *h, const hr_lora_up_bwd_args *args, bool add, int threads);

/* Their products. */
void hr__lora_up_products(const hr_desc *h, const hr_lora_up_args *args, bool add, int threads,
                          struct hr_gemm_set *set);
void hr__lora_up_bwd_products(const hr_desc *h, const hr_lora_up_bwd_args *args, bool add, int threads,
                              struct hr_gemm_set *set);

hr_status hr__lora_up_prepare(const hr_call *call, void **prepared, hr_error *err);
hr_status hr__lora_up_run(const hr_call *call);
hr_status hr__lora_up_bwd_prepare(const hr_call *call, void **prepared, hr_error *err);
hr_status hr__lora_up_bwd_run(const hr_call *call);
void hr__lora_release(void *prepared);

#endif
