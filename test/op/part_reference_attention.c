/* References of attention. */
#include "part_reference.h"

#include <math.h>
#include <string.h>

#include "op/attention.h"
#include "op/attention_drop.h"

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

/* Lengths [B] or starts [B, T], or nothing. */
typedef struct bounds {
  const double *values;
  bool starts;
} bounds;

static bounds bounds_of(const reference_call *c, int operand) {
  return (bounds){c->in[operand], c->in_desc[operand].rank == 2};
}

/* Positions [first, end) that position t of a sequence sees. */
typedef struct seen_keys {
  int64_t first, end;
} seen_keys;

static seen_keys attention_sees(const hr_attention_args *a, bounds limits, int64_t batch, int64_t T, int64_t t) {
  const double *lengths = limits.starts ? NULL : limits.values;
  int64_t there = lengths && lengths[batch] < (double)T ? (int64_t)lengths[batch] : T;
  seen_keys seen = {a->window > 0 && t >= a->window ? t - a->window + 1 : 0, a->bidirectional ? there : t + 1};
  if (limits.starts && limits.values[batch * T + t] > (double)seen.first)
    seen.first = (int64_t)limits.values[batch * T + t];
  return t < there ? seen : (seen_keys){0, 0};
}

/* The mask of one head of one sequence; `control` holds the bytes of the control block, one in each double. */
typedef struct head_mask {
  uint64_t key, head;
  uint32_t limit;
} head_mask;

static head_mask mask_of(const hr_attention_args *a, const double *control, int64_t batch, int64_t head) {
  hr_control k;
  if (a->dropout <= 0.0f) return (head_mask){0};
  for (size_t i = 0; i < sizeof k; i++)
    ((unsigned char *)&k)[i] = (unsigned char)control[i];
  return (head_mask){.key = hr__dropout_key(k.seed, CASE_STREAM, k.step, a->use),
                     .head = hr__drop_head(k.sample + (uint64_t)(a->first + batch), a->heads, head),
                     .limit = hr__drop_limit(a->dropout)};
}

/* What the probability of a key is multiplied by. */
static double mask_at(const head_mask *mask, int64_t query, int64_t key) {
  if (mask->limit == 0) return 1.0;
  bool kept = hr__drop_keeps(mask->key, mask->head, query, key, mask->limit);
  return kept ? 256.0 / (256.0 - (double)mask->limit) : 0.0;
}

static void attention_head(const hr_attention_args *a, head_view v, bounds limits, int64_t batch, head_mask mask,
                           const double *q, const double *k, const double *value, double *y, double *lse) {
  for (int64_t t = 0; t < v.T; t++) {
    const double *row = q + v.q_first + t * v.q_step;
    double *to = y + v.y_first + t * v.y_step, total = 0.0;
    seen_keys seen = attention_sees(a, limits, batch, v.T, t);
    memset(to, 0, (size_t)v.D * sizeof *to);
    for (int64_t s = seen.first; s < seen.end; s++) {
      double weight = exp((double)a->scale * reference_dot(row, k + v.k_first + s * v.k_step, v.D));
      total += weight;
      for (int64_t d = 0; d < v.D; d++)
        to[d] += weight * mask_at(&mask, t, s) * value[v.v_first + s * v.k_step + d];
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
      attention_head(a, head_of(a, &c->in_desc[0], c->in[1], batch, head), bounds_of(c, 3), batch,
                     mask_of(a, c->in[4], batch, head), q, k, value, c->out[0], c->out[1]);
}

/* dy, q, k, v, y, lse, bounds?, control? -> dq, dk, dv */
static void attention_bwd_reference(const reference_call *c) {
  const hr_attention_args *a = c->args;
  const double *dy = c->in[0], *q = c->in[1], *y = c->in[4], *lse = c->in[5];
  const double *k = c->in[2] ? c->in[2] : q, *value = c->in[2] ? c->in[3] : q;
  double *dq = c->out[0], *dk = c->in[2] ? c->out[1] : dq, *dv = c->in[2] ? c->out[2] : dq;
  double scale = (double)a->scale;
  for (int j = 0; j < 3; j++)
    memset(c->out[j], 0, (size_t)hr_desc_count(&c->out_desc[j]) * sizeof(double));
  for (int64_t batch = 0; batch < c->in_desc[0].dim[0]; batch++)
    for (int64_t head = 0; head < a->heads; head++) {
      head_view v = head_of(a, &c->in_desc[1], c->in[2], batch, head);
      head_mask mask = mask_of(a, c->in[7], batch, head);
      for (int64_t t = 0; t < v.T; t++) {
        int64_t at = v.q_first + t * v.q_step, y_at = v.y_first + t * v.y_step;
        double pull = reference_dot(dy + y_at, y + y_at, v.D);
        seen_keys seen = attention_sees(a, bounds_of(c, 6), batch, v.T, t);
        for (int64_t s = seen.first; s < seen.end; s++) {
          int64_t from = v.k_first + s * v.k_step, v_from = v.v_first + s * v.k_step;
          double p = exp(scale * reference_dot(q + at, k + from, v.D) - lse[v.lse_first + t]);
          double kept = mask_at(&mask, t, s);
          double ds = p * (kept * reference_dot(dy + y_at, value + v_from, v.D) - pull) * scale;
          for (int64_t d = 0; d < v.D; d++) {
            dq[at + d] += ds * k[from + d];
            dk[from + d] += ds * q[at + d];
            dv[v_from + d] += p * kept * dy[y_at + d];
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
      attention_head(a, head_of(a, &desc[1], in[2], batch, head), (bounds){in[6], desc[6].rank == 2}, batch,
                     mask_of(a, in[7], batch, head), q, k, value, in[4], in[5]);
}

static const reference ops[] = {
    {.op = "attention", .run = attention_reference, .differentiable = true},
    {.op = "attention_bwd", .run = attention_bwd_reference, .fill = attention_bwd_fill, .cancels = true},
};
const reference_family references_of_attention = {ops, sizeof ops / sizeof *ops};
