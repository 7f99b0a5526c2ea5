/* bound: what no choice of fit/choose gets below, for one closed setting (see search.h for why). */
#ifndef HR_FIT_BOUND_H
#define HR_FIT_BOUND_H

#include "fit/choose.h"

typedef struct hr_bound {
  double step_seconds;
  uint64_t device_bytes;  /* fixed costs counted */
  uint64_t uncut_bytes;   /* the same of the model alone: what slices of a batch leave as it is */
  size_t n_nodes;         /* with everything kept and nothing moved */
  uint64_t resting_bytes; /* the same: no bound, but what memory is short by */
} hr_bound;

/* Compiles the setting with everything kept and everything on the device. */
hr_status hr__bound(const hr_open *open, hr_bound *out, hr_error *err);

#endif
