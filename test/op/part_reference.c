/* References of the ops, plain formulas in double. */
#include "part_reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/dynamic8.h"
#include "op/adamw.h"
#include "op/adamw8bit.h"
#include "op/add.h"
#include "op/add_rows.h"
#include "op/attention.h"
#include "op/copy.h"
#include "op/dropout.h"
#include "op/embedding.h"
#include "op/gelu.h"
#include "op/head_loss.h"
#include "op/layernorm.h"
#include "op/lora_up.h"
#include "op/loss_seed.h"
#include "op/nf4.h"
#include "op/rmsnorm.h"
#include "op/rope.h"
#include "op/sgd.h"
#include "op/slice.h"

static int64_t elements(const hr_desc *desc) {
  return hr_desc_count(desc);
}

static void loss_seed_reference(const reference_call *c) {
  c->out[0][0] = (double)((const hr_loss_seed_args *)c->args)->weight * (double)c->control->loss_scale;
}

static void copy_reference(const reference_call *c) {
  double factor = (double)((const hr_copy_args *)c->args)->factor;
  for (int64_t i = 0, count = elements(&c->in_desc[0]); i < count; i++)
    c->out[0][i] = factor * c->in[0][i];
}

static void add_reference(const reference_call *c) {
  double alpha = (double)((const hr_add_args *)c->args)->alpha;
  for (int64_t i = 0, count = elements(&c->in_desc[0]); i < count; i++)
    c->out[0][i] = c->in[0][i] + alpha * c->in[1][i];
}

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
  for (int64_t i = 0; i < elements(&c->out_desc[0]); i++)
    c->out[0][i] = 0.0;
  for (int64_t i = 0; i < elements(&c->out_desc[1]); i++)
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

static void dropout_reference(const reference_call *c) {
  const hr_dropout_args *a = c->args;
  const hr_control *k = c->control;
  int64_t samples = c->in_desc[0].dim[0], each = elements(&c->in_desc[0]) / samples;
  uint64_t key = hr__dropout_key(k->seed, CASE_STREAM, k->step);
  for (int64_t s = 0; s < samples; s++)
    for (int64_t e = 0; e < each; e++) {
      bool kept = hr__dropout_keeps(key, k->sample + (uint64_t)(a->first + s), e, a->p);
      c->out[0][s * each + e] = kept ? c->in[0][s * each + e] / (1.0 - (double)a->p) : 0.0;
    }
}

/* codes, absmax, nested_absmax?, nested_offset? -> W */
static void nf4_unpack_reference(const reference_call *c) {
  for (int64_t i = 0, count = elements(&c->out_desc[0]); i < count; i++) {
    int pair = (int)c->in[0][i / 2], code = i % 2 ? pair % 16 : pair / 16;
    double scale = c->in[1][i / 64];
    if (c->in[2]) scale = (double)hr__dynamic8_signed()[(int)scale] * c->in[2][i / 64 / 256] + c->in[3][0];
    c->out[0][i] = (double)hr_nf4_levels[code] * scale;
  }
}

static void embedding_reference(const reference_call *c) {
  int64_t H = c->in_desc[1].dim[1];
  for (int64_t t = 0, count = elements(&c->in_desc[0]); t < count; t++)
    for (int64_t h = 0; h < H; h++)
      c->out[0][t * H + h] = c->in[1][(int64_t)c->in[0][t] * H + h];
}

static void embedding_dw_reference(const reference_call *c) {
  int64_t H = c->out_desc[0].dim[1];
  for (int64_t i = 0, count = elements(&c->out_desc[0]); i < count; i++)
    c->out[0][i] = c->in[2] ? c->in[2][i] : 0.0;
  for (int64_t t = 0, count = elements(&c->in_desc[0]); t < count; t++)
    for (int64_t h = 0; h < H; h++)
      c->out[0][(int64_t)c->in[0][t] * H + h] += c->in[1][t * H + h];
}

static void rmsnorm_reference(const reference_call *c) {
  double eps = (double)((const hr_rmsnorm_args *)c->args)->eps;
  int64_t H = c->in_desc[1].dim[0], rows = elements(&c->in_desc[0]) / H;
  for (int64_t r = 0; r < rows; r++) {
    const double *x = c->in[0] + r * H;
    double squares = 0.0;
    for (int64_t h = 0; h < H; h++)
      squares += x[h] * x[h];
    double rstd = 1.0 / sqrt(squares / (double)H + eps);
    for (int64_t h = 0; h < H; h++)
      c->out[0][r * H + h] = x[h] * rstd * c->in[1][h];
    c->out[1][r] = rstd;
  }
}

