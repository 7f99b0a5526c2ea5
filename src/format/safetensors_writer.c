/* Writer of one safetensors file: the header is complete before the first data byte, so nothing is ever rewritten and
 * the hash runs along. The header is padded with spaces so that data begins at a multiple of 8. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/sort.h"
#include "base/work.h"
#include "format/doc.h"
#include "format/file.h"
#include "format/safetensors_file.h"

enum { BUFFER_BYTES = 256 << 10 }; /* pieces smaller than this are gathered */

struct hr_safetensors_writer {
  char *path;
  int fd;
  hr_hash *hash;
  uint64_t expected, written; /* bytes of the file */
  size_t buffered;
  hr_arena arena;
  unsigned char *buffer;
};

typedef struct text { /* growing text; `failed` is looked at once, at the end */
  hr_arena *arena;
  char *bytes;
  size_t length, capacity;
  bool failed;
} text;

static void text_put(text *t, const char *bytes, size_t count) {
  if (t->failed) return;
  if (t->capacity - t->length < count) {
    size_t needed, larger;
    t->failed = !hr__add_size(t->length, count, &needed) || !hr__mul_size(needed, 2, &larger);
    char *grown = t->failed ? NULL : hr__arena_alloc(t->arena, larger);
    t->failed = !grown;
    if (t->failed) return;
    if (t->length) memcpy(grown, t->bytes, t->length);
    t->bytes = grown;
    t->capacity = larger;
  }
  memcpy(t->bytes + t->length, bytes, count);
  t->length += count;
}

__attribute__((format(printf, 2, 3))) static void text_format(text *t, const char *format, ...) {
  char piece[96]; /* numbers and fixed words only */
  va_list args;
  va_start(args, format);
  int length = vsnprintf(piece, sizeof piece, format, args);
  va_end(args);
  text_put(t, piece, (size_t)length);
}

static void text_string(text *t, const char *value) {
  text_put(t, "\"", 1);
  for (const char *at = value; *at; at++) {
    if (*at == '"' || *at == '\\')
      text_format(t, "\\%c", *at);
    else if ((unsigned char)*at < 0x20)
      text_format(t, "\\u%04x", (unsigned)*at);
    else
      text_put(t, at, 1);
  }
  text_put(t, "\"", 1);
}

static int name_order(const void *a, const void *b) {
  const hr_safetensor *first = a, *second = b;
  return strcmp(first->name, second->name);
}

static bool text_valid(const char *value) {
  return hr__utf8_check(value, strlen(value)) == strlen(value);
}

/* What the reader would refuse is not written. */
static hr_status declaration_check(const char *path, const hr_safetensor *tensors, size_t count,
                                   const char *const *metadata, hr_arena *arena, hr_error *err) {
  if (count > HR_SAFETENSORS_COUNT)
    return hr__fail(err, HR_FAILURE, path, NULL, "%zu tensors, at most %d can be written", count, HR_SAFETENSORS_COUNT);
  const void **order = hr__arena_array(arena, count, 2 * sizeof *order);
  if (!order) return hr__nomem(err);
  for (size_t i = 0; i < count; i++) {
    const hr_safetensor *tensor = order[i] = &tensors[i];
    uint64_t bytes;
    if (strlen(tensor->name) > HR_SAFETENSORS_NAME || !text_valid(tensor->name) ||
        strcmp(tensor->name, "__metadata__") == 0)
      return hr__fail(err, HR_FAILURE, path, NULL, "\"%.200s\" cannot be the name of a tensor", tensor->name);
    if (tensor->rank < 0 || tensor->rank > HR_SAFETENSORS_RANK ||
        !hr__safetensors_bytes(tensor->dtype, tensor->rank, tensor->dim, &bytes))
      return hr__fail(err, HR_FAILURE, path, NULL, "tensor \"%.200s\" has an impossible dtype or shape", tensor->name);
  }
  hr__sort(order, count, order + count, name_order);
  for (size_t i = 1; i < count; i++)
    if (name_order(order[i - 1], order[i]) == 0)
      return hr__fail(err, HR_FAILURE, path, NULL, "tensor \"%.200s\" is declared twice",
                      ((const hr_safetensor *)order[i])->name);
  for (size_t i = 0; metadata && metadata[i]; i++)
    if (!metadata[i + 1 - i % 2] || !text_valid(metadata[i]))
      return hr__fail(err, HR_FAILURE, path, NULL, "metadata %zu is not a pair of UTF-8 texts", i / 2);
  return HR_OK;
}

