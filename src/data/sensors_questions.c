/* Questions from JSON lines, and which recordings each is about. See sensors.h. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "data/sensors.h"
#include "format/rows.h"

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

static hr_status row_fail(const reading *r, const hr_row *row, const char *remedy, hr_error *err, const char *message,
                          const char *what) {
  char place[4200];
  snprintf(place, sizeof place, "%.4000s:%" PRIu64, r->s->settings.questions, row->place.line);
  return hr__fail(err, HR_BAD_INPUT, place, remedy, message, what);
}

/* A text of a row, as it lies there; NULL in `out`: absent, where it may be. */
static hr_status text_of(const reading *r, const hr_row *row, const char *key, bool needed, const char **out,
                         hr_error *err) {
  const hr_doc_node *node = hr__doc_get(row->fields, key);
  *out = NULL;
  if (!node || hr__doc_is_null(node)) return needed ? row_fail(r, row, NULL, err, "%s is missing", key) : HR_OK;
  if (node->kind != HR_DOC_SCALAR) return row_fail(r, row, "write it as a text", err, "%s is not a text", key);
  *out = node->text;
  return HR_OK;
}

static hr_status type_of(const reading *r, const hr_row *row, const char **out, hr_error *err) {
  const char *type;
  HR_TRY(text_of(r, row, "question_type", true, &type, err));
  *out = hr__question_type_named(type);
  if (*out) return HR_OK;
  return row_fail(r, row,
                  "one of: simple_activity_recognition, multi_activity_ordering, multi_activity_existence, "
                  "multi_activity_relative_ordering",
                  err, "there is no question type %.80s", type);
}

static hr_status name_check(const reading *r, const hr_row *row, const hr_doc_node *name, const hr_recording *recording,
                            hr_error *err) {
  if (name->kind == HR_DOC_SCALAR && strcmp(name->text, recording->name) == 0) return HR_OK;
  char differs[240];
  snprintf(differs, sizeof differs, "activity %" PRId64 " is called %.80s here and %.80s in the manifest",
           recording->activity, name->kind == HR_DOC_SCALAR ? name->text : "something else", recording->name);
  return row_fail(r, row, "mend activity_indices or activity_names", err, "%s", differs);
}

static hr_status recording_of(const reading *r, const hr_row *row, const hr_doc_node *index, int32_t *out,
                              hr_error *err) {
  const char *subject, *split;
  double activity;
  HR_TRY(text_of(r, row, "subject", true, &subject, err));
  HR_TRY(text_of(r, row, "split", true, &split, err));
  if (!hr__row_number(index, &activity) || activity != floor(activity) || fabs(activity) > 1e15)
    return row_fail(r, row, "write it as [0, 2]", err, "%s is not a list of whole numbers", "activity_indices");
  int64_t found = hr__recording_find(r->s, subject, split, (int64_t)activity);
  *out = (int32_t)found;
  if (found >= 0) return HR_OK;
  char which[240];
  snprintf(which, sizeof which, "activity %.0f of subject %.80s, split %.80s", activity, subject, split);
  return row_fail(r, row, "ask about recordings of manifest.csv", err, "there is no %s in the manifest", which);
}

static hr_status recordings_of(const reading *r, const hr_row *row, hr_question *out, hr_error *err) {
  static const char key[] = "activity_indices";
  const hr_doc_node *list = hr__doc_get(row->fields, key), *names = hr__doc_get(row->fields, "activity_names");
  int32_t found[RECORDINGS_MOST];
  if (!list || list->kind == HR_DOC_MAP) return row_fail(r, row, "write it as [0, 2]", err, "%s is missing", key);
  const hr_doc_node *name = names && names->kind == HR_DOC_LIST ? names->child : NULL;
  for (const hr_doc_node *one = list->kind == HR_DOC_LIST ? list->child : list; one; one = one->next) {
    if (out->n_recordings == RECORDINGS_MOST)
      return row_fail(r, row, "ask about fewer", err, "%s has more than 1024 numbers", key);
    int32_t *recording = &found[out->n_recordings++];
    HR_TRY(recording_of(r, row, one, recording, err));
    if (name) HR_TRY(name_check(r, row, name, &r->s->recordings[*recording], err));
    name = name ? name->next : NULL;
    if (list->kind != HR_DOC_LIST) break;
  }
  if (out->n_recordings == 0) return row_fail(r, row, "ask about a recording", err, "%s is empty", key);
  int32_t *kept = hr__arena_array(&r->s->arena, out->n_recordings, sizeof *kept);
  if (!kept) return hr__nomem(err);
  memcpy(kept, found, out->n_recordings * sizeof *kept);
  out->recordings = kept;
  return HR_OK;
}

static hr_status question_read(const reading *r, const hr_row *row, hr_question *out, hr_error *err) {
  hr_sensors *s = r->s;
  const char *text, *answer;
  if (!row->fields) return hr__fail(err, HR_BAD_INPUT, row->why.place, row->why.remedy, "%s", row->why.message);
  *out = (hr_question){.line = row->place.line};
  HR_TRY(type_of(r, row, &out->type, err));
  HR_TRY(text_of(r, row, "question", true, &text, err));
  HR_TRY(text_of(r, row, "answer", !s->settings.unanswered, &answer, err));
  if (!text[0]) return row_fail(r, row, "ask something", err, "%s is empty", "question");
  if (answer && !answer[0]) return row_fail(r, row, "give the answer", err, "%s is empty", "answer");
  HR_TRY(recordings_of(r, row, out, err));
  out->text = hr__arena_text(&s->arena, text);
  out->answer = answer ? hr__arena_text(&s->arena, answer) : NULL;
  if (!out->text || (answer && !out->answer)) return hr__nomem(err);
  return HR_OK;
}

static hr_status row_read(reading *r, const hr_row *row, hr_error *err) {
  hr_sensors *s = r->s;
  hr_error why = {0};
  s->bad_questions.rows++;
  if (s->n_questions == UINT32_MAX ||
      hr__arena_grow(&s->arena, (void **)&s->questions, &r->capacity, s->n_questions, sizeof *s->questions) != 0)
    return hr__nomem(err);
  hr_question *question = &s->questions[s->n_questions];
  hr_status status = question_read(r, row, question, &why);
  if (status == HR_BAD_INPUT) return hr__bad_row(&s->bad_questions, &why, err);
  if (status != HR_OK) return hr__nomem(err);
  for (size_t i = 0; i < question->n_recordings; i++)
    s->recordings[question->recordings[i]].asked = true;
  s->n_questions++;
  return HR_OK;
}

hr_status hr__sensors_questions(hr_sensors *s, hr_error *err) {
  reading r = {.s = s};
  hr_rows *rows = NULL;
  bool there = true;
  HR_TRY(hr__rows_open(s->settings.questions, &rows, err));
  hr_status status = HR_OK;
  while (status == HR_OK && there) {
    hr_arena arena;
    hr_row row = {0};
    hr__arena_init(&arena);
    status = hr__rows_next(rows, &arena, &row, &there, err);
    if (status == HR_OK && there) status = row_read(&r, &row, err);
    hr__arena_fini(&arena);
  }
  hr__rows_close(rows);
  HR_TRY(status);
  if (s->bad_questions.rows == 0)
    return hr__fail(err, HR_BAD_INPUT, s->settings.questions, "give it a row for each question",
                    "there is no question in it");
  return hr__bad_rows_judge(&s->bad_questions, err);
}
