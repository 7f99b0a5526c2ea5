/* Replays files through a fuzz target, for builds without libFuzzer: arguments are files or folders of files. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(const char *path) {
  FILE *file = fopen(path, "rb");
  struct stat facts;
  if (!file || fstat(fileno(file), &facts) != 0) {
    fprintf(stderr, "replay: cannot read %s\n", path);
    return -1;
  }
  size_t size = (size_t)facts.st_size;
  uint8_t *data = malloc(size ? size : 1); /* exactly as large, so that a sanitizer sees reads beyond it */
  if (!data || fread(data, 1, size, file) != size) return -1;
  fclose(file);
  LLVMFuzzerTestOneInput(data, size);
  free(data);
  return 1;
}

/* Number of files replayed, negative on failure. */
static int replay(const char *path) {
  DIR *folder = opendir(path);
  if (!folder) return replay_file(path);
  int count = 0;
  for (struct dirent *entry; (entry = readdir(folder));) {
    if (entry->d_name[0] == '.') continue;
    char inner[4096];
    snprintf(inner, sizeof inner, "%s/%s", path, entry->d_name);
    int replayed = replay(inner);
    if (replayed < 0) return replayed;
    count += replayed;
  }
  closedir(folder);
  return count;
}

int main(int argc, char **argv) {
  int count = 0;
  for (int i = 1; i < argc; i++) {
    int replayed = replay(argv[i]);
    if (replayed < 0) return 1;
    count += replayed;
  }
  printf("%d inputs replayed\n", count);
  return count ? 0 : 1;
}
