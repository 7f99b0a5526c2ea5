/* WordPiece: the longest piece that a word begins with, then the longest continuation, and so on; a word that this does
 * not cover is unknown as a whole. WordLevel is the same with whole words only. */
#ifndef HR_TEXT_WORDPIECE_H
#define HR_TEXT_WORDPIECE_H

#include "text/relay.h"
#include "text/trie.h"
#include "text/words.h"

typedef struct hr_wordpiece {
  hr_relay relay;
  hr_trie first, further; /* pieces that begin a word; continuations, without their prefix */
  size_t most_chars;      /* longer words are unknown */
  int32_t unknown;
} hr_wordpiece;
hr_status hr__wordpiece_run(const hr_relay *relay, hr_encoder *encoder, hr_span span, hr_error *err);

typedef struct hr_wordlevel {
  hr_relay relay;
  hr_words words;
  int32_t unknown; /* -1: unknown words are an error */
} hr_wordlevel;
hr_status hr__wordlevel_run(const hr_relay *relay, hr_encoder *encoder, hr_span span, hr_error *err);

#endif
