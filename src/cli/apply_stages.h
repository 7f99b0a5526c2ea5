/* apply for a recipe with stages: which plan each of the files gets its values from. */
#ifndef HR_CLI_APPLY_STAGES_H
#define HR_CLI_APPLY_STAGES_H

#include "cli/cli.h"
#include "job/stages.h"

/* A plan, and the files it is for. */
typedef struct hr_apply_part {
  hr_job *job;
  const bool *files; /* by number, of those that are named; NULL: all */
  bool beside;       /* keys that its files lack are in others */
} hr_apply_part;

/* A part for each stage, with the files whose name begins with the stage's: 01_stage.yaml is of stage 01. Those that
 * are common to all go with the stage of the smallest micro-batch, whose step is that of all stages; they must fit with
 * it, also those without files: else HR_NO_FIT, told already. Jobs of the `*n_parts` parts are the caller's, whatever
 * comes of it. */
hr_status hr__apply_stages(hr_cli *cli, const hr_stage *stages, size_t count, hr_apply_part **parts, size_t *n_parts,
                           hr_error *err);

#endif
