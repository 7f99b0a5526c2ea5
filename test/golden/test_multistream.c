/* The multistream model against PyTorch (make_multistream.py): what it makes of a batch, its five losses, every
 * gradient of the first step, and ten steps. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "job/settings.h"
#include "model/model.h"
#include "part_golden.h"

enum { SAMPLES = 3, STEPS = 10, LOSSES = 5 };

static const char recipe[] =
    "model:\n"
    "  family: shown\n"
    "  config: { frames: 4, frame_height: 12, frame_width: 14, head_size: 7, head_last: 5, head_dropout: 0 }\n"
    "  parts:\n"
    "    video: { config: { width: 2, groups: 1, embedding: 6 } }\n"
    "    geometry: { config: { hidden: 10, embedding: 6, importance: 4, dropout: 0 } }\n"
    "    temporal: { config: { width: 8, heads: 2, layers: 2, mlp: 12, embedding: 8, dropout: 0 } }\n"
    "    cooling: { config: { hidden: 16, embedding: 5, dropout: 0 } }\n"
    "    fusion: { config: { width: 12, heads: 3, layers: 2, image: 8, thermal: 6, motion: 16, class_width: 4,\n"
    "                        classes: 5, dropout: 0 } }\n"
    "data: { source: synthetic }\n"
    "training:\n"
    "  batch_size: 3\n"
    "  steps: 10\n"
    "  eval_every: 10\n"
    "  optimizer: { kind: adamw, lr: 1e-3, betas: [0.9, 0.95], eps: 1e-6, weight_decay: 0.1 }\n"
    "  clip_norm: 1.0\n";

/* Losses as the program and as the file call them. */
static const char *const losses[LOSSES] = {"event", "outcome", "brier", "order", "mask"};
static const char *const in_file[LOSSES] = {"event", "outcome", "brier", "order", "mask_loss"};
static const char *const outputs[] = {"points", "importance", "tau", "kinds", "logits"};

/* The family with the mask's logits as an output: what its module makes last. */
static hr_id forward(hr_builder *b, const hr_model_part *part, const hr_model_batch *batch) {
  hr_id loss = hr_model_multistream.forward(b, part, batch), made = HR_NONE;
  for (size_t n = 0; b->status == HR_OK && n < b->graph->n_nodes; n++)
    if (b->graph->nodes[n].program == b->program && strcmp(b->graph->nodes[n].module, "video.mask") == 0)
      made = b->graph->nodes[n].out[0];
  if (b->status == HR_OK) hr__program_set_output(b, "logits", made);
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
    assert_int_equal(count, hr_desc_count(&value->desc));
    check(hr__run_write(g->run, v, 0, data, count * sizeof *data, &err), &err);
    written++;
  }
  assert_true(written > 100);
}

