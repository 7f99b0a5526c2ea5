#include "format/stream.h"

#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "format/file.h"

enum { LEAST_WINDOW = 1 << 16 };

static hr_status path_copy(hr_stream *stream, const char *path, hr_error *err) {
  size_t bytes = strlen(path) + 1;
  stream->path = hr__alloc(bytes);
  if (!stream->path) return hr__nomem(err);
  memcpy(stream->path, path, bytes);
  return HR_OK;
}

hr_status hr__stream_open(const char *path, hr_stream *out, hr_error *err) {
  *out = (hr_stream){.fd = -1, .place = {0, 1, 1}};
  HR_TRY(path_copy(out, path, err));
  hr_status status = hr__file_open(path, &out->fd, &out->file_bytes, err);
  if (status != HR_OK) hr__stream_close(out);
  return status;
}

hr_status hr__stream_of(const char *name, const void *data, size_t bytes, hr_stream *out, hr_error *err) {
  *out = (hr_stream){.fd = -1, .file_bytes = bytes, .window = data, .filled = bytes, .place = {0, 1, 1}};
  return path_copy(out, name, err);
}

void hr__stream_close(hr_stream *stream) {
  if (stream->fd >= 0) close(stream->fd);
  hr__free(stream->room);
  hr__free(stream->path);
  *stream = (hr_stream){.fd = -1};
}

/* What was passed goes, and the window grows where what is ahead does not fit. */
static hr_status room_make(hr_stream *stream, size_t ahead, hr_error *err) {
  size_t kept = stream->filled - stream->at, capacity = stream->capacity ? stream->capacity : LEAST_WINDOW;
  while (capacity <= ahead)
    capacity *= 2;
  char *room = stream->room;
  if (capacity != stream->capacity) {
    room = hr__alloc(capacity);
    if (!room) return hr__nomem(err);
  }
  if (kept) memmove(room, stream->window + stream->at, kept);
  if (room != stream->room) hr__free(stream->room);
  stream->window = stream->room = room;
  stream->capacity = capacity;
  stream->window_begin += stream->at;
  stream->filled = kept;
  stream->at = 0;
  return HR_OK;
}

hr_status hr__stream_fetch(hr_stream *stream, size_t ahead, bool *there, hr_error *err) {
  *there = false;
  uint64_t end = stream->window_begin + stream->filled;
  if (end >= stream->file_bytes || stream->fd < 0) return HR_OK;
  if (stream->at + ahead >= stream->capacity) HR_TRY(room_make(stream, ahead, err));
  uint64_t left = stream->file_bytes - end;
  size_t bytes = stream->capacity - stream->filled;
  if (bytes > left) bytes = (size_t)left;
  HR_TRY(hr__file_read_at(stream->fd, stream->path, end, stream->room + stream->filled, bytes, err));
  stream->filled += bytes;
  *there = stream->filled - stream->at > ahead;
  return *there ? HR_OK : hr__stream_fetch(stream, ahead, there, err);
}

void hr__stream_skip(hr_stream *stream, size_t bytes) {
  hr_place *place = &stream->place;
  for (const char *at = stream->window + stream->at, *end = at + bytes; at < end; at++) {
    if (*at == '\n') {
      place->line++;
      place->column = 1;
    } else {
      place->column += ((unsigned char)*at & 0xc0) != 0x80;
    }
  }
  place->byte += bytes;
  stream->at += bytes;
}

void hr__stream_go(hr_stream *stream, hr_place place) {
  stream->place = place;
  if (place.byte >= stream->window_begin && place.byte <= stream->window_begin + stream->filled) {
    stream->at = (size_t)(place.byte - stream->window_begin);
    return;
  }
  stream->window_begin = place.byte;
  stream->filled = stream->at = 0;
}
