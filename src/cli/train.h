/* What training one job and training the stages of a recipe share. */
#ifndef HR_CLI_TRAIN_H
#define HR_CLI_TRAIN_H

#include "cli/cli.h"
#include "job/stages.h"

/* Where a run goes, and the run whose weights it begins with (or NULL); further ones: hr_train_options. */
typedef struct hr_train_places {
  const char *folder, *begin;
  const char *const *begin_also;
} hr_train_places;

/* answer: takes the object in place of the terminal (a stage of several);
 * NULL: it is shown. */
hr_status hr__train_source(hr_cli *cli, const hr_job_source *source, const hr_train_places *at, json_t **answer,
                           hr_error *err);
bool hr__train_has_result(hr_status status); /* of a run that came to an end of its own */

/* train_stages.c: a remark where one stage is trained alone, and begins without what those before it train. */
hr_status hr__train_alone(hr_cli *cli, const hr_job_source *source, const char *folder, hr_error *err);
/* All of them, in folders below `folder`. */
hr_status hr__train_stages(hr_cli *cli, const hr_stage *stages, size_t count, const char *folder, hr_error *err);

#endif
