/* Offload changes no bit: whatever lies on whatever tier, the weights after training are those of the run that keeps
 * everything on the device. And the tiers hold no more than the plan says. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "format/file.h"
#include "part_tiny.h"

/* A shape with several blocks, tiles (the embedding) and activations large enough to be worth a copy. */
static const char *const shape[] = {"model.config.hidden_size=128",
                                    "model.config.intermediate_size=384",
                                    "model.config.num_hidden_layers=5",
                                    "model.config.vocab_size=2304",
                                    "data.sequence_length=64",
                                    "training.batch_size=4",
                                    "training.steps=4",
                                    NULL};

typedef struct overrides {
  const char *list[32];
} overrides;

static overrides with(const char *const *first, const char *const *second) {
  overrides all = {{0}};
  size_t n = 0;
  for (; first && *first; first++)
    all.list[n++] = *first;
  for (; second && *second; second++)
    all.list[n++] = *second;
  return all;
}

static const char *const tiers[][5] = {
    {"memory.offload.optimizer=host"},
    {"memory.offload.optimizer=disk"},
    {"memory.offload.parameters=host"},
    {"memory.offload.parameters=disk"},
    {"memory.offload.gradients=host"},
    {"memory.offload.gradients=disk"},
    {"memory.offload.activations=host"},
    {"memory.offload.activations=disk"},
    {"memory.offload.optimizer=disk", "memory.offload.parameters=host", "memory.offload.gradients=disk",
     "memory.offload.activations=host"},
    {"memory.offload.optimizer=host", "memory.offload.update=host"},
    {"memory.offload.optimizer=host", "memory.offload.update=host", "memory.offload.gradients=host",
     "memory.offload.parameters=host"},
};

/* Two steps: the second reads what the first left on the tiers. */
static void tiers_agree(const char *const *variant) {
  overrides two = with(shape, (const char *const[]){"training.steps=2", NULL}), base = with(two.list, variant);
  hr_train_result resident = train_ok(base.list, (hr_train_options){0});
  for (size_t i = 0; i < sizeof tiers / sizeof *tiers; i++) {
    overrides moved = with(base.list, tiers[i]);
    hr_train_result result = train_ok(moved.list, (hr_train_options){0});
    if (strcmp(result.weights_sha256, resident.weights_sha256) != 0)
      fail_msg("%s%s changes the weights", tiers[i][0], tiers[i][1] ? ", ..." : "");
    assert_true(result.loss == resident.loss);
    assert_true(result.arena_bytes < resident.arena_bytes || i == 4 || i == 5);
  }
}

static void test_f32(void **state) {
  (void)state;
  tiers_agree(NULL);
}

static void test_bf16(void **state) {
  (void)state;
  tiers_agree((const char *const[]){"model.precision=bf16-true", "model.config.tie_word_embeddings=true", NULL});
}

static void test_accumulation(void **state) {
  (void)state;
  tiers_agree((const char *const[]){"training.gradient_accumulation=2", "training.batch_size=2",
                                    "training.eval_every=2", NULL});
}

/* A checkpoint knows nothing of tiers: a run may go on with other ones. */
static void test_resume_elsewhere(void **state) {
  (void)state;
  overrides resident = with(shape, NULL), moved = with(shape, tiers[8]);
  hr_train_result whole = train_ok(resident.list, (hr_train_options){0});
  for (int way = 0; way < 2; way++) {
    const char *out = folder_make("offload-resume");
    train_ok(way ? moved.list : resident.list, (hr_train_options){.out = out, .stop_at = 2});
    hr_train_result rest = train_ok(way ? resident.list : moved.list, (hr_train_options){.out = out, .resume = true});
    assert_int_equal(rest.steps_here, 2);
    assert_string_equal(rest.weights_sha256, whole.weights_sha256);
    folder_remove(out);
    free((void *)(uintptr_t)out);
  }
}

