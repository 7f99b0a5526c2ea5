#include "text/cut.h"

#include "text/alphabet.h"
#include "text/unicode.h"

static hr_span span_of(const hr_string *bytes, bool first) {
  return (hr_span){bytes->data, bytes->count, first};
}

hr_status hr__cut_prefix_run(const hr_relay *relay, hr_encoder *encoder, hr_span span, hr_error *err) {
  if (span.text[0] == ' ') return hr__relay_next(relay, encoder, span, err);
  hr_string *out = &encoder->slots[relay->slot];
  out->count = 0;
  HR_TRY(hr__string_add(out, " ", 1, err));
  HR_TRY(hr__string_add(out, span.text, span.bytes, err));
  return hr__relay_next(relay, encoder, span_of(out, span.first), err);
}

hr_status hr__cut_to_alphabet_run(const hr_relay *relay, hr_encoder *encoder, hr_span span, hr_error *err) {
  hr_string *out = &encoder->slots[relay->slot];
  out->count = 0;
  for (size_t i = 0; i < span.bytes; i++)
    HR_TRY(hr__string_add_char(out, hr__alphabet_char((unsigned char)span.text[i]), err));
  return hr__relay_next(relay, encoder, span_of(out, span.first), err);
}

hr_status hr__cut_from_alphabet_run(const hr_relay *relay, hr_encoder *encoder, hr_span span, hr_error *err) {
  hr_string *out = &encoder->slots[relay->slot];
  out->count = 0;
  HR_TRY(hr__string_room(out, span.bytes, err));
  for (size_t i = 0, length; i < span.bytes; i += length)
    out->data[out->count++] = (char)hr__alphabet_byte(hr__utf8_get(span.text + i, &length));
  return hr__relay_next(relay, encoder, span_of(out, span.first), err);
}

static bool begins_with(const char *text, size_t bytes, const hr_metaspace *m) {
  return bytes >= m->sign_bytes && memcmp(text, m->sign, m->sign_bytes) == 0;
}

hr_status hr__cut_metaspace_run(const hr_relay *relay, hr_encoder *encoder, hr_span span, hr_error *err) {
  const hr_metaspace *m = (const hr_metaspace *)relay;
  hr_string *out = &encoder->slots[relay->slot];
  out->count = 0;
  bool wanted = m->prepend == HR_PREPEND_ALWAYS || (m->prepend == HR_PREPEND_FIRST && span.first);
  if (wanted && span.text[0] != ' ' && !begins_with(span.text, span.bytes, m))
    HR_TRY(hr__string_add(out, m->sign, m->sign_bytes, err));
  for (size_t i = 0; i < span.bytes;) {
    const char *space = memchr(span.text + i, ' ', span.bytes - i);
    size_t plain = space ? (size_t)(space - span.text) - i : span.bytes - i;
    HR_TRY(hr__string_add(out, span.text + i, plain, err));
    i += plain;
    if (!space) break;
    HR_TRY(hr__string_add(out, m->sign, m->sign_bytes, err));
    i++;
  }
  if (!m->split) return hr__relay_next(relay, encoder, span_of(out, span.first), err);
  for (size_t begin = 0; begin < out->count;) { /* a piece goes up to the next sign */
    size_t from = begin + (begins_with(out->data + begin, out->count - begin, m) ? m->sign_bytes : 1);
    const char *next = from < out->count ? memmem(out->data + from, out->count - from, m->sign, m->sign_bytes) : NULL;
    size_t end = next ? (size_t)(next - out->data) : out->count;
    hr_span piece = {out->data + begin, end - begin, span.first && begin == 0};
    HR_TRY(hr__relay_next(relay, encoder, piece, err));
    begin = end;
  }
  return HR_OK;
}

typedef enum run_kind { RUN_SPACE, RUN_WORD, RUN_OTHER } run_kind;

static run_kind kind_at(const char *at, size_t *length) {
  uint32_t c = hr__utf8_get(at, length);
  return hr__is_word(c) ? RUN_WORD : hr__is_space(c) ? RUN_SPACE : RUN_OTHER;
}

hr_status hr__cut_whitespace_run(const hr_relay *relay, hr_encoder *encoder, hr_span span, hr_error *err) {
  for (size_t begin = 0; begin < span.bytes;) {
    size_t length, end = begin;
    run_kind kind = kind_at(span.text + begin, &length);
    do
      end += length;
    while (end < span.bytes && kind_at(span.text + end, &length) == kind);
    hr_span piece = {span.text + begin, end - begin, span.first && begin == 0};
    if (kind != RUN_SPACE) HR_TRY(hr__relay_next(relay, encoder, piece, err));
    begin = end;
  }
  return HR_OK;
}

bool hr__cut_is_space(uint32_t c) {
  return hr__is_space(c);
}

bool hr__cut_is_number(uint32_t c) {
  return hr__is(c, HR_NUMBERS);
}

bool hr__cut_is_punctuation(uint32_t c) {
  if (c < 0x80) return c > 0x20 && c < 0x7f && !((c | 0x20) - 'a' < 26 || c - '0' < 10);
  return hr__was(c, HR_PUNCTUATION, 8);
}
