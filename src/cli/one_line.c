/* See one_line.h. */
#include "cli/one_line.h"

#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/files.h"
#include "data/source.h"
#include "format/rows.h"

/* Whether a folder has a file that ends as one of a list does. */
static bool folder_has(hr_cli *cli, const char *folder, const char *endings) {
  const char *pattern = hr__arena_format(&cli->arena, "%s/*", folder);
  glob_t found;
  bool any = false;
  if (!pattern || glob(pattern, GLOB_NOSORT, NULL, &found) != 0) return false;
  for (size_t i = 0; i < found.gl_pathc && !any; i++)
    any = hr__data_ends_as(found.gl_pathv[i], endings);
  globfree(&found);
  return any;
}

/* What reads a path: what its ending says, of a folder that of its files. */
static const char *source_of(hr_cli *cli, const char *path) {
  static const struct { const char *endings, *source; } kinds[] = {{HR_ROWS_ENDINGS, "rows"}, {HR_IDS_ENDINGS, "ids"}};
  struct stat facts;
  bool folder = stat(path, &facts) == 0 && S_ISDIR(facts.st_mode);
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (folder ? folder_has(cli, path, kinds[i].endings) : hr__data_ends_as(path, kinds[i].endings))
      return kinds[i].source;
  return "text";
}

static bool given(const hr_cli *cli, const char *key) {
  size_t length = strlen(key);
  for (size_t i = 0; i < cli->n_overrides; i++)
    if (strncmp(cli->overrides[i], key, length) == 0 && cli->overrides[i][length] == '=') return true;
  return false;
}

/* A path as a value of a setting, whatever signs it has: in single quotes, which are doubled inside. */
static const char *quoted(hr_cli *cli, const char *path) {
  char *out = hr__arena_array(&cli->arena, 2 * strlen(path) + 3, 1), *at = out;
  if (!out) return NULL;
  *at++ = '\'';
  for (; *path; path++) {
    if (*path == '\'') *at++ = '\'';
    *at++ = *path;
  }
  *at++ = '\'';
  *at = 0;
  return out;
}

/* Relative paths of flags begin here, wherever the recipe lies. */
static hr_status path_add(hr_cli *cli, const char *key, const char *path, hr_error *err) {
  char here[PATH_MAX];
  if (*path != '/' && !getcwd(here, sizeof here)) return hr__fail_errno(err, ".", "find the name of", errno);
  const char *whole = *path == '/' ? path : hr__arena_format(&cli->arena, "%s/%s", here, path);
  const char *value = whole ? quoted(cli, whole) : NULL;
  return value ? hr__cli_override(cli, err, "%s=%s", key, value) : hr__nomem(err);
}

hr_status hr__one_line_flags(hr_cli *cli, hr_error *err) {
  const char *model = hr__cli_value(cli, "model"), *data = hr__cli_value(cli, "data");
  double epochs;
  if (!model && cli->n_arguments == 0)
    return hr__fail(err, HR_USAGE, NULL, "headroom train RECIPE, or headroom train --model DIR --data FILE",
                    "headroom train needs a recipe or a model");
  if (model && cli->n_arguments > 0) HR_TRY(path_add(cli, "model.path", model, err));
  if (model && cli->n_arguments == 0) cli->arguments[cli->n_arguments++] = model;
  if (data && !given(cli, "data.source")) HR_TRY(hr__cli_override(cli, err, "data.source=%s", source_of(cli, data)));
  if (data) HR_TRY(path_add(cli, "data.path", data, err));
  HR_TRY(hr__cli_float(cli, "epochs", 1e-6, 1e9, 0, &epochs, err));
  if (epochs > 0) HR_TRY(hr__cli_override(cli, err, "training.epochs=%.9g", epochs));
  return hr__cli_size_override(cli, "gpu-memory", "memory.budget", err);
}
