/* group_norm, group_statistics and their backward ops on the CPU, in f32 whatever the storage; what pieces have left is
 * put together in f64.
 *
 * Forward: mean and squares about it of every piece; those of a row put together; then every piece is written.
 * Backward, with n = (x - mean) rstd, g = dy gelu'(w n + b) and L elements to a row: sums of g and g n over every
 * piece; of planes (db and dw are their sums over samples); of rows, times w. Then
 *   dx = rstd (g w - mean(g w) - n mean(g n w))
 * With statistics that were given only the first term is dx; the others go to their gradient.
 */
#include <math.h>
#include <string.h>

#include "base/simd_math.h"
#include "op/group_norm.h"
#include "op/group_norm_parts.h"
#include "op/norm_rows.h"

/* A call with what tasks need of it. */
typedef struct group_call {
  const hr_call *call;
  hr_group_sizes s;
  int64_t per_task;             /* pieces: small ones go together */
  float *pieces, *planes, *row; /* the workspace; the last two of backward */
} group_call;

static group_call group_of(const hr_call *call, const hr_desc *x, int64_t groups) {
  group_call g = {.call = call, .s = hr__group_sizes(x, groups), .pieces = call->workspace};
  g.planes = g.pieces + 2 * g.s.planes * g.s.pieces_each;
  g.row = g.planes + 2 * g.s.planes;
  g.per_task = 1 + HR_CHUNK / (g.s.places < HR_GROUP_PIECE ? g.s.places : HR_GROUP_PIECE);
  return g;
}

static void over_pieces(group_call *g, hr_task task) {
  int64_t tasks = hr__chunks(g->s.planes * g->s.pieces_each, g->per_task);
  hr__pool_run(g->call->device->pool, g->call->threads, tasks, task, g);
}

static void over_rows(group_call *g, hr_task task) {
  hr__pool_run(g->call->device->pool, g->call->threads, g->s.rows, task, g);
}

HR_INLINE hr_range task_pieces(const group_call *g, int64_t task) {
  return hr__chunk(g->s.planes * g->s.pieces_each, g->per_task, task);
}

typedef struct piece {
  int64_t plane, row, channel;
  int64_t at, count; /* elements */
} piece;

HR_INLINE piece piece_at(const hr_group_sizes *s, int64_t number) {
  piece p = {.plane = number / s->pieces_each};
  hr_range range = hr__chunk(s->places, HR_GROUP_PIECE, number % s->pieces_each);
  p.row = p.plane / s->planes_each;
  p.channel = p.plane % s->channels;
  p.at = p.plane * s->places + range.first;
  p.count = range.end - range.first;
  return p;
}

HR_INLINE float one(const hr_tensor *tensor, int64_t at) {
  float scratch;
  return *hr__load(tensor, at, 1, &scratch);
}

/* ---- forward ---- */

HR_CLONES static void moments_task(void *arg, int64_t task, int worker) {
  const group_call *g = arg;
  const hr_tensor *x = &g->call->in[0];
  hr_range range = task_pieces(g, task);
  float block[HR_BLOCK];
  (void)worker;
  for (int64_t i = range.first; i < range.end; i++) {
    piece p = piece_at(&g->s, i);
    float mean = hr__row_sum(x, p.at, p.count, block) / (float)p.count;
    g->pieces[2 * i] = mean;
    g->pieces[2 * i + 1] = hr__row_squares(x, p.at, p.count, mean, block);
  }
}

typedef struct moments {
  double n, mean, squares; /* of n numbers: their mean and the squares about it */
} moments;

static moments moments_joined(moments a, moments b) {
  double n = a.n + b.n, apart = b.mean - a.mean;
  return (moments){n, a.mean + apart * b.n / n, a.squares + b.squares + apart * apart * (a.n * b.n / n)};
}

static moments row_moments(const group_call *g, int64_t row) {
  int64_t each = g->s.planes_each * g->s.pieces_each;
  moments m = {0};
  for (int64_t i = row * each; i < (row + 1) * each; i++)
    m = moments_joined(
        m, (moments){(double)piece_at(&g->s, i).count, (double)g->pieces[2 * i], (double)g->pieces[2 * i + 1]});
  return m;
}

static void statistics_write(const hr_tensor *to, int64_t row, moments m, float eps) {
  float *statistics = (float *)to->data + 2 * row;
  statistics[0] = (float)m.mean;
  statistics[1] = (float)(1 / sqrt(m.squares / m.n + (double)eps));
}

