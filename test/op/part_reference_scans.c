/* References of the state-space scan and of the convolution before it, position by position; and of both as they go on.
 */
#include "part_reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "op/carry.h"

/* ---- ssd ---- */

typedef struct scan {
  hr_ssd_sizes s;
  const hr_ssd_args *args;
  const double *mixed, *steps, *a_log, *bias, *d, *starts;
} scan;

static scan scan_of(const double *const *in, const hr_desc *desc, const void *args) {
  return (scan){hr__ssd_sizes(&desc[HR_SSD_MIXED], &desc[HR_SSD_STEPS], args),
                args,
                in[HR_SSD_MIXED],
                in[HR_SSD_STEPS],
                in[HR_SSD_A_LOG],
                in[HR_SSD_BIAS],
                in[HR_SSD_D],
                in[HR_SSD_STARTS]};
}

static double step_raw(const scan *k, int64_t row, int64_t head) {
  return k->steps[row * k->s.steps + k->args->step_first + head] + k->bias[head];
}

static double step_size(const scan *k, int64_t row, int64_t head) {
  double raw = step_raw(k, row, head), step = fmax(raw, 0) + log1p(exp(-fabs(raw)));
  return fmin(fmax(step, (double)k->args->step_least), (double)k->args->step_most);
}

static double step_slope(const scan *k, int64_t row, int64_t head) {
  double raw = step_raw(k, row, head), step = fmax(raw, 0) + log1p(exp(-fabs(raw)));
  bool held = step < (double)k->args->step_least || step > (double)k->args->step_most;
  return held ? 0 : 1 / (1 + exp(-raw));
}

/* What is left of the state before a row: nothing where a document begins. */
static double decay_of(const scan *k, int64_t row, int64_t head) {
  if (k->starts && k->starts[row] == (double)(row % k->s.length)) return 0;
  return exp(-exp(k->a_log[head]) * step_size(k, row, head));
}

/* Rows of x, B and C of a head. */
static const double *x_of(const scan *k, int64_t row, int64_t head) {
  return k->mixed + row * k->s.mixed + head * k->s.dim;
}
static const double *b_of(const scan *k, int64_t row, int64_t head) {
  return k->mixed + row * k->s.mixed + k->s.b_first + head / (k->s.heads / k->s.groups) * k->s.state;
}
static const double *c_of(const scan *k, int64_t row, int64_t head) {
  return b_of(k, row, head) + k->s.groups * k->s.state;
}

/* h = exp(d A) h + d B x^T at a row. */
static void advance(const scan *k, int64_t row, int64_t head, double *h) {
  double d = step_size(k, row, head), decay = decay_of(k, row, head);
  const double *x = x_of(k, row, head), *b = b_of(k, row, head);
  for (int64_t n = 0; n < k->s.state; n++)
    for (int64_t p = 0; p < k->s.dim; p++)
      h[n * k->s.dim + p] = decay * h[n * k->s.dim + p] + d * b[n] * x[p];
}

/* y or states, or both. */
static void scan_run(const scan *k, double *y, double *states) {
  const hr_ssd_sizes *s = &k->s;
  double *h = malloc((size_t)s->state_floats * sizeof *h);
  for (int64_t i = 0; i < s->sequences * s->heads; i++) {
    int64_t sequence = i / s->heads, head = i % s->heads;
    for (int64_t e = 0; e < s->state_floats; e++)
      h[e] = 0;
    for (int64_t t = 0; t < s->length; t++) {
      int64_t row = sequence * s->length + t;
      if (t % s->chunk == 0 && states)
        memcpy(states + (sequence * s->chunks + t / s->chunk) * s->chunk_floats + head * s->state_floats, h,
               (size_t)s->state_floats * sizeof *h);
      advance(k, row, head, h);
      for (int64_t p = 0; p < s->dim && y; p++) {
        double sum = k->d[head] * x_of(k, row, head)[p];
        for (int64_t n = 0; n < s->state; n++)
          sum += c_of(k, row, head)[n] * h[n * s->dim + p];
        y[row * s->y + head * s->dim + p] = sum;
      }
    }
  }
  free(h);
}

