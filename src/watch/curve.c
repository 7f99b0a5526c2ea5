/* See curve.h. */
#include "watch/curve.h"

#include <math.h>
#include <string.h>

void hr__curve_add(hr_curve *c, double value) {
  if (c->columns == 0) {
    c->first = value;
    c->width = c->in_last = 1; /* as if a column before the first were full */
  }
  c->last = value;
  if (c->in_last == c->width) {
    if (c->columns == HR_CURVE) {
      for (size_t i = 0; i < HR_CURVE / 2; i++)
        c->sum[i] = c->sum[2 * i] + c->sum[2 * i + 1];
      c->columns = HR_CURVE / 2;
      c->width *= 2;
    }
    c->sum[c->columns++] = 0;
    c->in_last = 0;
  }
  c->sum[c->columns - 1] += value;
  c->in_last++;
}

/* Mean of columns [from, to). */
static double mean_of(const hr_curve *c, size_t from, size_t to) {
  double sum = 0;
  size_t values = 0;
  for (size_t i = from; i < to; i++) {
    sum += c->sum[i];
    values += i + 1 < c->columns ? c->width : c->in_last;
  }
  return sum / (double)values;
}

const char *hr__curve_text(const hr_curve *c, size_t columns, bool blocks, char *out) {
  static const char *const bars[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  static const char plain[] = "_.-~=+*#";
  out[0] = 0;
  if (columns > c->columns) columns = c->columns;
  if (columns < 2) return out;
  double mean[HR_CURVE], least = INFINITY, most = -INFINITY;
  for (size_t i = 0; i < columns; i++) {
    mean[i] = mean_of(c, i * c->columns / columns, (i + 1) * c->columns / columns);
    least = mean[i] < least ? mean[i] : least;
    most = mean[i] > most ? mean[i] : most;
  }
  size_t used = 0;
  for (size_t i = 0; i < columns; i++) {
    int level = most > least ? (int)((mean[i] - least) / (most - least) * 7.999) : 0;
    if (blocks) {
      memcpy(out + used, bars[level], strlen(bars[level]));
      used += strlen(bars[level]);
    } else {
      out[used++] = plain[level];
    }
  }
  out[used] = 0;
  return out;
}
