#include "report/series.h"

#include <math.h>

#include "format/json.h"
#include "report/columns.h"

hr_status hr__series_add(hr_series *c, int64_t step, double value, hr_error *err) {
  if (c->count == c->capacity) {
    size_t capacity = c->capacity > 0 ? 2 * c->capacity : 256;
    int64_t *steps = hr__realloc(c->steps, capacity * sizeof *steps);
    if (!steps) return hr__nomem(err);
    c->steps = steps;
    double *values = hr__realloc(c->values, capacity * sizeof *values);
    if (!values) return hr__nomem(err);
    c->values = values;
    c->capacity = capacity;
  }
  c->steps[c->count] = step;
  c->values[c->count++] = value;
  return HR_OK;
}

void hr__series_fini(hr_series *c) {
  hr__free(c->steps);
  hr__free(c->values);
  *c = (hr_series){0};
}

static json_t *number_json(double value) {
  return isfinite(value) ? json_real(value) : json_null();
}

/* Points on their way into the page. */
typedef struct thinned {
  hr_column steps, mean_steps;
  json_t *values, *means;
  bool failed;
} thinned;

static void point_add(thinned *t, const hr_series *c, size_t i) {
  hr__column_add_next(&t->steps, (uint64_t)c->steps[i]);
  t->failed |= json_array_append_new(t->values, number_json(c->values[i])) != 0;
}

/* The least and the most of [from, to) in the order in which they come, the mean, and the first that is not finite. */
static void stretch_add(thinned *t, const hr_series *c, size_t from, size_t to) {
  size_t least = to, most = to, odd = to, finite = 0;
  double sum = 0;
  for (size_t i = from; i < to; i++) {
    if (!isfinite(c->values[i])) {
      odd = odd < to ? odd : i;
      continue;
    }
    if (least == to || c->values[i] < c->values[least]) least = i;
    if (most == to || c->values[i] > c->values[most]) most = i;
    sum += c->values[i];
    finite++;
  }
  size_t order[3] = {least, most, odd};
  for (int i = 0; i < 2; i++)
    for (int k = i + 1; k < 3; k++)
      if (order[k] < order[i]) {
        size_t swap = order[i];
        order[i] = order[k];
        order[k] = swap;
      }
  for (int i = 0; i < 3; i++)
    if (order[i] < to && (i == 0 || order[i] != order[i - 1])) point_add(t, c, order[i]);
  if (finite == 0) return;
  hr__column_add_next(&t->mean_steps, (uint64_t)c->steps[from + (to - from) / 2]);
  t->failed |= json_array_append_new(t->means, json_real(sum / (double)finite)) != 0;
}

static json_t *extreme_json(const hr_series *c, int sign) {
  size_t best = c->count;
  for (size_t i = 0; i < c->count; i++)
    if (isfinite(c->values[i]) && (best == c->count || sign * c->values[i] > sign * c->values[best])) best = i;
  if (best == c->count) return json_null();
  return json_pack("[I, f]", (json_int_t)c->steps[best], c->values[best]);
}

json_t *hr__series_json(const hr_series *c) {
  thinned t = {.values = json_array(), .means = json_array()};
  bool thin = c->count > 2 * HR_SERIES_STRETCHES;
  t.failed = !t.values || !t.means;
  size_t parts = thin ? HR_SERIES_STRETCHES : c->count;
  for (size_t i = 0; i < parts && !t.failed; i++) {
    if (thin)
      stretch_add(&t, c, c->count * i / parts, c->count * (i + 1) / parts);
    else
      point_add(&t, c, i);
  }
  json_t *steps = hr__column_end(&t.steps), *mean_steps = hr__column_end(&t.mean_steps);
  json_t *mean = thin ? json_pack("[O?, O]", mean_steps, t.means) : json_null();
  json_t *out =
      t.failed || !steps || !mean_steps
          ? NULL
          : json_pack("{s:o, s:s, s:b, s:I, s:O, s:O, s:O, s:o, s:o, s:o}", "name", hr__json_string(c->name), "kind",
                      c->kind, "held_out", (int)c->held_out, "count", (json_int_t)c->count, "steps", steps, "values",
                      t.values, "mean", mean, "least", extreme_json(c, -1), "most", extreme_json(c, 1), "last",
                      c->count > 0 ? number_json(c->values[c->count - 1]) : json_null());
  json_decref(steps);
  json_decref(mean_steps);
  json_decref(mean);
  json_decref(t.values);
  json_decref(t.means);
  return out;
}
