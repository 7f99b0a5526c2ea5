/* Byte-pair encoding: the symbols of a word join, pair by pair, in the order of the merges.
 *
 * Symbols are the bytes of a word (byte-level) or its characters; a character that the vocabulary lacks is written as
 * its bytes where the model has tokens for them, else as the unknown token. Words up to 30 bytes that were met before
 * come from a cache, of which every encoder has its own.
 */
#ifndef HR_TEXT_BPE_H
#define HR_TEXT_BPE_H

#include "text/pairs.h"
#include "text/relay.h"
#include "text/words.h"

typedef struct hr_bpe {
  hr_relay relay;
  hr_pairs pairs;
  hr_words words;        /* keys are raw bytes where byte_level, else UTF-8 */
  int32_t symbols[256];  /* of a byte, or of an ASCII character; -1: none */
  int32_t fallback[256]; /* tokens <0x00> to <0xFF>; -1: none */
  int32_t unknown;       /* -1: what is unknown vanishes */
  bool byte_level, byte_fallback, fuse_unknown;
  bool whole_words; /* a word that is a token is taken whole, before any merge */
  /* Pieces never go on behind `word_sign` once another character was there, so that a text may be cut before it. */
  const char *word_sign; /* NULL: may not */
  size_t word_sign_bytes;
  const char *prefix, *suffix; /* of symbols that do not begin, and that end a word; "" mostly */
  size_t prefix_bytes, suffix_bytes;
} hr_bpe;

hr_status hr__bpe_run(const hr_relay *relay, hr_encoder *encoder, hr_span span, hr_error *err);

/* Fills `symbols` from `words`; there is no fallback before hr__build_fallback says so. */
void hr__bpe_symbols(hr_bpe *bpe);
/* Finds out whether texts may be cut before `sign`, and sets word_sign if so. */
void hr__bpe_word_sign(hr_bpe *bpe, const char *sign, size_t bytes);

/* The cache of an encoder. */
hr_cache_line *hr__cache_create(void); /* NULL: out of memory */
void hr__cache_destroy(hr_cache_line *cache);

#endif
