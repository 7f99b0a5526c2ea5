/* A process of this machine as the system shows it, in /proc: whether it still runs, what it holds and uses. */
#ifndef HR_WATCH_PROCESS_H
#define HR_WATCH_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct hr_process {
  bool there;  /* such a process runs, and began when it should have */
  bool paused; /* stopped by a signal */
  double cpu;  /* seconds of processor time since it began */
  int64_t threads;
  uint64_t resident_bytes, swapped_bytes;
} hr_process;

/* `start`: when it began (hr_record.process_start); 0: whenever. */
hr_process hr__process_look(int64_t pid, uint64_t start);

#endif
