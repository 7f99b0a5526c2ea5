/* References of norms, sums with rows, rotations, and rows by index. */
#include "part_reference.h"

#include <math.h>
#include <string.h>

#include "op/add_rows.h"
#include "op/gated_norm.h"
#include "op/gather.h"
#include "op/layernorm.h"
#include "op/rmsnorm.h"
#include "op/rope.h"
#include "op/topk.h"
#include "op/track.h"

static void rmsnorm_reference(const reference_call *c) {
  const hr_rmsnorm_args *args = c->args;
  double eps = (double)args->eps, raise = args->raised ? 1.0 : 0.0;
  int64_t H = c->in_desc[1].dim[0], rows = hr_desc_count(&c->in_desc[0]) / H;
  for (int64_t r = 0; r < rows; r++) {
    const double *x = c->in[0] + r * H;
    double squares = 0.0;
    for (int64_t h = 0; h < H; h++)
      squares += x[h] * x[h];
    double rstd = 1.0 / sqrt(squares / (double)H + eps);
    for (int64_t h = 0; h < H; h++)
      c->out[0][r * H + h] = x[h] * rstd * (c->in[1][h] + raise);
    c->out[1][r] = rstd;
  }
}

/* dy, x, w, rstd, dx_partial?, dw_partial? -> dx, dw */
static void rmsnorm_bwd_reference(const reference_call *c) {
  const hr_norm_bwd_args *args = c->args;
  int64_t H = c->in_desc[2].dim[0], rows = hr_desc_count(&c->in_desc[0]) / H;
  for (int64_t h = 0; args->want_dw && h < H; h++)
    c->out[1][h] = c->in[5] ? c->in[5][h] : 0.0;
  for (int64_t r = 0; r < rows; r++) {
    const double *dy = c->in[0] + r * H, *x = c->in[1] + r * H, *w = c->in[2];
    double rstd = c->in[3][r], mean = 0.0, raise = args->raised ? 1.0 : 0.0;
    for (int64_t h = 0; h < H; h++)
      mean += dy[h] * (w[h] + raise) * x[h] * rstd / (double)H;
    for (int64_t h = 0; h < H; h++) {
      double before = c->in[4] ? c->in[4][r * H + h] : 0.0;
      if (args->want_dx) c->out[0][r * H + h] = before + rstd * (dy[h] * (w[h] + raise) - x[h] * rstd * mean);
      if (args->want_dw) c->out[1][h] += dy[h] * x[h] * rstd;
    }
  }
}

/* 1/rms as the forward op leaves it for this x. */
static void rmsnorm_bwd_fill(double *const *in, const hr_desc *desc, const void *args) {
  const double eps = 1e-5;
  (void)args;
  int64_t H = desc[2].dim[0], rows = hr_desc_count(&desc[1]) / H;
  for (int64_t r = 0; r < rows; r++) {
    double squares = 0.0;
    for (int64_t h = 0; h < H; h++)
      squares += in[1][r * H + h] * in[1][r * H + h];
    in[3][r] = 1.0 / sqrt(squares / (double)H + eps);
  }
}

/* One group of one row of gated_norm. */
typedef struct gated_row {
  const double *y, *z, *w;
  int64_t each;
} gated_row;

static gated_row gated_row_of(const double *const *in, const hr_gated_sizes *s, int64_t row, int64_t group) {
  int64_t column = group * s->each;
  return (gated_row){in[HR_GATED_Y] + row * s->width + column, in[HR_GATED_X] + row * s->columns + s->first + column,
                     in[HR_GATED_W] + column, s->each};
}
static double gated_at(const gated_row *r, int64_t i) {
  return r->y[i] * r->z[i] / (1 + exp(-r->z[i]));
}
static double gated_rstd(const gated_row *r, double eps) {
  double squares = 0;
  for (int64_t i = 0; i < r->each; i++)
    squares += gated_at(r, i) * gated_at(r, i);
  return 1 / sqrt(squares / (double)r->each + eps);
}

