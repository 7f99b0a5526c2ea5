/* See reports.h. */
#include "train/reports.h"

#include <math.h>
#include <stdio.h>

/* Metrics that only evaluations make are told where they were made. */
static bool told(const hr_reports *r, int i) {
  return hr__reported_by_training(&r->list[i]) || !isnan(r->values[i]);
}

static bool single(const hr_reports *r) {
  return r->count <= 1;
}

/* One object of losses or of metrics; returns where it ends. */
static size_t object_put(const hr_reports *r, bool metric, const char *prefix, char *out, size_t used) {
  const char *mark = "";
  int members = 0;
  for (int i = 0; i < r->count; i++)
    members += r->list[i].metric == metric;
  if (members == 0) return used;
  used += (size_t)snprintf(out + used, HR_REPORTS_TEXT - used, ",\"%s%s\":{", prefix, metric ? "metrics" : "losses");
  for (int i = 0; i < r->count; i++) {
    if (r->list[i].metric != metric || !told(r, i)) continue;
    char number[32] = "null";
    if (isfinite(r->values[i])) snprintf(number, sizeof number, "%.9g", r->values[i]);
    used += (size_t)snprintf(out + used, HR_REPORTS_TEXT - used, "%s\"%.32s\":%s", mark, r->list[i].name, number);
    mark = ",";
  }
  return used + (size_t)snprintf(out + used, HR_REPORTS_TEXT - used, "}");
}

const char *hr__reports_json_text(const hr_reports *r, const char *prefix, char out[HR_REPORTS_TEXT]) {
  out[0] = 0;
  if (!single(r)) object_put(r, true, prefix, out, object_put(r, false, prefix, out, 0));
  return out;
}

const char *hr__reports_text(const hr_reports *r, char out[HR_REPORTS_TEXT]) {
  size_t used = 0;
  out[0] = 0;
  for (int i = 0; i < r->count && !single(r); i++)
    if (told(r, i))
      used += (size_t)snprintf(out + used, HR_REPORTS_TEXT - used, "%s%.32s %.4f", i ? ", " : " (", r->list[i].name,
                               r->values[i]);
  if (!single(r)) snprintf(out + used, HR_REPORTS_TEXT - used, ")");
  return out;
}

void hr__reports_clear(hr_reports *r, bool eval) {
  for (int i = 0; i < r->count; i++) {
    bool summed = eval ? hr__reported_by_evaluation(&r->list[i]) : hr__reported_by_training(&r->list[i]);
    r->values[i] = summed ? 0 : (double)NAN;
  }
}

void hr__reports_keep(hr_reports *r, const hr_reports *from) {
  for (int i = 0; i < r->count && i < from->count; i++)
    if (!hr__reported_by_training(&r->list[i]) && !isnan(from->values[i])) r->values[i] = from->values[i];
}

double hr__reports_loss(const hr_reports *r) {
  double loss = 0;
  for (int i = 0; i < r->count; i++)
    if (!r->list[i].metric) loss += (double)r->list[i].weight * r->values[i];
  return loss;
}
