/* headroom plan: what will use how much memory, how long a step takes, whether it fits, and what would. */
#include "cli/cli.h"
#include "cli/table.h"
#include "train/answer.h"

static void owners_show(const hr_job *job) {
  const hr_verdict *verdict = &job->verdict;
  char text[HR_SIZE_TEXT];
  printf("\nlargest owners of the peak:\n");
  for (int i = 0; i < verdict->n_buffers; i++)
    printf("  %12s  %s\n", hr__size_text(verdict->buffers[i].bytes, text), verdict->buffers[i].name);
}

static void changes_show(const hr_change *changes, int count) {
  if (count == 0) {
    printf("\nno change of batch, precision or length alone would fit: try a smaller model or a larger budget\n");
    return;
  }
  printf("\nwhat would fit, fastest first:\n");
  for (int i = 0; i < count; i++) {
    char text[HR_SIZE_TEXT];
    printf("  %12s  %.3g s a step\n", hr__size_text(changes[i].peak_bytes, text), changes[i].step_seconds);
    for (int o = 0; o < changes[i].n_overrides; o++)
      printf("%16s--set %s\n", "", changes[i].override[o]);
  }
}

static hr_status job_show(const hr_cli *cli, const hr_job *job, const hr_job_source *source, hr_error *err) {
  hr_change changes[HR_SUGGESTIONS];
  int n_changes = 0;
  bool fits = job->verdict.fits;
  if (!fits) HR_TRY(hr__job_suggest(job, source, changes, &n_changes, err));
  if (cli->json) return hr__cli_put_json(hr__answer_plan(job, changes, n_changes), err);
  if (!cli->quiet) {
    hr__table_plan(cli, job, stdout);
    if (!fits) owners_show(job);
    if (!fits) changes_show(changes, n_changes);
  }
  return hr__cli_flush(err);
}

static hr_status plan_run(hr_cli *cli, hr_error *err) {
  hr_job_source source = {cli->arguments[0], cli->overrides, cli->n_overrides};
  hr_job *job = NULL;
  HR_TRY(hr__job_open(&source, &job, err));
  hr_status status = job_show(cli, job, &source, err);
  if (status == HR_OK && !job->verdict.fits) {
    cli->answered = true; /* the table or the object has said it */
    status = HR_NO_FIT;
  }
  hr__job_close(job);
  return status;
}

const hr_cli_command hr_cli_plan = {
    .name = "plan",
    .usage = "RECIPE",
    .summary = "memory by owner, seconds per step, and whether it fits the budget",
    .details =
        "RECIPE is a recipe file or a folder with config.json; weights are not needed. Exit code 3: does not fit.",
    .min_arguments = 1,
    .max_arguments = 1,
    .run = plan_run,
};
