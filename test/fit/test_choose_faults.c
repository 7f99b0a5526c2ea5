/* Lack of memory at every request while `auto` checkpointing is chosen: HR_NOMEM, nothing left behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "fit/choose.h"
#include "pass/pass.h"
#include "support/faults.h"

static const char recipe_text[] = "model: { family: llama, config: { hidden_size: 16, num_hidden_layers: 2,\n"
                                  "         num_attention_heads: 4, intermediate_size: 40, vocab_size: 64 } }\n"
                                  "data: { sequence_length: 64 }\n"
                                  "training: { batch_size: 4 }\n"
                                  "memory: { checkpoint: auto }\n";

static hr_status choose_body(void *arg, hr_error *err) {
  hr_chosen chosen;
  HR_TRY(hr__choose(arg, &chosen, err));
  hr__chosen_fini(&chosen);
  return HR_OK;
}

static void test_choosing_survives_lack_of_memory(void **state) {
  (void)state;
  hr_key_table tables[HR_COMPILE_TABLES];
  hr__compile_tables(tables);
  hr_recipe *recipe;
  hr_error err = {0};
  hr_facts facts;
  hr_rates rates;
  hr__cpu_facts(&facts);
  hr__rates_default(&facts, &rates);
  assert_int_equal(hr__recipe_parse("t.yaml", ".", recipe_text, sizeof recipe_text - 1, NULL, 0, tables,
                                    HR_COMPILE_TABLES, &recipe, &err),
                   HR_OK);
  hr_open open = {.recipe = recipe,
                  .facts = &facts,
                  .rates = &rates,
                  .accumulation = 1,
                  .host_bytes = UINT64_MAX,
                  .disk_bytes = UINT64_MAX};
  uint64_t peaks[2];
  for (int i = 0; i < 2; i++) { /* the smallest and the largest plan */
    open.budget_bytes = i == 0 ? 0 : UINT64_MAX;
    hr_chosen chosen;
    if (hr__choose(&open, &chosen, &err) != HR_OK) fail_msg("%s", err.message);
    peaks[i] = chosen.plan->tiers[HR_TIER_DEVICE].peak_bytes;
    hr__chosen_fini(&chosen);
  }
  assert_true(peaks[0] < peaks[1]);
  open.budget_bytes = (peaks[0] + peaks[1]) / 2;
  assert_true(hr_test_each_fault(choose_body, &open) > 100);
  hr__recipe_destroy(recipe);
  hr__rates_fini(&rates);
}

int main(void) {
  hr_test_faults_install();
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_choosing_survives_lack_of_memory)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
