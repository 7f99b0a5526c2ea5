/* See history.h. */
#include "train/history.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "format/file.h"
#include "format/json.h"
#include "train/record.h"

enum {
  WINDOW = 64 << 10,
  LINE_MOST = 4 << 20, /* a longer line is no record */
  PROOF = 64           /* bytes before the place of reading by which a file is known again */
};

struct hr_history {
  char *path;
  int fd;
  dev_t device; /* of the open file */
  ino_t inode;
  char *window; /* bytes [at - filled, at) of the file that are not given yet; `taken` of them are */
  size_t capacity, filled, taken;
  uint64_t at, file_bytes;
  char proof[PROOF]; /* the last bytes before `at` */
  size_t proof_bytes;
  uint64_t lines, broken;
  bool skipping; /* in a line that is too long */
  hr_arena arena;
};

static hr_status history_look(hr_history *h, int fd, hr_error *err) {
  struct stat facts;
  if (fstat(fd, &facts) != 0) return hr__fail_errno(err, h->path, "examine", errno);
  h->device = facts.st_dev;
  h->inode = facts.st_ino;
  h->file_bytes = (uint64_t)facts.st_size;
  return HR_OK;
}

hr_status hr__history_open(const char *path, hr_history **out, hr_error *err) {
  *out = NULL;
  hr_history *h = hr__alloc_zero(1, sizeof *h);
  if (!h) return hr__nomem(err);
  h->fd = -1;
  h->path = hr__alloc(strlen(path) + 1);
  h->capacity = WINDOW;
  h->window = hr__alloc(h->capacity);
  hr_status status = h->path && h->window ? HR_OK : hr__nomem(err);
  if (status == HR_OK) {
    uint64_t bytes;
    memcpy(h->path, path, strlen(path) + 1);
    status = hr__file_open(path, &h->fd, &bytes, err);
  }
  if (status == HR_OK) status = history_look(h, h->fd, err);
  if (status != HR_OK) {
    hr__history_close(h);
    return status;
  }
  *out = h;
  return HR_OK;
}

void hr__history_close(hr_history *h) {
  if (!h) return;
  if (h->fd >= 0) close(h->fd);
  hr__arena_fini(&h->arena);
  hr__free(h->window);
  hr__free(h->path);
  hr__free(h);
}

uint64_t hr__history_broken(const hr_history *h) {
  return h->broken;
}

uint64_t hr__history_read_bytes(const hr_history *h) {
  return h->at;
}

uint64_t hr__history_file_bytes(const hr_history *h) {
  return h->file_bytes;
}

static void history_rewind(hr_history *h) {
  h->at = h->lines = h->broken = 0;
  h->filled = h->taken = h->proof_bytes = 0;
  h->skipping = false;
}

static long read_some(const hr_history *h, void *to, size_t bytes, uint64_t at) {
  long n;
  do
    n = pread(h->fd, to, bytes, (off_t)at);
  while (n < 0 && errno == EINTR);
  return n;
}

/* Whether what was read is still there: the file may have been cut off, cut off and written on, or replaced. */
static hr_status history_is_same(hr_history *h, bool *same, hr_error *err) {
  struct stat named;
  dev_t device = h->device;
  ino_t inode = h->inode;
  *same = true;
  if (stat(h->path, &named) == 0 && S_ISREG(named.st_mode) && (named.st_ino != inode || named.st_dev != device)) {
    int fd;
    uint64_t bytes;
    HR_TRY(hr__file_open(h->path, &fd, &bytes, err));
    close(h->fd);
    h->fd = fd;
    *same = false;
  }
  HR_TRY(history_look(h, h->fd, err));
  if (h->file_bytes < h->at) *same = false;
  if (!*same || h->proof_bytes == 0) return HR_OK;
  char now[PROOF];
  long n = read_some(h, now, h->proof_bytes, h->at - h->proof_bytes);
  if (n < 0) return hr__fail_errno(err, h->path, "read", errno);
  *same = (size_t)n == h->proof_bytes && memcmp(now, h->proof, h->proof_bytes) == 0;
  return HR_OK;
}

static void proof_take(hr_history *h, const char *bytes, size_t count) {
  size_t keep = count < PROOF ? count : PROOF, old = PROOF - keep;
  if (old > h->proof_bytes) old = h->proof_bytes;
  memmove(h->proof, h->proof + h->proof_bytes - old, old);
  memcpy(h->proof + old, bytes + count - keep, keep);
  h->proof_bytes = old + keep;
}

/* Fetches what follows the window; *got is false where the file ends. */
static hr_status window_fill(hr_history *h, bool *got, hr_error *err) {
  if (h->taken > 0) {
    memmove(h->window, h->window + h->taken, h->filled - h->taken);
    h->filled -= h->taken;
    h->taken = 0;
  }
  if (h->filled == h->capacity) {
    char *larger = h->capacity < LINE_MOST ? hr__realloc(h->window, 2 * h->capacity) : NULL;
    if (!larger && h->capacity < LINE_MOST) return hr__nomem(err);
    if (larger) {
      h->window = larger;
      h->capacity *= 2;
    } else {
      h->skipping = true;
      h->filled = 0;
    }
  }
  long n = read_some(h, h->window + h->filled, h->capacity - h->filled, h->at);
  if (n < 0) return hr__fail_errno(err, h->path, "read", errno);
  *got = n > 0;
  if (n == 0) return HR_OK;
  proof_take(h, h->window + h->filled, (size_t)n);
  h->filled += (size_t)n;
  h->at += (uint64_t)n;
  return HR_OK;
}

/* The next line of the window as a record; *good is false where it is none. */
static hr_status line_take(hr_history *h, const char *line, size_t bytes, hr_record *record, bool *good,
                           hr_error *err) {
  h->lines++;
  *good = false;
  bool whole = !h->skipping;
  h->skipping = false;
  if (whole) {
    hr__arena_fini(&h->arena);
    hr__arena_init(&h->arena);
    HR_TRY(hr__record_read(line, bytes, &h->arena, record, good, err));
  }
  record->line = h->lines;
  if (!*good) h->broken++;
  return HR_OK;
}

hr_status hr__history_next(hr_history *h, hr_record *record, bool *there, hr_error *err) {
  bool looked = false;
  *there = true;
  for (;;) {
    char *line = h->window + h->taken, *end = memchr(line, '\n', h->filled - h->taken);
    if (end) {
      bool good;
      h->taken += (size_t)(end - line) + 1;
      HR_TRY(line_take(h, line, (size_t)(end - line), record, &good, err));
      if (good) return HR_OK;
      continue;
    }
    if (!looked) { /* once for each time that it is asked for more than there was */
      bool same;
      looked = true;
      HR_TRY(history_is_same(h, &same, err));
      if (!same) {
        history_rewind(h);
        *record = (hr_record){.kind = HR_RECORD_AGAIN};
        return HR_OK;
      }
    }
    bool got = false;
    HR_TRY(window_fill(h, &got, err));
    if (!got) {
      *there = false;
      return HR_OK;
    }
  }
}
