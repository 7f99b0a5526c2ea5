/* A gated perceptron trained from one graph on the CPU and on the GPU: the same losses and weights within f32, the
 * device program replayed as a CUDA graph, and the driver's count of memory as planned. Skipped (77) without a GPU. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "dev/cuda/plugin.h"
#include "grad/grad.h"
#include "op/linear.h"
#include "op/mse.h"
#include "op/swiglu.h"
#include "pass/update.h"
#include "run/run.h"

typedef struct shape {
  int64_t rows, in, hidden, out;
} shape;

static const char *const PARAMETERS[] = {"gate.weight", "gate.bias",   "up.weight",
                                         "up.bias",     "down.weight", "down.bias"};
enum { N_PARAMETERS = sizeof PARAMETERS / sizeof *PARAMETERS, STEPS = 100 };

static void check(hr_status status, const hr_error *err) {
  if (status != HR_OK) fail_msg("%s: %s (%s)", err->place, err->message, err->remedy);
}

static hr_id layer_emit(hr_builder *b, const char *name, hr_id x, int64_t in, int64_t out) {
  char weight[32], bias[32];
  snprintf(weight, sizeof weight, "%s.weight", name);
  snprintf(bias, sizeof bias, "%s.bias", name);
  hr__module(b, "%s", name);
  hr_init normal = {.rule = HR_INIT_NORMAL, .a = 1.0f / sqrtf((float)in)}, small = {.rule = HR_INIT_NORMAL, .a = 0.1f};
  hr_id w = hr__parameter(b, weight, hr__desc2(b->dtype, out, in), normal);
  return hr__linear(b, x, w, hr__parameter(b, bias, hr__desc1(b->dtype, out), small));
}

/* y = (silu(x Gt + g) * (x Ut + u)) Dt + d; loss = mean (y - t)^2; gradients; clipped AdamW. */
static hr_graph *graph_build(const shape *s) {
  hr_error err;
  hr_graph *graph;
  hr_builder b;
  check(hr__graph_create(&graph, &err), &err);
  hr__builder_init(&b, graph, HR_F32);
  hr__program_begin(&b, HR_PROGRAM_STEP);
  hr_id x = hr__input(&b, "x", hr__desc2(HR_F32, s->rows, s->in));
  hr_id t = hr__input(&b, "t", hr__desc2(HR_F32, s->rows, s->out));
  hr_id gate = layer_emit(&b, "gate", x, s->in, s->hidden), up = layer_emit(&b, "up", x, s->in, s->hidden);
  hr__module(&b, "act");
  hr_id h = hr__swiglu(&b, gate, up);
  hr_id y = layer_emit(&b, "down", h, s->hidden, s->out);
  hr__module(&b, "loss");
  hr_id loss = hr__mse(&b, y, t);
  hr__program_set_output(&b, "loss", loss);
  check(hr__builder_status(&b, &err), &err);
  check(hr__grad(&b, &(hr_loss){loss, 1.0f}, 1, HR_GRAD_TRANSIENT, &err), &err);
  hr_update_settings settings = {.beta1 = 0.9f, .beta2 = 0.95f, .eps = 1e-8f, .weight_decay = 0.1f, .clip_norm = 1.0f};
  check(hr__update_emit(&b, &settings, &err), &err);
  check(hr__graph_verify(graph, &err), &err);
  return graph;
}

/* One device with the plan of the graph for it, and the run. */
typedef struct side {
  hr_device *device;
  hr_plan *plan;
  hr_run *run;
} side;

static void side_open(side *s, const hr_graph *graph, hr_status (*open_device)(hr_device **, hr_error *)) {
  hr_error err;
  hr_rates rates;
  hr_plan_options options = {.accumulation = 1};
  check(open_device(&s->device, &err), &err);
  hr__rates_default(&s->device->facts, &rates);
  check(hr__plan_build(graph, &s->device->facts, &rates, &options, &s->plan, &err), &err);
  hr__rates_fini(&rates);
  check(hr__run_create(s->plan, s->device, NULL, &s->run, &err), &err);
  check(hr__run_init_values(s->run, 7, &err), &err);
}

static void side_close(side *s) {
  hr__run_destroy(s->run);
  hr__plan_destroy(s->plan);
  hr__device_close(s->device);
}

