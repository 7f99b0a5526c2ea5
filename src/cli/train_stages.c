/* headroom train for a recipe with stages: one run after the other, each in a folder of its own name. */
#include <string.h>

#include "cli/fit.h"
#include "cli/jobs.h"
#include "cli/train.h"
#include "dev/device.h"
#include "train/store.h"

typedef struct staged {
  const hr_stage *stages;
  size_t count, first; /* stages before the first one are done */
  const char **folders;
} staged;

/* From here on errors are of this stage. */
static void stage_begin(hr_cli *cli, const staged *s, size_t i, const char *what) {
  cli->stage = s->stages[i].name;
  if (!cli->quiet && !cli->json) fprintf(stderr, "stage %s (%zu of %zu)%s\n", s->stages[i].name, i + 1, s->count, what);
}

/* Everything that could stop a later stage is looked at before the first begins: its plan, and its folder. A stage that
 * a later one has begun from is done. */
static hr_status stages_check(hr_cli *cli, staged *s, hr_error *err) {
  int64_t steps;
  HR_TRY(hr__cli_int(cli, "steps", 1, 0, &steps, err));
  if (steps > 0)
    return hr__fail(err, HR_USAGE, "--steps", "set training.steps in each of them, or choose one: --stage NAME",
                    "this recipe has %zu stages, each with steps of its own", s->count);
  for (size_t i = 0; i < s->count; i++) {
    bool holds;
    HR_TRY(hr__store_holds_run(s->folders[i], &holds, err));
    if (!holds) continue;
    if (!hr__cli_flag(cli, "resume"))
      return hr__fail(err, HR_USAGE, s->folders[i], "go on with --resume, or train into another --out",
                      "there is a run in this folder already");
    s->first = i;
  }
  hr_stage_left *left = hr__arena_array(&cli->arena, s->count, sizeof *left); /* of those that are done: not known */
  if (!left) return hr__nomem(err);
  for (size_t i = s->first; i < s->count; i++) {
    stage_begin(cli, s, i, ": planning");
    hr_job *job = NULL;
    HR_TRY(hr__cli_job_open(cli, &s->stages[i].source, HR_CLI_RATES_PLAN, &job, err));
    hr_status status = hr__fit_check(cli, job, err);
    if (status == HR_OK) status = hr__stage_follow(left, job, &s->stages[i], &cli->arena, &left[i], err);
    hr__job_close(job);
    HR_TRY(status);
  }
  cli->stage = NULL;
  return HR_OK;
}

static hr_status stages_run(hr_cli *cli, const staged *s, json_t *answers, hr_error *err) {
  for (size_t i = s->first; i < s->count; i++) {
    const hr_stage *stage = &s->stages[i];
    const char **also = hr__arena_array(&cli->arena, (size_t)stage->n_also + 1, sizeof *also);
    if (!also) return hr__nomem(err);
    for (int k = 0; k < stage->n_also; k++)
      also[k] = s->folders[stage->also[k]];
    hr_train_places at = {.folder = s->folders[i],
                          .begin = stage->from >= 0 ? s->folders[stage->from] : hr__cli_value(cli, "begin"),
                          .begin_also = also};
    json_t *answer = NULL;
    stage_begin(cli, s, i, "");
    if (i > s->first) hr__cpu_peak_restart(); /* a stage is held to its own plan */
    hr_status status = hr__train_source(cli, &stage->source, &at, answers ? &answer : NULL, err);
    if (answer && (json_object_set_new(answer, "stage", json_string(stage->name)) != 0 ||
                   json_array_append_new(answers, answer) != 0))
      return hr__nomem(err);
    HR_TRY(status);
  }
  cli->stage = NULL;
  return HR_OK;
}

/* The object of the last stage that ran, with all of them in "stages". */
static hr_status stages_answer(hr_cli *cli, json_t *answers, hr_error *err) {
  if (!answers || json_array_size(answers) == 0) return HR_OK;
  json_t *all = json_copy(json_array_get(answers, json_array_size(answers) - 1));
  if (!all || json_object_set(all, "stages", answers) != 0) {
    json_decref(all);
    return hr__nomem(err);
  }
  cli->answered = true;
  return hr__cli_put_json(all, err);
}

hr_status hr__train_alone(hr_cli *cli, const hr_job_source *source, const char *folder, hr_error *err) {
  const char *befores;
  bool holds;
  HR_TRY(hr__stage_befores(source, &cli->arena, &befores, err));
  if (!befores || hr__cli_value(cli, "begin")) return HR_OK;
  HR_TRY(hr__store_holds_run(folder, &holds, err));
  if (holds) return HR_OK; /* it goes on, or is refused */
  const char *text =
      hr__arena_format(&cli->arena,
                       "this stage goes on from %s, and begins here without what %s: leave --stage out to "
                       "train them all in order, or --begin DIR takes the weights of a run",
                       befores, strchr(befores, ',') ? "they have learned" : "that one has learned");
  if (!text) return hr__nomem(err);
  hr__cli_tell(cli, stderr, hr__cli_style(cli, stderr).yellow, "warning:", text);
  return HR_OK;
}

hr_status hr__train_stages(hr_cli *cli, const hr_stage *stages, size_t count, const char *folder, hr_error *err) {
  staged s = {.stages = stages, .count = count, .folders = hr__arena_array(&cli->arena, count, sizeof *s.folders)};
  if (!s.folders) return hr__nomem(err);
  for (size_t i = 0; i < count; i++) {
    s.folders[i] = hr__arena_format(&cli->arena, "%s/%s", folder, stages[i].name);
    if (!s.folders[i]) return hr__nomem(err);
  }
  HR_TRY(stages_check(cli, &s, err));
  json_t *answers = cli->json ? json_array() : NULL;
  if (cli->json && !answers) return hr__nomem(err);
  hr_status status = stages_run(cli, &s, answers, err);
  hr_error output = {0};
  hr_status shown = status == HR_OK || hr__train_has_result(status) ? stages_answer(cli, answers, &output) : HR_OK;
  json_decref(answers);
  if (shown == HR_OK) return status;
  *err = output;
  return shown;
}
