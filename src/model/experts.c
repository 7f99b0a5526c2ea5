/* Experts of the embedder. See embedder.h.
 *
 * Shapes: R rows, D width, E experts, k chosen. All of it is f32 in every precision.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "model/embedder.h"
#include "model/modules.h"
#include "model/softmax.h"
#include "op/gather.h"
#include "op/pointwise.h"
#include "op/topk.h"

/* Fresh linears as PyTorch draws them have weights of this deviation. */
static float deviation(int64_t in) {
  return (float)(1 / sqrt(3 * (double)in));
}

static hr_id linear(hr_builder *b, const char *path, const char *name, int64_t in, int64_t rows, hr_id x) {
  hr_linears l = {
      .path = path, .count = 1, .name = {name}, .rows = {rows}, .in = in, .biased = true, .std = deviation(in)};
  return hr__linears(b, &l, x, HR_NONE);
}

/* Of `logits` [R, E]: gates [R, E], of which k are not 0 and add up to 1, and the balance of the experts. */
static hr_id route(hr_builder *b, const hr_embedder *m, hr_id logits, hr_id *balance) {
  hr__module(b, "moe.routing");
  if (b->status != HR_OK) return HR_NONE;
  hr_id largest = hr__topk(b, logits, (int)m->chosen);
  if (largest == HR_NONE) return HR_NONE;
  hr_id where = hr__node_out(b, largest, 1);
  hr_id gates = hr__scatter(b, where, hr__softmax(b, largest), m->experts);
  hr_id chosen = hr__unary(b, HR_FORMULA_sign, gates, 0, 0); /* takes no gradient: counts have none */
  hr_id used = hr__reduce(b, HR_REDUCE_MEAN, chosen, 1u << 0);
  hr_id probable = hr__reduce(b, HR_REDUCE_MEAN, hr__softmax(b, logits), 1u << 0);
  hr_id sum = hr__reduce(b, HR_REDUCE_SUM, hr__binary(b, HR_FORMULA_mul, used, probable), 1u << 1);
  *balance = hr__unary(b, HR_FORMULA_affine, hr__squeeze(b, sum, 1u << 1), (float)m->experts, 0);
  return gates;
}

hr_id hr__experts(hr_builder *b, const hr_embedder *m, hr_id x, hr_id *balance) {
  char path[64];
  hr_id gates = route(b, m, linear(b, "moe", "gate", m->width, m->experts, x), balance), sum = HR_NONE;
  for (int64_t e = 0; e < m->experts && b->status == HR_OK; e++) {
    snprintf(path, sizeof path, "moe.experts.%" PRId64, e);
    hr_id inner = linear(b, path, "up", m->width, m->inner, x);
    inner = hr__dropped(b, path, m->dropout, hr__unary(b, HR_FORMULA_relu, inner, 0, 0));
    hr_id y = linear(b, path, "down", m->inner, m->width, inner);
    hr__module(b, "moe.sum");
    y = hr__binary(b, HR_FORMULA_mul, y, hr__window(b, gates, 1, e, 1));
    sum = e == 0 ? y : hr__binary(b, HR_FORMULA_add, sum, y);
  }
  return sum;
}
