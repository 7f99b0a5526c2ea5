/* plan --sweep: one line per value. See plan.h. */
#include <inttypes.h>
#include <string.h>

#include "cli/figures.h"
#include "cli/jobs.h"
#include "cli/plan.h"
#include "format/json.h"
#include "train/answer.h"

enum { VALUE = 48, COLUMN = 20 }; /* bytes of a value as it is shown; the least width of their column */

typedef struct sweep {
  hr_cli *cli;
  const char *key;
  int option;       /* of the command, under that name; -1: the key of a setting */
  int column;       /* width of the values */
  size_t own;       /* overrides of --set */
  json_t *entries;  /* NULL without --json */
  int fit, planned; /* values of that kind so far */
  hr_error first;   /* error */
} sweep;

static hr_status value_open(sweep *s, const char *value, hr_job **job, hr_error *err) {
  hr_cli *cli = s->cli;
  cli->n_overrides = s->own;
  if (s->option >= 0) cli->values[s->option] = value;
  HR_TRY(hr__plan_overrides(cli, err));
  if (s->option < 0) HR_TRY(hr__cli_override(cli, err, "%s=%s", s->key, value));
  hr_job_source source = {cli->arguments[0], cli->overrides, cli->n_overrides};
  return hr__cli_job_open(cli, &source, HR_CLI_RATES_NODES, job, err);
}

/* What was open and is closed otherwise for each value. */
static json_t *chosen_json(const hr_found *chosen) {
  json_t *list = json_array();
  int failed = list == NULL;
  for (size_t i = 0; i < chosen->n_overrides && !failed; i++)
    failed = json_array_append_new(list, hr__json_string(chosen->overrides[i]));
  if (!failed) return list;
  json_decref(list);
  return NULL;
}

static json_t *entry_json(const hr_job *job, const char *value) {
  double samples = hr__answer_samples_per_second(job);
  const hr_tier_plan *tiers = job->plan->tiers;
  return json_pack("{s:o, s:b, s:s, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:o}", "value", hr__json_string(value),
                   "fits", (int)job->verdict.fits, "fingerprint", job->plan->fingerprint, "budget_bytes",
                   (json_int_t)job->verdict.budget_bytes, "peak_bytes", (json_int_t)tiers[HR_TIER_DEVICE].peak_bytes,
                   "left_bytes", (json_int_t)hr__verdict_left(&job->verdict), "host_bytes",
                   (json_int_t)tiers[HR_TIER_HOST].peak_bytes, "disk_bytes", (json_int_t)tiers[HR_TIER_DISK].peak_bytes,
                   "step_seconds", job->plan->step_seconds, "tokens_per_second", samples * (double)job->shape.length,
                   "samples_per_second", samples, "chosen", chosen_json(&job->search.chosen));
}

static const char *value_text(const char *value, char out[VALUE]) {
  hr__text_escape(value, strlen(value), out, VALUE);
  return out;
}

/* "batch_size=8": the last part of the key, for what is not as it was. */
static void chosen_print(const hr_search *search) {
  for (size_t k = 0; k < search->n_knobs; k++) {
    const char *text = search->chosen.overrides[k], *value = strchr(text, '=') + 1, *word = text;
    bool moved = strcmp(value, search->knobs[k].choices[0]) != 0;
    for (const char *c = text; *c != '='; c++)
      if (*c == '.') word = c + 1;
    if ((search->knobs[k].by_hand || moved) && !search->knobs[k].slices) printf("  %s", word);
  }
}

static void entry_print(const sweep *s, const hr_job *job, const char *value) {
  hr_style style = hr__cli_style(s->cli, stdout);
  char shown[VALUE], peak[HR_SIZE_TEXT], left[HR_SIZE_TEXT], step[HR_SIZE_TEXT], tokens[HR_SIZE_TEXT];
  bool fits = job->verdict.fits;
  printf("  %-*s %s%-4s%s %12s %13s %11s %10s", s->column, value_text(value, shown), fits ? style.green : style.red,
         fits ? "yes" : "no", style.end, hr__size_text(job->verdict.peak_bytes, peak),
         hr__difference_text(hr__verdict_left(&job->verdict), left), hr__seconds_text(job->plan->step_seconds, step),
         hr__rate_text(hr__answer_samples_per_second(job) * (double)job->shape.length, tokens));
  chosen_print(&job->search);
  if (!fits && job->verdict.tier != HR_TIER_DEVICE)
    printf("  %s more on the %s", hr__size_text(job->verdict.missing_bytes, left), hr_tier_name(job->verdict.tier));
  fputc('\n', stdout);
}

