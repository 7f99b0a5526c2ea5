/* The generator: a batch of sequences over the programs of a run that generate (model/generation.h). Each row of the
 * batch is one sequence with its place in the caches; tokens are fed to it, and the one that follows comes back. */
#ifndef HR_GENERATE_GENERATOR_H
#define HR_GENERATE_GENERATOR_H

#include "generate/sampler.h"
#include "model/generation.h"
#include "run/run.h"

typedef struct hr_generator hr_generator;

/* For the programs that `recipe` has in the plan of `run`. Whoever feeds batches to other programs of the run does so
 * before: the slot fed last (hr__run_feed) is written to. */
hr_status hr__generator_create(hr_run *run, const hr_recipe *recipe, const hr_sampling *sampling, hr_generator **out,
                               hr_error *err);
void hr__generator_destroy(hr_generator *generator); /* or NULL */

int64_t hr__generator_batch(const hr_generator *generator);
int64_t hr__generator_context(const hr_generator *generator);

/* How many of the first `common` tokens, which the caches of `row` hold, its next sequence can begin with. */
int64_t hr__generator_keeps(const hr_generator *generator, int64_t row, int64_t common);
/* Row `row` becomes sequence number `sequence` (which keys its random numbers) with its first `kept` tokens, which the
 * caches hold already, as hr__generator_keeps allows; 0: a new one. */
void hr__generator_begin(hr_generator *generator, int64_t row, uint64_t sequence, const int32_t *ids, int64_t kept);

/* New tokens of a row, and the token that follows them. A row without new ones rests. A prompt that is a sample of the
 * data has all its fields: `sample` has each at the place that it has in hr__model_fields. */
typedef struct hr_fed {
  const int32_t *ids;
  int64_t count;
  int32_t next;
  void *const *sample;
} hr_fed;
/* `rows` has one for each row of the batch. A sequence that would become longer than the context is HR_FAILURE. */
hr_status hr__generator_feed(hr_generator *generator, hr_fed *rows, hr_error *err);

#endif
