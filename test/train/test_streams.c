/* Copies and host kernels may run whenever the order of streams allows it (dev/cuda/recording.cu): a device that makes
 * them as late as it may, in every combination, gives the bits of one that makes them at once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "part_tiny.h"

enum { SIDE_IN, SIDE_OUT, SIDE_HOST, SIDES, MAIN = SIDES, FORGETS = 1 << SIDES };

/* Bit per side: it runs as late as it may. FORGETS: waits are passed over, which is wrong. */
static unsigned lazy;
static size_t copies_made, host_kernels;

struct hr_recording {
  const hr_launch *launches;
  size_t count;
  size_t next[SIDES]; /* first launch that a side has yet to look at */
};

static int side_of(const hr_launch *launch) {
  if (launch->kind == HR_LAUNCH_COPY) return launch->copy.to_device ? SIDE_IN : SIDE_OUT;
  return launch->kind == HR_LAUNCH_HOST ? SIDE_HOST : MAIN;
}

static hr_status launch_run(hr_device *device, const hr_launch *launch) {
  (void)device;
  host_kernels += launch->kind == HR_LAUNCH_HOST;
  if (launch->kind == HR_LAUNCH_WAIT) return HR_OK;
  if (launch->kind != HR_LAUNCH_COPY) return launch->kernel->run(&launch->call);
  memcpy(launch->copy.to, launch->copy.from, launch->copy.bytes);
  copies_made++;
  return HR_OK;
}

/* Runs a side up to launch `last`; a copy comes behind the host kernels before it. */
static void side_run(hr_recording *r, int side, size_t last) {
  for (; r->next[side] <= last; r->next[side]++) {
    if (side_of(&r->launches[r->next[side]]) != side) continue;
    if (side != SIDE_HOST && r->next[side] > 0) side_run(r, SIDE_HOST, r->next[side] - 1);
    launch_run(NULL, &r->launches[r->next[side]]);
  }
}

static hr_status late_replay(hr_device *device, hr_recording *r, size_t *failed) {
  (void)failed;
  memset(r->next, 0, sizeof r->next);
  for (size_t i = 0; i < r->count; i++) {
    const hr_launch *launch = &r->launches[i];
    int side = side_of(launch);
    if (launch->kind == HR_LAUNCH_KERNEL) {
      launch_run(device, launch);
    } else if (launch->kind == HR_LAUNCH_WAIT) {
      bool here = launch->begun >= r->launches && launch->begun < r->launches + r->count;
      if (here && !(lazy & FORGETS)) side_run(r, side_of(launch->begun), (size_t)(launch->begun - r->launches));
    } else if (!(lazy >> side & 1)) {
      side_run(r, side, i);
    }
  }
  for (int side = 0; side < SIDES && r->count > 0; side++)
    side_run(r, side, r->count - 1);
  return HR_OK;
}

static hr_status late_record(hr_device *device, const hr_launch *launches, size_t count, hr_recording **out,
                             size_t *failed, hr_error *err) {
  (void)device, (void)failed, (void)err;
  *out = malloc(sizeof **out);
  **out = (hr_recording){.launches = launches, .count = count};
  return HR_OK;
}

static void late_destroy(hr_device *device, hr_recording *recording) {
  (void)device;
  free(recording);
}

static hr_status late_train(const char *const *overrides, unsigned how, hr_train_result *result) {
  tiny t;
  hr_error err = {0};
  if (tiny_open(&t, overrides, &err) != HR_OK) fail_msg("%s", err.message);
  hr_device_functions functions = *t.device->functions;
  functions.record = late_record;
  functions.replay = late_replay;
  functions.recording_destroy = late_destroy;
  functions.launch = launch_run;
  functions.copies = true;
  hr_device late = *t.device;
  late.functions = &functions;
  lazy = how;
  copies_made = host_kernels = 0;
  hr_status status = hr__train(&(hr_train_options){.recipe = t.recipe, .plan = t.plan, .device = &late}, result, &err);
  tiny_close(&t);
  return status;
}

#define SHAPE                                                                                                          \
  "model.config.hidden_size=128", "model.config.intermediate_size=384", "model.config.num_hidden_layers=3",            \
      "model.config.vocab_size=2304", "data.sequence_length=32", "training.batch_size=4", "training.steps=2"

static const char *const resident[] = {SHAPE, NULL};
static const char *const moved[][16] = {
    {SHAPE, "memory.offload.optimizer=host", "memory.offload.update=host", NULL},
    {SHAPE, "memory.offload.optimizer=host", "memory.offload.parameters=host", "memory.offload.gradients=host",
     "memory.offload.activations=host", NULL},
    {SHAPE, "memory.offload.optimizer=host", "memory.offload.parameters=host", "memory.offload.gradients=host",
     "memory.offload.activations=disk", "memory.offload.update=host", NULL},
};

static void test_any_order_that_is_allowed(void **state) {
  (void)state;
  hr_train_result expected = train_ok(resident, (hr_train_options){0});
  for (size_t i = 0; i < sizeof moved / sizeof *moved; i++)
    for (unsigned how = 0; how < 1u << SIDES; how += i == 2 ? 7 : 1) {
      hr_train_result result;
      assert_int_equal(late_train(moved[i], how, &result), HR_OK);
      if (strcmp(result.weights_sha256, expected.weights_sha256) != 0) fail_msg("settings %zu, lazy %u", i, how);
      assert_true(copies_made > 0);
      assert_int_equal(host_kernels > 0, i != 1);
    }
}

/* What the other test would miss, if late copies were not late. */
static void test_waits_are_needed(void **state) {
  (void)state;
#ifdef HR_ASAN
  skip(); /* nodes are launched one by one */
#endif
  hr_train_result expected = train_ok(resident, (hr_train_options){0});
  hr_train_result result;
  hr_status status = late_train(moved[1], FORGETS | 1u << SIDE_IN, &result);
  assert_true(status != HR_OK || strcmp(result.weights_sha256, expected.weights_sha256) != 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_any_order_that_is_allowed),
                                     cmocka_unit_test(test_waits_are_needed)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
