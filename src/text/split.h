/* Relays that cut by a pattern: a text, a regular expression, a splitter by hand, or a test of characters. */
#ifndef HR_TEXT_SPLIT_H
#define HR_TEXT_SPLIT_H

#include "text/known.h"
#include "text/regex.h"
#include "text/relay.h"

/* What becomes of the spans that match; "-a--b" by "-": */
typedef enum hr_split_way {
  HR_SPLIT_REMOVED,    /* a b */
  HR_SPLIT_ISOLATED,   /* - a - - b */
  HR_SPLIT_PREVIOUS,   /* - a- - b: merged with the span before, if that is no match */
  HR_SPLIT_NEXT,       /* -a - -b */
  HR_SPLIT_CONTIGUOUS, /* - a -- b */
  HR_SPLIT_WAYS
} hr_split_way;
extern const char *const hr__split_names[HR_SPLIT_WAYS]; /* as tokenizer.json has them: "Removed"... */

typedef struct hr_split {
  hr_relay relay;
  hr_split_way way;
  bool invert; /* what does not match is treated as what does */
  /* One of: */
  hr_known known;
  const hr_regex *regex;
  const char *text; /* searched for as it is, `bytes` long */
  size_t bytes;
  bool (*is)(uint32_t c); /* each character for which it holds */
} hr_split;

hr_status hr__split_run(const hr_relay *relay, hr_encoder *encoder, hr_span span, hr_error *err);

#endif
