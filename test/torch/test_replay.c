/* A list of events replayed: peaks, when they are, whose the bytes are, running out of memory, speed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/random.h"
#include "torch/replay.h"

static const uint64_t MIB = 1 << 20;

typedef struct fixture {
  hr_torch_events events;
  hr_torch_rules rules;
  hr_arena arena;
  hr_torch_result result;
  hr_error err;
} fixture;

static int setup(void **state) {
  static fixture f;
  f = (fixture){0};
  hr__torch_events_init(&f.events);
  hr__torch_rules_init(&f.rules);
  *state = &f;
  return 0;
}

static int teardown(void **state) {
  fixture *f = *state;
  hr__torch_events_fini(&f->events);
  hr__arena_fini(&f->arena);
  return 0;
}

static void replay(fixture *f) {
  assert_int_equal(hr__torch_replay(&f->events, &f->rules, &f->arena, &f->result, &f->err), HR_OK);
}

static uint32_t take(fixture *f, uint64_t bytes, hr_torch_category category, const char *owner, const char *call) {
  hr_torch_events *e = &f->events;
  return hr__torch_events_allocate(e, bytes, category, hr__torch_events_name(e, owner), hr__torch_events_name(e, call));
}

/* Weights, then two steps of one layer: the second has the optimizer's states from the beginning. */
static void steps_write(fixture *f) {
  uint32_t states = 0;
  take(f, 30 * MIB, HR_TORCH_PARAMETERS, "layer", "aten::empty");
  for (uint32_t step = 1; step <= 2; step++) {
    hr__torch_events_mark(&f->events, HR_TORCH_FORWARD, step);
    uint32_t x = take(f, 100 * MIB, HR_TORCH_ACTIVATIONS, "layer", "aten::mm");
    hr__torch_events_mark(&f->events, HR_TORCH_BACKWARD, step);
    uint32_t dw = take(f, 30 * MIB, HR_TORCH_ACTIVATIONS, "layer", "backward of aten::mm");
    hr__torch_events_become(&f->events, dw, HR_TORCH_GRADIENTS, UINT32_MAX);
    hr__torch_events_free(&f->events, x);
    hr__torch_events_mark(&f->events, HR_TORCH_UPDATE, step);
    if (step == 1) states = take(f, 60 * MIB, HR_TORCH_OPTIMIZER, "", "aten::zeros_like");
    hr__torch_events_free(&f->events, dw);
  }
  assert_true(hr__torch_events_live(&f->events, states));
}

static void test_peaks_and_when_they_are(void **state) {
  fixture *f = *state;
  steps_write(f);
  replay(f);
  const hr_torch_result *r = &f->result;
  assert_int_equal(r->allocated.use.allocated_bytes, (30 + 60 + 100 + 30) * MIB);
  assert_int_equal(r->allocated.phase, HR_TORCH_BACKWARD);
  assert_int_equal(r->allocated.step, 2);
  assert_int_equal(r->allocated.categories[HR_TORCH_PARAMETERS], 30 * MIB);
  assert_int_equal(r->allocated.categories[HR_TORCH_GRADIENTS], 30 * MIB);
  assert_int_equal(r->allocated.categories[HR_TORCH_OPTIMIZER], 60 * MIB);
  assert_int_equal(r->allocated.categories[HR_TORCH_ACTIVATIONS], 100 * MIB);
  /* the states lie in what x left, so that x of step 2 needs a segment of its own; dw is in the rest of the old one */
  assert_int_equal(r->reserved.use.reserved_bytes, (30 + 100 + 30 + 100) * MIB);
  assert_int_equal(r->reserved.phase, HR_TORCH_FORWARD);
  assert_int_equal(r->n_steps, 3);
  assert_int_equal(r->steps[0].allocated_bytes, 30 * MIB);
  assert_int_equal(r->steps[1].allocated_bytes, 160 * MIB);
  assert_int_equal(r->steps[2].allocated_bytes, 220 * MIB);
  assert_int_equal(r->steps[1].reserved_bytes, 160 * MIB);
  assert_int_equal(r->phases[HR_TORCH_BUILD].allocated_bytes, 30 * MIB);
  assert_int_equal(r->phases[HR_TORCH_UPDATE].allocated_bytes, 120 * MIB);
  assert_false(r->out_of_memory);
}

