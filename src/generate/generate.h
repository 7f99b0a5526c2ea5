/* Prompts continued: as many at a time as the generator has rows; a row whose answer has ended takes the next prompt.
 */
#ifndef HR_GENERATE_GENERATE_H
#define HR_GENERATE_GENERATE_H

#include "generate/answer.h"
#include "generate/generator.h"

typedef struct hr_prompt {
  const int32_t *ids;
  int64_t count;
  int64_t kept;        /* of these, how many the row's caches hold already; of the only prompt of a call */
  void *const *sample; /* of a prompt that is a sample of the data (hr_fed) */
} hr_prompt;

typedef struct hr_generate_options {
  hr_answer_rules rules;
  /* (optional) after each token that prompt `number` got, and when its answer has ended. */
  void (*heard)(void *user, size_t number, const hr_answer *answer);
  /* (optional) whether to stop; answers then stay as they are, with HR_END_NONE. */
  bool (*stopped)(void *user);
  void *user;
} hr_generate_options;

/* What it took. The first token of an answer comes of reading its prompt. */
typedef struct hr_generate_times {
  double read_seconds, write_seconds;  /* calls that read prompts; calls that only went on by one token each */
  int64_t read_tokens, written_tokens; /* tokens of prompts; of answers without the first of each */
} hr_generate_times;

/* Answers to `count` prompts, each of them begun here and the caller's to destroy, also after an error. A prompt that
 * leaves no room in the context is HR_BAD_INPUT, before anything is computed. `times` is added to. */
hr_status hr__generate(hr_generator *generator, const hr_codec *codec, const hr_prompt *prompts, size_t count,
                       const hr_generate_options *options, hr_answer *answers, hr_generate_times *times, hr_error *err);

#endif
