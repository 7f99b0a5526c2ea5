/* See cgroup.h. */
#include "base/cgroup.h"

#include <stdio.h>
#include <string.h>

enum { LINE = 8192, FOLDER = sizeof((hr_cgroup *)0)->folder };

static const char *system_root = "";

void hr__system_root_set(const char *root) {
  system_root = root;
}
const char *hr__system_root(void) {
  return system_root;
}

static FILE *system_open(const char *path) {
  char whole[LINE];
  snprintf(whole, sizeof whole, "%s%s", system_root, path);
  return fopen(whole, "re");
}

/* Whether a list with commas has `word`. */
static bool list_has(const char *list, const char *word) {
  size_t length = strlen(word);
  for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
    if (strncmp(at, word, length) == 0 && (at[length] == ',' || at[length] == 0)) return true;
  return false;
}

/* The group's path inside its hierarchy: a line is "number:controllers:path", with 0 and no controllers in version 2.
 */
static bool path_find(const char *controller, char path[FOLDER]) {
  char line[LINE];
  bool found = false;
  FILE *file = system_open("/proc/self/cgroup");
  while (file && !found && fgets(line, sizeof line, file)) {
    line[strcspn(line, "\n")] = 0;
    char *controllers = strchr(line, ':'), *at = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!at) continue;
    *at = 0;
    found = controller ? list_has(controllers + 1, controller) : strncmp(line, "0:", 2) == 0 && controllers[1] == 0;
    if (found) snprintf(path, FOLDER, "%s", at + 1);
  }
  if (file) fclose(file);
  return found;
}

/* Spaces and the like are \ooo in mountinfo. */
static void octal_decode(char *text) {
  char *to = text;
  for (const char *from = text; *from; to++) {
    bool code = from[0] == '\\' && from[1] >= '0' && from[1] <= '3' && from[2] >= '0' && from[2] <= '7' &&
                from[3] >= '0' && from[3] <= '7';
    *to = code ? (char)((from[1] - '0') * 64 + (from[2] - '0') * 8 + (from[3] - '0')) : *from;
    from += code ? 4 : 1;
  }
  *to = 0;
}

typedef struct mount {
  char root[FOLDER], point[FOLDER]; /* what part of the hierarchy, and where */
} mount;

/* "36 35 0:31 ROOT POINT options [tags] - TYPE source SUPER-OPTIONS" */
static bool mount_parse(char *line, const char *controller, mount *out) {
  char type[32], options[1024], *tail = strstr(line, " - ");
  if (!tail || sscanf(line, "%*s %*s %*s %4095s %4095s", out->root, out->point) != 2) return false;
  if (sscanf(tail + 3, "%31s %*s %1023s", type, options) != 2) return false;
  if (strcmp(type, controller ? "cgroup" : "cgroup2") != 0 || (controller && !list_has(options, controller)))
    return false;
  octal_decode(out->root);
  octal_decode(out->point);
  if (strcmp(out->root, "/") == 0) out->root[0] = 0;
  return true;
}

/* Whether `path` is at or below `root`. */
static bool is_below(const char *path, const char *root) {
  size_t length = strlen(root);
  return strncmp(path, root, length) == 0 && (path[length] == '/' || path[length] == 0);
}

/* Of several mounts the one that shows the most groups above this one; where none shows it, its own group is taken for
 * the root of the mount, as it is in a container that was given just that. */
static bool mount_find(const char *controller, const char *path, mount *best) {
  char line[LINE];
  mount next;
  bool found = false, shows = false;
  FILE *file = system_open("/proc/self/mountinfo");
  while (file && fgets(line, sizeof line, file)) {
    line[strcspn(line, "\n")] = 0;
    if (!mount_parse(line, controller, &next)) continue;
    bool this_shows = is_below(path, next.root);
    if (found && (!this_shows || (shows && strlen(next.root) >= strlen(best->root)))) continue;
    *best = next;
    found = true;
    shows = this_shows;
  }
  if (file) fclose(file);
  return found;
}

bool hr__cgroup_own(const char *controller, hr_cgroup *out) {
  char path[FOLDER];
  mount where = {.root = ""};
  if (!path_find(controller, path)) return false;
  if (!mount_find(controller, path, &where)) /* where it usually is, for a kernel that does not tell */
    snprintf(where.point, sizeof where.point, "/sys/fs/cgroup%s%s", controller ? "/" : "",
             controller ? controller : "");
  bool seen = is_below(path, where.root) && !is_below(path, "/.."); /* not below the root of the namespace */
  const char *below = seen ? path + strlen(where.root) : "";
  int top = snprintf(out->folder, sizeof out->folder, "%s%s", system_root, where.point);
  if (top < 0 || (size_t)top + strlen(below) + 1 > sizeof out->folder) return false;
  out->top = (size_t)top;
  strcat(out->folder, strcmp(below, "/") == 0 ? "" : below);
  return true;
}

bool hr__cgroup_up(hr_cgroup *group) {
  size_t length = strlen(group->folder);
  if (length <= group->top) return false;
  while (length > group->top && group->folder[length] != '/')
    length--;
  group->folder[length] = 0;
  return true;
}

static FILE *group_open(const hr_cgroup *group, const char *file) {
  char path[FOLDER + 128];
  snprintf(path, sizeof path, "%s/%s", group->folder, file);
  return fopen(path, "re");
}

bool hr__cgroup_line(const hr_cgroup *group, const char *file, char line[HR_CGROUP_LINE]) {
  FILE *from = group_open(group, file);
  if (!from) return false;
  bool read = fgets(line, HR_CGROUP_LINE, from) != NULL;
  fclose(from);
  return read;
}

uint64_t hr__cgroup_number(const hr_cgroup *group, const char *file, const char *key) {
  char line[256];
  unsigned long long number;
  uint64_t found = UINT64_MAX;
  size_t length = key ? strlen(key) : 0;
  FILE *from = group_open(group, file);
  while (from && found == UINT64_MAX && fgets(line, sizeof line, from)) {
    if (key && (strncmp(line, key, length) != 0 || line[length] != ' ')) continue;
    if (sscanf(line + length, "%llu", &number) == 1) found = number;
    if (!key) break;
  }
  if (from) fclose(from);
  return found;
}
