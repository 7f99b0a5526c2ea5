/* safetensors: strict reader and streaming writer.
 *
 * Rules: header length <= 100,000,000 and inside the file; UTF-8 JSON that starts with '{', no duplicate keys; offsets
 * in order cover the data exactly (no overlap, no holes, no trailing bytes); shape products checked; bytes = shape x
 * dtype;
 * __metadata__ maps strings to strings; at most 2^17 tensors, names of at most 1024 bytes, rank <= 8.
 */
#ifndef HR_FORMAT_SAFETENSORS_H
#define HR_FORMAT_SAFETENSORS_H

#include "base/hash.h"
#include "base/mem.h"
#include "base/status.h"

enum { HR_SAFETENSORS_RANK = 8 };

typedef struct hr_safetensor {
  const char *name;
  const char *dtype; /* as in the file: "F32", "BF16", ... one of the known types */
  int rank;
  int64_t dim[HR_SAFETENSORS_RANK];
  uint64_t begin, end; /* bytes from the start of the data */
} hr_safetensor;

typedef struct hr_safetensors hr_safetensors; /* an open file, or several joined by an index */

/* Opens one .safetensors file, or a *.safetensors.index.json with its shards (names may not leave the folder). */
hr_status hr__safetensors_open(const char *path, hr_safetensors **out, hr_error *err);
/* Header of a file given as memory: what the fuzzer feeds. `file_bytes` is the length the file claims to have. */
hr_status hr__safetensors_parse(const char *name, const void *head, size_t head_bytes, uint64_t file_bytes,
                                hr_safetensors **out, hr_error *err);
void hr__safetensors_close(hr_safetensors *file);

size_t hr__safetensors_count(const hr_safetensors *file);
const hr_safetensor *hr__safetensors_at(const hr_safetensors *file, size_t index);     /* sorted by name */
size_t hr__safetensors_index(const hr_safetensors *file, const hr_safetensor *tensor); /* of one that it gave */
const hr_safetensor *hr__safetensors_find(const hr_safetensors *file, const char *name);
const char *hr__safetensors_metadata(const hr_safetensors *file, const char *key); /* NULL when absent */
/* pread of bytes [offset, offset + bytes) of a tensor. A short read is HR_BAD_INPUT (truncated). */
hr_status hr__safetensors_read(hr_safetensors *file, const hr_safetensor *tensor, uint64_t offset, void *data,
                               size_t bytes, hr_error *err);

/* Writer: declare all tensors, then feed their data in declared order in pieces of any size. Writes path as it is given
 * (the caller renames); hashes what it writes. */
typedef struct hr_safetensors_writer hr_safetensors_writer;
/* Length of the file that a writer with this declaration makes. */
hr_status hr__safetensors_file_bytes(const hr_safetensor *tensors, size_t count, const char *const *metadata,
                                     uint64_t *bytes, hr_error *err);
hr_status hr__safetensors_writer_open(const char *path, const hr_safetensor *tensors, size_t count,
                                      const char *const *metadata /* key, value, ..., NULL */,
                                      hr_safetensors_writer **out, hr_error *err);
hr_status hr__safetensors_writer_put(hr_safetensors_writer *writer, const void *data, size_t bytes, hr_error *err);
/* Checks that all bytes came, fdatasync, close. `hex` receives XXH3-128 of the file, `bytes` its length. */
hr_status hr__safetensors_writer_finish(hr_safetensors_writer *writer, char hex[HR_SHA256_HEX], uint64_t *bytes,
                                        hr_error *err);
void hr__safetensors_writer_destroy(hr_safetensors_writer *writer); /* also after a failure; leaves the file */

#endif
