/* memory.checkpoint: auto through the whole pipeline: within every budget, never slower with a larger one, same bits.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "job/job.h"
#include "part_tiny.h"

static const char *recipe_path(void) {
  char *path = path_join(HR_BINARY_DIR, "train-auto.yaml");
  file_put(path, tiny_text, strlen(tiny_text));
  return path;
}

/* `layers` of them on rows of `length` tokens. */
static hr_job *job_open_split(const char *path, const char *split, const char *mode, uint64_t budget, int accumulation,
                              int layers, int length) {
  char sets[7][64];
  snprintf(sets[0], sizeof sets[0], "memory.checkpoint=%s", mode);
  snprintf(sets[1], sizeof sets[1], "memory.budget=%llu", (unsigned long long)budget);
  snprintf(sets[2], sizeof sets[2], "training.gradient_accumulation=%d", accumulation);
  snprintf(sets[3], sizeof sets[3], "memory.split=%s", split);
  snprintf(sets[4], sizeof sets[4], "model.config.num_hidden_layers=%d", layers);
  snprintf(sets[5], sizeof sets[5], "data.sequence_length=%d", length);
  snprintf(sets[6], sizeof sets[6], "model.config.max_position_embeddings=%d", length);
  const char *const overrides[] = {sets[0],
                                   sets[1],
                                   sets[2],
                                   sets[3],
                                   sets[4],
                                   sets[5],
                                   sets[6],
                                   "model.config.hidden_size=64",
                                   "model.config.intermediate_size=160",
                                   "training.batch_size=4",
                                   "training.steps=3"};
  hr_job *job;
  hr_error err = {0};
  hr_job_source source = {path, overrides, sizeof overrides / sizeof overrides[0]};
  if (hr__job_open(&source, &job, &err) != HR_OK) fail_msg("%s: %s", err.place, err.message);
  return job;
}

/* Long enough rows that activations matter. */
static hr_job *job_open(const char *path, const char *mode, uint64_t budget, int accumulation) {
  return job_open_split(path, "none", mode, budget, accumulation, 8, 64);
}

/* So long that a slice more saves more than its nodes cost. */
static hr_job *job_open_long(const char *path, const char *split, uint64_t budget) {
  return job_open_split(path, split, "none", budget, 1, 2, 512);
}

static uint64_t peak_of(const char *path, const char *mode, uint64_t budget, int accumulation, double *seconds) {
  hr_job *job = job_open(path, mode, budget, accumulation);
  uint64_t peak = job->plan->tiers[HR_TIER_DEVICE].peak_bytes;
  *seconds = job->plan->step_seconds;
  hr__job_close(job);
  return peak;
}

static void test_forty_budgets(void **state) {
  (void)state;
  const char *path = recipe_path();
  for (int accumulation = 1; accumulation <= 3; accumulation += 2) {
    double none, every, seconds, before = 1e9;
    uint64_t most = peak_of(path, "none", 1 << 30, accumulation, &none);
    uint64_t least = peak_of(path, "every-layer", 1 << 30, accumulation, &every);
    assert_true(least < most && none < every);
    int kinds = 0; /* budgets whose plan is neither of the two */
    for (uint64_t k = 0; k < 40; k++) {
      uint64_t budget = least + (most - least) * k / 39;
      uint64_t peak = peak_of(path, "auto", budget, accumulation, &seconds);
      assert_true(peak <= budget);
      assert_true(seconds <= before);
      kinds += seconds > none && seconds < every;
      before = seconds;
    }
    assert_true(seconds == none);
    assert_true(kinds >= 30);
    assert_true(peak_of(path, "auto", least - 4096, accumulation, &seconds) <= least); /* too small: the smallest */
  }
  unlink(path);
}

static void trained_sha256(const hr_job *job, char out[65]) {
  hr_device *device;
  hr_train_result result;
  hr_error err = {0};
  hr_status status = hr__job_device(job, &device, &err);
  hr_train_options options = {.recipe = job->recipe, .plan = job->plan, .device = device};
  if (status == HR_OK) status = hr__train(&options, &result, &err);
  if (status != HR_OK) fail_msg("%s: %s", err.place, err.message);
  hr__device_close(device);
  snprintf(out, 65, "%s", result.weights_sha256);
}

static void test_same_bits(void **state) {
  (void)state;
  const char *path = recipe_path();
  double seconds;
  uint64_t most = peak_of(path, "none", 1 << 30, 1, &seconds),
           least = peak_of(path, "every-layer", 1 << 30, 1, &seconds);
  char plain[65], mixed[65];
  hr_job *job = job_open(path, "none", 1 << 30, 1);
  trained_sha256(job, plain);
  hr__job_close(job);
  job = job_open(path, "auto", (most + least) / 2, 1);
  bool differ = false;
  for (size_t i = 1; i < job->chosen.choices.n_keep; i++)
    differ |= job->chosen.choices.keep[i] != job->chosen.choices.keep[0];
  assert_true(job->chosen.any && differ);
  trained_sha256(job, mixed);
  assert_string_equal(plain, mixed);
  hr__job_close(job);
  unlink(path);
}