static void statistics_task(void *arg, int64_t row, int worker) {
  const group_call *g = arg;
  (void)worker;
  statistics_write(&g->call->out[1], row, row_moments(g, row), ((const hr_group_norm_args *)g->call->args)->eps);
}

HR_CLONES static void apply_task(void *arg, int64_t task, int worker) {
  const group_call *g = arg;
  const hr_tensor *x = &g->call->in[0], *y = &g->call->out[0];
  bool gelu = ((const hr_group_norm_args *)g->call->args)->gelu;
  hr_range range = task_pieces(g, task);
  float block[HR_BLOCK];
  (void)worker;
  for (int64_t i = range.first; i < range.end; i++) {
    piece p = piece_at(&g->s, i);
    const float *statistics = (const float *)g->call->out[1].data + 2 * p.row;
    float mean = statistics[0], scale = statistics[1] * one(&g->call->in[1], p.channel);
    float shift = one(&g->call->in[2], p.channel);
    for (int64_t k = 0; k < p.count; k += HR_BLOCK) {
      int64_t n = hr__min(HR_BLOCK, p.count - k), at = p.at + k;
      const float *from = hr__load(x, at, n, block);
      float *to = hr__target(y, at, block);
      if (gelu) {
#pragma omp simd
        for (int64_t e = 0; e < n; e++) {
          float z = (from[e] - mean) * scale + shift;
          to[e] = z * hr__normcdff(z);
        }
      } else {
#pragma omp simd
        for (int64_t e = 0; e < n; e++)
          to[e] = (from[e] - mean) * scale + shift;
      }
      hr__store(y, at, n, to);
    }
  }
}

hr_status hr__group_norm_run(const hr_call *call) {
  const hr_group_norm_args *args = call->args;
  group_call g = group_of(call, &call->in[0].desc, args->groups);
  if (call->in[3].data) {
    memcpy(call->out[1].data, call->in[3].data, hr_desc_bytes(&call->out[1].desc));
  } else {
    over_pieces(&g, moments_task);
    over_rows(&g, statistics_task);
  }
  over_pieces(&g, apply_task);
  return HR_OK;
}

static double variance_of(const float *statistics, float eps) {
  return fmax(0.0, 1 / ((double)statistics[1] * (double)statistics[1]) - (double)eps);
}

static void joined_task(void *arg, int64_t row, int worker) {
  const group_call *g = arg;
  const hr_group_statistics_args *args = g->call->args;
  double count = (double)args->before;
  moments own = row_moments(g, row), all = own;
  (void)worker;
  if (g->call->in[1].data) {
    const float *before = (const float *)g->call->in[1].data + 2 * row;
    all = moments_joined((moments){count, (double)before[0], count * variance_of(before, args->eps)}, own);
  }
  statistics_write(&g->call->out[0], row, all, args->eps);
  statistics_write(&g->call->out[1], row, own, args->eps);
}

hr_status hr__group_statistics_run(const hr_call *call) {
  group_call g = group_of(call, &call->in[0].desc, ((const hr_group_statistics_args *)call->args)->groups);
  over_pieces(&g, moments_task);
  over_rows(&g, joined_task);
  return HR_OK;
}

/* ---- backward ---- */

/* What all elements of a piece share. */
typedef struct shared {
  float mean, rstd, w, b;
  bool gelu;
} shared;

HR_INLINE shared shared_of(const hr_call *call, const piece *p) {
  const float *statistics = (const float *)call->in[HR_GROUP_STATISTICS].data + 2 * p->row;
  return (shared){.mean = statistics[0],
                  .rstd = statistics[1],
                  .w = one(&call->in[HR_GROUP_W], p->channel),
                  .b = one(&call->in[HR_GROUP_B], p->channel),
                  .gelu = ((const hr_group_norm_bwd_args *)call->args)->norm.gelu};
}

HR_INLINE float gelu_slope(float z) {
  float e = hr__expf(-0.5f * z * z);
  return hr__normal_part(z, e) + 0.398942280f * z * e; /* 1 / sqrt(2 pi) */
}

