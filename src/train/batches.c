/* See batches.h. */
#include "train/batches.h"

#include <math.h>

static int64_t accumulation_at(const hr_training_shape *shape, uint64_t epoch) {
  int i = shape->n_schedule - 1;
  while ((uint64_t)shape->schedule[i].epoch > epoch)
    i--;
  return shape->schedule[i].accumulation;
}

int64_t hr__batches_micros(const hr_batches *b, uint64_t position) {
  if (b->epoch_rows == 0) return b->shape->schedule[0].accumulation;
  int64_t micros = accumulation_at(b->shape, position / b->epoch_rows);
  if (!b->shape->ragged) return micros;
  int64_t left = (int64_t)((b->epoch_rows - position % b->epoch_rows) / (uint64_t)b->shape->batch);
  return micros < left ? micros : left;
}

uint64_t hr__batches_position(const hr_batches *b, int64_t steps) {
  const hr_training_shape *shape = b->shape;
  uint64_t position = 0, left = (uint64_t)steps, batch = (uint64_t)shape->batch;
  uint64_t last = (uint64_t)shape->schedule[shape->n_schedule - 1].epoch; /* from here on nothing changes */
  while (left > 0) {
    uint64_t epoch = b->epoch_rows ? position / b->epoch_rows : last;
    uint64_t rows = batch * (uint64_t)accumulation_at(shape, epoch);
    if (epoch >= last && !shape->ragged) return position + left * rows;
    uint64_t end = (epoch + 1) * b->epoch_rows, here = (end - position + rows - 1) / rows;
    if (here > left) return position + left * rows;
    position = shape->ragged ? end : position + here * rows;
    left -= here;
    if (!shape->ragged || epoch < last) continue;
    position += left / here * b->epoch_rows; /* `here` was a whole epoch: lines begin with one */
    left %= here;
  }
  return position;
}

int64_t hr__batches_steps(const hr_batches *b, double epochs) {
  if (b->epoch_rows == 0) return 0;
  const double most = 1e15; /* rows */
  uint64_t rows = (uint64_t)fmin(ceil(epochs * (double)b->epoch_rows), most);
  int64_t low = 0, high = 1;
  while (hr__batches_position(b, high) < rows)
    high *= 2;
  while (high - low > 1) { /* position(low) < rows <= position(high) */
    int64_t middle = low + (high - low) / 2;
    *(hr__batches_position(b, middle) < rows ? &low : &high) = middle;
  }
  return high;
}
