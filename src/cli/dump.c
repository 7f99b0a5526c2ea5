/* headroom dump: what a stage has made of a recipe, as text or JSON. */
#include <string.h>

#include "cli/cli.h"
#include "compile/compile.h"
#include "job/job.h"
#include "job/settings.h"
#include "plan/report.h"

static const char *const stages[] = {"model", "grad",
#define HR_PASS(name, ...) #name,
#include "pass/passes.def"
#undef HR_PASS
                                     "plan"};
enum { STAGES = sizeof stages / sizeof stages[0] };

static hr_status stage_check(const char *stage, hr_error *err) {
  char list[160] = "";
  for (size_t i = 0; i < STAGES; i++) {
    if (strcmp(stages[i], stage) == 0) return HR_OK;
    size_t used = strlen(list);
    snprintf(list + used, sizeof list - used, "%s%s", i == 0 ? "one of " : ", ", stages[i]);
  }
  return hr__fail(err, HR_USAGE, "--after", list, "no stage '%s'", stage);
}

static hr_status plan_dump(const hr_cli *cli, const hr_job_source *source, hr_error *err) {
  hr_job *job = NULL;
  HR_TRY(hr__job_open(source, &job, err));
  hr_status status = hr__job_runnable(job, err);
  if (status == HR_OK && cli->json)
    status = hr__cli_put_json(hr__report_buffers_json(job->plan), err);
  else if (status == HR_OK)
    hr__report_buffers_text(job->plan, stdout);
  hr__job_close(job);
  return status;
}

static hr_status graph_dump(const hr_cli *cli, const hr_job_source *source, const char *stage, hr_error *err) {
  hr_recipe *recipe = NULL;
  hr_graph *graph = NULL;
  HR_TRY(hr__settings_load(source->path, source->overrides, source->n_overrides, &recipe, err));
  hr_job *job = NULL; /* only where something is left to be chosen */
  hr_status status = hr__choose_any(recipe) || hr__knobs_any(recipe) ? hr__job_open(source, &job, err) : HR_OK;
  if (job && status == HR_OK) status = hr__job_runnable(job, err);
  if (status == HR_OK)
    status = hr__compile(job ? job->recipe : recipe, job ? &job->chosen.choices : NULL, stage, &graph, err);
  if (status == HR_OK && cli->json)
    status = hr__cli_put_json(hr__graph_json(graph), err);
  else if (status == HR_OK)
    status = hr__graph_dump_text(graph, stdout, err);
  hr__graph_destroy(graph);
  hr__job_close(job);
  hr__recipe_destroy(recipe);
  return status;
}

static hr_status dump_run(hr_cli *cli, hr_error *err) {
  const char *stage = hr__cli_value(cli, "after");
  if (stage == NULL) stage = "plan";
  HR_TRY(stage_check(stage, err));
  hr_job_source source = {cli->arguments[0], cli->overrides, cli->n_overrides};
  HR_TRY(strcmp(stage, "plan") == 0 ? plan_dump(cli, &source, err) : graph_dump(cli, &source, stage, err));
  return hr__cli_flush(err);
}

static const hr_cli_option options[] = {
    {"after", "STAGE", "model, grad, a pass, or plan (the default)"},
};

const hr_cli_command hr_cli_dump = {
    .name = "dump",
    .usage = "RECIPE",
    .summary = "the graph or the layout after a stage",
    .examples = "dump recipes/demo.yaml --after grad\ndump recipes/demo.yaml --after plan --json",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .min_arguments = 1,
    .max_arguments = 1,
    .run = dump_run,
};
