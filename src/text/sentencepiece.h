/* How sentencepiece treats text before its model does: one pass that rewrites characters, squeezes spaces and writes
 * them as ▁. Pieces that the user defined stay as they are. */
#ifndef HR_TEXT_SENTENCEPIECE_H
#define HR_TEXT_SENTENCEPIECE_H

#include "text/charsmap.h"
#include "text/normalize.h"
#include "text/relay.h"
#include "text/trie.h"

typedef struct hr_spm_rules {
  hr_charsmap charsmap;
  bool rewrites; /* there is a charsmap */
  bool prefix;   /* a space in front of a text */
  bool squeeze;  /* no space at either end, one between words */
  bool escape;   /* spaces are written as ▁ */
  hr_trie kept;  /* pieces of the user, to their ids */
  bool any_kept;
} hr_spm_rules;

hr_status hr__normal_spm_run(const hr_normalizer *n, hr_regex_room *room, const char *text, size_t bytes,
                             hr_string *out, hr_error *err);

/* Cuts the pieces of the user out of normalized text, for BPE; Unigram has them in its trie. */
typedef struct hr_spm_kept {
  hr_relay relay;
  const hr_spm_rules *rules;
} hr_spm_kept;
hr_status hr__spm_kept_run(const hr_relay *relay, hr_encoder *encoder, hr_span span, hr_error *err);

struct hr_tokenizer;
/* The whole of a model file that is in memory; `path` is for messages and for files beside it. */
hr_status hr__sentencepiece_parse(struct hr_tokenizer *t, const char *path, const void *data, size_t bytes,
                                  hr_error *err);

#endif
