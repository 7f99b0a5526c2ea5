/* sentencepiece's table of rewrites as tokenizer.json applies it: cluster by cluster. The shortest prefix of a short
 * cluster that has a rewrite stands for all of it; other clusters go character by character. */
#include <utf8proc.h>

#include "text/normalize.h"
#include "text/unicode.h"

enum { SHORT = 6 }; /* bytes of a cluster, from which on it goes by characters */

static size_t cluster_end(const char *text, size_t bytes, size_t begin) {
  size_t length;
  utf8proc_int32_t state = 0;
  uint32_t left = hr__utf8_get(text + begin, &length);
  for (size_t at = begin + length; at < bytes; at += length) {
    uint32_t right = hr__utf8_get(text + at, &length);
    if (utf8proc_grapheme_break_stateful((utf8proc_int32_t)left, (utf8proc_int32_t)right, &state)) return at;
    left = right;
  }
  return bytes;
}

static hr_status piece_add(const hr_charsmap *map, const char *text, size_t bytes, bool *found, hr_string *out,
                           hr_error *err) {
  size_t length;
  const char *rewritten = hr__charsmap_find(map, text, bytes, false, &length);
  *found = rewritten != NULL;
  return rewritten ? hr__string_add(out, rewritten, strlen(rewritten), err) : HR_OK;
}

hr_status hr__normal_precompiled_run(const hr_normalizer *n, hr_regex_room *room, const char *text, size_t bytes,
                                     hr_string *out, hr_error *err) {
  (void)room;
  for (size_t begin = 0, end; begin < bytes; begin = end) {
    bool found = false;
    end = cluster_end(text, bytes, begin);
    if (end - begin < SHORT) HR_TRY(piece_add(&n->charsmap, text + begin, end - begin, &found, out, err));
    for (size_t at = begin, length; at < end && !found; at += length) {
      bool one;
      length = hr__utf8_length((unsigned char)text[at]);
      HR_TRY(piece_add(&n->charsmap, text + at, length, &one, out, err));
      if (!one) HR_TRY(hr__string_add(out, text + at, length, err));
    }
  }
  return hr__charsmap_check(out->data, out->count, err);
}