/* Sums of g and of g n over a block. */
HR_INLINE void block_sums(const shared *s, const float *dy, const float *x, int64_t count, float *g_sum,
                          float *gn_sum) {
  float sum = 0.0f, with_n = 0.0f;
  if (s->gelu) {
#pragma omp simd reduction(+ : sum, with_n)
    for (int64_t e = 0; e < count; e++) {
      float n = (x[e] - s->mean) * s->rstd, g = dy[e] * gelu_slope(n * s->w + s->b);
      sum += g;
      with_n += g * n;
    }
  } else {
#pragma omp simd reduction(+ : sum, with_n)
    for (int64_t e = 0; e < count; e++) {
      sum += dy[e];
      with_n += dy[e] * ((x[e] - s->mean) * s->rstd);
    }
  }
  *g_sum += sum;
  *gn_sum += with_n;
}

HR_CLONES static void sums_task(void *arg, int64_t task, int worker) {
  const group_call *g = arg;
  hr_range range = task_pieces(g, task);
  float dy_block[HR_BLOCK], x_block[HR_BLOCK];
  (void)worker;
  for (int64_t i = range.first; i < range.end; i++) {
    piece p = piece_at(&g->s, i);
    shared s = shared_of(g->call, &p);
    float g_sum = 0.0f, gn_sum = 0.0f;
    for (int64_t k = 0; k < p.count; k += HR_BLOCK) {
      int64_t n = hr__min(HR_BLOCK, p.count - k), at = p.at + k;
      const float *dy = hr__load(&g->call->in[HR_GROUP_DY], at, n, dy_block);
      block_sums(&s, dy, hr__load(&g->call->in[HR_GROUP_X], at, n, x_block), n, &g_sum, &gn_sum);
    }
    g->pieces[2 * i] = g_sum;
    g->pieces[2 * i + 1] = gn_sum;
  }
}

static void row_task(void *arg, int64_t row, int worker) {
  const group_call *g = arg;
  double of_row[2] = {0, 0}, elements = (double)hr__group_elements(&g->s);
  (void)worker;
  for (int64_t plane = row * g->s.planes_each; plane < (row + 1) * g->s.planes_each; plane++) {
    double w = (double)one(&g->call->in[HR_GROUP_W], plane % g->s.channels);
    for (int which = 0; which < 2; which++) {
      double sum = 0;
      for (int64_t i = plane * g->s.pieces_each; i < (plane + 1) * g->s.pieces_each; i++)
        sum += (double)g->pieces[2 * i + which];
      g->planes[2 * plane + which] = (float)sum;
      of_row[which] += w * sum;
    }
  }
  bool given = ((const hr_group_norm_bwd_args *)g->call->args)->given;
  g->row[2 * row] = given ? 0.0f : (float)(of_row[0] / elements);
  g->row[2 * row + 1] = given ? 0.0f : (float)(of_row[1] / elements);
  if (!given) return;
  double rstd = (double)((const float *)g->call->in[HR_GROUP_STATISTICS].data)[2 * row + 1];
  float *to = (float *)g->call->out[3].data + 2 * row;
  to[0] = (float)(-rstd * of_row[0]);
  to[1] = (float)(of_row[1] / rstd);
}

/* dw (which 1) or db (which 0) of a channel: the sum over samples. */
static void weight_write(const group_call *g, int64_t channel, int which) {
  int out = which ? 1 : 2;
  const hr_tensor *to = &g->call->out[out], *partial = &g->call->in[HR_GROUP_DX_PARTIAL + out];
  double sum = partial->data ? (double)one(partial, channel) : 0;
  float scratch;
  for (int64_t plane = channel; plane < g->s.planes; plane += g->s.channels)
    sum += (double)g->planes[2 * plane + which];
  float *at = hr__target(to, channel, &scratch);
  *at = (float)sum;
  hr__store(to, channel, 1, at);
}

HR_CLONES static void dx_task(void *arg, int64_t task, int worker) {
  const group_call *g = arg;
  const hr_tensor *dx = &g->call->out[0], *partial = &g->call->in[HR_GROUP_DX_PARTIAL];
  hr_range range = task_pieces(g, task);
  float dy_block[HR_BLOCK], x_block[HR_BLOCK], partial_block[HR_BLOCK];
  (void)worker;
  for (int64_t i = range.first; i < range.end; i++) {
    piece p = piece_at(&g->s, i);
    shared s = shared_of(g->call, &p);
    float g_mean = g->row[2 * p.row], gn_mean = g->row[2 * p.row + 1];
    for (int64_t k = 0; k < p.count; k += HR_BLOCK) {
      int64_t n = hr__min(HR_BLOCK, p.count - k), at = p.at + k;
      const float *dy = hr__load(&g->call->in[HR_GROUP_DY], at, n, dy_block);
      const float *x = hr__load(&g->call->in[HR_GROUP_X], at, n, x_block);
      const float *before = partial->data ? hr__load(partial, at, n, partial_block) : NULL;
      float *to = hr__target(dx, at, dy_block);
#pragma omp simd
      for (int64_t e = 0; e < n; e++) {
        float normal = (x[e] - s.mean) * s.rstd;
        float slope = s.gelu ? gelu_slope(normal * s.w + s.b) : 1.0f;
        float own = s.rstd * (dy[e] * slope * s.w - g_mean - normal * gn_mean);
        to[e] = before ? before[e] + own : own;
      }
      hr__store(dx, at, n, to);
    }
  }
}

