/* See largest.h. */
#include "fit/largest.h"

enum { LOOKED_AT = 256 }; /* values behind a refused one, for the next that is not */

typedef struct range {
  int64_t least, most;
  hr_largest_try *attempt;
  void *user;
  hr_error *err;
  int tried;
  int64_t low;         /* fits; least - 1: nothing does so far */
  int64_t high;        /* the least value above `low` that is known not to be one; most + 1: none is */
  hr_trial high_trial; /* what it is */
  int64_t over;        /* the least value above `low` whose plan does not fit; most + 1: none is known */
} range;

/* Plans a value above `low` and below `high`, and moves one of them there. */
static hr_status range_try(range *r, int64_t value, hr_trial *out) {
  r->tried++;
  HR_TRY(r->attempt(r->user, value, out, r->err));
  if (*out == HR_TRIAL_FITS) {
    r->low = value;
  } else {
    r->high = value;
    r->high_trial = *out;
    if (*out == HR_TRIAL_OVER && value < r->over) r->over = value;
  }
  return HR_OK;
}

/* Doubles until a value is none, then halves what lies between. */
static hr_status range_close(range *r) {
  hr_trial trial;
  while (r->high > r->most && r->low < r->most)
    HR_TRY(range_try(r, r->low > r->most / 2 ? r->most : r->low < 1 ? 1 : 2 * r->low, &trial));
  while (r->high - r->low > 1)
    HR_TRY(range_try(r, r->low + (r->high - r->low) / 2, &trial));
  return HR_OK;
}

/* Where the value behind `low` is refused: the next one that is not. *again: it fits, and the search goes on. */
static hr_status range_skip(range *r, bool *again) {
  int64_t refused = r->high, end = r->over - r->low > LOOKED_AT ? r->low + LOOKED_AT : r->over;
  hr_trial trial = HR_TRIAL_REFUSED;
  for (int64_t value = r->low + 2; value < end && trial == HR_TRIAL_REFUSED; value++)
    HR_TRY(range_try(r, value, &trial));
  *again = trial == HR_TRIAL_FITS;
  bool known = *again || r->over <= r->most;
  r->high = known ? r->over : refused;
  r->high_trial = known ? HR_TRIAL_OVER : HR_TRIAL_REFUSED;
  return HR_OK;
}

/* Down from a start that is none, by halves, to one that fits. */
static hr_status range_descend(range *r) {
  hr_trial trial = HR_TRIAL_OVER;
  while (trial != HR_TRIAL_FITS && r->high > r->least)
    HR_TRY(range_try(r, r->high / 2 > r->least ? r->high / 2 : r->least, &trial));
  return HR_OK;
}

hr_status hr__largest(int64_t least, int64_t start, int64_t most, hr_largest_try *attempt, void *user, hr_largest *out,
                      hr_error *err) {
  range r = {.least = least,
             .most = most,
             .attempt = attempt,
             .user = user,
             .err = err,
             .low = least - 1,
             .high = most + 1,
             .high_trial = HR_TRIAL_OVER,
             .over = most + 1};
  hr_trial trial;
  start = start < least ? least : start > most ? most : start;
  HR_TRY(range_try(&r, start, &trial));
  if (trial != HR_TRIAL_FITS) HR_TRY(range_descend(&r));
  for (bool again = r.low >= least; again;) {
    HR_TRY(range_close(&r));
    again = false;
    if (r.high <= most && r.high_trial == HR_TRIAL_REFUSED) HR_TRY(range_skip(&r, &again));
  }
  *out = (hr_largest){.found = r.low >= least,
                      .value = r.low >= least ? r.low : r.high,
                      .ends = r.low == most,
                      .next = r.high,
                      .next_trial = r.high_trial,
                      .tried = r.tried};
  return HR_OK;
}
