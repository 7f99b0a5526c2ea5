/* Samples of what a model writes while it is trained: its likeliest continuations of training.generation_prompts, or
 * its answers to questions of the data, every training.generation_every steps. They change nothing of the training. */
#ifndef HR_TRAIN_SAMPLES_H
#define HR_TRAIN_SAMPLES_H

#include "generate/generate.h"
#include "train/log.h"
#include "train/session.h"

typedef struct hr_samples {
  int64_t every; /* steps; 0: never */
  const char *const *texts;
  hr_asked *asked; /* with questions of the data: each of them, `texts` are what they ask; else NULL */
  size_t count;
  int patches_field; /* of questions: the field that has their signals */
  int64_t points;    /* of a patch of a channel; 0: there are no signals */
  hr_prompt *prompts;
  hr_answer *answers;
  hr_ids ids, ends;
  hr_codec codec;
  hr_generator *generator;
  int64_t tokens;
  hr_arena arena;
} hr_samples;

/* Reads the settings, opens the tokenizer, encodes the prompts. */
hr_status hr__samples_open(const hr_session *session, hr_samples *out, hr_error *err);
void hr__samples_close(hr_samples *samples); /* also of one that failed half-way */

/* Makes them, tells them by the store's messages, logs them, and draws those that are answers with their signals.
 * `stopped` as in hr_generate_options. */
hr_status hr__samples_make(hr_samples *samples, int64_t step, const hr_store *store, hr_log *log,
                           bool (*stopped)(void *user), hr_error *err);

#endif
