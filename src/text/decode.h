/* Decoders: the texts of tokens rewritten, one kind after the other, and put together.
 *
 * Each takes the list of texts and gives a new one, of as many texts or of one. Without any, texts are joined by
 * spaces.
 */
#ifndef HR_TEXT_DECODE_H
#define HR_TEXT_DECODE_H

#include <stdbool.h>

#include "text/grow.h"

/* Texts in a row: number i ends at ends[i] of `bytes`, where the next one begins. */
typedef struct hr_texts {
  hr_string bytes;
  hr_string ends; /* of size_t */
  size_t count;
} hr_texts;

hr_status hr__texts_end(hr_texts *texts, hr_error *err); /* what was added to `bytes` is one text */
const char *hr__texts_at(const hr_texts *texts, size_t index, size_t *bytes);
void hr__texts_clear(hr_texts *texts);
void hr__texts_fini(hr_texts *texts);

typedef struct hr_decoder hr_decoder;
struct hr_decoder {
  hr_status (*run)(const hr_decoder *decoder, const hr_texts *in, hr_texts *out, hr_error *err);
  const char *pattern, *content; /* Replace; Metaspace: its sign; WordPiece, BPE: prefix, suffix; Strip: what */
  size_t pattern_bytes, content_bytes;
  size_t start, stop; /* Strip: at most so many at either end */
  bool prefix;        /* Metaspace: the first sign is no space */
  bool cleanup;       /* WordPiece: no space before signs */
};

hr_status hr__decode_byte_level_run(const hr_decoder *d, const hr_texts *in, hr_texts *out, hr_error *err);
hr_status hr__decode_raw_run(const hr_decoder *d, const hr_texts *in, hr_texts *out, hr_error *err); /* bytes */
hr_status hr__decode_fallback_run(const hr_decoder *d, const hr_texts *in, hr_texts *out, hr_error *err);
hr_status hr__decode_fuse_run(const hr_decoder *d, const hr_texts *in, hr_texts *out, hr_error *err);
hr_status hr__decode_strip_run(const hr_decoder *d, const hr_texts *in, hr_texts *out, hr_error *err);
hr_status hr__decode_replace_run(const hr_decoder *d, const hr_texts *in, hr_texts *out, hr_error *err);
hr_status hr__decode_metaspace_run(const hr_decoder *d, const hr_texts *in, hr_texts *out, hr_error *err);
hr_status hr__decode_wordpiece_run(const hr_decoder *d, const hr_texts *in, hr_texts *out, hr_error *err);
hr_status hr__decode_bpe_run(const hr_decoder *d, const hr_texts *in, hr_texts *out, hr_error *err);

/* Appends bytes as UTF-8, with U+FFFD for each part that is none (as long as the beginning of a character goes). */
hr_status hr__utf8_mend(const char *data, size_t bytes, hr_string *out, hr_error *err);

#endif
