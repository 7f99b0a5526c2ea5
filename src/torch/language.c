/* What models of language share: masks, and losses over a vocabulary. See eager.h. */
#include "torch/call.h"
#include "torch/eager.h"

hr_tt hr__eager_tokens(hr_eager *e, hr_tt weight, bool scaled) {
  hr_tt embedded = hr__at_embedding(&e->tape, weight, e->ids);
  embedded = hr__tape_name(scaled ? hr__at_scale(&e->tape, embedded) : embedded);
  if (e->settings.rank > 0 && e->settings.checkpointing != HR_TAPE_KEEP) hr__tape_want(&e->tape, embedded);
  return embedded;
}

/* What a position sees of another, as truth values: each further question is one more tensor, joined to those before.
 */

typedef enum sight { BOTH_SIDES, BACK, NEAR_BACK } sight;

static hr_tt joined(hr_tape *t, hr_tt mask, hr_tt more, hr_tdims dims) {
  hr_tt both = hr__tape_made(t, "aten::bitwise_and", dims, HR_U8);
  hr__tape_drop(t, mask);
  hr__tape_drop(t, more);
  return both;
}

/* Of queries and keys [1, 1, T, T]. Backwards alone is one question; several begin with a single true. */
static hr_tt seen(hr_tape *t, int64_t length, sight sees) {
  hr_tdims square = hr__tdims4(1, 1, length, length), row = hr__tdims4(1, 1, length, 1);
  if (sees == BACK) return hr__tape_made(t, "aten::le", square, HR_U8);
  hr_tt mask = hr__tape_made(t, "aten::new_ones", hr__tdims1(1), HR_U8);
  if (sees == BOTH_SIDES) return joined(t, mask, hr__tape_made(t, "aten::ge", row, HR_U8), row);
  mask = joined(t, mask, hr__tape_made(t, "aten::gt", square, HR_U8), square);
  return joined(t, mask, hr__tape_made(t, "aten::le", square, HR_U8), square);
}

/* The same and not padding, [B, 1, T, T]. */
static hr_tt seen_unpadded(hr_eager *e, sight sees) {
  hr_tape *t = &e->tape;
  int64_t batch = e->settings.batch, length = e->settings.length;
  hr_tdims square = hr__tdims4(1, 1, sees == BOTH_SIDES ? 1 : length, length);
  hr_tt all = hr__tape_made(t, "aten::new_ones", hr__tdims1(1), HR_U8);
  hr_tt mask = joined(t, all, seen(t, length, sees), square);
  hr_tt rows = hr__tape_made(t, "aten::index", hr__tdims2(batch, length), HR_U8);
  return joined(t, mask, rows, hr__tdims4(batch, 1, length, length));
}

/* Written-out attention adds it to the scores. */
static hr_tt mask_make(hr_eager *e, hr_dtype dtype, sight sees) {
  hr_tape *t = &e->tape;
  int64_t length = e->settings.length;
  hr_tdims all = hr__tdims4(e->settings.batch, 1, length, length);
  hr_tt padding = HR_TT_NONE, positions[2];
  if (e->settings.padded) padding = hr__tape_made(t, "aten::_to_copy", hr__tdims2(e->settings.batch, length), HR_U8);
  for (int i = 0; i < 2; i++) {
    hr_tt numbers = hr__tape_made(t, "aten::arange", hr__tdims1(length), HR_I64);
    positions[i] = hr__tape_made(t, "aten::add", hr__tdims1(length), HR_I64);
    hr__tape_drop(t, numbers);
  }
  hr_tt mask = e->settings.padded ? seen_unpadded(e, sees) : seen(t, length, sees);
  for (int i = 0; i < 2; i++)
    hr__tape_drop(t, positions[i]);
  hr__tape_drop(t, padding);
  hr_tt expanded = hr__tape_name(hr__tape_view(t, mask, all, false));
  hr__tape_drop(t, mask);
  if (e->settings.attention != HR_TORCH_EAGER_ATTENTION) return expanded;
  hr_tt added = hr__tape_made(t, "aten::where", all, dtype);
  hr__tape_drop(t, expanded);
  return hr__tape_name(added);
}

hr_tt hr__eager_padding_mask(hr_eager *e, hr_dtype dtype) {
  if (!e->settings.padded || e->settings.attention == HR_TORCH_FLASH_ATTENTION) return HR_TT_NONE;
  return mask_make(e, dtype, BOTH_SIDES);
}

void hr__eager_causal_masks(hr_eager *e, hr_dtype dtype, int64_t window, bool mixed, hr_tt *all, hr_tt *windowed) {
  *all = *windowed = HR_TT_NONE;
  if (e->settings.attention == HR_TORCH_FLASH_ATTENTION) return; /* which takes windows and lengths itself */
  bool asked = e->settings.attention == HR_TORCH_EAGER_ATTENTION || e->settings.padded;
  if (asked && (window == 0 || mixed)) *all = mask_make(e, dtype, BACK);
  /* one that is as long as the rows is made as well */
  if (window > 0 && (asked || window <= e->settings.length)) *windowed = mask_make(e, dtype, NEAR_BACK);
}

static hr_tt token_loss(hr_tape *t, hr_tt logits, hr_tt targets) {
  if (t->stopped) return HR_TT_NONE;
  hr_tape_tensor form = *hr__tape_tensor(t, logits);
  hr_tt rows = hr__at_reshaped(t, logits, hr__tdims2(form.dims.at[0] * form.dims.at[1], form.dims.at[2]));
  hr_tt parts = hr__at_log_softmax(t, rows);
  if (t->autocast) parts = hr__at_to(t, parts, HR_F32); /* nll_loss is on autocast's list of f32 */
  return hr__at_nll_loss(t, parts, targets);
}

hr_tt hr__eager_next_token_loss(hr_eager *e, hr_tt logits) {
  hr_tape *t = &e->tape;
  int64_t batch = e->settings.batch, length = e->settings.length;
  hr_tt wide = hr__tape_name(hr__at_to(t, logits, HR_F32));
  hr_tt padded = hr__tape_made(t, "aten::constant_pad_nd", hr__tdims2(batch, length + 1), HR_I64);
  hr_tt shifted = hr__tape_name(hr__tape_made(t, "aten::clone", hr__tdims2(batch, length), HR_I64));
  hr_tt loss = token_loss(t, wide, shifted);
  hr__tape_drop(t, wide);
  hr__tape_drop(t, padded);
  hr__tape_drop(t, shifted);
  return loss;
}

hr_tt hr__eager_masked_token_loss(hr_eager *e, hr_tt logits) {
  return token_loss(&e->tape, logits, e->labels);
}
