/* The embedder against PyTorch (make_embedder.py): points, losses, every gradient of the first step, and ten steps;
 * with encoders trained whole, and with adapters on one frozen base. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "part_system.h"

enum { SAMPLES = 3, STEPS = 10 };

/* Losses take the error of distances, which f32 has at 1e-7 of their size, times 14, so a small loss of large distances
 * has fewer digits than f32: what is compared is parts of the loss or, below 1, of 1. PyTorch itself is off by 3.6e-6
 * in f32 and by 0.13 with autocast, where the files' first loss is 0.55. With bf16 a code chooses other experts after
 * some steps, and nothing can be compared. */
static const double F32 = 1e-6, BF16 = 1e-2;

#define PART(name, more)                                                                                               \
  "    " name ": { family: bert, " more "config: { hidden_size: 8, intermediate_size: 12, num_hidden_layers: 2,\n"     \
  "      num_attention_heads: 2, vocab_size: 23, max_position_embeddings: 12, hidden_dropout_prob: 0,\n"               \
  "      attention_probs_dropout_prob: 0 } }\n"
#define PARTS(more) PART("title", more) PART("description", more) PART("excluded", more) PART("examples", more)
#define RECIPE(parts)                                                                                                  \
  "model:\n"                                                                                                           \
  "  family: embedder\n"                                                                                               \
  "  config: { num_experts: 3, experts_per_code: 2, expert_size: 20, expert_dropout: 0, projection_size: 12,\n"        \
  "            tangent_size: 13 }\n"                                                                                   \
  "  parts:\n" parts                                                                                                   \
  "data: { source: synthetic, sequence_length: 9, taxonomy: { n_negatives: 4, title_length: 5 } }\n"                   \
  "training:\n"                                                                                                        \
  "  batch_size: 3\n"                                                                                                  \
  "  steps: 10\n"                                                                                                      \
  "  eval_every: 10\n"                                                                                                 \
  "  optimizer: { kind: adamw, lr: 1e-3, betas: [0.9, 0.95], eps: 1e-6, weight_decay: 0.1 }\n"                         \
  "  clip_norm: 1.0\n"

/* Where the file has one base for all channels, each gets it. */
static const char *base_name(const char *weight, char out[300]) {
  const char *rest = strchr(weight, '.');
  snprintf(out, 300, "w.title%s", rest ? rest : "");
  return out;
}

static bool rounding(const char *gradient) { /* a key's bias shifts all scores of a query alike */
  return strstr(gradient, ".self.key.bias") != NULL;
}

static const system_case whole = {.file = "embedder/whole",
                                  .recipe = RECIPE(PARTS("")),
                                  .samples = SAMPLES,
                                  .least = 100,
                                  .other_name = base_name,
                                  .rounding = rounding},
                         adapters = {.file = "embedder/adapters",
                                     .recipe =
                                         RECIPE(PARTS("adapters: { rank: 2, alpha: 4, targets: [all-linear] }, ")),
                                     .samples = SAMPLES,
                                     .least = 100,
                                     .other_name = base_name,
                                     .rounding = rounding};

static void step_run(golden *g, const system_case *c, hr_program_kind kind, int64_t number) {
  static const struct {
    const char *file, *input; /* names of the same */
  } fields[] = {{"title", "title"},
                {"title_lengths", "lengths_0"},
                {"title_mask", "mask_0"},
                {"description", "description"},
                {"description_lengths", "lengths_1"},
                {"description_mask", "mask_1"},
                {"excluded", "excluded"},
                {"excluded_lengths", "lengths_2"},
                {"excluded_mask", "mask_2"},
                {"examples", "examples"},
                {"examples_lengths", "lengths_3"},
                {"examples_mask", "mask_3"},
                {"valid", "valid"}};
  static const char *const factors[] = {"contrastive", "balance", "rank", "first"};
  hr_id program = hr__graph_find_kind(g->graph, kind);
  float factor = 1.0f / SAMPLES;
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
    system_field f = system_read(g, fields[i].file, number, STEPS);
    system_write(g, program, fields[i].input, f.data, f.bytes);
  }
  for (size_t i = 0; i < sizeof factors / sizeof *factors; i++)
    system_write(g, program, factors[i], &factor, sizeof factor);
  system_run(g, c, program, number, 1);
}

static void losses_compare(golden *g, hr_program_kind kind, int64_t step, double tolerance) {
  static const char *const names[] = {"contrastive", "balance"};
  for (int i = 0; i < 2; i++) {
    const float *expected = golden_tensor(g, g->io, names[i], "F32", sizeof(float), NULL);
    char what[64];
    snprintf(what, sizeof what, "%s of step %d", names[i], (int)step + 1);
    double got = system_output(g, hr__graph_find_kind(g->graph, kind), names[i]) / SAMPLES;
    double off = fabs(got - (double)expected[step]);
    if (!(off <= tolerance * fmax(1, (double)expected[step])))
      fail_msg("%s: %.9g, expected %.9g", what, got, (double)expected[step]);
  }
}

/* Points and losses of the first batch. */
static void forward_compare(const system_case *c) {
  golden g;
  system_open(&g, c, 1, "32-true");
  step_run(&g, c, HR_PROGRAM_EVAL, 0);
  system_output_near(&g, HR_PROGRAM_EVAL, "points", 1e-6);
  losses_compare(&g, HR_PROGRAM_EVAL, 0, F32);
  golden_close(&g);
}

static void gradients_compare(const system_case *c) {
  golden g;
  system_open(&g, c, 2, "32-true");
  step_run(&g, c, HR_PROGRAM_MICRO_FIRST, 0);
  system_gradients(&g, c);
  golden_close(&g);
}

static void steps_compare(const system_case *c, int steps, const char *precision, double tolerance) {
  golden g;
  system_open(&g, c, 1, precision);
  for (int64_t step = 0; step < steps; step++) {
    step_run(&g, c, HR_PROGRAM_STEP, step);
    losses_compare(&g, HR_PROGRAM_STEP, step, tolerance);
  }
  golden_close(&g);
}

static void test_case(void **state) {
  const system_case *c = *state;
  forward_compare(c);
  gradients_compare(c);
  steps_compare(c, STEPS, "32-true", 1e-5);
  steps_compare(c, 1, "bf16-mixed", BF16);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test_prestate(test_case, (void *)(uintptr_t)&whole),
                                     cmocka_unit_test_prestate(test_case, (void *)(uintptr_t)&adapters)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
