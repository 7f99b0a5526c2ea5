/* safetensors headers. What is accepted is written again by our writer, into memory, and must read back the same.
 *
 * First byte 0: the rest is a whole file. First byte 1: two bytes give the number of data bytes, the rest is the JSON
 * header, for which the target writes the right length; otherwise most inputs would end at the length.
 */
#include <string.h>

#include "base/sort.h"
#include "demand.h"
#include "format/file.h"
#include "format/safetensors_file.h"

/* The file the writer makes. */
static struct {
  unsigned char *bytes;
  size_t length, capacity;
} memory;

static int memory_open(const char *path, int flags, unsigned mode) {
  (void)path, (void)flags, (void)mode;
  memory.length = 0;
  return 1 << 20;
}
static long memory_write(int fd, const void *data, size_t bytes) {
  (void)fd;
  if (memory.capacity - memory.length < bytes) {
    memory.capacity = 2 * (memory.length + bytes);
    DEMAND((memory.bytes = realloc(memory.bytes, memory.capacity)));
  }
  memcpy(memory.bytes + memory.length, data, bytes);
  memory.length += bytes;
  return (long)bytes;
}
static int memory_done(int fd) {
  (void)fd;
  return 0;
}

static int offset_order(const void *a, const void *b) {
  const hr_safetensor *first = a, *second = b;
  if (first->begin != second->begin) return first->begin < second->begin ? -1 : 1;
  return first->end < second->end ? -1 : first->end > second->end;
}

static void write_again(const hr_safetensors *file, const unsigned char *data, size_t bytes, char hex[HR_SHA256_HEX]) {
  size_t count = file->count;
  const void **order = malloc((2 * count + 1) * sizeof *order);
  hr_safetensor *tensors = malloc((count + 1) * sizeof *tensors);
  const char **metadata = calloc(2 * file->metadata_count + 1, sizeof *metadata);
  DEMAND(order && tensors && metadata);
  for (size_t i = 0; i < count; i++)
    order[i] = hr__safetensors_at(file, i);
  hr__sort(order, count, order + count, offset_order);
  for (size_t i = 0; i < count; i++)
    tensors[i] = *(const hr_safetensor *)order[i];
  for (size_t i = 0; i < 2 * file->metadata_count; i++)
    metadata[i] = file->metadata[i];
  hr_safetensors_writer *writer = NULL;
  hr_error err;
  uint64_t length;
  hr__file_calls.open = memory_open;
  hr__file_calls.write = memory_write;
  hr__file_calls.fdatasync = memory_done;
  hr__file_calls.close = memory_done;
  DEMAND(hr__safetensors_writer_open("again", tensors, count, metadata, &writer, &err) == HR_OK);
  DEMAND(hr__safetensors_writer_put(writer, data, bytes, &err) == HR_OK);
  DEMAND(hr__safetensors_writer_finish(writer, hex, &length, &err) == HR_OK);
  DEMAND(length == memory.length);
  hr__safetensors_writer_destroy(writer);
  free(order);
  free(tensors);
  free(metadata);
}

static void same(const hr_safetensors *a, const hr_safetensors *b) {
  DEMAND(a->count == b->count && a->metadata_count == b->metadata_count);
  for (size_t i = 0; i < a->count; i++) {
    const hr_safetensor *x = hr__safetensors_at(a, i), *y = hr__safetensors_at(b, i);
    DEMAND(strcmp(x->name, y->name) == 0 && x->dtype == y->dtype && x->rank == y->rank);
    DEMAND(memcmp(x->dim, y->dim, sizeof x->dim) == 0 && x->begin == y->begin && x->end == y->end);
    DEMAND(hr__safetensors_find(a, x->name) == x);
  }
  for (size_t i = 0; i < a->metadata_count; i++)
    DEMAND(strcmp(a->metadata[2 * i + 1], hr__safetensors_metadata(b, a->metadata[2 * i])) == 0);
}

static void file_try(const unsigned char *file, size_t bytes) {
  hr_safetensors *open = NULL, *again = NULL;
  hr_error err = {0};
  hr_status status = hr__safetensors_parse("input", file, bytes, bytes, &open, &err);
  DEMAND(status == HR_OK || (status == HR_BAD_INPUT && err.message[0] && err.place[0] && !open));
  if (status != HR_OK) return;
  char hex[HR_SHA256_HEX], hashed[HR_XXH_HEX];
  size_t start = (size_t)open->parts[0].data_start;
  write_again(open, file + start, bytes - start, hex);
  hr__xxh128_hex(memory.bytes, memory.length, hashed);
  DEMAND(strcmp(hex, hashed) == 0);
  DEMAND(hr__safetensors_parse("again", memory.bytes, memory.length, memory.length, &again, &err) == HR_OK);
  same(open, again);
  size_t moved = (size_t)again->parts[0].data_start;
  DEMAND(moved % 8 == 0 && memory.length - moved == bytes - start);
  DEMAND(memcmp(memory.bytes + moved, file + start, bytes - start) == 0);
  hr__safetensors_close(open);
  hr__safetensors_close(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (!size || data[0] > 1) return 0;
  if (data[0] == 0) {
    file_try(data + 1, size - 1);
    return 0;
  }
  if (size < 3) return 0;
  size_t header = size - 3, data_bytes = (size_t)data[1] | (size_t)data[2] << 8;
  unsigned char *file = calloc(8 + header + data_bytes, 1);
  DEMAND(file);
  for (int i = 0; i < 8; i++)
    file[i] = (unsigned char)((uint64_t)header >> 8 * i & 0xff);
  memcpy(file + 8, data + 3, header);
  for (size_t i = 0; i < data_bytes; i++)
    file[8 + header + i] = (unsigned char)(i * 7);
  file_try(file, 8 + header + data_bytes);
  free(file);
  return 0;
}