static void test_shares_at_the_peak(void **state) {
  fixture *f = *state;
  hr_torch_share *shares;
  size_t count;
  steps_write(f);
  replay(f);
  const hr_torch_result *r = &f->result;
  assert_int_equal(hr__torch_shares(r, &r->allocated, HR_TORCH_BY_OWNER, &f->arena, &shares, &count, &f->err), HR_OK);
  assert_int_equal(count, 2);
  assert_string_equal(shares[0].name, "layer");
  assert_int_equal(shares[0].bytes, 160 * MIB);
  assert_string_equal(shares[1].name, "");
  assert_int_equal(shares[1].bytes, 60 * MIB);
  assert_int_equal(hr__torch_shares(r, &r->allocated, HR_TORCH_BY_CALL, &f->arena, &shares, &count, &f->err), HR_OK);
  assert_int_equal(count, 4);
  assert_string_equal(shares[0].name, "aten::mm");
  assert_string_equal(shares[3].name, "backward of aten::mm");
  assert_int_equal(shares[3].count, 1);
}

static void test_running_out_of_memory_is_a_result(void **state) {
  fixture *f = *state;
  steps_write(f);
  f->rules.limit_bytes = 229 * MIB;
  replay(f);
  assert_true(f->result.out_of_memory);
  assert_int_equal(f->result.failed_bytes, 100 * MIB);
  assert_int_equal(f->result.failed.phase, HR_TORCH_FORWARD);
  assert_int_equal(f->result.failed.step, 2);
  assert_string_equal(f->events.names[f->events.items[f->result.failed.event].call], "aten::mm");
  f->rules.limit_bytes = 230 * MIB; /* below what is reserved without a limit: dw's cached segment goes back first */
  replay(f);
  assert_false(f->result.out_of_memory);
  assert_int_equal(f->result.retries, 1);
  assert_int_equal(f->result.reserved.use.reserved_bytes, 230 * MIB);
}

static void test_nothing_is_a_run_too(void **state) {
  fixture *f = *state;
  hr_torch_share *shares;
  size_t count;
  replay(f);
  assert_int_equal(f->result.allocated.event, SIZE_MAX);
  assert_int_equal(
      hr__torch_shares(&f->result, &f->result.allocated, HR_TORCH_BY_CALL, &f->arena, &shares, &count, &f->err), HR_OK);
  assert_int_equal(count, 0);
}

static void test_names_are_interned(void **state) {
  fixture *f = *state;
  char text[32];
  assert_int_equal(hr__torch_events_name(&f->events, NULL), 0);
  for (uint32_t i = 1; i < 1000; i++) {
    snprintf(text, sizeof text, "model.layers.%u", i);
    assert_int_equal(hr__torch_events_name(&f->events, text), i);
  }
  assert_int_equal(hr__torch_events_name(&f->events, "model.layers.700"), 700);
  assert_int_equal(hr__torch_events_name(&f->events, ""), 0);
}

/* 200,000 events as a run of a large model has them, thousands of blocks alive: the bound is wide, for slow machines.
 */
static void test_a_long_run_takes_a_moment(void **state) {
  fixture *f = *state;
  uint32_t live[4000];
  size_t count = 0;
  hr_random_key key = {1, 2};
  for (uint64_t i = 0; i < 200000; i++) {
    if (count == 4000 || (count > 0 && hr__random_below(key, i, 0, 100) < 49)) {
      size_t gone = hr__random_below(key, i, 1, count);
      hr__torch_events_free(&f->events, live[gone]);
      live[gone] = live[--count];
    } else {
      live[count++] = take(f, hr__random_below(key, i, 2, 8 * MIB), HR_TORCH_ACTIVATIONS, "m", "c");
    }
  }
  clock_t begin = clock();
  replay(f);
  double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
  print_message("200000 events: %.3f s\n", seconds);
  assert_true(seconds < 2);
}

int main(void) {
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
  const struct CMUnitTest tests[] = {
      CASE(test_peaks_and_when_they_are), CASE(test_shares_at_the_peak), CASE(test_running_out_of_memory_is_a_result),
      CASE(test_nothing_is_a_run_too),    CASE(test_names_are_interned), CASE(test_a_long_run_takes_a_moment),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
