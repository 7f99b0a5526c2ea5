/* References of losses. */
#include "part_reference.h"

#include <math.h>
#include <stdlib.h>

#include "op/head_loss.h"
#include "op/loss_seed.h"

static void loss_seed_reference(const reference_call *c) {
  c->out[0][0] = (double)((const hr_loss_seed_args *)c->args)->weight * (double)c->control->loss_scale;
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
      total += p[v] = exp(reference_dot(x + r * H, w + v * H, H) + (bias ? bias[v] : 0.0));
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
    int64_t count = hr_desc_count(&c->out_desc[1 + j]);
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
  for (int64_t i = 2; i < hr_desc_count(&desc[2]); i += 5)
    in[2][i] = -1.0;
}

static void mse_reference(const reference_call *c) {
  int64_t n = hr_desc_count(&c->in_desc[0]);
  double sum = 0.0;
  for (int64_t i = 0; i < n; i++)
    sum += (c->in[0][i] - c->in[1][i]) * (c->in[0][i] - c->in[1][i]);
  c->out[0][0] = sum / (double)n;
}

static void mse_bwd_reference(const reference_call *c) {
  int64_t n = hr_desc_count(&c->in_desc[0]);
  for (int64_t i = 0; i < n; i++)
    c->out[0][i] = 2.0 * (c->in[0][i] - c->in[1][i]) / (double)n * c->in[2][0];
}

static const reference ops[] = {
    {.op = "loss_seed", .run = loss_seed_reference},
    {.op = "head_loss", .run = head_loss_reference, .fill = head_loss_fill, .differentiable = true, .loose = 1u << 1},
    {.op = "head_loss_bwd", .run = head_loss_bwd_reference, .fill = head_loss_fill, .loose = 1u << 1},
    {.op = "mse", .run = mse_reference, .differentiable = true},
    {.op = "mse_bwd", .run = mse_bwd_reference},
};
const reference_family references_of_losses = {ops, sizeof ops / sizeof *ops};
