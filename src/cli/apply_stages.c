/* See apply_stages.h. */
#include "cli/apply_stages.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

#include "cli/fit.h"
#include "cli/jobs.h"

static bool is_of(const char *file, const hr_stage *stage) {
  const char *slash = strrchr(file, '/'), *name = slash ? slash + 1 : file;
  size_t length = strlen(stage->name);
  return strncmp(name, stage->name, length) == 0 && !isalnum((unsigned char)name[length]);
}

/* The files of a stage or (NULL) those of none. */
static bool *files_of(hr_cli *cli, const hr_stage *stages, size_t count, const hr_stage *stage, bool *any) {
  bool *files = hr__arena_array(&cli->arena, cli->n_listed, sizeof *files);
  *any = false;
  for (size_t f = 0; files && f < cli->n_listed; f++) {
    bool common = true;
    for (size_t s = 0; s < count; s++)
      common &= !is_of(cli->listed[f], &stages[s]);
    files[f] = stage ? is_of(cli->listed[f], stage) : common;
    *any |= files[f];
  }
  return files;
}

/* The stage planned with the steps of another one. */
static hr_status plan_with(hr_cli *cli, const hr_stage *stage, const hr_job *lead, hr_job **job, hr_error *err) {
  const hr_training_shape *shape = &lead->shape;
  size_t count = stage->source.n_overrides;
  const char **overrides = hr__arena_array(&cli->arena, count + 3, sizeof *overrides);
  if (!overrides) return hr__nomem(err);
  memcpy(overrides, stage->source.overrides, count * sizeof *overrides);
  overrides[count] = "training.effective_batch=null";
  overrides[count + 1] = hr__arena_format(&cli->arena, "training.batch_size=%" PRId64, shape->batch);
  overrides[count + 2] = hr__arena_format(&cli->arena, "training.gradient_accumulation=%" PRId64, shape->accumulation);
  if (!overrides[count + 1] || !overrides[count + 2]) return hr__nomem(err);
  hr__job_close(*job);
  *job = NULL;
  hr_job_source source = {stage->source.path, overrides, count + 3};
  return hr__cli_job_open(cli, &source, HR_CLI_RATES_NODES, job, err);
}

static hr_status plans_make(hr_cli *cli, const hr_stage *stages, size_t count, hr_job **jobs, size_t *lead,
                            hr_error *err) {
  *lead = 0;
  for (size_t s = 0; s < count; s++) {
    cli->stage = stages[s].name;
    HR_TRY(hr__cli_job_open(cli, &stages[s].source, HR_CLI_RATES_NODES, &jobs[s], err));
    HR_TRY(hr__fit_check(cli, jobs[s], err));
    if (jobs[s]->shape.batch < jobs[*lead]->shape.batch) *lead = s;
  }
  for (size_t s = 0; s < count; s++) {
    const hr_training_shape *shape = &jobs[s]->shape, *same = &jobs[*lead]->shape;
    if (shape->batch == same->batch && shape->accumulation == same->accumulation) continue;
    cli->stage = stages[s].name;
    HR_TRY(plan_with(cli, &stages[s], jobs[*lead], &jobs[s], err));
    HR_TRY(hr__fit_check(cli, jobs[s], err));
  }
  cli->stage = NULL;
  return HR_OK;
}

hr_status hr__apply_stages(hr_cli *cli, const hr_stage *stages, size_t count, hr_apply_part **parts, size_t *n_parts,
                           hr_error *err) {
  size_t lead;
  bool any;
  *n_parts = 0;
  hr_job **jobs = hr__arena_array(&cli->arena, count, sizeof *jobs);
  *parts = hr__arena_array(&cli->arena, count + 1, sizeof **parts);
  if (!jobs || !*parts) return hr__nomem(err);
  hr_status status = plans_make(cli, stages, count, jobs, &lead, err);
  for (size_t s = 0; s < count && jobs[s]; s++) /* all of them are the caller's to close, with files or without */
    (*parts)[(*n_parts)++] = (hr_apply_part){.job = jobs[s], .beside = true};
  HR_TRY(status);
  for (size_t s = 0; s < count; s++)
    if (!((*parts)[s].files = files_of(cli, stages, count, &stages[s], &any))) return hr__nomem(err);
  /* what is common goes with the stage that leads */
  bool *common = files_of(cli, stages, count, NULL, &any);
  if (!common) return hr__nomem(err);
  for (size_t f = 0; f < cli->n_listed; f++)
    common[f] |= (*parts)[lead].files[f];
  (*parts)[lead].files = common;
  (*parts)[lead].beside = !any;
  return HR_OK;
}