/* dy, x, w, rstd, dx_partial?, dw_partial? -> dx, dw */
static void rmsnorm_bwd_reference(const reference_call *c) {
  const hr_norm_bwd_args *args = c->args;
  int64_t H = c->in_desc[2].dim[0], rows = elements(&c->in_desc[0]) / H;
  for (int64_t h = 0; args->want_dw && h < H; h++)
    c->out[1][h] = c->in[5] ? c->in[5][h] : 0.0;
  for (int64_t r = 0; r < rows; r++) {
    const double *dy = c->in[0] + r * H, *x = c->in[1] + r * H, *w = c->in[2];
    double rstd = c->in[3][r], mean = 0.0;
    for (int64_t h = 0; h < H; h++)
      mean += dy[h] * w[h] * x[h] * rstd / (double)H;
    for (int64_t h = 0; h < H; h++) {
      double before = c->in[4] ? c->in[4][r * H + h] : 0.0;
      if (args->want_dx) c->out[0][r * H + h] = before + rstd * (dy[h] * w[h] - x[h] * rstd * mean);
      if (args->want_dw) c->out[1][h] += dy[h] * x[h] * rstd;
    }
  }
}

/* 1/rms as the forward op leaves it for this x. */
static void rmsnorm_bwd_fill(double *const *in, const hr_desc *desc, const void *args) {
  const double eps = 1e-5;
  (void)args;
  int64_t H = desc[2].dim[0], rows = elements(&desc[1]) / H;
  for (int64_t r = 0; r < rows; r++) {
    double squares = 0.0;
    for (int64_t h = 0; h < H; h++)
      squares += in[1][r * H + h] * in[1][r * H + h];
    in[3][r] = 1.0 / sqrt(squares / (double)H + eps);
  }
}

/* Mean and 1 / sqrt(variance + eps) of a row. */
static void row_statistics(const double *x, int64_t H, double eps, double *mean, double *rstd) {
  double sum = 0.0, squares = 0.0;
  for (int64_t h = 0; h < H; h++)
    sum += x[h];
  *mean = sum / (double)H;
  for (int64_t h = 0; h < H; h++)
    squares += (x[h] - *mean) * (x[h] - *mean);
  *rstd = 1.0 / sqrt(squares / (double)H + eps);
}

static void layernorm_reference(const reference_call *c) {
  double eps = (double)((const hr_layernorm_args *)c->args)->eps;
  int64_t rows = hr_desc_rows(&c->in_desc[0]), H = hr_desc_columns(&c->in_desc[0]);
  for (int64_t r = 0; r < rows; r++) {
    double *statistics = c->out[1] + 2 * r;
    row_statistics(c->in[0] + r * H, H, eps, &statistics[0], &statistics[1]);
    for (int64_t h = 0; h < H; h++)
      c->out[0][r * H + h] = (c->in[0][r * H + h] - statistics[0]) * statistics[1] * c->in[1][h] + c->in[2][h];
  }
}

/* dy, x, w, statistics, dx_partial?, dw_partial?, db_partial? -> dx, dw, db */
static void layernorm_bwd_reference(const reference_call *c) {
  const hr_norm_bwd_args *args = c->args;
  int64_t rows = hr_desc_rows(&c->in_desc[0]), H = hr_desc_columns(&c->in_desc[0]);
  for (int64_t h = 0; h < H; h++) {
    if (args->want_dw) c->out[1][h] = c->in[5] ? c->in[5][h] : 0.0;
    if (args->want_db) c->out[2][h] = c->in[6] ? c->in[6][h] : 0.0;
  }
  for (int64_t r = 0; r < rows; r++) {
    const double *dy = c->in[0] + r * H, *x = c->in[1] + r * H, *w = c->in[2];
    double mean = c->in[3][2 * r], rstd = c->in[3][2 * r + 1], g_mean = 0.0, gn_mean = 0.0;
    for (int64_t h = 0; h < H; h++) {
      g_mean += dy[h] * w[h] / (double)H;
      gn_mean += dy[h] * w[h] * (x[h] - mean) * rstd / (double)H;
    }
    for (int64_t h = 0; h < H; h++) {
      double before = c->in[4] ? c->in[4][r * H + h] : 0.0, n = (x[h] - mean) * rstd;
      if (args->want_dx) c->out[0][r * H + h] = before + rstd * (dy[h] * w[h] - g_mean - n * gn_mean);
      if (args->want_dw) c->out[1][h] += dy[h] * n;
      if (args->want_db) c->out[2][h] += dy[h];
    }
  }
}

