#include "text/decode.h"

#include <stdlib.h>

#include "format/doc.h"
#include "text/alphabet.h"
#include "text/unicode.h"

hr_status hr__texts_end(hr_texts *texts, hr_error *err) {
  texts->count++;
  return hr__string_add(&texts->ends, (const char *)&texts->bytes.count, sizeof texts->bytes.count, err);
}

const char *hr__texts_at(const hr_texts *texts, size_t index, size_t *bytes) {
  const size_t *ends = (const size_t *)(const void *)texts->ends.data;
  size_t begin = index > 0 ? ends[index - 1] : 0;
  *bytes = ends[index] - begin;
  return texts->bytes.data ? texts->bytes.data + begin : "";
}

void hr__texts_clear(hr_texts *texts) {
  texts->bytes.count = texts->ends.count = texts->count = 0;
}

void hr__texts_fini(hr_texts *texts) {
  hr__string_fini(&texts->bytes);
  hr__string_fini(&texts->ends);
  texts->count = 0;
}

static const char replacement[] = "\xef\xbf\xbd";

/* Bytes of the part at `at` that cannot be UTF-8: the beginning of a character as far as it goes, at least one. */
static size_t bad_part(const unsigned char *at, size_t bytes) {
  unsigned char lead = at[0];
  size_t length = lead >= 0xc2 && lead <= 0xdf ? 2 : (lead & 0xf0) == 0xe0 ? 3 : lead >= 0xf0 && lead <= 0xf4 ? 4 : 1;
  if (length == 1 || bytes < 2) return 1;
  unsigned char least = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
  unsigned char most = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
  if (at[1] < least || at[1] > most) return 1;
  size_t good = 2;
  while (good < length && good < bytes && (at[good] & 0xc0) == 0x80)
    good++;
  return good;
}

hr_status hr__utf8_mend(const char *data, size_t bytes, hr_string *out, hr_error *err) {
  while (bytes > 0) {
    size_t good = hr__utf8_check(data, bytes);
    HR_TRY(hr__string_add(out, data, good, err));
    data += good;
    bytes -= good;
    if (bytes == 0) break;
    size_t bad = bad_part((const unsigned char *)data, bytes);
    HR_TRY(hr__string_add(out, replacement, 3, err));
    data += bad;
    bytes -= bad;
  }
  return HR_OK;
}

/* All texts as one, mended. */
static hr_status joined(hr_string *raw, hr_texts *out, hr_error *err) {
  hr_status status = hr__utf8_mend(raw->data, raw->count, &out->bytes, err);
  hr__string_fini(raw);
  return status == HR_OK ? hr__texts_end(out, err) : status;
}

hr_status hr__decode_byte_level_run(const hr_decoder *d, const hr_texts *in, hr_texts *out, hr_error *err) {
  (void)d;
  hr_string raw = {0};
  hr_status status = HR_OK;
  for (size_t i = 0; i < in->count && status == HR_OK; i++) {
    size_t bytes;
    const char *text = hr__texts_at(in, i, &bytes);
    bool whole;
    status = hr__alphabet_bytes(text, bytes, &raw, &whole, err);
    if (status == HR_OK && !whole) status = hr__string_add(&raw, text, bytes, err);
  }
  if (status == HR_OK) return joined(&raw, out, err);
  hr__string_fini(&raw);
  return status;
}

hr_status hr__decode_raw_run(const hr_decoder *d, const hr_texts *in, hr_texts *out, hr_error *err) {
  (void)d;
  HR_TRY(hr__utf8_mend(in->bytes.data, in->bytes.count, &out->bytes, err));
  return hr__texts_end(out, err);
}

