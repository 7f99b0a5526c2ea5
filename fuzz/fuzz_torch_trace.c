/* Traces of runs in PyTorch. What is accepted can be replayed under any rules: categories sum to what is allocated, no
 * more is allocated than reserved, and a limit is kept. */
#include "demand.h"
#include "torch/replay.h"
#include "torch/scale.h"
#include "torch/trace.h"

static void moment_check(const hr_torch_moment *moment) {
  uint64_t sum = 0;
  for (int i = 0; i < HR_TORCH_CATEGORIES; i++)
    sum += moment->categories[i];
  DEMAND(sum == moment->use.allocated_bytes && sum <= moment->use.reserved_bytes);
}

static void replay_check(const hr_torch_events *events, const hr_torch_rules *rules, hr_arena *arena) {
  hr_torch_result result;
  hr_torch_share *shares;
  size_t count;
  hr_error err = {0};
  DEMAND(hr__torch_replay(events, rules, arena, &result, &err) == HR_OK);
  moment_check(&result.allocated);
  moment_check(&result.reserved);
  DEMAND(result.reserved.use.reserved_bytes <= rules->limit_bytes);
  DEMAND(hr__torch_shares(&result, &result.allocated, HR_TORCH_BY_CALL, arena, &shares, &count, &err) == HR_OK);
  uint64_t sum = 0;
  for (size_t i = 0; i < count; i++)
    sum += shares[i].bytes;
  DEMAND(sum == result.allocated.use.allocated_bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  hr_arena arena = {0};
  hr_torch_trace traces[2];
  hr_error err = {0};
  hr_status status = hr__torch_trace_parse("t", (const char *)data, size, &arena, &traces[0], &err);
  DEMAND(status == HR_OK || (status == HR_BAD_INPUT && err.message[0] && err.place[0]));
  if (status == HR_OK) {
    hr_torch_rules rules;
    hr_torch_scaling scaling;
    hr__torch_rules_init(&rules);
    rules.places = traces[0].places;
    rules.n_places = traces[0].n_places;
    replay_check(&traces[0].events, &rules, &arena);
    rules.n_places = 0;
    rules.expandable = true;
    rules.limit_bytes = UINT64_C(1) << 30;
    replay_check(&traces[0].events, &rules, &arena);
    DEMAND(hr__torch_trace_parse("t", (const char *)data, size, &arena, &traces[1], &err) == HR_OK);
    traces[0].batch = 3;
    traces[1].batch = 5;
    DEMAND(hr__torch_scaling_init(&scaling, traces, 2, &arena, &err) == HR_OK);
    replay_check(hr__torch_scale(&scaling, 7), &rules, &arena);
    hr__torch_trace_fini(&traces[1]);
  }
  hr__torch_trace_fini(&traces[0]);
  hr__arena_fini(&arena);
  return 0;
}
