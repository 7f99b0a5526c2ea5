/* The video model against PyTorch (make_video.py): triggers and hidden states, the three losses, gradients of the first
 * step, and ten steps; trained whole, and with backbone and decoder frozen. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model/model.h"
#include "part_system.h"

enum { SAMPLES = 2, FRAMES = 5, STEPS = 10, BATCHES = 2, LOSSES = 3 };

#define RECIPE(train)                                                                                                  \
  "model:\n"                                                                                                           \
  "  family: shown\n"                                                                                                  \
  "  config: { feature_size: 12, trigger_size: 8, time_size: 16, time_layers: 2, time_heads: 2, time_mlp_size: 24,\n"  \
  "            lstm_size: 6, lstm_layers: 2, dropout: 0, trigger_dropout: 0 }\n"                                       \
  "  parts:\n"                                                                                                         \
  "    visual: { family: resnet18, " train "config: { width: 2, batch_norm: eval } }\n"                                \
  "    llm:\n"                                                                                                         \
  "      { family: gemma3, " train "\n"                                                                                \
  "        config: { hidden_size: 14, intermediate_size: 20, num_hidden_layers: 2, num_attention_heads: 2,\n"          \
  "                  num_key_value_heads: 1, head_dim: 8, vocab_size: 23, sliding_window: 6,\n"                        \
  "                  sliding_window_pattern: 2, query_pre_attn_scalar: 8, max_position_embeddings: 64 } }\n"           \
  "data: { source: synthetic, sequence_length: 12, max_frames: 5, video: { height: 16, width: 16 } }\n"                \
  "training:\n"                                                                                                        \
  "  batch_size: 2\n"                                                                                                  \
  "  steps: 10\n"                                                                                                      \
  "  eval_every: 10\n"                                                                                                 \
  "  optimizer: { kind: adamw, lr: 1e-3, betas: [0.9, 0.95], eps: 1e-4, weight_decay: 0.1 }\n"                         \
  "  clip_norm: 1.0\n"

static bool rounding(const char *gradient) { /* a key's bias shifts all scores of a query alike */
  return strstr(gradient, "k_proj.bias") != NULL;
}

static const system_case whole = {.file = "video/whole",
                                  .recipe = RECIPE(""),
                                  .samples = SAMPLES,
                                  .least = 120,
                                  .rounding = rounding},
                         frozen = {.file = "video/frozen",
                                   .recipe = RECIPE("train: none, "),
                                   .samples = SAMPLES,
                                   .least = 50,
                                   .rounding = rounding};

static const char *const losses[LOSSES] = {"caption", "trigger", "smoothness"}, *const masks[LOSSES] = {
                                                                                    NULL, "frame_mask", "pair_mask"};

/* The family with what the decoder's last norm makes as an output. */
static hr_id forward(hr_builder *b, const hr_model_part *part, const hr_model_batch *batch) {
  hr_id loss = hr_model_video_caption.forward(b, part, batch), made = HR_NONE;
  for (size_t n = 0; b->status == HR_OK && n < b->graph->n_nodes; n++)
    if (b->graph->nodes[n].program == b->program && strcmp(b->graph->nodes[n].module, "llm.model.norm") == 0)
      made = b->graph->nodes[n].out[0];
  if (b->status == HR_OK) hr__program_set_output(b, "hidden", made);
  return loss;
}

static int count_of(const system_field *mask) {
  int count = 0;
  for (size_t i = 0; i < mask->bytes; i++)
    count += ((const uint8_t *)mask->data)[i] != 0;
  return count;
}

/* Runs a program on a batch and gives its losses. What trigger and smoothness are divided by is a field of the batch.
 */
