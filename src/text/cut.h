/* Relays that rewrite text or cut it by rules of their own: the prefix and the alphabet of ByteLevel, Metaspace,
 * Whitespace. Tests of characters for text/split.h stand here too. */
#ifndef HR_TEXT_CUT_H
#define HR_TEXT_CUT_H

#include "text/relay.h"

/* A space in front of a text that has none. */
hr_status hr__cut_prefix_run(const hr_relay *relay, hr_encoder *encoder, hr_span span, hr_error *err);

/* Bytes as the characters that byte-level vocabularies write them with, and back: for relays behind ByteLevel, which
 * see the characters. Where nothing but the model follows, neither is done. */
hr_status hr__cut_to_alphabet_run(const hr_relay *relay, hr_encoder *encoder, hr_span span, hr_error *err);
hr_status hr__cut_from_alphabet_run(const hr_relay *relay, hr_encoder *encoder, hr_span span, hr_error *err);

typedef enum hr_prepend { HR_PREPEND_ALWAYS, HR_PREPEND_FIRST, HR_PREPEND_NEVER } hr_prepend;

typedef struct hr_metaspace {
  hr_relay relay;
  hr_prepend prepend;
  bool split;
  const char *sign; /* what a space becomes */
  size_t sign_bytes;
} hr_metaspace;
hr_status hr__cut_metaspace_run(const hr_relay *relay, hr_encoder *encoder, hr_span span, hr_error *err);

/* Runs of word characters and runs of other signs, without what lies between. */
hr_status hr__cut_whitespace_run(const hr_relay *relay, hr_encoder *encoder, hr_span span, hr_error *err);

bool hr__cut_is_space(uint32_t c);
bool hr__cut_is_number(uint32_t c);
bool hr__cut_is_punctuation(uint32_t c); /* as BERT has it: all signs of ASCII, and P* of Unicode 8 */

#endif
