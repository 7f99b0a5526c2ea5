/* Whoever wants to know how far long work on data is. */
#ifndef HR_DATA_WATCH_H
#define HR_DATA_WATCH_H

#include <stdint.h>

typedef struct hr_data_watch {
  /* (optional) `done` of `all` bytes of the files are tokens now. Called often, from the thread that opens the data. */
  void (*tokenized)(void *user, uint64_t done, uint64_t all);
  void *user;
} hr_data_watch;

#endif
