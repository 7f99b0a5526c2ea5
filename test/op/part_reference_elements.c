/* References of what goes element by element, and what moves them. */
#include "part_reference.h"

#include <math.h>
#include <string.h>

#include "op/add.h"
#include "op/concat.h"
#include "op/copy.h"
#include "op/dropout.h"
#include "op/gelu.h"
#include "op/slice.h"

static void copy_reference(const reference_call *c) {
  double factor = (double)((const hr_copy_args *)c->args)->factor;
  for (int64_t i = 0, count = hr_desc_count(&c->in_desc[0]); i < count; i++)
    c->out[0][i] = factor * c->in[0][i];
}

static void add_reference(const reference_call *c) {
  double alpha = (double)((const hr_add_args *)c->args)->alpha;
  for (int64_t i = 0, count = hr_desc_count(&c->in_desc[0]); i < count; i++)
    c->out[0][i] = c->in[0][i] + alpha * c->in[1][i];
}

static void dropout_reference(const reference_call *c) {
  const hr_dropout_args *a = c->args;
  const hr_control *k = c->control;
  int64_t samples = c->in_desc[0].dim[0], each = hr_desc_count(&c->in_desc[0]) / samples;
  uint64_t key = hr__dropout_key(k->seed, CASE_STREAM, k->step, a->use);
  for (int64_t s = 0; s < samples; s++)
    for (int64_t e = 0; e < each; e++) {
      uint32_t word[4], limit = hr__mask_limit(a->p);
      hr__mask_draw(key, k->sample + (uint64_t)(a->first + s), (uint64_t)(e / HR_MASK_LANES), word);
      bool kept = hr__mask_keeps(word, (int)(e % HR_MASK_LANES), limit);
      c->out[0][s * each + e] = kept ? c->in[0][s * each + e] * (double)hr__mask_scale(limit) : 0.0;
    }
}

/* Activations: value and slope. */
typedef struct activation {
  double value, slope;
} activation;

static activation silu_at(double x) {
  double s = 1.0 / (1.0 + exp(-x));
  return (activation){x * s, s + x * s * (1.0 - s)};
}

static activation gelu_at(double x, bool by_tanh) {
  const double pi = 3.14159265358979323846;
  double u = sqrt(2.0 / pi) * (x + 0.044715 * x * x * x);
  double part = by_tanh ? (1.0 + tanh(u)) / 2.0 : erfc(-x / sqrt(2.0)) / 2.0,
         slope = exp(-x * x / 2.0) / sqrt(2.0 * pi);
  if (by_tanh) slope = 2.0 * part * (1.0 - part) * sqrt(2.0 / pi) * (1.0 + 3.0 * 0.044715 * x * x);
  return (activation){x * part, part + x * slope};
}

/* Packed, gate and up of element i of y (with `columns` of its own) lie in one row of twice as many. */
static int64_t packed_gate(int64_t i, int64_t columns) {
  return i / columns * 2 * columns + i % columns;
}

static void gated_reference(const reference_call *c, bool gelu) {
  int64_t I = hr_desc_columns(&c->out_desc[0]);
  for (int64_t i = 0, count = hr_desc_count(&c->out_desc[0]); i < count; i++) {
    int64_t at = c->in[1] ? i : packed_gate(i, I);
    double g = c->in[0][at], u = c->in[1] ? c->in[1][i] : c->in[0][at + I];
    c->out[0][i] = (gelu ? gelu_at(g, true) : silu_at(g)).value * u;
  }
}

static void gated_bwd_reference(const reference_call *c, bool gelu) {
  int64_t I = hr_desc_columns(&c->in_desc[0]);
  for (int64_t i = 0, count = hr_desc_count(&c->in_desc[0]); i < count; i++) {
    int64_t at = c->in[2] ? i : packed_gate(i, I);
    double dy = c->in[0][i], g = c->in[1][at], u = c->in[2] ? c->in[2][i] : c->in[1][at + I];
    activation act = gelu ? gelu_at(g, true) : silu_at(g);
    c->out[0][at] = dy * u * act.slope;
    *(c->in[2] ? &c->out[1][i] : &c->out[0][at + I]) = dy * act.value;
  }
}

static void swiglu_reference(const reference_call *c) {
  gated_reference(c, false);
}
static void swiglu_bwd_reference(const reference_call *c) {
  gated_bwd_reference(c, false);
}
static void geglu_reference(const reference_call *c) {
  gated_reference(c, true);
}
static void geglu_bwd_reference(const reference_call *c) {
  gated_bwd_reference(c, true);
}

