/* Lack of memory at every request of a list of events and of its replay: HR_NOMEM, nothing left behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "support/faults.h"
#include "torch/replay.h"

static void events_write(hr_torch_events *events) {
  uint32_t live[600], count = 0;
  char name[32];
  for (uint32_t i = 0; i < 600; i++) {
    snprintf(name, sizeof name, "layer.%u", i % 90);
    uint32_t owner = hr__torch_events_name(events, name);
    live[count++] = hr__torch_events_allocate(events, (i % 7 + 1) * 700001, HR_TORCH_OTHER, owner, 0);
    if (i % 3 == 2) hr__torch_events_free(events, live[--count]);
    if (i % 100 == 99) hr__torch_events_mark(events, HR_TORCH_FORWARD, i / 100 + 1);
  }
  hr__torch_events_empty_cache(events);
}

static hr_status replay_body(void *arg, hr_error *err) {
  hr_torch_events events;
  hr_torch_rules rules;
  hr_torch_result result;
  hr_arena arena = {0};
  hr_torch_share *shares;
  size_t count;
  hr__torch_events_init(&events);
  hr__torch_rules_init(&rules);
  rules.expandable = *(bool *)arg;
  events_write(&events);
  hr_status status = hr__torch_replay(&events, &rules, &arena, &result, err);
  if (status == HR_OK)
    status = hr__torch_shares(&result, &result.reserved, HR_TORCH_BY_OWNER, &arena, &shares, &count, err);
  hr__arena_fini(&arena);
  hr__torch_events_fini(&events);
  return status;
}

static void replaying_survives_lack_of_memory(void **state) {
  (void)state;
  for (int expandable = 0; expandable < 2; expandable++)
    assert_true(hr_test_each_fault(replay_body, &(bool){expandable}) > 10);
}

int main(void) {
  hr_test_faults_install();
  const struct CMUnitTest tests[] = {cmocka_unit_test(replaying_survives_lack_of_memory)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
