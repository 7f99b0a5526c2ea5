/* Lack of memory at every request while a run in PyTorch is simulated: HR_NOMEM, nothing left behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "dev/gpus.h"
#include "job/engine.h"
#include "job/settings.h"
#include "support/faults.h"

static hr_status simulate(void *arg, hr_error *err) {
  hr_facts facts;
  hr__gpu_facts(hr__gpu_find("H200"), &facts);
  hr_engine_run run = {0};
  hr_status status = hr__engine_simulate(arg, &facts, &run, err);
  hr__engine_fini(&run);
  return status;
}

static void simulating_survives_lack_of_memory(void **state) {
  (void)state;
  static const char *const texts[] = {
      "model: {family: llama, precision: bf16-mixed, config: {hidden_size: 64, intermediate_size: 128, "
      "num_hidden_layers: 9, num_attention_heads: 4, num_key_value_heads: 2, vocab_size: 256},\n"
      "  adapters: {kind: lora, rank: 4, targets: all-linear}, quantize: {kind: nf4}}\n"
      "data: {source: synthetic, sequence_length: 32}\ntraining: {clip_norm: 1.0}\n"
      "memory: {device: cuda, gpu: H200, checkpoint: every-layer}\nengine: {kind: pytorch}\n",
      "model: {family: bert, precision: 32-true, config: {hidden_size: 64, intermediate_size: 128, "
      "num_hidden_layers: 3, num_attention_heads: 4, vocab_size: 300}}\n"
      "data: {source: synthetic, sequence_length: 32}\n"
      "memory: {device: cuda, gpu: H200, checkpoint: every-layer}\n"
      "engine: {kind: pytorch, checkpoint: reentrant, attention: eager, optimizer: foreach}\n",
      "model: {family: mistral, precision: 32-true, config: {hidden_size: 64, intermediate_size: 128, sliding_window: "
      "16, "
      "num_hidden_layers: 3, num_attention_heads: 4, num_key_value_heads: 1, vocab_size: 256}}\n"
      "data: {source: synthetic, sequence_length: 33}\ntraining: {batch_size: 2}\n"
      "memory: {device: cuda, gpu: A100 80GB, checkpoint: every-layer}\n"
      "engine: {kind: pytorch, checkpoint: reentrant, padded: true, eval_batch_size: 3}\n",
      "model: {family: qwen2, precision: bf16-true, config: {hidden_size: 64, intermediate_size: 128, "
      "num_hidden_layers: 3, num_attention_heads: 4, num_key_value_heads: 2, vocab_size: 256},\n"
      "  adapters: {kind: lora, rank: 4, targets: all-linear}, quantize: {kind: nf4}}\n"
      "data: {source: synthetic, sequence_length: 32}\n"
      "memory: {device: cuda, gpu: H200, checkpoint: none}\nengine: {kind: pytorch, sdpa: math}\n",
      "model: {family: qwen2, precision: bf16-mixed, config: {hidden_size: 64, intermediate_size: 128, "
      "num_hidden_layers: 2, num_attention_heads: 4, num_key_value_heads: 2, vocab_size: 256}}\n"
      "data: {source: synthetic, sequence_length: 32}\ntraining: {gradient_accumulation: 2}\n"
      "memory: {device: cuda, gpu: H200}\n"
      "engine: {kind: pytorch, trainer: deepspeed, zero: {stage: 3, bucket: 9000, sub_group: 20000}}\n",
      "model: {family: llama, precision: 16-mixed, config: {hidden_size: 64, intermediate_size: 128, "
      "num_hidden_layers: 2, num_attention_heads: 4, num_key_value_heads: 2, vocab_size: 256}}\n"
      "data: {source: synthetic, sequence_length: 32}\ntraining: {gradient_accumulation: 2}\n"
      "memory: {device: cuda, gpu: H200}\n"
      "engine: {kind: pytorch, trainer: deepspeed, zero: {stage: 2, bucket: 9000, offload: optimizer}}\n"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    hr_recipe *recipe = NULL;
    hr_error err = {0};
    if (hr__settings_parse("test", ".", texts[i], strlen(texts[i]), NULL, 0, &recipe, &err) != HR_OK)
      fail_msg("%s: %s", err.place, err.message);
    assert_true(hr_test_each_fault(simulate, recipe) > 10);
    hr__recipe_destroy(recipe);
  }
}

int main(void) {
  hr_test_faults_install();
  const struct CMUnitTest tests[] = {cmocka_unit_test(simulating_survives_lack_of_memory)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