static void gated_norm_reference(const reference_call *c) {
  const hr_gated_norm_args *args = c->args;
  hr_gated_sizes s = hr__gated_sizes(&c->in_desc[HR_GATED_Y], &c->in_desc[HR_GATED_X], args);
  for (int64_t k = 0; k < s.rows * s.groups; k++) {
    gated_row r = gated_row_of((const double *const *)c->in, &s, k / s.groups, k % s.groups);
    c->out[1][k] = gated_rstd(&r, (double)args->eps);
    for (int64_t i = 0; i < s.each; i++)
      c->out[0][k * s.each + i] = r.w[i] * gated_at(&r, i) * c->out[1][k];
  }
}

static void gated_norm_bwd_reference(const reference_call *c) {
  hr_gated_sizes s = hr__gated_sizes(&c->in_desc[HR_GATED_BWD_Y], &c->in_desc[HR_GATED_BWD_X], c->args);
  const double *partial = c->in[HR_GATED_PARTIAL];
  for (int64_t i = 0; i < s.rows * s.columns; i++)
    c->out[1][i] = partial ? partial[i] : 0;
  memset(c->out[2], 0, (size_t)s.width * sizeof(double));
  for (int64_t k = 0; k < s.rows * s.groups; k++) {
    gated_row r = gated_row_of((const double *const *)c->in + HR_GATED_BWD_Y, &s, k / s.groups, k % s.groups);
    const double *dout = c->in[HR_GATED_DOUT] + k * s.each;
    double rstd = c->in[HR_GATED_RSTD][k], mean = 0, *dz = c->out[1] + (r.z - c->in[HR_GATED_BWD_X]);
    for (int64_t i = 0; i < s.each; i++)
      mean += r.w[i] * dout[i] * gated_at(&r, i) * rstd / (double)s.each;
    for (int64_t i = 0; i < s.each; i++) {
      double a = gated_at(&r, i), sigmoid = 1 / (1 + exp(-r.z[i])), da = rstd * (r.w[i] * dout[i] - a * rstd * mean);
      c->out[0][k * s.each + i] = da * r.z[i] * sigmoid;
      dz[i] += da * r.y[i] * sigmoid * (1 + r.z[i] * (1 - sigmoid));
      c->out[2][k % s.groups * s.each + i] += dout[i] * a * rstd;
    }
  }
}