static hr_status header_build(const char *path, const hr_safetensor *tensors, size_t count, const char *const *metadata,
                              text *header, uint64_t *data_bytes, hr_error *err) {
  static const char spaces[] = "        ";
  uint64_t at = 0;
  const char *comma = "";
  text_put(header, spaces, 8); /* the length, known at the end */
  text_put(header, "{", 1);
  if (metadata && metadata[0]) {
    text_format(header, "\"__metadata__\":{");
    for (size_t i = 0; metadata[i]; i += 2) {
      text_format(header, "%s", i ? "," : "");
      text_string(header, metadata[i]);
      text_put(header, ":", 1);
      text_string(header, metadata[i + 1]);
    }
    text_put(header, "}", 1);
    comma = ",";
  }
  for (size_t i = 0; i < count; i++, comma = ",") {
    const hr_safetensor *tensor = &tensors[i];
    uint64_t bytes = 0, end;
    hr__safetensors_bytes(tensor->dtype, tensor->rank, tensor->dim, &bytes);
    if (__builtin_add_overflow(at, bytes, &end) || end > INT64_MAX)
      return hr__fail(err, HR_FAILURE, path, NULL, "the tensors are too large together");
    text_format(header, "%s", comma);
    text_string(header, tensor->name);
    text_format(header, ":{\"dtype\":\"%s\",\"shape\":[", tensor->dtype);
    for (int d = 0; d < tensor->rank; d++)
      text_format(header, "%s%lld", d ? "," : "", (long long)tensor->dim[d]);
    text_format(header, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)at, (unsigned long long)end);
    at = end;
  }
  text_put(header, "}", 1);
  text_put(header, spaces, (8 - header->length % 8) % 8);
  if (header->failed) return hr__nomem(err);
  uint64_t length = header->length - 8;
  if (length > HR_SAFETENSORS_HEADER)
    return hr__fail(err, HR_FAILURE, path, NULL, "the header would have %llu bytes, at most %d are possible",
                    (unsigned long long)length, HR_SAFETENSORS_HEADER);
  for (int i = 0; i < 8; i++)
    header->bytes[i] = (char)(length >> 8 * i & 0xff);
  *data_bytes = at;
  return HR_OK;
}

static hr_status buffer_flush(hr_safetensors_writer *writer, hr_error *err) {
  size_t bytes = writer->buffered;
  writer->buffered = 0;
  return hr__file_write_all(writer->fd, writer->path, writer->buffer, bytes, err);
}

static hr_status bytes_put(hr_safetensors_writer *writer, const void *data, size_t bytes, hr_error *err) {
  HR_TRY(hr__hash_update(writer->hash, data, bytes, err));
  writer->written += bytes;
  if (writer->buffered + bytes > BUFFER_BYTES) HR_TRY(buffer_flush(writer, err));
  if (bytes >= BUFFER_BYTES) return hr__file_write_all(writer->fd, writer->path, data, bytes, err);
  if (bytes) memcpy(writer->buffer + writer->buffered, data, bytes);
  writer->buffered += bytes;
  return HR_OK;
}

hr_status hr__safetensors_file_bytes(const hr_safetensor *tensors, size_t count, const char *const *metadata,
                                     uint64_t *bytes, hr_error *err) {
  hr_arena arena = {0};
  text header = {.arena = &arena};
  uint64_t data_bytes = 0;
  hr_status status = header_build("", tensors, count, metadata, &header, &data_bytes, err);
  *bytes = header.length + data_bytes;
  hr__arena_fini(&arena);
  return status;
}

static hr_status writer_open(hr_safetensors_writer *writer, const char *path, const hr_safetensor *tensors,
                             size_t count, const char *const *metadata, hr_error *err) {
  writer->path = hr__arena_text(&writer->arena, path);
  writer->buffer = hr__arena_alloc(&writer->arena, BUFFER_BYTES);
  if (!writer->path || !writer->buffer) return hr__nomem(err);
  HR_TRY(hr__hash_create(HR_HASH_XXH128, &writer->hash, err));
  text header = {.arena = &writer->arena};
  uint64_t data_bytes = 0;
  HR_TRY(declaration_check(path, tensors, count, metadata, &writer->arena, err));
  HR_TRY(header_build(path, tensors, count, metadata, &header, &data_bytes, err));
  writer->expected = header.length + data_bytes;
  writer->fd = hr__file_calls.open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (writer->fd < 0) return hr__fail_errno(err, path, "create", errno);
  return bytes_put(writer, header.bytes, header.length, err);
}

hr_status hr__safetensors_writer_open(const char *path, const hr_safetensor *tensors, size_t count,
                                      const char *const *metadata, hr_safetensors_writer **out, hr_error *err) {
  hr_safetensors_writer *writer = hr__alloc_zero(1, sizeof *writer);
  if (!writer) return hr__nomem(err);
  writer->fd = -1;
  hr_status status = writer_open(writer, path, tensors, count, metadata, err);
  if (status != HR_OK) {
    hr__safetensors_writer_destroy(writer);
    return status;
  }
  *out = writer;
  return HR_OK;
}

hr_status hr__safetensors_writer_put(hr_safetensors_writer *writer, const void *data, size_t bytes, hr_error *err) {
  if (bytes > writer->expected - writer->written)
    return hr__fail(err, HR_FAILURE, writer->path, NULL, "more data than was declared");
  hr__work_advance(bytes);
  return bytes_put(writer, data, bytes, err);
}

hr_status hr__safetensors_writer_finish(hr_safetensors_writer *writer, char hex[HR_SHA256_HEX], uint64_t *bytes,
                                        hr_error *err) {
  if (writer->written != writer->expected)
    return hr__fail(err, HR_FAILURE, writer->path, NULL, "%llu bytes of data are missing",
                    (unsigned long long)(writer->expected - writer->written));
  HR_TRY(buffer_flush(writer, err));
  if (hr__file_calls.fdatasync(writer->fd) != 0) return hr__fail_errno(err, writer->path, "make durable", errno);
  int fd = writer->fd;
  writer->fd = -1;
  if (hr__file_calls.close(fd) != 0 && errno != EINTR) return hr__fail_errno(err, writer->path, "close", errno);
  *bytes = writer->written;
  return hr__hash_hex(writer->hash, hex, err);
}

void hr__safetensors_writer_destroy(hr_safetensors_writer *writer) {
  if (!writer) return;
  if (writer->fd >= 0) hr__file_calls.close(writer->fd);
  hr__hash_destroy(writer->hash);
  hr__arena_fini(&writer->arena);
  hr__free(writer);
}
