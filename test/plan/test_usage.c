/* What a plan holds over its nodes: every slot has one tenant at a time, all series sum to the peak, spans of streams
 * follow each other and end with the program. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "plan/part_graphs.h"
#include "plan/timeline.h"
#include "plan/usage.h"

enum { GRAPHS = 40 };

typedef struct planned {
  hr_graph *graph;
  hr_rates rates;
  hr_plan *plan;
  hr_arena arena;
  hr_tenants tenants;
} planned;

static void plan_open(planned *p, uint32_t seed) {
  hr_facts facts = test_facts();
  hr_plan_options options = {.accumulation = 1, .effort = HR_EFFORT_DRAFT};
  hr_error err = {0};
  *p = (planned){.graph = test_random_graph(seed)};
  hr__arena_init(&p->arena);
  assert_int_equal(hr__rates_load(&facts, &p->rates, &err), HR_OK);
  assert_int_equal(hr__plan_build(p->graph, &facts, &p->rates, &options, &p->plan, &err), HR_OK);
  assert_int_equal(hr__tenants(p->plan, &p->arena, &p->tenants, &err), HR_OK);
}

static void plan_close(planned *p) {
  hr__arena_fini(&p->arena);
  hr__plan_destroy(p->plan);
  hr__rates_fini(&p->rates);
  hr__graph_destroy(p->graph);
}

static bool holds(const hr_tenant *tenant, uint32_t position) {
  return tenant->first <= position && position <= tenant->last && !(tenant->passed_on && position == tenant->last);
}

static void slots_have_one_tenant_at_a_time(void **unused) {
  (void)unused;
  for (uint32_t seed = 0; seed < GRAPHS; seed++) {
    planned p;
    plan_open(&p, seed);
    for (hr_id s = 0; s < p.plan->n_slots; s++) {
      const hr_slot *slot = &p.plan->slots[s];
      uint32_t last = slot->program == HR_NONE ? 0 : slot->last;
      for (uint32_t at = slot->first; at <= last; at++) {
        int count = 0;
        for (size_t i = 0; i < p.tenants.count; i++)
          count += p.tenants.list[i].slot == s && holds(&p.tenants.list[i], at);
        assert_int_equal(count, 1);
      }
    }
    plan_close(&p);
  }
}

static void series_sum_to_the_peak(const planned *p, hr_tier tier, hr_id program, const uint64_t *bytes,
                                   size_t series) {
  size_t nodes = p->graph->programs[program].count > 0 ? p->graph->programs[program].count : 1;
  for (size_t n = 0; n < nodes; n++) {
    uint64_t sum = 0;
    for (size_t s = 0; s < series; s++)
      sum += bytes[s * nodes + n];
    assert_int_equal(sum, p->plan->tiers[tier].peak_bytes);
  }
}

static void every_node_sums_to_the_peak(void **unused) {
  (void)unused;
  for (uint32_t seed = 0; seed < GRAPHS; seed++) {
    planned p;
    hr_error err = {0};
    plan_open(&p, seed);
    for (int t = 0; t < HR_TIER_COUNT; t++)
      for (hr_id program = 0; program < p.graph->n_programs; program++) {
        hr_tier tier = (hr_tier)t;
        hr_usage_owners owners;
        uint64_t *bytes;
        assert_int_equal(hr__usage(p.plan, &p.tenants, tier, program, HR_CAT_COUNT, hr__usage_category, NULL, &p.arena,
                                   &bytes, &err),
                         HR_OK);
        series_sum_to_the_peak(&p, tier, program, bytes, HR_CAT_COUNT);
        if (program == hr__plan_peak_program(p.plan, tier) && tier == HR_TIER_DEVICE) {
          size_t nodes = p.graph->programs[program].count;
          for (size_t c = 0; c < HR_CAT_COUNT && nodes > 0; c++)
            assert_int_equal(bytes[c * nodes + p.plan->tiers[tier].peak_node], p.plan->tiers[tier].categories[c]);
        }
        assert_int_equal(hr__usage_owners(p.plan, tier, &p.arena, &owners, &err), HR_OK);
        assert_int_equal(hr__usage(p.plan, &p.tenants, tier, program, owners.count + 3, hr__usage_owner, &owners,
                                   &p.arena, &bytes, &err),
                         HR_OK);
        series_sum_to_the_peak(&p, tier, program, bytes, owners.count + 3);
      }
    plan_close(&p);
  }
}

static void spans_follow_each_other(void **unused) {
  (void)unused;
  for (uint32_t seed = 0; seed < GRAPHS; seed++) {
    planned p;
    hr_error err = {0};
    plan_open(&p, seed);
    for (hr_id program = 0; program < p.graph->n_programs; program++) {
      hr_timeline t;
      double busy[HR_STREAMS] = {0}, end[HR_STREAMS] = {0}, waits = 0;
      assert_int_equal(hr__timeline(p.plan, &p.rates, program, &p.arena, &t, &err), HR_OK);
      for (size_t i = 0; i < t.count; i++) {
        const hr_span *span = &t.spans[i];
        assert_true(span->begin >= end[span->stream] - 1e-12 && span->end > span->begin);
        end[span->stream] = span->end;
        *(span->waits ? &waits : &busy[span->stream]) += span->end - span->begin;
      }
      assert_true(fabs(waits - t.wait_seconds) < 1e-9);
      for (int s = 0; s < HR_STREAMS; s++)
        assert_true(fabs(busy[s] - t.busy[s]) < 1e-9 && end[s] <= t.seconds + 1e-9);
      assert_true(fabs(busy[HR_STREAM_COMPUTE] + waits - t.seconds) < 1e-9); /* on the CPU nothing is beside it */
    }
    plan_close(&p);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(slots_have_one_tenant_at_a_time),
      cmocka_unit_test(every_node_sums_to_the_peak),
      cmocka_unit_test(spans_follow_each_other),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
