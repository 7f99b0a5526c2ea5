/* headroom train: what the plan promises, then the run, then planned beside measured. */
#include "train/train.h"

#include <math.h>
#include <string.h>

#include "cli/checkpoint_flags.h"
#include "cli/cli.h"
#include "cli/fit.h"
#include "cli/guide_flags.h"
#include "cli/jobs.h"
#include "cli/one_line.h"
#include "cli/table.h"
#include "cli/train.h"
#include "job/settings.h"
#include "train/answer.h"

/* Who is told of a run, and of which. */
typedef struct audience {
  const hr_cli *cli;
  const hr_job *job;
} audience;

static void promise_show(void *user) {
  const audience *to = user;
  hr__table_promise(to->cli, to->job, stderr);
}

static void message_show(void *user, hr_message_kind kind, const char *text) {
  const hr_cli *cli = ((const audience *)user)->cli;
  if (cli->quiet && kind == HR_MESSAGE_INFO) return;
  hr_style style = hr__cli_style(cli, stderr);
  if (kind == HR_MESSAGE_WARNING)
    hr__cli_tell(cli, stderr, style.yellow, "warning:", text);
  else
    fprintf(stderr, "%s\n", text);
}

/* Without --out a run goes to out/ and the recipe's name without its ending. */
static const char *folder_default(hr_cli *cli) {
  const char *path = cli->arguments[0];
  size_t length = strlen(path);
  while (length > 1 && path[length - 1] == '/')
    length--;
  size_t start = length;
  while (start > 0 && path[start - 1] != '/')
    start--;
  for (size_t i = length; i > start + 1; i--)
    if (path[i - 1] == '.') {
      length = i - 1;
      break;
    }
  return hr__arena_format(&cli->arena, "out/%.*s", (int)(length - start), path + start);
}

static void result_print(const hr_cli *cli, const hr_job *job, const hr_train_result *result, const char *folder) {
  char reports[HR_REPORTS_TEXT];
  hr_measured measured = {.process_bytes = result->measured_bytes};
  memcpy(measured.resident, result->resident, sizeof measured.resident);
  if (result->steps_here > 0) measured.step_seconds = result->seconds / (double)result->steps_here;
  hr__table_head(cli, job, stdout);
  fputc('\n', stdout);
  hr__table_measured(cli, job, &measured, stdout);
  hr__table_losses(folder, stdout);
  if (!isfinite(result->eval_loss))
    printf("  held-out loss not finite\n");
  else if (result->eval_loss >= 0)
    printf("  held-out loss %.4f%s\n", result->eval_loss, hr__reports_text(&result->eval_reports, reports));
  if (result->best.step > 0)
    printf("  best: step %lld, %s %.4f\n", (long long)result->best.step, result->best_metric, result->best.value);
  hr__table_confusion(&result->confusion, stdout);
  printf("\n%lld steps%s, ", (long long)result->steps, result->stopped_early ? " (stopped early)" : "");
  hr__table_speed(result->tokens_per_second, result->samples_per_second, stdout);
  printf("\nsaved in %s\nweights_sha256 %s\n", folder, result->weights_sha256);
}

/* answer: as in train.h. */
static hr_status result_show(const hr_cli *cli, const hr_job *job, const hr_train_result *result, hr_status status,
                             const char *folder, json_t **answer, hr_error *err) {
  if (cli->json && answer) return (*answer = hr__answer_train(job, result, status, folder)) ? HR_OK : hr__nomem(err);
  if (cli->json) return hr__cli_put_json(hr__answer_train(job, result, status, folder), err);
  if (!cli->quiet) result_print(cli, job, result, folder);
  return hr__cli_flush(err);
}

bool hr__train_has_result(hr_status status) {
  return status == HR_OK || status == HR_ABOVE_PLAN || status == HR_HUNG_UP || status == HR_INTERRUPTED ||
         status == HR_TERMINATED;
}

