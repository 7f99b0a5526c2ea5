/* The sensor model against PyTorch (make_sensors.py), which pads on the left, permutes and masks: vectors of patches,
 * hidden states, the loss, every gradient of the first step, and ten steps; with a decoder trained whole, and with
 * adapters of a frozen one. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/half.h"
#include "job/settings.h"
#include "model/model.h"
#include "part_golden.h"

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

static const char whole[] = RECIPE("16", "      family: llama\n");
static const char adapters[] = RECIPE("32", "      adapters: { rank: 2, alpha: 4, targets: [all-linear] }\n");

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

/* Writes what the file has under "w." into the graph's values. */
static void weights_put(golden *g) {
  hr_error err;
  size_t count, written = 0;
  for (hr_id v = 0; v < g->graph->n_values; v++) {
    const hr_value *value = &g->graph->values[v];
    char name[300];
    if (!hr__graph_is_tensor(g->graph, v) || g->graph->buffers[value->buffer].role != HR_ROLE_PARAMETER) continue;
    snprintf(name, sizeof name, "w.%s", value->name);
    float *data = golden_tensor(g, g->io, name, "F32", sizeof(float), &count);
    bool narrow = value->desc.dtype == HR_BF16; /* frozen, with bf16-mixed */
    assert_int_equal(count, hr_desc_count(&value->desc));
    for (size_t i = 0; narrow && i < count; i++)
      ((uint16_t *)(void *)data)[i] = hr__f32_to_bf16(data[i]);
    check(hr__run_write(g->run, v, 0, data, count * (narrow ? sizeof(uint16_t) : sizeof *data), &err), &err);
    written++;
  }
  assert_true(written > 100);
}

static void case_open(golden *g, const char *name, const char *text, int accumulation, const char *precision) {
  hr_error err;
  char path[600];
  *g = (golden){0};
  hr__arena_init(&g->arena);
  snprintf(path, sizeof path, "%s/test/golden/sensors/%s.safetensors", HR_SOURCE_DIR, name);
  snprintf(g->folder, sizeof g->folder, "%s", path);
  check(hr__safetensors_open(path, &g->io, &err), &err);
  char accumulated[64], precise[64];
  snprintf(accumulated, sizeof accumulated, "training.gradient_accumulation=%d", accumulation);
  snprintf(precise, sizeof precise, "model.precision=%s", precision);
  const char *const set[] = {accumulated, precise};
  check(hr__settings_parse("golden.yaml", ".", text, strlen(text), set, 2, &g->recipe, &err), &err);
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

/* Runs a program on batch `number` and gives its loss, the mean over the answers' tokens. */
static double step_run(golden *g, hr_program_kind kind, int64_t number) {
  static const char *const fields[] = {"patches",    "statistics", "patch_counts", "patch_mask", "patch_positions",
                                       "patch_size", "tokens",     "placement",    "targets"};
  hr_error err;
  hr_id program = hr__graph_find_kind(g->graph, kind);
  int targets = 0;
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
    const hr_safetensor *tensor = hr__safetensors_find(g->io, fields[i]);
    assert_non_null(tensor);
    size_t bytes = (size_t)(tensor->end - tensor->begin) / STEPS;
    char *data = hr__arena_alloc(&g->arena, bytes);
    check(hr__safetensors_read(g->io, tensor, (uint64_t)number * bytes, data, bytes, &err), &err);
    check(hr__run_write(g->run, hr__program_input(g->graph, program, fields[i]), 0, data, bytes, &err), &err);
    for (size_t e = 0; strcmp(fields[i], "targets") == 0 && e < bytes / sizeof(int32_t); e++)
      targets += ((const int32_t *)(const void *)data)[e] >= 0;
  }
  hr_control control = {.seed = 1,
                        .step = (uint64_t)number + 1,
                        .learning_rate = 1e-3f,
                        .bias_correction1 = (float)(1.0 - pow(0.9, (double)number + 1.0)),
                        .bias_correction2 = (float)(1.0 - pow(0.95, (double)number + 1.0)),
                        .loss_weight = 1.0f / (float)targets,
                        .loss_scale = 1,
                        .valid_rows = SAMPLES};
  check(hr__run_write(g->run, hr__graph_find_value(g->graph, "control"), 0, &control, sizeof control, &err), &err);
  check(hr__run_program(g->run, program, &err), &err);
  float loss;
  check(hr__run_read(g->run, hr__program_output(g->graph, program, "loss"), 0, &loss, sizeof loss, &err), &err);
  return (double)loss;
}

static void forward_compare(const char *name, const char *text) {
  golden g;
  size_t count;
  case_open(&g, name, text, 1, "32-true");
  const float *losses = golden_tensor(&g, g.io, "loss", "F32", sizeof(float), NULL);
  expect_near(step_run(&g, HR_PROGRAM_EVAL, 0), (double)losses[0], 1e-6, "the first loss");
  for (int i = 0; i < 2; i++) {
    const float *expected = golden_tensor(&g, g.io, shown[i], "F32", sizeof(float), &count);
    hr_id value = hr__program_output(g.graph, hr__graph_find_kind(g.graph, HR_PROGRAM_EVAL), shown[i]);
    double off = golden_distance(&g, value, expected, count);
    if (!(off <= 1e-5)) fail_msg("%s: %s is off by %.2e", name, shown[i], off);
  }
  golden_close(&g);
}

/* With accumulation the gradients stay in memory after the program: grad.<parameter>. That of a key's bias, which
 * shifts all scores of a query alike, is rounding and nothing else. */
static void gradients_compare(const char *name, const char *text) {
  golden g;
  size_t compared = 0, count;
  double worst = 0;
  case_open(&g, name, text, 2, "32-true");
  step_run(&g, HR_PROGRAM_MICRO_FIRST, 0);
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
  assert_true(compared > 100);
  golden_close(&g);
}

static void steps_compare(const char *name, const char *text, const char *precision, double tolerance) {
  golden g;
  char what[64];
  case_open(&g, name, text, 1, precision);
  const float *losses = golden_tensor(&g, g.io, "loss", "F32", sizeof(float), NULL);
  for (int64_t step = 0; step < STEPS; step++) {
    snprintf(what, sizeof what, "%s: the loss of step %d", precision, (int)step + 1);
    expect_near(step_run(&g, HR_PROGRAM_STEP, step), (double)losses[step], tolerance, what);
  }
  golden_close(&g);
}

static void case_compare(const char *name, const char *text) {
  forward_compare(name, text);
  gradients_compare(name, text);
  steps_compare(name, text, "32-true", 1e-5);
  steps_compare(name, text, "bf16-mixed", 1e-2);
}

static void test_whole(void **state) {
  (void)state;
  case_compare("whole", whole);
}

static void test_adapters(void **state) {
  (void)state;
  case_compare("adapters", adapters);
}

int main(void) {
  static hr_model family;
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_whole), cmocka_unit_test(test_adapters)};
  family = hr_model_sensors;
  family.family = "shown";
  family.forward = forward;
  hr__model_register(&family);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
