#include "part_golden.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "job/settings.h"
#include "model/weights.h"

void check(hr_status status, const hr_error *err) {
  if (status != HR_OK) fail_msg("%s: %s (%s)", err->place, err->message, err->remedy);
}

void *golden_tensor(golden *g, hr_safetensors *file, const char *name, const char *dtype, size_t element,
                    size_t *count) {
  hr_error err;
  const hr_safetensor *tensor = hr__safetensors_find(file, name);
  if (!tensor) fail_msg("%s: no tensor %s", g->folder, name);
  assert_string_equal(tensor->dtype, dtype);
  size_t bytes = (size_t)(tensor->end - tensor->begin);
  void *data = hr__arena_alloc(&g->arena, bytes);
  assert_non_null(data);
  check(hr__safetensors_read(file, tensor, 0, data, bytes, &err), &err);
  if (count) *count = bytes / element;
  return data;
}

void golden_open(golden *g, const char *name, int accumulation, const char *const *overrides, size_t n_overrides) {
  hr_error err;
  char path[600], text[1536];
  *g = (golden){0};
  hr__arena_init(&g->arena);
  snprintf(g->folder, sizeof g->folder, "%s/test/golden/%s", HR_SOURCE_DIR, name);
  snprintf(path, sizeof path, "%s/io.safetensors", g->folder);
  check(hr__safetensors_open(path, &g->io, &err), &err);
  const hr_safetensor *tokens = hr__safetensors_find(g->io, "tokens");
  assert_non_null(tokens);
  g->steps = tokens->dim[0];
  g->batch = tokens->dim[1];
  g->length = tokens->dim[2];
  g->tokens = golden_tensor(g, g->io, "tokens", "I32", sizeof(int32_t), NULL);
  g->targets = golden_tensor(g, g->io, "targets", "I32", sizeof(int32_t), NULL);

  int bytes = snprintf(text, sizeof text,
                       "model: { path: \"%s\" }\n"
                       "data: { source: synthetic, sequence_length: %d }\n"
                       "training:\n"
                       "  batch_size: %d\n"
                       "  gradient_accumulation: %d\n"
                       "  steps: %d\n"
                       "  optimizer: { kind: adamw, lr: 1e-3, betas: [0.9, 0.95], eps: 1e-8, weight_decay: 0.1 }\n"
                       "  clip_norm: 1.0\n",
                       g->folder, (int)g->length, (int)g->batch, accumulation, (int)g->steps);
  check(hr__settings_parse("golden.yaml", g->folder, text, (size_t)bytes, overrides, n_overrides, &g->recipe, &err),
        &err);
}

typedef struct packed_source {
  hr_weights *weights;
  size_t number;
} packed_source;

static hr_status packed_read(void *user, int64_t first, int64_t count, float *to, hr_error *err) {
  const packed_source *source = user;
  return hr__weights_read_packed(source->weights, source->number, first, count, to, err);
}

static void weights_load(golden *g) {
  hr_error err;
  hr_weights *weights;
  hr_model_part part = hr__model_whole(g->recipe);
  check(hr__weights_open(g->folder, g->graph, &part, &weights, &err), &err);
  for (hr_id v = 0; v < g->graph->n_values; v++) {
    const hr_value *value = &g->graph->values[v];
    if (!hr__weights_has(weights, v)) continue; /* adapters stay as they begin */
    size_t bytes = hr_desc_bytes(&value->desc);
    void *data = malloc(bytes);
    assert_non_null(data);
    check(hr__weights_read(weights, v, 0, hr_desc_count(&value->desc), data, &err), &err);
    check(hr__run_write(g->run, v, 0, data, bytes, &err), &err);
    free(data);
  }
  for (size_t i = 0; i < g->graph->n_packed; i++) {
    packed_source source = {weights, i};
    check(hr__run_pack(g->run, &g->graph->packed[i], packed_read, &source, &err), &err);
  }
  hr__weights_close(weights);
}

void golden_bind(golden *g, int accumulation) {
  hr_error err;
  hr_rates rates;
  hr_plan_options options = {.accumulation = accumulation};
  check(hr__cpu_open(&g->device, &err), &err);
  hr__rates_default(&g->device->facts, &rates);
  check(hr__plan_build(g->graph, &g->device->facts, &rates, &options, &g->plan, &err), &err);
  hr__rates_fini(&rates);
  check(hr__run_create(g->plan, g->device, NULL, &g->run, &err), &err);
  check(hr__run_init_values(g->run, 1, &err), &err);
}

void golden_start(golden *g, int accumulation) {
  golden_bind(g, accumulation);
  weights_load(g);
}

void golden_close(golden *g) {
  hr__run_destroy(g->run);
  hr__plan_destroy(g->plan);
  hr__device_close(g->device);
  hr__graph_destroy(g->graph);
  hr__recipe_destroy(g->recipe);
  hr__safetensors_close(g->io);
  hr__arena_fini(&g->arena);
}

double golden_run(golden *g, hr_program_kind kind, int64_t number, float loss_scale) {
  hr_error err;
  int64_t count = g->batch * g->length, valid = 0;
  const int32_t *tokens = g->tokens + number * count, *targets = g->targets + number * count;
  for (int64_t i = 0; i < count; i++)
    valid += targets[i] >= 0;
  hr_control control = {.seed = 1,
                        .step = (uint64_t)number + 1,
                        .learning_rate = 1e-3f,
                        .bias_correction1 = (float)(1.0 - pow(0.9, (double)number + 1.0)),
                        .bias_correction2 = (float)(1.0 - pow(0.95, (double)number + 1.0)),
                        .loss_weight = (float)(1.0 / (double)valid),
                        .loss_scale = loss_scale,
                        .valid_rows = (uint32_t)g->batch};
  hr_id program = hr__graph_find_kind(g->graph, kind);
  assert_int_not_equal(program, HR_NONE);
  const struct {
    hr_id value;
    const void *data;
    size_t bytes;
  } inputs[] = {{hr__graph_find_value(g->graph, "control"), &control, sizeof control},
                {hr__program_input(g->graph, program, "tokens"), tokens, (size_t)count * sizeof *tokens},
                {hr__program_input(g->graph, program, "targets"), targets, (size_t)count * sizeof *targets}};
  for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) {
    assert_int_not_equal(inputs[i].value, HR_NONE);
    check(hr__run_write(g->run, inputs[i].value, 0, inputs[i].data, inputs[i].bytes, &err), &err);
  }
  check(hr__run_program(g->run, program, &err), &err);
  float loss;
  hr_id output = hr__program_output(g->graph, program, "loss");
  check(hr__run_read(g->run, output, 0, &loss, sizeof loss, &err), &err);
  return (double)loss;
}

void expect_near(double got, double expected, double tolerance, const char *what) {
  double error = fabs(got - expected) / fabs(expected);
  if (!(error <= tolerance)) fail_msg("%s: %.9g, expected %.9g: off by %.2e", what, got, expected, error);
}

double golden_distance(golden *g, hr_id value, const float *expected, size_t count) {
  hr_error err;
  assert_int_equal(hr_desc_count(&g->graph->values[value].desc), count);
  float *got = hr__arena_array(&g->arena, count, sizeof *got);
  assert_non_null(got);
  check(hr__run_read(g->run, value, 0, got, count * sizeof *got, &err), &err);
  double difference = 0, size = 0;
  for (size_t i = 0; i < count; i++) {
    difference += pow((double)got[i] - (double)expected[i], 2);
    size += pow((double)expected[i], 2);
  }
  return sqrt(difference / size);
}
