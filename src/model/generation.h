/* Generation: programs that continue sequences, some tokens of each at a time.
 *
 * A program of length T takes up to T new tokens of every sequence of the batch, puts their keys and values into caches
 * (op/cache.h), and gives the logits behind the last of them. The program of length 1 makes one token after the other;
 * longer ones read prompts, which may be longer than any: they are read in pieces. A row has the same bits whatever
 * program it goes through.
 */
#ifndef HR_MODEL_GENERATION_H
#define HR_MODEL_GENERATION_H

#include "model/model.h"

/* Fields of their batches, beside "tokens" [batch, length]; what they say is in op/cache.h. */
#define HR_FIELD_POSITIONS "positions"
#define HR_FIELD_COUNTS    "counts"
#define HR_FIELD_LAST      "last" /* i32 [batch, 1]: number of the row's last token that is there; lengths above 1 */

/* Outputs. */
#define HR_OUTPUT_LOGITS "logits" /* [batch, 1, vocabulary] */
#define HR_OUTPUT_BEST   "best"   /* i32 [batch, 1, 1]: the first of the largest */

enum { HR_GENERATION_LENGTHS = 3, HR_GENERATION_BATCH = 256 };

typedef struct hr_generation {
  bool any;    /* there are such programs */
  bool asked;  /* prompts are samples of the data, read by the longest program at once (hr_model.prompt) */
  bool alone;  /* and no others: nothing is trained */
  bool onward; /* a sequence cannot be taken back to an earlier position (hr_model.onward) */
  int64_t batch, context;
  int64_t lengths[HR_GENERATION_LENGTHS]; /* of the programs, ascending; the first is 1 */
  int n_lengths;
} hr_generation;

extern const hr_key_table hr_generation_keys;

bool hr__generation_alone(const hr_recipe *recipe);
/* As the recipe has it; what contradicts itself is HR_BAD_INPUT. */
hr_status hr__generation_read(const hr_recipe *recipe, hr_generation *out, hr_error *err);
/* Most positions that the model was made for; INT64_MAX: it does not say. */
int64_t hr__generation_positions(const hr_recipe *recipe);

/* The key of the program of lengths[i], and its forward pass, in the builder's current program. */
hr_program_key hr__generation_program(const hr_generation *generation, int i);
void hr__generation_emit(hr_builder *b, const hr_model_part *model, const hr_generation *generation, int i);
/* Fields of its batches. */
hr_fields hr__generation_fields(const hr_model_part *model, const hr_generation *generation, int i);

#endif
