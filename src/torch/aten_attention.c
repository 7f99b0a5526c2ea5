/* scaled_dot_product_attention, by the implementation that PyTorch picks. See aten.h. */
#include "torch/aten.h"
#include "torch/call.h"

enum {
  MASK_ALIGNMENT = 8,
  CUDNN_DIM = 128,
  FLASH_DIM = 256,
  PARTS = 3,
  STATE = 2,
  SAVED_MASK = PARTS + 1 + 1 + STATE,
  CAUSAL = PARTS
};

static int64_t rounded(int64_t n, int64_t to) {
  return (n + to - 1) / to * to;
}

/* --- implementations that never form the scores ------------------------------------------------------------------- */

enum { SCRATCHES = 4 };
/* What the backward of one takes beside the gradients: sizes in bytes, 0 where there is none. */
typedef void (*scratch_fn)(const hr_tape_node *node, size_t element_bytes, uint64_t out[SCRATCHES]);

/* Whole heads of dk, or of dv, where several queries share them. */
static uint64_t shared_bytes(const hr_tape_node *node, size_t element_bytes) {
  const int64_t *q = node->input[0].dims.at, *k = node->input[1].dims.at;
  return k[1] == q[1] ? 0 : (uint64_t)(q[0] * q[1] * k[2] * q[3]) * element_bytes;
}

/* One workspace: f32 sums of dq, a sum for each row, and shared heads. */
static void cudnn_scratch(const hr_tape_node *node, size_t element_bytes, uint64_t out[SCRATCHES]) {
  const int64_t *q = node->input[0].dims.at;
  uint64_t rows = (uint64_t)(q[0] * q[1] * q[2]);
  out[0] = rows * (uint64_t)q[3] * 4 + rows * 4 + 256 + 2 * shared_bytes(node, element_bytes);
}

/* The same as tensors, in whole tiles of 128 rows and 32 elements. */
static void flash_scratch(const hr_tape_node *node, size_t element_bytes, uint64_t out[SCRATCHES]) {
  const int64_t *q = node->input[0].dims.at;
  uint64_t rows = (uint64_t)(q[0] * q[1] * rounded(q[2], 128));
  out[0] = rows * (uint64_t)rounded(q[3], 32) * 4;
  out[1] = rows * 4;
  out[2] = out[3] = shared_bytes(node, element_bytes);
}

/* A sum for each row; f32 sums of dq where it is narrower. */
static void efficient_scratch(const hr_tape_node *node, size_t element_bytes, uint64_t out[SCRATCHES]) {
  const int64_t *q = node->input[0].dims.at;
  uint64_t rows = (uint64_t)(q[0] * q[1] * q[2]);
  out[0] = rows * 4;
  out[1] = element_bytes < 4 ? rows * (uint64_t)q[3] * 4 : 0;
}

/* Two products forward, five backward; of a causal one half of each. */
static void attention_count(hr_tape *t, const hr_tdims *q, const hr_tdims *k, bool causal, int products) {
  double scores = (double)(q->at[0] * q->at[1] * q->at[2]) * (double)k->at[2];
  t->work.attention_flops += (causal ? 0.5 : 1.0) * products * 2.0 * scores * (double)q->at[3];
}

static void flash_likes(hr_tape *t, const hr_tape_node *node, hr_tt g, hr_tt out[HR_TAPE_INPUTS], const char *call,
                        scratch_fn scratch_bytes) {
  hr_dtype dtype = hr__tape_tensor(t, g)->dtype;
  uint64_t bytes[SCRATCHES] = {0};
  uint32_t scratch[SCRATCHES];
  scratch_bytes(node, hr_dtype_bytes(dtype), bytes);
  for (int i = 0; i < PARTS; i++)
    if (node->input[i].node != 0) out[i] = hr__tape_fresh(t, call, node->input[i].dims, dtype, node->number[i] != 0);
  for (int i = 0; i < SCRATCHES; i++)
    scratch[i] = hr__tape_scratch(t, call, bytes[i]);
  attention_count(t, &node->input[0].dims, &node->input[1].dims, node->number[CAUSAL] != 0, 5);
  for (int i = SCRATCHES; i-- > 0;)
    hr__tape_scratch_end(t, scratch[i]);
}

static void cudnn_backward(hr_tape *t, const hr_tape_node *node, hr_tt g, hr_tt out[HR_TAPE_INPUTS]) {
  flash_likes(t, node, g, out, "aten::_scaled_dot_product_cudnn_attention_backward", cudnn_scratch);
}

static void flash_backward(hr_tape *t, const hr_tape_node *node, hr_tt g, hr_tt out[HR_TAPE_INPUTS]) {
  flash_likes(t, node, g, out, "aten::_scaled_dot_product_flash_attention_backward", flash_scratch);
}

