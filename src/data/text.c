/* Source text: bytes of a file are the tokens. The file is cut into windows of length + 1 bytes at stride length; a
 * window is a sample, and the byte behind a token is its target. */
#include <inttypes.h>

#include "base/mem.h"
#include "data/source.h"

typedef struct text {
  hr_data_file file;
  int64_t length;
  uint64_t windows;
} text;

static void text_close(void *state) {
  text *t = state;
  hr__data_file_close(&t->file);
  hr__free(t);
}

static hr_status text_read(text *t, const hr_source_request *request, hr_error *err) {
  HR_TRY(hr__data_file_open(request->recipe, &t->file, err));
  HR_TRY(hr__bytes_check(request, err));
  t->length = request->length;
  t->windows = t->file.bytes > 0 ? (t->file.bytes - 1) / (uint64_t)t->length : 0;
  if (t->windows > hr__held_out(request, t->windows)) return HR_OK;
  return hr__fail(err, HR_BAD_INPUT, t->file.path, "use a longer text or a smaller data.sequence_length",
                  "%" PRIu64 " bytes are too few: %s of %" PRId64 " + 1 bytes needed", t->file.bytes,
                  request->eval ? "two windows (one held out)" : "one window", t->length);
}

static hr_status text_open(const hr_source_request *request, void **state, hr_error *err) {
  text *t = hr__alloc_zero(1, sizeof *t);
  if (!t) return hr__nomem(err);
  t->file.fd = -1;
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

static hr_status text_fill(const void *state, bool eval, uint64_t window, const hr_room *room, hr_error *err) {
  (void)eval;
  const text *t = state;
  int32_t *tokens = hr__room_for(room, HR_FOR_TOKENS), *targets = hr__room_for(room, HR_FOR_TARGETS);
  HR_TRY(hr__data_file_read(&t->file, window * (uint64_t)t->length, hr__bytes_room(targets, t->length),
                            (size_t)t->length + 1, err));
  hr__bytes_spread(tokens, targets, t->length, t->length);
  return HR_OK;
}

static const hr_data_file *text_file(const void *state) {
  return &((const text *)state)->file;
}

const hr_source hr_source_text = {
    .name = "text",
    .purposes = 1u << HR_FOR_TOKENS | 1u << HR_FOR_TARGETS,
    .open = text_open,
    .close = text_close,
    .samples = text_samples,
    .fill = text_fill,
    .file = text_file,
};