static void ssd_reference(const reference_call *c) {
  scan k = scan_of(c->in, c->in_desc, c->args);
  scan_run(&k, c->out[0], c->out[1]);
}

/* States that belong to their inputs. */
static void ssd_bwd_fill(double *const *in, const hr_desc *desc, const void *args) {
  scan k = scan_of((const double *const *)in + HR_SSD_BWD_MIXED, desc + HR_SSD_BWD_MIXED, args);
  scan_run(&k, NULL, in[HR_SSD_BWD_STATES]);
}

/* One head of one sequence: all states, then back from the last position with the gradient g of the state. */
static void head_back(const reference_call *c, const scan *k, int64_t sequence, int64_t head, double *states) {
  const hr_ssd_sizes *s = &k->s;
  double *g = calloc((size_t)s->state_floats, sizeof *g), *sums = c->out[2], A = -exp(k->a_log[head]);
  for (int64_t e = 0; e < s->state_floats; e++)
    states[e] = 0;
  for (int64_t t = 0; t < s->length; t++) {
    double *h = states + (t + 1) * s->state_floats;
    memcpy(h, h - s->state_floats, (size_t)s->state_floats * sizeof *h);
    advance(k, sequence * s->length + t, head, h);
  }
  for (int64_t t = s->length - 1; t >= 0; t--) {
    int64_t row = sequence * s->length + t;
    const double *before = states + t * s->state_floats, *h = before + s->state_floats;
    const double *x = x_of(k, row, head), *b = b_of(k, row, head), *cc = c_of(k, row, head);
    const double *dy = c->in[HR_SSD_DY] + row * s->y + head * s->dim;
    double *dx = c->out[0] + (x - k->mixed), *db = c->out[0] + (b - k->mixed), *dc = c->out[0] + (cc - k->mixed);
    double d = step_size(k, row, head), decay = decay_of(k, row, head), dd = 0, d_decay = 0;
    for (int64_t n = 0; n < s->state; n++)
      for (int64_t p = 0; p < s->dim; p++) {
        int64_t e = n * s->dim + p;
        g[e] += cc[n] * dy[p];
        dc[n] += h[e] * dy[p];
        dx[p] += d * b[n] * g[e];
        db[n] += d * x[p] * g[e];
        dd += b[n] * x[p] * g[e];
        d_decay += before[e] * g[e];
      }
    for (int64_t p = 0; p < s->dim; p++) {
      dx[p] += k->d[head] * dy[p];
      sums[2 * s->heads + head] += x[p] * dy[p];
    }
    sums[head] += d_decay * decay * d * A;
    double step = (dd + d_decay * decay * A) * step_slope(k, row, head);
    sums[s->heads + head] += step;
    c->out[1][row * s->steps + k->args->step_first + head] += step;
    for (int64_t e = 0; e < s->state_floats; e++)
      g[e] *= decay;
  }
  free(g);
}

static void ssd_bwd_reference(const reference_call *c) {
  scan k = scan_of(c->in + HR_SSD_BWD_MIXED, c->in_desc + HR_SSD_BWD_MIXED, c->args);
  double *states = malloc((size_t)((k.s.length + 1) * k.s.state_floats) * sizeof *states);
  memset(c->out[0], 0, (size_t)hr_desc_count(&c->out_desc[0]) * sizeof(double));
  memset(c->out[2], 0, (size_t)hr_desc_count(&c->out_desc[2]) * sizeof(double));
  for (int64_t i = 0; i < hr_desc_count(&c->out_desc[1]); i++)
    c->out[1][i] = c->in[HR_SSD_BWD_PARTIAL] ? c->in[HR_SSD_BWD_PARTIAL][i] : 0;
  for (int64_t i = 0; i < k.s.sequences * k.s.heads; i++)
    head_back(c, &k, i / k.s.heads, i % k.s.heads, states);
  free(states);
}

