/* See find.h. */
#include "watch/find.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool hr__find_is_run(const char *folder) {
  static const char beginning[] = "{\"schema\":";
  char path[PATH_MAX], bytes[sizeof beginning];
  snprintf(path, sizeof path, "%s/log.jsonl", folder);
  int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return false;
  ssize_t n = read(fd, bytes, sizeof beginning - 1);
  close(fd);
  return n == sizeof beginning - 1 && memcmp(bytes, beginning, sizeof beginning - 1) == 0;
}

static hr_status found_add(hr_run_folders *found, const char *folder, hr_arena *arena, hr_error *err) {
  if (hr__arena_grow(arena, (void **)&found->folders, &found->capacity, found->count, sizeof *found->folders) != 0 ||
      !(found->folders[found->count] = hr__arena_text(arena, folder)))
    return hr__nomem(err);
  found->count++;
  return HR_OK;
}

static bool is_folder(const char *path) {
  struct stat facts;
  return lstat(path, &facts) == 0 && S_ISDIR(facts.st_mode);
}

static hr_status below(const char *folder, int depth, hr_arena *arena, hr_run_folders *found, hr_error *err) {
  if (found->looked++ >= HR_FIND_FOLDERS) return HR_OK;
  if (hr__find_is_run(folder)) return found_add(found, folder, arena, err);
  DIR *list = depth < HR_FIND_DEPTH ? opendir(folder) : NULL;
  if (!list) return HR_OK;
  hr_status status = HR_OK;
  for (struct dirent *entry; status == HR_OK && (entry = readdir(list)) != NULL;) {
    char path[PATH_MAX];
    bool plain = strcmp(folder, ".") == 0;
    if (entry->d_name[0] == '.' || strncmp(entry->d_name, "generation-", 11) == 0) continue;
    if (entry->d_type != DT_DIR && entry->d_type != DT_UNKNOWN) continue;
    int n = snprintf(path, sizeof path, "%s%s%s", plain ? "" : folder, plain ? "" : "/", entry->d_name);
    if (n < 0 || n >= (int)sizeof path || (entry->d_type == DT_UNKNOWN && !is_folder(path))) continue;
    status = below(path, depth + 1, arena, found, err);
  }
  closedir(list);
  return status;
}

static int by_name(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

hr_status hr__find_runs(const char *folder, hr_arena *arena, hr_run_folders *found, hr_error *err) {
  size_t first = found->count;
  HR_TRY(below(folder, 0, arena, found, err));
  if (found->count > first) qsort(found->folders + first, found->count - first, sizeof *found->folders, by_name);
  return HR_OK;
}