static hr_status job_train(hr_cli *cli, const hr_job *job, const hr_train_places *at, json_t **answer, hr_error *err) {
  int64_t steps;
  HR_TRY(hr__cli_int(cli, "steps", 1, 0, &steps, err));
  hr_device *device = NULL;
  HR_TRY(hr__job_device(job, &device, err));
  audience told = {cli, job};
  hr_train_options options = {
      .recipe = job->recipe,
      .plan = job->plan,
      .features_recipe = job->features ? job->features->recipe : NULL,
      .features_plan = job->features ? job->features->plan : NULL,
      .device = device,
      .out = at->folder,
      .begin = at->begin,
      .begin_also = at->begin_also,
      .steps = steps,
      .resume = hr__cli_flag(cli, "resume"),
      .accept_changed_data = hr__cli_flag(cli, "accept-changed-data"),
      .check_numerics = hr__cli_flag(cli, "check-numerics"),
      .handle_signals = true,
      .check_peak = true,
      .progress = hr__cli_progress(cli),
      .message = message_show,
      .begins = cli->quiet || cli->json ? NULL : promise_show,
      .message_user = &told,
  };
  hr_train_result result = {0};
  hr_status status = hr__train(&options, &result, err);
  hr__device_close(device);
  bool begun = result.planned_bytes > 0; /* else a signal has come before the first step */
  if (!begun || !hr__train_has_result(status)) return status;
  hr_error output = {0};
  hr_status shown = result_show(cli, job, &result, status, at->folder, answer, &output);
  if (shown == HR_OK || status == HR_HUNG_UP) { /* nobody reads what a closed terminal would show */
    cli->answered = cli->json;                  /* "status" tells how it ended */
    return status;
  }
  *err = output;
  return shown;
}

hr_status hr__train_source(hr_cli *cli, const hr_job_source *source, const hr_train_places *at, json_t **answer,
                           hr_error *err) {
  hr_job *job = NULL;
  HR_TRY(hr__settings_data(source->path, source->overrides, source->n_overrides, err));
  HR_TRY(hr__cli_job_open(cli, source, HR_CLI_RATES_PLAN, &job, err));
  hr_status status = hr__job_runnable(job, err);
  if (status == HR_OK) status = hr__fit_check(cli, job, err);
  if (status == HR_OK) status = job_train(cli, job, at, answer, err);
  hr__job_close(job);
  return status;
}

static hr_status train_run(hr_cli *cli, hr_error *err) {
  HR_TRY(hr__one_line_flags(cli, err));
  HR_TRY(hr__cli_stage_override(cli, err));
  HR_TRY(hr__checkpoint_flags(cli, err));
  HR_TRY(hr__guide_flags(cli, err));
  HR_TRY(hr__checkpoint_defaults(cli, err));
  const char *folder = hr__cli_value(cli, "out");
  if (folder == NULL) folder = folder_default(cli);
  if (folder == NULL) return hr__nomem(err);
  hr_job_source source = {cli->arguments[0], cli->overrides, cli->n_overrides};
  hr_stage *stages;
  size_t count;
  HR_TRY(hr__stages_list(&source, &cli->arena, &stages, &count, err));
  if (count > 0) return hr__train_stages(cli, stages, count, folder, err);
  HR_TRY(hr__train_alone(cli, &source, folder, err));
  return hr__train_source(cli, &source, &(hr_train_places){.folder = folder, .begin = hr__cli_value(cli, "begin")},
                          NULL, err);
}

static const hr_cli_option options[] = {
    HR_ONE_LINE_OPTIONS,
    HR_STAGE_OPTION,
    HR_CHECKPOINT_OPTIONS,
    {"auto", NULL, "the fastest that fits, of what the recipe leaves out"},
    {"out", "DIR", "folder of the run (default: out/ and the recipe's name)"},
    {"begin", "DIR", "with the weights that another run has ended with, by name"},
    {"steps", "N", "instead of training.steps"},
    {"resume", NULL, "from the newest good checkpoint, or fresh without one"},
    {"accept-changed-data", NULL, "resume although the data is not what the run was saved with"},
    {"check-numerics", NULL, "stops at the first non-finite value, and names its node"},
    HR_GUIDE_OPTIONS,
};

const hr_cli_command hr_cli_train = {
    .name = "train",
    .usage = "[RECIPE]",
    .summary = "plans, then trains inside the plan",
    .details = "DIR/log.jsonl gets a line per step. Ctrl-C saves and exits with 130.\n" HR_GUIDE_DETAILS,
    .examples = "train recipes/demo.yaml --steps 2 --out out/example",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .min_arguments = 0,
    .max_arguments = 1,
    .run = train_run,
};
