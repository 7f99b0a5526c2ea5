/* Points on a hyperboloid (model/hyperbolic.h) that are near one of them. */
#ifndef HR_DATA_NEAREST_H
#define HR_DATA_NEAREST_H

#include <stddef.h>
#include <stdint.h>

/* Numbers of the `count` points [n_points, width] nearest to number `to`, nearest first, with their distances; returns
 * how many there are. */
size_t hr__points_nearest(const float *points, size_t n_points, int64_t width, size_t to, size_t count,
                          int32_t *numbers, double *distances);

#endif
