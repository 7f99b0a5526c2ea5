/* The video model against PyTorch (make_video.py): triggers and hidden states, the three losses, gradients of the first
 * step, and ten steps; trained whole, and with backbone and decoder frozen. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "job/settings.h"
#include "model/model.h"
#include "part_golden.h"

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

static const char whole[] = RECIPE(""), frozen[] = RECIPE("train: none, ");

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

/* Writes what the file has under "w." into the graph's values. */
static void weights_put(golden *g) {
  hr_error err;
  size_t count, written = 0;
  for (hr_id v = 0; v < g->graph->n_values; v++) {
    const hr_value *value = &g->graph->values[v];
    hr_role role = g->graph->buffers[value->buffer].role;
    char name[300];
    if (!hr__graph_is_tensor(g->graph, v) || (role != HR_ROLE_PARAMETER && role != HR_ROLE_STATE)) continue;
    snprintf(name, sizeof name, "w.%s", value->name);
    float *data = golden_tensor(g, g->io, name, "F32", sizeof(float), &count);
    assert_int_equal(count, hr_desc_count(&value->desc));
    check(hr__run_write(g->run, v, 0, data, count * sizeof *data, &err), &err);
    written++;
  }
  assert_true(written > 150);
}

static void case_open(golden *g, const char *name, const char *text, int accumulation) {
  hr_error err;
  char path[600], accumulated[64];
  *g = (golden){0};
  hr__arena_init(&g->arena);
  snprintf(path, sizeof path, "%s/test/golden/video/%s.safetensors", HR_SOURCE_DIR, name);
  snprintf(g->folder, sizeof g->folder, "%s", path);
  check(hr__safetensors_open(path, &g->io, &err), &err);
  snprintf(accumulated, sizeof accumulated, "training.gradient_accumulation=%d", accumulation);
  const char *const set[] = {accumulated};
  check(hr__settings_parse("golden.yaml", ".", text, strlen(text), set, 1, &g->recipe, &err), &err);
  check(hr__compile(g->recipe, NULL, NULL, &g->graph, &err), &err);
  hr_rates rates;
  hr_plan_options options = {.accumulation = accumulation};
  check(hr__cpu_open(&g->device, &err), &err);
  hr__rates_default(&g->device->facts, &rates);
  check(hr__plan_build(g->graph, &g->device->facts, &rates, &options, &g->plan, &err), &err);
  hr__rates_fini(&rates);
  check(hr__run_create(g->plan, g->device, NULL, &g->run, &err), &err);
  check(hr__run_init_values(g->run, 1, &err), &err);
  weights_put(g);
}

static int count_of(const char *field, const char *data, size_t bytes) {
  int count = 0;
  bool targets = strcmp(field, "targets") == 0;
  for (size_t i = 0; i < bytes / (targets ? sizeof(int32_t) : 1); i++)
    count += targets ? ((const int32_t *)(const void *)data)[i] >= 0 : data[i] != 0;
  return count;
}

/* Runs a program on a batch and gives its losses. What trigger and smoothness are divided by is a field of the batch.
 */
static void step_run(golden *g, hr_program_kind kind, int64_t step, double out[LOSSES]) {
  static const char *const fields[] = {"frames",    "timestamps", "frame_lengths", "triggers",  "frame_mask",
                                       "pair_mask", "tokens",     "targets",       "placement", "caption_mask"};
  hr_error err;
  hr_id program = hr__graph_find_kind(g->graph, kind);
  int targets = 0;
  double factor[LOSSES] = {1, 0, 0};
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
    const hr_safetensor *tensor = hr__safetensors_find(g->io, fields[i]);
    assert_non_null(tensor);
    size_t bytes = (size_t)(tensor->end - tensor->begin) / BATCHES;
    char *data = hr__arena_alloc(&g->arena, bytes);
    check(hr__safetensors_read(g->io, tensor, (uint64_t)(step % BATCHES) * bytes, data, bytes, &err), &err);
    hr_id input = hr__program_input(g->graph, program, fields[i]);
    if (input != HR_NONE) check(hr__run_write(g->run, input, 0, data, bytes, &err), &err);
    if (strcmp(fields[i], "targets") == 0) targets = count_of(fields[i], data, bytes);
    for (int k = 1; k < LOSSES; k++)
      if (strcmp(fields[i], masks[k]) == 0) factor[k] = 1.0 / count_of(fields[i], data, bytes);
  }
  for (int k = 1; k < LOSSES; k++) {
    float value = (float)factor[k];
    hr_id input = hr__program_input(g->graph, program, losses[k]);
    if (input != HR_NONE) check(hr__run_write(g->run, input, 0, &value, sizeof value, &err), &err);
  }
  hr_control control = {.seed = 1,
                        .step = (uint64_t)step + 1,
                        .learning_rate = 1e-3f,
                        .bias_correction1 = (float)(1.0 - pow(0.9, (double)step + 1.0)),
                        .bias_correction2 = (float)(1.0 - pow(0.95, (double)step + 1.0)),
                        .loss_weight = 1.0f / (float)targets,
                        .loss_scale = 1,
                        .valid_rows = SAMPLES};
  check(hr__run_write(g->run, hr__graph_find_value(g->graph, "control"), 0, &control, sizeof control, &err), &err);
  check(hr__run_program(g->run, program, &err), &err);
  for (int k = 0; k < LOSSES; k++) {
    float loss;
    hr_id output = hr__program_output(g->graph, program, losses[k]);
    check(hr__run_read(g->run, output, 0, &loss, sizeof loss, &err), &err);
    out[k] = (double)loss * factor[k];
  }
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