static void efficient_backward(hr_tape *t, const hr_tape_node *node, hr_tt g, hr_tt out[HR_TAPE_INPUTS]) {
  flash_likes(t, node, g, out, "aten::_scaled_dot_product_efficient_attention_backward", efficient_scratch);
}

static const hr_aten cudnn = {.name = "aten::_scaled_dot_product_cudnn_attention", .backward = cudnn_backward};
static const hr_aten flash = {.name = "aten::_scaled_dot_product_flash_attention", .backward = flash_backward};
static const hr_aten efficient = {.name = "aten::_scaled_dot_product_efficient_attention",
                                  .backward = efficient_backward};

/* They keep q, k, v, the mask, the result and a logarithm for every row, with the state of the random numbers. */
static hr_tt fused(hr_tape *t, const hr_aten *aten, hr_tt q, hr_tt k, hr_tt v, const hr_sdpa_args *args) {
  hr_tt inputs[] = {q, k, v};
  hr_tape_call c;
  if (!hr__call_begin(t, &c, aten, PARTS, inputs)) return HR_TT_NONE;
  for (int i = 0; i < PARTS; i++) {
    hr__call_save(&c, i, inputs[i]);
    hr__call_number(&c, i, aten == &flash || aten == &efficient || hr__tape_tensor(t, inputs[i])->permuted);
  }
  hr__call_save(&c, SAVED_MASK, args->mask);
  hr__call_number(&c, CAUSAL, args->causal);
  if (hr__call_stopped(&c)) return HR_TT_NONE;
  hr_tape_tensor form = *hr__tape_tensor(t, q);
  hr_tdims rows = hr__tdims3(form.dims.at[0], form.dims.at[1], form.dims.at[2]);
  if (aten == &efficient) rows.at[2] = rounded(rows.at[2], 32);
  hr_tt y = hr__call_made(&c, form.dims, form.dtype, true), made[1 + STATE] = {HR_TT_NONE};
  if (c.node != 0 || aten == &flash)
    made[0] = hr__call_made(&c, rows, HR_F32, false); /* others where it will be read */
  for (int i = 0; i < STATE && aten == &cudnn; i++)   /* others have it on the host */
    made[1 + i] = hr__call_made(&c, hr__tdims1(1), HR_I64, false);
  attention_count(t, &form.dims, &hr__tape_tensor(t, k)->dims, args->causal, 2);
  t->attended |= form.dtype != HR_F32;
  hr__call_save_result(&c, PARTS, y);
  for (int i = 0; i <= STATE; i++) {
    hr__call_save_result(&c, PARTS + 1 + i, made[i]);
    hr__tape_drop(t, made[i]);
  }
  return hr__call_end(&c, y);
}

/* --- plain products ----------------------------------------------------------------------------------------------- */

/* What is added for truth values: 0 or a large negative number, which are there as tensors for that long. */
static hr_tt mask_numbers(hr_tape *t, hr_tdims dims, hr_dtype dtype) {
  hr_tt numbers[2];
  for (int i = 0; i < 2; i++)
    numbers[i] = hr__tape_made(t, "aten::scalar_tensor", (hr_tdims){0}, dtype);
  hr_tt mask = hr__tape_name(hr__tape_made(t, "aten::where", dims, dtype));
  for (int i = 0; i < 2; i++)
    hr__tape_drop(t, numbers[i]);
  return mask;
}

/* tril of ones, and the mask that is made of it. */
static hr_tt causal_mask(hr_tape *t, int64_t length, hr_dtype dtype) {
  hr_tdims square = hr__tdims2(length, length);
  hr_tt ones = hr__tape_made(t, "aten::ones", square, HR_U8);
  hr_tt lower = hr__tape_made(t, "aten::tril", square, HR_U8);
  hr__tape_drop(t, ones);
  hr_tt mask = mask_numbers(t, square, dtype);
  hr__tape_drop(t, lower);
  return mask;
}

/* Of 16 bits in f32; the mask is added in place. */
static hr_tt math(hr_tape *t, hr_tt q, hr_tt k, hr_tt v, const hr_sdpa_args *args) {
  if (t->stopped) return HR_TT_NONE;
  hr_tape_tensor form = *hr__tape_tensor(t, q);
  int64_t times = form.dims.at[1] / hr__tape_tensor(t, k)->dims.at[1];
  hr_tt wide_q = hr__tape_name(hr__at_to(t, hr__tape_name(q), HR_F32));
  hr_tt wide_k = hr__tape_name(hr__at_to(t, hr__tape_name(k), HR_F32));
  hr_tt wide_v = hr__tape_name(hr__at_to(t, hr__tape_name(v), HR_F32));
  hr_tt scaled = hr__tape_name(hr__at_scale(t, wide_q));
  hr_tt mask = args->causal ? causal_mask(t, form.dims.at[2], HR_F32) : hr__tape_again(t, args->mask);
  hr_tt keys = hr__tape_name(hr__at_repeated(t, wide_k, times));
  hr_tt values = hr__tape_name(hr__at_repeated(t, wide_v, times));
  hr_tt scores = hr__tape_name(hr__at_matmul(t, scaled, hr__at_scale(t, keys), true));
  hr_tt parts = hr__at_safe_softmax(t, scores);
  hr__tape_drop(t, scores);
  parts = hr__tape_name(hr__at_dropout(t, parts, args->dropout));
  hr_tt narrow = hr__at_to(t, parts, form.dtype); /* is returned as well */
  hr_tt y = hr__at_to(t, hr__at_matmul(t, parts, values, false), form.dtype);
  hr_tt gone[] = {narrow, parts, values, keys, mask, scaled, wide_v, wide_k, wide_q};
  for (size_t i = 0; i < sizeof gone / sizeof *gone; i++)
    hr__tape_drop(t, gone[i]);
  return y;
}

