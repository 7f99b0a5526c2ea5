/* How well points follow the trees of a taxonomy. See taxonomy.h. */
#include <math.h>
#include <string.h>

#include "base/clones.h"
#include "base/mem.h"
#include "data/nearest.h"
#include "data/taxonomy.h"

/* Of two points on the hyperboloid of curvature 1, by their difference (model/hyperbolic.c); the order of distances is
 * the same on others. */
HR_CLONES static double distance(const float *u, const float *v, int64_t width) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 1; i < width; i++)
    sum += (u[i] - v[i]) * (u[i] - v[i]);
  double first = (double)u[0] - (double)v[0], squared = (double)sum - first * first;
  return squared > 0 ? 2 * asinh(sqrt(squared) / 2) : 0;
}

size_t hr__points_nearest(const float *points, size_t n_points, int64_t width, size_t to, size_t count,
                          int32_t *numbers, double *distances) {
  size_t found = 0;
  for (size_t i = 0; i < n_points; i++) {
    if (i == to) continue;
    double d = distance(points + (int64_t)to * width, points + (int64_t)i * width, width);
    if (found == count && d >= distances[found - 1]) continue;
    size_t at = found < count ? found++ : found - 1;
    for (; at > 0 && distances[at - 1] > d; at--) {
      distances[at] = distances[at - 1];
      numbers[at] = numbers[at - 1];
    }
    distances[at] = d;
    numbers[at] = (int32_t)i;
  }
  return found;
}

static bool is_kin(const hr_taxonomy *t, size_t code, size_t other) {
  int32_t parent = t->codes[code].parent;
  return parent >= 0 && ((int32_t)other == parent || t->codes[other].parent == parent);
}

/* What one code adds to recall and rank. What is as near counts as nearer: points that are all the same find nothing.
 */
static void code_judge(const hr_taxonomy *t, const double *row, size_t code, double *first, double *five,
                       double *rank) {
  enum { FEW = 5 };
  size_t nearer_than_kin = 0, nearer_than_parent = 0;
  double kin = HUGE_VAL, parent = row[t->codes[code].parent];
  for (size_t i = 0; i < t->count; i++)
    if (i != code && is_kin(t, code, i) && row[i] < kin) kin = row[i];
  for (size_t i = 0; i < t->count; i++) {
    if (i == code) continue;
    nearer_than_kin += row[i] <= kin && !is_kin(t, code, i);
    nearer_than_parent += row[i] <= parent && (int32_t)i != t->codes[code].parent;
  }
  *first += nearer_than_kin < 1;
  *five += nearer_than_kin < FEW;
  *rank += (double)nearer_than_parent + 1;
}

/* Sums for a correlation. */
typedef struct moments {
  double n, x, y, xx, yy, xy;
} moments;

static double correlation(const moments *m) {
  double xy = m->xy - m->x * m->y / m->n, xx = m->xx - m->x * m->x / m->n, yy = m->yy - m->y * m->y / m->n;
  return xx > 0 && yy > 0 ? xy / sqrt(xx * yy) : 0;
}

hr_status hr__taxonomy_judge(const hr_taxonomy *t, const float *points, int64_t width, hr_judged *out, hr_error *err) {
  double *row = hr__alloc_zero(t->count, sizeof *row), first = 0, five = 0, rank = 0, judged = 0;
  if (!row) return hr__nomem(err);
  moments m = {0};
  bool any_held = false;
  for (size_t i = 0; i < t->count; i++)
    any_held = any_held || t->codes[i].held;
  for (size_t i = 0; i < t->count; i++) {
    for (size_t k = 0; k < t->count; k++) {
      row[k] = distance(points + (int64_t)i * width, points + (int64_t)k * width, width);
      if (k >= i) continue;
      double steps = hr__taxonomy_steps(t, i, k);
      m = (moments){
          m.n + 1, m.x + row[k], m.y + steps, m.xx + row[k] * row[k], m.yy + steps * steps, m.xy + row[k] * steps};
    }
    if (t->codes[i].parent < 0 || t->codes[i].held != any_held) continue;
    code_judge(t, row, i, &first, &five, &rank);
    judged++;
  }
  hr__free(row);
  if (judged == 0) judged = 1;
  *out = (hr_judged){.count = 4,
                     .metric = {{"recall_1", first / judged},
                                {"recall_5", five / judged},
                                {"mean_rank", rank / judged},
                                {"correlation", correlation(&m)}}};
  return HR_OK;
}
