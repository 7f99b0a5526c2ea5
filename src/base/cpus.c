/* How many processors this process may use: affinity mask and cgroup quota (v2 and v1). */
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "base/threads.h"

/* Reads the first line of a small kernel file; 0 when there is none. */
static int line_read(const char *path, char *line, int capacity) {
  FILE *file = fopen(path, "re");
  if (!file) return 0;
  int ok = fgets(line, capacity, file) != NULL;
  fclose(file);
  return ok;
}

/* Processors a quota is worth, rounded up; `most` when there is no limit. */
static int quota_processors(long long quota, long long period, int most) {
  if (quota <= 0 || period <= 0 || quota / period >= most) return most;
  int whole = (int)((quota + period - 1) / period);
  return whole < 1 ? 1 : whole;
}

/* cgroup v2: the limit of the process's own group and of every group above it. */
static int unified_limit(int most) {
  char line[512], path[600], limit[64];
  FILE *file = fopen("/proc/self/cgroup", "re");
  if (!file) return most;
  char group[512] = "";
  while (fgets(line, sizeof line, file))
    if (strncmp(line, "0::", 3) == 0) snprintf(group, sizeof group, "%.*s", (int)strcspn(line + 3, "\n"), line + 3);
  fclose(file);
  for (;;) {
    long long quota = 0, period = 0;
    snprintf(path, sizeof path, "/sys/fs/cgroup%s/cpu.max", group);
    if (line_read(path, limit, sizeof limit) && sscanf(limit, "%lld %lld", &quota, &period) == 2)
      most = quota_processors(quota, period, most);
    char *slash = strrchr(group, '/');
    if (!slash) return most;
    *slash = '\0';
  }
}

static int legacy_limit(int most) {
  char quota_text[64], period_text[64];
  long long quota = 0, period = 0;
  if (!line_read("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", quota_text, sizeof quota_text) ||
      !line_read("/sys/fs/cgroup/cpu/cpu.cfs_period_us", period_text, sizeof period_text) ||
      sscanf(quota_text, "%lld", &quota) != 1 || sscanf(period_text, "%lld", &period) != 1)
    return most;
  return quota_processors(quota, period, most);
}

int hr__cpu_count(void) {
  cpu_set_t sets[8]; /* 8192 processors */
  int count = sched_getaffinity(0, sizeof sets, sets) == 0 ? CPU_COUNT_S(sizeof sets, sets) : 1;
  if (count < 1) count = 1;
  return legacy_limit(unified_limit(count));
}
