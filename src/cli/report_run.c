#include "cli/report_run.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/jobs.h"
#include "format/file.h"
#include "format/json.h"
#include "job/settings.h"
#include "train/store.h"

static const char *within(hr_arena *arena, const char *folder, const char *name) {
  return hr__arena_format(arena, "%s/%s", folder, name);
}

bool hr__report_is_run(const char *path) {
  char log[HR_STORE_PATH];
  struct stat facts;
  snprintf(log, sizeof log, "%s/log.jsonl", path);
  return stat(log, &facts) == 0;
}

typedef struct begun {
  const char *folder;
  struct timespec time; /* its log was made, by its lock, which nobody writes to again */
} begun;

static int by_time(const void *a, const void *b) {
  const begun *x = a, *y = b;
  if (x->time.tv_sec != y->time.tv_sec) return x->time.tv_sec < y->time.tv_sec ? -1 : 1;
  if (x->time.tv_nsec != y->time.tv_nsec) return x->time.tv_nsec < y->time.tv_nsec ? -1 : 1;
  return strcmp(x->folder, y->folder);
}

hr_status hr__report_stages(hr_arena *arena, const char *path, const char ***folders, size_t *count, hr_error *err) {
  begun *list = NULL;
  size_t capacity = 0;
  *count = 0;
  DIR *folder = opendir(path);
  if (!folder) return HR_OK; /* no folder: a recipe, or nothing, of which others tell */
  hr_status status = HR_OK;
  for (struct dirent *entry; status == HR_OK && (entry = readdir(folder)) != NULL;) {
    const char *name = within(arena, path, entry->d_name);
    if (!name || hr__arena_grow(arena, (void **)&list, &capacity, *count, sizeof *list) != 0) status = hr__nomem(err);
    if (status != HR_OK || entry->d_name[0] == '.' || !hr__report_is_run(name)) continue;
    struct stat facts = {0};
    const char *lock = within(arena, name, "lock");
    if (lock) (void)stat(lock, &facts);
    list[(*count)++] = (begun){name, facts.st_mtim};
  }
  closedir(folder);
  HR_TRY(status);
  if (*count > 1) qsort(list, *count, sizeof *list, by_time);
  *folders = hr__arena_array(arena, *count + 1, sizeof **folders);
  if (!*folders) return hr__nomem(err);
  for (size_t i = 0; i < *count; i++)
    (*folders)[i] = list[i].folder;
  return HR_OK;
}

/* The manifest of the newest checkpoint that has one. *found NULL: none has. */
static hr_status manifest_read(hr_arena *arena, const char *folder, hr_manifest **found, hr_error *err) {
  int64_t *steps;
  bool *committed;
  size_t count;
  char path[HR_STORE_PATH], *text;
  *found = NULL;
  hr_store *store = hr__arena_alloc(arena, sizeof *store);
  hr_manifest *manifest = hr__arena_alloc(arena, sizeof *manifest);
  if (!store || !manifest) return hr__nomem(err);
  snprintf(store->out, sizeof store->out, "%s", folder);
  HR_TRY(hr__store_list(store, arena, &steps, &committed, &count, err));
  for (size_t i = 0; i < count; i++) {
    if (!committed[i]) continue;
    size_t bytes;
    hr__store_path(store, steps[i], HR_MANIFEST_NAME, path);
    HR_TRY(hr__file_read(path, HR_MANIFEST_MAX_BYTES, arena, &text, &bytes, err));
    HR_TRY(hr__manifest_parse(path, text, bytes, arena, manifest, err));
    *found = manifest;
    return HR_OK;
  }
  return HR_OK;
}

/* What a manifest has under run.* are facts of it, not settings. */
static bool is_setting(const char *path) {
  return strncmp(path, "run.", strlen("run.")) != 0;
}

/* Sections that say what is trained and on what: all their settings are good for any recipe that has these. */
static bool is_subject(const char *path) {
  return strncmp(path, "model.", strlen("model.")) == 0 || strncmp(path, "data.", strlen("data.")) == 0;
}