static void case_open(golden *g, int accumulation, const char *precision) {
  hr_error err;
  char path[600], accumulated[64], precise[64];
  *g = (golden){0};
  hr__arena_init(&g->arena);
  snprintf(path, sizeof path, "%s/test/golden/multistream/whole.safetensors", HR_SOURCE_DIR);
  snprintf(g->folder, sizeof g->folder, "%s", path);
  check(hr__safetensors_open(path, &g->io, &err), &err);
  snprintf(accumulated, sizeof accumulated, "training.gradient_accumulation=%d", accumulation);
  snprintf(precise, sizeof precise, "model.precision=%s", precision);
  const char *const set[] = {accumulated, precise};
  check(hr__settings_parse("golden.yaml", ".", recipe, strlen(recipe), set, 2, &g->recipe, &err), &err);
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

/* Runs a program on batch `number`; gives its losses, each the mean over samples. */
static void step_run(golden *g, hr_program_kind kind, int64_t number, double out[LOSSES]) {
  static const char *const fields[] = {"rgb",         "frame_mask", "motion",   "motion_features", "curves",
                                       "curve_areas", "curve_mask", "class_id", "event_label",     "outcome_label"};
  static const char *const factors[] = {"event", "outcome", "brier", "order", "mask", "event_right", "outcome_right"};
  hr_error err;
  hr_id program = hr__graph_find_kind(g->graph, kind);
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
    const hr_safetensor *tensor = hr__safetensors_find(g->io, fields[i]);
    assert_non_null(tensor);
    size_t bytes = (size_t)(tensor->end - tensor->begin) / STEPS;
    char *data = hr__arena_alloc(&g->arena, bytes);
    check(hr__safetensors_read(g->io, tensor, (uint64_t)number * bytes, data, bytes, &err), &err);
    check(hr__run_write(g->run, hr__program_input(g->graph, program, fields[i]), 0, data, bytes, &err), &err);
  }
  for (size_t i = 0; i < sizeof factors / sizeof *factors; i++) {
    float factor = 1.0f / SAMPLES;
    hr_id input = hr__program_input(g->graph, program, factors[i]);
    if (input != HR_NONE) check(hr__run_write(g->run, input, 0, &factor, sizeof factor, &err), &err);
  }
  hr_control control = {.seed = 1,
                        .step = (uint64_t)number + 1,
                        .learning_rate = 1e-3f,
                        .bias_correction1 = (float)(1.0 - pow(0.9, (double)number + 1.0)),
                        .bias_correction2 = (float)(1.0 - pow(0.95, (double)number + 1.0)),
                        .loss_weight = 1,
                        .loss_scale = 1,
                        .valid_rows = SAMPLES};
  check(hr__run_write(g->run, hr__graph_find_value(g->graph, "control"), 0, &control, sizeof control, &err), &err);
  check(hr__run_program(g->run, program, &err), &err);
  for (int i = 0; i < LOSSES; i++) {
    float sum;
    check(hr__run_read(g->run, hr__program_output(g->graph, program, losses[i]), 0, &sum, sizeof sum, &err), &err);
    out[i] = (double)sum / SAMPLES;
  }
}

/* Each loss as a part of the sum that is trained on: one of them may be 0. */
static void losses_expect(golden *g, int64_t step, const double got[LOSSES], double tolerance) {
  static const double weights[LOSSES] = {1, 1, 0.25, 0.2, 1};
  double expected[LOSSES], whole = 0;
  for (int i = 0; i < LOSSES; i++) {
    expected[i] = (double)((const float *)golden_tensor(g, g->io, in_file[i], "F32", sizeof(float), NULL))[step];
    whole += weights[i] * expected[i];
  }
  for (int i = 0; i < LOSSES; i++)
    if (!(fabs(got[i] - expected[i]) <= tolerance * whole))
      fail_msg("loss %s of step %d: %.9g, expected %.9g", losses[i], (int)step + 1, got[i], expected[i]);
}

static void test_what_it_makes_of_a_batch(void **state) {
  golden g;
  size_t count;
  double got[LOSSES];
  (void)state;
  case_open(&g, 1, "32-true");
  step_run(&g, HR_PROGRAM_EVAL, 0, got);
  losses_expect(&g, 0, got, 1e-6);
  for (size_t i = 0; i < sizeof outputs / sizeof *outputs; i++) {
    const char *name = strcmp(outputs[i], "logits") == 0 ? "mask" : outputs[i];
    const float *expected = golden_tensor(&g, g.io, name, "F32", sizeof(float), &count);
    hr_id value = hr__program_output(g.graph, hr__graph_find_kind(g.graph, HR_PROGRAM_EVAL), outputs[i]);
    double off = golden_distance(&g, value, expected, count);
    if (!(off <= 1e-5)) fail_msg("%s is off by %.2e", outputs[i], off);
  }
  golden_close(&g);
}

/* With accumulation the gradients stay in memory after the program: grad.<parameter>. That of a key's bias, which
 * shifts all scores of a query alike, and that of the last bias before a softmax, are rounding and nothing else. */
