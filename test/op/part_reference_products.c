/* References of matrix products, adapters, and tables of weights. */
#include "part_reference.h"

#include "base/dynamic8.h"
#include "op/embedding.h"
#include "op/lora_down.h"
#include "op/lora_up.h"
#include "op/nf4.h"

/* x [rows, I], W [O, I], bias? [O], add? [rows, O] */
static void linear_reference(const reference_call *c) {
  int64_t rows = hr_desc_rows(&c->in_desc[0]), I = c->in_desc[1].dim[1], O = c->in_desc[1].dim[0];
  for (int64_t r = 0; r < rows; r++)
    for (int64_t o = 0; o < O; o++) {
      double sum = (c->in[2] ? c->in[2][o] : 0.0) + (c->in[3] ? c->in[3][r * O + o] : 0.0);
      for (int64_t i = 0; i < I; i++)
        sum += c->in[0][r * I + i] * c->in[1][o * I + i];
      c->out[0][r * O + o] = sum;
    }
}

static void linear_dx_reference(const reference_call *c) {
  int64_t rows = hr_desc_rows(&c->in_desc[0]), I = c->in_desc[1].dim[1], O = c->in_desc[1].dim[0];
  for (int64_t r = 0; r < rows; r++)
    for (int64_t i = 0; i < I; i++) {
      double sum = c->in[2] ? c->in[2][r * I + i] : 0.0;
      for (int64_t o = 0; o < O; o++)
        sum += c->in[0][r * O + o] * c->in[1][o * I + i];
      c->out[0][r * I + i] = sum;
    }
}

static void linear_dw_reference(const reference_call *c) {
  int64_t rows = hr_desc_rows(&c->in_desc[0]), O = hr_desc_columns(&c->in_desc[0]), I = hr_desc_columns(&c->in_desc[1]);
  for (int64_t o = 0; o < O; o++)
    for (int64_t i = 0; i < I; i++) {
      double sum = c->in[2] ? c->in[2][o * I + i] : 0.0;
      for (int64_t r = 0; r < rows; r++)
        sum += c->in[0][r * O + o] * c->in[1][r * I + i];
      c->out[0][o * I + i] = sum;
    }
}

static void linear_db_reference(const reference_call *c) {
  int64_t rows = hr_desc_rows(&c->in_desc[0]), O = hr_desc_columns(&c->in_desc[0]);
  for (int64_t o = 0; o < O; o++) {
    double sum = c->in[1] ? c->in[1][o] : 0.0;
    for (int64_t r = 0; r < rows; r++)
      sum += c->in[0][r * O + o];
    c->out[0][o] = sum;
  }
}

/* Column `column` of y: its group and row of B, or -1. */
static int lora_group(const hr_lora_up_args *a, int64_t column, int64_t *row) {
  int64_t before = 0;
  for (int g = 0; g < a->groups; g++) {
    *row = before + column - a->first[g];
    if (column >= a->first[g] && column < a->first[g] + a->rows[g]) return g;
    before += a->rows[g];
  }
  return -1;
}

/* h [rows, groups * rank], B [sum of rows, rank], add? [rows, columns] */
static void lora_up_reference(const reference_call *c) {
  const hr_lora_up_args *a = c->args;
  int64_t rows = hr_desc_rows(&c->in_desc[0]), row;
  for (int64_t r = 0; r < rows; r++)
    for (int64_t o = 0; o < a->columns; o++) {
      int g = lora_group(a, o, &row);
      double sum = 0.0;
      for (int64_t k = 0; g >= 0 && k < a->rank; k++)
        sum += c->in[0][(r * a->groups + g) * a->rank + k] * c->in[1][row * a->rank + k];
      c->out[0][r * a->columns + o] = (double)a->scale * sum + (c->in[2] ? c->in[2][r * a->columns + o] : 0.0);
    }
}

/* dy, h, B, partial? -> dh, dB */
static void lora_up_bwd_reference(const reference_call *c) {
  const hr_lora_up_args *a = &((const hr_lora_up_bwd_args *)c->args)->up;
  int64_t rows = hr_desc_rows(&c->in_desc[0]), row;
  for (int64_t i = 0; i < hr_desc_count(&c->out_desc[0]); i++)
    c->out[0][i] = 0.0;
  for (int64_t i = 0; i < hr_desc_count(&c->out_desc[1]); i++)
    c->out[1][i] = c->in[3] ? c->in[3][i] : 0.0;
  for (int64_t r = 0; r < rows; r++)
    for (int64_t o = 0; o < a->columns; o++) {
      int g = lora_group(a, o, &row);
      double dy = (double)a->scale * c->in[0][r * a->columns + o];
      for (int64_t k = 0; g >= 0 && k < a->rank; k++) {
        c->out[0][(r * a->groups + g) * a->rank + k] += dy * c->in[2][row * a->rank + k];
        c->out[1][row * a->rank + k] += dy * c->in[1][(r * a->groups + g) * a->rank + k];
      }
    }
}

