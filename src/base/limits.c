/* Limits of the process, read from the kernel: see base/limits.h. */
#include "base/limits.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cgroup.h"

/* --- processors --------------------------------------------------------------------------------------------------- */

/* Processors a quota is worth, rounded up; `most` when there is no limit. */
static int quota_processors(long long quota, long long period, int most) {
  if (quota <= 0 || period <= 0 || quota / period >= most) return most;
  int whole = (int)((quota + period - 1) / period);
  return whole < 1 ? 1 : whole;
}

static int group_processors(const hr_cgroup *group, bool unified, int most) {
  char line[HR_CGROUP_LINE];
  long long quota = 0, period = 0;
  if (unified)
    return hr__cgroup_line(group, "cpu.max", line) && sscanf(line, "%lld %lld", &quota, &period) == 2
               ? quota_processors(quota, period, most)
               : most;
  if (!hr__cgroup_line(group, "cpu.cfs_quota_us", line) || sscanf(line, "%lld", &quota) != 1) return most;
  if (!hr__cgroup_line(group, "cpu.cfs_period_us", line) || sscanf(line, "%lld", &period) != 1) return most;
  return quota_processors(quota, period, most);
}

int hr__cpu_count(void) {
  cpu_set_t sets[8]; /* 8192 processors */
  int most = sched_getaffinity(0, sizeof sets, sets) == 0 ? CPU_COUNT_S(sizeof sets, sets) : 1;
  if (most < 1) most = 1;
  for (int unified = 0; unified < 2; unified++) {
    hr_cgroup group;
    bool there = hr__cgroup_own(unified ? NULL : "cpu", &group);
    for (; there; there = hr__cgroup_up(&group))
      most = group_processors(&group, unified, most);
  }
  return most;
}

/* --- memory ------------------------------------------------------------------------------------------------------- */

/* A field of /proc/meminfo in bytes; UINT64_MAX when it is not there. */
static uint64_t meminfo_bytes(const char *key) {
  char path[4096], line[256];
  snprintf(path, sizeof path, "%s/proc/meminfo", hr__system_root());
  FILE *file = fopen(path, "re");
  if (!file) return UINT64_MAX;
  uint64_t bytes = UINT64_MAX;
  while (fgets(line, sizeof line, file))
    if (strncmp(line, key, strlen(key)) == 0) bytes = strtoull(line + strlen(key), NULL, 10) * 1024;
  fclose(file);
  return bytes;
}

/* A limit with what is in use of it, in files of a group. */
typedef struct limit_files {
  const char *controller; /* of version 1; NULL: version 2 */
  const char *limit, *limit_key;
  const char *used;
  const char *idle_key; /* in memory.stat: pages of files among what is used that can be dropped */
} limit_files;

static const limit_files limits[] = {
    {NULL, "memory.max", NULL, "memory.current", "inactive_file"},
    {NULL, "memory.high", NULL, "memory.current", "inactive_file"},
    {"memory", "memory.limit_in_bytes", NULL, "memory.usage_in_bytes", "total_inactive_file"},
    {"memory", "memory.memsw.limit_in_bytes", NULL, "memory.memsw.usage_in_bytes", "total_inactive_file"},
    /* the least of all groups above, also of those that cannot be seen from here */
    {"memory", "memory.stat", "hierarchical_memory_limit", "memory.usage_in_bytes", "total_inactive_file"},
    {"memory", "memory.stat", "hierarchical_memsw_limit", "memory.memsw.usage_in_bytes", "total_inactive_file"},
};

/* What a group leaves of a limit; UINT64_MAX: it has none. */
static uint64_t group_leaves(const hr_cgroup *group, const limit_files *files, bool count_used) {
  uint64_t limit = hr__cgroup_number(group, files->limit, files->limit_key);
  if (limit == UINT64_MAX || !count_used) return limit;
  uint64_t used = hr__cgroup_number(group, files->used, NULL);
  uint64_t idle = hr__cgroup_number(group, "memory.stat", files->idle_key);
  if (used == UINT64_MAX) return limit;
  if (idle != UINT64_MAX) used -= idle < used ? idle : used;
  return used < limit ? limit - used : 0;
}

/* The least over all groups and limits, less what is in use there where `count_used` says so. */
static uint64_t groups_leave(bool count_used) {
  uint64_t least = UINT64_MAX;
  for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
    hr_cgroup group;
    bool there = hr__cgroup_own(limits[i].controller, &group);
    for (; there; there = hr__cgroup_up(&group)) {
      uint64_t left = group_leaves(&group, &limits[i], count_used);
      if (left < least) least = left;
    }
  }
  return least;
}

uint64_t hr__memory_limit_bytes(void) {
  uint64_t machine = meminfo_bytes("MemTotal:"), groups = groups_leave(false);
  return groups < machine ? groups : machine;
}

uint64_t hr__memory_available_bytes(void) {
  uint64_t machine = meminfo_bytes("MemAvailable:"), groups = groups_leave(true);
  return groups < machine ? groups : machine;
}
