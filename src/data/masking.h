/* Masking: rows of tokens become questions about some of their tokens (masked language modelling).
 *
 * Of the n tokens of a row that hold data, part * n are masked, rounded, at least one: they are the targets, and all
 * other positions have none. Most of them are replaced by the mask token, some by any token, some stay as they are.
 * How many are masked follows from n alone, so that the mean over an effective batch is known before it is read;
 * which and how is a function of (seed, number of the row), so that resuming needs no state.
 */
#ifndef HR_DATA_MASKING_H
#define HR_DATA_MASKING_H

#include "base/random.h"
#include "data/keys.h"

typedef struct hr_masking {
  double part;         /* of a row's tokens that are masked; 0: rows stay as they are */
  double random, keep; /* parts of these that show any token, and their own */
  int32_t token;       /* shown by the others */
  uint64_t vocabulary;
  hr_random_key where[2], how[2]; /* of training, of evaluation */
} hr_masking;

/* The settings of a model that is trained this way (`masked`); for another one part is 0 and any setting of
 * data.masking is HR_BAD_INPUT. */
hr_status hr__masking_read(const hr_recipe *recipe, bool masked, int64_t vocabulary, uint64_t seed, hr_masking *out,
                           hr_error *err);

/* Masked positions of a row with that many tokens. */
int64_t hr__masking_count(const hr_masking *masking, int64_t tokens);
/* Masks tokens [0, count) of a row in place; targets [0, width) become the answers, -1 elsewhere. */
void hr__masking_apply(const hr_masking *masking, bool eval, uint64_t row, int64_t count, int64_t width,
                       int32_t *tokens, int32_t *targets);

#endif
