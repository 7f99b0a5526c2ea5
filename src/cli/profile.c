/* headroom profile: a few real steps; planned beside measured, per tier and in seconds, and where the time goes. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/fit.h"
#include "cli/jobs.h"
#include "cli/table.h"
#include "train/answer.h"
#include "train/train.h"

/* Time of all nodes of one op in an effective step. */
typedef struct op_time {
  const hr_op *op;
  double planned, measured;
} op_time;

static int op_time_order(const void *a, const void *b) {
  double x = ((const op_time *)a)->measured, y = ((const op_time *)b)->measured;
  return x < y ? 1 : x > y ? -1 : 0;
}

/* How often a program runs in one effective step; the plan's step takes the longest rows, so the programs of shorter
 * ones (name@length) do not count. */
static double program_runs(const hr_job *job, const char *name) {
  if (strchr(name, '@')) return 0;
  if (strcmp(name, "micro_next") == 0) return (double)(job->shape.accumulation - 1);
  return strcmp(name, "eval") == 0 ? 0 : 1;
}

/* node_seconds: on the CPU of a whole step, on a GPU of one run of the node. */
static size_t op_times(const hr_job *job, const double *node_seconds, op_time *times) {
  size_t count = 0;
  for (size_t p = 0; p < job->graph->n_programs; p++) {
    const hr_program *program = &job->graph->programs[p];
    double runs = program_runs(job, program->name);
    for (hr_id n = program->first; n < program->first + program->count; n++) {
      size_t i = 0;
      while (i < count && times[i].op != job->graph->nodes[n].op)
        i++;
      if (i == count) times[count++] = (op_time){.op = job->graph->nodes[n].op};
      times[i].planned += runs * job->plan->seconds_of_node[n];
      times[i].measured += (job->facts.kind == HR_CPU ? 1 : runs) * node_seconds[n];
    }
  }
  qsort(times, count, sizeof *times, op_time_order);
  return count;
}

static void ops_show(const op_time *times, size_t count) {
  printf("\n  %-16s %12s %12s\n", "op, per step", "planned", "measured");
  for (size_t i = 0; i < count; i++) {
    if (times[i].planned == 0 && times[i].measured == 0) continue; /* evaluation is no part of a step */
    printf("  %-16s %9.2f ms %9.2f ms\n", times[i].op->name, times[i].planned * 1e3, times[i].measured * 1e3);
  }
}

static json_t *ops_json(const op_time *times, size_t count) {
  json_t *list = json_array();
  for (size_t i = 0; list != NULL && i < count; i++) {
    json_t *entry = json_pack("{s:s, s:f, s:f}", "op", times[i].op->name, "planned_seconds", times[i].planned,
                              "measured_seconds", times[i].measured);
    if (json_array_append_new(list, entry) != 0) {
      json_decref(list);
      return NULL;
    }
  }
  return list;
}

static hr_status profile_show(const hr_cli *cli, const hr_job *job, const hr_profile *profile, const op_time *times,
                              size_t count, hr_error *err) {
  if (cli->json) {
    json_t *answer = hr__answer_profile(job, profile);
    if (answer == NULL) return hr__nomem(err);
    if (count == 0 || json_object_set_new(answer, "ops", ops_json(times, count)) == 0)
      return hr__cli_put_json(answer, err);
    json_decref(answer);
    return hr__nomem(err);
  }
  if (cli->quiet) return HR_OK;
  hr_measured measured = {.process_bytes = profile->process_bytes, .step_seconds = profile->step_seconds};
  memcpy(measured.categories, profile->resident, sizeof measured.categories);
  hr__table_head(cli, job, stdout);
  fputc('\n', stdout);
  hr__table_measured(cli, job, &measured, stdout);
  if (count > 0) ops_show(times, count);
  printf("\n%.0f tokens/s, loss %.4f after %d steps\n", profile->tokens_per_second, profile->loss, profile->steps + 1);
  return hr__cli_flush(err);
}

static hr_status job_profile(hr_cli *cli, const hr_job *job, hr_device *device, hr_error *err) {
  int64_t steps;
  HR_TRY(hr__cli_int(cli, "steps", 1, 5, &steps, err));
  double *node_seconds = NULL;
  op_time *times = NULL;
  if (hr__cli_flag(cli, "ops")) {
    node_seconds = hr__arena_array(&cli->arena, job->graph->n_nodes, sizeof *node_seconds);
    times = hr__arena_array(&cli->arena, hr_op_count, sizeof *times);
    if (node_seconds == NULL || times == NULL) return hr__nomem(err);
  }
  hr_train_options options = {.recipe = job->recipe, .plan = job->plan, .device = device, .check_peak = true};
  hr_profile profile = {0};
  hr_status status = hr__profile(&options, (int)(steps < INT_MAX ? steps : INT_MAX), &profile, node_seconds, err);
  if (status != HR_OK && status != HR_ABOVE_PLAN) return status;
  size_t count = node_seconds != NULL ? op_times(job, node_seconds, times) : 0;
  hr_error output = {0};
  hr_status shown = profile_show(cli, job, &profile, times, count, &output);
  if (shown == HR_OK) {
    cli->answered = cli->json; /* "measured" tells */
    return status;
  }
  *err = output;
  return shown;
}

static hr_status profile_run(hr_cli *cli, hr_error *err) {
  hr_job_source source = {cli->arguments[0], cli->overrides, cli->n_overrides};
  hr_job *job = NULL;
  hr_device *device = NULL;
  HR_TRY(hr__cli_job_open(&source, HR_CLI_RATES_NODES, &job, err));
  hr_status status = hr__fit_check(cli, job, &source, err);
  if (status == HR_OK) status = hr__job_device(job, &device, err);
  if (status == HR_OK) {
    status = job_profile(cli, job, device, err);
    hr__device_close(device);
  }
  hr__job_close(job);
  return status;
}

static const hr_cli_option options[] = {
    {"steps", "N", "measured steps, after one that warms up (default 5, most 64)"},
    {"ops", NULL, "also the time of every op; nodes then run singly, on a GPU after the steps"},
};

const hr_cli_command hr_cli_profile = {
    .name = "profile",
    .usage = "RECIPE",
    .summary = "a few real steps: planned beside measured; nothing is written",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .min_arguments = 1,
    .max_arguments = 1,
    .run = profile_run,
};