/* Statistics as the forward op leaves them for this x. */
static void layernorm_bwd_fill(double *const *in, const hr_desc *desc, const void *args) {
  int64_t rows = hr_desc_rows(&desc[1]), H = hr_desc_columns(&desc[1]);
  (void)args;
  for (int64_t r = 0; r < rows; r++)
    row_statistics(in[1] + r * H, H, 1e-5, &in[3][2 * r], &in[3][2 * r + 1]);
}

static void add_rows_reference(const reference_call *c) {
  int64_t period = ((const hr_add_rows_args *)c->args)->period, H = hr_desc_columns(&c->in_desc[0]);
  for (int64_t i = 0, count = elements(&c->in_desc[0]); i < count; i++)
    c->out[0][i] = c->in[0][i] + c->in[1][i / H % period * H + i % H];
}

static void add_rows_dw_reference(const reference_call *c) {
  int64_t period = ((const hr_add_rows_dw_args *)c->args)->period, H = hr_desc_columns(&c->in_desc[0]);
  for (int64_t i = 0, count = elements(&c->out_desc[0]); i < count; i++)
    c->out[0][i] = c->in[1] ? c->in[1][i] : 0.0;
  for (int64_t i = 0, count = elements(&c->in_desc[0]); i < count; i++)
    c->out[0][i / H % period * H + i % H] += c->in[0][i];
}

static void rope_table_reference(const reference_call *c) {
  const hr_rope_table_args *a = c->args;
  int64_t half = a->head_dim / 2;
  for (int64_t i = 0; i < half; i++) {
    double f = pow(a->theta, -2.0 * (double)i / (double)a->head_dim), wavelength = 2.0 * 3.14159265358979323846 / f;
    double length = (double)a->original_length;
    if (a->scaled && wavelength > length / a->low) {
      f = f / a->factor;
    } else if (a->scaled && wavelength >= length / a->high) {
      double blend = (length / wavelength - a->low) / (a->high - a->low);
      f = (1.0 - blend) * f / a->factor + blend * f;
    }
    for (int64_t t = 0; t < a->length; t++) {
      c->out[0][t * half + i] = cos((double)t * f);
      c->out[0][(a->length + t) * half + i] = sin((double)t * f);
    }
  }
}

static void rope_reference(const reference_call *c) {
  const hr_rope_args *a = c->args;
  int64_t T = c->in_desc[0].dim[1], C = c->in_desc[0].dim[2], half = a->head_dim / 2;
  for (int64_t row = 0; row < c->in_desc[0].dim[0] * T; row++)
    for (int64_t head = 0; head < C; head += a->head_dim)
      for (int64_t i = 0; i < half; i++) {
        int64_t left = row * C + head + i, right = left + half;
        double cosine = c->in[1][row % T * half + i], sine = c->in[1][(T + row % T) * half + i];
        if (a->inverse) sine = -sine;
        if (a->heads && head >= a->heads * a->head_dim) cosine = 1.0, sine = 0.0;
        c->out[0][left] = c->in[0][left] * cosine - c->in[0][right] * sine;
        c->out[0][right] = c->in[0][right] * cosine + c->in[0][left] * sine;
      }
}

/* One head of one sequence: where its rows lie in q, y ([B, T, Hq * D]) and in k, v ([B, T, Hk * D]). */
typedef struct head_view {
  int64_t T, D, q_first, q_step, k_first, v_first, k_step, y_first, y_step, lse_first;
} head_view;

/* Without k, q is packed: its columns are q | k | v. y and dy are [B, T, heads * D] in both forms. */
static head_view head_of(const hr_attention_args *a, const hr_desc *q, const double *k, int64_t batch, int64_t head) {
  int64_t T = q->dim[1], D = a->head_dim, kv_head = head / (a->heads / a->kv_heads);
  int64_t columns = q->dim[2], kv_columns = k ? a->kv_heads * D : columns, y_columns = a->heads * D;
  int64_t before_k = k ? 0 : a->heads * D, before_v = k ? 0 : (a->heads + a->kv_heads) * D;
  return (head_view){.T = T,
                     .D = D,
                     .q_first = batch * T * columns + head * D,
                     .q_step = columns,
                     .k_first = batch * T * kv_columns + before_k + kv_head * D,
                     .v_first = batch * T * kv_columns + before_v + kv_head * D,
                     .k_step = kv_columns,
                     .y_first = batch * T * y_columns + head * D,
                     .y_step = y_columns,
                     .lse_first = (batch * a->heads + head) * T};
}

static double dot(const double *a, const double *b, int64_t n) {
  double sum = 0.0;
  for (int64_t i = 0; i < n; i++)
    sum += a[i] * b[i];
  return sum;
}

