/* Questions as tokens. A sample is
 *
 *   QUESTION: {question}\nINSTRUCTION: Answer the question using the available context.\nSENSOR_CONTEXT:
 *   [SENSOR] for each patch, \nANSWER:, a blank and the answer, the token that ends a text
 *
 * without a token that begins a text. Each of these pieces is made into tokens by itself, so that a prompt has the same
 * tokens with its answer behind it and without. Targets are the tokens of the answer and its end. See sensors.h.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "data/codec.h"
#include "data/row_text.h"
#include "data/sensors.h"

static const char PLACE[] = "[SENSOR]", MARK[] = "\nANSWER:";
static const char BEFORE[] = "QUESTION: ",
                  BEHIND[] = "\nINSTRUCTION: Answer the question using the available context.\nSENSOR_CONTEXT:";

/* Tokens of a question end where those of its answer begin, and these where the next question's do. */
static size_t ids_end(const hr_sensors *s, const hr_question *question) {
  return question + 1 < s->questions + s->n_questions ? question[1].ids : s->ids.count;
}

static int64_t prompt_ids(const hr_question *question) {
  return (int64_t)(question->answer_ids - question->ids);
}

int64_t hr__question_prompt(const hr_sensors *s, const hr_question *question) {
  return prompt_ids(question) + question->patches + (int64_t)s->answer_mark.count;
}

int64_t hr__question_targets(const hr_sensors *s, const hr_question *question) {
  return (int64_t)(ids_end(s, question) - question->answer_ids);
}

int64_t hr__question_length(const hr_sensors *s, const hr_question *question) {
  int64_t targets = hr__question_targets(s, question);
  return hr__question_prompt(s, question) + (targets > 0 ? targets - 1 : 0);
}

void hr__question_fill(const hr_sensors *s, const hr_question *question, bool answered, int64_t length,
                       const hr_question_room *to) {
  int64_t own = prompt_ids(question), mark = own + question->patches, prompt = hr__question_prompt(s, question);
  int64_t targets = answered ? hr__question_targets(s, question) : 0;
  const int32_t *ids = s->ids.items + question->ids, *answer = s->ids.items + question->answer_ids;
  for (int64_t t = 0; t < length; t++) {
    bool patch = t >= own && t < mark;
    int64_t behind = t - prompt; /* answer's token, of those but the last */
    int32_t token = t < own ? ids[t] : patch ? s->sensor : 0;
    if (t >= mark && t < prompt) token = s->answer_mark.items[t - mark];
    if (behind >= 0 && behind < targets - 1) token = answer[behind];
    if (to->tokens) to->tokens[t] = token;
    if (to->targets) to->targets[t] = behind >= -1 && behind + 1 < targets ? answer[behind + 1] : -1;
    if (to->placement) to->placement[t] = (int32_t)(patch ? length + t - own : t);
  }
}

typedef struct making {
  hr_sensors *s;
  const hr_source_request *request;
  hr_codec codec;
  hr_string text; /* room */
} making;

static hr_status question_encode(making *m, hr_question *question, hr_error *err) {
  hr_sensors *s = m->s;
  question->ids = s->ids.count;
  m->text.count = 0;
  HR_TRY(hr__string_add(&m->text, BEFORE, strlen(BEFORE), err));
  HR_TRY(hr__string_add(&m->text, question->text, strlen(question->text), err));
  HR_TRY(hr__string_add(&m->text, BEHIND, strlen(BEHIND), err));
  HR_TRY(hr__codec_encode(&m->codec, m->text.data, m->text.count, false, &s->ids, err));
  question->answer_ids = s->ids.count;
  if (!question->answer) return HR_OK;
  m->text.count = 0;
  HR_TRY(hr__string_add(&m->text, " ", 1, err));
  HR_TRY(hr__string_add(&m->text, question->answer, strlen(question->answer), err));
  HR_TRY(hr__codec_encode(&m->codec, m->text.data, m->text.count, false, &s->ids, err));
  return hr__ids_add(&s->ids, s->end, err);
}

/* A question that is longer than a sample has no answer within it. */
static hr_status length_check(const making *m, hr_question *question, hr_error *err) {
  hr_sensors *s = m->s;
  int64_t positions = hr__question_prompt(s, question) + (int64_t)(s->ids.count - question->answer_ids);
  positions -= s->ids.count > question->answer_ids; /* the last token is only a target */
  if (positions <= m->request->length) return HR_OK;
  hr_error why = {0};
  char place[HR_ROW_PLACE], remedy[128];
  question->bad = true;
  s->ids.count = question->answer_ids = question->ids;
  hr__row_place(s->settings.questions, question->line, place);
  snprintf(remedy, sizeof remedy, "raise data.sequence_length to %" PRId64 ", or lower data.sensors.context_size",
           positions);
  hr__fail(&why, HR_BAD_INPUT, place, remedy,
           "question and answer take %" PRId64 " positions with their %" PRId64 " patches, more than the %" PRId64
           " of a sample",
           positions, question->patches, m->request->length);
  return hr__bad_row(&s->bad_questions, &why, err);
}

static hr_status ids_check(const making *m, const hr_ids *ids, int64_t bound, hr_error *err) {
  for (size_t i = 0; i < ids->count; i++)
    if (ids->items[i] >= bound)
      return hr__recipe_fail(m->request->recipe, "data.tokenizer", "give the tokenizer that the model was made with",
                             err, "the questions have token %" PRId32 ", but the model's vocabulary has only %" PRId64,
                             ids->items[i], bound);
  return HR_OK;
}

static hr_status tokens_make(making *m, hr_error *err) {
  hr_sensors *s = m->s;
  const hr_recipe *recipe = m->request->recipe;
  int64_t bound = m->request->fields->list[hr__field_for(m->request->fields, HR_FOR_TOKENS)].bound;
  HR_TRY(hr__codec_open(recipe, &m->codec, err));
  s->end = m->codec.tokenizer ? hr__tokenizer_role(m->codec.tokenizer, HR_TOKEN_END) : -1;
  if (hr__recipe_has(recipe, "data.end_id")) s->end = (int32_t)hr__recipe_int(recipe, "data.end_id");
  if (s->end < 0 && !s->settings.unanswered)
    return hr__recipe_fail(recipe, "data.source", "give data.end_id, or a tokenizer whose folder names an eos_token",
                           err, "which token ends an answer is not known");
  s->sensor = m->codec.tokenizer ? hr__tokenizer_find(m->codec.tokenizer, PLACE, strlen(PLACE)) : -1;
  if (s->sensor < 0 || s->sensor >= bound) s->sensor = 0;
  HR_TRY(hr__codec_encode(&m->codec, MARK, strlen(MARK), false, &s->answer_mark, err));
  for (size_t i = 0; i < s->n_questions; i++) {
    hr_question *question = &s->questions[i];
    question->ids = question->answer_ids = s->ids.count;
    if (question->bad) continue;
    HR_TRY(question_encode(m, question, err));
    HR_TRY(length_check(m, question, err));
  }
  HR_TRY(hr__bad_rows_judge(&s->bad_questions, err));
  HR_TRY(ids_check(m, &s->ids, bound, err));
  return ids_check(m, &s->answer_mark, bound, err);
}

hr_status hr__sensors_tokens(hr_sensors *s, const hr_source_request *request, hr_error *err) {
  making m = {.s = s, .request = request};
  hr_status status = tokens_make(&m, err);
  hr__codec_close(&m.codec);
  hr__string_fini(&m.text);
  return status;
}
