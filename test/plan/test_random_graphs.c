/* A thousand random op graphs: the layout is within 1 % of the bound, valid, and the same every time. The number of
 * graphs is HR_TEST_GRAPHS where that is set. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "plan/part_graphs.h"

static uint64_t graph_count(void) {
  const char *text = getenv("HR_TEST_GRAPHS");
#ifdef HR_ASAN
  const uint64_t usual = 200; /* a sanitizer takes its time */
#else
  const uint64_t usual = 1000;
#endif
  return text ? strtoull(text, NULL, 10) : usual;
}

static void slots_apart(const hr_plan *plan) {
  for (size_t i = 0; i < plan->n_slots; i++) {
    const hr_slot *a = &plan->slots[i];
    assert_int_equal(a->bytes % plan->facts.alignment, 0);
    assert_int_equal(a->offset % plan->facts.alignment, 0);
    assert_true(a->offset + a->bytes <= plan->tiers[a->tier].arena_bytes);
    for (size_t j = 0; j < i; j++) {
      const hr_slot *b = &plan->slots[j];
      if (a->tier != b->tier) continue;
      if (a->program != b->program && a->program != HR_NONE && b->program != HR_NONE) continue;
      if (a->first > b->last || b->first > a->last) continue;
      assert_true(a->offset + a->bytes <= b->offset || b->offset + b->bytes <= a->offset);
    }
  }
}

static void categories_sum_to_the_peak(const hr_plan *plan) {
  for (int t = 0; t < HR_TIER_COUNT; t++) {
    uint64_t sum = 0;
    for (int c = 0; c < HR_CAT_COUNT; c++)
      sum += plan->tiers[t].categories[c];
    assert_int_equal(sum, plan->tiers[t].peak_bytes);
  }
}

static void same_every_time(const hr_graph *graph, const hr_facts *facts, const hr_plan *plan) {
  hr_plan *again = test_plan(graph, facts, 2);
  assert_string_equal(plan->fingerprint, again->fingerprint);
  assert_int_equal(plan->n_slots, again->n_slots);
  for (size_t s = 0; s < plan->n_slots; s++)
    assert_int_equal(plan->slots[s].offset, again->slots[s].offset);
  hr__plan_destroy(again);
}

static void random_graphs_are_packed(void **state) {
  (void)state;
  hr_facts facts = test_facts();
  double worst = 1;
  uint64_t above_bound = 0, above_percent = 0, count = graph_count();
  for (uint64_t number = 0; number < count; number++) {
    hr_graph *graph = test_random_graph(number);
    hr_plan *plan = test_plan(graph, &facts, 2);
    slots_apart(plan);
    test_replay(plan);
    categories_sum_to_the_peak(plan);
    if (number % 16 == 0) same_every_time(graph, &facts, plan);
    const hr_tier_plan *tier = &plan->tiers[HR_TIER_DEVICE];
    double ratio = (double)tier->arena_bytes / (double)tier->lower_bound_bytes;
    if (ratio > worst) worst = ratio;
    above_bound += ratio > 1;
    above_percent += ratio > 1.01;
    if (ratio > 1.01) print_message("graph %d: %.4f of its bound\n", (int)number, ratio);
    hr__plan_destroy(plan);
    hr__graph_destroy(graph);
  }
  print_message("%d graphs: %d above their bound, worst %.4f\n", (int)count, (int)above_bound, worst);
  assert_int_equal(above_percent, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(random_graphs_are_packed)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
