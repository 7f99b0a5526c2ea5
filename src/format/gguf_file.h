/* Inside of the GGUF reader, shared by its files: gguf.c (the header) and gguf_access.c (what it holds). */
#ifndef HR_FORMAT_GGUF_FILE_H
#define HR_FORMAT_GGUF_FILE_H

#include "format/gguf.h"

struct hr_gguf {
  hr_arena arena; /* everything below */
  const char *path;
  int fd; /* -1: parsed from memory */
  uint32_t version;
  uint64_t data_start;
  hr_gguf_value *values; /* sorted by key */
  size_t value_count;
  hr_gguf_tensor *tensors; /* sorted by name */
  size_t count;
};

extern const size_t hr__gguf_widths[]; /* bytes of a number, by hr_gguf_kind */
/* A little-endian number. */
uint64_t hr__gguf_number_at(const unsigned char *at, size_t bytes);

#endif
