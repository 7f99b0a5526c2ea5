/* Control groups of this process: a walk from its own group up to the highest one that can be seen, in version 2 or 1.
 *
 * /proc/self/cgroup names the group inside its hierarchy, /proc/self/mountinfo where that hierarchy is mounted and
 * which part of it: a container may see its own group as the root, and sees nothing above that.
 */
#ifndef HR_BASE_CGROUP_H
#define HR_BASE_CGROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct hr_cgroup {
  char folder[4096]; /* of the group */
  size_t top;        /* length of the mount point in it: the walk ends there */
} hr_cgroup;

/* The group of the process itself: of the unified hierarchy (controller NULL), or of the one of version 1 that has this
 * controller. False: there is none. */
bool hr__cgroup_own(const char *controller, hr_cgroup *out);
/* The group above; false: that was the highest. */
bool hr__cgroup_up(hr_cgroup *group);

enum { HR_CGROUP_LINE = 64 };
/* The first line of a file of the group; false: it has no such file. */
bool hr__cgroup_line(const hr_cgroup *group, const char *file, char line[HR_CGROUP_LINE]);
/* The number in a file of the group, or behind `key` in a file of keys; UINT64_MAX: it is not there, or "max". */
uint64_t hr__cgroup_number(const hr_cgroup *group, const char *file, const char *key);

/* Folder below which /proc and the mount points are looked for: "" but in tests, which bring a tree of their own. */
void hr__system_root_set(const char *root);
const char *hr__system_root(void);

#endif
