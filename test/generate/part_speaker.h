/* A small model with random weights that generates, and the same model's whole forward pass to compare with. */
#ifndef HR_TEST_GENERATE_SPEAKER_H
#define HR_TEST_GENERATE_SPEAKER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "generate/generator.h"
#include "plan/plan.h"

typedef struct speaker {
  hr_recipe *recipe;
  hr_graph *graph;
  hr_plan *plan;
  hr_device *device;
  hr_run *run;
  hr_generator *generator; /* NULL: of the whole forward pass */
  hr_id program, tokens, logits;
  int64_t length; /* of the whole forward pass */
} speaker;

/* A family with settings behind those of all ("config.sliding_window: 16"), or "". */
typedef struct speaker_kind {
  const char *family, *config, *settings;
  const char *sizes; /* in place of those that decoders with attention have; NULL: those */
} speaker_kind;

enum { SPEAKER_VOCABULARY = 300 };

/* Programs that generate. */
void speaker_open(speaker *s, const speaker_kind *kind, int64_t batch, int64_t context, const hr_sampling *sampling);
/* One program over `length` positions, all at once, by the op that trains. */
void speaker_open_whole(speaker *s, const speaker_kind *kind, int64_t length);
void speaker_close(speaker *s);

/* The likeliest token behind ids[0..count), by the whole forward pass. */
int32_t speaker_next_by_whole(speaker *s, const int32_t *ids, int64_t count);
/* Goes on by `count` tokens from a prompt, in row 0 of the generator. */
void speaker_continue(speaker *s, const int32_t *prompt, int64_t n, int32_t *out, int64_t count);
/* Tokens that look drawn. */
void speaker_prompt(int32_t *out, int64_t count, int64_t which);

#endif
