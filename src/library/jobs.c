/* Jobs and devices of include/headroom.h: a thin cover over jobs, answers and the trainer. */
#include "format/json.h"
#include "job/answer.h"
#include "job/devices.h"
#include "job/job.h"
#include "job/settings.h"
#include "library/api.h"
#include "train/answer.h"
#include "train/train.h"

hr_result hr_job_create(const char *path, const char *const *overrides, size_t n_overrides, hr_job **job,
                        hr_error *error) {
  *job = NULL;
  hr__json_init();
  hr_job_source source = {path, overrides, n_overrides};
  return hr__api_result(hr__job_open(&source, job, error));
}

hr_result hr_job_create_auto(const char *path, const char *const *overrides, size_t n_overrides, hr_job **job,
                             hr_error *error) {
  *job = NULL;
  hr__json_init();
  hr_job_source source = {path, overrides, n_overrides};
  return hr__api_result(hr__job_open_all(&source, job, error));
}

void hr_job_destroy(hr_job *job) {
  hr__job_close(job);
}
bool hr_job_fits(const hr_job *job) {
  return job->verdict.fits;
}
uint64_t hr_job_peak_bytes(const hr_job *job) {
  return job->verdict.peak_bytes;
}
double hr_job_step_seconds(const hr_job *job) {
  return job->plan->step_seconds;
}

hr_result hr_job_plan_json(const hr_job *job, char **json, hr_error *error) {
  return hr__api_result(hr__api_text(hr__answer_plan(job, NULL, 0), json, error));
}

hr_result hr_devices_json(char **json, hr_error *error) {
  json_t *answer;
  *json = NULL;
  hr__json_init();
  hr_status status = hr__answer_devices(&answer, error);
  return hr__api_result(status == HR_OK ? hr__api_text(answer, json, error) : status);
}

hr_result hr_gpus_json(char **json, hr_error *error) {
  hr__json_init();
  return hr__api_result(hr__api_text(hr__answer_gpus(), json, error));
}

hr_result hr_job_train(const hr_job *job, const hr_job_train_options *options, char **json, hr_error *error) {
  *json = NULL;
  hr_job_train_options given = {.size = sizeof given};
  if (options && options->size != sizeof given)
    return hr__api_result(hr__fail(error, HR_USAGE, "hr_job_train_options", "set size to sizeof(hr_job_train_options)",
                                   "options of another version of headroom"));
  if (options) given = *options;
  hr_device *device = NULL;
  hr_status status = hr__settings_data(job->given.path, job->given.overrides, job->given.n_overrides, error);
  if (status == HR_OK) status = hr__job_check(job, error);
  if (status == HR_OK) status = hr__job_device(job, &device, error);
  if (status != HR_OK) return hr__api_result(status);
  hr_train_options train = {.recipe = job->recipe,
                            .plan = job->plan,
                            .features_recipe = job->features ? job->features->recipe : NULL,
                            .features_plan = job->features ? job->features->plan : NULL,
                            .device = device,
                            .out = given.out,
                            .begin = given.begin,
                            .steps = given.steps,
                            .resume = given.resume,
                            .accept_changed_data = given.accept_changed_data};
  hr_train_result result = {0};
  status = hr__train(&train, &result, error);
  if (status == HR_OK) status = hr__api_text(hr__answer_train(job, &result, status, given.out), json, error);
  hr__device_close(device);
  return hr__api_result(status);
}

hr_result hr_job_profile(const hr_job *job, int steps, char **json, hr_error *error) {
  *json = NULL;
  hr_device *device = NULL;
  hr_status status = hr__job_check(job, error);
  if (status == HR_OK) status = hr__job_device(job, &device, error);
  if (status != HR_OK) return hr__api_result(status);
  hr_train_options train = {.recipe = job->recipe,
                            .plan = job->plan,
                            .features_recipe = job->features ? job->features->recipe : NULL,
                            .features_plan = job->features ? job->features->plan : NULL,
                            .device = device};
  hr_profile profile = {0};
  hr_times times = {0};
  hr_arena arena;
  hr__arena_init(&arena);
  double *node_seconds = hr__arena_array(&arena, job->graph->n_nodes + 1, sizeof *node_seconds);
  status = node_seconds ? hr__profile(&train, steps, &profile, node_seconds, error) : hr__nomem(error);
  if (status == HR_OK) status = hr__times(job, node_seconds, &arena, &times, error);
  if (status == HR_OK) status = hr__api_text(hr__answer_profile(job, &profile, &times), json, error);
  hr__arena_fini(&arena);
  hr__device_close(device);
  return hr__api_result(status);
}
