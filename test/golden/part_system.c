/* See part_system.h. */
#include "part_system.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/half.h"
#include "job/settings.h"

static void weight_put(golden *g, const system_case *c, hr_id v) {
  hr_error err;
  char name[300], other[300];
  size_t count;
  const hr_value *value = &g->graph->values[v];
  snprintf(name, sizeof name, "w.%s", value->name);
  const char *called = name;
  if (c->other_name && !hr__safetensors_find(g->io, name)) called = c->other_name(value->name, other);
  float *data = golden_tensor(g, g->io, called, "F32", sizeof(float), &count);
  bool narrow = value->desc.dtype == HR_BF16; /* frozen, with bf16-mixed */
  assert_int_equal(count, hr_desc_count(&value->desc));
  for (size_t i = 0; narrow && i < count; i++)
    ((uint16_t *)(void *)data)[i] = hr__f32_to_bf16(data[i]);
  check(hr__run_write(g->run, v, 0, data, count * (narrow ? sizeof(uint16_t) : sizeof *data), &err), &err);
}

static void weights_put(golden *g, const system_case *c) {
  size_t written = 0;
  for (hr_id v = 0; v < g->graph->n_values; v++) {
    hr_role role = g->graph->buffers[g->graph->values[v].buffer].role;
    if (!hr__graph_is_tensor(g->graph, v) || (role != HR_ROLE_PARAMETER && role != HR_ROLE_STATE)) continue;
    if (role == HR_ROLE_STATE && c->own_state) continue;
    weight_put(g, c, v);
    written++;
  }
  assert_true(written > c->least);
}

void system_open(golden *g, const system_case *c, int accumulation, const char *precision) {
  hr_error err;
  char accumulated[64], precise[64];
  const char *set[2 + sizeof c->set / sizeof *c->set] = {accumulated, precise};
  size_t count = 2;
  *g = (golden){0};
  hr__arena_init(&g->arena);
  snprintf(g->folder, sizeof g->folder, "%s/test/golden/%s.safetensors", HR_SOURCE_DIR, c->file);
  check(hr__safetensors_open(g->folder, &g->io, &err), &err);
  snprintf(accumulated, sizeof accumulated, "training.gradient_accumulation=%d", accumulation);
  snprintf(precise, sizeof precise, "model.precision=%s", precision);
  for (size_t i = 0; i < sizeof c->set / sizeof *c->set && c->set[i]; i++)
    set[count++] = c->set[i];
  check(hr__settings_parse("golden.yaml", ".", c->recipe, strlen(c->recipe), set, count, &g->recipe, &err), &err);
  check(hr__compile(g->recipe, NULL, NULL, &g->graph, &err), &err);
  golden_bind(g, accumulation);
  weights_put(g, c);
}

system_field system_read(golden *g, const char *field, int64_t number, int64_t batches) {
  hr_error err;
  const hr_safetensor *tensor = hr__safetensors_find(g->io, field);
  if (!tensor) fail_msg("%s: no tensor %s", g->folder, field);
  system_field f = {.bytes = (size_t)(tensor->end - tensor->begin) / (size_t)batches};
  f.data = hr__arena_alloc(&g->arena, f.bytes);
  check(hr__safetensors_read(g->io, tensor, (uint64_t)(number % batches) * f.bytes, f.data, f.bytes, &err), &err);
  return f;
}

void system_write(golden *g, hr_id program, const char *input, const void *data, size_t bytes) {
  hr_error err;
  hr_id value = hr__program_input(g->graph, program, input);
  if (value != HR_NONE) check(hr__run_write(g->run, value, 0, data, bytes, &err), &err);
}

system_field system_feed(golden *g, hr_id program, const char *field, int64_t number, int64_t batches) {
  system_field f = system_read(g, field, number, batches);
  system_write(g, program, field, f.data, f.bytes);
  return f;
}

void system_run(golden *g, const system_case *c, hr_id program, int64_t number, float loss_weight) {
  hr_error err;
  hr_control control = {.seed = 1,
                        .step = (uint64_t)number + 1,
                        .learning_rate = 1e-3f,
                        .bias_correction1 = (float)(1.0 - pow(0.9, (double)number + 1.0)),
                        .bias_correction2 = (float)(1.0 - pow(0.95, (double)number + 1.0)),
                        .loss_weight = loss_weight,
                        .loss_scale = 1,
                        .valid_rows = (uint32_t)c->samples};
  check(hr__run_write(g->run, hr__graph_find_value(g->graph, "control"), 0, &control, sizeof control, &err), &err);
  check(hr__run_program(g->run, program, &err), &err);
}

double system_output(golden *g, hr_id program, const char *name) {
  hr_error err;
  float number;
  check(hr__run_read(g->run, hr__program_output(g->graph, program, name), 0, &number, sizeof number, &err), &err);
  return (double)number;
}

void system_output_near(golden *g, hr_program_kind kind, const char *name, double tolerance) {
  size_t count;
  const float *expected = golden_tensor(g, g->io, name, "F32", sizeof(float), &count);
  hr_id value = hr__program_output(g->graph, hr__graph_find_kind(g->graph, kind), name);
  double off = golden_distance(g, value, expected, count);
  if (!(off <= tolerance)) fail_msg("%s: %s is off by %.2e", g->folder, name, off);
}

int system_targets(const system_field *targets) {
  int count = 0;
  for (size_t i = 0; i < targets->bytes / sizeof(int32_t); i++)
    count += ((const int32_t *)targets->data)[i] >= 0;
  return count;
}

void system_gradients(golden *g, const system_case *c) {
  size_t compared = 0, count;
  double worst = 0;
  for (size_t t = 0; t < hr__safetensors_count(g->io); t++) {
    const hr_safetensor *tensor = hr__safetensors_at(g->io, t);
    char wanted[300];
    if (strncmp(tensor->name, "g.", 2) != 0 || (c->rounding && c->rounding(tensor->name))) continue;
    snprintf(wanted, sizeof wanted, "grad.%s", tensor->name + 2);
    hr_id gradient = hr__graph_find_value(g->graph, wanted);
    if (gradient == HR_NONE) fail_msg("%s has no gradient", tensor->name + 2);
    const float *expected = golden_tensor(g, g->io, tensor->name, "F32", sizeof(float), &count);
    double off = golden_distance(g, gradient, expected, count);
    if (!(off <= 1e-4)) fail_msg("%s: %s is off by %.2e", c->file, wanted, off);
    worst = fmax(worst, off);
    compared++;
  }
  print_message("%s: %zu gradients within %.1e of PyTorch\n", c->file, compared, worst);
  assert_true(compared > c->least);
}
