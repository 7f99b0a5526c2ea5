/* The sensor model against PyTorch (make_sensors.py), which pads on the left, permutes and masks: vectors of patches,
 * hidden states, the loss, every gradient of the first step, and ten steps; with a decoder trained whole, and with
 * adapters of a frozen one. */
#include <stdio.h>
#include <string.h>

#include "model/model.h"
#include "part_system.h"

enum { SAMPLES = 3, STEPS = 10 };

#define RECIPE(points, more)                                                                                           \
  "model:\n"                                                                                                           \
  "  family: shown\n"                                                                                                  \
  "  config: { channels: 4, t_fixed: " points ", hidden_dim: 6, conv_out_dim: 8, encoder_feature_dim: 16,\n"           \
  "            encoding_dim: 12, encoder_layers: 2, encoder_heads: 2, encoder_dropout: 0, pooling_dropout: 0,\n"       \
  "            max_channels: 6, max_patch_sizes: 20 }\n"                                                               \
  "  parts:\n"                                                                                                         \
  "    llm:\n" more                                                                                                    \
  "      config: { hidden_size: 16, intermediate_size: 24, num_hidden_layers: 2, num_attention_heads: 4,\n"            \
  "                num_key_value_heads: 2, vocab_size: 29, max_position_embeddings: 64, rms_norm_eps: 1e-5,\n"         \
  "                rope_theta: 10000.0, tie_word_embeddings: true }\n"                                                 \
  "data: { source: synthetic, sequence_length: 14, sensors: { context_size: 5 } }\n"                                   \
  "training:\n"                                                                                                        \
  "  batch_size: 3\n"                                                                                                  \
  "  steps: 10\n"                                                                                                      \
  "  eval_every: 10\n"                                                                                                 \
  "  optimizer: { kind: adamw, lr: 1e-3, betas: [0.9, 0.95], eps: 1e-6, weight_decay: 0.1 }\n"                         \
  "  clip_norm: 1.0\n"

static bool rounding(const char *gradient) { /* a key's bias shifts all scores of a query alike */
  return strstr(gradient, "k_proj.bias") != NULL;
}

static const system_case whole = {.file = "sensors/whole",
                                  .recipe = RECIPE("16", "      family: llama\n"),
                                  .samples = SAMPLES,
                                  .least = 100,
                                  .rounding = rounding},
                         adapters = {.file = "sensors/adapters",
                                     .recipe =
                                         RECIPE("32", "      adapters: { rank: 2, alpha: 4, targets: [all-linear] }\n"),
                                     .samples = SAMPLES,
                                     .least = 100,
                                     .rounding = rounding};

/* The family with two of its inner values as outputs: what the modules of these names make last. */
static const char *const shown[] = {"projected", "hidden"}, *const makers[] = {"projector.linear", "llm.model.norm"};

static hr_id forward(hr_builder *b, const hr_model_part *part, const hr_model_batch *batch) {
  hr_id loss = hr_model_sensors.forward(b, part, batch);
  hr_id made[2] = {HR_NONE, HR_NONE};
  for (size_t n = 0; b->status == HR_OK && n < b->graph->n_nodes; n++)
    for (int i = 0; i < 2; i++)
      if (b->graph->nodes[n].program == b->program && strcmp(b->graph->nodes[n].module, makers[i]) == 0)
        made[i] = b->graph->nodes[n].out[0];
  for (int i = 0; b->status == HR_OK && i < 2; i++)
    hr__program_set_output(b, shown[i], made[i]);
  return loss;
}

/* Runs a program on batch `number` and gives its loss, the mean over the answers' tokens. */
static double step_run(golden *g, const system_case *c, hr_program_kind kind, int64_t number) {
  static const char *const fields[] = {"patches",         "statistics", "patch_counts", "patch_mask",
                                       "patch_positions", "patch_size", "tokens",       "placement"};
  hr_id program = hr__graph_find_kind(g->graph, kind);
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
    system_feed(g, program, fields[i], number, STEPS);
  system_field targets = system_feed(g, program, "targets", number, STEPS);
  system_run(g, c, program, number, 1.0f / (float)system_targets(&targets));
  return system_output(g, program, "loss");
}

static void forward_compare(const system_case *c) {
  golden g;
  system_open(&g, c, 1, "32-true");
  const float *losses = golden_tensor(&g, g.io, "loss", "F32", sizeof(float), NULL);
  expect_near(step_run(&g, c, HR_PROGRAM_EVAL, 0), (double)losses[0], 1e-6, "the first loss");
  for (int i = 0; i < 2; i++)
    system_output_near(&g, HR_PROGRAM_EVAL, shown[i], 1e-5);
  golden_close(&g);
}

static void gradients_compare(const system_case *c) {
  golden g;
  system_open(&g, c, 2, "32-true");
  step_run(&g, c, HR_PROGRAM_MICRO_FIRST, 0);
  system_gradients(&g, c);
  golden_close(&g);
}

static void steps_compare(const system_case *c, const char *precision, double tolerance) {
  golden g;
  char what[64];
  system_open(&g, c, 1, precision);
  const float *losses = golden_tensor(&g, g.io, "loss", "F32", sizeof(float), NULL);
  for (int64_t step = 0; step < STEPS; step++) {
    snprintf(what, sizeof what, "%s: the loss of step %d", precision, (int)step + 1);
    expect_near(step_run(&g, c, HR_PROGRAM_STEP, step), (double)losses[step], tolerance, what);
  }
  golden_close(&g);
}

static void test_case(void **state) {
  const system_case *c = *state;
  forward_compare(c);
  gradients_compare(c);
  steps_compare(c, "32-true", 1e-5);
  steps_compare(c, "bf16-mixed", 1e-2);
}

int main(void) {
  static hr_model family;
  const struct CMUnitTest tests[] = {cmocka_unit_test_prestate(test_case, (void *)(uintptr_t)&whole),
                                     cmocka_unit_test_prestate(test_case, (void *)(uintptr_t)&adapters)};
  family = hr_model_sensors;
  family.family = "shown";
  family.forward = forward;
  hr__model_register(&family);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
