/* headroom report: a plan or a run as one page to look at. */
#include <string.h>

#include "cli/checkpoint_flags.h"
#include "cli/jobs.h"
#include "cli/plan.h"
#include "cli/report_out.h"
#include "cli/report_run.h"
#include "cli/waiting.h"
#include "format/json.h"
#include "report/page.h"
#include "report/subject.h"
#include "report/svg.h"

typedef struct reporting {
  hr_cli *cli;
  const char *out;
  json_t *subjects;
  json_t *differences;
  bool fits; /* any of the plans does */
} reporting;

/* What PyTorch will hold has no layout to show. */
static hr_status layout_check(const hr_job *job, hr_error *err) {
  if (!job->torch) return HR_OK;
  return hr__recipe_fail(job->recipe, "engine.kind", "headroom plan --engine pytorch tells what PyTorch will hold", err,
                         "a report shows plans of headroom's own execution");
}

static hr_status plan_add(reporting *r, const hr_job *job, const char *name, const char *stage, hr_error *err) {
  hr_change changes[HR_SUGGESTIONS];
  int count = 0;
  json_t *subject = NULL;
  hr_waiting waiting;
  if (job->torch)
    return hr__recipe_fail(job->recipe, "engine.kind", "headroom plan --engine pytorch tells what PyTorch will hold",
                           err, "a report shows plans of headroom's own execution, which have a layout");
  hr__waiting_begin(&waiting, r->cli, "planning changes of it");
  hr_status status = HR_OK;
  if (!job->verdict.fits) status = hr__job_suggest(job, changes, &count, err);
  if (status == HR_OK) status = hr__subject_plan(job, name, stage, changes, count, &subject, err);
  hr__waiting_end(&waiting);
  HR_TRY(status);
  r->fits |= job->verdict.fits;
  return json_array_append_new(r->subjects, subject) == 0 ? HR_OK : hr__nomem(err);
}

static hr_status run_add(reporting *r, const char *folder, hr_job **job, hr_error *err) {
  hr_error why = {0};
  json_t *subject = NULL;
  HR_TRY(hr__report_run_plan(r->cli, folder, job, &why, err));
  HR_TRY(hr__subject_run(folder, *job, &why, &subject, err));
  r->fits = true; /* it ran */
  return json_array_append_new(r->subjects, subject) == 0 ? HR_OK : hr__nomem(err);
}

static hr_status recipe_add(reporting *r, const char *path, hr_job **job, hr_error *err) {
  hr_job_source source = {path, r->cli->overrides, r->cli->n_overrides};
  HR_TRY(hr__cli_job_open(r->cli, &source, HR_CLI_RATES_NODES, job, err));
  return plan_add(r, *job, path, NULL, err);
}

static hr_status other_add(reporting *r, const char *other, hr_job *jobs[2], hr_error *err) {
  if (hr__report_is_run(other)) return run_add(r, other, &jobs[1], err);
  HR_TRY(hr__compare_open(r->cli, jobs[0] ? jobs[0]->recipe : NULL, other, &jobs[1], err));
  return plan_add(r, jobs[1], other, NULL, err);
}

