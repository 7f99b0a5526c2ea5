/* What sentencepiece does to text before its model, and pieces that the user defined. */
#include "text/sentencepiece.h"
#include "text/unicode.h"

static const char sign[] = "\xe2\x96\x81"; /* ▁ */
enum { SIGN = 3 };

/* What the text at hand begins with, as it is written: a piece of the user, a rewrite, or one character. */
static const char *next(const hr_spm_rules *rules, const char *text, size_t bytes, size_t *taken, size_t *written) {
  if (rules->any_kept && hr__trie_longest(&rules->kept, text, bytes, taken) >= 0) {
    *written = *taken;
    return text;
  }
  const char *rewritten = rules->rewrites ? hr__charsmap_find(&rules->charsmap, text, bytes, true, taken) : NULL;
  bool inside = rewritten && *taken < bytes && ((unsigned char)text[*taken] & 0xc0) == 0x80; /* of a character */
  if (rewritten && !inside) {
    *written = strlen(rewritten);
    return rewritten;
  }
  *taken = *written = hr__utf8_length((unsigned char)text[0]);
  return text;
}

static hr_status spaced_add(const hr_spm_rules *rules, const char *text, size_t bytes, hr_string *out, hr_error *err) {
  for (size_t i = 0; i < bytes; i++) {
    bool space = rules->escape && text[i] == ' ';
    HR_TRY(hr__string_add(out, space ? sign : text + i, space ? SIGN : 1, err));
  }
  return HR_OK;
}

static void end_strip(const hr_spm_rules *rules, hr_string *out) {
  const char *space = rules->escape ? sign : " ";
  size_t length = rules->escape ? SIGN : 1;
  while (out->count >= length && memcmp(out->data + out->count - length, space, length) == 0)
    out->count -= length;
}

hr_status hr__normal_spm_run(const hr_normalizer *n, hr_regex_room *room, const char *text, size_t bytes,
                             hr_string *out, hr_error *err) {
  (void)room;
  const hr_spm_rules *rules = n->spm;
  const char *end = text + bytes;
  size_t taken, written;
  while (rules->squeeze && text < end) {
    const char *first = next(rules, text, (size_t)(end - text), &taken, &written);
    if (written != 1 || first[0] != ' ') break;
    text += taken;
  }
  if (text == end) return HR_OK;
  if (rules->prefix) HR_TRY(spaced_add(rules, " ", 1, out, err));
  bool behind_space = rules->squeeze;
  for (; text < end; text += taken) {
    const char *piece = next(rules, text, (size_t)(end - text), &taken, &written);
    for (; behind_space && written > 0 && *piece == ' '; written--)
      piece++;
    if (written > 0) behind_space = rules->squeeze && piece[written - 1] == ' ';
    HR_TRY(spaced_add(rules, piece, written, out, err));
  }
  if (rules->squeeze) end_strip(rules, out);
  return hr__charsmap_check(out->data, out->count, err);
}

hr_status hr__spm_kept_run(const hr_relay *relay, hr_encoder *encoder, hr_span span, hr_error *err) {
  const hr_spm_rules *rules = ((const hr_spm_kept *)relay)->rules;
  size_t begin = 0;
  for (size_t at = 0, length; at < span.bytes;) {
    int32_t id = hr__trie_longest(&rules->kept, span.text + at, span.bytes - at, &length);
    if (id < 0) {
      at += hr__utf8_length((unsigned char)span.text[at]);
      continue;
    }
    hr_span before = {span.text + begin, at - begin, false};
    if (before.bytes > 0) HR_TRY(hr__relay_next(relay, encoder, before, err));
    HR_TRY(hr__ids_add(encoder->ids, id, err));
    begin = at += length;
  }
  hr_span rest = {span.text + begin, span.bytes - begin, false};
  return rest.bytes > 0 ? hr__relay_next(relay, encoder, rest, err) : HR_OK;
}
