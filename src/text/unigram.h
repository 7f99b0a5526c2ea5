/* Unigram: of all ways to cut a text into pieces the one with the highest sum of scores (Viterbi). */
#ifndef HR_TEXT_UNIGRAM_H
#define HR_TEXT_UNIGRAM_H

#include "text/relay.h"
#include "text/trie.h"

typedef struct hr_unigram {
  hr_relay relay;
  hr_trie trie;
  const double *scores;  /* by id */
  double unknown_score;  /* of one character that is no piece */
  int32_t unknown;       /* -1: characters that are no pieces are an error */
  bool single;           /* sums are rounded to f32, as sentencepiece does it */
  bool byte_fallback;    /* what is unknown is written in bytes */
  int32_t fallback[256]; /* their tokens; all there where byte_fallback */
} hr_unigram;

hr_status hr__unigram_run(const hr_relay *relay, hr_encoder *encoder, hr_span span, hr_error *err);

#endif