/* Positions [first, end) that position t of a sequence sees. `lengths` may be NULL. */
typedef struct seen_keys {
  int64_t first, end;
} seen_keys;
static seen_keys attention_sees(const hr_attention_args *a, const double *lengths, int64_t batch, int64_t T,
                                int64_t t) {
  int64_t there = lengths && lengths[batch] < (double)T ? (int64_t)lengths[batch] : T;
  seen_keys seen = {a->window > 0 && t >= a->window ? t - a->window + 1 : 0, a->bidirectional ? there : t + 1};
  return t < there ? seen : (seen_keys){0, 0};
}

static void attention_head(const hr_attention_args *a, head_view v, const double *lengths, int64_t batch,
                           const double *q, const double *k, const double *value, double *y, double *lse) {
  for (int64_t t = 0; t < v.T; t++) {
    const double *row = q + v.q_first + t * v.q_step;
    double *to = y + v.y_first + t * v.y_step, total = 0.0;
    seen_keys seen = attention_sees(a, lengths, batch, v.T, t);
    memset(to, 0, (size_t)v.D * sizeof *to);
    for (int64_t s = seen.first; s < seen.end; s++) {
      double weight = exp((double)a->scale * dot(row, k + v.k_first + s * v.k_step, v.D));
      total += weight;
      for (int64_t d = 0; d < v.D; d++)
        to[d] += weight * value[v.v_first + s * v.k_step + d];
    }
    for (int64_t d = 0; d < v.D; d++)
      to[d] /= total > 0.0 ? total : 1.0;
    lse[v.lse_first + t] = total > 0.0 ? log(total) : 0.0;
  }
}

static void attention_reference(const reference_call *c) {
  const hr_attention_args *a = c->args;
  const double *q = c->in[0], *k = c->in[1] ? c->in[1] : q, *value = c->in[1] ? c->in[2] : q;
  for (int64_t batch = 0; batch < c->in_desc[0].dim[0]; batch++)
    for (int64_t head = 0; head < a->heads; head++)
      attention_head(a, head_of(a, &c->in_desc[0], c->in[1], batch, head), c->in[3], batch, q, k, value, c->out[0],
                     c->out[1]);
}

/* dy, q, k, v, y, lse, lengths? -> dq, dk, dv */
static void attention_bwd_reference(const reference_call *c) {
  const hr_attention_args *a = c->args;
  const double *dy = c->in[0], *q = c->in[1], *y = c->in[4], *lse = c->in[5];
  const double *k = c->in[2] ? c->in[2] : q, *value = c->in[2] ? c->in[3] : q;
  double *dq = c->out[0], *dk = c->in[2] ? c->out[1] : dq, *dv = c->in[2] ? c->out[2] : dq;
  double scale = (double)a->scale;
  for (int j = 0; j < 3; j++)
    memset(c->out[j], 0, (size_t)elements(&c->out_desc[j]) * sizeof(double));
  for (int64_t batch = 0; batch < c->in_desc[0].dim[0]; batch++)
    for (int64_t head = 0; head < a->heads; head++) {
      head_view v = head_of(a, &c->in_desc[1], c->in[2], batch, head);
      for (int64_t t = 0; t < v.T; t++) {
        int64_t at = v.q_first + t * v.q_step, y_at = v.y_first + t * v.y_step;
        double pull = dot(dy + y_at, y + y_at, v.D);
        seen_keys seen = attention_sees(a, c->in[6], batch, v.T, t);
        for (int64_t s = seen.first; s < seen.end; s++) {
          int64_t from = v.k_first + s * v.k_step, v_from = v.v_first + s * v.k_step;
          double p = exp(scale * dot(q + at, k + from, v.D) - lse[v.lse_first + t]);
          double ds = p * (dot(dy + y_at, value + v_from, v.D) - pull) * scale;
          for (int64_t d = 0; d < v.D; d++) {
            dq[at + d] += ds * k[from + d];
            dk[from + d] += ds * q[at + d];
            dv[v_from + d] += p * dy[y_at + d];
          }
        }
      }
    }
}

/* y and log-sum-exp as the forward op leaves them. */
static void attention_bwd_fill(double *const *in, const hr_desc *desc, const void *args) {
  const hr_attention_args *a = args;
  const double *q = in[1], *k = in[2] ? in[2] : q, *value = in[2] ? in[3] : q;
  for (int64_t batch = 0; batch < desc[1].dim[0]; batch++)
    for (int64_t head = 0; head < a->heads; head++)
      attention_head(a, head_of(a, &desc[1], in[2], batch, head), in[6], batch, q, k, value, in[4], in[5]);
}

