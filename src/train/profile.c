/* Profiling: a few real steps, planned beside measured. */
#include <stdlib.h>

#include "measure/measure.h"
#include "train/session.h"
#include "train/train.h"

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

static hr_status profile_run(hr_session *s, int steps, hr_profile *profile, double *node_seconds, hr_error *err) {
  const hr_graph *graph = s->options->plan->graph;
  double seconds[HR_PROFILE_STEPS];
  hr_step_result result;
  HR_TRY(hr__session_begin(s, err));
  HR_TRY(hr__session_step(s, 1, &result, err)); /* caches, lazily made library objects */
  if (s->shape.eval) {
    double loss;
    HR_TRY(hr__session_eval(s, 1, &loss, err));
  }
  for (size_t n = 0; node_seconds && n < graph->n_nodes; n++)
    node_seconds[n] = -hr__run_node_seconds(s->run, (hr_id)n);
  int64_t tokens = 0, samples = 0;
  for (int i = 0; i < steps; i++) {
    HR_TRY(hr__session_step(s, i + 2, &result, err));
    tokens += result.tokens;
    samples += result.samples;
    seconds[i] = result.seconds;
  }
  for (size_t n = 0; node_seconds && n < graph->n_nodes; n++)
    node_seconds[n] = (node_seconds[n] + hr__run_node_seconds(s->run, (hr_id)n)) / steps;
  qsort(seconds, (size_t)steps, sizeof seconds[0], ascending);
  profile->steps = steps;
  profile->step_seconds = 0.5 * (seconds[(steps - 1) / 2] + seconds[steps / 2]);
  profile->tokens_per_second = (double)tokens / steps / profile->step_seconds;
  profile->samples_per_second = (double)samples / steps / profile->step_seconds;
  profile->loss = result.loss;
  profile->planned_bytes = hr__session_planned_bytes(s);
  for (int t = 0; t < HR_TIER_COUNT; t++)
    profile->arena_bytes[t] = hr__run_arena_bytes(s->run, (hr_tier)t);
  hr_device *device = s->options->device;
  HR_TRY(device->functions->process_bytes(device, &profile->process_bytes, err));
  hr__run_resident(s->run, profile->resident);
  return hr__session_check_peak(s, profile->process_bytes, err);
}

hr_status hr__profile(const hr_train_options *options, int steps, hr_profile *profile, double *node_seconds,
                      hr_error *err) {
  *profile = (hr_profile){0};
  if (steps < 1 || steps > HR_PROFILE_STEPS)
    return hr__fail(err, HR_USAGE, "steps", NULL, "%d is not a number of steps from 1 to %d", steps, HR_PROFILE_STEPS);
  hr_session session;
  bool apart = options->device->facts.kind != HR_CPU;
  HR_TRY(hr__session_create(options, node_seconds != NULL && !apart, &session, err));
  hr_status status = profile_run(&session, steps, profile, apart ? NULL : node_seconds, err);
  hr__session_destroy(&session);
  /* A GPU's nodes are not timed while the step runs: a wait behind every one would be what is measured. They are run
   * apart instead, when the run has given its memory back. */
  if ((status == HR_OK || status == HR_ABOVE_PLAN) && node_seconds && apart) {
    hr_error why = {0};
    hr_status timed = hr__measure_each(options->device, options->plan->graph, node_seconds, &why);
    if (timed == HR_OK) return status;
    if (err) *err = why;
    return timed;
  }
  return status;
}
