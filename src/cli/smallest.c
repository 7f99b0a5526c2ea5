/* plan --smallest-gpu: the least of the catalogue that fits, and the next two. See plan.h. */
#include <string.h>

#include "cli/plan.h"
#include "cli/varied.h"
#include "dev/gpus.h"
#include "format/json.h"

enum { SHOWN = 3 };

typedef struct smallest {
  hr_varied varied;
  const hr_gpu **gpus; /* least memory first */
  size_t n_gpus;
  const hr_gpu *found[SHOWN];
  hr_job *jobs[SHOWN];
  int n_found;
  const hr_gpu *last; /* of those that do not fit, the one with the most memory, and its plan */
  hr_job *last_job;
  uint64_t least_bytes; /* that a card needs at least, as far as is known */
  size_t too_small;
} smallest;

/* What no card takes away: where nothing is left to be chosen, all but the fixed costs. */
static uint64_t bytes_needed(const hr_job *job) {
  const hr_tier_plan *tier = &job->plan->tiers[HR_TIER_DEVICE];
  bool open = job->chosen.any || job->search.n_knobs > 0;
  return open ? 0 : tier->peak_bytes - tier->fixed_bytes;
}

static hr_status gpu_try(smallest *s, const hr_gpu *gpu, hr_error *err) {
  hr_job *job = NULL;
  if (gpu->usable_bytes < s->least_bytes && gpu != s->gpus[s->n_gpus - 1]) {
    s->too_small++;
    return HR_OK;
  }
  HR_TRY(hr__varied_open(&s->varied, gpu->label, HR_CLI_RATES_NODES, &job, err));
  s->least_bytes = bytes_needed(job);
  if (job->verdict.fits) {
    s->found[s->n_found] = gpu;
    s->jobs[s->n_found++] = job;
    return HR_OK;
  }
  hr__job_close(s->last_job);
  s->last = gpu;
  s->last_job = job;
  s->too_small += s->n_found == 0;
  return HR_OK;
}

static void found_print(const smallest *s) {
  if (s->n_found > 0)
    printf("smallest GPU of the catalogue that fits: %s\n\n", s->found[0]->label);
  else
    printf("no GPU of the catalogue fits; the one with the most memory:\n\n");
  hr__varied_head(&s->varied);
  for (int i = 0; i < s->n_found; i++)
    hr__varied_print(&s->varied, s->jobs[i], s->found[i]->label);
  if (s->n_found == 0) hr__varied_print(&s->varied, s->last_job, s->last->label);
  fflush(stdout); /* before remarks */
  for (int i = 0; i < s->n_found; i++)
    if (s->found[i]->capability < HR_GPU_CAPABILITY)
      fprintf(stderr, "%sremark: headroom itself runs from compute capability %d.%d on; %s is for plans\n",
              i == 0 ? "\n" : "", HR_GPU_CAPABILITY / 10, HR_GPU_CAPABILITY % 10, s->found[i]->label);
}

static hr_status found_json(const smallest *s, hr_error *err) {
  json_t *entries = json_array();
  int failed = entries == NULL;
  for (int i = 0; i < s->n_found && !failed; i++)
    failed = json_array_append_new(entries, hr__varied_json(s->jobs[i], s->found[i]->label));
  if (!failed && s->n_found == 0) failed = json_array_append_new(entries, hr__varied_json(s->last_job, s->last->label));
  if (failed) {
    json_decref(entries);
    return hr__nomem(err);
  }
  const char *label = s->n_found > 0 ? s->found[0]->label : NULL;
  return hr__cli_put_json(json_pack("{s:i, s:s?, s:o, s:I}", "schema", 1, "smallest_gpu", label, "entries", entries,
                                    "too_small", (json_int_t)s->too_small),
                          err);
}

static hr_status found_show(const smallest *s, hr_error *err) {
  hr_cli *cli = s->varied.cli;
  if (cli->json) return found_json(s, err);
  if (!cli->quiet) found_print(s);
  return hr__cli_flush(err);
}

hr_status hr__smallest_gpu(hr_cli *cli, hr_error *err) {
  if (hr__cli_value(cli, "gpu") || hr__cli_value(cli, "gpu-memory") || hr__cli_value(cli, "max-gpu-mem"))
    return hr__fail(err, HR_USAGE, "--smallest-gpu", "leave out --gpu, --gpu-memory and --max-gpu-mem",
                    "the GPU is what is looked for, with all of its memory");
  smallest s = {0};
  HR_TRY(hr__varied_init(&s.varied, cli, "gpu", "--smallest-gpu", err));
  s.gpus = hr__gpus_by_memory(&cli->arena, &s.n_gpus);
  hr_status status = s.gpus ? HR_OK : hr__nomem(err);
  for (size_t i = 0; i < s.n_gpus && s.n_found < SHOWN && status == HR_OK; i++)
    status = gpu_try(&s, s.gpus[i], err);
  if (status == HR_OK) status = found_show(&s, err);
  for (int i = 0; i < s.n_found; i++)
    hr__job_close(s.jobs[i]);
  hr__job_close(s.last_job);
  if (status != HR_OK || s.n_found > 0) return status;
  cli->answered = true;
  return HR_NO_FIT;
}
