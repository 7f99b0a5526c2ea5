/* The forms that `headroom plan` takes beside the plain one. */
#ifndef HR_CLI_PLAN_H
#define HR_CLI_PLAN_H

#include "cli/cli.h"
#include "job/job.h"
#include "job/stages.h"

/* The options of the command that are settings under a shorter name, as overrides behind those of --set. */
hr_status hr__plan_flags(hr_cli *cli, hr_error *err);
/* And behind these what --method gives a folder (cli/checkpoint_flags.h). */
hr_status hr__plan_overrides(hr_cli *cli, hr_error *err);

/* --gpu-memory without a GPU plans this machine's processor, which few people mean: a remark on stderr where the recipe
 * does not name it either. */
void hr__plan_remark(const hr_cli *cli, const hr_job *job);

/* plan --compare OTHER: two plans side by side. The overrides are those of both. HR_NO_FIT when neither fits. */
hr_status hr__compare(hr_cli *cli, hr_error *err);
/* The other of the two: another recipe, or KEY=VALUE[,KEY=VALUE] of the same, unless a file or folder has that name.
 * `recipe` is the first one's. */
hr_status hr__compare_open(hr_cli *cli, const hr_recipe *recipe, const char *other, hr_job **job, hr_error *err);
/* A list of {"key", "values"} of settings that differ. */
hr_status hr__compare_settings(hr_job *const jobs[2], json_t **out, hr_error *err);

/* plan --sweep KEY=V1,V2,...: one line per value. HR_NO_FIT when none fits. */
hr_status hr__sweep(hr_cli *cli, hr_error *err);

/* plan --smallest-gpu: the least of the catalogue that fits, by memory, and the next two. HR_NO_FIT when none does. */
hr_status hr__smallest_gpu(hr_cli *cli, hr_error *err);

/* plan --largest KEY: the largest value that fits, and the one behind it that does not. HR_NO_FIT when none does. */
hr_status hr__plan_largest(hr_cli *cli, hr_error *err);

/* The next of the parts of `text` that commas divide, outside of brackets and quotes; a copy in the arena, NULL with
 * *failed false at the end. */
const char *hr__part_next(hr_arena *arena, const char **text, bool *failed);

/* Shows a plan with what explains it; HR_NO_FIT where it does not fit. answer: takes the object in place of the
 * terminal (a stage of several); NULL: it is shown. */
hr_status hr__plan_show(hr_cli *cli, const hr_job *job, json_t **answer, hr_error *err);
/* plan_stages.c */
hr_status hr__plan_stages(hr_cli *cli, const hr_stage *stages, size_t count, hr_error *err);

#endif