/* ---- causal_conv ---- */

/* Positions before a row that it sees. */
static int64_t seen_before(const hr_causal_sizes *s, const double *starts, int64_t row) {
  return row % s->length - (starts ? (int64_t)starts[row] : 0);
}

/* What SiLU is given. */
static double before_silu(const hr_causal_sizes *s, const double *x, const double *w, const double *bias,
                          const double *starts, int64_t row, int64_t c) {
  double sum = bias ? bias[c] : 0;
  for (int64_t j = 0; j < s->kernel; j++)
    if (s->kernel - 1 - j <= seen_before(s, starts, row))
      sum += w[c * s->kernel + j] * x[(row - (s->kernel - 1) + j) * s->columns + s->first + c];
  return sum;
}

static void causal_conv_reference(const reference_call *c) {
  hr_causal_sizes s = hr__causal_sizes(&c->in_desc[HR_CAUSAL_X], &c->in_desc[HR_CAUSAL_W], c->args);
  for (int64_t row = 0; row < s.sequences * s.length; row++)
    for (int64_t i = 0; i < s.channels; i++) {
      double u = before_silu(&s, c->in[0], c->in[1], c->in[2], c->in[HR_CAUSAL_STARTS], row, i);
      c->out[0][row * s.channels + i] = u / (1 + exp(-u));
    }
}

static void causal_conv_bwd_reference(const reference_call *c) {
  hr_causal_sizes s = hr__causal_sizes(&c->in_desc[HR_CAUSAL_BWD_X], &c->in_desc[HR_CAUSAL_BWD_W], c->args);
  const double *x = c->in[HR_CAUSAL_BWD_X], *w = c->in[HR_CAUSAL_BWD_W], *partial = c->in[HR_CAUSAL_BWD_PARTIAL],
               *starts = c->in[HR_CAUSAL_BWD_STARTS];
  for (int j = 1; j <= 2; j++)
    memset(c->out[j], 0, (size_t)hr_desc_count(&c->out_desc[j]) * sizeof(double));
  for (int64_t i = 0; i < hr_desc_count(&c->out_desc[0]); i++)
    c->out[0][i] = partial ? partial[i] : 0;
  for (int64_t row = 0; row < s.sequences * s.length; row++)
    for (int64_t i = 0; i < s.channels; i++) {
      double u = before_silu(&s, x, w, c->in[HR_CAUSAL_BWD_BIAS], starts, row, i), sigmoid = 1 / (1 + exp(-u));
      double du = c->in[HR_CAUSAL_DY][row * s.channels + i] * sigmoid * (1 + u * (1 - sigmoid));
      c->out[2][i] += du;
      for (int64_t j = 0; j < s.kernel; j++) {
        if (s.kernel - 1 - j > seen_before(&s, starts, row)) continue;
        int64_t at = (row - (s.kernel - 1) + j) * s.columns + s.first + i;
        c->out[0][at] += w[i * s.kernel + j] * du;
        c->out[1][i * s.kernel + j] += x[at] * du;
      }
    }
}

/* ---- what goes on where it was left ---- */

