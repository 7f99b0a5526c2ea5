/* Tables that are read by index, and the loss. See aten.h. */
#include "torch/aten.h"
#include "torch/call.h"

/* Above so many indices the gradient of a table goes by sorted segments: arrays of indices, and partial sums in f32. */
enum { SORTED_FROM = 3072, INDEX_ARRAYS = 4, SCRATCH = INDEX_ARRAYS + 2 };

static void embedding_backward(hr_tape *t, const hr_tape_node *node, hr_tt g, hr_tt out[HR_TAPE_INPUTS]) {
  static const char call[] = "aten::embedding_dense_backward";
  uint64_t rows = (uint64_t)node->number[0], vocabulary = (uint64_t)node->input[0].dims.at[0];
  uint64_t width = (uint64_t)node->input[0].dims.at[1], bytes[SCRATCH] = {0};
  uint32_t scratch[SCRATCH];
  if (rows > SORTED_FROM) {
    uint64_t segments = (rows < vocabulary ? rows : vocabulary) + rows / 10;
    for (int i = 0; i < INDEX_ARRAYS; i++)
      bytes[i] = 8 * rows;
    bytes[INDEX_ARRAYS] = 8 * segments;
    bytes[INDEX_ARRAYS + 1] = 4 * segments * width;
  }
  out[0] = hr__tape_fresh(t, call, node->input[0].dims, hr__tape_tensor(t, g)->dtype, false);
  for (int i = 0; i < SCRATCH; i++)
    scratch[i] = hr__tape_scratch(t, call, bytes[i]);
  for (int i = SCRATCH; i-- > 0;)
    hr__tape_scratch_end(t, scratch[i]);
}

static const hr_aten embedding = {.name = "aten::embedding", .backward = embedding_backward};

hr_tt hr__at_embedding(hr_tape *t, hr_tt weight, hr_tt ids) {
  hr_tt inputs[] = {weight, ids};
  hr_tape_call c;
  if (!hr__call_begin(t, &c, &embedding, 2, inputs)) return HR_TT_NONE;
  hr__call_save(&c, 0, ids);
  if (hr__call_stopped(&c)) return HR_TT_NONE;
  hr__call_number(&c, 0, hr__tape_elements(t, ids));
  hr_tdims dims = hr__tape_tensor(t, ids)->dims;
  dims.at[dims.n++] = hr__tape_tensor(t, weight)->dims.at[1];
  return hr__call_end(&c, hr__call_made(&c, dims, hr__tape_tensor(t, weight)->dtype, false));
}

static void nll_backward(hr_tape *t, const hr_tape_node *node, hr_tt g, hr_tt out[HR_TAPE_INPUTS]) {
  out[0] = hr__tape_fresh(t, "aten::nll_loss_backward", node->input[0].dims, hr__tape_tensor(t, g)->dtype, false);
}

static const hr_aten nll = {.name = "aten::nll_loss_forward", .backward = nll_backward};

hr_tt hr__at_nll_loss(hr_tape *t, hr_tt log_probabilities, hr_tt targets) {
  hr_tt inputs[] = {log_probabilities, targets};
  hr_tape_call c;
  if (!hr__call_begin(t, &c, &nll, 2, inputs)) return HR_TT_NONE;
  hr__call_save(&c, 0, log_probabilities);
  hr__call_save(&c, 1, targets);
  if (hr__call_stopped(&c)) return HR_TT_NONE;
  hr_dtype dtype = hr__tape_tensor(t, log_probabilities)->dtype;
  hr_tdims scalar = {0};
  hr_tt loss = hr__call_made(&c, scalar, dtype, false), weight = hr__call_made(&c, scalar, dtype, false);
  hr__call_save_result(&c, 2, weight);
  hr__tape_drop(t, weight);
  return hr__call_end(&c, loss);
}