static double sigmoid(double x) {
  return 1.0 / (1.0 + exp(-x));
}

/* Packed, gate and up of element i of y (with `columns` of its own) lie in one row of twice as many. */
static int64_t packed_gate(int64_t i, int64_t columns) {
  return i / columns * 2 * columns + i % columns;
}

static void swiglu_reference(const reference_call *c) {
  int64_t I = hr_desc_columns(&c->out_desc[0]);
  for (int64_t i = 0, count = elements(&c->out_desc[0]); i < count; i++) {
    int64_t at = c->in[1] ? i : packed_gate(i, I);
    double g = c->in[0][at], u = c->in[1] ? c->in[1][i] : c->in[0][at + I];
    c->out[0][i] = g * sigmoid(g) * u;
  }
}

static void swiglu_bwd_reference(const reference_call *c) {
  int64_t I = hr_desc_columns(&c->in_desc[0]);
  for (int64_t i = 0, count = elements(&c->in_desc[0]); i < count; i++) {
    int64_t at = c->in[2] ? i : packed_gate(i, I);
    double dy = c->in[0][i], g = c->in[1][at], u = c->in[2] ? c->in[2][i] : c->in[1][at + I], s = sigmoid(g);
    c->out[0][at] = dy * u * (s + g * s * (1.0 - s));
    *(c->in[2] ? &c->out[1][i] : &c->out[0][at + I]) = dy * g * s;
  }
}

static double gelu_part(double x, bool by_tanh) {
  double u = sqrt(2.0 / 3.14159265358979323846) * (x + 0.044715 * x * x * x);
  return by_tanh ? (1.0 + tanh(u)) / 2.0 : erfc(-x / sqrt(2.0)) / 2.0;
}

static void gelu_reference(const reference_call *c) {
  bool by_tanh = ((const hr_gelu_args *)c->args)->tanh;
  for (int64_t i = 0, count = elements(&c->in_desc[0]); i < count; i++)
    c->out[0][i] = c->in[0][i] * gelu_part(c->in[0][i], by_tanh);
}

static void gelu_bwd_reference(const reference_call *c) {
  const double pi = 3.14159265358979323846;
  bool by_tanh = ((const hr_gelu_args *)c->args)->tanh;
  for (int64_t i = 0, count = elements(&c->in_desc[0]); i < count; i++) {
    double x = c->in[1][i], part = gelu_part(x, by_tanh), slope = exp(-x * x / 2.0) / sqrt(2.0 * pi);
    if (by_tanh) slope = 2.0 * part * (1.0 - part) * sqrt(2.0 / pi) * (1.0 + 3.0 * 0.044715 * x * x);
    c->out[0][i] = c->in[0][i] * (part + x * slope);
  }
}

static void slice_reference(const reference_call *c) {
  const hr_slice_args *a = c->args;
  int64_t row = elements(&c->in_desc[0]) / c->in_desc[0].dim[0];
  memcpy(c->out[0], c->in[0] + a->first * row, (size_t)(a->count * row) * sizeof(double));
}

static void join_reference(const reference_call *c) {
  const hr_join_args *a = c->args;
  int64_t row = elements(&c->in_desc[0]) / c->in_desc[0].dim[0];
  for (int64_t i = 0, count = elements(&c->out_desc[0]); i < count; i++)
    c->out[0][i] = c->in[1] ? c->in[1][i] : 0.0;
  for (int64_t i = 0, count = elements(&c->in_desc[0]); i < count; i++)
    c->out[0][a->first * row + i] += c->in[0][i];
}

/* Loss over x [rows, H], W [V, H] and bias [V] (NULL: none); dx, dw and db (NULL: not wanted) receive dloss times the
 * gradient, added. */
static double head_loss_sum(const reference_call *c, const double *bias, double dloss, double *dx, double *dw,
                            double *db) {
  const double *x = c->in[0], *w = c->in[1], *targets = c->in[2];
  int64_t rows = hr_desc_rows(&c->in_desc[0]), H = hr_desc_columns(&c->in_desc[0]), V = c->in_desc[1].dim[0];
  double weight = (double)c->control->loss_weight, loss = 0.0;
  double *p = malloc((size_t)V * sizeof *p);
  for (int64_t r = 0; r < rows; r++) {
    int64_t target = (int64_t)targets[r];
    double total = 0.0;
    if (target < 0) continue;
    for (int64_t v = 0; v < V; v++)
      total += p[v] = exp(dot(x + r * H, w + v * H, H) + (bias ? bias[v] : 0.0));
    loss += weight * (log(total) - log(p[target]));
    for (int64_t v = 0; v < V; v++) {
      double g = dloss * weight * (p[v] / total - (v == target ? 1.0 : 0.0));
      if (db) db[v] += g;
      for (int64_t h = 0; h < H; h++) {
        if (dx) dx[r * H + h] += g * w[v * H + h];
        if (dw) dw[v * H + h] += g * x[r * H + h];
      }
    }
  }
  free(p);
  return loss;
}