/* 1/rms as the forward op leaves it for this y and z. */
static void gated_norm_bwd_fill(double *const *in, const hr_desc *desc, const void *args) {
  hr_gated_sizes s = hr__gated_sizes(&desc[HR_GATED_BWD_Y], &desc[HR_GATED_BWD_X], args);
  for (int64_t k = 0; k < s.rows * s.groups; k++) {
    gated_row r = gated_row_of((const double *const *)in + HR_GATED_BWD_Y, &s, k / s.groups, k % s.groups);
    in[HR_GATED_RSTD][k] = gated_rstd(&r, 1e-5);
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
  for (int64_t i = 0, count = hr_desc_count(&c->in_desc[0]); i < count; i++)
    c->out[0][i] = c->in[0][i] + c->in[1][i / H % period * H + i % H];
}

static void add_rows_dw_reference(const reference_call *c) {
  int64_t period = ((const hr_add_rows_dw_args *)c->args)->period, H = hr_desc_columns(&c->in_desc[0]);
  for (int64_t i = 0, count = hr_desc_count(&c->out_desc[0]); i < count; i++)
    c->out[0][i] = c->in[1] ? c->in[1][i] : 0.0;
  for (int64_t i = 0, count = hr_desc_count(&c->in_desc[0]); i < count; i++)
    c->out[0][i / H % period * H + i % H] += c->in[0][i];
}

static void rope_table_reference(const reference_call *c) {
  const hr_rope_table_args *a = c->args;
  int64_t half = a->head_dim / 2, rows = c->out_desc[0].dim[1];
  for (int64_t i = 0; i < half; i++) {
    double f = pow(a->theta, -2.0 * (double)i / (double)a->head_dim), wavelength = 2.0 * 3.14159265358979323846 / f;
    double length = (double)a->original_length;
    if (a->scaled && wavelength > length / a->low) {
      f = f / a->factor;
    } else if (a->scaled && wavelength >= length / a->high) {
      double blend = (length / wavelength - a->low) / (a->high - a->low);
      f = (1.0 - blend) * f / a->factor + blend * f;
    }
    for (int64_t row = 0; row < rows; row++) {
      double position = (double)(row % a->length) + (c->in[0] ? c->in[0][row / a->length] : 0.0);
      c->out[0][row * half + i] = cos(position * f);
      c->out[0][(rows + row) * half + i] = sin(position * f);
    }
  }
}

static void rope_reference(const reference_call *c) {
  const hr_rope_args *a = c->args;
  int64_t T = c->in_desc[1].dim[1], C = c->in_desc[0].dim[2], half = a->head_dim / 2; /* T: rows of angles */
  for (int64_t row = 0; row < hr_desc_count(&c->in_desc[0]) / C; row++)
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

/* Where there are inverses, the index is permutations: rows moved on by as many as its first number says. */
static void gather_fill(double *const *in, const hr_desc *desc, const void *args) {
  (void)args;
  if (!in[2]) return;
  hr_gather_sizes s = hr__gather_sizes(&desc[0], &desc[1]);
  for (int64_t first = 0; first < s.groups * s.n; first += s.rows) {
    int64_t by = (int64_t)in[0][first];
    for (int64_t i = 0; i < s.rows; i++) {
      in[0][first + i] = (double)((i + by) % s.rows);
      in[2][first + (i + by) % s.rows] = (double)i;
    }
  }
}

static void gather_reference(const reference_call *c) {
  hr_gather_sizes s = hr__gather_sizes(&c->in_desc[0], &c->in_desc[1]);
  for (int64_t i = 0; i < s.groups * s.n; i++)
    for (int64_t h = 0; h < s.columns; h++)
      c->out[0][i * s.columns + h] = c->in[1][(i / s.n * s.rows + (int64_t)c->in[0][i]) * s.columns + h];
}

static void scatter_reference(const reference_call *c) {
  hr_gather_sizes s = hr__gather_sizes(&c->in_desc[0], &c->out_desc[0]);
  for (int64_t i = 0; i < s.groups * s.rows * s.columns; i++)
    c->out[0][i] = c->in[2] ? c->in[2][i] : 0.0;
  for (int64_t i = 0; i < s.groups * s.n; i++)
    for (int64_t h = 0; h < s.columns; h++)
      c->out[0][(i / s.n * s.rows + (int64_t)c->in[0][i]) * s.columns + h] += c->in[1][i * s.columns + h];
}

/* Elements of a row so far apart that differences do not change their order; of more than 256 some are equal in bf16.
 */
static void topk_fill(double *const *in, const hr_desc *desc, const void *args) {
  int64_t columns = hr_desc_columns(&desc[0]);
  (void)args;
  for (int64_t i = 0, count = hr_desc_count(&desc[0]); i < count; i++)
    in[0][i] = (double)((i % columns * 37 + i / columns * 11) % columns - columns / 2) / 16.0;
}

static void topk_reference(const reference_call *c) {
  int64_t columns = hr_desc_columns(&c->in_desc[0]), rows = hr_desc_count(&c->in_desc[0]) / columns;
  int k = ((const hr_topk_args *)c->args)->k;
  for (int64_t r = 0; r < rows; r++)
    for (int64_t i = 0; i < columns; i++) {
      const double *x = c->in[0] + r * columns;
      int64_t before = 0; /* elements that come before this one */
      for (int64_t j = 0; j < columns; j++)
        before += x[j] > x[i] || (x[j] == x[i] && j < i);
      if (before >= k) continue;
      c->out[0][r * k + before] = x[i];
      c->out[1][r * k + before] = (double)i;
    }
}

/* How sure detections are, and places in steps of 1/8, so that distances are exact in f32. */
static void track_fill(double *const *in, const hr_desc *desc, const void *args) {
  int64_t columns = hr_desc_columns(&desc[0]);
  (void)args;
  for (int64_t i = 0, count = hr_desc_count(&desc[0]); i < count; i++)
    in[0][i] = (double)((i / columns * 29 + i % columns * 13) % 33 - 16) / 8.0;
}

/* Of all pairs of a detection and a track that goes on, by the definition. */
static void track_reference(const reference_call *c) {
  const hr_track_args *args = c->args;
  hr_track_sizes s = hr__track_sizes(&c->in_desc[0]);
  for (int64_t i = 0, count = hr_desc_count(&c->out_desc[0]); i < count; i++)
    c->out[0][i] = 0.0;
  for (int64_t b = 0; b < s.samples; b++) {
    const double *last[HR_TRACKS_MOST] = {NULL};
    for (int64_t t = 0; t < s.frames; t++) {
      bool taken[HR_TRACKS_MOST] = {false};
      for (int64_t k = 0; k < s.detections; k++) {
        const double *one = c->in[0] + ((b * s.frames + t) * s.detections + k) * s.columns;
        double best = INFINITY;
        int to = -1;
        if (one[0] < (double)args->least) continue;
        for (int i = args->tracks - 1; i >= 0; i--) {
          if (!last[i] || taken[i]) continue;
          double x = one[1] - last[i][1], y = one[2] - last[i][2], far = x * x + y * y;
          if (far > (double)args->reach * (double)args->reach || far > best) continue;
          best = far;
          to = i;
        }
        for (int i = 0; i < args->tracks && to < 0; i++)
          if (!last[i]) to = i;
        if (to < 0) continue;
        last[to] = one;
        taken[to] = true;
        for (int64_t h = 0; h < s.columns; h++)
          c->out[0][((b * args->tracks + to) * s.frames + t) * s.columns + h] = one[h];
      }
    }
  }
}

static const reference ops[] = {
    {.op = "rmsnorm", .run = rmsnorm_reference, .differentiable = true},
    {.op = "rmsnorm_bwd", .run = rmsnorm_bwd_reference, .fill = rmsnorm_bwd_fill},
    {.op = "gated_norm",
     .run = gated_norm_reference,
     .differentiable = true,
     .any_type = 1u << HR_GATED_W,
     .loose = 1u << HR_GATED_X}, /* rows of it may be longer */
    {.op = "gated_norm_bwd",
     .run = gated_norm_bwd_reference,
     .fill = gated_norm_bwd_fill,
     .any_type = 1u << HR_GATED_BWD_W},
    {.op = "layernorm", .run = layernorm_reference, .differentiable = true},
    {.op = "layernorm_bwd", .run = layernorm_bwd_reference, .fill = layernorm_bwd_fill, .cancels = true},
    {.op = "add_rows", .run = add_rows_reference, .differentiable = true, .loose = 1u << 1},
    {.op = "add_rows_dw", .run = add_rows_dw_reference, .loose = 1u << 0},
    /* f32 frequencies times positions: the angle is off by some roundings of the largest position */
    {.op = "rope_table", .run = rope_table_reference, .tolerance = 5e-4},
    {.op = "rope", .run = rope_reference, .differentiable = true, .constants = 1u << 1},
    {.op = "gather", .run = gather_reference, .fill = gather_fill, .differentiable = true, .loose = 1u << 1},
    {.op = "scatter", .run = scatter_reference, .differentiable = true, .constants = 1u << 2},
    {.op = "track", .run = track_reference, .fill = track_fill, .loose = 1u << 0},
    {.op = "topk", .run = topk_reference, .fill = topk_fill, .differentiable = true, .loose = 1u << 0},
};
const reference_family references_of_rows = {ops, sizeof ops / sizeof *ops};
