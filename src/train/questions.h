/* Questions of a session's data as prompts: those that are held out, or all where none is. */
#ifndef HR_TRAIN_QUESTIONS_H
#define HR_TRAIN_QUESTIONS_H

#include "generate/generate.h"
#include "train/session.h"

typedef struct hr_questions {
  const hr_data *data;
  hr_fields fields; /* of one sample */
  bool held;        /* the questions are held out */
  uint64_t count;   /* of them */
  int tokens;       /* the field of prompts */
  int patches;      /* the field of signals; -1: there is none */
  int64_t points;   /* of a patch of a channel */
} hr_questions;

hr_questions hr__questions_of(const hr_session *session);

/* Room for the fields of one question, in the arena. NULL: out of memory. */
void **hr__question_room(const hr_questions *questions, hr_arena *arena);
/* Question `number`, its fields written at `at`, which the prompt refers to. */
hr_status hr__question_take(const hr_questions *questions, uint64_t number, void **at, hr_asked *asked,
                            hr_prompt *prompt, hr_error *err);

#endif
