/* owners: whose a buffer is by its name. That owners sum to the peak is checked on whole plans
 * (test/cli/test_schema.py).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "plan/owners.h"

static void test_names(void **state) {
  (void)state;
  static const struct {
    const char *name, *module;
  } cases[] = {
      {"model.layers.3.mlp.up_proj.weight", "model.layers.*.mlp"},
      {"adam.m.model.layers.3.mlp.gate_proj+up_proj.weight", "model.layers.*.mlp"},
      {"adam8.v_absmax.model.layers.11.self_attn.o_proj.weight", "model.layers.*.self_attn"},
      {"sgd.momentum.model.norm.weight", "model.norm"},
      {"grad.model.embed_tokens.weight", "model.embed_tokens"},
      {"adam.v.model.layers.0.mlp.down_proj.weight:fetch.2", "model.layers.*.mlp"},
      {"model.layers.3.mlp:swiglu", "model.layers.*.mlp"},
      {"model.layers.3.self_attn:attention:workspace", "model.layers.*.self_attn"},
      {"model.layers.3.input_layernorm.weight", "model.layers.*.input_layernorm"},
      {"model.layers.3.self_attn.q_proj.lora_A:linear", "model.layers.*.self_attn"},
      {"bert.encoder.layer.7.attention.self.query.bias", "bert.encoder.layer.*.attention"},
      {"lm_head:head_loss", "lm_head"},
      {"model.layers.3", "model.layers.*"},
      {"tokens", "tokens"},
      {"weight", "weight"},
      {"grad.", ""},
      {"adam.m", "adam.m"},
      {"", ""},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    char module[HR_MODULE_NAME];
    hr__owner_module(cases[i].name, module);
    assert_string_equal(module, cases[i].module);
  }
}

static void test_long_names_are_cut(void **state) {
  (void)state;
  char name[400], module[HR_MODULE_NAME];
  memset(name, 'a', sizeof name - 1);
  name[sizeof name - 1] = '\0';
  hr__owner_module(name, module);
  assert_int_equal(strlen(module), HR_MODULE_NAME - 1);
  for (size_t i = 50; i < sizeof name - 1; i += 50)
    name[i] = '.';
  hr__owner_module(name, module);
  assert_int_equal(strlen(module), HR_MODULE_NAME - 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_names), cmocka_unit_test(test_long_names_are_cut)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