static void head_loss_reference(const reference_call *c) {
  c->out[0][0] = head_loss_sum(c, c->in[4], 0.0, NULL, NULL, NULL);
}

/* x, W, targets, control, dloss, dx_partial?, dw_partial?, bias?, db_partial? -> loss, dx, dW, db */
static void head_loss_bwd_reference(const reference_call *c) {
  static const int partial[] = {5, 6, 8};
  double *gradient[3] = {NULL, NULL, NULL};
  for (int j = 0; j < 3; j++) {
    int64_t count = elements(&c->out_desc[1 + j]);
    if (count == 0) continue;
    gradient[j] = c->out[1 + j];
    for (int64_t i = 0; i < count; i++)
      gradient[j][i] = c->in[partial[j]] ? c->in[partial[j]][i] : 0.0;
  }
  c->out[0][0] = head_loss_sum(c, c->in[7], c->in[4][0], gradient[0], gradient[1], gradient[2]);
}

/* Every fifth row is padding. */
static void head_loss_fill(double *const *in, const hr_desc *desc, const void *args) {
  (void)args;
  for (int64_t i = 2; i < elements(&desc[2]); i += 5)
    in[2][i] = -1.0;
}

static void mse_reference(const reference_call *c) {
  int64_t n = elements(&c->in_desc[0]);
  double sum = 0.0;
  for (int64_t i = 0; i < n; i++)
    sum += (c->in[0][i] - c->in[1][i]) * (c->in[0][i] - c->in[1][i]);
  c->out[0][0] = sum / (double)n;
}

static void mse_bwd_reference(const reference_call *c) {
  int64_t n = elements(&c->in_desc[0]);
  for (int64_t i = 0; i < n; i++)
    c->out[0][i] = 2.0 * (c->in[0][i] - c->in[1][i]) / (double)n * c->in[2][0];
}

static void grad_squares_reference(const reference_call *c) {
  for (int j = 0; j < c->n_in; j++)
    c->out[0][j] = dot(c->in[j], c->in[j], elements(&c->in_desc[j]));
}

static void grad_norm_reference(const reference_call *c) {
  double sum = 0.0;
  for (int j = 0; j < c->n_in; j++)
    for (int64_t i = 0; i < elements(&c->in_desc[j]); i++)
      sum += c->in[j][i];
  c->out[0][0] = sqrt(sum);
}

static void grad_norm_fill(double *const *in, const hr_desc *desc, const void *args) {
  (void)args;
  for (int j = 0; j < HR_OP_OPERANDS && in[j]; j++)
    for (int64_t i = 0; i < elements(&desc[j]); i++)
      in[j][i] = in[j][i] * in[j][i];
}

static void found_inf_reference(const reference_call *c) {
  hr_control control = *c->control;
  control.skip = (uint32_t)!isfinite(c->in[1][0]);
  for (size_t i = 0; i < sizeof control; i++)
    c->out[0][i] = (double)((const unsigned char *)&control)[i];
}

static double clipped_scale(const hr_control *control, float clip_norm, const double *norm) {
  double scale = 1.0 / (double)control->loss_scale;
  return clip_norm > 0.0f ? scale * fmin(1.0, (double)clip_norm / (norm[0] * scale + 1e-6)) : scale;
}

/* param, grad, m, v, control, norm? -> param, m, v, by the formula of the paper: corrected moments, decoupled decay. */
static void adamw_reference(const reference_call *c) {
  const hr_adamw_args *a = c->args;
  const hr_control *k = c->control;
  double scale = clipped_scale(k, a->clip_norm, c->in[5]);
  double lr = (double)k->learning_rate * (double)a->lr_scale;
  for (int64_t i = 0, count = elements(&c->in_desc[0]); i < count; i++) {
    double g = c->in[1][i] * scale;
    double m = (double)a->beta1 * c->in[2][i] + (1.0 - (double)a->beta1) * g;
    double v = (double)a->beta2 * c->in[3][i] + (1.0 - (double)a->beta2) * g * g;
    double m_hat = m / (double)k->bias_correction1, v_hat = v / (double)k->bias_correction2;
    double decayed = c->in[0][i] - lr * (double)a->weight_decay * c->in[0][i];
    c->out[0][i] = decayed - lr * m_hat / (sqrt(v_hat) + (double)a->eps);
    c->out[1][i] = m;
    c->out[2][i] = v;
  }
}