/* x, w, bias?, tail, positions, counts -> y, tail */
static void conv_carry_reference(const reference_call *c) {
  hr_causal_sizes s = hr__causal_sizes(&c->in_desc[HR_CONV_CARRY_X], &c->in_desc[HR_CONV_CARRY_W], c->args);
  int64_t k = s.kernel;
  const double *bias = c->in[HR_CONV_CARRY_BIAS];
  double *line = malloc((size_t)(k - 1 + s.length) * sizeof *line); /* the tail, then the call's rows */
  for (int64_t i = 0; i < s.sequences * s.channels; i++) {
    int64_t sample = i / s.channels, channel = i % s.channels, tail = sample * (k - 1) * s.channels + channel;
    int64_t rows = (int64_t)fmin(c->in[HR_CONV_CARRY_COUNTS][sample], (double)s.length);
    bool begins = c->in[HR_CONV_CARRY_POSITIONS][sample] == 0;
    for (int64_t t = 0; t < k - 1; t++)
      line[t] = begins && rows > 0 ? 0 : c->in[HR_CONV_CARRY_TAIL][tail + t * s.channels];
    for (int64_t t = 0; t < s.length; t++) {
      int64_t row = sample * s.length + t;
      double sum = bias ? bias[channel] : 0;
      line[k - 1 + t] = c->in[HR_CONV_CARRY_X][row * s.columns + s.first + channel];
      for (int64_t j = 0; j < k; j++)
        sum += c->in[HR_CONV_CARRY_W][channel * k + j] * line[t + j];
      c->out[0][row * s.channels + channel] = t < rows ? sum / (1 + exp(-sum)) : 0;
    }
    for (int64_t t = 0; t < k - 1; t++)
      c->out[1][tail + t * s.channels] = line[rows + t];
  }
  free(line);
}

/* mixed, steps, A_log, bias, D, state, positions, counts -> y, state */
static void ssd_carry_reference(const reference_call *c) {
  scan k = scan_of(c->in, c->in_desc, c->args);
  k.starts = NULL; /* the state stands in their place */
  const hr_ssd_sizes *s = &k.s;
  for (int64_t i = 0; i < s->sequences * s->heads; i++) {
    int64_t sample = i / s->heads, head = i % s->heads;
    int64_t rows = (int64_t)fmin(c->in[HR_SSD_CARRY_COUNTS][sample], (double)s->length);
    bool begins = c->in[HR_SSD_CARRY_POSITIONS][sample] == 0;
    double *h = c->out[1] + i * s->state_floats;
    for (int64_t e = 0; e < s->state_floats; e++)
      h[e] = begins && rows > 0 ? 0 : c->in[HR_SSD_CARRY_STATE][i * s->state_floats + e];
    for (int64_t t = 0; t < s->length; t++) {
      int64_t row = sample * s->length + t;
      if (t < rows) advance(&k, row, head, h);
      for (int64_t p = 0; p < s->dim; p++) {
        double sum = k.d[head] * x_of(&k, row, head)[p];
        for (int64_t n = 0; n < s->state; n++)
          sum += c_of(&k, row, head)[n] * h[n * s->dim + p];
        c->out[0][row * s->y + head * s->dim + p] = t < rows ? sum : 0;
      }
    }
  }
}

static const uint32_t parameters = 1u << HR_SSD_A_LOG | 1u << HR_SSD_BIAS | 1u << HR_SSD_D;
static const reference ops[] = {
    {.op = "ssd", .run = ssd_reference, .differentiable = true, .any_type = parameters, .loose = 1u << HR_SSD_STEPS},
    {.op = "ssd_bwd", .run = ssd_bwd_reference, .fill = ssd_bwd_fill, .any_type = parameters << HR_SSD_BWD_MIXED},
    {.op = "causal_conv",
     .run = causal_conv_reference,
     .differentiable = true,
     .any_type = 1u << HR_CAUSAL_W | 1u << HR_CAUSAL_BIAS,
     .loose = 1u << HR_CAUSAL_X | 1u << HR_CAUSAL_W}, /* kernels of any length */
    {.op = "causal_conv_bwd",
     .run = causal_conv_bwd_reference,
     .any_type = 1u << HR_CAUSAL_BWD_W | 1u << HR_CAUSAL_BWD_BIAS},
    {.op = "conv_carry",
     .run = conv_carry_reference,
     .any_type = 1u << HR_CONV_CARRY_W | 1u << HR_CONV_CARRY_BIAS,
     .loose = 1u << HR_CONV_CARRY_X},
    {.op = "ssd_carry", .run = ssd_carry_reference, .any_type = parameters, .loose = 1u << HR_SSD_STEPS},
};
const reference_family references_of_scans = {ops, sizeof ops / sizeof *ops};
