/* See trace.h. */
#include "data/trace.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"

/* Where piece `i` begins: the first at the beginning, the last one ends with the file. */
static uint64_t piece_begin(uint64_t bytes, uint64_t i, uint64_t pieces) {
  uint64_t last = bytes - HR_TRACE_PIECE_BYTES;
  return last / (pieces - 1) * i + last % (pieces - 1) * i / (pieces - 1);
}

static hr_status pieces_hash(const hr_data_file *file, uint64_t pieces, bool whole, char *window, hr_hash *hash,
                             hr_error *err) {
  uint64_t bytes = file->bytes;
  if (whole) pieces = (bytes + HR_TRACE_PIECE_BYTES - 1) / HR_TRACE_PIECE_BYTES;
  for (uint64_t i = 0; i < pieces; i++) {
    uint64_t at = whole ? i * HR_TRACE_PIECE_BYTES : piece_begin(bytes, i, pieces);
    size_t count = bytes - at < HR_TRACE_PIECE_BYTES ? (size_t)(bytes - at) : HR_TRACE_PIECE_BYTES;
    HR_TRY(hr__data_file_read(file, at, window, count, err));
    HR_TRY(hr__hash_update(hash, window, count, err));
  }
  return HR_OK;
}

static hr_status trace_make(const hr_data_file *file, uint64_t pieces, bool whole, hr_trace *out, hr_error *err) {
  struct stat facts;
  char hex[HR_SHA256_HEX];
  hr_hash *hash = NULL;
  *out = (hr_trace){.whole = whole};
  if (fstat(file->fd, &facts) != 0) return hr__fail_errno(err, file->path, "examine", errno);
  if (!out->whole) out->changed_ns = (int64_t)facts.st_mtim.tv_sec * 1000000000 + facts.st_mtim.tv_nsec;
  char *window = hr__alloc(HR_TRACE_PIECE_BYTES);
  hr_status status = window ? hr__hash_create(HR_HASH_XXH128, &hash, err) : hr__nomem(err);
  if (status == HR_OK) status = pieces_hash(file, pieces, whole, window, hash, err);
  if (status == HR_OK) status = hr__hash_hex(hash, hex, err);
  if (status == HR_OK) snprintf(out->hash, sizeof out->hash, "%.32s", hex);
  hr__hash_destroy(hash);
  hr__free(window);
  return status;
}

hr_status hr__trace_file(const hr_data_file *file, hr_trace *out, hr_error *err) {
  return trace_make(file, HR_TRACE_PIECES, file->read_whole || file->bytes <= HR_TRACE_WHOLE_BYTES, out, err);
}

hr_status hr__trace_ends(const hr_data_file *file, hr_trace *out, hr_error *err) {
  return trace_make(file, 2, file->bytes <= 2 * HR_TRACE_PIECE_BYTES, out, err);
}

void hr__trace_add(hr_trace *all, const hr_trace *one) {
  char both[2 * HR_XXH_HEX];
  if (!all->hash[0]) {
    *all = *one;
    return;
  }
  snprintf(both, sizeof both, "%s %s", all->hash, one->hash);
  hr__xxh128_hex(both, strlen(both), all->hash);
  all->whole = all->whole && one->whole;
  if (one->changed_ns > all->changed_ns) all->changed_ns = one->changed_ns;
}