static const char *override_text(hr_arena *arena, const hr_run_setting *setting) {
  return hr__arena_format(arena, "%s=%s", setting->path, setting->value);
}

/* The settings that a recipe of this model and data has by default, as JSON. */
static hr_status defaults_find(hr_arena *arena, const hr_manifest *manifest, json_t **out, hr_error *err) {
  const char **given = hr__arena_array(arena, manifest->n_settings + 1, sizeof *given);
  size_t count = 0;
  hr_recipe *recipe = NULL;
  if (!given) return hr__nomem(err);
  for (size_t i = 0; i < manifest->n_settings; i++)
    if (is_subject(manifest->settings[i].path) && !(given[count++] = override_text(arena, &manifest->settings[i])))
      return hr__nomem(err);
  given[count++] = "training.steps=1";
  HR_TRY(hr__settings_load("", given, count, &recipe, err));
  *out = hr__recipe_json(recipe);
  hr__recipe_destroy(recipe);
  return *out ? HR_OK : hr__nomem(err);
}

/* Whether a setting is what it would be without being given: of those that another choice rules out (a momentum beside
 * AdamW) a manifest has the defaults. */
static bool is_default(hr_arena *arena, const json_t *defaults, const hr_run_setting *setting) {
  json_t *value;
  json_error_t fault;
  const json_t *at = defaults;
  for (const char *part = setting->path; at && *part;) {
    size_t length = strcspn(part, ".");
    const char *key = hr__arena_format(arena, "%.*s", (int)length, part);
    at = key ? json_object_get(at, key) : NULL;
    part += length + (part[length] == '.');
  }
  const char *text = hr__arena_format(arena, "[%s]", setting->value); /* only lists and objects are documents */
  return at && text && hr__json_load_any(text, strlen(text), arena, &value, &fault, NULL) == HR_OK &&
         json_equal(at, json_array_get(value, 0));
}

/* The settings of the run, as --set would give them, and behind them those of this call. */
static hr_status settings_list(hr_cli *cli, const hr_manifest *manifest, hr_job_source *out, hr_error *err) {
  const char **all = hr__arena_array(&cli->arena, manifest->n_settings + cli->n_overrides + 1, sizeof *all);
  size_t count = 0;
  json_t *defaults = NULL;
  if (!all) return hr__nomem(err);
  HR_TRY(defaults_find(&cli->arena, manifest, &defaults, err));
  bool failed = false;
  for (size_t i = 0; i < manifest->n_settings && !failed; i++) {
    const hr_run_setting *setting = &manifest->settings[i];
    if (!is_setting(setting->path)) continue;
    if (!is_subject(setting->path) && is_default(&cli->arena, defaults, setting)) continue;
    all[count] = override_text(&cli->arena, setting);
    failed = all[count++] == NULL;
  }
  json_decref(defaults);
  if (failed) return hr__nomem(err);
  for (size_t i = 0; i < cli->n_overrides; i++)
    all[count++] = cli->overrides[i];
  *out = (hr_job_source){"", all, count};
  return HR_OK;
}

hr_status hr__report_run_plan(hr_cli *cli, const char *folder, hr_job **job, hr_error *why, hr_error *err) {
  hr_manifest *manifest = NULL;
  hr_job_source source;
  *job = NULL;
  hr_status status = manifest_read(&cli->arena, folder, &manifest, why);
  if (status == HR_OK && !manifest) hr__fail(why, HR_BAD_INPUT, folder, NULL, "it has not saved a checkpoint yet");
  if (status == HR_OK && manifest) status = settings_list(cli, manifest, &source, why);
  if (status == HR_OK && manifest) status = hr__cli_job_open(cli, &source, HR_CLI_RATES_PLAN, job, why);
  return status == HR_NOMEM ? hr__nomem(err) : HR_OK;
}
