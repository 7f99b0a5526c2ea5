/* headroom plan for a recipe with stages: each by itself, and the largest peak, which is the promise of all. */
#include "cli/figures.h"
#include "cli/jobs.h"
#include "cli/plan.h"

/* What is told of a stage among the others. */
typedef struct staged {
  const char *name;
  uint64_t peak_bytes;
  double step_seconds;
  bool fits;
} staged;

static hr_status stage_plan(hr_cli *cli, const hr_stage *stage, json_t **answer, staged *out, hr_error *err) {
  hr_job *job = NULL;
  HR_TRY(hr__cli_job_open(cli, &stage->source, HR_CLI_RATES_NODES, &job, err));
  *out = (staged){stage->name, job->verdict.peak_bytes, job->plan->step_seconds, job->verdict.fits};
  hr_status status = hr__plan_show(cli, job, answer, err);
  hr__job_close(job);
  return status == HR_NO_FIT ? HR_OK : status; /* others may fit */
}

/* A stage's plan, and a few figures of each. */
static hr_status stages_answer(json_t *answer, const staged *own, const staged *list, size_t count, hr_error *err) {
  json_t *all = json_array();
  bool made = all != NULL;
  for (size_t i = 0; i < count && made; i++)
    made = json_array_append_new(all, json_pack("{s:s, s:I, s:f, s:b}", "stage", list[i].name, "peak_bytes",
                                                (json_int_t)list[i].peak_bytes, "step_seconds", list[i].step_seconds,
                                                "fits", list[i].fits)) == 0;
  made = made && json_object_set_new(answer, "stage", json_string(own->name)) == 0 &&
         json_object_set(answer, "stages", all) == 0;
  json_decref(all);
  return made ? hr__cli_put_json(json_incref(answer), err) : hr__nomem(err);
}

static void stages_print(const staged *list, size_t count, size_t largest) {
  char peak[HR_SIZE_TEXT], seconds[HR_SIZE_TEXT];
  printf("\n  %-20s %12s %12s\n", "stages", "peak", "a step");
  for (size_t i = 0; i < count; i++)
    printf("  %-20s %12s %12s%s%s\n", list[i].name, hr__size_text(list[i].peak_bytes, peak),
           hr__seconds_text(list[i].step_seconds, seconds), i == largest ? "  the most of all" : "",
           list[i].fits ? "" : "  does not fit");
}

static hr_status stages_show(hr_cli *cli, const hr_stage *stages, staged *list, json_t **answers, size_t count,
                             hr_error *err) {
  size_t largest = 0; /* of those that do not fit, where there are any */
  bool fits = true;
  for (size_t i = 0; i < count; i++) {
    if (!cli->json && !cli->quiet) printf("%sstage %s (%zu of %zu)\n", i > 0 ? "\n" : "", stages[i].name, i + 1, count);
    cli->stage = stages[i].name;
    HR_TRY(stage_plan(cli, &stages[i], &answers[i], &list[i], err));
    bool larger = list[i].peak_bytes > list[largest].peak_bytes;
    if (list[i].fits == list[largest].fits ? larger : list[largest].fits) largest = i;
    fits &= list[i].fits;
  }
  cli->stage = NULL;
  if (cli->json) HR_TRY(stages_answer(answers[largest], &list[largest], list, count, err));
  if (!cli->json && !cli->quiet) stages_print(list, count, largest);
  HR_TRY(hr__cli_flush(err));
  cli->answered = !fits;
  return fits ? HR_OK : HR_NO_FIT;
}

hr_status hr__plan_stages(hr_cli *cli, const hr_stage *stages, size_t count, hr_error *err) {
  staged *list = hr__arena_array(&cli->arena, count, sizeof *list);
  json_t **answers = hr__arena_array(&cli->arena, count, sizeof(json_t *));
  if (!list || !answers) return hr__nomem(err);
  hr_status status = stages_show(cli, stages, list, answers, count, err);
  for (size_t i = 0; i < count; i++)
    json_decref(answers[i]);
  return status;
}
