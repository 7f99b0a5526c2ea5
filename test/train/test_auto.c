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

#include "part_tiny.h"
#include "train/job.h"

static const char *recipe_path(void) {
  char *path = path_join(HR_BINARY_DIR, "train-auto.yaml");
  file_put(path, tiny_text, strlen(tiny_text));
  return path;
}

/* 8 layers, long enough rows that activations matter. */
static hr_job *job_open_split(const char *path, const char *split, const char *mode, uint64_t budget,
                              int accumulation) {
  char sets[4][64];
  snprintf(sets[0], sizeof sets[0], "memory.checkpoint=%s", mode);
  snprintf(sets[1], sizeof sets[1], "memory.budget=%llu", (unsigned long long)budget);
  snprintf(sets[2], sizeof sets[2], "training.gradient_accumulation=%d", accumulation);
  snprintf(sets[3], sizeof sets[3], "memory.split=%s", split);
  const char *const overrides[] = {sets[0],
                                   sets[1],
                                   sets[2],
                                   sets[3],
                                   "model.config.num_hidden_layers=8",
                                   "model.config.hidden_size=64",
                                   "model.config.intermediate_size=160",
                                   "data.sequence_length=64",
                                   "training.batch_size=4",
                                   "training.steps=3"};
  hr_job *job;
  hr_error err = {0};
  hr_job_source source = {path, overrides, sizeof overrides / sizeof overrides[0]};
  if (hr__job_open(&source, &job, &err) != HR_OK) fail_msg("%s: %s", err.place, err.message);
  return job;
}

static hr_job *job_open(const char *path, const char *mode, uint64_t budget, int accumulation) {
  return job_open_split(path, "none", mode, budget, accumulation);
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
    hr_job *job = job_open_split(path, cases[i].split, "none", 1 << 30, 1);
    uint64_t budget = job->plan->tiers[HR_TIER_DEVICE].peak_bytes;
    trained_sha256(job, written);
    hr__job_close(job);
    job = job_open_split(path, "auto", "none", budget, 1);
    assert_true(job->chosen.any && job->chosen.split);
    assert_int_equal(job->chosen.choices.slices, cases[i].slices);
    assert_int_equal(job->plan->tiers[HR_TIER_DEVICE].peak_bytes, budget);
    trained_sha256(job, chosen);
    assert_string_equal(written, chosen);
    hr__job_close(job);
    job = job_open_split(path, "auto", "none", budget - 4096, 1); /* one step further, or the smallest */
    assert_int_equal(job->chosen.choices.slices, i == 2 ? 4 : 2 * cases[i].slices);
    hr__job_close(job);
  }
  unlink(path);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_forty_budgets), cmocka_unit_test(test_same_bits),
                                     cmocka_unit_test(test_slices)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
