/* GGUF: reader of versions 2 and 3, little endian.
 *
 * Everything is checked before anybody sees it: counts, lengths, types and offsets; keys and names are UTF-8, given
 * once; tensors are aligned, lie inside the file and do not overlap. Arrays hold no arrays.
 */
#ifndef HR_FORMAT_GGUF_H
#define HR_FORMAT_GGUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"
#include "base/status.h"

enum { HR_GGUF_RANK = 4 };

typedef enum hr_gguf_kind { /* as the file numbers them */
                            HR_GGUF_U8,
                            HR_GGUF_I8,
                            HR_GGUF_U16,
                            HR_GGUF_I16,
                            HR_GGUF_U32,
                            HR_GGUF_I32,
                            HR_GGUF_F32,
                            HR_GGUF_BOOL,
                            HR_GGUF_STRING,
                            HR_GGUF_ARRAY,
                            HR_GGUF_U64,
                            HR_GGUF_I64,
                            HR_GGUF_F64
} hr_gguf_kind;

typedef struct hr_gguf_text {
  const char *text; /* not NUL-terminated, any bytes */
  size_t bytes;
} hr_gguf_text;

typedef struct hr_gguf_value {
  const char *key;
  hr_gguf_kind kind, item;   /* item: of an array */
  size_t count;              /* of an array; 1 otherwise */
  const unsigned char *at;   /* numbers as the file has them, one after the other */
  const hr_gguf_text *texts; /* strings instead */
} hr_gguf_value;

typedef struct hr_gguf_tensor {
  const char *name;
  uint32_t type; /* as the file numbers them: hr__gguf_type_name, gguf_blocks.h */
  int rank;
  int64_t dim[HR_GGUF_RANK]; /* as in safetensors: the last varies fastest (the file has them the other way round) */
  int64_t elements;
  uint64_t begin, end; /* bytes from the start of the data */
} hr_gguf_tensor;

typedef struct hr_gguf hr_gguf;

bool hr__gguf_is_name(const char *path); /* whether a path ends as such files do */

/* The header is read through a window; what it holds is copied, so that the two take about as much as the file's
 * header. */
hr_status hr__gguf_open(const char *path, hr_gguf **out, hr_error *err);
/* The same for those who want settings and tensors: long lists, such as the vocabulary, are there without items. */
hr_status hr__gguf_open_lean(const char *path, hr_gguf **out, hr_error *err);
/* The same from memory, for headers alone: `file_bytes` is the length the file claims to have. */
hr_status hr__gguf_parse(const char *name, const void *head, size_t head_bytes, uint64_t file_bytes, hr_gguf **out,
                         hr_error *err);
uint64_t hr__gguf_head_bytes(const hr_gguf *file); /* before the first byte of data: keys, and what tensors there are */
void hr__gguf_close(hr_gguf *file);                /* NULL is fine */

uint32_t hr__gguf_version(const hr_gguf *file);
size_t hr__gguf_value_count(const hr_gguf *file);
const hr_gguf_value *hr__gguf_value_at(const hr_gguf *file, size_t index); /* sorted by key */
const hr_gguf_value *hr__gguf_value(const hr_gguf *file, const char *key); /* NULL when absent */
size_t hr__gguf_count(const hr_gguf *file);
const hr_gguf_tensor *hr__gguf_at(const hr_gguf *file, size_t index); /* sorted by name */
const hr_gguf_tensor *hr__gguf_find(const hr_gguf *file, const char *name);

/* Item `index` of a value (0 for one that is no array); false: it has none, or is of another kind. Numbers of any width
 * are integers where they fit 64 bits with sign; a float is none. */
bool hr__gguf_integer(const hr_gguf_value *value, size_t index, int64_t *out);
bool hr__gguf_real(const hr_gguf_value *value, size_t index, double *out); /* integers too */
bool hr__gguf_bool(const hr_gguf_value *value, size_t index, bool *out);
bool hr__gguf_string(const hr_gguf_value *value, size_t index, hr_gguf_text *out);

/* Bytes [offset, offset + bytes) of a tensor, as they lie. */
hr_status hr__gguf_read(const hr_gguf *file, const hr_gguf_tensor *tensor, uint64_t offset, void *data, size_t bytes,
                        hr_error *err);
/* Elements [first, first + count) as f32, whatever their type; both are multiples of the type's block. */
hr_status hr__gguf_read_f32(const hr_gguf *file, const hr_gguf_tensor *tensor, int64_t first, int64_t count, float *out,
                            hr_error *err);

#endif
