/* The config.json of a checkpoint: the file of a folder, or what a GGUF file says in its place. */
#include <stdio.h>
#include <unistd.h>

#include "format/file.h"
#include "format/gguf.h"
#include "model/gguf.h"
#include "model/stored.h"

static hr_status gguf_text(const char *path, hr_arena *arena, char **text, size_t *bytes, hr_error *err) {
  hr_gguf *file = NULL;
  HR_TRY(hr__gguf_open_lean(path, &file, err));
  hr_status status = hr__gguf_config(file, path, arena, text, bytes, err);
  if (status != HR_OK && err && !err->place[0]) snprintf(err->place, sizeof err->place, "%s", path);
  hr__gguf_close(file);
  return status;
}

hr_status hr__config_text(const char *path, hr_arena *arena, const char **name, char **text, size_t *bytes,
                          hr_error *err) {
  bool gguf = hr__gguf_is_name(path);
  *text = NULL;
  *bytes = 0;
  *name = gguf ? hr__arena_text(arena, path) : hr__arena_format(arena, "%s/config.json", path);
  if (!*name) return hr__nomem(err);
  if (gguf) return gguf_text(path, arena, text, bytes, err);
  if (access(*name, F_OK) != 0) return HR_OK;
  return hr__file_read(*name, HR_DOC_MAX_BYTES, arena, text, bytes, err);
}