static void adamw_fill(double *const *in, const hr_desc *desc, const void *args) {
  (void)args;
  for (int64_t i = 0; i < elements(&desc[3]); i++)
    in[3][i] = in[3][i] * in[3][i];
  if (in[5]) in[5][0] = 3.0 + fabs(in[5][0]);
}

/* As op/adamw8bit.h has it, block by block in single precision: which code is nearest depends on the last bit. */
static void adamw8bit_reference(const reference_call *c) {
  const hr_adamw8bit_args *a = c->args;
  const hr_control *k = c->control;
  const float *m_code = hr__dynamic8_signed(), *v_code = hr__dynamic8_unsigned();
  float scale = 1.0f / k->loss_scale, lr = k->learning_rate * a->lr_scale, c2 = sqrtf(k->bias_correction2);
  if (a->clip_norm > 0.0f) {
    float clip = a->clip_norm / ((float)c->in[7][0] * scale + 1e-6f);
    if (clip < 1.0f) scale *= clip;
  }
  int64_t count = elements(&c->in_desc[0]);
  for (int64_t begin = 0; begin < count; begin += 256) {
    int64_t end = begin + 256 < count ? begin + 256 : count, block = begin / 256;
    float m[256], v[256], m_largest = 0.0f, v_largest = 0.0f;
    for (int64_t i = begin; i < end; i++) {
      float g = (float)c->in[1][i] * scale;
      float m_old = m_code[(int)c->in[2][i]] * (float)c->in[4][block];
      float v_old = v_code[(int)c->in[3][i]] * (float)c->in[5][block];
      m[i - begin] = (float)a->beta1 * m_old + (float)(1.0 - a->beta1) * g;
      v[i - begin] = (float)a->beta2 * v_old + (float)(1.0 - a->beta2) * g * g;
      m_largest = fmaxf(m_largest, fabsf(m[i - begin]));
      v_largest = fmaxf(v_largest, v[i - begin]);
    }
    for (int64_t i = begin; i < end; i++) {
      float mi = m[i - begin], vi = v[i - begin];
      float p = (float)c->in[0][i] - lr * c2 / k->bias_correction1 * mi / (sqrtf(vi) + c2 * a->eps);
      int code = hr__dynamic8_encode(m_code, mi / m_largest);
      if (!signbit(m_code[code]) != !signbit(mi)) code += mi > 0.0f ? 1 : -1;
      c->out[0][i] = (double)(p * (1.0f - lr * a->weight_decay));
      c->out[1][i] = code;
      c->out[2][i] = hr__dynamic8_encode(v_code, vi / v_largest);
    }
    c->out[3][block] = (double)m_largest;
    c->out[4][block] = (double)v_largest;
  }
}

static void adamw8bit_fill(double *const *in, const hr_desc *desc, const void *args) {
  (void)args;
  for (int64_t i = 0; i < elements(&desc[4]); i++) {
    in[4][i] = fabs(in[4][i]);
    in[5][i] = in[5][i] * in[5][i];
  }
  if (in[7]) in[7][0] = 3.0 + fabs(in[7][0]);
}

/* param, grad, [s,] control, norm? -> param [, s] */
static void sgd_reference_with(const reference_call *c, const double *s, const double *norm) {
  const hr_sgd_args *a = c->args;
  double scale = clipped_scale(c->control, a->clip_norm, norm);
  double lr = (double)c->control->learning_rate * (double)a->lr_scale, momentum = (double)a->momentum;
  for (int64_t i = 0, count = elements(&c->in_desc[0]); i < count; i++) {
    double g = c->in[1][i] * scale + (double)a->weight_decay * c->in[0][i], along = g;
    if (s) {
      c->out[1][i] = momentum * s[i] + g;
      along = a->nesterov ? g + momentum * c->out[1][i] : c->out[1][i];
    }
    c->out[0][i] = c->in[0][i] - lr * along;
  }
}

static void sgd_reference(const reference_call *c) {
  sgd_reference_with(c, NULL, c->in[3]);
}

static void sgd_momentum_reference(const reference_call *c) {
  sgd_reference_with(c, c->in[2], c->in[4]);
}

static void sgd_fill(double *const *in, const hr_desc *desc, const void *args) {
  (void)desc, (void)args;
  if (in[3]) in[3][0] = 3.0 + fabs(in[3][0]);
}

static void sgd_momentum_fill(double *const *in, const hr_desc *desc, const void *args) {
  (void)desc, (void)args;
  if (in[4]) in[4][0] = 3.0 + fabs(in[4][0]);
}