/* --- the choice --------------------------------------------------------------------------------------------------- */

static bool cudnn_takes(int64_t dim) {
  return dim <= CUDNN_DIM && dim % 8 == 0;
}

hr_sdpa hr__at_sdpa_choice(const hr_tape *t, hr_tt q, hr_tt k, const hr_sdpa_args *args) {
  if (args->rules.first != HR_SDPA_AUTO) return args->rules.first;
  const hr_tape_tensor *form = hr__tape_tensor(t, q);
  int64_t dim = form->dims.at[3];
  bool grouped = hr__tape_tensor(t, k)->dims.at[1] != form->dims.at[1];
  hr_dtype dtype = t->autocast ? t->narrow : form->dtype;
  if (dtype == HR_F32) return grouped || dim % 4 != 0 ? HR_SDPA_MATH : HR_SDPA_EFFICIENT;
  bool flashes = args->mask == HR_TT_NONE && dim <= FLASH_DIM && dim % 8 == 0;
  if (args->rules.cudnn_first && cudnn_takes(dim)) return HR_SDPA_CUDNN;
  if (flashes) return HR_SDPA_FLASH;
  return grouped || dim % 8 != 0 ? HR_SDPA_MATH : HR_SDPA_EFFICIENT;
}

/* Kernels add masks to the scores: one of truth values is made into numbers of q's type for each call. */
static hr_tt added_mask(hr_tape *t, hr_tt mask, hr_dtype dtype) {
  if (mask == HR_TT_NONE || hr__tape_dtype(t, mask) != HR_U8) return hr__tape_again(t, mask);
  return mask_numbers(t, hr__tape_tensor(t, mask)->dims, dtype);
}

/* The efficient kernel wants rows of a mask to begin at whole 8 elements. */
static hr_tt aligned_mask(hr_tape *t, hr_tt mask) {
  if (mask == HR_TT_NONE) return mask;
  hr_tape_tensor form = *hr__tape_tensor(t, mask);
  int64_t *length = &form.dims.at[form.dims.n - 1];
  if (*length % MASK_ALIGNMENT == 0) return mask;
  *length = rounded(*length, MASK_ALIGNMENT);
  hr_tt wide = hr__tape_name(hr__tape_made(t, "aten::constant_pad_nd", form.dims, form.dtype));
  hr__tape_drop(t, mask);
  return wide;
}

static hr_tt attend(hr_tape *t, hr_sdpa choice, hr_tt q, hr_tt k, hr_tt v, const hr_sdpa_args *args) {
  if (choice == HR_SDPA_FLASH) return fused(t, &flash, q, k, v, args);
  if (choice == HR_SDPA_EFFICIENT) return fused(t, &efficient, q, k, v, args);
  if (choice != HR_SDPA_MATH) return fused(t, &cudnn, q, k, v, args);
  hr_tt y = math(t, q, k, v, args), inputs[] = {q, k, v};
  for (int i = 0; i < PARTS; i++)
    if (inputs[i] & HR_TT_UNNAMED) hr__tape_drop(t, inputs[i]);
  return y;
}

hr_tt hr__at_sdpa(hr_tape *t, hr_tt q, hr_tt k, hr_tt v, const hr_sdpa_args *args) {
  if (t->stopped) return HR_TT_NONE;
  hr_sdpa choice = hr__at_sdpa_choice(t, q, k, args);
  v = hr__tape_narrowed(t, v); /* from the last argument to the first */
  k = hr__tape_narrowed(t, k);
  q = hr__tape_narrowed(t, q);
  hr_sdpa_args added = *args;
  added.mask = added_mask(t, args->mask, hr__tape_dtype(t, q));
  if (choice == HR_SDPA_EFFICIENT) added.mask = aligned_mask(t, added.mask);
  hr_tt y = attend(t, choice, q, k, v, &added);
  hr__tape_drop(t, added.mask);
  return y;
}