/* Batch `step`: x is normal, every target the product of two neighbours in x. */
static void batch_make(const shape *s, uint64_t step, float *x, float *t) {
  hr_random_key key = {.seed = 3, .stream = hr__random_stream("x")};
  for (int64_t i = 0; i < s->rows * s->in; i++)
    x[i] = hr__random_normal(key, step, (uint64_t)i);
  for (int64_t r = 0; r < s->rows; r++)
    for (int64_t o = 0; o < s->out; o++)
      t[r * s->out + o] = x[r * s->in + o % s->in] * x[r * s->in + (o + 1) % s->in];
}

static void control_write(side *s, const hr_graph *graph, uint64_t step, uint32_t skip) {
  hr_error err;
  hr_control control = {.seed = 11,
                        .step = step,
                        .learning_rate = 1e-3f,
                        .bias_correction1 = (float)(1.0 - pow(0.9, (double)step)),
                        .bias_correction2 = (float)(1.0 - pow(0.95, (double)step)),
                        .loss_weight = 1.0f,
                        .loss_scale = 1.0f,
                        .skip = skip};
  check(hr__run_write(s->run, hr__graph_find_value(graph, "control"), 0, &control, sizeof control, &err), &err);
}

static float step_run(side *s, const hr_graph *graph) {
  hr_error err;
  float loss;
  check(hr__run_program(s->run, 0, &err), &err);
  check(hr__run_read(s->run, hr__program_output(graph, 0, "loss"), 0, &loss, sizeof loss, &err), &err);
  return loss;
}

static void batch_write(side *s, const hr_graph *graph, const shape *size, const float *x, const float *t) {
  hr_error err;
  size_t x_bytes = (size_t)(size->rows * size->in) * sizeof *x, t_bytes = (size_t)(size->rows * size->out) * sizeof *t;
  check(hr__run_write(s->run, hr__program_input(graph, 0, "x"), 0, x, x_bytes, &err), &err);
  check(hr__run_write(s->run, hr__program_input(graph, 0, "t"), 0, t, t_bytes, &err), &err);
}

static float *value_read(side *s, const hr_graph *graph, const char *name, size_t *count) {
  hr_error err;
  hr_id value = hr__graph_find_value(graph, name);
  assert_int_not_equal(value, HR_NONE);
  size_t bytes = hr_desc_bytes(&graph->values[value].desc);
  float *data = malloc(bytes);
  assert_non_null(data);
  check(hr__run_read(s->run, value, 0, data, bytes, &err), &err);
  *count = bytes / sizeof *data;
  return data;
}

static void weights_compare(side *cpu, side *gpu, const hr_graph *graph) {
  double worst = 0;
  for (int p = 0; p < N_PARAMETERS; p++) {
    size_t count;
    float *expected = value_read(cpu, graph, PARAMETERS[p], &count),
          *got = value_read(gpu, graph, PARAMETERS[p], &count);
    double difference = 0, size = 0;
    for (size_t i = 0; i < count; i++) {
      difference += pow((double)got[i] - (double)expected[i], 2);
      size += pow((double)expected[i], 2);
    }
    double error = sqrt(difference / size);
    if (!(error <= 1e-4)) fail_msg("%s differs by %.2e (relative L2) after %d steps", PARAMETERS[p], error, STEPS);
    worst = fmax(worst, error);
    free(expected);
    free(got);
  }
  print_message("weights after %d steps: GPU within %.1e of the CPU (relative L2)\n", STEPS, worst);
}

/* A step whose predicate says skip computes its loss and changes no bit of the weights. */
static void skip_holds(side *s, const hr_graph *graph) {
  size_t count;
  float *before = value_read(s, graph, "down.weight", &count);
  control_write(s, graph, STEPS + 1, 1);
  assert_true(isfinite(step_run(s, graph)));
  float *after = value_read(s, graph, "down.weight", &count);
  assert_memory_equal(before, after, count * sizeof *before);
  free(before);
  free(after);
}