static void test_gradients(void **state) {
  golden g;
  size_t compared = 0, count;
  double worst = 0, got[LOSSES];
  (void)state;
  case_open(&g, 2, "32-true");
  step_run(&g, HR_PROGRAM_MICRO_FIRST, 0, got);
  for (size_t t = 0; t < hr__safetensors_count(g.io); t++) {
    const hr_safetensor *tensor = hr__safetensors_at(g.io, t);
    char wanted[300];
    if (strncmp(tensor->name, "g.", 2) != 0 || strstr(tensor->name, "k_proj.bias")) continue;
    if (strcmp(tensor->name, "g.cooling.attention.2.bias") == 0) continue;
    snprintf(wanted, sizeof wanted, "grad.%s", tensor->name + 2);
    hr_id gradient = hr__graph_find_value(g.graph, wanted);
    if (gradient == HR_NONE) fail_msg("%s has no gradient", tensor->name + 2);
    const float *expected = golden_tensor(&g, g.io, tensor->name, "F32", sizeof(float), &count);
    double off = golden_distance(&g, gradient, expected, count);
    if (!(off <= 1e-4)) fail_msg("%s is off by %.2e", wanted, off);
    worst = fmax(worst, off);
    compared++;
  }
  print_message("%zu gradients within %.1e of PyTorch\n", compared, worst);
  assert_true(compared > 100);
  golden_close(&g);
}

static void steps_compare(const char *precision, double tolerance) {
  golden g;
  case_open(&g, 1, precision);
  for (int64_t step = 0; step < STEPS; step++) {
    double got[LOSSES];
    step_run(&g, HR_PROGRAM_STEP, step, got);
    losses_expect(&g, step, got, tolerance);
  }
  golden_close(&g);
}

static void test_ten_steps(void **state) {
  (void)state;
  steps_compare("32-true", 1e-5);
  steps_compare("bf16-mixed", 2e-2);
}

/* At the sizes that the system is described with; those of frames change none of them. */
static void test_sizes_as_described(void **state) {
  static const char described[] =
      "model: { family: multistream, config: { frames: 4, frame_height: 16, frame_width: 16 } }\n"
      "data: { source: synthetic }\n"
      "training: { batch_size: 1, steps: 1, eval_every: 1 }\n";
  static const struct {
    const char *part;
    int64_t parameters;
  } parts[] = {{"video.", 3024193},  {"geometry.", 51205},  {"temporal.", 1044288},
               {"cooling.", 181892}, {"fusion.", 10762656}, {"heads.", 295682}}; /* the last two: 11058338 together */
  hr_error err;
  hr_recipe *parsed;
  hr_graph *graph;
  (void)state;
  check(hr__settings_parse("sizes.yaml", ".", described, strlen(described), NULL, 0, &parsed, &err), &err);
  check(hr__compile(parsed, NULL, NULL, &graph, &err), &err);
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    int64_t sum = 0;
    for (hr_id v = 0; v < graph->n_values; v++)
      if (hr__graph_is_tensor(graph, v) && graph->buffers[graph->values[v].buffer].role == HR_ROLE_PARAMETER &&
          strncmp(graph->values[v].name, parts[i].part, strlen(parts[i].part)) == 0)
        sum += hr_desc_count(&graph->values[v].desc);
    if (sum != parts[i].parameters)
      fail_msg("%s has %lld parameters, expected %lld", parts[i].part, (long long)sum, (long long)parts[i].parameters);
  }
  hr__graph_destroy(graph);
  hr__recipe_destroy(parsed);
}

int main(void) {
  static hr_model family;
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_what_it_makes_of_a_batch), cmocka_unit_test(test_gradients),
                                     cmocka_unit_test(test_ten_steps), cmocka_unit_test(test_sizes_as_described)};
  family = hr_model_multistream;
  family.family = "shown";
  family.forward = forward;
  hr__model_register(&family);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
