#include "report/subject.h"

#include "format/json.h"
#include "headroom.h"
#include "job/answer.h"
#include "report/layout.h"

hr_status hr__subject_plan(const hr_job *job, const char *name, const char *stage, const hr_change *changes,
                           int n_changes, json_t **out, hr_error *err) {
  json_t *layout = NULL;
  HR_TRY(hr__layout_json(job, &layout, err));
  *out = json_pack("{s:o,s:o,s:o,s:o}", "name", hr__json_string(name), "stage",
                   stage ? hr__json_string(stage) : json_null(), "plan", hr__answer_plan(job, changes, n_changes),
                   "layout", layout);
  return *out ? HR_OK : hr__nomem(err);
}

json_t *hr__subjects_json(json_t *subjects, json_t *differences) {
  return json_pack("{s:i,s:s,s:o,s:o}", "schema", 1, "version", HR_VERSION, "subjects", subjects, "differences",
                   differences ? differences : json_null());
}
