/* See ran.h. */
#include "cli/ran.h"

#include <string.h>

#include "cli/fit.h"
#include "cli/jobs.h"
#include "text/tokenizer.h"

/* Settings of a run that say what its model is, how its data is read, and where it is computed. Others are of training.
 */
static bool is_kept(const char *path) {
  static const char *const kept[] = {"model.",       "data.", "memory.device", "memory.budget", "training.batch_size",
                                     "training.seed"};
  for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
    if (strncmp(path, kept[i], strlen(kept[i])) == 0) return true;
  return false;
}

/* In place of the run's own: nothing is trained, so that as little as possible is kept for it. */
static const char *const untrained[] = {"training.optimizer={kind: sgd, momentum: 0, lr: 1e-9}", "training.steps=1",
                                        "memory.checkpoint=every-layer", "data.buckets=null"};
enum { UNTRAINED = sizeof untrained / sizeof *untrained };

static hr_status settings_read(const hr_ran *r, const hr_manifest *manifest, const char *const *own, size_t n_own,
                               hr_job_source *out, hr_error *err) {
  hr_cli *cli = r->cli;
  const char **all =
      hr__arena_array(&cli->arena, manifest->n_settings + UNTRAINED + n_own + cli->n_overrides + 2, sizeof *all);
  const char *data = hr__cli_value(cli, "data");
  size_t count = 0;
  if (!all) return hr__nomem(err);
  for (size_t i = 0; i < manifest->n_settings; i++)
    if (is_kept(manifest->settings[i].path))
      all[count++] = hr__arena_format(&cli->arena, "%s=%s", manifest->settings[i].path, manifest->settings[i].value);
  for (size_t i = 0; i < UNTRAINED; i++)
    all[count++] = untrained[i];
  for (size_t i = 0; i < n_own; i++)
    all[count++] = own[i];
  if (data) all[count++] = hr__arena_format(&cli->arena, "data.path=%s", data);
  if (hr__tokenizer_is_there(r->folder)) /* as it was then, wherever the original is now */
    all[count++] = hr__arena_format(&cli->arena, "data.tokenizer=%s", r->folder);
  for (size_t i = 0; i < count; i++)
    if (!all[i]) return hr__nomem(err);
  for (size_t i = 0; i < cli->n_overrides; i++)
    all[count++] = cli->overrides[i];
  *out = (hr_job_source){"", all, count};
  return HR_OK;
}

hr_status hr__ran_plan(hr_ran *r, const char *const *own, size_t n_own, hr_error *err) {
  hr_manifest *manifest = hr__arena_alloc(&r->cli->arena, sizeof *manifest);
  hr_job_source source = {0};
  if (!manifest) return hr__nomem(err);
  r->run = r->cli->arguments[0];
  HR_TRY(hr__generation_newest(r->run, &r->cli->arena, &r->folder, manifest, err));
  if (!r->folder)
    return hr__fail(err, HR_BAD_INPUT, r->run, "give the folder that train was given as --out",
                    "there is no checkpoint of a run in this folder");
  HR_TRY(settings_read(r, manifest, own, n_own, &source, err));
  return hr__cli_job_open(r->cli, &source, HR_CLI_RATES_PLAN, &r->job, err);
}

hr_status hr__ran_load(hr_ran *r, hr_error *err) {
  HR_TRY(hr__fit_check(r->cli, r->job, err));
  HR_TRY(hr__job_device(r->job, &r->device, err));
  r->options = (hr_train_options){.recipe = r->job->recipe,
                                  .plan = r->job->plan,
                                  .features_recipe = r->job->features ? r->job->features->recipe : NULL,
                                  .features_plan = r->job->features ? r->job->features->plan : NULL,
                                  .device = r->device,
                                  .begin = r->run,
                                  .check_peak = true,
                                  .progress = hr__cli_progress(r->cli)};
  HR_TRY(hr__session_create(&r->options, false, &r->session, err));
  return hr__session_begin(&r->session, err);
}

void hr__ran_close(hr_ran *r) {
  if (r->session.run) hr__session_destroy(&r->session);
  if (r->device) hr__device_close(r->device);
  hr__job_close(r->job);
}