static void gelu_reference(const reference_call *c) {
  bool by_tanh = ((const hr_gelu_args *)c->args)->tanh;
  for (int64_t i = 0, count = hr_desc_count(&c->in_desc[0]); i < count; i++)
    c->out[0][i] = gelu_at(c->in[0][i], by_tanh).value;
}

static void gelu_bwd_reference(const reference_call *c) {
  bool by_tanh = ((const hr_gelu_args *)c->args)->tanh;
  for (int64_t i = 0, count = hr_desc_count(&c->in_desc[0]); i < count; i++)
    c->out[0][i] = c->in[0][i] * gelu_at(c->in[1][i], by_tanh).slope;
}

/* Elements behind an axis. */
static int64_t row_elements(const hr_desc *desc, int axis) {
  int64_t count = 1;
  for (int d = axis + 1; d < desc->rank; d++)
    count *= desc->dim[d];
  return count;
}

static void slice_reference(const reference_call *c) {
  const hr_slice_args *a = c->args;
  int64_t row = row_elements(&c->in_desc[0], a->axis), rows = c->in_desc[0].dim[a->axis], run = a->count * row;
  for (int64_t i = 0, count = hr_desc_count(&c->out_desc[0]); i < count; i++)
    c->out[0][i] = c->in[0][i / run * rows * row + a->first * row + i % run];
}

static void join_reference(const reference_call *c) {
  const hr_join_args *a = c->args;
  int64_t row = row_elements(&c->in_desc[0], a->axis), run = c->in_desc[0].dim[a->axis] * row;
  for (int64_t i = 0, count = hr_desc_count(&c->out_desc[0]); i < count; i++)
    c->out[0][i] = c->in[1] ? c->in[1][i] : 0.0;
  for (int64_t i = 0, count = hr_desc_count(&c->in_desc[0]); i < count; i++)
    c->out[0][i / run * a->rows * row + a->first * row + i % run] += c->in[0][i];
}

static void reshape_reference(const reference_call *c) {
  memcpy(c->out[0], c->in[0], (size_t)hr_desc_count(&c->in_desc[0]) * sizeof(double));
}

static void concat_reference(const reference_call *c) {
  int axis = ((const hr_concat_args *)c->args)->axis;
  int64_t rows = 1, pitch = 1, at = 0;
  for (int d = 0; d < c->out_desc[0].rank; d++)
    *(d < axis ? &rows : &pitch) *= c->out_desc[0].dim[d];
  for (int i = 0; i < c->n_in; i++) {
    int64_t run = hr_desc_count(&c->in_desc[i]) / rows;
    for (int64_t e = 0; e < rows * run; e++)
      c->out[0][e / run * pitch + at + e % run] = c->in[i][e];
    at += run;
  }
}

/* Bytes are bytes: the room on the host, where there is one, holds those of a u8 operand. */
static void transfer_reference(const reference_call *c) {
  for (int64_t i = 0; i < hr_desc_count(&c->in_desc[0]); i++)
    c->out[0][i] = c->in[0][i];
  for (int64_t i = 0; i < hr_desc_count(&c->out_desc[1]); i++)
    c->out[1][i] = c->in[0][i];
}

static void wait_reference(const reference_call *c) {
  for (int64_t i = 0; i < hr_desc_count(&c->in_desc[0]); i++)
    c->out[0][i] = c->in[0][i];
}

static const reference ops[] = {
    {.op = "copy", .run = copy_reference, .differentiable = true},
    {.op = "add", .run = add_reference, .differentiable = true},
    {.op = "dropout", .run = dropout_reference, .differentiable = true},
    {.op = "swiglu", .run = swiglu_reference, .differentiable = true},
    {.op = "swiglu_bwd", .run = swiglu_bwd_reference},
    {.op = "geglu", .run = geglu_reference, .differentiable = true},
    {.op = "geglu_bwd", .run = geglu_bwd_reference},
    {.op = "gelu", .run = gelu_reference, .differentiable = true},
    {.op = "gelu_bwd", .run = gelu_bwd_reference},
    {.op = "slice", .run = slice_reference, .differentiable = true, .loose = 1u << 0},
    {.op = "join", .run = join_reference, .differentiable = true, .loose = 1u << 0},
    {.op = "reshape", .run = reshape_reference, .differentiable = true},
    {.op = "concat", .run = concat_reference, .differentiable = true},
    {.op = "fetch", .run = transfer_reference, .any_type = 1},
    {.op = "store", .run = transfer_reference, .any_type = 1},
    {.op = "wait", .run = wait_reference, .any_type = 7, .loose = 6},
};
const reference_family references_of_elements = {ops, sizeof ops / sizeof *ops};
