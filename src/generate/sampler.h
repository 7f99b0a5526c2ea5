/* The next token from logits: the most likely one, or drawn from what the settings leave of the distribution. */
#ifndef HR_GENERATE_SAMPLER_H
#define HR_GENERATE_SAMPLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* In the order in which they are applied. */
typedef struct hr_sampling {
  double repetition_penalty; /* logits of tokens that the sequence has: divided by it, times it below 0; 1: none */
  double temperature;        /* logits are divided by it; 0: the most likely token, and nothing below counts */
  int64_t top_k;             /* only the k most likely; 0: all */
  double top_p;              /* of these, only the most likely whose sum before them is below it; 1: all */
  double min_p;              /* of these, only those at least so likely, as a part of the likeliest; 0: all */
  uint64_t seed;
} hr_sampling;

static const hr_sampling HR_GREEDY = {.repetition_penalty = 1, .top_p = 1};

/* Whether the most likely token by the logits as they are is all that is asked for. */
static inline bool hr__sampling_is_plain(const hr_sampling *s) {
  return s->temperature == 0 && s->repetition_penalty == 1;
}

typedef struct hr_candidate {
  float logit;
  int32_t id;
} hr_candidate;

/* Room for a vocabulary; one for all sequences. */
typedef struct hr_sampler {
  hr_sampling settings;
  size_t vocabulary;
  hr_candidate *candidates;
} hr_sampler;

hr_status hr__sampler_create(const hr_sampling *settings, size_t vocabulary, hr_sampler *out, hr_error *err);
void hr__sampler_destroy(hr_sampler *sampler);

/* The token that follows. `seen` (or NULL) has a bit for each token that the sequence has; `sequence` and `position`
 * key the random number, so that a token is a function of logits, settings and place. Logits that are not numbers are
 * never drawn. */
int32_t hr__sampler_pick(hr_sampler *sampler, const float *logits, const uint64_t *seen, uint64_t sequence,
                         uint64_t position);

#endif
