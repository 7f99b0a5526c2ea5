/* A curve of any length in fixed memory: at most HR_CURVE means over `width` values each. When they are full,
 * neighbours are joined and the width doubles. */
#ifndef HR_WATCH_CURVE_H
#define HR_WATCH_CURVE_H

#include <stdbool.h>
#include <stddef.h>

enum { HR_CURVE = 256 };

typedef struct hr_curve {
  double sum[HR_CURVE];
  size_t columns;     /* in use; the last may be part full */
  size_t width;       /* values of a full column */
  size_t in_last;     /* values of the last column */
  double first, last; /* values */
} hr_curve;

void hr__curve_add(hr_curve *curve, double value); /* of a curve that begins as all zeros */

/* The whole curve as at most `columns` bars, each between the least and the most of them; with block characters or
 * plain ones. Empty where there are fewer than two. Returns `out`, which holds 3 * columns + 1 bytes. */
const char *hr__curve_text(const hr_curve *curve, size_t columns, bool blocks, char *out);

#endif
