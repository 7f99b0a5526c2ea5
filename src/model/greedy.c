/* See greedy.h. */
#include "model/greedy.h"

#include "model/parts.h"
#include "op/gather.h"
#include "op/pointwise.h"
#include "op/slice.h"

hr_id hr__greedy_mistakes(hr_builder *b, const hr_model_part *decoder, const hr_model_batch *batch, hr_id hidden,
                          hr_id expected) {
  enum { LOGITS_MOST = 1 << 23 }; /* that exist at once */
  int64_t piece = LOGITS_MOST / (batch->batch * decoder->model->vocabulary(decoder));
  hr_id sum = HR_NONE;
  piece = piece < 1 ? 1 : piece;
  for (int64_t first = 0; first < batch->length && b->status == HR_OK; first += piece) {
    int64_t count = batch->length - first < piece ? batch->length - first : piece;
    hr__module(b, HR_GREEDY_MODULE);
    hr_id rows = hr__slice(b, hidden, 1, first, count), targets = hr__slice(b, batch->targets, 1, first, count);
    targets = hr__reshape(b, targets, 3, (const int64_t[]){batch->batch, count, 1});
    hr_id logits = hr__part_logits(b, decoder, rows);
    hr__module(b, HR_GREEDY_MODULE);
    hr_id own = hr__gather(b, targets, logits);
    hr_id as_large = hr__unary(b, HR_FORMULA_affine, hr__binary(b, HR_FORMULA_less, logits, own), -1, 1);
    as_large = hr__reduce(b, HR_REDUCE_SUM, as_large, 1u << 2); /* 1: the target alone */
    hr_id one = hr__unary(b, HR_FORMULA_affine, as_large, 0, 1);
    hr_id wrong = hr__unary(b, HR_FORMULA_affine, hr__binary(b, HR_FORMULA_equal, as_large, one), -1, 1);
    hr_id counts = hr__window(b, expected, 1, first, count);
    wrong = hr__reduce(b, HR_REDUCE_SUM, hr__binary(b, HR_FORMULA_keep, wrong, counts), 1u << 1);
    sum = sum == HR_NONE ? wrong : hr__binary(b, HR_FORMULA_add, sum, wrong);
  }
  return sum;
}
