/* headroom plan for a recipe with stages: each by itself, and the largest peak, which is the promise of all. What
 * explains a plan (changes that would fit, what techniques save) takes longer than the plan: stages whose plans are
 * alike share it, and --json, which shows one stage, has it of no other. */
#include <string.h>

#include "cli/cli.h"
#include "cli/figures.h"
#include "cli/jobs.h"
#include "cli/plan.h"

/* What is told of a stage among the others. */
typedef struct staged {
  const char *name;
  uint64_t peak_bytes;
  double step_seconds;
  bool fits;
  /* by which it is known to be like another */
  char fingerprint[sizeof((hr_plan *)NULL)->fingerprint];
  size_t n_settings; /* of its search */
  json_t *settings;  /* of the closed recipe */
} staged;

/* Settings that changes of a recipe begin from; what others do to memory and time is all in the plan. */
static bool settings_alike(const json_t *a, const json_t *b) {
  static const char *const sections[] = {"model", "memory", "engine"};
  for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
    const json_t *own = json_object_get(a, sections[i]), *other = json_object_get(b, sections[i]);
    if (own != other && !json_equal(own, other)) return false;
  }
  return true;
}

/* The first of the stages before `count` whose plan, and all that explains it, is that of `own`; NULL: none. */
static const staged *stage_like(const staged *list, size_t count, const staged *own) {
  for (size_t i = 0; i < count; i++)
    if (*own->fingerprint && strcmp(list[i].fingerprint, own->fingerprint) == 0 &&
        list[i].step_seconds == own->step_seconds && list[i].peak_bytes == own->peak_bytes &&
        list[i].fits == own->fits && list[i].n_settings == own->n_settings &&
        settings_alike(list[i].settings, own->settings))
      return &list[i];
  return NULL;
}

static hr_status stage_open(hr_cli *cli, const hr_stage *stage, hr_job **job, staged *out, hr_error *err) {
  HR_TRY(hr__cli_job_open(cli, &stage->source, HR_CLI_RATES_NODES, job, err));
  const hr_job *own = *job;
  *out = (staged){.name = stage->name,
                  .peak_bytes = own->verdict.peak_bytes,
                  .step_seconds = own->plan->step_seconds,
                  .fits = own->verdict.fits,
                  .n_settings = own->search.n_settings,
                  .settings = hr__recipe_json(own->recipe)};
  memcpy(out->fingerprint, own->plan->fingerprint, sizeof out->fingerprint);
  return out->settings ? HR_OK : hr__nomem(err);
}

/* A stage that is like one before it: the reason why it does not fit, and where the rest is. */
static hr_status like_show(const hr_cli *cli, const hr_job *job, const staged *like) {
  hr_error no_fit = {0};
  if (!cli->quiet) printf("its plan is that of stage %s\n", like->name);
  if (cli->quiet && hr__job_check(job, &no_fit) == HR_NO_FIT) hr__cli_show_error(cli, &no_fit);
  return job->verdict.fits ? HR_OK : HR_NO_FIT;
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

/* As text, each after the other. */
static hr_status stage_print(hr_cli *cli, const hr_job *job, const staged *list, size_t i, hr_error *err) {
  const staged *like = stage_like(list, i, &list[i]);
  hr_status status = like ? like_show(cli, job, like) : hr__plan_show(cli, job, NULL, err);
  return status == HR_NO_FIT ? HR_OK : status; /* others may fit */
}

/* Of those that do not fit, where there are any, the one with the larger peak. */
static bool stage_larger(const staged *a, const staged *b) {
  return a->fits == b->fits ? a->peak_bytes > b->peak_bytes : b->fits;
}

/* *shown: the job of the largest, as far as --json is to show it. */
static hr_status stages_plan(hr_cli *cli, const hr_stage *stages, staged *list, size_t count, size_t *largest,
                             hr_job **shown, hr_error *err) {
  *largest = 0;
  for (size_t i = 0; i < count; i++) {
    if (!cli->json && !cli->quiet) printf("%sstage %s (%zu of %zu)\n", i > 0 ? "\n" : "", stages[i].name, i + 1, count);
    cli->stage = stages[i].name;
    hr_job *job = NULL;
    hr_status status = stage_open(cli, &stages[i], &job, &list[i], err);
    bool larger = status == HR_OK && (i == 0 || stage_larger(&list[i], &list[*largest]));
    if (larger) *largest = i;
    if (larger && cli->json) {
      hr__job_close(*shown);
      *shown = job;
      continue;
    }
    if (status == HR_OK && !cli->json) status = stage_print(cli, job, list, i, err);
    hr__job_close(job);
    HR_TRY(status);
  }
  return HR_OK;
}

static hr_status stages_show(hr_cli *cli, const hr_stage *stages, staged *list, size_t count, hr_job **shown,
                             hr_error *err) {
  size_t largest;
  HR_TRY(stages_plan(cli, stages, list, count, &largest, shown, err));
  if (cli->json) {
    json_t *answer = NULL;
    cli->stage = list[largest].name;
    hr_status status = hr__plan_show(cli, *shown, &answer, err);
    if (status == HR_OK || status == HR_NO_FIT) status = stages_answer(answer, &list[largest], list, count, err);
    json_decref(answer);
    HR_TRY(status);
  }
  cli->stage = NULL;
  if (!cli->json && !cli->quiet) stages_print(list, count, largest);
  HR_TRY(hr__cli_flush(err));
  cli->answered = !list[largest].fits;
  return list[largest].fits ? HR_OK : HR_NO_FIT;
}

hr_status hr__plan_stages(hr_cli *cli, const hr_stage *stages, size_t count, hr_error *err) {
  staged *list = hr__arena_array(&cli->arena, count, sizeof *list);
  hr_job *shown = NULL;
  if (!list) return hr__nomem(err);
  hr_status status = stages_show(cli, stages, list, count, &shown, err);
  hr__job_close(shown);
  for (size_t i = 0; i < count; i++)
    json_decref(list[i].settings);
  return status;
}
