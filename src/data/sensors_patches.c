/* Patches of a signal: how many there are, what they are at another number of points, and their statistics. See
 * sensors.h. */
#include <math.h>

#include "data/sensors.h"

/* Of the mean square, so that silence has a logarithm. */
static const double ENERGY_FLOOR = 1e-6;

int64_t hr__patch_samples(double seconds, double rate) {
  return (int64_t)(seconds * rate);
}

int64_t hr__patch_count(int64_t rows, int64_t samples) {
  return rows < samples ? 1 : rows / samples;
}

static double sample_of(const hr_patch *p, int64_t i) {
  return i < p->missing ? 0 : p->x[(size_t)(i - p->missing) * p->stride];
}

void hr__patch_resample(const hr_patch *p, int64_t points, float *out) {
  double step = (double)p->samples / (double)points;
  for (int64_t i = 0; i < points; i++) {
    double at = fmax(((double)i + 0.5) * step - 0.5, 0);
    int64_t before = (int64_t)at < p->samples - 1 ? (int64_t)at : p->samples - 1;
    int64_t behind = before < p->samples - 1 ? before + 1 : before;
    double part = at - (double)before;
    out[i] = (float)((1 - part) * sample_of(p, before) + part * sample_of(p, behind));
  }
}

void hr__patch_statistics(const hr_patch *p, double out[HR_STATISTICS]) {
  double least = sample_of(p, 0), most = least, sum = 0, squares = 0, apart = 0, n = (double)p->samples;
  for (int64_t i = 0; i < p->samples; i++) {
    double x = sample_of(p, i);
    least = fmin(least, x);
    most = fmax(most, x);
    sum += x;
    squares += x * x;
  }
  double mean = sum / n, energy = squares / n + ENERGY_FLOOR;
  for (int64_t i = 0; i < p->samples; i++) {
    double d = sample_of(p, i) - mean;
    apart += d * d;
  }
  const double all[HR_STATISTICS] = {least, most, mean, sqrt(apart / n), sqrt(energy), log(energy)};
  for (int i = 0; i < HR_STATISTICS; i++)
    out[i] = all[i];
}
