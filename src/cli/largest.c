/* plan --largest: the largest value of a setting that fits. See plan.h and fit/largest.h. */
#include "fit/largest.h"

#include <inttypes.h>
#include <math.h>

#include "cli/argument.h"
#include "cli/plan.h"
#include "cli/varied.h"
#include "format/json.h"
#include "job/settings.h"

enum { NUMBER = 24 };
static const int64_t MOST = (int64_t)1 << 40; /* where a setting has no limit of its own */

typedef struct largest {
  hr_varied varied;
  const char *path; /* of the setting */
  int64_t least, start, most;
  hr_error first; /* of the values that were refused */
  hr_largest found;
} largest;

/* Limits and beginning, from the setting and its value. */
static hr_status limits_read(largest *l, hr_error *err) {
  hr_cli *cli = l->varied.cli;
  hr_recipe *recipe = NULL;
  HR_TRY(hr__plan_overrides(cli, err));
  HR_TRY(hr__settings_load(cli->arguments[0], cli->overrides, cli->n_overrides, &recipe, err));
  const hr_key *key = hr__recipe_key(recipe, l->path);
  bool number = key != NULL && key->type == HR_KEY_INT;
  if (number) {
    bool limited = key->min != 0 || key->max != 0;
    l->least = limited && key->min > 1 ? (int64_t)ceil(key->min) : 1;
    l->most = limited && key->max < (double)MOST ? (int64_t)key->max : MOST;
    bool given = hr__recipe_has(recipe, l->path) && !hr__recipe_is_word(recipe, l->path);
    l->start = given && !hr__recipe_tree(recipe, l->path) ? hr__recipe_int(recipe, l->path) : l->least;
  }
  hr__recipe_destroy(recipe);
  if (number) return HR_OK;
  if (key != NULL)
    return hr__fail(err, HR_USAGE, "--largest", "name batch, seq, rank, or a key that is a whole number",
                    "%s is not a whole number", l->path);
  hr_error why = {0};
  HR_TRY(hr__cli_override(cli, err, "%s=1", l->path)); /* the recipe says what is wrong with it */
  hr_status status = hr__settings_load(cli->arguments[0], cli->overrides, cli->n_overrides, &recipe, &why);
  hr__recipe_destroy(recipe);
  if (status == HR_NOMEM) return hr__nomem(err);
  if (status != HR_OK) return hr__fail(err, status, "--largest", why.remedy, "%s", why.message);
  return hr__fail(err, HR_USAGE, "--largest", NULL, "%s is not a setting", l->path); /* a section */
}

static hr_status value_open(const largest *l, int64_t value, hr_cli_rates rates, hr_job **job, hr_error *err) {
  const char *text = hr__arena_format(&l->varied.cli->arena, "%" PRId64, value);
  return text != NULL ? hr__varied_open(&l->varied, text, rates, job, err) : hr__nomem(err);
}

static hr_status value_try(void *user, int64_t value, hr_trial *out, hr_error *err) {
  largest *l = user;
  hr_job *job = NULL;
  hr_error why = {0};
  hr_status status = value_open(l, value, HR_CLI_RATES_PLAN, &job, &why);
  if (status == HR_OK) {
    *out = job->verdict.fits ? HR_TRIAL_FITS : HR_TRIAL_OVER;
    hr__job_close(job);
    return HR_OK;
  }
  if (status != HR_BAD_INPUT && status != HR_USAGE && status != HR_UNSUPPORTED) {
    *err = why; /* none of the value's */
    return status;
  }
  why.status = status;
  if (l->first.status == HR_OK) l->first = why;
  *out = HR_TRIAL_REFUSED;
  return HR_OK;
}

/* One line, or one object of `entries`, of a value that was tried. */
static hr_status value_show(const largest *l, int64_t value, json_t *entries, hr_error *err) {
  hr_job *job = NULL;
  hr_error why = {0};
  char text[NUMBER];
  snprintf(text, sizeof text, "%" PRId64, value);
  hr_status status = value_open(l, value, HR_CLI_RATES_NODES, &job, &why);
  if (status == HR_NOMEM) return hr__nomem(err);
  why.status = status;
  int failed = 0;
  if (entries != NULL)
    failed = json_array_append_new(entries, status == HR_OK ? hr__varied_json(job, text)
                                                            : hr__varied_json_refused(l->varied.cli, &why, text));
  else if (status == HR_OK)
    hr__varied_print(&l->varied, job, text);
  else
    hr__varied_print_refused(&l->varied, &why, text);
  hr__job_close(job);
  return failed != 0 ? hr__nomem(err) : HR_OK;
}

/* The answer, and behind it the value that shows that it is one. */
static hr_status values_show(const largest *l, json_t *entries, hr_error *err) {
  HR_TRY(value_show(l, l->found.value, entries, err));
  return l->found.found && !l->found.ends ? value_show(l, l->found.next, entries, err) : HR_OK;
}

static hr_status largest_print(const largest *l, hr_error *err) {
  const hr_largest *found = &l->found;
  if (found->found) printf("largest %s that fits: %" PRId64, l->path, found->value);
  if (found->found && found->ends)
    printf(", the most that it takes\n\n");
  else if (found->found)
    printf("; %" PRId64 " %s\n\n", found->next, found->next_trial == HR_TRIAL_OVER ? "does not" : "is refused");
  else
    printf("no %s fits, not even %" PRId64 "\n\n", l->path, found->value);
  hr__varied_head(&l->varied);
  HR_TRY(values_show(l, NULL, err));
  if (found->found && !found->ends && found->next_trial == HR_TRIAL_OVER && found->next > found->value + 1)
    printf("\nvalues between the two that were tried are refused\n");
  return hr__cli_flush(err);
}

static hr_status largest_json(const largest *l, hr_error *err) {
  json_t *entries = json_array();
  hr_status status = entries != NULL ? values_show(l, entries, err) : hr__nomem(err);
  if (status != HR_OK) {
    json_decref(entries);
    return status;
  }
  json_t *value = l->found.found ? json_integer(l->found.value) : json_null();
  return hr__cli_put_json(json_pack("{s:i, s:o, s:s, s:o, s:b, s:o, s:i}", "schema", 1, "largest",
                                    hr__json_string(l->varied.key), "key", l->path, "value", value, "ends",
                                    (int)(l->found.found && l->found.ends), "entries", entries, "tried",
                                    l->found.tried),
                          err);
}

hr_status hr__plan_largest(hr_cli *cli, hr_error *err) {
  largest l = {0};
  const char *name = hr__cli_value(cli, "largest");
  if (name[0] == '\0') return hr__fail(err, HR_USAGE, "--largest", "write --largest batch", "no setting is named");
  HR_TRY(hr__varied_init(&l.varied, cli, name, "--largest", err));
  l.path = l.varied.option >= 0 ? hr__cli_option_key(name) : name;
  if (l.path == NULL)
    return hr__fail(err, HR_USAGE, "--largest", "name batch, seq, rank, or a key that is a whole number",
                    "--%s is not a number", name);
  HR_TRY(limits_read(&l, err));
  HR_TRY(hr__largest(l.least, l.start, l.most, value_try, &l, &l.found, err));
  if (!l.found.found && l.found.next_trial == HR_TRIAL_REFUSED) { /* the least is refused: that is what is wrong */
    *err = l.first;
    return l.first.status;
  }
  if (cli->json)
    HR_TRY(largest_json(&l, err));
  else if (!cli->quiet)
    HR_TRY(largest_print(&l, err));
  if (l.found.found) return HR_OK;
  cli->answered = true;
  return HR_NO_FIT;
}
