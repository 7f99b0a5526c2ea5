/* Configs of include/headroom.h: a plan's settings in files of other trainers (apply/apply.h). Answers are made
 * before files are written, so that none is new whose answer was lost. */
#include <string.h>

#include "apply/apply.h"
#include "format/json.h"
#include "library/api.h"

/* What a call hands out; each where it is wanted. */
typedef struct texts {
  char **json, **diff;
} texts;

static void texts_begin(texts t) {
  if (t.json) *t.json = NULL;
  if (t.diff) *t.diff = NULL;
  hr__json_init();
}

static hr_status texts_make(texts t, json_t *answer, const char *diff, hr_error *error) {
  hr_status status = HR_OK;
  if (t.diff && (*t.diff = hr__api_copy(diff)) == NULL) status = hr__nomem(error);
  if (t.json && status == HR_OK) return hr__api_text(answer, t.json, error);
  json_decref(answer);
  return status;
}

/* Texts of a call that failed are not handed out. */
static hr_result texts_end(texts t, hr_status status) {
  if (status != HR_OK && t.json) {
    hr_text_destroy(*t.json);
    *t.json = NULL;
  }
  if (status != HR_OK && t.diff) {
    hr_text_destroy(*t.diff);
    *t.diff = NULL;
  }
  return hr__api_result(status);
}

static hr_status configs_check(const hr_configs *configs, hr_error *error) {
  if (configs->size != sizeof *configs)
    return hr__fail(error, HR_USAGE, "hr_configs", "set size to sizeof(hr_configs)",
                    "configs of another version of headroom");
  if (configs->count == 0)
    return hr__fail(error, HR_USAGE, "hr_configs", "name one in paths, and their number in count",
                    "no config is named");
  return HR_OK;
}

static hr_status map_find(const hr_configs *configs, hr_arena *arena, const hr_map **out, hr_error *error) {
  *out = NULL;
  return configs->map ? hr__apply_map(configs->map, arena, out, error) : HR_OK;
}

/* --- planning ----------------------------------------------------------------------------------------------------- */

static hr_status configs_plan(const hr_job_source *given, const hr_configs *configs, bool all_open, hr_arena *arena,
                              hr_job **job, hr_error *error) {
  HR_TRY(configs_check(configs, error));
  hr_apply_taking from = {.path = given->path,
                          .files = configs->paths,
                          .n_files = configs->count,
                          .overrides = given->overrides,
                          .n_overrides = given->n_overrides,
                          .all = all_open,
                          .insert = configs->insert,
                          .override = true};
  hr_taken taken;
  HR_TRY(map_find(configs, arena, &from.map, error));
  HR_TRY(hr__apply_take(&from, arena, &taken, error));
  const char **overrides = hr__arena_array(arena, given->n_overrides + HR_TAKEN, sizeof *overrides);
  if (!overrides) return hr__nomem(error);
  if (given->n_overrides > 0) memcpy(overrides, given->overrides, given->n_overrides * sizeof *overrides);
  memcpy(overrides + given->n_overrides, taken.overrides, taken.count * sizeof *overrides);
  hr_job_source source = {given->path, overrides, given->n_overrides + taken.count};
  return all_open ? hr__job_open_all(&source, job, error) : hr__job_open(&source, job, error);
}

hr_result hr_job_create_for_configs(const char *path, const char *const *overrides, size_t n_overrides,
                                    const hr_configs *configs, bool all_open, hr_job **job, hr_error *error) {
  *job = NULL;
  hr__json_init();
  hr_arena arena;
  hr__arena_init(&arena);
  hr_job_source given = {path, overrides, n_overrides};
  hr_status status = configs_plan(&given, configs, all_open, &arena, job, error);
  hr__arena_fini(&arena);
  return hr__api_result(status);
}

/* --- writing ------------------------------------------------------------------------------------------------------ */

static hr_status files_apply(const hr_job *job, hr_transaction *transaction, const hr_apply_options *options,
                             hr_arena *arena, texts t, hr_error *error) {
  hr_applied *applied;
  const char *diff = NULL;
  HR_TRY(hr__apply(job, transaction, options, arena, &applied, error));
  if (t.diff || options->dry_run) HR_TRY(hr__apply_diff(applied, &diff, error));
  HR_TRY(texts_make(t, hr__apply_json(applied, options->dry_run ? diff : NULL), diff, error));
  return options->dry_run ? HR_OK : hr__transaction_commit(transaction, error);
}

static hr_status configs_apply(const hr_job *job, const hr_configs *configs, hr_arena *arena, texts t,
                               hr_error *error) {
  HR_TRY(configs_check(configs, error));
  hr_apply_options options = {.insert = configs->insert, .dry_run = configs->dry_run};
  hr_transaction *transaction = NULL;
  HR_TRY(map_find(configs, arena, &options.map, error));
  HR_TRY(hr__transaction_open(configs->paths, configs->count, configs->dry_run, &transaction, error));
  hr_status status = files_apply(job, transaction, &options, arena, t, error);
  hr__transaction_close(transaction);
  return status;
}

hr_result hr_job_apply(const hr_job *job, const hr_configs *configs, char **json, char **diff, hr_error *error) {
  texts t = {json, diff};
  hr_arena arena;
  texts_begin(t);
  hr__arena_init(&arena);
  hr_status status = configs_apply(job, configs, &arena, t, error);
  hr__arena_fini(&arena);
  return texts_end(t, status);
}

/* --- taking back -------------------------------------------------------------------------------------------------- */

static hr_status files_revert(hr_transaction *transaction, bool dry_run, bool force, hr_arena *arena, texts t,
                              hr_error *error) {
  const char *diff = NULL;
  size_t bytes;
  bool edited;
  HR_TRY(hr__apply_revert_look(transaction, arena, t.diff ? &diff : NULL, &bytes, &edited, error));
  HR_TRY(texts_make(t, hr__apply_revert_json(transaction, dry_run), diff, error));
  return dry_run ? HR_OK : hr__transaction_revert(transaction, force, error);
}

hr_result hr_configs_revert(const hr_configs *configs, char **json, char **diff, hr_error *error) {
  texts t = {json, diff};
  hr_transaction *transaction = NULL;
  hr_arena arena;
  texts_begin(t);
  hr__arena_init(&arena);
  hr_status status = configs_check(configs, error);
  if (status == HR_OK)
    status = hr__transaction_open(configs->paths, configs->count, configs->dry_run, &transaction, error);
  if (status == HR_OK) status = files_revert(transaction, configs->dry_run, configs->force, &arena, t, error);
  hr__transaction_close(transaction);
  hr__arena_fini(&arena);
  return texts_end(t, status);
}