static void forward_compare(const char *name, const char *text) {
  golden g;
  size_t count;
  double got[LOSSES];
  case_open(&g, name, text, 1);
  const float *expected = golden_tensor(&g, g.io, "eval", "F32", sizeof(float), NULL);
  step_run(&g, HR_PROGRAM_EVAL, 0, got);
  for (int k = 0; k < LOSSES; k++)
    near(got[k], (double)expected[k], 1e-6, losses[k]);
  points_compare(&g, name);
  const float *hidden = golden_tensor(&g, g.io, "hidden", "F32", sizeof(float), &count);
  hr_id value = hr__program_output(g.graph, hr__graph_find_kind(g.graph, HR_PROGRAM_EVAL), "hidden");
  double off = golden_distance(&g, value, hidden, count);
  if (!(off <= 1e-5)) fail_msg("%s: hidden states are off by %.2e", name, off);
  golden_close(&g);
}

/* With accumulation the gradients stay in memory after the program: grad.<parameter>. That of a key's bias, which
 * shifts all scores of a query alike, is rounding and nothing else. */
static void gradients_compare(const char *name, const char *text, size_t least) {
  golden g;
  size_t compared = 0, count;
  double worst = 0, got[LOSSES];
  case_open(&g, name, text, 2);
  step_run(&g, HR_PROGRAM_MICRO_FIRST, 0, got);
  for (size_t t = 0; t < hr__safetensors_count(g.io); t++) {
    const hr_safetensor *tensor = hr__safetensors_at(g.io, t);
    char wanted[300];
    if (strncmp(tensor->name, "g.", 2) != 0 || strstr(tensor->name, "k_proj.bias")) continue;
    snprintf(wanted, sizeof wanted, "grad.%s", tensor->name + 2);
    hr_id gradient = hr__graph_find_value(g.graph, wanted);
    if (gradient == HR_NONE) fail_msg("%s has no gradient", tensor->name + 2);
    const float *expected = golden_tensor(&g, g.io, tensor->name, "F32", sizeof(float), &count);
    double off = golden_distance(&g, gradient, expected, count);
    if (!(off <= 1e-4)) fail_msg("%s: %s is off by %.2e", name, wanted, off);
    worst = fmax(worst, off);
    compared++;
  }
  print_message("%s: %zu gradients within %.1e of PyTorch\n", name, compared, worst);
  assert_true(compared > least);
  golden_close(&g);
}

static void steps_compare(const char *name, const char *text) {
  golden g;
  case_open(&g, name, text, 1);
  const float *expected = golden_tensor(&g, g.io, "loss", "F32", sizeof(float), NULL);
  for (int64_t step = 0; step < STEPS; step++) {
    double got[LOSSES];
    step_run(&g, HR_PROGRAM_STEP, step, got);
    for (int k = 0; k < LOSSES; k++) {
      double value = (double)expected[step * LOSSES + k];
      char what[96];
      snprintf(what, sizeof what, "%s: %s of step %d", name, losses[k], (int)step + 1);
      near(got[k], value, 1e-5, what);
    }
  }
  golden_close(&g);
}

static void test_whole(void **state) {
  (void)state;
  forward_compare("whole", whole);
  gradients_compare("whole", whole, 120);
  steps_compare("whole", whole);
}

static void test_frozen(void **state) {
  (void)state;
  forward_compare("frozen", frozen);
  gradients_compare("frozen", frozen, 50);
  steps_compare("frozen", frozen);
}

int main(void) {
  static hr_model family;
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_whole), cmocka_unit_test(test_frozen)};
  family = hr_model_video_caption;
  family.family = "shown";
  family.forward = forward;
  hr__model_register(&family);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