static hr_status pair_add(reporting *r, hr_job *jobs[2], hr_error *err) {
  const char *path = r->cli->arguments[0], *other = hr__cli_value(r->cli, "compare");
  HR_TRY(r->cli->run_given ? run_add(r, path, &jobs[0], err) : recipe_add(r, path, &jobs[0], err));
  if (!other) return HR_OK;
  if (r->cli->run_given && !hr__report_is_run(other) && strchr(other, '='))
    return hr__fail(err, HR_USAGE, "--compare", "give another run, or a recipe",
                    "a run has been made with its settings");
  HR_TRY(other_add(r, other, jobs, err));
  if (jobs[0] && jobs[1]) return hr__compare_settings(jobs, &r->differences, err);
  r->differences = json_array();
  return r->differences ? HR_OK : hr__nomem(err);
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

/* The runs of a recipe's stages, in the folder that they were trained into. */
static hr_status runs_add(reporting *r, const char *const *folders, size_t count, hr_error *err) {
  for (size_t i = 0; i < count; i++) {
    hr_job *job = NULL;
    hr_status status = run_add(r, folders[i], &job, err);
    hr__job_close(job);
    HR_TRY(status);
  }
  return HR_OK;
}

static hr_status pair_or_one_add(reporting *r, hr_error *err) {
  hr_job *jobs[2] = {NULL, NULL};
  hr_status status = pair_add(r, jobs, err);
  hr__job_close(jobs[0]);
  hr__job_close(jobs[1]);
  return status;
}

static hr_status subjects_add(reporting *r, hr_error *err) {
  const char *path = r->cli->arguments[0], **folders;
  bool pair = hr__cli_flag(r->cli, "compare");
  size_t count;
  if (r->cli->run_given) return pair_or_one_add(r, err);
  HR_TRY(hr__report_stages(&r->cli->arena, path, &folders, &count, err));
  if (count > 0 && !pair) return runs_add(r, folders, count, err);
  HR_TRY(hr__plan_overrides(r->cli, err));
  hr_job_source source = {path, r->cli->overrides, r->cli->n_overrides};
  hr_stage *stages;
  HR_TRY(hr__stages_list(&source, &r->cli->arena, &stages, &count, err));
  return count > 0 && !pair ? stages_add(r, stages, count, err) : pair_or_one_add(r, err);
}

/* What was written, as --json answers it or a person reads it. */
static hr_status out_tell(const hr_cli *cli, const char *out, size_t bytes, bool fits, const char *what,
                          hr_error *err) {
  char size[HR_SIZE_TEXT];
  bool piped = strcmp(out, "-") == 0;
  if (cli->json && !piped)
    return hr__cli_put_json(json_pack("{s:i, s:o, s:I, s:b}", "schema", 1, "out", hr__json_string(out), "bytes",
                                      (json_int_t)bytes, "fits", (int)fits),
                            err);
  if (!cli->quiet && !piped) fprintf(stderr, "%s: %s, %s\n", out, hr__size_text(bytes, size), what);
  return HR_OK;
}

static hr_status no_fit(hr_cli *cli, hr_error *err) {
  if (cli->json) cli->answered = true; /* the object says it */
  return hr__fail(err, HR_NO_FIT, cli->arguments[0], "headroom plan says what would fit, and so does the page",
                  "it is written, but the plan in it does not fit its budget");
}

static hr_status page_write(reporting *r, hr_error *err) {
  hr_string text = {0};
  json_t *data = hr__subjects_json(json_incref(r->subjects), json_incref(r->differences));
  hr_status status = data ? hr__page_make(data, &text, err) : hr__nomem(err);
  if (status == HR_OK) status = hr__report_write(r->out, &text, err);
  if (status == HR_OK) status = out_tell(r->cli, r->out, text.count, r->fits, "a page for any browser", err);
  hr__string_fini(&text);
  json_decref(data);
  return status;
}

/* One picture of --svg, of the plan or of the run's plan. */
static hr_status svg_run(hr_cli *cli, hr_svg_kind kind, hr_error *err) {
  const char *path = cli->arguments[0], *out;
  bool run = cli->run_given;
  hr_job *job = NULL;
  hr_error why = {0};
  hr_string text = {0};
  if (hr__cli_flag(cli, "compare"))
    return hr__fail(err, HR_USAGE, "--svg", "leave one of them out", "a picture is of one plan, --compare is of two");
  HR_TRY(hr__report_out(cli, run, ".svg", &out, err));
  if (run) {
    HR_TRY(hr__report_run_plan(cli, path, &job, &why, err));
    if (!job) return hr__fail(err, why.status, why.place, why.remedy, "there is no plan of this run: %s", why.message);
  } else {
    HR_TRY(hr__plan_overrides(cli, err));
    hr_job_source source = {path, cli->overrides, cli->n_overrides};
    HR_TRY(hr__cli_job_open(cli, &source, HR_CLI_RATES_NODES, &job, err));
  }
  const char *slash = strrchr(path, '/');
  hr_status status = layout_check(job, err);
  if (status == HR_OK) status = hr__svg_make(kind, job, slash ? slash + 1 : path, &text, err);
  if (status == HR_OK) status = hr__report_write(out, &text, err);
  if (status == HR_OK) status = out_tell(cli, out, text.count, job->verdict.fits, "a picture", err);
  bool fits = job->verdict.fits;
  hr__string_fini(&text);
  hr__job_close(job);
  return status != HR_OK || fits ? status : no_fit(cli, err);
}

static hr_status page_run(hr_cli *cli, hr_error *err) {
  reporting r = {.cli = cli, .subjects = json_array()};
  hr_status status = r.subjects ? hr__report_out(cli, cli->run_given, ".html", &r.out, err) : hr__nomem(err);
  if (status == HR_OK) status = subjects_add(&r, err);
  if (status == HR_OK) status = page_write(&r, err);
  json_decref(r.subjects);
  json_decref(r.differences);
  return status != HR_OK || r.fits ? status : no_fit(cli, err);
}

static hr_status report_run(hr_cli *cli, hr_error *err) {
  const char *picture = hr__cli_value(cli, "svg");
  cli->run_given = hr__report_is_run(cli->arguments[0]);
  if (!picture) return page_run(cli, err);
  for (int k = 0; k < HR_SVG_KINDS; k++)
    if (strcmp(picture, hr_svg_kind_name((hr_svg_kind)k)) == 0) return svg_run(cli, (hr_svg_kind)k, err);
  return hr__fail(err, HR_USAGE, "--svg", "use memory, layout, frontier or streams", "there is no picture '%s'",
                  picture);
}

static const hr_cli_option options[] = {
    {"out", "FILE", "where to (default: RUN/report.html, or the recipe's name)"},
    {"compare", "OTHER", "beside another recipe or run, or with KEY=VALUE[,..]"},
    {"svg", "KIND", "one picture: memory, layout, frontier or streams"},
    HR_CHECKPOINT_OPTIONS,
    {"gpu", "NAME", "for a GPU that need not be here (headroom devices --gpus)"},
    {"gpu-memory", "SIZE", "instead of memory.budget, on whatever device: 24GiB"},
    {"margin", "SIZE", "instead of memory.margin: a size, or such as 15%"},
    {"target-effective-batch", "N", "instead of training.effective_batch"},
    {"auto", NULL, "the fastest that fits, of what the recipe leaves out"},
};

const hr_cli_command hr_cli_report = {
    .name = "report",
    .usage = "RECIPE|RUN",
    .summary = "a plan or a run as one page to look at",
    .details = "One HTML file that needs nothing else: of a plan the memory over a step, every\n"
               "buffer, streams, owners, techniques and the frontier; of a run losses, metrics,\n"
               "speed, planned beside measured, samples and events.\n"
               "Exit code 3: the page is written, and no plan on it fits.",
    .examples = "report recipes/demo.yaml\n"
                "report recipes/llama-3.2-1b.yaml --gpu 4090 --auto --out 1b.html\n"
                "report recipes/demo.yaml --compare memory.checkpoint=every-layer\n"
                "report recipes/offload.yaml --svg streams --out streams.svg",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .min_arguments = 1,
    .max_arguments = 1,
    .run = report_run,
};
