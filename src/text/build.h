/* Inside of a tokenizer, and what the readers of vocabulary files fill it by. */
#ifndef HR_TEXT_BUILD_H
#define HR_TEXT_BUILD_H

#include "text/added.h"
#include "text/decode.h"
#include "text/joint.h"
#include "text/normalize.h"
#include "text/regex.h"
#include "text/relay.h"
#include "text/tokenizer.h"
#include "text/words.h"

typedef struct hr_piece {
  const char *text; /* NULL: the id stands for nothing */
  uint32_t bytes;
  bool special;
} hr_piece;

enum { HR_NORMALIZERS = 32, HR_RELAYS = 32, HR_REGEXES = 32, HR_DECODERS = 16, HR_MAX_IDS = 1 << 22 };

struct hr_tokenizer {
  hr_arena arena; /* everything below but the regular expressions */
  const char *file, *model, *remark;
  hr_piece *pieces; /* by id */
  size_t count, capacity;
  hr_words ids;  /* by piece */
  bool alphabet; /* pieces are written in the alphabet of byte-level vocabularies */

  hr_added_token *tokens; /* added ones, in order */
  size_t token_count, token_capacity;
  hr_added found_raw, found_normal; /* before and behind normalization */

  hr_normalizer normalizers[HR_NORMALIZERS];
  size_t normalizer_count;
  hr_relay *relays[HR_RELAYS]; /* in order; the last is the model */
  size_t relay_count;
  int slot_count;
  bool cached; /* the model is BPE */
  hr_regex *regexes[HR_REGEXES];
  size_t regex_count;

  hr_ids before, behind; /* of a text with special tokens */
  hr_joint joint;
  hr_decoder decoders[HR_DECODERS];
  size_t decoder_count;
  int32_t roles[HR_TOKEN_ROLES];
  hr_ids ends;
};

hr_status hr__build_create(const char *file, hr_tokenizer **out, hr_error *err);

/* Room for ids below `ids`, of which `pieces` stand for something. To be called once, before any piece is there. */
hr_status hr__build_room(hr_tokenizer *t, size_t ids, size_t pieces, hr_error *err);
/* A copy of `text` becomes the piece of an id. An id that is taken, or a piece that is there, is HR_BAD_INPUT without a
 * place. */
hr_status hr__build_piece(hr_tokenizer *t, int64_t id, const char *text, size_t bytes, hr_error *err);
/* An added token: it gets the id that its text has, or the next one that is free. */
hr_status hr__build_token(hr_tokenizer *t, hr_added_token token, int32_t *id, hr_error *err);
const char *hr__build_copy(hr_tokenizer *t, const char *text, size_t bytes); /* NULL: out of memory */

/* Memory for a relay, zeroed; it is linked behind those that are there. NULL: out of memory or too many. */
void *hr__build_relay(hr_tokenizer *t, size_t bytes,
                      hr_status (*run)(const hr_relay *, hr_encoder *, hr_span, hr_error *));
hr_status hr__build_regex(hr_tokenizer *t, const char *pattern, size_t bytes, hr_dialect dialect, const hr_regex **out,
                          hr_error *err);
hr_normalizer *hr__build_normalizer(hr_tokenizer *t, hr_error *err); /* NULL: too many */
hr_decoder *hr__build_decoder(hr_tokenizer *t, hr_error *err);       /* NULL: too many */
/* A relay that cuts by a pattern, by hand where it is known. */
hr_status hr__build_split(hr_tokenizer *t, const char *pattern, size_t bytes, hr_dialect dialect, hr_error *err);

/* Models made of the pieces that are there (of the first `count` for Unigram). */
hr_status hr__build_wordpiece(hr_tokenizer *t, const char *prefix, size_t prefix_bytes, size_t most_chars,
                              int32_t unknown, hr_error *err);
hr_status hr__build_unigram(hr_tokenizer *t, const double *scores, size_t count, int32_t unknown, bool byte_fallback,
                            hr_error *err);

/* The tokens <0x00> to <0xFF>, -1 for those that are not there; whether all are. */
bool hr__build_fallback(const hr_tokenizer *t, int32_t out[256]);

/* Called last: added tokens are made findable. */
hr_status hr__build_finish(hr_tokenizer *t, hr_error *err);

#endif
