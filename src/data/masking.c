/* See masking.h. */
#include "data/masking.h"

#include <inttypes.h>
#include <math.h>

#define SECTION "data.masking"

/* Defaults are in hr__masking_read: a recipe of a model that predicts the next token has no such settings. */
static const hr_key keys[] = {
    {.path = SECTION ".part",
     .type = HR_KEY_FLOAT,
     .min = 1e-6,
     .max = 1,
     .meaning = "masked models: part of the tokens that are masked (default: 0.15)"},
    {.path = SECTION ".token",
     .type = HR_KEY_INT,
     .min = 0,
     .max = INT32_MAX,
     .meaning = "masked models: number of the mask token (default: 256, the first that is no byte)"},
    {.path = SECTION ".random",
     .type = HR_KEY_FLOAT,
     .min = 0,
     .max = 1,
     .meaning = "masked models: part of the masked tokens that show any token instead (default: 0.1)"},
    {.path = SECTION ".keep",
     .type = HR_KEY_FLOAT,
     .min = 0,
     .max = 1,
     .meaning = "masked models: part of the masked tokens that stay as they are (default: 0.1)"},
};
const hr_key_table hr_masking_keys = {keys, sizeof keys / sizeof *keys};

static double float_or(const hr_recipe *r, const char *path, double fallback) {
  return hr__recipe_has(r, path) ? hr__recipe_float(r, path) : fallback;
}

hr_status hr__masking_read(const hr_recipe *r, bool masked, int64_t vocabulary, uint64_t seed, hr_masking *out,
                           hr_error *err) {
  *out = (hr_masking){0};
  if (!masked) {
    if (!hr__recipe_given(r, SECTION)) return HR_OK;
    return hr__recipe_fail(r, SECTION, "remove data.masking", err,
                           "family %s is trained on the next token: nothing is masked",
                           hr__recipe_text(r, "model.family"));
  }
  *out = (hr_masking){
      .part = float_or(r, SECTION ".part", 0.15),
      .random = float_or(r, SECTION ".random", 0.1),
      .keep = float_or(r, SECTION ".keep", 0.1),
      .token = 256,
      .vocabulary = (uint64_t)vocabulary,
      .where = {{seed, hr__random_stream("data.masking.where")}, {seed, hr__random_stream("data.masking.where.eval")}},
      .how = {{seed, hr__random_stream("data.masking.how")}, {seed, hr__random_stream("data.masking.how.eval")}}};
  if (hr__recipe_has(r, SECTION ".token")) out->token = (int32_t)hr__recipe_int(r, SECTION ".token");
  if (out->token >= vocabulary)
    return hr__recipe_fail(r, SECTION ".token", "give data.masking.token, or raise model.config.vocab_size", err,
                           "the mask token %" PRId32 " is not in the vocabulary of %" PRId64 " tokens", out->token,
                           vocabulary);
  if (out->random + out->keep > 1)
    return hr__recipe_fail(r, SECTION, "lower one of them", err,
                           "data.masking: random (%g) and keep (%g) are more than 1 together", out->random, out->keep);
  return HR_OK;
}

int64_t hr__masking_count(const hr_masking *m, int64_t tokens) {
  if (tokens <= 0) return 0;
  int64_t count = llround(m->part * (double)tokens);
  return count < 1 ? 1 : count;
}

void hr__masking_apply(const hr_masking *m, bool eval, uint64_t row, int64_t count, int64_t width, int32_t *tokens,
                       int32_t *targets) {
  for (int64_t t = 0; t < width; t++)
    targets[t] = -1;
  int64_t asked = hr__masking_count(m, count);
  for (int64_t i = 0; i < asked; i++) {
    uint64_t at = hr__random_permute(m->where[eval], row, (uint64_t)i, (uint64_t)count);
    hr_random_block draw = hr__random_at(m->how[eval], row, at);
    double way = (double)draw.word[0] * 0x1p-32;
    targets[at] = tokens[at];
    if (way < m->keep) continue;
    bool any = way < m->keep + m->random;
    tokens[at] = any ? (int32_t)((uint64_t)draw.word[1] * m->vocabulary >> 32) : m->token;
  }
}
