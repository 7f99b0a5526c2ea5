/* See part_folder.h. */
#include "format/part_folder.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[256];

int folder_setup(void **state) {
  (void)state;
  const char *base = getenv("TMPDIR");
  snprintf(folder, sizeof folder, "%s/headroom-test-XXXXXX", base && *base ? base : "/tmp");
  return mkdtemp(folder) ? 0 : -1;
}

/* Calls `each` for every entry; returns their number. */
static size_t folder_walk(int (*each)(const char *path)) {
  size_t count = 0;
  DIR *open = opendir(folder);
  if (!open) return 0;
  for (struct dirent *entry; (entry = readdir(open));) {
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
    count++;
    if (each) each(folder_path(entry->d_name));
  }
  closedir(open);
  return count;
}

int folder_teardown(void **state) {
  (void)state;
  folder_walk(remove);
  return rmdir(folder);
}

size_t folder_count(void) {
  return folder_walk(NULL);
}

const char *folder_path(const char *name) {
  static char paths[8][512];
  static size_t next;
  char *path = paths[next++ % 8];
  snprintf(path, sizeof paths[0], "%s/%s", folder, name);
  return path;
}

void folder_write(const char *name, const void *data, size_t bytes) {
  FILE *file = fopen(folder_path(name), "wb");
  if (!file) abort();
  if (fwrite(data, 1, bytes, file) != bytes || fclose(file) != 0) abort();
}

long folder_read(const char *name, const char **text) {
  static char buffer[1 << 20];
  FILE *file = fopen(folder_path(name), "rb");
  if (!file) return -1;
  size_t bytes = fread(buffer, 1, sizeof buffer - 1, file);
  fclose(file);
  buffer[bytes] = '\0';
  *text = buffer;
  return (long)bytes;
}
