/* headroom generate, from a folder to weights in place: the settings, the largest context that fits, the plan. */
#include <inttypes.h>

#include "cli/fit.h"
#include "cli/generate.h"
#include "cli/jobs.h"
#include "job/settings.h"

/* Settings of the folder, then those of --set, which thereby go before them, then `more` (or NULL). */
static hr_status source_make(hr_generating *g, const char *const *more, size_t n_more, hr_job_source *out,
                             hr_error *err) {
  const hr_cli *cli = g->cli;
  const hr_origin *o = &g->origin;
  const char **all = hr__arena_array(&g->cli->arena, o->n_settings + cli->n_overrides + n_more + 1, sizeof *all);
  size_t count = 0;
  if (!all) return hr__nomem(err);
  for (size_t i = 0; i < o->n_settings; i++)
    all[count++] = o->settings[i];
  all[count++] = "generation.alone=true";
  for (size_t i = 0; i < cli->n_overrides; i++)
    all[count++] = cli->overrides[i];
  for (size_t i = 0; i < n_more; i++)
    all[count++] = more[i];
  *out = (hr_job_source){o->model, all, count};
  return HR_OK;
}

hr_status hr__generating_settings(hr_generating *g, hr_error *err) {
  hr_job_source source = {0};
  HR_TRY(hr__origin_find(g->cli->arguments[0], &g->cli->arena, &g->origin, err));
  HR_TRY(source_make(g, NULL, 0, &source, err));
  HR_TRY(hr__settings_load(source.path, source.overrides, source.n_overrides, &g->recipe, err));
  if (g->n_prompts == 0 && hr__cli_flag(g->cli, "plan")) return HR_OK; /* which needs neither tokens nor weights */
  HR_TRY(hr__codec_open(g->recipe, &g->codec, err));
  HR_TRY(hr__ends_find(&g->codec, g->origin.model, &g->ends, err));
  if (!hr__cli_flag(g->cli, "chat")) return HR_OK;
  if (!g->codec.tokenizer)
    return hr__fail(err, HR_USAGE, "--chat", "leave --chat out, and give --prompt TEXT",
                    "a model of bytes has no tokenizer, and no chat template");
  return hr__chat_open(g->recipe, g->codec.tokenizer, &g->chat, err);
}

static hr_status job_open(hr_generating *g, int64_t batch, int64_t context, hr_job **out, hr_error *err) {
  hr_arena *arena = &g->cli->arena;
  const char *more[] = {hr__arena_format(arena, "generation.batch=%" PRId64, batch),
                        hr__arena_format(arena, "generation.context=%" PRId64, context)};
  hr_job_source source = {0};
  if (!more[0] || !more[1]) return hr__nomem(err);
  HR_TRY(source_make(g, more, 2, &source, err));
  return hr__cli_job_open(g->cli, &source, HR_CLI_RATES_PLAN, out, err);
}

/* The largest context that fits, between one that does (which g->job has) and one that does not. */
static hr_status context_search(hr_generating *g, int64_t batch, int64_t fits, int64_t fails, hr_error *err) {
  while (fails - fits > 1 && fails - fits > fits / 64) {
    int64_t middle = fits + (fails - fits) / 2;
    hr_job *job = NULL;
    HR_TRY(job_open(g, batch, middle, &job, err));
    bool good = job->verdict.fits;
    hr__job_close(good ? g->job : job);
    if (good) g->job = job;
    *(good ? &fits : &fails) = middle;
  }
  return HR_OK;
}

hr_status hr__generating_plan(hr_generating *g, const hr_generating_size *size, hr_error *err) {
  HR_TRY(job_open(g, size->batch, size->wanted, &g->job, err));
  if (!g->job->verdict.fits && !size->exact && size->least < size->wanted) {
    hr__job_close(g->job);
    g->job = NULL;
    HR_TRY(job_open(g, size->batch, size->least, &g->job, err));
    if (g->job->verdict.fits) HR_TRY(context_search(g, size->batch, size->least, size->wanted, err));
  }
  return hr__fit_check(g->cli, g->job, err);
}

hr_status hr__generating_load(hr_generating *g, hr_error *err) {
  HR_TRY(hr__job_device(g->job, &g->device, err));
  g->options = (hr_train_options){.recipe = g->job->recipe,
                                  .plan = g->job->plan,
                                  .device = g->device,
                                  .check_peak = true,
                                  .progress = hr__cli_progress(g->cli)};
  HR_TRY(hr__session_create_untrained(&g->options, &g->session, err));
  return hr__generator_create(g->session.run, g->job->recipe, &g->sampling, &g->generator, err);
}

void hr__generating_close(hr_generating *g) {
  hr__generator_destroy(g->generator);
  if (g->session.run) hr__session_destroy(&g->session);
  if (g->device) hr__device_close(g->device);
  hr__job_close(g->job);
  hr__chat_close(&g->chat);
  hr__codec_close(&g->codec);
  hr__ids_fini(&g->ends);
  hr__ids_fini(&g->ids);
  hr__recipe_destroy(g->recipe);
}
