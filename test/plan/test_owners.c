/* owners: which module a buffer belongs to follows from what it is, not from what it is called. That owners sum to the
 * peak of whole plans is checked by test/cli/test_schema.py.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "grad/grad.h"
#include "op/linear.h"
#include "op/mse.h"
#include "op/transfer.h"
#include "pass/update.h"
#include "plan/owners.h"
#include "plan/part_graphs.h"

static void test_names(void **state) {
  (void)state;
  static const struct {
    const char *module, *name;
  } cases[] = {
      {"model.layers.3.mlp.up_proj", "model.layers.*.mlp"},
      {"model.layers.3.mlp.gate_proj+up_proj", "model.layers.*.mlp"},
      {"model.layers.11.self_attn", "model.layers.*.self_attn"},
      {"bert.encoder.layer.7.attention.self.query", "bert.encoder.layer.*.attention"},
      {"model.layers.3", "model.layers.*"},
      {"adam.m.5.weight.bias", "adam.m.*.weight"}, /* words of optimizers and tensors are modules like any */
      {"lm_head", "lm_head"},
      {"", ""},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    char name[HR_MODULE_NAME];
    hr__owner_name(cases[i].module, name);
    assert_string_equal(name, cases[i].name);
  }
}

static void test_long_names_are_cut(void **state) {
  (void)state;
  char name[400], module[HR_MODULE_NAME];
  memset(name, 'a', sizeof name - 1);
  name[sizeof name - 1] = '\0';
  hr__owner_name(name, module);
  assert_int_equal(strlen(module), HR_MODULE_NAME - 1);
  for (size_t i = 50; i < sizeof name - 1; i += 50)
    name[i] = '.';
  hr__owner_name(name, module);
  assert_int_equal(strlen(module), HR_MODULE_NAME - 1);
}

static const hr_module_owner *owner_of(const hr_module_owner *owners, size_t count, const char *name) {
  for (size_t i = 0; i < count; i++)
    if (strcmp(owners[i].name, name) == 0) return &owners[i];
  fail_msg("no owner %s", name);
  return NULL;
}

static const char *module_of(const hr_graph *g, hr_id value) {
  return g->buffers[g->values[value].buffer].module;
}

/* A training step whose names would mislead whoever reads them. */
static void test_whose_it_is(void **state) {
  (void)state;
  enum { WIDE = 512 };
  hr_error err = {0};
  hr_graph *g;
  hr_builder b;
  assert_int_equal(hr__graph_create(&g, &err), HR_OK);
  hr__builder_init(&b, g, HR_F32);
  hr__program_begin(&b, HR_PROGRAM_STEP);
  hr_desc square = hr__desc2(HR_F32, WIDE, WIDE);
  hr_init init = {.rule = HR_INIT_NORMAL, .a = 0.1f};
  hr_id x = hr__input(&b, "grad.x", hr__desc2(HR_F32, 2, WIDE));
  hr_id odd = hr__parameter(&b, "adam.odd.kernel", square, init); /* no weight, and the word of an optimizer */
  hr_id layer = hr__parameter(&b, "net.layers.4.inner.deep.weight", square, init);
  hr__module(&b, "adam.odd");
  hr_id y = hr__linear(&b, x, odd, HR_NONE);
  hr__module(&b, "net.layers.4.inner.deep");
  hr_id loss = hr__mse(&b, hr__linear(&b, y, layer, HR_NONE), x);
  hr__program_set_reported(&b, "loss", loss, HR_OUTPUT_LOSS, 1, HR_NONE);
  assert_int_equal(hr__grad_program(&b, HR_GRAD_TRANSIENT, &err), HR_OK);
  hr_update_settings settings = {.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8f, .ema = 0.9f};
  assert_int_equal(hr__update_emit(&b, &settings, &err), HR_OK);
  assert_int_equal(hr__builder_status(&b, &err), HR_OK);
  assert_string_equal(module_of(g, x), "grad.x");
  assert_string_equal(module_of(g, odd), "adam.odd");
  assert_string_equal(module_of(g, y), "adam.odd");
  assert_string_equal(module_of(g, hr__graph_find_value(g, "adam.m.adam.odd.kernel")), "adam.odd");
  assert_string_equal(module_of(g, hr__graph_find_value(g, "ema.net.layers.4.inner.deep.weight")),
                      "net.layers.4.inner.deep");
  hr__module(&b, "adam.m.adam.odd.kernel:adamw"); /* as passes that copy call their nodes */
  assert_string_equal(module_of(g, hr__fetch(&b, hr__graph_find_value(g, "adam.v.adam.odd.kernel"), HR_NONE, false)),
                      "adam.odd");
  assert_string_equal(g->buffers[hr__storage(&b, y)].module, "adam.odd");
  assert_int_equal(hr__builder_status(&b, &err), HR_OK);

  hr_facts facts = test_facts();
  hr_plan *plan = test_plan(g, &facts, 1);
  hr_arena arena = {0};
  hr_module_owner *owners;
  size_t count;
  assert_int_equal(hr__owners(plan, HR_TIER_DEVICE, &arena, &owners, &count, &err), HR_OK);
  uint64_t bytes = (uint64_t)WIDE * WIDE * sizeof(float), sum = 0;
  for (size_t i = 0; i < count; i++)
    sum += owners[i].bytes;
  assert_int_equal(sum, plan->tiers[HR_TIER_DEVICE].peak_bytes);
  static const char *const names[] = {"adam.odd", "net.layers.*.inner"};
  for (int i = 0; i < 2; i++) { /* parameter, moments and average */
    const hr_module_owner *owner = owner_of(owners, count, names[i]);
    assert_int_equal(owner->categories[HR_CAT_PARAMETERS], bytes);
    assert_int_equal(owner->categories[HR_CAT_OPTIMIZER], 2 * bytes);
    assert_int_equal(owner->categories[HR_CAT_STATE], bytes);
  }
  hr__arena_fini(&arena);
  hr__plan_destroy(plan);
  hr__graph_destroy(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_names), cmocka_unit_test(test_long_names_are_cut),
                                     cmocka_unit_test(test_whose_it_is)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
