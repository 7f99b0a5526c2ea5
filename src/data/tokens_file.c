/* See tokens_file.h. */
#include "data/tokens_file.h"

#include <string.h>

#include "base/mem.h"
#include "data/row_ids.h"
#include "format/aside.h"
#include "format/file.h"

static const char magic[16] = "headroom token2";

/* The header; the rest of HR_TOKENS_HEADER is 0. */
typedef struct header {
  char magic[sizeof magic];
  uint64_t count, documents;
  uint64_t most;      /* the largest id */
  uint64_t rows, bad; /* of the file that tokens were made from */
} header;

enum { BUFFERED = 1 << 16 }; /* ids */

struct hr_tokens_writer {
  hr_arena arena; /* of the paths */
  hr_aside file;
  header facts;
  uint64_t *begins;
  size_t cap_begins;
  size_t n_buffer;
  int32_t buffer[BUFFERED];
};

static hr_status begins_add(hr_tokens_writer *w, hr_error *err) {
  if (w->facts.documents == w->cap_begins) {
    size_t capacity = w->cap_begins ? 2 * w->cap_begins : 64;
    uint64_t *begins = hr__realloc(w->begins, capacity * sizeof *begins);
    if (!begins) return hr__nomem(err);
    w->begins = begins;
    w->cap_begins = capacity;
  }
  w->begins[w->facts.documents] = w->facts.count;
  return HR_OK;
}

static hr_status writer_open(hr_tokens_writer *w, const char *path, hr_error *err) {
  char empty[HR_TOKENS_HEADER] = {0};
  HR_TRY(hr__aside_begin(path, 0, &w->arena, &w->file, err));
  HR_TRY(hr__file_write_all(w->file.fd, w->file.unfinished, empty, sizeof empty, err));
  return begins_add(w, err);
}

static void writer_destroy(hr_tokens_writer *w) {
  hr__free(w->begins);
  hr__arena_fini(&w->arena);
  hr__free(w);
}

hr_status hr__tokens_begin(const char *path, hr_tokens_writer **out, hr_error *err) {
  hr_tokens_writer *w = hr__alloc_zero(1, sizeof *w);
  if (!w) return hr__nomem(err);
  hr__arena_init(&w->arena);
  w->file.fd = -1;
  memcpy(w->facts.magic, magic, sizeof magic);
  hr_status status = writer_open(w, path, err);
  if (status == HR_OK) {
    *out = w;
    return HR_OK;
  }
  return hr__tokens_finish(w, status, err);
}

static hr_status buffer_write(hr_tokens_writer *w, hr_error *err) {
  size_t bytes = w->n_buffer * sizeof *w->buffer;
  w->n_buffer = 0;
  return hr__file_write_all(w->file.fd, w->file.unfinished, w->buffer, bytes, err);
}

hr_status hr__tokens_put(hr_tokens_writer *w, const int32_t *ids, size_t count, hr_error *err) {
  for (size_t i = 0; i < count; i++) {
    if (w->n_buffer == BUFFERED) HR_TRY(buffer_write(w, err));
    w->buffer[w->n_buffer++] = ids[i];
    uint64_t id = (uint64_t)(ids[i] & ~HR_NO_TARGET);
    if (id > w->facts.most) w->facts.most = id;
  }
  w->facts.count += count;
  return HR_OK;
}

void hr__tokens_rows(hr_tokens_writer *w, uint64_t rows, uint64_t bad) {
  w->facts.rows = rows;
  w->facts.bad = bad;
}

hr_status hr__tokens_end_document(hr_tokens_writer *w, hr_error *err) {
  w->facts.documents++;
  return begins_add(w, err);
}

static hr_status writer_finish(hr_tokens_writer *w, hr_error *err) {
  HR_TRY(buffer_write(w, err));
  HR_TRY(
      hr__file_write_all(w->file.fd, w->file.unfinished, w->begins, (w->facts.documents + 1) * sizeof *w->begins, err));
  return hr__file_write_at(w->file.fd, w->file.unfinished, 0, &w->facts, sizeof w->facts, err);
}

hr_status hr__tokens_finish(hr_tokens_writer *w, hr_status status, hr_error *err) {
  if (status == HR_OK) status = writer_finish(w, err);
  status = hr__aside_end(&w->file, status, err);
  writer_destroy(w);
  return status;
}

static bool facts_read(const hr_data_file *file, header *facts) {
  if (file->bytes < HR_TOKENS_HEADER || hr__data_file_read(file, 0, facts, sizeof *facts, NULL) != HR_OK) return false;
  uint64_t rest = file->bytes - HR_TOKENS_HEADER, ids = rest / sizeof(int32_t), begins = rest / sizeof(uint64_t);
  if (memcmp(facts->magic, magic, sizeof magic) != 0 || facts->count > ids || facts->documents >= begins) return false;
  return rest == facts->count * sizeof(int32_t) + (facts->documents + 1) * sizeof(uint64_t) && facts->most <= INT32_MAX;
}

/* Documents lie one behind the other and hold all tokens. */
static bool begins_hold(const uint64_t *begins, const header *facts) {
  bool good = begins[0] == 0 && begins[facts->documents] == facts->count;
  for (uint64_t i = 0; i < facts->documents && good; i++)
    good = begins[i] <= begins[i + 1];
  return good;
}

static hr_status load(const hr_data_file *file, header *facts, uint64_t **begins, bool *there, hr_error *err) {
  *there = facts_read(file, facts);
  if (!*there) return HR_OK;
  size_t bytes = (size_t)(facts->documents + 1) * sizeof **begins;
  *begins = hr__alloc(bytes);
  if (!*begins) return hr__nomem(err);
  uint64_t at = HR_TOKENS_HEADER + facts->count * sizeof(int32_t);
  *there = hr__data_file_read(file, at, *begins, bytes, NULL) == HR_OK && begins_hold(*begins, facts);
  return HR_OK;
}

hr_status hr__tokens_load(const char *path, hr_tokens *tokens, uint32_t *most, bool *there, hr_error *err) {
  header facts = {0};
  uint64_t *begins = NULL;
  *there = false;
  if (hr__data_file_at(path, &tokens->file, NULL) != HR_OK) {
    hr__data_file_close(&tokens->file);
    return HR_OK;
  }
  hr_status status = load(&tokens->file, &facts, &begins, there, err);
  if (status != HR_OK || !*there) {
    hr__free(begins);
    hr__data_file_close(&tokens->file);
    return status;
  }
  tokens->begins = begins;
  tokens->count = facts.count;
  tokens->documents = facts.documents;
  tokens->rows = facts.rows;
  tokens->bad = facts.bad;
  *most = (uint32_t)facts.most;
  return HR_OK;
}
