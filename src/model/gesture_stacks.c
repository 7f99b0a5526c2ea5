/* Six orders, and their stacks. See gesture.h.
 *
 * Orders that share a stack go through it together, as [B, K, L, H]: a layer is one product for all of them.
 */
#include <inttypes.h>
#include <stdio.h>

#include "model/gesture.h"
#include "model/modules.h"
#include "op/concat.h"
#include "op/gather.h"
#include "op/pointwise.h"
#include "op/slice.h"

enum { PATH = 96 };
static const float NORM_EPS = 1e-5f;

/* Orders first to first + k of a field, [B, k, L]. */
static hr_id orders_of(hr_builder *b, const hr_model_batch *batch, const char *field, int64_t first, int64_t k) {
  return hr__slice(b, hr__batch_field(batch, field), 1, first, k);
}

/* x + drop_path(dropout(mixer(norm(x)))), x [B, k, L, H]. */
static hr_id layer(hr_builder *b, const hr_gesture *m, const hr_model_batch *batch, int stack, int64_t number,
                   int64_t k, hr_id starts, hr_id x) {
  char path[PATH], part[PATH + 16];
  float dropped = m->layers > 1 ? m->drop_path * (float)number / (float)(m->layers - 1) : 0;
  snprintf(path, sizeof path, "stacks.%d.layers.%" PRId64, stack, number);
  hr__block_begin(b, "%s", path);
  snprintf(part, sizeof part, "%s.norm", path);
  hr_id y = hr__layernorm_module(b, part, m->hidden, NORM_EPS, x);
  snprintf(part, sizeof part, "%s.mamba", path);
  if (hr__drops(b, m->dropout) || hr__drops(b, dropped)) {
    y = hr__dropped(b, path, m->dropout, hr__mixer_module(b, part, &m->mixer, y, starts, batch, HR_NONE));
    hr__module(b, "%s.drop_path", path);
    if (hr__drops(b, dropped)) y = hr__binary(b, HR_FORMULA_mul, y, hr__gesture_path_mask(b, m, batch, k, dropped));
    x = hr__binary(b, HR_FORMULA_add, x, y);
  } else
    x = hr__mixer_module(b, part, &m->mixer, y, starts, batch, x);
  hr__block_end(b);
  return x;
}

hr_id hr__gesture_stacks(hr_builder *b, const hr_gesture *m, const hr_model_batch *batch, hr_id x) {
  int64_t samples = batch->batch, length = batch->length, k = HR_GESTURE_ORDERS / m->stacks;
  hr_id done[HR_GESTURE_ORDERS];
  for (int s = 0; s < m->stacks; s++) {
    hr__module(b, "stacks.%d", s);
    hr_id order = orders_of(b, batch, "orders", s * k, k), inverse = orders_of(b, batch, "inverses", s * k, k);
    hr_id starts = batch->starts == HR_NONE ? HR_NONE : orders_of(b, batch, "starts", s * k, k);
    const int64_t flat[] = {samples, k * length};
    hr_id y = hr__gather_permuted(b, hr__reshape(b, order, 2, flat), hr__reshape(b, inverse, 2, flat), x);
    y = hr__reshape(b, y, 4, (const int64_t[]){samples, k, length, m->hidden});
    for (int64_t i = 0; i < m->layers; i++)
      y = layer(b, m, batch, s, i, k, starts, y);
    hr__module(b, "stacks.%d", s);
    done[s] = hr__gather_permuted(b, inverse, order, y);
  }
  hr__module(b, "fusion");
  if (b->status != HR_OK) return HR_NONE;
  hr_id all = m->stacks > 1 ? hr__concat(b, done, m->stacks, 1) : done[0];
  all = hr__permute(b, all, (const int[]){0, 2, 1, 3});
  return hr__reshape(b, all, 3, (const int64_t[]){samples, length, HR_GESTURE_ORDERS * m->hidden});
}
