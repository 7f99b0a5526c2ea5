/* What this process may use of the machine: affinity and the limits of its control groups, whichever is the least on
 * the way from its own group up to the highest that can be seen (cgroup.h). */
#ifndef HR_BASE_LIMITS_H
#define HR_BASE_LIMITS_H

#include <stdint.h>

/* Processors, at least 1. */
int hr__cpu_count(void);

/* Memory the process and its group may hold in all: the machine's, or less where a group says so. Swap does not add to
 * it: what is swapped out is not trained with. Limits on memory and swap together count, and so does memory.high, above
 * which the kernel holds a process back. */
uint64_t hr__memory_limit_bytes(void);

/* Memory that can still be had now without swapping: what the kernel calls available, and what the groups leave. Pages
 * of files that a group has read and no longer uses are not in the way. */
uint64_t hr__memory_available_bytes(void);

#endif
