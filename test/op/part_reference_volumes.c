/* References of what goes over planes and volumes: norms over groups of channels, linear interpolation. */
#include <math.h>

#include "op/group_norm.h"
#include "op/resize.h"
#include "part_reference.h"

typedef struct groups {
  int64_t rows, each, places, channels; /* rows of `each` elements; places of a channel */
} groups;

static groups groups_of(const hr_desc *x, int64_t count) {
  groups g = {.rows = x->dim[0] * count, .channels = x->dim[1]};
  g.each = hr_desc_count(x) / g.rows;
  g.places = hr_desc_count(x) / x->dim[0] / x->dim[1];
  return g;
}

static void row_statistics(const double *x, int64_t count, double eps, double *mean, double *rstd) {
  double sum = 0.0, squares = 0.0;
  for (int64_t i = 0; i < count; i++)
    sum += x[i];
  *mean = sum / (double)count;
  for (int64_t i = 0; i < count; i++)
    squares += (x[i] - *mean) * (x[i] - *mean);
  *rstd = 1.0 / sqrt(squares / (double)count + eps);
}

static void group_norm_reference(const reference_call *c) {
  const hr_group_norm_args *args = c->args;
  groups g = groups_of(&c->in_desc[0], args->groups);
  for (int64_t row = 0; row < g.rows; row++) {
    double *statistics = c->out[1] + 2 * row;
    row_statistics(c->in[0] + row * g.each, g.each, (double)args->eps, &statistics[0], &statistics[1]);
    if (c->in[3]) {
      statistics[0] = c->in[3][2 * row];
      statistics[1] = c->in[3][2 * row + 1];
    }
    for (int64_t i = row * g.each; i < (row + 1) * g.each; i++) {
      int64_t channel = i / g.places % g.channels;
      double z = (c->in[0][i] - statistics[0]) * statistics[1] * c->in[1][channel] + c->in[2][channel];
      c->out[0][i] = args->gelu ? z * erfc(-z / sqrt(2.0)) / 2.0 : z;
    }
  }
}

/* What is divided by is above 0. */
static void group_norm_fill(double *const *in, const hr_desc *desc, const void *args) {
  (void)args;
  for (int64_t i = 1; in[3] && i < hr_desc_count(&desc[3]); i += 2)
    in[3][i] = fabs(in[3][i]) + 0.25;
}

static double gelu_slope(double z) {
  return erfc(-z / sqrt(2.0)) / 2.0 + z * exp(-z * z / 2.0) / sqrt(2.0 * 3.14159265358979323846);
}

/* dy, x, w, b, statistics, dx_partial?, dw_partial?, db_partial? -> dx, dw, db, dstatistics */
static void group_norm_bwd_reference(const reference_call *c) {
  const hr_group_norm_bwd_args *args = c->args;
  groups g = groups_of(&c->in_desc[0], args->norm.groups);
  for (int64_t channel = 0; channel < g.channels; channel++) {
    if (args->want_dw) c->out[1][channel] = c->in[6] ? c->in[6][channel] : 0.0;
    if (args->want_db) c->out[2][channel] = c->in[7] ? c->in[7][channel] : 0.0;
  }
  for (int64_t row = 0; row < g.rows; row++) {
    double mean = c->in[4][2 * row], rstd = c->in[4][2 * row + 1], g_mean = 0.0, gn_mean = 0.0;
    for (int pass = 0; pass < 2; pass++)
      for (int64_t i = row * g.each; i < (row + 1) * g.each; i++) {
        int64_t channel = i / g.places % g.channels;
        double n = (c->in[1][i] - mean) * rstd, w = c->in[2][channel], dz = c->in[0][i];
        if (args->norm.gelu) dz *= gelu_slope(n * w + c->in[3][channel]);
        if (pass == 0) {
          g_mean += dz * w / (double)g.each;
          gn_mean += dz * w * n / (double)g.each;
          if (args->want_dw) c->out[1][channel] += dz * n;
          if (args->want_db) c->out[2][channel] += dz;
        } else if (args->given) {
          if (args->want_dx) c->out[0][i] = (c->in[5] ? c->in[5][i] : 0.0) + rstd * dz * w;
        } else if (args->want_dx) {
          c->out[0][i] = (c->in[5] ? c->in[5][i] : 0.0) + rstd * (dz * w - g_mean - n * gn_mean);
        }
      }
    if (!args->given) continue;
    c->out[3][2 * row] = -rstd * g_mean * (double)g.each;
    c->out[3][2 * row + 1] = gn_mean * (double)g.each / rstd;
  }
}

/* Statistics as the forward op leaves them for this x. */
static void group_norm_bwd_fill(double *const *in, const hr_desc *desc, const void *args) {
  const hr_group_norm_bwd_args *a = args;
  groups g = groups_of(&desc[1], a->norm.groups);
  for (int64_t row = 0; row < g.rows; row++)
    row_statistics(in[1] + row * g.each, g.each, (double)a->norm.eps, &in[4][2 * row], &in[4][2 * row + 1]);
}

/* x, before? -> statistics of both together, and of x */
static void group_statistics_reference(const reference_call *c) {
  const hr_group_statistics_args *args = c->args;
  groups g = groups_of(&c->in_desc[0], args->groups);
  double eps = (double)args->eps, n = (double)g.each, m = (double)args->before;
  for (int64_t row = 0; row < g.rows; row++) {
    double *all = c->out[0] + 2 * row, *own = c->out[1] + 2 * row;
    row_statistics(c->in[0] + row * g.each, g.each, eps, &own[0], &own[1]);
    all[0] = own[0];
    all[1] = own[1];
    if (!c->in[1]) continue;
    double mean = c->in[1][2 * row], variance = 1.0 / pow(c->in[1][2 * row + 1], 2.0) - eps;
    variance = (n * (1.0 / own[1] / own[1] - eps) + m * variance) / (n + m) +
               (own[0] - mean) * (own[0] - mean) * n * m / (n + m) / (n + m);
    all[0] = (n * own[0] + m * mean) / (n + m);
    all[1] = 1.0 / sqrt(variance + eps);
  }
}

