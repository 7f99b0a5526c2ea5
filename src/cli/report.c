/* headroom report: a plan or a run as one page to look at. */
#include <string.h>

#include "cli/checkpoint_flags.h"
#include "cli/jobs.h"
#include "cli/plan.h"
#include "cli/report_out.h"
#include "cli/waiting.h"
#include "format/json.h"
#include "report/page.h"
#include "report/subject.h"

typedef struct reporting {
  hr_cli *cli;
  const char *out;
  json_t *subjects;
  json_t *differences;
  bool fits; /* any of the plans does */
} reporting;

static hr_status plan_add(reporting *r, const hr_job *job, const char *name, const char *stage, hr_error *err) {
  hr_change changes[HR_SUGGESTIONS];
  int count = 0;
  json_t *subject = NULL;
  hr_waiting waiting;
  hr__waiting_begin(&waiting, r->cli, "planning changes of it");
  hr_status status = HR_OK;
  if (!job->verdict.fits && !job->verdict.preparing) status = hr__job_suggest(job, changes, &count, err);
  if (status == HR_OK) status = hr__subject_plan(job, name, stage, changes, count, &subject, err);
  hr__waiting_end(&waiting);
  HR_TRY(status);
  r->fits |= job->verdict.fits;
  return json_array_append_new(r->subjects, subject) == 0 ? HR_OK : hr__nomem(err);
}

static hr_status pair_add(reporting *r, hr_job *jobs[2], hr_error *err) {
  const char *other = hr__cli_value(r->cli, "compare");
  hr_job_source source = {r->cli->arguments[0], r->cli->overrides, r->cli->n_overrides};
  HR_TRY(hr__cli_job_open(r->cli, &source, HR_CLI_RATES_NODES, &jobs[0], err));
  HR_TRY(plan_add(r, jobs[0], r->cli->arguments[0], NULL, err));
  if (!other) return HR_OK;
  HR_TRY(hr__compare_open(r->cli, other, &jobs[1], err));
  HR_TRY(plan_add(r, jobs[1], other, NULL, err));
  return hr__compare_settings(jobs, &r->differences, err);
}

static hr_status stages_add(reporting *r, const hr_stage *stages, size_t count, hr_error *err) {
  for (size_t i = 0; i < count; i++) {
    hr_job *job = NULL;
    r->cli->stage = stages[i].name;
    HR_TRY(hr__cli_job_open(r->cli, &stages[i].source, HR_CLI_RATES_NODES, &job, err));
    hr_status status = plan_add(r, job, r->cli->arguments[0], stages[i].name, err);
    hr__job_close(job);
    HR_TRY(status);
  }
  r->cli->stage = NULL;
  return HR_OK;
}

static hr_status subjects_add(reporting *r, hr_error *err) {
  HR_TRY(hr__plan_overrides(r->cli, err));
  hr_job_source source = {r->cli->arguments[0], r->cli->overrides, r->cli->n_overrides};
  hr_stage *stages;
  size_t count;
  HR_TRY(hr__stages_list(&source, &r->cli->arena, &stages, &count, err));
  if (count > 0 && !hr__cli_flag(r->cli, "compare")) return stages_add(r, stages, count, err);
  hr_job *jobs[2] = {NULL, NULL};
  hr_status status = pair_add(r, jobs, err);
  hr__job_close(jobs[0]);
  hr__job_close(jobs[1]);
  return status;
}

static hr_status page_write(reporting *r, hr_error *err) {
  hr_string text = {0};
  json_t *data = hr__subjects_json(json_incref(r->subjects), json_incref(r->differences));
  hr_status status = data ? hr__page_make(data, &text, err) : hr__nomem(err);
  if (status == HR_OK) status = hr__report_write(r->out, &text, err);
  char size[HR_SIZE_TEXT];
  if (status == HR_OK && r->cli->json)
    status = hr__cli_put_json(json_pack("{s:i, s:o, s:I, s:b}", "schema", 1, "out", hr__json_string(r->out), "bytes",
                                        (json_int_t)text.count, "fits", (int)r->fits),
                              err);
  else if (status == HR_OK && !r->cli->quiet)
    fprintf(stderr, "%s: %s, for any browser\n", r->out, hr__size_text(text.count, size));
  hr__string_fini(&text);
  json_decref(data);
  return status;
}

static hr_status report_run(hr_cli *cli, hr_error *err) {
  reporting r = {.cli = cli, .subjects = json_array()};
  hr_status status = r.subjects ? hr__report_out(cli, false, ".html", &r.out, err) : hr__nomem(err);
  if (status == HR_OK) status = subjects_add(&r, err);
  if (status == HR_OK) status = page_write(&r, err);
  json_decref(r.subjects);
  json_decref(r.differences);
  if (status != HR_OK || r.fits) return status;
  return hr__fail(err, HR_NO_FIT, cli->arguments[0], "look at the page: it says what would fit",
                  "the report is written, and the plan does not fit its budget");
}

static const hr_cli_option options[] = {
    {"out", "FILE", "where to (default: RUN/report.html, or the recipe's name)"},
    {"compare", "OTHER", "beside another recipe, or with KEY=VALUE[,KEY=VALUE]"},
    HR_CHECKPOINT_OPTIONS,
    {"gpu", "NAME", "for a GPU that need not be here (headroom devices --gpus)"},
    {"gpu-memory", "SIZE", "instead of memory.budget, on whatever device: 24GiB"},
    {"margin", "SIZE", "instead of memory.margin: a size, or such as 15%"},
    {"target-effective-batch", "N", "instead of training.effective_batch"},
    {"auto", NULL, "the fastest that fits, of what the recipe leaves out"},
};

const hr_cli_command hr_cli_report = {
    .name = "report",
    .usage = "RECIPE",
    .summary = "a page to look at: memory over a step, every buffer, streams, choices",
    .details = "One HTML file that needs nothing else, for any browser.",
    .examples = "report recipes/demo.yaml --out out/demo.html",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .min_arguments = 1,
    .max_arguments = 1,
    .run = report_run,
};
