/* What this process may use of the machine: affinity and cgroup limits (v2 and v1) respected. */
#ifndef HR_BASE_LIMITS_H
#define HR_BASE_LIMITS_H

#include <stdint.h>

/* Processors, at least 1. */
int hr__cpu_count(void);

/* Memory the process and its group may hold in all: the machine's, or less where a cgroup says so. */
uint64_t hr__memory_limit_bytes(void);

/* Memory that can still be had now without swapping: what the kernel calls available, and what the cgroup leaves. */
uint64_t hr__memory_available_bytes(void);

#endif
