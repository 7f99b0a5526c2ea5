/* See motion.h. */
#include "data/motion.h"

#include <math.h>

static const double PI = 3.14159265358979323846;

static double dot(const double *a, const double *b) {
  return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

void hr__motion_seen(double instant[HR_MOTION_NUMBERS]) {
  const double *place = instant + HR_MOTION_PLACE;
  double range = sqrt(dot(place, place));
  instant[HR_MOTION_RANGE] = range;
  instant[HR_MOTION_BEARING] = atan2(place[1], place[0]);
  instant[HR_MOTION_ELEVATION] = range > 0 ? asin(place[2] / range) : 0;
}

/* Into (-pi, pi]. */
static double turned(double angle) {
  return angle - 2 * PI * ceil((angle - PI) / (2 * PI));
}

static double approach(const double *place, const double *velocity) {
  double distance = sqrt(dot(place, place));
  return distance > 0 ? -dot(place, velocity) / distance : 0;
}

static double lateral(const double *p, const double *v) {
  double speed = sqrt(dot(v, v));
  double across[] = {p[1] * v[2] - p[2] * v[1], p[2] * v[0] - p[0] * v[2], p[0] * v[1] - p[1] * v[0]};
  return speed > 0 ? sqrt(dot(across, across)) / speed : 0;
}

void hr__motion_features(const double motion[HR_MOTION_INSTANTS][HR_MOTION_NUMBERS], double out[HR_MOTION_FEATURES]) {
  enum { LAST = HR_MOTION_INSTANTS - 1 };
  int n = 0;
  for (int i = 0; i <= LAST; i++)
    out[n++] = sqrt(dot(motion[i] + HR_MOTION_PLACE, motion[i] + HR_MOTION_PLACE));
  for (int i = 0; i < LAST; i++)
    out[n++] = motion[i + 1][HR_MOTION_RANGE] - motion[i][HR_MOTION_RANGE];
  for (int i = 0; i <= LAST; i++)
    out[n++] = approach(motion[i] + HR_MOTION_PLACE, motion[i] + HR_MOTION_VELOCITY);
  for (int i = 0; i < LAST; i++)
    out[n++] = turned(motion[i + 1][HR_MOTION_BEARING] - motion[i][HR_MOTION_BEARING]);
  for (int i = 0; i < LAST; i++)
    out[n++] = motion[i + 1][HR_MOTION_ELEVATION] - motion[i][HR_MOTION_ELEVATION];
  for (int i = 0; i <= LAST; i++)
    out[n++] = lateral(motion[i] + HR_MOTION_PLACE, motion[i] + HR_MOTION_VELOCITY);
  for (int i = 0; i <= LAST; i++) {
    int before = i > 0 ? i - 1 : 0, behind = i < LAST ? i + 1 : LAST;
    for (int axis = 0; axis < 3; axis++)
      out[n++] = (motion[behind][HR_MOTION_VELOCITY + axis] - motion[before][HR_MOTION_VELOCITY + axis]) /
                 (double)(behind - before);
  }
}
