/* The way of a text to ids: relays in a row, each of which hands pieces of what it got to the next.
 *
 * Pre-tokenizers are relays that cut (text/cut*.c, text/split.c); a model is the last relay and puts ids behind those
 * of the encoder. A relay is immutable. What changes while text is encoded lies in the encoder, of which each thread
 * has its own.
 */
#ifndef HR_TEXT_RELAY_H
#define HR_TEXT_RELAY_H

#include <stdbool.h>

#include "text/grow.h"

typedef struct hr_span {
  const char *text; /* well-formed UTF-8, but for pieces of a byte-level tokenizer: any bytes */
  size_t bytes;     /* at least 1 */
  bool first;       /* begins where the source text begins */
} hr_span;

typedef struct hr_encoder hr_encoder;
typedef struct hr_relay hr_relay;
struct hr_relay {
  hr_status (*run)(const hr_relay *relay, hr_encoder *encoder, hr_span span, hr_error *err);
  const hr_relay *next; /* NULL: a model */
  int slot;             /* its buffer in the encoder, where it rewrites text */
};

enum { HR_RELAY_SLOTS = 16, HR_MODEL_BUFFERS = 4 };

typedef struct hr_cache_line hr_cache_line;

struct hr_encoder {
  const struct hr_tokenizer *tokenizer;
  hr_ids *ids; /* of the text at hand */
  hr_string slots[HR_RELAY_SLOTS];
  hr_string normal[2];               /* text before and behind a normalizer */
  hr_string model[HR_MODEL_BUFFERS]; /* arrays of the model */
  hr_cache_line *cache;              /* words of a BPE model that were met; NULL: the model has no use for it */
  struct hr_regex_room *room;        /* for matches of regular expressions; NULL: there are none */
};

static inline hr_status hr__relay_next(const hr_relay *relay, hr_encoder *encoder, hr_span span, hr_error *err) {
  return relay->next->run(relay->next, encoder, span, err);
}

#endif