static void test_training(void **state) {
  (void)state;
  static const shape size = {.rows = 128, .in = 64, .hidden = 256, .out = 32};
  hr_graph *graph = graph_build(&size);
  side cpu, gpu;
  side_open(&cpu, graph, hr__cpu_open);
  side_open(&gpu, graph, hr__cuda_open);
  float *x = malloc((size_t)(size.rows * size.in) * sizeof *x), *t = malloc((size_t)(size.rows * size.out) * sizeof *t);
  assert_true(x && t);
  double worst = 0, first = 0, last = 0;
  for (uint64_t step = 1; step <= STEPS; step++) {
    batch_make(&size, step, x, t);
    side *const sides[] = {&cpu, &gpu};
    double loss[2];
    for (int i = 0; i < 2; i++) {
      batch_write(sides[i], graph, &size, x, t);
      control_write(sides[i], graph, step, 0);
      loss[i] = (double)step_run(sides[i], graph);
    }
    double error = fabs(loss[1] - loss[0]) / loss[0];
    if (!(error <= 1e-4)) fail_msg("step %d: loss %.9g on the GPU, %.9g on the CPU", (int)step, loss[1], loss[0]);
    worst = fmax(worst, error);
    if (step == 1) first = loss[1];
    last = loss[1];
  }
  print_message("%d losses: GPU within %.1e of the CPU; loss %.4f -> %.4f\n", STEPS, worst, first, last);
  assert_true(last < 0.9 * first);
  weights_compare(&cpu, &gpu, graph);

  const hr_cuda_counts *counts = gpu.device->state;
  assert_int_equal(counts->graphs, 1);
  assert_int_equal(counts->graph_launches, STEPS);
  assert_int_equal(counts->launches, 0);
  skip_holds(&gpu, graph);
  free(x);
  free(t);
  side_close(&gpu);
  side_close(&cpu);
  hr__graph_destroy(graph);
}

/* A plan of about 1 GiB: what the driver counts for the process is what was planned, and stays so. */
static void test_memory(void **state) {
  (void)state;
  static const shape size = {.rows = 2048, .in = 4096, .hidden = 4096, .out = 4096};
  hr_graph *graph = graph_build(&size);
  hr_error err;
  side gpu;
  side_open(&gpu, graph, hr__cuda_open);
  float *x = malloc((size_t)(size.rows * size.in) * sizeof *x), *t = malloc((size_t)(size.rows * size.out) * sizeof *t);
  assert_true(x && t);
  batch_make(&size, 1, x, t);
  uint64_t measured[2];
  for (int half = 0; half < 2; half++) {
    for (uint64_t step = 1; step <= STEPS; step++) {
      batch_write(&gpu, graph, &size, x, t); /* inputs are transient: a step gives their room to others */
      control_write(&gpu, graph, (uint64_t)half * STEPS + step, 0);
      assert_true(isfinite(step_run(&gpu, graph)));
    }
    check(gpu.device->functions->process_bytes(gpu.device, &measured[half], &err), &err);
  }
  uint64_t planned = gpu.plan->tiers[HR_TIER_DEVICE].peak_bytes;
  print_message("planned %.1f MiB (%.1f fixed), driver reports %.1f MiB, after %d more steps %.1f MiB\n",
                (double)planned / 0x1p20, (double)gpu.device->facts.fixed_bytes / 0x1p20, (double)measured[0] / 0x1p20,
                STEPS, (double)measured[1] / 0x1p20);
  double tolerance = fmax(0.01 * (double)planned, 32.0 * 0x1p20);
  assert_true(fabs((double)measured[0] - (double)planned) <= tolerance);
  assert_int_equal(measured[0], measured[1]);
  free(x);
  free(t);
  side_close(&gpu);
  hr__graph_destroy(graph);
}

int main(void) {
  hr_error err;
  hr_device *device;
  hr_status status = hr__cuda_open(&device, &err);
  if (status == HR_UNSUPPORTED) {
    print_message("skipped: %s\n", err.message);
    return 77;
  }
  if (status == HR_OK) hr__device_close(device);
  /* With few cases no large net: for where the GPU is emulated. */
  const char *cases = getenv("HEADROOM_CASES");
  const struct CMUnitTest all[] = {cmocka_unit_test(test_training), cmocka_unit_test(test_memory)};
  const struct CMUnitTest few[] = {cmocka_unit_test(test_training)};
  return cases && strcmp(cases, "few") == 0 ? cmocka_run_group_tests_name("perceptron on CPU and GPU", few, NULL, NULL)
                                            : cmocka_run_group_tests_name("perceptron on CPU and GPU", all, NULL, NULL);
}
