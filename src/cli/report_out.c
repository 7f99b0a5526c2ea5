#include "cli/report_out.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "format/file.h"
#include "report/page.h"

enum { MARK_WITHIN = 512 }; /* bytes of a file in which the mark stands */

/* "recipes/demo.yaml" is demo.html here, "out/demo", a run, out/demo/report.html. */
static const char *default_name(hr_cli *cli, bool run, const char *ending) {
  const char *path = cli->arguments[0], *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
  if (run) return hr__arena_format(&cli->arena, "%s/report%s", path, ending);
  const char *dot = strrchr(name, '.');
  bool recipe = dot && (strcmp(dot, ".yaml") == 0 || strcmp(dot, ".yml") == 0 || strcmp(dot, ".json") == 0);
  int length = (int)(recipe && dot > name ? (size_t)(dot - name) : strlen(name));
  bool plain = length > 0 && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
  return hr__arena_format(&cli->arena, "%.*s%s", plain ? length : 6, plain ? name : "report", ending);
}

static hr_status file_check(const char *path, hr_arena *arena, hr_error *err) {
  int fd;
  uint64_t bytes;
  HR_TRY(hr__file_open(path, &fd, &bytes, err));
  char *text = hr__arena_array(arena, MARK_WITHIN + 1, 1);
  ssize_t n = text ? pread(fd, text, MARK_WITHIN, 0) : -1;
  close(fd);
  if (n < 0) return text ? hr__fail_errno(err, path, "read", errno) : hr__nomem(err);
  if (bytes == 0 || memmem(text, (size_t)n, HR_REPORT_MARK, strlen(HR_REPORT_MARK))) return HR_OK;
  return hr__fail(err, HR_USAGE, path, "give another --out, or move it away",
                  "this file is no report, and is not written over");
}

static hr_status folder_check(hr_cli *cli, const char *path, hr_error *err) {
  const char *slash = strrchr(path, '/');
  const char *folder = !slash          ? "."
                       : slash == path ? "/"
                                       : hr__arena_format(&cli->arena, "%.*s", (int)(slash - path), path);
  if (!folder) return hr__nomem(err);
  struct stat facts;
  if (stat(folder, &facts) != 0) return hr__fail_errno(err, folder, "write into", errno);
  if (!S_ISDIR(facts.st_mode)) return hr__fail_errno(err, folder, "write into", ENOTDIR);
  return access(folder, W_OK | X_OK) == 0 ? HR_OK : hr__fail_errno(err, folder, "write into", errno);
}

hr_status hr__report_out(hr_cli *cli, bool run, const char *ending, const char **path, hr_error *err) {
  const char *given = hr__cli_value(cli, "out");
  *path = given ? given : default_name(cli, run, ending);
  if (!*path) return hr__nomem(err);
  if (strcmp(*path, "-") == 0) return HR_OK;
  struct stat facts;
  if (stat(*path, &facts) != 0 && errno == ENOENT) return folder_check(cli, *path, err);
  if (given && S_ISDIR(facts.st_mode))
    return hr__fail(err, HR_USAGE, "--out", "name a file in it, such as report.html", "%s is a folder", *path);
  HR_TRY(file_check(*path, &cli->arena, err));
  return folder_check(cli, *path, err);
}

hr_status hr__report_write(const char *path, const hr_string *text, hr_error *err) {
  if (strcmp(path, "-") != 0) return hr__file_replace(path, text->data, text->count, err);
  if (fwrite(text->data, 1, text->count, stdout) != text->count)
    return hr__fail_errno(err, "standard output", "write", errno != 0 ? errno : EIO);
  return hr__cli_flush(err);
}
