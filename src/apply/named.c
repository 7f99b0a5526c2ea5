/* Configs that another config names. See reading.h. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apply/reading.h"
#include "format/file.h"

/* True where it is there; HR_NOMEM aside, whatever else is wrong with it leaves it out. */
static bool config_open(const char *path, hr_arena *arena, hr_applied_file *out) {
  char *text, real[PATH_MAX];
  size_t bytes;
  hr_error why;
  *out = (hr_applied_file){0};
  const char *name = realpath(path, real) ? hr__arena_text(arena, real) : NULL;
  if (!name || hr__file_read(name, HR_DOC_MAX_BYTES, arena, &text, &bytes, &why) != HR_OK ||
      hr__config_parse(name, text, bytes, arena, &out->config, &why) != HR_OK)
    return false;
  out->config.real = name;
  return true;
}

bool hr__reading_named(const hr_applied_file *by, const char *path, hr_arena *arena, hr_applied_file *out) {
  char folder[PATH_MAX], whole[PATH_MAX];
  if (config_open(path, arena, out)) return true;
  if (path[0] == '/' || !by->config.real || strlen(by->config.real) >= sizeof folder) return false;
  strcpy(folder, by->config.real);
  for (char *slash; (slash = strrchr(folder, '/')) != NULL;) {
    *slash = '\0';
    if (snprintf(whole, sizeof whole, "%s/%s", folder, path) < (int)sizeof whole && config_open(whole, arena, out))
      return true;
  }
  return false;
}
