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

/* Orders first to first + k of a field, [B, k, L]. */
static hr_id orders_of(hr_builder *b, const hr_model_batch *batch, const char *field, int64_t first, int64_t k) {
  return hr__slice(b, hr__batch_field(batch, field), 1, first, k);
}

hr_id hr__gesture_stacks(hr_builder *b, const hr_gesture *m, const hr_model_batch *batch, hr_id x) {
  int64_t samples = batch->batch, length = batch->length, k = HR_GESTURE_ORDERS / m->stacks;
  hr_id done[HR_GESTURE_ORDERS];
  for (int s = 0; s < m->stacks; s++) {
    hr__module(b, "stacks.%d", s);
    hr_id order = orders_of(b, batch, "orders", s * k, k);
    order = hr__reshape(b, order, 2, (const int64_t[]){samples, k * length});
    hr_id y = hr__gather(b, order, x);
    y = hr__reshape(b, y, 4, (const int64_t[]){samples, k, length, m->hidden});
    hr__module(b, "stacks.%d", s);
    done[s] = hr__gather(b, orders_of(b, batch, "inverses", s * k, k), y);
  }
  hr__module(b, "fusion");
  if (b->status != HR_OK) return HR_NONE;
  hr_id all = m->stacks > 1 ? hr__concat(b, done, m->stacks, 1) : done[0];
  all = hr__permute(b, all, (const int[]){0, 2, 1, 3});
  return hr__reshape(b, all, 3, (const int64_t[]){samples, length, HR_GESTURE_ORDERS * m->hidden});
}
