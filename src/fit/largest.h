/* The largest value of a setting that fits, by planning.
 *
 * Peaks grow with most settings, but not with every step of them: values may be refused (a batch that does not divide
 * the effective batch), and layouts have gaps. So a range is bracketed and halved over real plans; the answer is a
 * value whose plan fits, and the one behind it was tried as well. Where that is refused, the next one that is not says
 * whether it ends there.
 */
#ifndef HR_FIT_LARGEST_H
#define HR_FIT_LARGEST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

typedef enum hr_trial { HR_TRIAL_FITS, HR_TRIAL_OVER, HR_TRIAL_REFUSED } hr_trial;

typedef struct hr_largest {
  bool found;          /* a value fits */
  int64_t value;       /* the largest; where none fits, the least one that was tried */
  bool ends;           /* there is no value above it */
  int64_t next;        /* unless it ends: the value behind it that does not fit, or is refused */
  hr_trial next_trial; /* which of the two */
  int tried;           /* plans, refused ones included */
} hr_largest;

/* Plans one value. */
typedef hr_status hr_largest_try(void *user, int64_t value, hr_trial *out, hr_error *err);

/* Of the values from `least` to `most`, beginning at `start`. */
hr_status hr__largest(int64_t least, int64_t start, int64_t most, hr_largest_try *attempt, void *user, hr_largest *out,
                      hr_error *err);

#endif