/* <0xHH>: the byte; -1: something else. */
static int byte_of(const char *text, size_t bytes) {
  if (bytes != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>') return -1;
  char digits[3] = {text[3], text[4], 0}, *end;
  long value = strtol(digits, &end, 16);
  return *end || digits[0] == '+' || digits[0] == '-' || digits[0] == ' ' ? -1 : (int)value;
}

/* A run of byte tokens: the characters that they are, or U+FFFD for each. */
static hr_status bytes_end(hr_string *run, hr_texts *out, hr_error *err) {
  if (run->count == 0) return HR_OK;
  size_t count = run->count;
  run->count = 0;
  if (hr__utf8_check(run->data, count) == count) {
    HR_TRY(hr__string_add(&out->bytes, run->data, count, err));
    return hr__texts_end(out, err);
  }
  for (size_t i = 0; i < count; i++) {
    HR_TRY(hr__string_add(&out->bytes, replacement, 3, err));
    HR_TRY(hr__texts_end(out, err));
  }
  return HR_OK;
}

static hr_status fallback_each(const hr_texts *in, hr_string *run, hr_texts *out, hr_error *err) {
  for (size_t i = 0; i < in->count; i++) {
    size_t bytes;
    const char *text = hr__texts_at(in, i, &bytes);
    int byte = byte_of(text, bytes);
    if (byte >= 0) {
      char one = (char)byte;
      HR_TRY(hr__string_add(run, &one, 1, err));
      continue;
    }
    HR_TRY(bytes_end(run, out, err));
    HR_TRY(hr__string_add(&out->bytes, text, bytes, err));
    HR_TRY(hr__texts_end(out, err));
  }
  return bytes_end(run, out, err);
}

hr_status hr__decode_fallback_run(const hr_decoder *d, const hr_texts *in, hr_texts *out, hr_error *err) {
  (void)d;
  hr_string run = {0};
  hr_status status = fallback_each(in, &run, out, err);
  hr__string_fini(&run);
  return status;
}

hr_status hr__decode_fuse_run(const hr_decoder *d, const hr_texts *in, hr_texts *out, hr_error *err) {
  (void)d;
  HR_TRY(hr__string_add(&out->bytes, in->bytes.data, in->bytes.count, err));
  return hr__texts_end(out, err);
}

hr_status hr__decode_strip_run(const hr_decoder *d, const hr_texts *in, hr_texts *out, hr_error *err) {
  for (size_t i = 0; i < in->count; i++) {
    size_t bytes, length = d->content_bytes;
    const char *text = hr__texts_at(in, i, &bytes), *end = text + bytes;
    for (size_t k = 0; k < d->start && (size_t)(end - text) >= length && memcmp(text, d->content, length) == 0; k++)
      text += length;
    for (size_t k = 0; k < d->stop && (size_t)(end - text) >= length && memcmp(end - length, d->content, length) == 0;
         k++)
      end -= length;
    HR_TRY(hr__string_add(&out->bytes, text, (size_t)(end - text), err));
    HR_TRY(hr__texts_end(out, err));
  }
  return HR_OK;
}

/* `text` with every `pattern` replaced. */
static hr_status replaced(const hr_decoder *d, const char *text, size_t bytes, hr_string *out, hr_error *err) {
  const char *end = text + bytes;
  for (const char *found; d->pattern_bytes > 0 && text < end; text = found + d->pattern_bytes) {
    found = memmem(text, (size_t)(end - text), d->pattern, d->pattern_bytes);
    if (!found) break;
    HR_TRY(hr__string_add(out, text, (size_t)(found - text), err));
    HR_TRY(hr__string_add(out, d->content, d->content_bytes, err));
  }
  return hr__string_add(out, text, (size_t)(end - text), err);
}

hr_status hr__decode_replace_run(const hr_decoder *d, const hr_texts *in, hr_texts *out, hr_error *err) {
  for (size_t i = 0; i < in->count; i++) {
    size_t bytes;
    const char *text = hr__texts_at(in, i, &bytes);
    HR_TRY(replaced(d, text, bytes, &out->bytes, err));
    HR_TRY(hr__texts_end(out, err));
  }
  return HR_OK;
}

hr_status hr__decode_metaspace_run(const hr_decoder *d, const hr_texts *in, hr_texts *out, hr_error *err) {
  for (size_t i = 0; i < in->count; i++) {
    size_t bytes, length = d->pattern_bytes;
    const char *text = hr__texts_at(in, i, &bytes);
    bool begins = bytes >= length && memcmp(text, d->pattern, length) == 0;
    size_t skipped = i == 0 && d->prefix && begins ? length : 0;
    HR_TRY(replaced(d, text + skipped, bytes - skipped, &out->bytes, err));
    HR_TRY(hr__texts_end(out, err));
  }
  return HR_OK;
}

/* Replaces text at the end of `bytes`, from `begin` on. */
static void drop(hr_string *bytes, size_t begin, const char *text, const char *by) {
  size_t length = strlen(text), by_length = strlen(by);
  for (size_t at = begin; at + length <= bytes->count;) {
    if (memcmp(bytes->data + at, text, length) != 0) {
      at++;
      continue;
    }
    memcpy(bytes->data + at, by, by_length);
    memmove(bytes->data + at + by_length, bytes->data + at + length, bytes->count - at - length);
    bytes->count -= length - by_length;
    at += by_length;
  }
}

/* Spaces before signs go, piece by piece. */
static void cleaned(hr_string *bytes, size_t begin) {
  static const char *const pairs[][2] = {{" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
                                         {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
                                         {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
    drop(bytes, begin, pairs[i][0], pairs[i][1]);
}

hr_status hr__decode_wordpiece_run(const hr_decoder *d, const hr_texts *in, hr_texts *out, hr_error *err) {
  for (size_t i = 0; i < in->count; i++) {
    size_t bytes, begin = out->bytes.count, length = d->pattern_bytes;
    const char *text = hr__texts_at(in, i, &bytes);
    bool further = bytes >= length && memcmp(text, d->pattern, length) == 0;
    if (i > 0 && !further) HR_TRY(hr__string_add(&out->bytes, " ", 1, err));
    size_t skipped = i > 0 && further ? length : 0;
    HR_TRY(hr__string_add(&out->bytes, text + skipped, bytes - skipped, err));
    if (d->cleanup) cleaned(&out->bytes, begin);
    HR_TRY(hr__texts_end(out, err));
  }
  return HR_OK;
}

hr_status hr__decode_bpe_run(const hr_decoder *d, const hr_texts *in, hr_texts *out, hr_error *err) {
  hr_decoder space = *d; /* the suffix is a space, but at the end */
  for (size_t i = 0; i < in->count; i++) {
    size_t bytes;
    const char *text = hr__texts_at(in, i, &bytes);
    bool last = i + 1 == in->count;
    space.content = last ? "" : " ";
    space.content_bytes = last ? 0 : 1;
    HR_TRY(replaced(&space, text, bytes, &out->bytes, err));
    HR_TRY(hr__texts_end(out, err));
  }
  return HR_OK;
}