/* Many narrow layers: parameters and state are many times what the device holds. */
static void test_six_times_the_device(void **state) {
  (void)state;
  static const char *const deep[] = {"model.config.hidden_size=128",
                                     "model.config.intermediate_size=384",
                                     "model.config.num_hidden_layers=40",
                                     "model.config.vocab_size=256",
                                     "data.sequence_length=8",
                                     "training.batch_size=1",
                                     "training.steps=2",
                                     NULL};
  static const char *const host[] = {"memory.offload.optimizer=host", "memory.offload.parameters=host",
                                     "memory.offload.gradients=host", "training.clip_norm=null", NULL};
  overrides all = with(deep, host);
  tiny t;
  hr_error err = {0};
  assert_int_equal(tiny_open(&t, all.list, &err), HR_OK);
  uint64_t state_bytes = 0;
  for (size_t i = 0; i < t.graph->n_buffers; i++)
    if (t.graph->buffers[i].persistent) state_bytes += t.graph->buffers[i].bytes;
  uint64_t arena = t.plan->tiers[HR_TIER_DEVICE].arena_bytes;
  if (state_bytes < 6 * arena)
    fail_msg("%llu bytes of state, arena of %llu", (unsigned long long)state_bytes, (unsigned long long)arena);
  tiny_close(&t);
  overrides plain = with(deep, (const char *const[]){"training.clip_norm=null", NULL});
  hr_train_result resident = train_ok(plain.list, (hr_train_options){0}),
                  moved = train_ok(all.list, (hr_train_options){0});
  assert_string_equal(resident.weights_sha256, moved.weights_sha256);
}

/* --- faults ------------------------------------------------------------------------------------------------------- */

static hr_file_calls real;
static size_t fault_at, fault_calls;
static int fault_error; /* 0: the bytes are changed */

static long failing_pwrite(int fd, const void *data, size_t bytes, int64_t offset) {
  if (__atomic_add_fetch(&fault_calls, 1, __ATOMIC_RELAXED) != fault_at) return real.pwrite(fd, data, bytes, offset);
  if (fault_error) {
    errno = fault_error;
    return -1;
  }
  char *changed = malloc(bytes);
  memcpy(changed, data, bytes);
  changed[bytes / 2] ^= 1;
  long put = real.pwrite(fd, changed, bytes, offset);
  free(changed);
  return put;
}

/* Training meets a fault of the disk: a clear message, and the checkpoint before it is good. */
static void fault_met(int error, const char *message) {
  overrides moved = with(shape, (const char *const[]){"memory.offload.optimizer=disk", "training.save_every=1", NULL});
  const char *out = folder_make("offload-fault");
  hr_train_result result;
  hr_error err = {0};
  train_ok(moved.list, (hr_train_options){.out = out, .stop_at = 2});
  real = hr__file_calls;
  fault_calls = 0;
  fault_at = 120; /* after loading, which writes less often */
  fault_error = error;
  hr__file_calls.pwrite = failing_pwrite;
  hr_status status = tiny_train(moved.list, (hr_train_options){.out = out, .resume = true}, &result, &err);
  hr__file_calls = real;
  assert_int_equal(status, HR_IO);
  if (!strstr(err.message, message) || !strstr(err.message, "adam.")) fail_msg("%s", err.message);
  hr_train_result rest = train_ok(moved.list, (hr_train_options){.out = out, .resume = true});
  overrides resident = with(shape, NULL);
  assert_string_equal(rest.weights_sha256, train_ok(resident.list, (hr_train_options){0}).weights_sha256);
  folder_remove(out);
  free((void *)(uintptr_t)out);
}

static void test_disk_full(void **state) {
  (void)state;
  fault_met(ENOSPC, "cannot write");
}

static void test_disk_error(void **state) {
  (void)state;
  fault_met(EIO, "cannot write");
}

static void test_disk_changes_bytes(void **state) {
  (void)state;
  fault_met(0, "came back from the disk changed");
}

static void test_folder(void **state) {
  (void)state;
  overrides moved = with(
      shape, (const char *const[]){"memory.offload.optimizer=disk", "memory.offload_folder=/nowhere/at/all", NULL});
  hr_train_result result;
  hr_error err = {0};
  assert_int_equal(tiny_train(moved.list, (hr_train_options){0}, &result, &err), HR_IO);
  assert_non_null(strstr(err.remedy, "memory.offload_folder"));
  assert_string_equal(err.place, "/nowhere/at/all");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_f32),
      cmocka_unit_test(test_bf16),
      cmocka_unit_test(test_accumulation),
      cmocka_unit_test(test_resume_elsewhere),
      cmocka_unit_test(test_six_times_the_device),
      cmocka_unit_test(test_disk_full),
      cmocka_unit_test(test_disk_error),
      cmocka_unit_test(test_disk_changes_bytes),
      cmocka_unit_test(test_folder),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
