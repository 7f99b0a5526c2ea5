/* A thread that calls a function again and again beside what the caller does: progress of what cannot draw its own. */
#ifndef HR_BASE_TICKER_H
#define HR_BASE_TICKER_H

typedef struct hr_ticker hr_ticker;

/* Calls tick(user) `first` seconds from now and then every `next` seconds. NULL: there is no memory or no thread. */
hr_ticker *hr__ticker_start(double first, double next, void (*tick)(void *user), void *user);

/* No tick runs between them: for what it reads. */
void hr__ticker_hold(hr_ticker *ticker);
void hr__ticker_release(hr_ticker *ticker);

/* Returns when no tick runs any more. `ticker` may be NULL. */
void hr__ticker_stop(hr_ticker *ticker);

#endif
