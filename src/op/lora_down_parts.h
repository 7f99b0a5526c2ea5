/* What the rules of lora_down (op/lora_down.c) and its kernels share. */
#ifndef HR_OP_LORA_DOWN_PARTS_H
#define HR_OP_LORA_DOWN_PARTS_H

#include "graph/op.h"

typedef enum hr_lora_down_kind { HR_LORA_DOWN, HR_LORA_DOWN_DX, HR_LORA_DOWN_DW } hr_lora_down_kind;

/* One call: x or dx is [rows, in], h or dh [rows, width]. */
typedef struct hr_lora_down {
  hr_lora_down_kind kind;
  int64_t rows, in, width;
  hr_dtype dtype;  /* of x, h and A */
  hr_dtype result; /* of dA, else the same */
} hr_lora_down;

/* From operands 0 and 1 and the result; calls nothing, since the plug-in has its own copy. */
static inline hr_lora_down hr__lora_down_of(hr_lora_down_kind kind, const hr_desc *first, const hr_desc *second,
                                            const hr_desc *result) {
  bool forward = kind == HR_LORA_DOWN;
  int64_t columns = first->dim[first->rank - 1], other = forward ? second->dim[0] : second->dim[second->rank - 1];
  int64_t rows = 1;
  for (int i = 0; i + 1 < first->rank; i++)
    rows *= first->dim[i];
  hr_lora_down l = {kind, rows, forward ? columns : other, forward ? other : columns, first->dtype, result->dtype};
  return l;
}

/* Scratch of the CPU's kernels. */
size_t hr__lora_down_bytes(const hr_lora_down *l, int threads);
/* Their products. */
void hr__lora_down_products(const hr_lora_down *l, int threads, struct hr_gemm_set *set);

hr_status hr__lora_down_prepare(const hr_call *call, void **prepared, hr_error *err);
hr_status hr__lora_down_dx_prepare(const hr_call *call, void **prepared, hr_error *err);
hr_status hr__lora_down_dw_prepare(const hr_call *call, void **prepared, hr_error *err);
void hr__lora_down_release(void *prepared);
hr_status hr__lora_down_run(const hr_call *call);
hr_status hr__lora_down_dx_run(const hr_call *call);
hr_status hr__lora_down_dw_run(const hr_call *call);

#endif
