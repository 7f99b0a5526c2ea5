/* Inside of the safetensors reader, shared by its files: safetensors.c (one file), safetensors_index.c (several joined)
 * and safetensors_writer.c. */
#ifndef HR_FORMAT_SAFETENSORS_FILE_H
#define HR_FORMAT_SAFETENSORS_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/safetensors.h"

enum {
  HR_SAFETENSORS_HEADER = 100000000, /* largest header, as in the reference implementation */
  HR_SAFETENSORS_COUNT = 1 << 17,
  HR_SAFETENSORS_NAME = 1024, /* bytes */
  HR_SAFETENSORS_SHARDS = 4096,
  HR_SAFETENSORS_METADATA = 4096, /* pairs */
};

typedef struct hr_safetensors_part { /* one file on disk */
  const char *path;
  int fd;              /* -1: parsed from memory */
  uint64_t data_start; /* byte of the file where tensor offsets count from */
} hr_safetensors_part;

typedef struct hr_safetensors_entry {
  hr_safetensor tensor; /* first: hr__safetensors_read turns a pointer to it back into the entry */
  size_t part;
} hr_safetensors_entry;

struct hr_safetensors {
  hr_arena arena; /* everything below */
  hr_safetensors_part *parts;
  size_t part_count;
  hr_safetensors_entry *entries; /* sorted by name */
  size_t count;
  const char **metadata; /* key, value, key, value, ... */
  size_t metadata_count; /* pairs */
};

/* A dtype name known to the format, as a constant text; NULL when unknown. */
const char *hr__safetensors_dtype(const char *name);

/* Bytes of a tensor; false when dtype is unknown, a product overflows or the bits do not fill whole bytes. */
bool hr__safetensors_bytes(const char *dtype, int rank, const int64_t *dim, uint64_t *bytes);

/* Opens one file that is not an index. */
hr_status hr__safetensors_open_file(const char *path, hr_safetensors **out, hr_error *err);
/* Opens an index and joins its shards. */
hr_status hr__safetensors_open_index(const char *path, hr_safetensors **out, hr_error *err);

/* Sorts entries by name; two of the same name are refused with `place`. */
hr_status hr__safetensors_sort(hr_safetensors *file, const char *place, hr_error *err);

#endif
