/* References of windows that slide: the largest and the mean. */
#include "op/pool.h"
#include "part_reference.h"

/* Number `number` along three axes of these sizes; the last runs fastest. */
static void unfold(int64_t number, const int64_t size[HR_POOL_AXES], int64_t at[HR_POOL_AXES]) {
  for (int axis = HR_POOL_AXES - 1; axis >= 0; axis--) {
    at[axis] = number % size[axis];
    number /= size[axis];
  }
}

static int64_t volume(const int64_t size[HR_POOL_AXES]) {
  return size[0] * size[1] * size[2];
}

/* Which place of a plane of x a window reads for a tap; -1: one of the padding. */
static int64_t place_read(const hr_pool_walk *w, int64_t window, int64_t tap) {
  int64_t place = 0, windows[HR_POOL_AXES], taps[HR_POOL_AXES];
  unfold(window, w->windows, windows);
  unfold(tap, w->kernel, taps);
  for (int axis = 0; axis < HR_POOL_AXES; axis++) {
    int64_t at = windows[axis] * w->stride[axis] + taps[axis] - w->padding[axis];
    if (at < 0 || at >= w->size[axis]) return -1;
    place = place * w->size[axis] + at;
  }
  return place;
}

/* Elements of a plane so far apart that differences do not change which is the largest. */
static void pool_fill(double *const *in, const hr_desc *desc, const void *args) {
  int64_t places = hr_desc_count(&desc[0]) / desc[0].dim[0] / desc[0].dim[1];
  (void)args;
  for (int64_t i = 0, count = hr_desc_count(&desc[0]); i < count; i++)
    in[0][i] = (double)((i % places * 37 + i / places * 11) % places - places / 2) / 16.0;
}

static void pool_reference(const reference_call *c) {
  const hr_pool_args *args = c->args;
  hr_pool_walk w = hr__pool_walk(args, &c->in_desc[0], &c->out_desc[0]);
  int64_t taps = volume(w.kernel), windows = volume(w.windows);
  for (int64_t i = 0; i < w.planes * windows; i++) {
    const double *x = c->in[0] + i / windows * volume(w.size);
    double sum = 0.0;
    int64_t best = -1;
    for (int64_t tap = 0; tap < taps; tap++) {
      int64_t place = place_read(&w, i % windows, tap);
      if (place < 0) continue;
      sum += x[place] / (double)taps;
      if (best < 0 || x[place] > x[place_read(&w, i % windows, best)]) best = tap;
    }
    c->out[0][i] = args->pooling == HR_POOL_MEAN ? sum : x[place_read(&w, i % windows, best)];
    if (args->pooling == HR_POOL_MAX) c->out[1][i] = (double)best;
  }
}

static void pool_bwd_fill(double *const *in, const hr_desc *desc, const void *args) {
  const hr_pool_args *pool = &((const hr_pool_bwd_args *)args)->pool;
  int64_t taps = 1;
  for (int axis = 0; axis < desc[0].rank - 2; axis++)
    taps *= pool->kernel[axis];
  for (int64_t i = 0, count = hr_desc_count(&desc[0]); in[1] && i < count; i++)
    in[1][i] = (double)((int64_t)in[1][i] % taps);
}

static void pool_bwd_reference(const reference_call *c) {
  const hr_pool_bwd_args *args = c->args;
  hr_pool_walk w = hr__pool_walk(&args->pool, &c->out_desc[0], &c->in_desc[0]);
  int64_t taps = volume(w.kernel), windows = volume(w.windows), places = volume(w.size);
  for (int64_t i = 0; i < w.planes * places; i++)
    c->out[0][i] = c->in[2] ? c->in[2][i] : 0.0;
  for (int64_t i = 0; i < w.planes * windows; i++)
    for (int64_t tap = 0; tap < taps; tap++) {
      int64_t place = place_read(&w, i % windows, tap);
      if (place < 0 || (c->in[1] && c->in[1][i] != (double)tap)) continue;
      c->out[0][i / windows * places + place] += c->in[1] ? c->in[0][i] : c->in[0][i] / (double)taps;
    }
}

static const reference ops[] = {
    {.op = "pool", .run = pool_reference, .fill = pool_fill, .differentiable = true, .loose = 1u << 0},
    {.op = "pool_bwd", .run = pool_bwd_reference, .fill = pool_bwd_fill},
};
const reference_family references_of_pools = {ops, sizeof ops / sizeof *ops};
