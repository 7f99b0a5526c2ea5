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
  return text ? strtoull(text, NULL, 10) : 1000;
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
    for (int c = 0; c < HR_CAT_COUNT; c++) sum += plan->tiers[t].categories[c];
    assert_int_equal(sum, plan->tiers[t].peak_bytes);
  }
}

static void random_graphs_are_packed(void **state) {
  (void)state;
  hr_facts facts = test_facts();
  double worst = 1;
  uint64_t missed = 0, count = graph_count();
  for (uint64_t number = 0; number < count; number++) {
    hr_graph *graph = test_random_graph(number);
    hr_plan *plan = test_plan(graph, &facts, 2), *again = test_plan(graph, &facts, 2);
    slots_apart(plan);
    test_replay(plan);
    categories_sum_to_the_peak(plan);
    assert_string_equal(plan->fingerprint, again->fingerprint);
    assert_memory_equal(plan->slots, again->slots, 0);
    for (size_t p = 0; p < graph->n_programs; p++) {
      const hr_program_plan *program = &plan->programs[p];
      double bound = (double)program->lower_bound_bytes[HR_TIER_DEVICE];
      double ratio = bound > 0 ? (double)program->transient_bytes[HR_TIER_DEVICE] / bound : 1;
      if (ratio > worst) worst = ratio;
      missed += ratio > 1;
      if (ratio > 1.01) print_message("graph %d program %s: %.4f\n", (int)number, graph->programs[p].name, ratio);
    }
    assert_true(plan->tiers[HR_TIER_DEVICE].arena_bytes <= 1.01 * (double)plan->tiers[HR_TIER_DEVICE].lower_bound_bytes);
    hr__plan_destroy(plan);
    hr__plan_destroy(again);
    hr__graph_destroy(graph);
  }
  print_message("worst transient layout: %.4f of its bound; %d programs above it\n", worst, (int)missed);
  assert_true(worst <= 1.01);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(random_graphs_are_packed)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
