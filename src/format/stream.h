/* A file read from its beginning to its end through a window, with the line and column of every place. Also a text in
 * memory, read the same way. */
#ifndef HR_FORMAT_STREAM_H
#define HR_FORMAT_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct hr_place {
  uint64_t byte;         /* from the beginning of the file */
  uint64_t line, column; /* from 1; a column counts characters */
} hr_place;

typedef struct hr_stream {
  char *path;
  int fd; /* -1: memory */
  uint64_t file_bytes;
  const char *window; /* bytes [window_begin, window_begin + filled) of the file */
  char *room;         /* the window's own memory; NULL: memory of the caller */
  size_t capacity, filled;
  uint64_t window_begin;
  size_t at; /* of the window: the place */
  hr_place place;
} hr_stream;

hr_status hr__stream_open(const char *path, hr_stream *out, hr_error *err);
/* Of bytes that stay until it is closed. */
hr_status hr__stream_of(const char *name, const void *data, size_t bytes, hr_stream *out, hr_error *err);
void hr__stream_close(hr_stream *stream);

/* Fetches more of the file until the window reaches beyond at + ahead; *there is false where the file ends before. */
hr_status hr__stream_fetch(hr_stream *stream, size_t ahead, bool *there, hr_error *err);
static inline hr_status hr__stream_see(hr_stream *stream, size_t ahead, bool *there, hr_error *err) {
  *there = stream->filled - stream->at > ahead;
  return *there ? HR_OK : hr__stream_fetch(stream, ahead, there, err);
}
/* Goes on by bytes that have been seen. */
void hr__stream_skip(hr_stream *stream, size_t bytes);
void hr__stream_go(hr_stream *stream, hr_place place);

#endif
