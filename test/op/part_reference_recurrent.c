/* References of recurrent layers: one unit of one sample after the other. */
#include <math.h>

#include "op/lstm.h"
#include "part_reference.h"

enum { IN, FORGET, NEW, OUT };

static int64_t valid_positions(const double *lengths, const hr_lstm_walk *w, int64_t sample) {
  return lengths ? (int64_t)lengths[sample] : w->length;
}

static int64_t row_of(const hr_lstm_walk *w, int64_t sample, int64_t valid, int64_t step) {
  return sample * w->length + (w->reverse ? valid - 1 - step : step);
}

static double sigmoid(double x) {
  return 1.0 / (1.0 + exp(-x));
}

/* Weights as layers have them: what h is rounded to adds up to no more than one rounding of a gate. */
static void lstm_fill(double *const *in, const hr_desc *desc, const void *args) {
  (void)args;
  for (int64_t i = 0, count = hr_desc_count(&desc[1]); i < count; i++)
    in[1][i] /= sqrt((double)desc[1].dim[1]);
}

static void unit_forward(const reference_call *c, const hr_lstm_walk *w, int64_t row, int64_t before, int64_t unit) {
  double gate[HR_LSTM_GATES];
  for (int g = 0; g < HR_LSTM_GATES; g++) {
    int64_t line = g * w->width + unit;
    double sum = c->in[0][row * HR_LSTM_GATES * w->width + line];
    if (before >= 0) sum += reference_dot(c->out[0] + before * w->width, c->in[1] + line * w->width, w->width);
    gate[g] = g == NEW ? tanh(sum) : sigmoid(sum);
    c->out[1][row * HR_LSTM_GATES * w->width + line] = gate[g];
  }
  double cell = gate[IN] * gate[NEW] + (before < 0 ? 0.0 : gate[FORGET] * c->out[2][before * w->width + unit]);
  c->out[2][row * w->width + unit] = cell;
  c->out[0][row * w->width + unit] = gate[OUT] * tanh(cell);
}

static void lstm_reference(const reference_call *c) {
  hr_lstm_walk w = hr__lstm_walk(&c->out_desc[0], c->args);
  for (int j = 0; j < 3; j++)
    for (int64_t i = 0, count = hr_desc_count(&c->out_desc[j]); i < count; i++)
      c->out[j][i] = 0.0;
  for (int64_t sample = 0; sample < w.batch; sample++) {
    int64_t valid = valid_positions(c->in[2], &w, sample);
    for (int64_t step = 0; step < valid; step++)
      for (int64_t unit = 0; unit < w.width; unit++)
        unit_forward(c, &w, row_of(&w, sample, valid, step), step ? row_of(&w, sample, valid, step - 1) : -1, unit);
  }
}

/* Gates as forward gives them, between 0 and 1, or of `new` between -1 and 1. */
static void lstm_bwd_fill(double *const *in, const hr_desc *desc, const void *args) {
  int64_t width = desc[0].dim[2];
  (void)args;
  for (int64_t i = 0, count = hr_desc_count(&desc[2]); i < count; i++)
    in[2][i] = i / width % HR_LSTM_GATES == NEW ? tanh(in[2][i]) : sigmoid(in[2][i]);
}

static void unit_backward(const reference_call *c, const hr_lstm_walk *w, int64_t row, int64_t before, int64_t behind,
                          int64_t unit, double *cell_gradient) {
  const double *gates = c->in[2] + row * HR_LSTM_GATES * w->width + unit;
  double *dx = c->out[0] + row * HR_LSTM_GATES * w->width + unit, dh = c->in[0][row * w->width + unit];
  for (int64_t line = 0; behind >= 0 && line < HR_LSTM_GATES * w->width; line++)
    dh += c->out[0][behind * HR_LSTM_GATES * w->width + line] * c->in[1][line * w->width + unit];
  double in = gates[IN * w->width], forget = gates[FORGET * w->width], new = gates[NEW * w->width];
  double out = gates[OUT * w->width], t = tanh(c->in[3][row * w->width + unit]);
  double dc = dh * out * (1.0 - t * t) + (behind < 0 ? 0.0 : *cell_gradient);
  dx[IN * w->width] = dc * new *in *(1.0 - in);
  dx[FORGET * w->width] = before < 0 ? 0.0 : dc * c->in[3][before * w->width + unit] * forget * (1.0 - forget);
  dx[NEW * w->width] = dc * in * (1.0 - new *new);
  dx[OUT * w->width] = dh * t * out * (1.0 - out);
  *cell_gradient = dc * forget;
}

static void lstm_bwd_reference(const reference_call *c) {
  enum { WIDEST = 1024 };
  hr_lstm_walk w = hr__lstm_walk(&c->in_desc[0], c->args);
  double cell_gradient[WIDEST];
  for (int64_t i = 0, count = hr_desc_count(&c->out_desc[0]); i < count; i++)
    c->out[0][i] = 0.0;
  for (int64_t sample = 0; sample < w.batch; sample++) {
    int64_t valid = valid_positions(c->in[4], &w, sample);
    for (int64_t step = valid - 1; step >= 0; step--)
      for (int64_t unit = 0; unit < w.width; unit++)
        unit_backward(c, &w, row_of(&w, sample, valid, step), step ? row_of(&w, sample, valid, step - 1) : -1,
                      step + 1 < valid ? row_of(&w, sample, valid, step + 1) : -1, unit, &cell_gradient[unit]);
  }
}

static const reference ops[] = {
    {.op = "lstm", .run = lstm_reference, .fill = lstm_fill, .differentiable = true},
    {.op = "lstm_bwd", .run = lstm_bwd_reference, .fill = lstm_bwd_fill},
};
const reference_family references_of_recurrent = {ops, sizeof ops / sizeof *ops};
