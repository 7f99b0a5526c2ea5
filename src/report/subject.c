#include "report/subject.h"

#include <string.h>

#include "format/json.h"
#include "headroom.h"
#include "job/answer.h"
#include "report/layout.h"
#include "report/run.h"

hr_status hr__subject_plan(const hr_job *job, const char *name, const char *stage, const hr_change *changes,
                           int n_changes, json_t **out, hr_error *err) {
  json_t *layout = NULL;
  HR_TRY(hr__layout_json(job, &layout, err));
  *out = json_pack("{s:o,s:o,s:o,s:o}", "name", hr__json_string(name), "stage",
                   stage ? hr__json_string(stage) : json_null(), "plan", hr__answer_plan(job, changes, n_changes),
                   "layout", layout);
  return *out ? HR_OK : hr__nomem(err);
}

/* What a reader has to know about the plan beside a run. */
static json_t *remarks_json(const json_t *run, const hr_job *job, const hr_error *why) {
  json_t *list = json_array();
  if (!list) return NULL;
  const json_t *headers = json_object_get(run, "headers");
  const json_t *header = json_array_get(headers, json_array_size(headers) > 0 ? json_array_size(headers) - 1 : 0);
  const char *planned = json_string_value(json_object_get(header, "fingerprint"));
  json_int_t broken = json_integer_value(json_object_get(run, "broken_lines"));
  int failed = 0;
  if (!job)
    failed = json_array_append_new(list, json_sprintf("There is no plan beside this run: %s.", why->message));
  else if (planned && strcmp(planned, job->plan->fingerprint) != 0)
    failed = json_array_append_new(
        list, json_sprintf("The plan below was made again from the run's settings, and is not the one that it ran by "
                           "(%s): other rates, another machine or another version.",
                           planned));
  if (!failed && broken > 0)
    failed = json_array_append_new(
        list, broken == 1
                  ? json_string("A line of log.jsonl is no record, and was left out.")
                  : json_sprintf("%lld lines of log.jsonl are no records, and were left out.", (long long)broken));
  if (!failed) return list;
  json_decref(list);
  return NULL;
}

hr_status hr__subject_run(const char *folder, const hr_job *job, const hr_error *why, json_t **out, hr_error *err) {
  json_t *run = NULL, *subject = NULL;
  HR_TRY(hr__run_json(folder, &run, err));
  hr_status status = HR_OK;
  if (job)
    status = hr__subject_plan(job, folder, NULL, NULL, 0, &subject, err);
  else if (!(subject = json_pack("{s:o,s:n,s:n,s:n}", "name", hr__json_string(folder), "stage", "plan", "layout")))
    status = hr__nomem(err);
  if (status == HR_OK && (json_object_set(subject, "run", run) != 0 ||
                          json_object_set_new(subject, "remarks", remarks_json(run, job, why)) != 0)) {
    json_decref(subject);
    status = hr__nomem(err);
  }
  json_decref(run);
  if (status == HR_OK) *out = subject;
  return status;
}

json_t *hr__subjects_json(json_t *subjects, json_t *differences) {
  return json_pack("{s:i,s:s,s:o,s:o}", "schema", 1, "version", HR_VERSION, "subjects", subjects, "differences",
                   differences ? differences : json_null());
}
