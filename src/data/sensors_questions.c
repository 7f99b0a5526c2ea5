/* Questions from JSON lines, and which recordings each is about. See sensors.h. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "data/row_text.h"
#include "data/sensors.h"

enum { RECORDINGS_MOST = 1024 }; /* of a question */

static const char *const types[] = {"simple_activity_recognition", "multi_activity_ordering",
                                    "multi_activity_existence", "multi_activity_relative_ordering"};
enum { TYPES = sizeof types / sizeof *types };

const char *hr__question_type_named(const char *name) {
  for (size_t i = 0; i < TYPES; i++)
    if (strcmp(types[i], name) == 0) return types[i];
  return NULL;
}

typedef struct reading {
  hr_sensors *s;
  size_t capacity;
} reading;

static hr_status type_of(const hr_row_at *at, const char **out, hr_error *err) {
  const char *type;
  HR_TRY(hr__row_text(at, "question_type", true, &type, err));
  *out = hr__question_type_named(type);
  if (*out) return HR_OK;
  return hr__row_fail(at,
                      "one of: simple_activity_recognition, multi_activity_ordering, multi_activity_existence, "
                      "multi_activity_relative_ordering",
                      err, "there is no question type %.80s", type);
}

static hr_status name_check(const hr_row_at *at, const hr_doc_node *name, const hr_recording *recording,
                            hr_error *err) {
  if (name->kind == HR_DOC_SCALAR && strcmp(name->text, recording->name) == 0) return HR_OK;
  char differs[240];
  snprintf(differs, sizeof differs, "activity %" PRId64 " is called %.80s here and %.80s in the manifest",
           recording->activity, name->kind == HR_DOC_SCALAR ? name->text : "something else", recording->name);
  return hr__row_fail(at, "mend activity_indices or activity_names", err, "%s", differs);
}

static hr_status recording_of(const reading *r, const hr_row_at *at, const hr_doc_node *index, int32_t *out,
                              hr_error *err) {
  const char *subject, *split;
  double activity;
  HR_TRY(hr__row_text(at, "subject", true, &subject, err));
  HR_TRY(hr__row_text(at, "split", true, &split, err));
  if (!hr__row_number(index, &activity) || activity != floor(activity) || fabs(activity) > 1e15)
    return hr__row_fail(at, "write it as [0, 2]", err, "%s is not a list of whole numbers", "activity_indices");
  int64_t found = hr__recording_find(r->s, subject, split, (int64_t)activity);
  *out = (int32_t)found;
  if (found >= 0) return HR_OK;
  char which[240];
  snprintf(which, sizeof which, "activity %.0f of subject %.80s, split %.80s", activity, subject, split);
  return hr__row_fail(at, "ask about recordings of manifest.csv", err, "there is no %s in the manifest", which);
}

static hr_status recordings_of(const reading *r, const hr_row_at *at, hr_question *out, hr_error *err) {
  static const char key[] = "activity_indices";
  const hr_doc_node *list = hr__doc_get(at->row->fields, key), *names = hr__doc_get(at->row->fields, "activity_names");
  int32_t found[RECORDINGS_MOST];
  if (!list || list->kind == HR_DOC_MAP) return hr__row_fail(at, "write it as [0, 2]", err, "%s is missing", key);
  const hr_doc_node *name = names && names->kind == HR_DOC_LIST ? names->child : NULL;
  for (const hr_doc_node *one = list->kind == HR_DOC_LIST ? list->child : list; one; one = one->next) {
    if (out->n_recordings == RECORDINGS_MOST)
      return hr__row_fail(at, "ask about fewer", err, "%s has more than 1024 numbers", key);
    int32_t *recording = &found[out->n_recordings++];
    HR_TRY(recording_of(r, at, one, recording, err));
    if (name) HR_TRY(name_check(at, name, &r->s->recordings[*recording], err));
    name = name ? name->next : NULL;
    if (list->kind != HR_DOC_LIST) break;
  }
  if (out->n_recordings == 0) return hr__row_fail(at, "ask about a recording", err, "%s is empty", key);
  int32_t *kept = hr__arena_array(&r->s->arena, out->n_recordings, sizeof *kept);
  if (!kept) return hr__nomem(err);
  memcpy(kept, found, out->n_recordings * sizeof *kept);
  out->recordings = kept;
  return HR_OK;
}

static hr_status question_read(const reading *r, const hr_row_at *at, hr_question *out, hr_error *err) {
  hr_sensors *s = r->s;
  const char *text, *answer;
  HR_TRY(hr__row_parsed(at, err));
  *out = (hr_question){.line = at->row->place.line};
  HR_TRY(type_of(at, &out->type, err));
  HR_TRY(hr__row_text(at, "question", true, &text, err));
  HR_TRY(hr__row_text(at, "answer", !s->settings.unanswered, &answer, err));
  if (!text[0]) return hr__row_fail(at, "ask something", err, "%s is empty", "question");
  if (answer && !answer[0]) return hr__row_fail(at, "give the answer", err, "%s is empty", "answer");
  HR_TRY(recordings_of(r, at, out, err));
  out->text = hr__arena_text(&s->arena, text);
  out->answer = answer ? hr__arena_text(&s->arena, answer) : NULL;
  if (!out->text || (answer && !out->answer)) return hr__nomem(err);
  return HR_OK;
}

static hr_status row_read(void *user, const hr_row_at *at, hr_error *err) {
  reading *r = user;
  hr_sensors *s = r->s;
  hr_error why = {0};
  s->bad_questions.rows++;
  if (s->n_questions == UINT32_MAX ||
      hr__arena_grow(&s->arena, (void **)&s->questions, &r->capacity, s->n_questions, sizeof *s->questions) != 0)
    return hr__nomem(err);
  hr_question *question = &s->questions[s->n_questions];
  hr_status status = question_read(r, at, question, &why);
  if (status == HR_BAD_INPUT) return hr__bad_row(&s->bad_questions, &why, err);
  if (status != HR_OK) return hr__nomem(err);
  for (size_t i = 0; i < question->n_recordings; i++)
    s->recordings[question->recordings[i]].asked = true;
  s->n_questions++;
  return HR_OK;
}

hr_status hr__sensors_questions(hr_sensors *s, hr_error *err) {
  reading r = {.s = s};
  HR_TRY(hr__rows_each(s->settings.questions, row_read, &r, err));
  if (s->bad_questions.rows == 0)
    return hr__fail(err, HR_BAD_INPUT, s->settings.questions, "give it a row for each question",
                    "there is no question in it");
  return hr__bad_rows_judge(&s->bad_questions, err);
}
