/* See process.h. */
#include "watch/process.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TEXT = 4096 };

static bool text_read(int64_t pid, const char *name, char out[TEXT]) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%" PRId64 "/%s", pid, name);
  FILE *file = fopen(path, "re");
  size_t n = file ? fread(out, 1, TEXT - 1, file) : 0;
  if (file) fclose(file);
  out[n] = 0;
  return n > 0;
}

/* Fields of stat, as its manual page counts them. They are counted from behind the name, which may hold anything. */
enum { STATE = 3, USER = 14, SYSTEM = 15, THREADS = 20, START = 22, FIELDS = 25 };

static bool fields_split(char *text, const char *field[FIELDS]) {
  char *at = strrchr(text, ')'), *rest = NULL;
  if (!at) return false;
  int count = STATE;
  for (char *word = strtok_r(at + 1, " \n", &rest); word && count < FIELDS; word = strtok_r(NULL, " \n", &rest))
    field[count++] = word;
  return count > START;
}

static uint64_t kilobytes(const char *text, const char *name) {
  const char *at = strstr(text, name);
  return at ? strtoull(at + strlen(name), NULL, 10) * 1024 : 0;
}

hr_process hr__process_look(int64_t pid, uint64_t start) {
  hr_process p = {0};
  char text[TEXT];
  const char *field[FIELDS];
  if (pid <= 0 || !text_read(pid, "stat", text) || !fields_split(text, field)) return p;
  if (field[STATE][0] == 'Z' || field[STATE][0] == 'X') return p;
  if (start > 0 && strtoull(field[START], NULL, 10) != start) return p;
  p.there = true;
  p.paused = field[STATE][0] == 'T' || field[STATE][0] == 't';
  p.cpu = (double)(strtoull(field[USER], NULL, 10) + strtoull(field[SYSTEM], NULL, 10)) / (double)sysconf(_SC_CLK_TCK);
  p.threads = strtoll(field[THREADS], NULL, 10);
  if (!text_read(pid, "status", text)) return p;
  p.resident_bytes = kilobytes(text, "\nVmRSS:");
  p.swapped_bytes = kilobytes(text, "\nVmSwap:");
  return p;
}
