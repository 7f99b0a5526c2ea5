/* SIGHUP, SIGINT and SIGTERM during training: the first one asks for a save and a stop, a second one ends the process
 * at once. A signal that the process was started to ignore (nohup, a job in the background) stays ignored. */
#ifndef HR_TRAIN_SIGNALS_H
#define HR_TRAIN_SIGNALS_H

#include "base/status.h"

void hr__signals_begin(void); /* installs the handlers and forgets earlier signals */
int hr__signals_caught(void); /* number of the first signal; 0: none came */
void hr__signals_end(void);   /* puts back what was there before */

typedef struct hr_stop_signal {
  const char *name;
  hr_status status; /* of a run that it stopped */
} hr_stop_signal;
hr_stop_signal hr__signal_meaning(int number); /* of one that hr__signals_caught gives */

#endif
