/* See groups.h. */
#include "data/groups.h"

#include <math.h>
#include <string.h>

#include "base/clones.h"
#include "base/mem.h"
#include "base/random.h"

enum { MOVES_MOST = 100, LEAST = 20 };

int64_t hr__groups_number(const hr_groups *g) {
  int64_t number = 10 * ((int64_t)g->n_members / LEAST);
  return number < g->most ? number : g->most;
}

size_t hr__groups_saved_bytes(const hr_groups *g) {
  return (1 + g->items) * sizeof *g->saved;
}

/* Tangent vectors have one number less than points. */
uint64_t hr__groups_bytes(const hr_groups *g, int64_t width) {
  uint64_t groups = (uint64_t)hr__groups_number(g), numbers = (uint64_t)(width - 1);
  return hr__groups_saved_bytes(g) + g->n_members * (numbers * sizeof *g->vectors + sizeof *g->nearest) +
         groups * (numbers * (sizeof *g->centres + sizeof *g->sums) + sizeof *g->counts);
}

hr_status hr__groups_open(hr_groups *g, int64_t width, hr_error *err) {
  size_t groups = (size_t)hr__groups_number(g), numbers = (size_t)(width - 1);
  g->width = width;
  g->saved = hr__alloc_zero(1 + g->items, sizeof *g->saved);
  g->vectors = hr__alloc_zero(g->n_members * numbers + 1, sizeof *g->vectors);
  g->nearest = hr__alloc_zero(g->n_members + 1, sizeof *g->nearest);
  g->centres = hr__alloc_zero(groups * numbers + 1, sizeof *g->centres);
  g->sums = hr__alloc_zero(groups * numbers + 1, sizeof *g->sums);
  g->counts = hr__alloc_zero(groups + 1, sizeof *g->counts);
  return g->saved && g->vectors && g->nearest && g->centres && g->sums && g->counts ? HR_OK : hr__nomem(err);
}

void hr__groups_close(hr_groups *g) {
  hr__free(g->saved);
  hr__free(g->vectors);
  hr__free(g->nearest);
  hr__free(g->centres);
  hr__free(g->sums);
  hr__free(g->counts);
}

bool hr__groups_due(const hr_groups *g, uint64_t epoch, uint64_t *of) {
  if (g->every == 0 || epoch < (uint64_t)g->from || hr__groups_number(g) == 0) return false;
  *of = epoch - (epoch - (uint64_t)g->from) % (uint64_t)g->every;
  return (uint64_t)g->saved[0] < *of + 1;
}

/* The tangent vector of a point whose length at the origin is n: x0 = cosh n, the rest sinh n in its direction. */
static void vectors_put(hr_groups *g, const float *points) {
  for (size_t i = 0; i < g->n_members; i++) {
    const float *rest = points + (int64_t)g->members[i] * g->width + 1;
    float *to = g->vectors + (int64_t)i * (g->width - 1);
    double sinh_squared = 0;
    for (int64_t k = 0; k < g->width - 1; k++)
      sinh_squared += (double)rest[k] * (double)rest[k];
    double sinh_n = sqrt(sinh_squared), factor = sinh_n > 0 ? asinh(sinh_n) / sinh_n : 1;
    for (int64_t k = 0; k < g->width - 1; k++)
      to[k] = (float)((double)rest[k] * factor);
  }
}

HR_CLONES static float apart(const float *a, const float *b, int64_t count) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < count; i++)
    sum += (a[i] - b[i]) * (a[i] - b[i]);
  return sum;
}

/* One member, drawn with a chance that is its squared distance from the centres so far. */
static size_t member_draw(const hr_groups *g, hr_random_key key, uint64_t epoch, uint64_t number) {
  double all = 0, part = 0;
  for (size_t i = 0; i < g->n_members; i++)
    all += g->nearest[i];
  double at = ((double)hr__random_at(key, epoch, number).word[0] + 0.5) * 0x1p-32 * all;
  for (size_t i = 0; i < g->n_members; i++) {
    part += g->nearest[i];
    if (part > at) return i;
  }
  return g->n_members - 1;
}

static void centres_draw(hr_groups *g, uint64_t epoch) {
  hr_random_key key = {g->seed, hr__random_stream("data.groups")};
  int64_t numbers = g->width - 1, groups = hr__groups_number(g);
  for (size_t i = 0; i < g->n_members; i++)
    g->nearest[i] = 1;
  for (int64_t c = 0; c < groups; c++) {
    float *centre = g->centres + c * numbers;
    memcpy(centre, g->vectors + (int64_t)member_draw(g, key, epoch, (uint64_t)c) * numbers,
           (size_t)numbers * sizeof *centre);
    for (size_t i = 0; i < g->n_members; i++) {
      double squared = (double)apart(g->vectors + (int64_t)i * numbers, centre, numbers);
      if (c == 0 || squared < g->nearest[i]) g->nearest[i] = squared;
    }
  }
}

/* Every member to the nearest centre, of equals the first; returns how many went to another one than before. */
static size_t members_assign(hr_groups *g) {
  int64_t numbers = g->width - 1, groups = hr__groups_number(g);
  size_t moved = 0;
  for (size_t i = 0; i < g->n_members; i++) {
    const float *vector = g->vectors + (int64_t)i * numbers;
    float least = apart(vector, g->centres, numbers);
    int32_t nearest = 0, *of = &g->saved[1 + g->members[i]];
    for (int64_t c = 1; c < groups; c++) {
      float squared = apart(vector, g->centres + c * numbers, numbers);
      if (!(squared < least)) continue;
      least = squared;
      nearest = (int32_t)c;
    }
    moved += *of != nearest;
    *of = nearest;
  }
  return moved;
}

/* Centres to the means of their members; one without members stays where it is. */
static void centres_move(hr_groups *g) {
  int64_t numbers = g->width - 1, groups = hr__groups_number(g);
  memset(g->sums, 0, (size_t)(groups * numbers) * sizeof *g->sums);
  memset(g->counts, 0, (size_t)groups * sizeof *g->counts);
  for (size_t i = 0; i < g->n_members; i++) {
    int32_t c = g->saved[1 + g->members[i]];
    g->counts[c]++;
    for (int64_t k = 0; k < numbers; k++)
      g->sums[c * numbers + k] += (double)g->vectors[(int64_t)i * numbers + k];
  }
  for (int64_t c = 0; c < groups; c++)
    for (int64_t k = 0; g->counts[c] > 0 && k < numbers; k++)
      g->centres[c * numbers + k] = (float)(g->sums[c * numbers + k] / g->counts[c]);
}

void hr__groups_make(hr_groups *g, uint64_t epoch, const float *points) {
  for (size_t i = 0; i < g->items; i++)
    g->saved[1 + i] = -1;
  vectors_put(g, points);
  centres_draw(g, epoch);
  for (int move = 0; members_assign(g) > 0 && move < MOVES_MOST; move++)
    centres_move(g);
  g->saved[0] = (int32_t)(epoch + 1);
}
