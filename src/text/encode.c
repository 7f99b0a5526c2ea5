/* Encoding: added tokens are cut out of the text, what is between them is normalized, added tokens that are looked for
 * in normalized text are cut out of that, and the rest goes through the relays. */
#include <stdio.h>

#include "format/doc.h"
#include "text/build.h"

/* Something to do with the text between added tokens. */
typedef hr_status (*between)(hr_encoder *encoder, hr_span span, hr_error *err);

static hr_status each_between(hr_encoder *encoder, const hr_added *added, hr_span span, between run, hr_error *err) {
  hr_added_match match;
  size_t at = 0, done = 0;
  while (hr__added_next(added, span.text, span.bytes, &at, done, &match)) {
    hr_span piece = {span.text + done, match.begin - done, span.first && done == 0};
    if (match.begin > done) HR_TRY(run(encoder, piece, err));
    HR_TRY(hr__ids_add(encoder->ids, match.token->id, err));
    done = match.end;
  }
  hr_span rest = {span.text + done, span.bytes - done, span.first && done == 0};
  return rest.bytes > 0 ? run(encoder, rest, err) : HR_OK;
}

static hr_status normal_run(hr_encoder *encoder, hr_span span, hr_error *err) {
  const hr_relay *first = encoder->tokenizer->relays[0];
  return first->run(first, encoder, span, err);
}

static hr_status raw_run(hr_encoder *encoder, hr_span span, hr_error *err) {
  const hr_tokenizer *t = encoder->tokenizer;
  HR_TRY(
      hr__normalize(t->normalizers, t->normalizer_count, encoder->room, encoder->normal, &span.text, &span.bytes, err));
  return each_between(encoder, &t->found_normal, span, normal_run, err);
}

static hr_status not_utf8(const char *text, size_t bad, hr_error *err) {
  size_t line = 1, begin = 0;
  for (size_t i = 0; i < bad; i++)
    if (text[i] == '\n') {
      line++;
      begin = i + 1;
    }
  char place[96];
  snprintf(place, sizeof place, "line %zu, byte %zu", line, bad - begin + 1);
  return hr__fail(err, HR_BAD_INPUT, place, "convert the text to UTF-8, or remove the damaged bytes",
                  "the text is not UTF-8: byte 0x%02x", (unsigned)(unsigned char)text[bad]);
}

static hr_status ids_append(hr_ids *ids, const hr_ids *more, hr_error *err) {
  for (size_t i = 0; i < more->count; i++)
    HR_TRY(hr__ids_add(ids, more->items[i], err));
  return HR_OK;
}

hr_status hr__encode_before(const hr_tokenizer *tokenizer, hr_ids *ids, hr_error *err) {
  return ids_append(ids, &tokenizer->before, err);
}

hr_status hr__encode_behind(const hr_tokenizer *tokenizer, hr_ids *ids, hr_error *err) {
  return ids_append(ids, &tokenizer->behind, err);
}

hr_status hr__encode(hr_encoder *encoder, const char *text, size_t bytes, bool add_special, hr_ids *ids,
                     hr_error *err) {
  const hr_tokenizer *t = encoder->tokenizer;
  size_t good = hr__utf8_check(text, bytes), began = ids->count;
  if (good < bytes) return not_utf8(text, good, err);
  encoder->ids = ids;
  hr_status status = add_special ? ids_append(ids, &t->before, err) : HR_OK;
  hr_span whole = {text, bytes, true};
  if (status == HR_OK && bytes > 0) status = each_between(encoder, &t->found_raw, whole, raw_run, err);
  if (status == HR_OK && add_special) status = ids_append(ids, &t->behind, err);
  if (status != HR_OK) ids->count = began;
  return status;
}
