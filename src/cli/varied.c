/* See varied.h. */
#include "cli/varied.h"

#include <string.h>

#include "cli/figures.h"
#include "cli/plan.h"
#include "format/json.h"
#include "job/answer.h"

enum { VALUE = 48, COLUMN = 20 }; /* bytes of a value as it is shown; the least width of their column */

hr_status hr__varied_init(hr_varied *v, hr_cli *cli, const char *key, const char *place, hr_error *err) {
  static const char *const tables[] = {"compare", "sweep", "largest"}; /* options that have values of this kind */
  *v = (hr_varied){.cli = cli, .key = key, .own = cli->n_overrides, .option = hr__cli_option_index(cli, key)};
  size_t length = strlen(key);
  v->column = length > COLUMN ? (int)length : COLUMN;
  bool table = v->option >= 0 && cli->command->options[v->option].argument == NULL;
  for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
    table |= strcmp(key, tables[i]) == 0;
  return table ? hr__fail(err, HR_USAGE, place, NULL, "'%s' is not a setting", key) : HR_OK;
}

hr_status hr__varied_open(const hr_varied *v, const char *value, hr_cli_rates rates, hr_job **job, hr_error *err) {
  hr_cli *cli = v->cli;
  cli->n_overrides = v->own;
  if (v->option >= 0) cli->values[v->option] = value;
  HR_TRY(hr__plan_overrides(cli, err));
  if (v->option < 0) HR_TRY(hr__cli_override(cli, err, "%s=%s", v->key, value));
  hr_job_source source = {cli->arguments[0], cli->overrides, cli->n_overrides};
  return hr__cli_job_open(cli, &source, rates, job, err);
}

/* --- for people --------------------------------------------------------------------------------------------------- */

static const char *value_text(const char *value, char out[VALUE]) {
  hr__text_escape(value, strlen(value), out, VALUE);
  return out;
}

void hr__varied_head(const hr_varied *v) {
  hr_style style = hr__cli_style(v->cli, stdout);
  char shown[VALUE];
  printf("%s  %-*s %-4s %12s %13s %11s %10s%s\n", style.bold, v->column, value_text(v->key, shown), "fits", "peak",
         "left", "a step", "tokens/s", style.end);
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

void hr__varied_print(const hr_varied *v, const hr_job *job, const char *value) {
  hr_style style = hr__cli_style(v->cli, stdout);
  char shown[VALUE], peak[HR_SIZE_TEXT], left[HR_SIZE_TEXT], step[HR_SIZE_TEXT], tokens[HR_SIZE_TEXT];
  bool fits = job->verdict.fits;
  double rate = hr__answer_tokens_per_second(job);
  bool counts = rate > 0; /* else the unit is told beside the number */
  printf("  %-*s %s%-4s%s %12s %13s %11s %10s", v->column, value_text(value, shown), fits ? style.green : style.red,
         fits ? "yes" : "no", style.end, hr__size_text(job->verdict.peak_bytes, peak),
         hr__difference_text(hr__verdict_left(&job->verdict), left), hr__seconds_text(job->plan->step_seconds, step),
         hr__rate_text(counts ? rate : hr__answer_samples_per_second(job), tokens));
  if (!counts) printf(" samples/s");
  chosen_print(&job->search);
  if (!fits && job->verdict.tier != HR_TIER_DEVICE)
    printf("  %s more on the %s", hr__size_text(job->verdict.missing_bytes, left), hr_tier_name(job->verdict.tier));
  fputc('\n', stdout);
}

void hr__varied_print_refused(const hr_varied *v, const hr_error *why, const char *value) {
  char shown[VALUE];
  printf("  %-*s %s\n", v->column, value_text(value, shown), why->message);
}

/* --- JSON --------------------------------------------------------------------------------------------------------- */

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

json_t *hr__varied_json(const hr_job *job, const char *value) {
  const hr_tier_plan *tiers = job->plan->tiers;
  return json_pack("{s:o, s:b, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:o}", "value", hr__json_string(value),
                   "fits", (int)job->verdict.fits, "fingerprint", job->plan->fingerprint, "budget_bytes",
                   (json_int_t)job->verdict.budget_bytes, "margin_bytes", (json_int_t)job->verdict.margin_bytes,
                   "peak_bytes", (json_int_t)tiers[HR_TIER_DEVICE].peak_bytes, "left_bytes",
                   (json_int_t)hr__verdict_left(&job->verdict), "host_bytes",
                   (json_int_t)tiers[HR_TIER_HOST].peak_bytes, "disk_bytes", (json_int_t)tiers[HR_TIER_DISK].peak_bytes,
                   "step_seconds", job->plan->step_seconds, "tokens_per_second", hr__answer_tokens_per_second(job),
                   "samples_per_second", hr__answer_samples_per_second(job), "chosen",
                   chosen_json(&job->search.chosen));
}

json_t *hr__varied_json_refused(const hr_cli *cli, const hr_error *why, const char *value) {
  json_t *entry = hr__cli_error_json(cli, why);
  if (entry == NULL || json_object_set_new(entry, "value", hr__json_string(value)) == 0) return entry;
  json_decref(entry);
  return NULL;
}
