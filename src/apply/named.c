/* Configs that another config names. See reading.h. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apply/reading.h"
#include "format/file.h"

/* False where it is not there, or (`why` has a message) cannot be read. */
static bool config_open(const char *path, hr_arena *arena, hr_applied_file *out, hr_error *why) {
  char *text, real[PATH_MAX];
  size_t bytes;
  *out = (hr_applied_file){0};
  *why = (hr_error){0};
  if (!realpath(path, real)) return false;
  const char *name = hr__arena_text(arena, real);
  if (!name) hr__nomem(why);
  if (!name || hr__file_read(name, HR_DOC_MAX_BYTES, arena, &text, &bytes, why) != HR_OK ||
      hr__config_parse(name, text, bytes, arena, &out->config, why) != HR_OK)
    return false;
  out->config.real = name;
  return true;
}

bool hr__reading_named(const hr_applied_file *by, const char *path, hr_arena *arena, hr_applied_file *out,
                       hr_error *why) {
  char folder[PATH_MAX], whole[PATH_MAX];
  if (config_open(path, arena, out, why)) return true;
  if (*why->message || path[0] == '/' || !by->config.real || strlen(by->config.real) >= sizeof folder) return false;
  strcpy(folder, by->config.real);
  for (char *slash; !*why->message && (slash = strrchr(folder, '/')) != NULL;) {
    *slash = '\0';
    if (snprintf(whole, sizeof whole, "%s/%s", folder, path) < (int)sizeof whole && config_open(whole, arena, out, why))
      return true;
  }
  return false;
}
