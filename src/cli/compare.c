/* plan --compare: two plans side by side. See plan.h. */
#include <string.h>
#include <unistd.h>

#include "cli/figures.h"
#include "cli/jobs.h"
#include "cli/plan.h"
#include "format/json.h"
#include "job/answer.h"
#include "recipe/techniques.h"

enum { NAME = 32, CELL = 14 };

typedef struct pair {
  const hr_cli *cli;
  const char *names[2];
  hr_job *jobs[2];
} pair;

/* --- settings that differ ----------------------------------------------------------------------------------------- */

typedef hr_status (*difference_fn)(void *user, const char *key, const json_t *here, const json_t *there, hr_error *err);

static hr_status object_differs(const char *path, json_t *here, json_t *there, bool missing_only, hr_arena *arena,
                                difference_fn each, void *user, hr_error *err);

static hr_status value_differs(const char *path, json_t *here, json_t *there, bool missing_only, hr_arena *arena,
                               difference_fn each, void *user, hr_error *err) {
  if (json_is_object(here) && (json_is_object(there) || there == NULL))
    return object_differs(path, here, there, missing_only, arena, each, user, err);
  if (missing_only && there != NULL) return HR_OK;
  if (here != NULL && there != NULL && json_equal(here, there)) return HR_OK;
  return missing_only ? each(user, path, there, here, err) : each(user, path, here, there, err);
}

/* Every leaf of `here` that `there` has otherwise or not at all. `missing_only`: only what `there` lacks, and the
 * sides are handed over in turn. */
static hr_status object_differs(const char *path, json_t *here, json_t *there, bool missing_only, hr_arena *arena,
                                difference_fn each, void *user, hr_error *err) {
  const char *key;
  json_t *value;
  json_object_foreach(here, key, value) {
    const char *below = path[0] != '\0' ? hr__arena_format(arena, "%s.%s", path, key) : key;
    if (below == NULL) return hr__nomem(err);
    HR_TRY(value_differs(below, value, json_object_get(there, key), missing_only, arena, each, user, err));
  }
  return HR_OK;
}

static hr_status settings_differ(hr_job *const jobs[2], difference_fn each, void *user, hr_error *err) {
  hr_arena arena;
  hr__arena_init(&arena);
  json_t *here = hr__recipe_json(jobs[0]->recipe), *there = hr__recipe_json(jobs[1]->recipe);
  hr_status status = here != NULL && there != NULL ? HR_OK : hr__nomem(err);
  if (status == HR_OK) status = object_differs("", here, there, false, &arena, each, user, err);
  if (status == HR_OK) status = object_differs("", there, here, true, &arena, each, user, err);
  json_decref(here);
  json_decref(there);
  hr__arena_fini(&arena);
  return status;
}

/* --- the table ---------------------------------------------------------------------------------------------------- */

static void cells_print(const char *name, const char *here, const char *there, const char *change) {
  printf("  %-*s %*s %*s", NAME, name, CELL, here, CELL, there);
  if (change[0] != '\0') printf(" %10s", change);
  fputc('\n', stdout);
}

/* A setting's value in one cell; of long lists their number, of other long ones the beginning. Numbers of the section
 * `memory` are sizes. */
static const char *setting_text(const char *key, const json_t *value, char out[HR_SIZE_TEXT]) {
  if (value == NULL || json_is_null(value)) return "-";
  if (json_is_integer(value) && strncmp(key, "memory.", strlen("memory.")) == 0)
    return hr__size_text((uint64_t)json_integer_value(value), out);
  char text[4 * CELL];
  size_t bytes = json_is_string(value) ? json_string_length(value) : 0;
  if (bytes > 0) {
    hr__text_escape(json_string_value(value), bytes, out, CELL + 1);
    return out;
  }
  bytes = json_dumpb(value, text, sizeof text, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(6));
  if (json_is_array(value) && bytes > CELL)
    bytes = (size_t)snprintf(text, sizeof text, "%zu values", json_array_size(value));
  hr__text_escape(text, bytes < sizeof text ? bytes : sizeof text, out, CELL + 1);
  return out;
}

