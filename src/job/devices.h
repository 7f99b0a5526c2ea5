/* Answers about devices: what `devices --json` prints, and the library hands out. NULL: out of memory. */
#ifndef HR_JOB_DEVICES_H
#define HR_JOB_DEVICES_H

#include <jansson.h>

#include "plan/rates.h"

/* One device; `cache` is the file that its rates are kept in, or NULL. */
json_t *hr__answer_device(const hr_facts *facts, const hr_rates *rates, const char *cache);

/* Those of this machine, with the rates that are known: `devices --json`. A GPU that cannot be used is left out. */
hr_status hr__answer_devices(json_t **out, hr_error *err);

/* The catalogue: `devices --gpus --json`. */
json_t *hr__answer_gpus(void);

#endif
