/* A file of data, opened once: what is open can still be read when its name is gone. */
#ifndef HR_DATA_FILE_H
#define HR_DATA_FILE_H

#include <sys/stat.h>

#include "recipe/recipe.h"

typedef struct hr_data_file {
  const char *path; /* owned by the recipe, or by whoever has opened it */
  int fd;
  uint64_t bytes;
  bool read_whole;    /* at every start, by its source */
  struct stat opened; /* facts of the file then */
} hr_data_file;

/* A plain file by its path, which the caller keeps; what is none is not left open. */
hr_status hr__data_file_at(const char *path, hr_data_file *out, hr_error *err);
void hr__data_file_close(hr_data_file *file);
/* Reads exactly `bytes` bytes; HR_BAD_INPUT when it has become shorter. */
hr_status hr__data_file_read(const hr_data_file *file, uint64_t at, void *to, size_t bytes, hr_error *err);
/* What has happened to it since it was opened ("was removed"); NULL: nothing. */
const char *hr__data_file_fate(const hr_data_file *file);

#endif