static hr_status setting_print(void *user, const char *key, const json_t *here, const json_t *there, hr_error *err) {
  (void)user, (void)err;
  char left[HR_SIZE_TEXT], right[HR_SIZE_TEXT];
  cells_print(key, setting_text(key, here, left), setting_text(key, there, right), "");
  return HR_OK;
}

static void bytes_print(const char *name, int64_t here, int64_t there) {
  char left[HR_SIZE_TEXT], right[HR_SIZE_TEXT], change[HR_SIZE_TEXT] = "";
  if (here == 0 && there == 0) return;
  if (here >= 0 && there >= 0) hr__change_text((double)here, (double)there, change);
  cells_print(name, hr__difference_text(here, left), hr__difference_text(there, right), change);
}

static void tier_print(const pair *p, int tier) {
  const hr_tier_plan *here = &p->jobs[0]->plan->tiers[tier], *there = &p->jobs[1]->plan->tiers[tier];
  char name[64];
  for (int c = 0; c < HR_CAT_COUNT; c++) {
    bool device = tier == HR_TIER_DEVICE;
    snprintf(name, sizeof name, "%s%s%s", device ? "" : hr_tier_name((hr_tier)tier), device ? "" : " ",
             hr_category_name((hr_category)c));
    bytes_print(name, (int64_t)here->categories[c], (int64_t)there->categories[c]);
  }
  snprintf(name, sizeof name, "%s peak", hr_tier_name((hr_tier)tier));
  bytes_print(name, (int64_t)here->peak_bytes, (int64_t)there->peak_bytes);
}

static const char *verdict_text(const hr_verdict *v) {
  static const char *const over[HR_TIER_COUNT] = {"does not fit", "not on the host", "not on the disk"};
  return v->fits ? "fits" : over[v->tier];
}

static hr_status pair_print(const pair *p, hr_error *err) {
  hr_style style = hr__cli_style(p->cli, stdout);
  const hr_job *here = p->jobs[0], *there = p->jobs[1];
  char left[HR_SIZE_TEXT], right[HR_SIZE_TEXT], change[HR_SIZE_TEXT];
  char names[2][256];
  for (int i = 0; i < 2; i++)
    hr__text_escape(p->names[i], strlen(p->names[i]), names[i], sizeof names[i]);
  printf("this:  %s\nother: %s\n\n%s", names[0], names[1], style.bold);
  cells_print("", "this", "other", "change");
  fputs(style.end, stdout);
  cells_print("verdict", verdict_text(&here->verdict), verdict_text(&there->verdict), "");
  HR_TRY(settings_differ(p->jobs, setting_print, NULL, err));
  for (int t = 0; t < HR_TIER_COUNT; t++)
    tier_print(p, t);
  bytes_print("budget", (int64_t)here->verdict.budget_bytes, (int64_t)there->verdict.budget_bytes);
  bytes_print("left", hr__verdict_left(&here->verdict), hr__verdict_left(&there->verdict));
  cells_print("a step", hr__seconds_text(here->plan->step_seconds, left),
              hr__seconds_text(there->plan->step_seconds, right),
              hr__change_text(here->plan->step_seconds, there->plan->step_seconds, change));
  double a = hr__answer_tokens_per_second(here), b = hr__answer_tokens_per_second(there);
  if (a > 0 && b > 0)
    cells_print("tokens/s", hr__rate_text(a, left), hr__rate_text(b, right), hr__change_text(a, b, change));
  a = hr__answer_samples_per_second(here);
  b = hr__answer_samples_per_second(there);
  cells_print("samples/s", hr__rate_text(a, left), hr__rate_text(b, right), hr__change_text(a, b, change));
  return hr__cli_flush(err);
}

/* --- JSON --------------------------------------------------------------------------------------------------------- */

static hr_status setting_append(void *user, const char *key, const json_t *here, const json_t *there, hr_error *err) {
  json_t *entry = json_pack("{s:s, s:[O?, O?]}", "key", key, "values", here, there);
  return json_array_append_new(user, entry) == 0 ? HR_OK : hr__nomem(err);
}

