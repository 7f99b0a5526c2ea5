/* Calls: how one of torch/aten.h is written.
 *
 *     hr_tape_call c;
 *     if (!hr__call_begin(t, &c, &silu, 1, x, ...)) return HR_TT_NONE;     which inputs want gradients
 *     hr__call_save(&c, 0, x);                                             what its backward will read
 *     if (hr__call_stopped(&c)) return HR_TT_NONE;                         saving was the last that was asked for
 *     return hr__call_end(&c, hr__call_made(&c, dims, dtype, permuted));   its kernel runs
 *
 * Inputs are saved before the kernel, results behind it (hr__call_save_result): where checkpointing stops, it matters.
 * In backward functions gradients are off, so that the calls of aten.h can be used there as well.
 */
#ifndef HR_TORCH_CALL_H
#define HR_TORCH_CALL_H

#include "torch/tape.h"

/* One kind of call of ATen. */
struct hr_aten {
  const char *name;
  /* From the gradient of the result those of the inputs that want one (`node->input[i].node`), in `out`; unnamed or
   * NONE. `saved` are the tensors the forward call has kept. Dims and types may differ as broadcasting and promotion
   * make them: autograd sums and casts them behind it. */
  void (*backward)(hr_tape *t, const hr_tape_node *node, hr_tt gradient, hr_tt out[HR_TAPE_INPUTS]);
};

typedef struct hr_tape_call {
  hr_tape *t;
  const hr_aten *aten;
  hr_tt input[HR_TAPE_INPUTS];
  int n;
  uint32_t node; /* 0: no gradient flows through it */
} hr_tape_call;

/* False where the tape is stopped: unnamed inputs have been dropped. */
bool hr__call_begin(hr_tape *t, hr_tape_call *c, const hr_aten *aten, int n, const hr_tt *inputs);
bool hr__call_wants(const hr_tape_call *c, int input);
void hr__call_save(hr_tape_call *c, int i, hr_tt x);
void hr__call_save_result(hr_tape_call *c, int i, hr_tt x);
void hr__call_number(hr_tape_call *c, int i, int64_t value);
bool hr__call_stopped(hr_tape_call *c);
hr_tt hr__call_made(hr_tape_call *c, hr_tdims dims, hr_dtype dtype, bool permuted);
/* The same storage in other dims. */
hr_tt hr__call_view(hr_tape_call *c, hr_tt x, hr_tdims dims, bool permuted);
/* The call has returned: what it took unnamed is gone. */
hr_tt hr__call_end(hr_tape_call *c, hr_tt result);

/* Storage of its own, by whoever calls it. */
hr_tt hr__tape_fresh(hr_tape *t, const char *call, hr_tdims dims, hr_dtype dtype, bool permuted);
hr_tt hr__tape_view(hr_tape *t, hr_tt x, hr_tdims dims, bool permuted);
/* Scratch for the time of a kernel. */
uint32_t hr__tape_scratch(hr_tape *t, const char *call, uint64_t bytes);
void hr__tape_scratch_end(hr_tape *t, uint32_t scratch);
/* The library's workspace of the thread that multiplies. */
void hr__tape_workspace(hr_tape *t);
/* That of cublasLt, which adds biases: its own up to PyTorch 2.14. */
void hr__tape_bias_workspace(hr_tape *t);

hr_tape_tensor *hr__tape_tensor(const hr_tape *t, hr_tt x);
hr_tape_node *hr__tape_node(const hr_tape *t, uint32_t node);
/* Another owner of a tensor, unnamed. */
hr_tt hr__tape_shared(hr_tape *t, hr_tt x);
/* What its storage turns out to be. */
void hr__tape_become(hr_tape *t, hr_tt x, hr_torch_category category);

/* Room for one more entry of a list, zeroed; its number (0, and the tape failed, when out of memory). */
uint32_t hr__tape_room(hr_tape *t, hr_tape_list *list, size_t item_bytes);
/* aten_reduce.c: a tensor of `to`, the sum of one of `from` over what it has more; with the sums of blocks beside it
 * where the kernel divides rows among them. */
hr_tt hr__tape_sum(hr_tape *t, hr_tdims from, hr_tdims to, hr_dtype dtype);
/* Whether nobody else has its storage. */
bool hr__tape_alone(const hr_tape *t, hr_tt x);
/* What a node has kept is nobody's any more. */
void hr__tape_node_release(hr_tape *t, uint32_t node);
void hr__tape_node_drop(hr_tape *t, uint32_t node);
/* Some of a checkpoint's tensors are nobody's any more; with the last its input goes. */
void hr__tape_again_drop(hr_tape *t, uint32_t again, uint32_t count);
void hr__tape_again_end(hr_tape *t, uint32_t again);
/* autograd.c: makes the tensors of a checkpoint that its nodes have saved. */
void hr__tape_recompute(hr_tape *t, uint32_t again);
void hr__tape_walk(hr_tape *t, uint32_t root, hr_tt gradient);
uint32_t hr__tape_leaf_node(hr_tape *t, hr_tt leaf);

#endif
