/* See files.h. */
#include "data/files.h"

#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* Files on their way into the list. */
typedef struct finding {
  const hr_recipe *recipe;
  const char *key, *endings;
  hr_data_files *out;
  size_t capacity;
} finding;

static hr_status file_add(finding *f, const char *path, hr_error *err) {
  hr_data_files *out = f->out;
  if (hr__arena_grow(&out->arena, (void **)&out->list, &f->capacity, out->count, sizeof *out->list) != 0)
    return hr__nomem(err);
  out->list[out->count] = (hr_data_file){.path = hr__arena_text(&out->arena, path), .fd = -1};
  return out->list[out->count++].path ? HR_OK : hr__nomem(err);
}

bool hr__data_ends_as(const char *name, const char *endings) {
  size_t length = strlen(name);
  for (const char *at = endings; at; at = strchr(at, '|')) {
    at += *at == '|';
    size_t ending = strcspn(at, "|");
    if (length > ending && strncmp(name + length - ending, at, ending) == 0) return true;
  }
  return false;
}

static int by_bytes(const void *a, const void *b) {
  return strcmp(((const hr_data_file *)a)->path, ((const hr_data_file *)b)->path);
}

/* Puts the files from number `first` on in order; false: there are none. */
static bool sorted_from(finding *f, size_t first) {
  size_t count = f->out->count - first;
  if (count > 0) qsort(f->out->list + first, count, sizeof *f->out->list, by_bytes);
  return count > 0;
}

static hr_status folder_read(finding *f, const char *path, DIR *folder, hr_error *err) {
  for (struct dirent *entry; errno = 0, (entry = readdir(folder)) != NULL;) {
    if (entry->d_name[0] == '.' || !hr__data_ends_as(entry->d_name, f->endings)) continue;
    struct stat facts;
    const char *file = hr__arena_format(&f->out->arena, "%s/%s", path, entry->d_name);
    if (!file) return hr__nomem(err);
    if (stat(file, &facts) == 0 && S_ISREG(facts.st_mode)) HR_TRY(file_add(f, file, err));
  }
  return errno == 0 ? HR_OK : hr__fail_errno(err, path, "list", errno);
}

static hr_status folder_add(finding *f, const char *path, hr_error *err) {
  size_t first = f->out->count;
  DIR *folder = opendir(path);
  if (!folder) return hr__fail_errno(err, path, "open", errno);
  hr_status status = folder_read(f, path, folder, err);
  closedir(folder);
  HR_TRY(status);
  if (sorted_from(f, first)) return HR_OK;
  char endings[128];
  snprintf(endings, sizeof endings, "%s", f->endings);
  for (char *bar; (bar = strchr(endings, '|'));)
    *bar = ' ';
  return hr__fail(err, HR_BAD_INPUT, path, "name its files with a pattern: FOLDER/*",
                  "no file of this folder is one of source %s: %s", hr__recipe_text(f->recipe, "data.source"), endings);
}

static hr_status pattern_add(finding *f, const char *path, hr_error *err) {
  glob_t found;
  size_t first = f->out->count;
  int failed = glob(path, GLOB_NOSORT, NULL, &found);
  hr_status status = failed == GLOB_NOSPACE ? hr__nomem(err) : HR_OK;
  for (size_t i = 0; failed == 0 && i < found.gl_pathc && status == HR_OK; i++) {
    struct stat facts;
    if (stat(found.gl_pathv[i], &facts) == 0 && S_ISREG(facts.st_mode)) status = file_add(f, found.gl_pathv[i], err);
  }
  globfree(&found);
  HR_TRY(status);
  if (sorted_from(f, first)) return HR_OK;
  return hr__recipe_fail(f->recipe, f->key, "check the pattern; relative ones begin at the recipe's folder", err,
                         "the pattern \"%s\" matches no file", path);
}

/* What is there by its name is taken as it is, whatever characters that has. */
static hr_status path_add(finding *f, const char *path, hr_error *err) {
  struct stat facts;
  if (stat(path, &facts) == 0) return S_ISDIR(facts.st_mode) ? folder_add(f, path, err) : file_add(f, path, err);
  return strpbrk(path, "*?[") ? pattern_add(f, path, err) : file_add(f, path, err);
}

hr_status hr__data_files_find(const hr_recipe *recipe, const char *key, const char *endings, hr_data_files *out,
                              hr_error *err) {
  *out = (hr_data_files){0};
  hr__arena_init(&out->arena);
  finding f = {.recipe = recipe, .key = key, .endings = endings, .out = out};
  if (!hr__recipe_has(recipe, key))
    return hr__recipe_fail(recipe, "data.source", "give data.path, or use source: synthetic", err,
                           "source %s needs data.path", hr__recipe_text(recipe, "data.source"));
  size_t count;
  const char *const *paths = hr__recipe_texts(recipe, key, &count);
  for (size_t i = 0; i < count; i++)
    HR_TRY(path_add(&f, paths[i], err));
  return HR_OK;
}

hr_status hr__data_files_open(hr_data_files *files, hr_error *err) {
  files->begins = hr__arena_array(&files->arena, files->count + 1, sizeof *files->begins);
  if (!files->begins) return hr__nomem(err);
  for (size_t i = 0; i < files->count; i++) {
    files->begins[i] = files->bytes;
    HR_TRY(hr__data_file_at(files->list[i].path, &files->list[i], err));
    files->bytes += files->list[i].bytes;
  }
  files->begins[files->count] = files->bytes;
  return HR_OK;
}

uint64_t hr__data_files_bytes(const hr_data_files *files) {
  uint64_t bytes = 0;
  struct stat facts;
  for (size_t i = 0; i < files->count; i++)
    if (stat(files->list[i].path, &facts) == 0) bytes += (uint64_t)facts.st_size;
  return bytes;
}

void hr__data_files_close(hr_data_files *files) {
  for (size_t i = 0; i < files->count; i++)
    hr__data_file_close(&files->list[i]);
  hr__arena_fini(&files->arena);
  *files = (hr_data_files){0};
}

size_t hr__data_files_at(const hr_data_files *files, uint64_t at) {
  size_t low = 0, high = files->count - 1;
  while (low < high) { /* the last one that begins at or before it; empty ones before that are passed over */
    size_t middle = (low + high + 1) / 2;
    if (files->begins[middle] <= at)
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

hr_status hr__data_files_read(const hr_data_files *files, uint64_t at, void *to, size_t bytes, hr_error *err) {
  for (size_t i = hr__data_files_at(files, at), got = 0; got < bytes; i++) {
    uint64_t from = at + got - files->begins[i], left = files->begins[i + 1] - files->begins[i] - from;
    size_t here = bytes - got < left ? bytes - got : (size_t)left;
    HR_TRY(hr__data_file_read(&files->list[i], from, (char *)to + got, here, err));
    got += here;
  }
  return HR_OK;
}
