/* How good answers are, as texts. Words are what stands between blanks, ASCII letters in lower case.
 *
 *   exact      1 where both have the same words
 *   f1         of words, in any order: 2 common / (words of one + words of the other)
 *   bleu       BLEU-4 of the one answer: geometric mean of the parts of its runs of 1 to 4 words that are in the
 *              expected one, each as often as there, one more added above and below for runs of 2 to 4 (so that short
 *              answers have a value); times exp(1 - expected / got words) where it is shorter
 *   rouge_l    f1 of the longest common row of words, which may have others between them
 *
 * Two texts without words are the same; one without words has nothing in common with one that has some.
 */
#ifndef HR_DATA_ANSWERS_H
#define HR_DATA_ANSWERS_H

#include <stdint.h>

#include "base/status.h"

typedef struct hr_answer_scores {
  double exact, f1, bleu, rouge_l;
} hr_answer_scores;

hr_status hr__answer_score(const char *expected, const char *got, hr_answer_scores *out, hr_error *err);

/* Sums over answers, and exact ones by the type of question. */
enum { HR_ANSWER_TYPES = 8 };
typedef struct hr_answers {
  uint64_t count;
  hr_answer_scores sum;
  struct {
    const char *type;
    uint64_t count, exact;
  } of_type[HR_ANSWER_TYPES]; /* in the order in which they came; further ones are only in the sums */
  int n_types;
} hr_answers;
void hr__answers_add(hr_answers *all, const char *type, const hr_answer_scores *one); /* `type` stays the caller's */
hr_answer_scores hr__answers_mean(const hr_answers *all);                             /* 0 where there are none */

#endif
