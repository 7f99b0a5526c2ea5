/* SIGINT and SIGTERM during training: the first one asks for a save and a stop, a second one ends the process at once.
 * A signal that the process was started to ignore (nohup, a job in the background) stays ignored. */
#ifndef HR_TRAIN_SIGNALS_H
#define HR_TRAIN_SIGNALS_H

void hr__signals_begin(void); /* installs the handlers and forgets earlier signals */
int hr__signals_caught(void); /* 0, SIGINT or SIGTERM */
void hr__signals_end(void);   /* puts back what was there before */

#endif
