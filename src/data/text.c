/* Source text: files, one behind the other, are cut into windows of length + 1 tokens at stride length; a window is a
 * sample, and the token behind another is its target. With packing the files are documents that do not see each other.
 * Tokens are those of a tokenizer (tokens.h), or the bytes of the files. */
#include <inttypes.h>

#include "base/mem.h"
#include "data/documents.h"
#include "data/source.h"
#include "data/tokens.h"

typedef struct text {
  bool bytes;          /* they are the tokens */
  hr_data_files files; /* with bytes */
  hr_tokens tokens;    /* else */
  int64_t length;
  bool borders; /* documents do not see each other */
  uint64_t windows;
} text;

static void text_close(void *state) {
  text *t = state;
  if (t->bytes)
    hr__data_files_close(&t->files);
  else
    hr__tokens_close(&t->tokens);
  hr__free(t);
}

static hr_status text_read(text *t, const hr_source_request *request, hr_error *err) {
  if (t->bytes) {
    HR_TRY(hr__data_files_find(request->recipe, request->key, HR_TEXT_ENDINGS, &t->files, err));
    HR_TRY(hr__data_files_open(&t->files, err));
    HR_TRY(hr__bytes_check(request, err));
  } else {
    HR_TRY(hr__tokens_open(request, HR_DOCUMENT_WHOLE, &t->tokens, err));
  }
  uint64_t count = t->bytes ? t->files.bytes : t->tokens.count;
  t->length = request->length;
  t->borders = hr__field_for(request->fields, HR_FOR_STARTS) >= 0;
  t->windows = count > 0 ? (count - 1) / (uint64_t)t->length : 0;
  if (hr__samples_suffice(request, t->windows)) return HR_OK;
  const char *unit = t->bytes ? "bytes" : "tokens";
  size_t paths;
  const char *path = hr__recipe_texts(request->recipe, request->key, &paths)[0];
  return hr__fail(err, HR_BAD_INPUT, path, "use a longer text or a smaller data.sequence_length",
                  "%" PRIu64 " %s are too few: %s of %" PRId64 " + 1 %s needed", count, unit,
                  request->held == HR_HOLD_PART ? "two windows (one held out)" : "one window", t->length, unit);
}

static hr_status text_open(const hr_source_request *request, void **state, hr_error *err) {
  text *t = hr__alloc_zero(1, sizeof *t);
  if (!t) return hr__nomem(err);
  t->bytes = hr__tokens_are_bytes(request->recipe);
  t->tokens.file.fd = -1;
  hr_status status = text_read(t, request, err);
  if (status != HR_OK) {
    text_close(t);
    return status;
  }
  *state = t;
  return HR_OK;
}

static uint64_t text_samples(const void *state) {
  return ((const text *)state)->windows;
}

/* Documents: a file each. */
static hr_document_list documents_of(const text *t) {
  if (t->bytes) return (hr_document_list){t->files.begins, t->files.count};
  return hr__tokens_documents(&t->tokens);
}

static hr_status window_read(const text *t, uint64_t at, int32_t *tokens, int32_t *targets, hr_error *err) {
  if (!t->bytes) return hr__tokens_read(&t->tokens, at, t->length, tokens, targets, err);
  HR_TRY(hr__data_files_read(&t->files, at, hr__bytes_room(targets, t->length), (size_t)t->length + 1, err));
  hr__bytes_spread(tokens, targets, t->length, t->length);
  return HR_OK;
}

static hr_status text_fill(const void *state, bool eval, uint64_t window, const hr_room *room, hr_error *err) {
  (void)eval;
  const text *t = state;
  int32_t *targets = hr__room_for(room, HR_FOR_TARGETS), *starts = hr__room_for(room, HR_FOR_STARTS);
  uint64_t at = window * (uint64_t)t->length;
  HR_TRY(window_read(t, at, hr__room_for(room, HR_FOR_TOKENS), targets, err));
  hr_document_list documents = documents_of(t);
  if (starts) hr__window_borders(&documents, at, t->length, starts, targets);
  return HR_OK;
}

static int64_t text_targets(const void *state, uint64_t window) {
  const text *t = state;
  hr_document_list documents = documents_of(t);
  return t->borders ? hr__window_targets(&documents, window * (uint64_t)t->length, t->length) : t->length;
}

static const hr_data_file *text_file(const void *state, size_t number) {
  const text *t = state;
  if (t->bytes) return number < t->files.count ? &t->files.list[number] : NULL;
  return number == 0 ? &t->tokens.file : NULL;
}

static const hr_trace *text_trace(const void *state) {
  const text *t = state;
  return t->bytes ? NULL : &t->tokens.trace;
}

static hr_data_bytes text_bytes(const void *state) {
  const text *t = state;
  return t->bytes ? (hr_data_bytes){0} : hr__tokens_bytes(&t->tokens);
}

const hr_source hr_source_text = {
    .name = "text",
    .tokenizes = true,
    .purposes = 1u << HR_FOR_TOKENS | 1u << HR_FOR_TARGETS | 1u << HR_FOR_STARTS,
    .open = text_open,
    .close = text_close,
    .samples = text_samples,
    .targets = text_targets,
    .fill = text_fill,
    .file = text_file,
    .bytes = text_bytes,
    .trace = text_trace,
};
