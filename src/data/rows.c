/* Source rows: every row of a file is a sample, as tokens of the model's tokenizer (tokens.h). What a row may be, and
 * which of its tokens are targets, is row_ids.c's. A row longer than the longest bucket is cut there; one that has no
 * target (left) is left out. */
#include <inttypes.h>
#include <stdio.h>

#include "base/mem.h"
#include "data/source.h"
#include "data/tokens.h"

typedef struct rows {
  hr_tokens tokens; /* an entry is the number of a document */
  int64_t longest;
  uint32_t *targets; /* of each document, within the longest bucket */
  char remark[640];
} rows;

static void rows_close(void *state) {
  rows *r = state;
  hr__tokens_close(&r->tokens);
  hr__free(r->targets);
  hr__free(r);
}

static int64_t whole_length(const rows *r, uint64_t document) {
  hr_document_list documents = hr__tokens_documents(&r->tokens);
  return hr__document_length(&documents, document);
}

static int64_t rows_length(const void *state, uint64_t entry) {
  const rows *r = state;
  int64_t whole = whole_length(r, entry);
  return whole < r->longest ? whole : r->longest;
}

/* Losses are divided by the number of targets, which must be known before a batch is read. */
static hr_status targets_count(rows *r, hr_error *err) {
  int32_t *ids = hr__alloc_zero((size_t)r->longest, 2 * sizeof *ids);
  r->targets = hr__alloc_zero(r->tokens.documents, sizeof *r->targets);
  hr_status status = ids && r->targets ? HR_OK : hr__nomem(err);
  for (uint64_t i = 0; i < r->tokens.documents && status == HR_OK; i++) {
    int64_t length = rows_length(r, i);
    int32_t *targets = ids + r->longest;
    status = hr__tokens_read(&r->tokens, r->tokens.begins[i], length, ids, targets, err);
    for (int64_t t = 0; t < length && status == HR_OK; t++)
      r->targets[i] += targets[t] >= 0;
  }
  hr__free(ids);
  return status;
}

static void remark_make(rows *r) {
  uint64_t empty = 0;
  for (uint64_t i = 0; i < r->tokens.documents; i++)
    empty += r->targets[i] == 0;
  int used = 0;
  if (empty > 0)
    used = snprintf(r->remark, sizeof r->remark,
                    "%" PRIu64 " rows are left out: no token of an answer is within data.sequence_length%s", empty,
                    r->tokens.bad > 0 ? "; " : "");
  if (r->tokens.bad > 0)
    snprintf(r->remark + used, sizeof r->remark - (size_t)used,
             "%" PRIu64 " of %" PRIu64 " rows are bad and left out%s%s", r->tokens.bad, r->tokens.rows,
             r->tokens.shown[0] ? ": " : "", r->tokens.shown);
}

static hr_status rows_read(rows *r, const hr_source_request *request, hr_error *err) {
  r->longest = request->length;
  if (hr__tokens_are_bytes(request->recipe))
    return hr__recipe_fail(request->recipe, "data.source", "give data.tokenizer: a file or a model's folder", err,
                           "source rows needs a tokenizer");
  HR_TRY(hr__tokens_open(request, HR_DOCUMENT_ROWS, &r->tokens, err));
  HR_TRY(targets_count(r, err));
  remark_make(r);
  return HR_OK;
}

static hr_status rows_open(const hr_source_request *request, void **state, hr_error *err) {
  rows *r = hr__alloc_zero(1, sizeof *r);
  if (!r) return hr__nomem(err);
  r->tokens.file.fd = -1;
  hr_status status = rows_read(r, request, err);
  if (status != HR_OK) {
    rows_close(r);
    return status;
  }
  *state = r;
  return HR_OK;
}

static hr_status rows_scan(const void *state, hr_each_sample each, void *user, hr_error *err) {
  (void)err;
  const rows *r = state;
  for (uint64_t i = 0; i < r->tokens.documents; i++)
    if (r->targets[i] > 0) each(user, i, whole_length(r, i));
  return HR_OK;
}

static int64_t rows_targets(const void *state, uint64_t entry) {
  return ((const rows *)state)->targets[entry];
}

static const char *rows_remark(const void *state) {
  const rows *r = state;
  return r->remark[0] ? r->remark : NULL;
}

static hr_status rows_fill(const void *state, bool eval, uint64_t entry, const hr_room *room, hr_error *err) {
  (void)eval;
  const rows *r = state;
  int32_t *tokens = hr__room_for(room, HR_FOR_TOKENS), *targets = hr__room_for(room, HR_FOR_TARGETS);
  int64_t length = rows_length(state, entry);
  for (int64_t t = length; t < room->length; t++)
    tokens[t] = 0, targets[t] = -1;
  return hr__tokens_read(&r->tokens, r->tokens.begins[entry], length, tokens, targets, err);
}

static const hr_data_file *rows_file(const void *state, size_t number) {
  return number == 0 ? &((const rows *)state)->tokens.file : NULL;
}

static const hr_trace *rows_trace(const void *state) {
  return &((const rows *)state)->tokens.trace;
}

static hr_data_bytes rows_bytes(const void *state) {
  const rows *r = state;
  hr_data_bytes bytes = hr__tokens_bytes(&r->tokens);
  bytes.held += r->tokens.documents * sizeof *r->targets;
  return bytes;
}

const hr_source hr_source_rows = {
    .name = "rows",
    .tokenizes = true,
    .threaded = true,
    .purposes = 1u << HR_FOR_TOKENS | 1u << HR_FOR_TARGETS,
    .open = rows_open,
    .close = rows_close,
    .scan = rows_scan,
    .length = rows_length,
    .targets = rows_targets,
    .remark = rows_remark,
    .fill = rows_fill,
    .file = rows_file,
    .bytes = rows_bytes,
    .trace = rows_trace,
};
