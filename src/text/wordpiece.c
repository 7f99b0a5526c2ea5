#include "text/wordpiece.h"

#include "text/unicode.h"

static size_t chars_count(hr_span span) {
  size_t count = 0;
  for (size_t i = 0; i < span.bytes; i++)
    count += ((unsigned char)span.text[i] & 0xc0) != 0x80;
  return count;
}

hr_status hr__wordpiece_run(const hr_relay *relay, hr_encoder *encoder, hr_span span, hr_error *err) {
  const hr_wordpiece *w = (const hr_wordpiece *)relay;
  size_t began = encoder->ids->count;
  if (span.bytes > w->most_chars && chars_count(span) > w->most_chars)
    return hr__ids_add(encoder->ids, w->unknown, err);
  for (size_t at = 0, length; at < span.bytes; at += length) {
    int32_t id = hr__trie_longest(at == 0 ? &w->first : &w->further, span.text + at, span.bytes - at, &length);
    if (id < 0) {
      encoder->ids->count = began;
      return hr__ids_add(encoder->ids, w->unknown, err);
    }
    HR_TRY(hr__ids_add(encoder->ids, id, err));
  }
  return HR_OK;
}

hr_status hr__wordlevel_run(const hr_relay *relay, hr_encoder *encoder, hr_span span, hr_error *err) {
  const hr_wordlevel *w = (const hr_wordlevel *)relay;
  int32_t id = hr__words_find(&w->words, span.text, span.bytes);
  if (id < 0) id = w->unknown;
  if (id < 0)
    return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "the tokenizer has no token for '%.*s' and none for unknown words",
                    (int)(span.bytes < 60 ? span.bytes : 60), span.text);
  return hr__ids_add(encoder->ids, id, err);
}
