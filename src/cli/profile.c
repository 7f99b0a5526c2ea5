/* headroom profile: a few real steps; planned beside measured, per tier and in seconds, and where the time goes. */
#include <limits.h>
#include <string.h>

#include "cli/checkpoint_flags.h"
#include "cli/cli.h"
#include "cli/figures.h"
#include "cli/fit.h"
#include "cli/jobs.h"
#include "cli/plan.h"
#include "cli/table.h"
#include "train/answer.h"
#include "train/train.h"

static void times_show(const char *head, const hr_time *times, size_t count) {
  char planned[HR_SIZE_TEXT], measured[HR_SIZE_TEXT], change[HR_SIZE_TEXT];
  printf("\n  %-18s %12s %12s\n", head, "planned", "measured");
  for (size_t i = 0; i < count; i++)
    printf("  %-18s %12s %12s %10s\n", times[i].name, hr__seconds_text(times[i].planned, planned),
           hr__seconds_text(times[i].measured, measured), hr__change_text(times[i].planned, times[i].measured, change));
}

static hr_status profile_show(const hr_cli *cli, const hr_job *job, const hr_profile *profile, const hr_times *times,
                              hr_error *err) {
  if (cli->json) return hr__cli_put_json(hr__answer_profile(job, profile, times), err);
  if (cli->quiet) return HR_OK;
  hr_measured measured = {.process_bytes = profile->process_bytes, .step_seconds = profile->step_seconds};
  memcpy(measured.resident, profile->resident, sizeof measured.resident);
  hr__table_head(cli, job, stdout);
  fputc('\n', stdout);
  hr__table_measured(cli, job, &measured, stdout);
  times_show("seconds by class", times->classes, times->n_classes);
  if (hr__cli_flag(cli, "ops")) times_show("by op", times->ops, times->n_ops);
  fputc('\n', stdout);
  hr__table_speed(profile->tokens_per_second, profile->samples_per_second, stdout);
  printf(", loss %.4f after %d steps\n", profile->loss, profile->steps + 1);
  return hr__cli_flush(err);
}

static hr_status job_profile(hr_cli *cli, const hr_job *job, hr_device *device, hr_error *err) {
  int64_t steps;
  HR_TRY(hr__cli_int(cli, "steps", 1, 5, &steps, err));
  double *node_seconds = hr__arena_array(&cli->arena, job->graph->n_nodes + 1, sizeof *node_seconds);
  if (node_seconds == NULL) return hr__nomem(err);
  hr_train_options options = {.recipe = job->recipe,
                              .plan = job->plan,
                              .features_recipe = job->features ? job->features->recipe : NULL,
                              .features_plan = job->features ? job->features->plan : NULL,
                              .device = device,
                              .check_peak = true,
                              .progress = hr__cli_progress(cli)};
  hr_profile profile = {0};
  hr_status status = hr__profile(&options, (int)(steps < INT_MAX ? steps : INT_MAX), &profile, node_seconds, err);
  if (status != HR_OK && status != HR_ABOVE_PLAN) return status;
  hr_times times;
  HR_TRY(hr__times(job, node_seconds, &cli->arena, &times, err));
  hr_error output = {0};
  hr_status shown = profile_show(cli, job, &profile, &times, &output);
  if (shown == HR_OK) {
    cli->answered = cli->json; /* "measured" tells */
    return status;
  }
  *err = output;
  return shown;
}

static hr_status profile_run(hr_cli *cli, hr_error *err) {
  HR_TRY(hr__plan_overrides(cli, err));
  hr_job_source source = {cli->arguments[0], cli->overrides, cli->n_overrides};
  hr_job *job = NULL;
  hr_device *device = NULL;
  HR_TRY(hr__cli_job_open(cli, &source, HR_CLI_RATES_NODES, &job, err));
  hr_status status = hr__fit_check(cli, job, err);
  if (status == HR_OK) status = hr__job_device(job, &device, err);
  if (status == HR_OK) {
    status = job_profile(cli, job, device, err);
    hr__device_close(device);
  }
  hr__job_close(job);
  return status;
}

static const hr_cli_option options[] = {
    HR_STAGE_OPTION,
    HR_CHECKPOINT_OPTIONS,
    {"gpu-memory", "SIZE", "instead of memory.budget: 24GiB"},
    {"margin", "SIZE", "instead of memory.margin: a size, or such as 15%"},
    {"target-effective-batch", "N", "instead of training.effective_batch"},
    {"auto", NULL, "the fastest that fits, of what the recipe leaves out"},
    {"steps", "N", "steps measured, after one to warm up (5; 64 at most)"},
    {"ops", NULL, "also the time of every op"},
};

const hr_cli_command hr_cli_profile = {
    .name = "profile",
    .usage = "RECIPE",
    .summary = "some real steps: planned beside measured, in bytes and in seconds",
    .details = "Bytes by tier and category, seconds by class of op; nothing is written. On a GPU ops are timed apart, "
               "after the steps.\n"
               "Exit code 4: more was held than planned (by 2 % or 16 MiB, whichever is larger).",
    .examples = "profile recipes/demo.yaml --steps 1\n"
                "profile recipes/stages.yaml --stage whole --steps 1",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .min_arguments = 1,
    .max_arguments = 1,
    .run = profile_run,
};