/* What element e of a sample's rows is multiplied by, of x [samples, ...]. */
static double mask_at(const reference_call *c, const hr_dropout_args *a, const hr_desc *x, int64_t at) {
  const hr_control *k = c->control;
  int64_t each = hr_desc_count(x) / x->dim[0], e = at % each;
  uint32_t word[4], limit = hr__mask_limit(a->p);
  hr__mask_draw(hr__dropout_key(k->seed, CASE_STREAM, k->step, a->use), k->sample + (uint64_t)(a->first + at / each),
                (uint64_t)(e / HR_MASK_LANES), word);
  return hr__mask_keeps(word, (int)(e % HR_MASK_LANES), limit) ? (double)hr__mask_scale(limit) : 0.0;
}

/* x [rows, I], A [n, I], control -> h */
static void lora_down_reference(const reference_call *c) {
  int64_t rows = hr_desc_rows(&c->in_desc[0]), I = c->in_desc[1].dim[1], N = c->in_desc[1].dim[0];
  for (int64_t i = 0; i < rows * N; i++)
    c->out[0][i] = 0.0;
  for (int64_t r = 0; r < rows; r++)
    for (int64_t i = 0; i < I; i++) {
      double x = c->in[0][r * I + i] * mask_at(c, c->args, &c->in_desc[0], r * I + i);
      for (int64_t n = 0; n < N; n++)
        c->out[0][r * N + n] += x * c->in[1][n * I + i];
    }
}

/* dh [rows, n], A [n, I], control, partial? -> dx */
static void lora_down_dx_reference(const reference_call *c) {
  int64_t rows = hr_desc_rows(&c->in_desc[0]), I = c->in_desc[1].dim[1], N = c->in_desc[1].dim[0];
  for (int64_t r = 0; r < rows; r++)
    for (int64_t i = 0; i < I; i++) {
      double sum = 0.0;
      for (int64_t n = 0; n < N; n++)
        sum += c->in[0][r * N + n] * c->in[1][n * I + i];
      c->out[0][r * I + i] =
          sum * mask_at(c, c->args, &c->out_desc[0], r * I + i) + (c->in[3] ? c->in[3][r * I + i] : 0.0);
    }
}

/* dh [rows, n], x [rows, I], control, partial? -> dA */
static void lora_down_dw_reference(const reference_call *c) {
  const hr_lora_down_dw_args *args = c->args;
  int64_t rows = hr_desc_rows(&c->in_desc[0]), I = c->out_desc[0].dim[1], N = c->out_desc[0].dim[0];
  for (int64_t i = 0; i < N * I; i++)
    c->out[0][i] = c->in[3] ? c->in[3][i] : 0.0;
  for (int64_t r = 0; r < rows; r++)
    for (int64_t i = 0; i < I; i++) {
      double x = c->in[1][r * I + i] * mask_at(c, &args->drop, &c->in_desc[1], r * I + i);
      for (int64_t n = 0; n < N; n++)
        c->out[0][n * I + i] += c->in[0][r * N + n] * x;
    }
}

/* codes, absmax, nested_absmax?, nested_offset? -> W */
static void nf4_unpack_reference(const reference_call *c) {
  for (int64_t i = 0, count = hr_desc_count(&c->out_desc[0]); i < count; i++) {
    int pair = (int)c->in[0][i / 2], code = i % 2 ? pair % 16 : pair / 16;
    double scale = c->in[1][i / 64];
    if (c->in[2]) scale = (double)hr__dynamic8_signed()[(int)scale] * c->in[2][i / 64 / 256] + c->in[3][0];
    c->out[0][i] = (double)hr_nf4_levels[code] * scale;
  }
}

static void embedding_reference(const reference_call *c) {
  int64_t H = c->in_desc[1].dim[1];
  for (int64_t t = 0, count = hr_desc_count(&c->in_desc[0]); t < count; t++)
    for (int64_t h = 0; h < H; h++)
      c->out[0][t * H + h] = c->in[1][(int64_t)c->in[0][t] * H + h];
}

static void embedding_dw_reference(const reference_call *c) {
  const hr_embedding_dw_args *args = c->args;
  int64_t H = c->out_desc[0].dim[1];
  for (int64_t i = 0, count = hr_desc_count(&c->out_desc[0]); i < count; i++)
    c->out[0][i] = c->in[2] ? c->in[2][i] : 0.0;
  for (int64_t t = 0, count = hr_desc_count(&c->in_desc[0]); t < count; t++)
    for (int64_t h = 0; h < H && c->in[0][t] + 1 != (double)args->padded; h++)
      c->out[0][(int64_t)c->in[0][t] * H + h] += c->in[1][t * H + h];
}

static const reference ops[] = {
    {.op = "linear", .run = linear_reference, .differentiable = true},
    {.op = "linear_dx", .run = linear_dx_reference},
    {.op = "linear_dw", .run = linear_dw_reference},
    {.op = "linear_db", .run = linear_db_reference, .loose = 1u << 0},
    {.op = "lora_up", .run = lora_up_reference, .differentiable = true},
    {.op = "lora_up_bwd", .run = lora_up_bwd_reference},
    {.op = "lora_down", .run = lora_down_reference, .differentiable = true},
    {.op = "lora_down_dx", .run = lora_down_dx_reference},
    {.op = "lora_down_dw", .run = lora_down_dw_reference},
    {.op = "nf4_unpack", .run = nf4_unpack_reference},
    {.op = "embedding", .run = embedding_reference, .differentiable = true, .loose = 1u << 1},
    {.op = "embedding_dw", .run = embedding_dw_reference},
};
const reference_family references_of_products = {ops, sizeof ops / sizeof *ops};
