/* An answer: the tokens that a sequence got, and their text, up to where it ends. */
#ifndef HR_GENERATE_ANSWER_H
#define HR_GENERATE_ANSWER_H

#include "data/codec.h"

typedef enum hr_end {
  HR_END_NONE,    /* it goes on */
  HR_END_TOKEN,   /* a token that ends texts, which is not part of it */
  HR_END_STOP,    /* a stop string, which is not part of the text */
  HR_END_LENGTH,  /* as many tokens as were asked for */
  HR_END_CONTEXT, /* the context is full */
} hr_end;
const char *hr_end_name(hr_end end); /* "end_token", "stop_string", ... */

typedef struct hr_answer_rules {
  const int32_t *ends; /* tokens that end it */
  size_t n_ends;
  const char *const *stops; /* strings that do; none is empty */
  size_t n_stops;
  int64_t tokens; /* at most */
} hr_answer_rules;

typedef struct hr_answer {
  const hr_answer_rules *rules;
  hr_ids ids;
  hr_string text; /* all that is final of it */
  size_t shown;   /* bytes of it that can be shown: what follows may be the beginning of a stop string */
  hr_end end;
  hr_codec_stream stream;
} hr_answer;

hr_status hr__answer_begin(const hr_codec *codec, const hr_answer_rules *rules, hr_answer *out, hr_error *err);
/* The next token. Once `end` says so, text and `shown` are whole. */
hr_status hr__answer_put(hr_answer *answer, int32_t id, hr_error *err);
/* It ends here, for a reason that only the caller knows. */
hr_status hr__answer_end(hr_answer *answer, hr_end end, hr_error *err);
void hr__answer_destroy(hr_answer *answer);

#endif
