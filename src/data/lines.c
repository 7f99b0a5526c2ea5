/* Source lines: every line of its files is a sample. Its tokens are those of a tokenizer (tokens.h), with the end token
 * as last target; or its bytes, with the newline behind it. Empty lines are skipped; a line longer than the longest
 * bucket is cut there. */
#include <string.h>

#include "base/mem.h"
#include "data/source.h"
#include "data/tokens.h"

enum {
  SCAN_BYTES = 1 << 16,
  LENGTH_BITS = 24, /* of an entry: bytes of the line - 1; where it begins is above them */
  NEWLINE = 10
};

typedef struct lines {
  bool bytes;          /* they are the tokens: an entry is where a line begins, and its length */
  hr_data_files files; /* with bytes */
  hr_tokens tokens;    /* else: an entry is the number of a document */
  int64_t longest;
} lines;

static void lines_close(void *state) {
  lines *l = state;
  if (l->bytes)
    hr__data_files_close(&l->files);
  else
    hr__tokens_close(&l->tokens);
  hr__free(l);
}

typedef void (*line_fn)(void *user, uint64_t at, uint64_t bytes);

/* Calls `each` for every line that is not empty. */
static hr_status file_scan(const hr_data_file *file, line_fn each, void *user, hr_error *err) {
  char *window = hr__alloc(SCAN_BYTES);
  if (!window) return hr__nomem(err);
  uint64_t begin = 0; /* of the line */
  hr_status status = HR_OK;
  for (uint64_t at = 0; at < file->bytes && status == HR_OK;) {
    size_t bytes = file->bytes - at < SCAN_BYTES ? (size_t)(file->bytes - at) : SCAN_BYTES;
    status = hr__data_file_read(file, at, window, bytes, err);
    for (size_t i = 0; i < bytes && status == HR_OK; i++) {
      const char *end = memchr(window + i, NEWLINE, bytes - i);
      if (!end) break;
      i = (size_t)(end - window);
      if (at + i > begin) each(user, begin, at + i - begin);
      begin = at + i + 1;
    }
    at += bytes;
  }
  hr__free(window);
  if (status == HR_OK && file->bytes > begin) each(user, begin, file->bytes - begin);
  return status;
}

/* A scan on its way to whoever wants samples. */
typedef struct telling {
  uint64_t begin; /* of the file, among the bytes of all */
  int64_t longest;
  hr_each_sample each;
  void *user;
} telling;

static void line_tell(void *user, uint64_t at, uint64_t bytes) {
  const telling *t = user;
  uint64_t kept = bytes > (uint64_t)t->longest ? (uint64_t)t->longest : bytes;
  t->each(t->user, (t->begin + at) << LENGTH_BITS | (kept - 1), (int64_t)bytes);
}

static hr_status lines_scan(const void *state, hr_each_sample each, void *user, hr_error *err) {
  const lines *l = state;
  hr_document_list documents = hr__tokens_documents(&l->tokens);
  for (uint64_t i = 0; i < documents.count; i++)
    if (hr__document_length(&documents, i) > 0) each(user, i, hr__document_length(&documents, i));
  if (!l->bytes) return HR_OK;
  telling t = {.longest = l->longest, .each = each, .user = user};
  for (size_t i = 0; i < l->files.count; i++) {
    t.begin = l->files.begins[i];
    HR_TRY(file_scan(&l->files.list[i], line_tell, &t, err));
  }
  return HR_OK;
}

static hr_status lines_read(lines *l, const hr_source_request *request, hr_error *err) {
  l->longest = request->length;
  if (!l->bytes) return hr__tokens_open(request, HR_DOCUMENT_LINES, &l->tokens, err);
  HR_TRY(hr__data_files_find(request->recipe, request->key, HR_TEXT_ENDINGS, &l->files, err));
  HR_TRY(hr__data_files_open(&l->files, err));
  HR_TRY(hr__bytes_check(request, err));
  for (size_t i = 0; i < l->files.count; i++)
    l->files.list[i].read_whole = true;
  if (l->files.bytes >> (64 - LENGTH_BITS) != 0)
    return hr__recipe_fail(request->recipe, request->key, "use less", err, "files of lines have less than 1 TiB");
  return HR_OK;
}

static hr_status lines_open(const hr_source_request *request, void **state, hr_error *err) {
  lines *l = hr__alloc_zero(1, sizeof *l);
  if (!l) return hr__nomem(err);
  l->bytes = hr__tokens_are_bytes(request->recipe);
  l->tokens.file.fd = -1;
  hr_status status = lines_read(l, request, err);
  if (status != HR_OK) {
    lines_close(l);
    return status;
  }
  *state = l;
  return HR_OK;
}

static int64_t lines_length(const void *state, uint64_t entry) {
  const lines *l = state;
  hr_document_list documents = hr__tokens_documents(&l->tokens);
  int64_t whole = l->bytes ? 0 : hr__document_length(&documents, entry);
  if (!l->bytes) return whole < l->longest ? whole : l->longest;
  return (int64_t)(entry & (((uint64_t)1 << LENGTH_BITS) - 1)) + 1;
}

static hr_status lines_fill(const void *state, bool eval, uint64_t entry, const hr_room *room, hr_error *err) {
  (void)eval;
  const lines *l = state;
  int32_t *tokens = hr__room_for(room, HR_FOR_TOKENS), *targets = hr__room_for(room, HR_FOR_TARGETS);
  int64_t bytes = lines_length(state, entry);
  if (!l->bytes) {
    for (int64_t t = bytes; t < room->length; t++)
      tokens[t] = 0, targets[t] = -1;
    return hr__tokens_read(&l->tokens, l->tokens.begins[entry], bytes, tokens, targets, err);
  }
  uint64_t at = entry >> LENGTH_BITS;
  uint64_t file_end = l->files.begins[hr__data_files_at(&l->files, at) + 1];
  bool last = at + (uint64_t)bytes == file_end; /* no newline at the end of the file */
  unsigned char *raw = hr__bytes_room(targets, room->length);
  HR_TRY(hr__data_files_read(&l->files, at, raw, (size_t)bytes + !last, err));
  if (last) raw[bytes] = NEWLINE;
  hr__bytes_spread(tokens, targets, bytes, room->length);
  return HR_OK;
}

static const hr_data_file *lines_file(const void *state, size_t number) {
  const lines *l = state;
  if (l->bytes) return number < l->files.count ? &l->files.list[number] : NULL;
  return number == 0 ? &l->tokens.file : NULL;
}

static const hr_trace *lines_trace(const void *state) {
  const lines *l = state;
  return l->bytes ? NULL : &l->tokens.trace;
}

static hr_data_bytes lines_bytes(const void *state) {
  const lines *l = state;
  return l->bytes ? (hr_data_bytes){0} : hr__tokens_bytes(&l->tokens);
}

const hr_source hr_source_lines = {
    .name = "lines",
    .tokenizes = true,
    .purposes = 1u << HR_FOR_TOKENS | 1u << HR_FOR_TARGETS,
    .open = lines_open,
    .close = lines_close,
    .scan = lines_scan,
    .length = lines_length,
    .fill = lines_fill,
    .file = lines_file,
    .bytes = lines_bytes,
    .trace = lines_trace,
};