static void group_statistics_fill(double *const *in, const hr_desc *desc, const void *args) {
  (void)args;
  for (int64_t i = 1; in[1] && i < hr_desc_count(&desc[1]); i += 2)
    in[1][i] = fabs(in[1][i]) + 0.25;
}

/* dstatistics, x, statistics, own, before?, dx_partial? -> dx, dbefore */
static void group_statistics_bwd_reference(const reference_call *c) {
  const hr_group_statistics_args *args = c->args;
  groups g = groups_of(&c->in_desc[1], args->groups);
  double n = (double)g.each, m = (double)args->before;
  for (int64_t row = 0; row < g.rows; row++) {
    double to_mean = c->in[0][2 * row], to_variance = -0.5 * pow(c->in[2][2 * row + 1], 3.0) * c->in[0][2 * row + 1];
    double own = c->in[3][2 * row], apart = c->in[4] ? own - c->in[4][2 * row] : 0.0;
    double crossed = to_variance * 2.0 * apart * n * m / (n + m) / (n + m);
    for (int64_t i = row * g.each; i < (row + 1) * g.each; i++)
      c->out[0][i] = (c->in[5] ? c->in[5][i] : 0.0) + (to_mean * n / (n + m) + crossed) / n +
                     to_variance * 2.0 * (c->in[1][i] - own) / (n + m);
    if (!c->in[4]) continue;
    c->out[1][2 * row] = to_mean * m / (n + m) - crossed;
    c->out[1][2 * row + 1] = to_variance * m / (n + m) * -2.0 / pow(c->in[4][2 * row + 1], 3.0);
  }
}

static void group_statistics_bwd_fill(double *const *in, const hr_desc *desc, const void *args) {
  (void)args;
  for (int64_t i = 1; i < hr_desc_count(&desc[2]); i += 2) {
    in[2][i] = fabs(in[2][i]) + 0.25;
    if (in[4]) in[4][i] = fabs(in[4][i]) + 0.25;
  }
}

/* Calls with every pair of an element of `small` and one of `large` that meet, and the share: an outer product of what
 * each axis has. */
typedef struct resizing {
  const hr_desc *from, *to;
  const hr_resize_args *args;
  const double *x, *dy; /* one of them */
  double *out;
} resizing;

/* `part`: of which larger ones x and y are rows. */
static double share(int64_t i, int64_t p, int64_t from, int64_t to, const hr_resize_part *part) {
  if (part->to != 0) {
    i += part->to_first;
    p += part->from_first;
    from = part->from;
    to = part->to;
  }
  double at = ((double)i + 0.5) * (double)from / (double)to - 0.5;
  at = fmin(fmax(at, 0.0), (double)(from - 1));
  return fmax(0.0, 1.0 - fabs(at - (double)p));
}

static void all_meet(const resizing *r) {
  int64_t planes = r->from->dim[0] * r->from->dim[1], xs = hr_desc_count(r->from) / planes;
  int64_t ys = hr_desc_count(r->to) / planes;
  for (int64_t y = 0; y < ys; y++)
    for (int64_t x = 0; x < xs; x++) {
      double product = 1.0;
      int64_t i = y, p = x;
      for (int d = r->from->rank - 1; d >= 2; i /= r->to->dim[d], p /= r->from->dim[d], d--)
        product *= share(i % r->to->dim[d], p % r->from->dim[d], r->from->dim[d], r->to->dim[d], &r->args->part[d - 2]);
      if (product == 0.0) continue;
      for (int64_t plane = 0; plane < planes; plane++)
        if (r->x)
          r->out[plane * ys + y] += product * r->x[plane * xs + x];
        else
          r->out[plane * xs + x] += product * r->dy[plane * ys + y];
    }
}

static void resize_reference(const reference_call *c) {
  for (int64_t i = 0, count = hr_desc_count(&c->out_desc[0]); i < count; i++)
    c->out[0][i] = 0.0;
  all_meet(&(resizing){&c->in_desc[0], &c->out_desc[0], c->args, c->in[0], NULL, c->out[0]});
}

static void resize_bwd_reference(const reference_call *c) {
  for (int64_t i = 0, count = hr_desc_count(&c->out_desc[0]); i < count; i++)
    c->out[0][i] = c->in[1] ? c->in[1][i] : 0.0;
  all_meet(&(resizing){&c->out_desc[0], &c->in_desc[0], c->args, NULL, c->in[0], c->out[0]});
}

static const reference ops[] = {
    {.op = "group_norm", .run = group_norm_reference, .fill = group_norm_fill, .differentiable = true},
    {.op = "group_norm_bwd", .run = group_norm_bwd_reference, .fill = group_norm_bwd_fill, .cancels = true},
    {.op = "group_statistics",
     .run = group_statistics_reference,
     .fill = group_statistics_fill,
     .differentiable = true,
     .loose = 1u << 0},
    {.op = "group_statistics_bwd", .run = group_statistics_bwd_reference, .fill = group_statistics_bwd_fill},
    {.op = "resize", .run = resize_reference, .differentiable = true, .loose = 1u << 0},
    {.op = "resize_bwd", .run = resize_bwd_reference, .loose = 1u << 0},
};
const reference_family references_of_volumes = {ops, sizeof ops / sizeof *ops};
