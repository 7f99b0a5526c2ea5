/* Lack of memory at every request of planning and of its reports: HR_NOMEM, nothing left behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/random.h"
#include "op/add.h"
#include "plan/pack.h"
#include "plan/part_graphs.h"
#include "plan/report.h"
#include "support/faults.h"

static hr_status json_body(json_t *object, hr_error *err) {
  if (!object) return hr__nomem(err);
  json_decref(object);
  return HR_OK;
}

typedef struct subject {
  hr_graph *graph;
  bool reported;
} subject;

static hr_status report_body(const hr_plan *plan, hr_error *err) {
  hr_verdict verdict;
  HR_TRY(hr__verdict(plan, NULL, &(hr_budget){.budget_bytes = 1000}, &verdict, err));
  HR_TRY(json_body(hr__report_json(plan, &verdict, NULL), err));
  return json_body(hr__report_buffers_json(plan), err);
}

static hr_status plan_body(void *arg, hr_error *err) {
  const subject *s = arg;
  hr_facts facts = test_facts();
  hr_plan_options options = {.accumulation = 2, .effort = HR_EFFORT_DRAFT};
  hr_rates rates;
  hr_plan *plan = NULL;
  hr_status status = hr__rates_load(&facts, &rates, err);
  if (status == HR_OK) status = hr__plan_build(s->graph, &facts, &rates, &options, &plan, err);
  if (status == HR_OK && s->reported) status = report_body(plan, err);
  hr__plan_destroy(plan);
  hr__rates_fini(&rates);
  return status;
}

static void planning_survives_lack_of_memory(void **state) {
  (void)state;
  subject s = {.graph = test_random_graph(3)};
  assert_true(hr_test_each_fault(plan_body, &s) > 20);
  hr__graph_destroy(s.graph);
}

static void reports_survive_lack_of_memory(void **state) {
  (void)state;
  subject s = {.reported = true};
  hr_builder b;
  hr_error err = {0};
  assert_int_equal(hr__graph_create(&s.graph, &err), HR_OK);
  hr__builder_init(&b, s.graph, HR_F32);
  hr__program_begin(&b, HR_PROGRAM_STEP);
  hr_id x = hr__input(&b, "x", hr__desc1(HR_F32, 8));
  hr__program_set_output(&b, "y", hr__add(&b, x, hr__add(&b, x, x, 1), 1));
  assert_int_equal(hr__builder_status(&b, &err), HR_OK);
  assert_true(hr_test_each_fault(plan_body, &s) > 100);
  hr__graph_destroy(s.graph);
}

/* Intervals without structure, whose bound is out of reach: every way of improving runs. */
enum { SHAPELESS = 300 };

static hr_status pack_body(void *arg, hr_error *err) {
  const hr_interval *items = arg;
  size_t offsets[SHAPELESS];
  hr_packing packing;
  HR_TRY(hr__pack(items, SHAPELESS, 30000, offsets, &packing, err));
  assert_true(packing.total_bytes > packing.lower_bound_bytes);
  return HR_OK;
}

static void packing_survives_lack_of_memory(void **state) {
  (void)state;
  hr_random_key key = {5, 5};
  hr_interval items[SHAPELESS];
  for (uint64_t i = 0; i < SHAPELESS; i++) {
    uint32_t first = (uint32_t)hr__random_below(key, 0, i, SHAPELESS / 2);
    items[i] = (hr_interval){first, first + (uint32_t)hr__random_below(key, 1, i, 40),
                             64 * (1 + hr__random_below(key, 2, i, 1000))};
  }
  assert_true(hr_test_each_fault(pack_body, items) >= 10);
}

int main(void) {
  hr_test_faults_install();
  unsetenv("HOME"); /* the default rates */
  unsetenv("XDG_CACHE_HOME");
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(planning_survives_lack_of_memory),
      cmocka_unit_test(reports_survive_lack_of_memory),
      cmocka_unit_test(packing_survives_lack_of_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