/* memory.split = auto: as many slices as it takes, those of the same number written out, and none where all fits. */
static void test_slices(void **state) {
  (void)state;
  const char *path = recipe_path();
  static const struct {
    const char *split;
    int64_t slices;
  } cases[] = {{"none", 1}, {"{layers.*: 2}", 2}, {"{layers.*: 4}", 4}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char written[65], chosen[65];
    hr_job *job = job_open_long(path, cases[i].split, 1 << 30);
    uint64_t budget = job->plan->tiers[HR_TIER_DEVICE].peak_bytes;
    trained_sha256(job, written);
    hr__job_close(job);
    job = job_open_long(path, "auto", budget);
    assert_true(job->chosen.any && job->chosen.split);
    assert_int_equal(job->chosen.choices.slices, cases[i].slices);
    assert_int_equal(job->plan->tiers[HR_TIER_DEVICE].peak_bytes, budget);
    trained_sha256(job, chosen);
    assert_string_equal(written, chosen);
    hr__job_close(job);
    job = job_open_long(path, "auto", budget - 4096); /* one step further, or the smallest */
    assert_int_equal(job->chosen.choices.slices, i == 2 ? 4 : 2 * cases[i].slices);
    hr__job_close(job);
  }
  unlink(path);
}

/* Many narrow layers with few tokens: parameters, gradients and state are most of it. */
static hr_job *deep_open(const char *path, const char *offload, uint64_t budget, uint64_t host, uint64_t disk) {
  char sets[4][128];
  snprintf(sets[0], sizeof sets[0], "memory.offload={optimizer: %s, parameters: %s, gradients: %s, activations: %s}",
           offload, offload, offload, offload);
  snprintf(sets[1], sizeof sets[1], "memory.budget=%llu", (unsigned long long)budget);
  snprintf(sets[2], sizeof sets[2], "memory.host_budget=%llu", (unsigned long long)host);
  snprintf(sets[3], sizeof sets[3], "memory.disk_budget=%llu", (unsigned long long)disk);
  const char *const overrides[] = {sets[0],
                                   sets[1],
                                   sets[2],
                                   sets[3],
                                   "memory.checkpoint=every-layer",
                                   "model.config.num_hidden_layers=24",
                                   "model.config.hidden_size=128",
                                   "model.config.intermediate_size=384",
                                   "data.sequence_length=8",
                                   "training.batch_size=1",
                                   "training.steps=2"};
  hr_job *job;
  hr_error err = {0};
  hr_job_source source = {path, overrides, sizeof overrides / sizeof overrides[0]};
  if (hr__job_open(&source, &job, &err) != HR_OK) fail_msg("%s: %s", err.place, err.message);
  return job;
}

static uint64_t tier_peak(const hr_job *job, hr_tier tier) {
  return job->plan->tiers[tier].peak_bytes;
}

/* Budgets of all tiers bind what is chosen; the state is many times what the device holds, and no bit changes. */
static void test_every_tier(void **state) {
  (void)state;
  const uint64_t large = (uint64_t)1 << 32;
  const char *path = recipe_path();
  char plain[65], moved[65];
  hr_job *job = deep_open(path, "device", large, large, large);
  uint64_t bytes = job->plan->tiers[HR_TIER_DEVICE].persistent_bytes;
  trained_sha256(job, plain);
  hr__job_close(job);

  job = deep_open(path, "auto", 1, large, large); /* cannot fit: the smallest */
  assert_false(job->verdict.fits);
  uint64_t budget = tier_peak(job, HR_TIER_DEVICE) + (1 << 20);
  assert_true(6 * job->plan->tiers[HR_TIER_DEVICE].arena_bytes < bytes);
  hr__job_close(job);

  job = deep_open(path, "auto", budget, large, large);
  assert_true(job->verdict.fits && tier_peak(job, HR_TIER_DEVICE) <= budget);
  uint64_t host = tier_peak(job, HR_TIER_HOST);
  assert_true(host > bytes / 2 && tier_peak(job, HR_TIER_DISK) == 0);
  trained_sha256(job, moved);
  assert_string_equal(plain, moved);
  hr__job_close(job);

  /* exactly what the host needs, though the search also tries plans that need more: the disk stays out of it */
  job = deep_open(path, "auto", budget, host, 0);
  assert_true(job->verdict.fits && tier_peak(job, HR_TIER_HOST) == host && tier_peak(job, HR_TIER_DISK) == 0);
  hr__job_close(job);

  job = deep_open(path, "auto", budget, host / 2, large);
  uint64_t disk = tier_peak(job, HR_TIER_DISK);
  assert_true(job->verdict.fits && tier_peak(job, HR_TIER_HOST) <= host / 2 && disk > 0);
  trained_sha256(job, moved);
  assert_string_equal(plain, moved);
  hr__job_close(job);

  job = deep_open(path, "auto", budget, host / 2, disk / 2);
  hr_error err = {0};
  assert_int_equal(hr__job_check(job, &err), HR_NO_FIT);
  assert_int_equal(job->verdict.tier, HR_TIER_DISK);
  assert_non_null(strstr(err.remedy, "memory.disk_budget"));
  hr__job_close(job);
  unlink(path);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_forty_budgets), cmocka_unit_test(test_same_bits),
                                     cmocka_unit_test(test_slices), cmocka_unit_test(test_every_tier)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
