/* See tfrecord.h. */
#include "format/tfrecord.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"

/* Castagnoli's polynomial, bits reversed. */
static const uint32_t polynomial = 0x82f63b78;
static uint32_t table[256];
static pthread_once_t table_once = PTHREAD_ONCE_INIT;

static void table_make(void) {
  for (uint32_t i = 0; i < 256; i++) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; bit++)
      crc = crc >> 1 ^ (crc & 1 ? polynomial : 0);
    table[i] = crc;
  }
}

uint32_t hr__crc32c(const void *data, size_t bytes) {
  const unsigned char *at = data;
  uint32_t crc = ~0u;
  pthread_once(&table_once, table_make);
  for (size_t i = 0; i < bytes; i++)
    crc = crc >> 8 ^ table[(crc ^ at[i]) & 0xff];
  return ~crc;
}

/* Checksums of data that holds checksums are no good, so the ones that are stored are turned and moved. */
static uint32_t masked(const void *data, size_t bytes) {
  uint32_t crc = hr__crc32c(data, bytes);
  return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

static void little_put(uint64_t value, size_t bytes, unsigned char *out) {
  for (size_t i = 0; i < bytes; i++)
    out[i] = (unsigned char)(value >> (8 * i));
}

static uint64_t little_get(const unsigned char *from, size_t bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < bytes; i++)
    value |= (uint64_t)from[i] << (8 * i);
  return value;
}

void hr__tfrecord_head(uint64_t bytes, unsigned char out[HR_TFRECORD_HEAD]) {
  little_put(bytes, 8, out);
  little_put(masked(out, 8), 4, out + 8);
}

void hr__tfrecord_tail(const void *data, size_t bytes, unsigned char out[HR_TFRECORD_TAIL]) {
  little_put(masked(data, bytes), 4, out);
}

/* A file read in windows from its beginning. */
typedef struct window {
  int fd;
  const char *path;
  unsigned char *bytes;
  size_t capacity, filled, taken;
  uint64_t at; /* of the file: behind what is filled */
} window;

/* Lets `count` bytes stand at w->taken; *there is false where the file ends before. */
static hr_status window_see(window *w, size_t count, bool *there, hr_error *err) {
  *there = true;
  if (w->filled - w->taken >= count) return HR_OK;
  memmove(w->bytes, w->bytes + w->taken, w->filled - w->taken);
  w->filled -= w->taken;
  w->taken = 0;
  while (w->filled < count) {
    ssize_t n = pread(w->fd, w->bytes + w->filled, w->capacity - w->filled, (off_t)w->at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return hr__fail_errno(err, w->path, "read", errno);
    *there = n > 0;
    if (n == 0) return HR_OK;
    w->filled += (size_t)n;
    w->at += (uint64_t)n;
  }
  return HR_OK;
}

static hr_status records_see(window *w, size_t most, bool (*see)(void *, const unsigned char *, size_t), void *user,
                             uint64_t *good, hr_error *err) {
  for (*good = 0;;) {
    bool there;
    HR_TRY(window_see(w, HR_TFRECORD_HEAD, &there, err));
    if (!there) return HR_OK;
    const unsigned char *head = w->bytes + w->taken;
    uint64_t bytes = little_get(head, 8);
    if (bytes > most || little_get(head + 8, 4) != masked(head, 8)) return HR_OK;
    size_t all = HR_TFRECORD_HEAD + (size_t)bytes + HR_TFRECORD_TAIL;
    HR_TRY(window_see(w, all, &there, err));
    if (!there) return HR_OK;
    const unsigned char *data = w->bytes + w->taken + HR_TFRECORD_HEAD;
    if (little_get(data + bytes, 4) != masked(data, (size_t)bytes) || !see(user, data, (size_t)bytes)) return HR_OK;
    w->taken += all;
    *good += all;
  }
}

hr_status hr__tfrecord_scan(int fd, const char *path, size_t most, bool (*see)(void *, const unsigned char *, size_t),
                            void *user, uint64_t *good, hr_error *err) {
  window w = {.fd = fd, .path = path, .capacity = most + HR_TFRECORD_HEAD + HR_TFRECORD_TAIL};
  w.bytes = hr__alloc(w.capacity);
  if (!w.bytes) return hr__nomem(err);
  hr_status status = records_see(&w, most, see, user, good, err);
  hr__free(w.bytes);
  return status;
}