static hr_status planned_show(sweep *s, const hr_job *job, const char *value, hr_error *err) {
  if (s->planned++ == 0) hr__plan_remark(s->cli, job);
  s->fit += job->verdict.fits;
  if (s->entries) return json_array_append_new(s->entries, entry_json(job, value)) == 0 ? HR_OK : hr__nomem(err);
  if (!s->cli->quiet) entry_print(s, job, value);
  return HR_OK;
}

/* A value that cannot be planned is a line as any other. */
static hr_status refused_show(sweep *s, const hr_error *why, const char *value, hr_error *err) {
  if (s->first.status == HR_OK) s->first = *why;
  if (s->entries) {
    json_t *entry = hr__cli_error_json(why);
    if (entry != NULL && json_object_set_new(entry, "value", hr__json_string(value)) == 0 &&
        json_array_append(s->entries, entry) == 0) {
      json_decref(entry);
      return HR_OK;
    }
    json_decref(entry);
    return hr__nomem(err);
  }
  char shown[VALUE];
  if (!s->cli->quiet) printf("  %-*s %s\n", s->column, value_text(value, shown), why->message);
  return HR_OK;
}

static hr_status value_show(sweep *s, const char *value, hr_error *err) {
  hr_job *job = NULL;
  hr_error why = {0};
  hr_status status = value_open(s, value, &job, &why);
  if (status == HR_NOMEM) return hr__nomem(err);
  why.status = status;
  status = status == HR_OK ? planned_show(s, job, value, err) : refused_show(s, &why, value, err);
  hr__job_close(job);
  return status;
}

static hr_status values_show(sweep *s, const char *values, hr_error *err) {
  if (!s->cli->json && !s->cli->quiet) {
    hr_style style = hr__cli_style(s->cli, stdout);
    char shown[VALUE];
    printf("%s  %-*s %-4s %12s %13s %11s %10s%s\n", style.bold, s->column, value_text(s->key, shown), "fits", "peak",
           "left", "a step", "tokens/s", style.end);
  }
  bool failed;
  for (const char *value; (value = hr__part_next(&s->cli->arena, &values, &failed)) != NULL;) {
    if (value[0] == '\0')
      return hr__fail(err, HR_USAGE, "--sweep", "write --sweep gpu-memory=8GiB,16GiB,24GiB", "a value is empty");
    HR_TRY(value_show(s, value, err));
  }
  if (failed) return hr__nomem(err);
  if (!s->cli->json) return hr__cli_flush(err);
  json_t *answer = json_pack("{s:i, s:o, s:O}", "schema", 1, "sweep", hr__json_string(s->key), "entries", s->entries);
  return hr__cli_put_json(answer, err);
}

hr_status hr__sweep(hr_cli *cli, hr_error *err) {
  const char *text = hr__cli_value(cli, "sweep"), *equals = strchr(text, '=');
  if (equals == NULL || equals == text || equals[1] == '\0')
    return hr__fail(err, HR_USAGE, "--sweep", "write --sweep gpu-memory=8GiB,16GiB,24GiB",
                    "'%s' is not of the form KEY=V1,V2,...", text);
  if (hr__cli_value(cli, "compare"))
    return hr__fail(err, HR_USAGE, "--sweep", "give one of them", "--sweep and --compare are two tables");
  sweep s = {.cli = cli, .own = cli->n_overrides};
  s.key = hr__arena_format(&cli->arena, "%.*s", (int)(equals - text), text);
  if (s.key == NULL) return hr__nomem(err);
  s.column = equals - text > COLUMN ? (int)(equals - text) : COLUMN;
  s.option = hr__cli_option_index(cli, s.key);
  bool table = strcmp(s.key, "compare") == 0 || strcmp(s.key, "sweep") == 0;
  if (table || (s.option >= 0 && cli->command->options[s.option].argument == NULL))
    return hr__fail(err, HR_USAGE, "--sweep", NULL, "'%s' is no setting", s.key);
  if (cli->json && (s.entries = json_array()) == NULL) return hr__nomem(err);
  hr_status status = values_show(&s, equals + 1, err);
  json_decref(s.entries);
  if (status != HR_OK || s.fit > 0) return status;
  if (s.planned == 0 && !cli->json) { /* none can be planned: the first says why, with its place and remedy */
    *err = s.first;
    return s.first.status;
  }
  cli->answered = true;
  return s.planned > 0 ? HR_NO_FIT : s.first.status;
}
