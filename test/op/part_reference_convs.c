/* References of convolutions: every product of an element of x and one of W, added where it belongs. */
#include "op/conv.h"
#include "part_reference.h"

typedef struct meeting {
  const hr_desc *x, *w, *y;
  const hr_conv_args *args;
  const double *from_x, *from_w, *from_y; /* NULL: the one that is added to */
  double *to;
} meeting;

/* The place along every axis of `desc` behind the first two; the last runs fastest. */
static int64_t places(const hr_desc *desc) {
  return hr_desc_count(desc) / desc->dim[0] / desc->dim[1];
}

/* Which place of x window `window` reads for tap `tap`; -1: one of the padding. */
static int64_t place_read(const meeting *m, int64_t window, int64_t tap) {
  int64_t place = 0, scale = 1;
  for (int axis = m->x->rank - 1; axis >= 2; axis--) {
    int64_t w = window % m->y->dim[axis], t = tap % m->w->dim[axis];
    int64_t at = w * m->args->stride[axis - 2] + t * m->args->dilation[axis - 2] - m->args->padding[axis - 2];
    if (at < 0 || at >= m->x->dim[axis]) return -1;
    place += at * scale;
    scale *= m->x->dim[axis];
    window /= m->y->dim[axis];
    tap /= m->w->dim[axis];
  }
  return place;
}

static void channels_meet(const meeting *m, int64_t sample, int64_t k, int64_t c) {
  int64_t in = m->w->dim[1], channel = k / (m->w->dim[0] / m->args->groups) * in + c;
  int64_t sizes = places(m->x), taps = places(m->w), windows = places(m->y);
  for (int64_t window = 0; window < windows; window++)
    for (int64_t tap = 0; tap < taps; tap++) {
      int64_t place = place_read(m, window, tap);
      if (place < 0) continue;
      int64_t x = (sample * m->x->dim[1] + channel) * sizes + place, w = (k * in + c) * taps + tap;
      int64_t y = (sample * m->y->dim[1] + k) * windows + window;
      if (!m->from_y) m->to[y] += m->from_x[x] * m->from_w[w];
      if (!m->from_x) m->to[x] += m->from_y[y] * m->from_w[w];
      if (!m->from_w) m->to[w] += m->from_y[y] * m->from_x[x];
    }
}

static void all_meet(const meeting *m) {
  for (int64_t sample = 0; sample < m->x->dim[0]; sample++)
    for (int64_t k = 0; k < m->w->dim[0]; k++)
      for (int64_t c = 0; c < m->w->dim[1]; c++)
        channels_meet(m, sample, k, c);
}

static void start(const reference_call *c, int partial) {
  for (int64_t i = 0, count = hr_desc_count(&c->out_desc[0]); i < count; i++)
    c->out[0][i] = c->in[partial] ? c->in[partial][i] : 0.0;
}

static void conv_reference(const reference_call *c) {
  const hr_desc *x = &c->in_desc[0], *w = &c->in_desc[1], *y = &c->out_desc[0];
  start(c, 3);
  for (int64_t i = 0, count = hr_desc_count(y); c->in[2] && i < count; i++)
    c->out[0][i] += c->in[2][i / places(y) % y->dim[1]];
  all_meet(&(meeting){x, w, y, c->args, c->in[0], c->in[1], NULL, c->out[0]});
}

static void conv_dx_reference(const reference_call *c) {
  const hr_conv_dx_args *args = c->args;
  start(c, 2);
  all_meet(
      &(meeting){&c->out_desc[0], &c->in_desc[1], &c->in_desc[0], &args->conv, NULL, c->in[1], c->in[0], c->out[0]});
}

static void conv_dw_reference(const reference_call *c) {
  const hr_conv_dw_args *args = c->args;
  start(c, 2);
  all_meet(
      &(meeting){&c->in_desc[1], &c->out_desc[0], &c->in_desc[0], &args->conv, c->in[1], NULL, c->in[0], c->out[0]});
}

static void conv_db_reference(const reference_call *c) {
  const hr_desc *dy = &c->in_desc[0];
  start(c, 1);
  for (int64_t i = 0, count = hr_desc_count(dy); i < count; i++)
    c->out[0][i / places(dy) % dy->dim[1]] += c->in[0][i];
}

static const reference ops[] = {
    {.op = "conv",
     .run = conv_reference,
     .differentiable = true,
     .loose = 1u << 1}, /* with a stride, several kernels */
    {.op = "conv_dx", .run = conv_dx_reference, .differentiable = true},
    {.op = "conv_dw", .run = conv_dw_reference},
    {.op = "conv_db", .run = conv_db_reference, .loose = 1u << 0},
};
const reference_family references_of_convs = {ops, sizeof ops / sizeof *ops};
