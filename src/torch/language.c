/* What models of language share: masks, and losses over a vocabulary. See eager.h. */
#include "torch/call.h"
#include "torch/eager.h"

hr_tt hr__eager_tokens(hr_eager *e, hr_tt weight, bool scaled) {
  hr_tt embedded = hr__at_embedding(&e->tape, weight, e->ids);
  embedded = hr__tape_name(scaled ? hr__at_scale(&e->tape, embedded) : embedded);
  if (e->settings.rank > 0 && e->settings.checkpointing != HR_TAPE_KEEP) hr__tape_want(&e->tape, embedded);
  return embedded;
}

/* Positions of queries and keys against each other, bool [1, 1, T, T]; with a window two of them, joined. */
static hr_tt seen(hr_tape *t, int64_t length, bool windowed) {
  hr_tdims square = hr__tdims4(1, 1, length, length);
  hr_tt rows[2];
  for (int i = 0; i < 2; i++)
    rows[i] = hr__tape_made(t, "aten::arange", hr__tdims1(length), HR_I64);
  hr_tt mask = HR_TT_NONE;
  if (windowed) {
    hr_tt near = hr__tape_made(t, "aten::gt", square, HR_U8);
    hr_tt inside = hr__tape_made(t, "aten::bitwise_and", square, HR_U8);
    hr__tape_drop(t, near);
    hr_tt back = hr__tape_made(t, "aten::le", square, HR_U8);
    mask = hr__tape_made(t, "aten::bitwise_and", square, HR_U8);
    hr__tape_drop(t, back);
    hr__tape_drop(t, inside);
  } else {
    mask = hr__tape_made(t, "aten::le", square, HR_U8);
  }
  for (int i = 0; i < 2; i++)
    hr__tape_drop(t, rows[i]);
  return mask;
}

/* One for every row where rows are padded. Written-out attention adds it to the scores. */
static hr_tt mask_make(hr_eager *e, hr_dtype dtype, bool windowed) {
  hr_tape *t = &e->tape;
  int64_t length = e->settings.length;
  hr_tdims all = hr__tdims4(e->settings.batch, 1, length, length);
  hr_tt mask = seen(t, length, windowed);
  if (e->settings.padded) {
    hr_tt both = hr__tape_made(t, "aten::bitwise_and", all, HR_U8);
    hr__tape_drop(t, mask);
    mask = both;
  }
  if (e->settings.attention != HR_TORCH_EAGER_ATTENTION) return hr__tape_name(mask);
  hr_tt added = hr__tape_made(t, "aten::where", all, dtype);
  hr__tape_drop(t, mask);
  return hr__tape_name(added);
}

hr_tt hr__eager_padding_mask(hr_eager *e, hr_dtype dtype) {
  if (!e->settings.padded || e->settings.attention == HR_TORCH_FLASH_ATTENTION) return HR_TT_NONE;
  bool by_hand = e->settings.attention == HR_TORCH_EAGER_ATTENTION;
  hr_tdims all = hr__tdims4(e->settings.batch, 1, e->settings.length, e->settings.length);
  return hr__tape_name(hr__tape_made(&e->tape, "aten::where", all, by_hand ? dtype : HR_U8));
}

void hr__eager_causal_masks(hr_eager *e, hr_dtype dtype, int64_t window, bool mixed, hr_tt *all, hr_tt *windowed) {
  *all = *windowed = HR_TT_NONE;
  if (e->settings.attention == HR_TORCH_FLASH_ATTENTION) return; /* which takes windows and lengths itself */
  bool asked = e->settings.attention == HR_TORCH_EAGER_ATTENTION || e->settings.padded;
  if (asked && (window == 0 || mixed)) *all = mask_make(e, dtype, false);
  /* one that is as long as the rows is made as well */
  if (window > 0 && (asked || window <= e->settings.length)) *windowed = mask_make(e, dtype, true);
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
