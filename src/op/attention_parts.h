/* What the rules of attention (op/attention.c) and its kernels (op/attention_kernel.c) share: how a call is cut.
 *
 * Vocabulary. The query heads that share a key/value head form a group. A panel is a block of consecutive query
 * positions of one group, its heads stacked: rows = heads of the group x positions. A strip is a range of keys. All
 * work is done on panel x strip: scores [rows, width] by one product, softmax over them, then products with the strip's
 * values. Panels and strips are f32 copies in the worker's workspace, whatever the storage type.
 */
#ifndef HR_OP_ATTENTION_PARTS_H
#define HR_OP_ATTENTION_PARTS_H

#include "dev/cpu/gemm.h"
#include "op/attention.h"
#include "op/stream.h"

enum {
  HR_STRIP = 256,                     /* keys */
  HR_GRAIN = 64,                      /* strips end at a multiple of this, or at T: few different products */
  HR_WIDTHS = HR_STRIP / HR_GRAIN + 1 /* kinds of strip: by width / HR_GRAIN; 0 is the odd one at the end of T */
};

/* The sizes of one call and how it is cut. */
typedef struct hr_attention_cuts {
  int64_t batch, length, heads, groups, dim;
  int64_t group_heads; /* query heads of a group */
  int64_t positions;   /* of a panel; the last panel may have fewer */
  int64_t panels;      /* of one group */
  int64_t window;      /* keys that a query sees at most; 0: no limit */
  bool bidirectional;
  bool packed; /* q, k and v lie in one operand, and so do their gradients */
  float scale;
} hr_attention_cuts;

/* The products of a panel with a strip. */
enum {
  HR_SCORES,  /* [rows, width] = panel [rows, D] x strip^T [D, width];      also dy v^T */
  HR_VALUES,  /* [rows, D]    += scores [rows, width] x strip [width, D];   y from v, dq from k */
  HR_COLUMNS, /* [D, width]   += panel^T [D, rows] x scores [rows, width]; dv^T from dy, dk^T from q */
  HR_PRODUCTS
};

/* Between rows of the sums dk^T and dv^T of one strip. */
static inline int64_t hr__attention_strip_ld(const hr_attention_cuts *c) {
  return hr__min(HR_STRIP, c->length);
}

/* A worker's part of the workspace, in floats from its start. Backward uses all of it, forward the upper part. */
typedef struct hr_attention_layout {
  size_t panel, out, strip_k, strip_v, scores; /* q, the result being summed, k and v, scores */
  size_t row_a, row_b;                         /* per row: running maximum and sum; backward: lse and delta */
  size_t panel_dy, scores_d;                   /* backward */
  size_t dk, dv;                               /* backward: sums of the whole group, transposed, strip after strip */
  size_t gemm;
  size_t floats; /* of one worker */
} hr_attention_layout;

typedef struct hr_attention_plan {
  hr_attention_cuts cuts;
  hr_attention_layout layout;
  hr_gemm *products[HR_PRODUCTS][2][HR_WIDTHS]; /* [product][whole or last panel][kind of strip] */
} hr_attention_plan;

/* A panel: positions [first, first + count), and the keys [first_key, keys) that hold all it sees: from the beginning
 * of a strip to a multiple of HR_GRAIN, or T. */
typedef struct hr_attention_panel {
  int64_t first, count, rows, first_key, keys;
  int last; /* whether it is the shorter one at the end */
} hr_attention_panel;

static inline hr_attention_panel hr__attention_panel(const hr_attention_cuts *c, int64_t index) {
  hr_attention_panel p = {.first = index * c->positions};
  p.count = hr__min(c->positions, c->length - p.first);
  p.rows = p.count * c->group_heads;
  p.keys = c->bidirectional ? c->length : hr__min(c->length, hr__chunks(p.first + p.count, HR_GRAIN) * HR_GRAIN);
  if (c->window > 0 && p.first >= c->window) p.first_key = (p.first - c->window + 1) / HR_STRIP * HR_STRIP;
  p.last = p.count < c->positions;
  return p;
}

static inline int hr__attention_width_kind(int64_t width) {
  return width % HR_GRAIN == 0 ? (int)(width / HR_GRAIN) : 0;
}

static inline int64_t hr__attention_tasks(const hr_attention_cuts *c, bool backward) {
  return c->batch * c->groups * (backward ? 1 : c->panels);
}

/* Neighbouring heads of a tensor [B, T, columns], from column `first` on: an operand of its own, or part of a packed
 * one. A head's elements lie together; from one position to the next are as many elements as the tensor has columns. */
typedef struct hr_attention_heads {
  const hr_tensor *tensor;
  int64_t first;
} hr_attention_heads;

/* q, k and v, or their gradients: operands[0..3), or all of them in operands[0] where the others hold nothing. */
static inline void hr__attention_unpack(const hr_attention_cuts *c, const hr_tensor *operands,
                                        hr_attention_heads to[3]) {
  bool packed = c->packed;
  to[0] = (hr_attention_heads){&operands[0], 0};
  to[1] = (hr_attention_heads){&operands[packed ? 0 : 1], packed ? c->heads * c->dim : 0};
  to[2] = (hr_attention_heads){&operands[packed ? 0 : 2], packed ? (c->heads + c->groups) * c->dim : 0};
}

/* Kernels. */
hr_status hr__attention_run(const hr_call *call);
hr_status hr__attention_bwd_run(const hr_call *call);

#endif