/* Bytes are bytes: the room on the host, where there is one, holds those of a u8 operand. */
static void transfer_reference(const reference_call *c) {
  for (int64_t i = 0; i < elements(&c->in_desc[0]); i++)
    c->out[0][i] = c->in[0][i];
  for (int64_t i = 0; i < elements(&c->out_desc[1]); i++)
    c->out[1][i] = c->in[0][i];
}

static void wait_reference(const reference_call *c) {
  for (int64_t i = 0; i < elements(&c->in_desc[0]); i++)
    c->out[0][i] = c->in[0][i];
}

static const reference references[] = {
    {.op = "loss_seed", .run = loss_seed_reference},
    {.op = "copy", .run = copy_reference, .differentiable = true},
    {.op = "add", .run = add_reference, .differentiable = true},
    {.op = "linear", .run = linear_reference, .differentiable = true},
    {.op = "linear_dx", .run = linear_dx_reference},
    {.op = "linear_dw", .run = linear_dw_reference},
    {.op = "linear_db", .run = linear_db_reference, .loose = 1u << 0},
    {.op = "lora_up", .run = lora_up_reference, .differentiable = true},
    {.op = "lora_up_bwd", .run = lora_up_bwd_reference},
    {.op = "dropout", .run = dropout_reference, .differentiable = true},
    {.op = "nf4_unpack", .run = nf4_unpack_reference},
    {.op = "embedding", .run = embedding_reference, .differentiable = true, .loose = 1u << 1},
    {.op = "embedding_dw", .run = embedding_dw_reference},
    {.op = "rmsnorm", .run = rmsnorm_reference, .differentiable = true},
    {.op = "rmsnorm_bwd", .run = rmsnorm_bwd_reference, .fill = rmsnorm_bwd_fill},
    {.op = "layernorm", .run = layernorm_reference, .differentiable = true},
    {.op = "layernorm_bwd", .run = layernorm_bwd_reference, .fill = layernorm_bwd_fill, .cancels = true},
    {.op = "add_rows", .run = add_rows_reference, .differentiable = true, .loose = 1u << 1},
    {.op = "add_rows_dw", .run = add_rows_dw_reference, .loose = 1u << 0},
    /* f32 frequencies times positions: the angle is off by some roundings of the largest position */
    {.op = "rope_table", .run = rope_table_reference, .tolerance = 1e-4},
    {.op = "rope", .run = rope_reference, .differentiable = true, .constants = 1u << 1},
    {.op = "attention", .run = attention_reference, .differentiable = true},
    {.op = "attention_bwd", .run = attention_bwd_reference, .fill = attention_bwd_fill, .cancels = true},
    {.op = "swiglu", .run = swiglu_reference, .differentiable = true},
    {.op = "swiglu_bwd", .run = swiglu_bwd_reference},
    {.op = "gelu", .run = gelu_reference, .differentiable = true},
    {.op = "gelu_bwd", .run = gelu_bwd_reference},
    {.op = "slice", .run = slice_reference, .differentiable = true, .loose = 1u << 0},
    {.op = "join", .run = join_reference, .differentiable = true, .loose = 1u << 0},
    {.op = "head_loss", .run = head_loss_reference, .fill = head_loss_fill, .differentiable = true, .loose = 1u << 1},
    {.op = "head_loss_bwd", .run = head_loss_bwd_reference, .fill = head_loss_fill, .loose = 1u << 1},
    {.op = "mse", .run = mse_reference, .differentiable = true},
    {.op = "mse_bwd", .run = mse_bwd_reference},
    {.op = "grad_squares", .run = grad_squares_reference, .loose = 0xff},
    {.op = "grad_norm", .run = grad_norm_reference, .fill = grad_norm_fill, .loose = 0xff},
    {.op = "found_inf", .run = found_inf_reference},
    {.op = "adamw", .run = adamw_reference, .fill = adamw_fill},
    {.op = "adamw8bit", .run = adamw8bit_reference, .fill = adamw8bit_fill},
    {.op = "sgd", .run = sgd_reference, .fill = sgd_fill},
    {.op = "sgd_momentum", .run = sgd_momentum_reference, .fill = sgd_momentum_fill},
    {.op = "fetch", .run = transfer_reference, .any_type = 1},
    {.op = "store", .run = transfer_reference, .any_type = 1},
    {.op = "wait", .run = wait_reference, .any_type = 7, .loose = 6},
};

const reference *reference_find(const char *op) {
  for (size_t i = 0; i < sizeof references / sizeof *references; i++)
    if (strcmp(references[i].op, op) == 0) return &references[i];
  return NULL;
}
