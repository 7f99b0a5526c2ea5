/* Limits of the process, read from the kernel: see base/limits.h. */
#include "base/limits.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Reads the first line of a small kernel file; 0 when there is none. */
static int line_read(const char *path, char *line, int capacity) {
  FILE *file = fopen(path, "re");
  if (!file) return 0;
  int ok = fgets(line, capacity, file) != NULL;
  fclose(file);
  return ok;
}

/* A walk over the process's own cgroup (v2) and every group above it, innermost first. */
typedef struct group_walk {
  char group[512];
  int done;
} group_walk;

static void walk_begin(group_walk *walk) {
  char line[512];
  *walk = (group_walk){.done = 1};
  FILE *file = fopen("/proc/self/cgroup", "re");
  if (!file) return;
  while (fgets(line, sizeof line, file)) {
    if (strncmp(line, "0::", 3) != 0) continue;
    snprintf(walk->group, sizeof walk->group, "%.*s", (int)strcspn(line + 3, "\n"), line + 3);
    walk->done = 0;
  }
  fclose(file);
}

/* First lines of files of this folder (empty where a file is not there), then moves up. 0 after the root. */
static int walk_next(group_walk *walk, const char *const *names, char lines[][64], int count) {
  if (walk->done) return 0;
  for (int i = 0; i < count; i++) {
    char path[640];
    snprintf(path, sizeof path, "/sys/fs/cgroup%s/%s", walk->group, names[i]);
    if (!line_read(path, lines[i], 64)) lines[i][0] = '\0';
  }
  char *slash = strrchr(walk->group, '/');
  walk->done = !slash;
  if (slash) *slash = '\0';
  return 1;
}

/* Processors a quota is worth, rounded up; `most` when there is no limit. */
static int quota_processors(long long quota, long long period, int most) {
  if (quota <= 0 || period <= 0 || quota / period >= most) return most;
  int whole = (int)((quota + period - 1) / period);
  return whole < 1 ? 1 : whole;
}

int hr__cpu_count(void) {
  cpu_set_t sets[8]; /* 8192 processors */
  int most = sched_getaffinity(0, sizeof sets, sets) == 0 ? CPU_COUNT_S(sizeof sets, sets) : 1;
  if (most < 1) most = 1;
  long long quota = 0, period = 0;
  char line[1][64], old_quota[64], old_period[64];
  group_walk walk;
  for (walk_begin(&walk); walk_next(&walk, (const char *const[]){"cpu.max"}, line, 1);)
    if (sscanf(line[0], "%lld %lld", &quota, &period) == 2) most = quota_processors(quota, period, most);
  if (line_read("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", old_quota, sizeof old_quota) &&
      line_read("/sys/fs/cgroup/cpu/cpu.cfs_period_us", old_period, sizeof old_period) &&
      sscanf(old_quota, "%lld", &quota) == 1 && sscanf(old_period, "%lld", &period) == 1)
    most = quota_processors(quota, period, most);
  return most;
}

/* A field of /proc/meminfo in bytes; UINT64_MAX when it is not there. */
static uint64_t meminfo_bytes(const char *key) {
  FILE *file = fopen("/proc/meminfo", "re");
  if (!file) return UINT64_MAX;
  char line[256];
  uint64_t bytes = UINT64_MAX;
  while (fgets(line, sizeof line, file))
    if (strncmp(line, key, strlen(key)) == 0) bytes = strtoull(line + strlen(key), NULL, 10) * 1024;
  fclose(file);
  return bytes;
}

/* A cgroup's number; UINT64_MAX for "max" and for nothing. */
static uint64_t group_number(const char *line) {
  unsigned long long number;
  return sscanf(line, "%llu", &number) == 1 ? number : UINT64_MAX;
}

/* The least limit over all groups, less what is in use there where `count_used` says so. */
static uint64_t groups_leave(int count_used) {
  static const char *const names[] = {"memory.max", "memory.current"};
  uint64_t least = UINT64_MAX;
  char line[2][64], old_limit[64], old_used[64];
  group_walk walk;
  for (walk_begin(&walk); walk_next(&walk, names, line, 2);) {
    uint64_t limit = group_number(line[0]), used = count_used && line[1][0] ? group_number(line[1]) : 0;
    if (limit == UINT64_MAX) continue;
    uint64_t left = used < limit ? limit - used : 0;
    if (left < least) least = left;
  }
  if (line_read("/sys/fs/cgroup/memory/memory.limit_in_bytes", old_limit, sizeof old_limit) &&
      line_read("/sys/fs/cgroup/memory/memory.usage_in_bytes", old_used, sizeof old_used)) {
    uint64_t limit = group_number(old_limit), used = count_used ? group_number(old_used) : 0;
    uint64_t left = used < limit ? limit - used : 0;
    if (left < least) least = left;
  }
  return least;
}

uint64_t hr__memory_limit_bytes(void) {
  uint64_t machine = meminfo_bytes("MemTotal:"), groups = groups_leave(0);
  return groups < machine ? groups : machine;
}

uint64_t hr__memory_available_bytes(void) {
  uint64_t machine = meminfo_bytes("MemAvailable:"), groups = groups_leave(1);
  return groups < machine ? groups : machine;
}