hr_status hr__compare_settings(hr_job *const jobs[2], json_t **out, hr_error *err) {
  json_t *list = json_array();
  hr_status status = list != NULL ? settings_differ(jobs, setting_append, list, err) : hr__nomem(err);
  if (status == HR_OK)
    *out = list;
  else
    json_decref(list);
  return status;
}

static hr_status pair_json(const pair *p, hr_error *err) {
  json_t *list = NULL;
  HR_TRY(hr__compare_settings(p->jobs, &list, err));
  return hr__cli_put_json(json_pack("{s:i, s:[o, o], s:[o, o], s:o}", "schema", 1, "compare",
                                    hr__json_string(p->names[0]), hr__json_string(p->names[1]), "plans",
                                    hr__answer_plan(p->jobs[0], NULL, 0), hr__answer_plan(p->jobs[1], NULL, 0),
                                    "differences", list),
                          err);
}

/* --- what is compared --------------------------------------------------------------------------------------------- */

/* PyTorch is asked about without the techniques that are headroom's own: what it would need instead is the question. */
static hr_status engine_override(hr_cli *cli, const hr_recipe *recipe, const char *engine, hr_error *err) {
  HR_TRY(hr__cli_override(cli, err, "engine.kind=%s", engine));
  for (int i = 0; i < HR_TECHNIQUE_KEYS; i++) {
    const hr_technique_key *technique = &hr_technique_keys[i];
    bool lacks = strcmp(engine, "pytorch") == 0 && hr__engine_lacks(technique->path);
    if (lacks && hr__recipe_has(recipe, technique->path) && !hr__recipe_word_is(recipe, technique->path, "auto"))
      HR_TRY(hr__cli_override(cli, err, "%s=%s", technique->path, technique->plain));
  }
  return HR_OK;
}

hr_status hr__compare_open(hr_cli *cli, const hr_recipe *recipe, const char *other, hr_job **job, hr_error *err) {
  const char *path = cli->arguments[0];
  if (access(other, F_OK) == 0 || strchr(other, '=') == NULL) {
    path = other;
  } else {
    bool failed;
    for (const char *part; (part = hr__part_next(&cli->arena, &other, &failed)) != NULL;) {
      if (strchr(part, '=') == NULL)
        return hr__fail(err, HR_USAGE, "--compare", "write KEY=VALUE[,KEY=VALUE], or the name of a recipe",
                        "'%s' is neither a setting with its value nor a recipe", part);
      bool engine = strncmp(part, "engine=", strlen("engine=")) == 0;
      HR_TRY(engine ? engine_override(cli, recipe, part + strlen("engine="), err)
                    : hr__cli_override(cli, err, "%s", part));
    }
    if (failed) return hr__nomem(err);
  }
  hr_job_source source = {path, cli->overrides, cli->n_overrides};
  return hr__cli_job_open(cli, &source, HR_CLI_RATES_NODES, job, err);
}

hr_status hr__compare(hr_cli *cli, hr_error *err) {
  const char *other = hr__cli_value(cli, "compare");
  pair p = {.cli = cli, .names = {cli->arguments[0], other}};
  hr_job_source source = {cli->arguments[0], cli->overrides, cli->n_overrides};
  HR_TRY(hr__cli_job_open(cli, &source, HR_CLI_RATES_NODES, &p.jobs[0], err));
  hr_status status = hr__compare_open(cli, p.jobs[0]->recipe, other, &p.jobs[1], err);
  bool fits = status == HR_OK && (p.jobs[0]->verdict.fits || p.jobs[1]->verdict.fits);
  if (status == HR_OK && cli->json)
    status = pair_json(&p, err);
  else if (status == HR_OK && !cli->quiet)
    status = pair_print(&p, err);
  hr__job_close(p.jobs[0]);
  hr__job_close(p.jobs[1]);
  if (status != HR_OK || fits) return status;
  cli->answered = true;
  return HR_NO_FIT;
}
