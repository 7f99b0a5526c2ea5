/* What the files of `headroom generate` share. */
#ifndef HR_CLI_GENERATE_H
#define HR_CLI_GENERATE_H

#include "cli/cli.h"
#include "data/chat.h"
#include "generate/ends.h"
#include "generate/generate.h"
#include "job/job.h"
#include "train/origin.h"
#include "train/session.h"

/* One call of the command, from the folder to the generator. */
typedef struct hr_generating {
  hr_cli *cli;
  hr_origin origin;
  hr_recipe *recipe; /* as far as it is needed before there is a plan */
  hr_codec codec;
  hr_chat chat; /* with --chat */
  hr_ids ends;
  const char **stops;
  size_t n_stops;
  int64_t max_tokens; /* of an answer */
  hr_sampling sampling;
  const char **texts; /* prompts as they were given */
  hr_prompt *prompts;
  size_t n_prompts;
  hr_ids ids; /* of all prompts */
  hr_job *job;
  hr_device *device;
  hr_train_options options;
  hr_session session;
  hr_generator *generator;
} hr_generating;

/* generate_open.c: weights in place, ready to generate `batch` sequences of up to `wanted` positions, or, where that
 * does not fit, of as many as do, but not fewer than `least`. `exact`: of just `wanted`. */
typedef struct hr_generating_size {
  int64_t batch, least, wanted;
  bool exact;
} hr_generating_size;
hr_status hr__generating_settings(hr_generating *g, hr_error *err); /* folder, tokens, ends */
hr_status hr__generating_plan(hr_generating *g, const hr_generating_size *size, hr_error *err);
hr_status hr__generating_load(hr_generating *g, hr_error *err);
void hr__generating_close(hr_generating *g);

/* generate_chat.c: lines of stdin, each answered, until its end. */
hr_status hr__generating_chat(hr_generating *g, hr_error *err);
/* The prompt of a conversation, appended to `ids`. */
hr_status hr__generating_turns(hr_generating *g, const hr_doc_node *messages, hr_arena *arena, hr_ids *ids,
                               hr_error *err);
/* A message at the end of a list. */
hr_status hr__generating_say(hr_doc_node *messages, const char *role, const char *text, hr_arena *arena, hr_error *err);

/* generate_data.c: questions about data, answered by the model of a run. */
hr_status hr__generating_ask(hr_generating *g, hr_error *err);

/* generate.c: one answer, and all of them, for --json. NULL: out of memory. `list` is taken. */
json_t *hr__generating_answer(const char *prompt, int64_t tokens, const hr_answer *answer);
json_t *hr__generating_answers(json_t *list, const hr_generator *generator, const hr_generate_times *times,
                               uint64_t planned, uint64_t measured);

/* Rules of its answers. */
hr_answer_rules hr__generating_rules(const hr_generating *g);
bool hr__generating_stopped(void *unused);
hr_status hr__generating_interrupted(hr_error *err); /* HR_OK: no signal came */

#endif