static void step_run(golden *g, const system_case *c, hr_program_kind kind, int64_t step, double out[LOSSES]) {
  static const char *const fields[] = {"frames", "timestamps", "frame_lengths", "triggers",
                                       "tokens", "placement",  "caption_mask"};
  hr_id program = hr__graph_find_kind(g->graph, kind);
  double factor[LOSSES] = {1, 0, 0};
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
    system_feed(g, program, fields[i], step, BATCHES);
  system_field targets = system_feed(g, program, "targets", step, BATCHES);
  for (int k = 1; k < LOSSES; k++) {
    system_field mask = system_feed(g, program, masks[k], step, BATCHES);
    factor[k] = 1.0 / count_of(&mask);
    float value = (float)factor[k];
    system_write(g, program, losses[k], &value, sizeof value);
  }
  system_run(g, c, program, step, 1.0f / (float)system_targets(&targets));
  for (int k = 0; k < LOSSES; k++)
    out[k] = system_output(g, program, losses[k]) * factor[k];
}

/* Points of valid frames; those behind them are anything. */
static void points_compare(golden *g, const char *name) {
  hr_error err;
  size_t count;
  float got[SAMPLES * FRAMES];
  const float *expected = golden_tensor(g, g->io, "points", "F32", sizeof(float), &count);
  const uint8_t *mask = golden_tensor(g, g->io, "frame_mask", "U8", 1, NULL);
  hr_id points = hr__program_output(g->graph, hr__graph_find_kind(g->graph, HR_PROGRAM_EVAL), "points");
  assert_int_equal(count, SAMPLES * FRAMES);
  check(hr__run_read(g->run, points, 0, got, sizeof got, &err), &err);
  for (size_t i = 0; i < count; i++)
    if (mask[i] && !(fabs((double)(got[i] - expected[i])) <= 1e-5 * fmax(1, fabs((double)expected[i]))))
      fail_msg("%s: point %zu is %g, not %g", name, i, (double)got[i], (double)expected[i]);
}

/* Of losses below 1 the difference counts as it is: that of neighbouring probabilities is of their rounding. */
static void near(double got, double expected, double tolerance, const char *what) {
  double off = fabs(got - expected) / fmax(1, fabs(expected));
  if (!(off <= tolerance)) fail_msg("%s: %.9g, expected %.9g: off by %.2e", what, got, expected, off);
}

static void forward_compare(const system_case *c) {
  golden g;
  double got[LOSSES];
  system_open(&g, c, 1, "32-true");
  const float *expected = golden_tensor(&g, g.io, "eval", "F32", sizeof(float), NULL);
  step_run(&g, c, HR_PROGRAM_EVAL, 0, got);
  for (int k = 0; k < LOSSES; k++)
    near(got[k], (double)expected[k], 1e-6, losses[k]);
  points_compare(&g, c->file);
  system_output_near(&g, HR_PROGRAM_EVAL, "hidden", 1e-5);
  golden_close(&g);
}

static void gradients_compare(const system_case *c) {
  golden g;
  double got[LOSSES];
  system_open(&g, c, 2, "32-true");
  step_run(&g, c, HR_PROGRAM_MICRO_FIRST, 0, got);
  system_gradients(&g, c);
  golden_close(&g);
}

static void steps_compare(const system_case *c) {
  golden g;
  system_open(&g, c, 1, "32-true");
  const float *expected = golden_tensor(&g, g.io, "loss", "F32", sizeof(float), NULL);
  for (int64_t step = 0; step < STEPS; step++) {
    double got[LOSSES];
    step_run(&g, c, HR_PROGRAM_STEP, step, got);
    for (int k = 0; k < LOSSES; k++) {
      char what[96];
      snprintf(what, sizeof what, "%s: %s of step %d", c->file, losses[k], (int)step + 1);
      near(got[k], (double)expected[step * LOSSES + k], 1e-5, what);
    }
  }
  golden_close(&g);
}

static void test_case(void **state) {
  const system_case *c = *state;
  forward_compare(c);
  gradients_compare(c);
  steps_compare(c);
}

int main(void) {
  static hr_model family;
  const struct CMUnitTest tests[] = {cmocka_unit_test_prestate(test_case, (void *)(uintptr_t)&whole),
                                     cmocka_unit_test_prestate(test_case, (void *)(uintptr_t)&frozen)};
  family = hr_model_video_caption;
  family.family = "shown";
  family.forward = forward;
  hr__model_register(&family);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