hr_status hr__group_norm_bwd_run(const hr_call *call) {
  const hr_group_norm_bwd_args *args = call->args;
  group_call g = group_of(call, &call->in[HR_GROUP_X].desc, args->norm.groups);
  over_pieces(&g, sums_task);
  over_rows(&g, row_task);
  for (int64_t channel = 0; channel < g.s.channels; channel++) {
    if (args->want_dw) weight_write(&g, channel, 1);
    if (args->want_db) weight_write(&g, channel, 0);
  }
  if (args->want_dx) over_pieces(&g, dx_task);
  return HR_OK;
}

static const float *of_row(const group_call *g, int operand, int64_t row) {
  return (const float *)g->call->in[operand].data + 2 * row;
}

/* The gradients of the variance of all, and through it and the mean of those before; dx is a + b (x - own mean). */
static void joined_bwd_task(void *arg, int64_t row, int worker) {
  const group_call *g = arg;
  const hr_group_statistics_args *args = g->call->args;
  double rstd = (double)of_row(g, HR_STATS_ALL, row)[1], mean = (double)of_row(g, HR_STATS_DY, row)[0];
  double variance = -0.5 * rstd * rstd * rstd * (double)of_row(g, HR_STATS_DY, row)[1];
  double count = (double)hr__group_elements(&g->s), share = count / (count + (double)args->before), apart = 0;
  (void)worker;
  if (args->before > 0) {
    const float *before = of_row(g, HR_STATS_BEFORE, row);
    float *to = (float *)g->call->out[1].data + 2 * row;
    double was = (double)before[1];
    apart = (double)of_row(g, HR_STATS_OWN, row)[0] - (double)before[0];
    to[0] = (float)((1 - share) * (mean - 2 * share * apart * variance));
    to[1] = (float)((1 - share) * variance * -2 / (was * was * was));
  }
  g->row[2 * row] = (float)(share * (mean + 2 * (1 - share) * apart * variance) / count);
  g->row[2 * row + 1] = (float)(2 * share * variance / count);
}

HR_CLONES static void joined_dx_task(void *arg, int64_t task, int worker) {
  const group_call *g = arg;
  const hr_tensor *dx = &g->call->out[0], *partial = &g->call->in[HR_STATS_DX_PARTIAL];
  hr_range range = task_pieces(g, task);
  float x_block[HR_BLOCK], partial_block[HR_BLOCK];
  (void)worker;
  for (int64_t i = range.first; i < range.end; i++) {
    piece p = piece_at(&g->s, i);
    float a = g->row[2 * p.row], b = g->row[2 * p.row + 1];
    float mean = of_row(g, HR_STATS_OWN, p.row)[0];
    for (int64_t k = 0; k < p.count; k += HR_BLOCK) {
      int64_t n = hr__min(HR_BLOCK, p.count - k), at = p.at + k;
      const float *x = hr__load(&g->call->in[HR_STATS_X], at, n, x_block);
      const float *sum = partial->data ? hr__load(partial, at, n, partial_block) : NULL;
      float *to = hr__target(dx, at, x_block);
#pragma omp simd
      for (int64_t e = 0; e < n; e++) {
        float own = a + b * (x[e] - mean);
        to[e] = sum ? sum[e] + own : own;
      }
      hr__store(dx, at, n, to);
    }
  }
}

hr_status hr__group_statistics_bwd_run(const hr_call *call) {
  const hr_group_statistics_args *args = call->args;
  group_call g = group_of(call, &call->in[HR_STATS_X].desc, args->groups);
  g.row = call->workspace;
  over_rows(&g, joined_bwd_task);
  over_pieces(&g, joined_dx_task);
  return HR_OK;
}
