/* Llama against PyTorch: logits, loss, every gradient, and the losses of ten AdamW steps, from the files that
 * make_llama.py wrote. The model is loaded the way a user loads a checkpoint: a recipe with model.path. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "format/file.h"
#include "format/safetensors.h"
#include "model/weights.h"
#include "op/head_loss.h"
#include "op/linear.h"
#include "pass/compile.h"
#include "run/run.h"
#include "train/settings.h"

static const double LOGITS = 1e-5, LOSS = 1e-6, GRADIENT = 1e-4, STEPS = 1e-5;

static void check(hr_status status, const hr_error *err) {
  if (status != HR_OK) fail_msg("%s: %s (%s)", err->place, err->message, err->remedy);
}

/* One case: its files, and a program of its model on the CPU with the golden weights. */
typedef struct golden {
  hr_arena arena;
  char folder[512];
  hr_safetensors *io;
  int64_t steps, batch, length;
  int32_t *tokens, *targets; /* [steps, batch, length] */
  hr_recipe *recipe;
  hr_graph *graph;
  hr_device *device;
  hr_plan *plan;
  hr_run *run;
} golden;

static void *tensor_read(golden *g, const char *name, const char *dtype, size_t element, size_t *count) {
  hr_error err;
  const hr_safetensor *tensor = hr__safetensors_find(g->io, name);
  if (!tensor) fail_msg("%s/io.safetensors has no %s", g->folder, name);
  assert_string_equal(tensor->dtype, dtype);
  size_t bytes = (size_t)(tensor->end - tensor->begin);
  void *data = hr__arena_alloc(&g->arena, bytes);
  assert_non_null(data);
  check(hr__safetensors_read(g->io, tensor, 0, data, bytes, &err), &err);
  if (count) *count = bytes / element;
  return data;
}

static void golden_open(golden *g, const char *name, int accumulation) {
  hr_error err;
  char path[600], text[1536];
  *g = (golden){0};
  hr__arena_init(&g->arena);
  snprintf(g->folder, sizeof g->folder, "%s/test/golden/llama/%s", HR_SOURCE_DIR, name);
  snprintf(path, sizeof path, "%s/io.safetensors", g->folder);
  check(hr__safetensors_open(path, &g->io, &err), &err);
  const hr_safetensor *tokens = hr__safetensors_find(g->io, "tokens");
  assert_non_null(tokens);
  g->steps = tokens->dim[0];
  g->batch = tokens->dim[1];
  g->length = tokens->dim[2];
  g->tokens = tensor_read(g, "tokens", "I32", sizeof(int32_t), NULL);
  g->targets = tensor_read(g, "targets", "I32", sizeof(int32_t), NULL);

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
  check(hr__settings_parse("golden.yaml", g->folder, text, (size_t)bytes, NULL, 0, &g->recipe, &err), &err);
}

static void weights_load(golden *g) {
  hr_error err;
  hr_weights *weights;
  check(hr__weights_open(g->folder, g->graph, &weights, &err), &err);
  for (hr_id v = 0; v < g->graph->n_values; v++) {
    const hr_value *value = &g->graph->values[v];
    if (value->producer != HR_NONE || g->graph->buffers[value->buffer].role != HR_ROLE_PARAMETER) continue;
    size_t bytes = hr_desc_bytes(&value->desc);
    void *data = malloc(bytes);
    assert_non_null(data);
    check(hr__weights_read(weights, v, 0, hr_desc_count(&value->desc), data, &err), &err);
    check(hr__run_write(g->run, v, 0, data, bytes, &err), &err);
    free(data);
  }
  hr__weights_close(weights);
}

static void golden_start(golden *g, int accumulation) {
  hr_error err;
  hr_rates rates;
  hr_plan_options options = {.accumulation = accumulation};
  check(hr__cpu_open(&g->device, &err), &err);
  hr__rates_default(&g->device->facts, &rates);
  check(hr__plan_build(g->graph, &g->device->facts, &rates, &options, &g->plan, &err), &err);
  hr__rates_fini(&rates);
  check(hr__run_create(g->plan, g->device, NULL, &g->run, &err), &err);
  check(hr__run_init_values(g->run, 1, &err), &err);
  weights_load(g);
}

static void golden_close(golden *g) {
  hr__run_destroy(g->run);
  hr__plan_destroy(g->plan);
  hr__device_close(g->device);
  hr__graph_destroy(g->graph);
  hr__recipe_destroy(g->recipe);
  hr__safetensors_close(g->io);
  hr__arena_fini(&g->arena);
}

/* Runs a program on batch `number` and gives its loss: the mean over the targets that count. */
static double program_run(golden *g, const char *name, int64_t number) {
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
                        .loss_scale = 1.0f,
                        .valid_rows = (uint32_t)g->batch};
  hr_id program = hr__graph_find_program(g->graph, name);
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

static void expect_near(double got, double expected, double tolerance, const char *what) {
  double error = fabs(got - expected) / fabs(expected);
  if (!(error <= tolerance)) fail_msg("%s: %.9g, expected %.9g: off by %.2e", what, got, expected, error);
}

/* Logits exist only here: the step itself never has them. Also the loss of the forward pass alone. */
static void logits_match(const char *name) {
  golden g;
  hr_error err;
  golden_open(&g, name, 1);
  const hr_model *model;
  check(hr__model_find(g.recipe, &model, &err), &err);
  check(model->check(g.recipe, &err), &err);
  check(hr__graph_create(&g.graph, &err), &err);
  hr_builder b;
  hr__builder_init(&b, g.graph, HR_F32);
  hr__program_begin(&b, "eval");
  hr_desc desc = hr__desc2(HR_I32, g.batch, g.length);
  hr_model_batch batch = {.batch = g.batch, .length = g.length};
  batch.tokens = hr__input(&b, "tokens", desc);
  batch.targets = hr__input(&b, "targets", desc);
  hr_id loss = model->forward(&b, g.recipe, &batch);
  check(hr__builder_status(&b, &err), &err);
  const hr_node *head = &g.graph->nodes[g.graph->values[loss].producer];
  assert_ptr_equal(head->op, &hr_op_head_loss);
  hr_id logits = hr__linear(&b, head->in[0], head->in[1], HR_NONE);
  hr__program_set_output(&b, "loss", loss);
  hr__program_set_output(&b, "logits", logits);
  check(hr__builder_status(&b, &err), &err);
  golden_start(&g, 1);

  size_t count;
  const float *expected_loss = tensor_read(&g, "loss", "F32", sizeof(float), NULL);
  const float *expected = tensor_read(&g, "logits", "F32", sizeof(float), &count);
  expect_near(program_run(&g, "eval", 0), (double)*expected_loss, LOSS, "loss of the forward pass");
  float *got = hr__arena_array(&g.arena, count, sizeof *got);
  check(hr__run_read(g.run, logits, 0, got, count * sizeof *got, &err), &err);
  double largest = 0, error = 0;
  for (size_t i = 0; i < count; i++) {
    largest = fmax(largest, fabs((double)expected[i]));
    error = fmax(error, fabs((double)got[i] - (double)expected[i]));
    if (!isfinite(got[i])) fail_msg("logit %zu is not finite", i);
  }
  print_message("%s: logits within %.1e of PyTorch\n", name, error / largest);
  if (error / largest > LOGITS) fail_msg("logits are off by %.2e", error / largest);
  golden_close(&g);
}

/* With accumulation the gradients stay in memory after the program: grad.<parameter>. */
static void gradients_match(const char *name) {
  golden g;
  hr_error err;
  golden_open(&g, name, 2);
  check(hr__compile(g.recipe, NULL, NULL, &g.graph, &err), &err);
  golden_start(&g, 2);
  const float *expected_loss = tensor_read(&g, "loss", "F32", sizeof(float), NULL);
  double loss = program_run(&g, "micro_first", 0);
  expect_near(loss, (double)*expected_loss, LOSS, "loss");

  size_t compared = 0;
  double worst = 0;
  for (size_t t = 0; t < hr__safetensors_count(g.io); t++) {
    const hr_safetensor *tensor = hr__safetensors_at(g.io, t);
    if (strncmp(tensor->name, "grad.", 5) != 0) continue;
    size_t count;
    const float *expected = tensor_read(&g, tensor->name, "F32", sizeof(float), &count);
    hr_id parameter = hr__graph_find_value(g.graph, tensor->name + 5);
    if (parameter == HR_NONE) fail_msg("the model has no parameter %s", tensor->name + 5);
    hr_id gradient = hr__graph_find_value(g.graph, tensor->name);
    if (gradient == HR_NONE) fail_msg("%s has no gradient", tensor->name + 5);
    assert_int_equal(hr_desc_count(&g.graph->values[gradient].desc), count);
    float *got = hr__arena_array(&g.arena, count, sizeof *got);
    check(hr__run_read(g.run, gradient, 0, got, count * sizeof *got, &err), &err);
    double difference = 0, size = 0;
    for (size_t i = 0; i < count; i++) {
      difference += pow((double)got[i] - (double)expected[i], 2);
      size += pow((double)expected[i], 2);
    }
    double error = sqrt(difference / size);
    if (!(error <= GRADIENT)) fail_msg("%s is off by %.2e (relative L2)", tensor->name, error);
    worst = fmax(worst, error);
    compared++;
  }
  size_t parameters = 0;
  for (hr_id v = 0; v < g.graph->n_values; v++)
    parameters += g.graph->values[v].trained;
  assert_int_equal(compared, parameters);
  print_message("%s: loss within %.1e, %zu gradients within %.1e of PyTorch\n", name,
                fabs(loss - (double)*expected_loss) / (double)*expected_loss, compared, worst);
  golden_close(&g);
}

static void steps_match(const char *name) {
  golden g;
  hr_error err;
  golden_open(&g, name, 1);
  check(hr__compile(g.recipe, NULL, NULL, &g.graph, &err), &err);
  golden_start(&g, 1);

  char path[600], *text;
  size_t bytes;
  hr_doc_node *document;
  snprintf(path, sizeof path, "%s/steps.json", g.folder);
  check(hr__file_read(path, 1 << 20, &g.arena, &text, &bytes, &err), &err);
  check(hr__json_parse(path, text, bytes, &g.arena, &document, &err), &err);
  hr_doc_node *losses = hr__doc_get(document, "losses"), *norms = hr__doc_get(document, "norms");
  assert_non_null(losses);
  assert_non_null(norms);
  const hr_doc_node *loss = losses->child, *norm = norms->child;
  hr_id norm_value = hr__program_output(g.graph, hr__graph_find_program(g.graph, "step"), "grad_norm");
  double worst = 0;
  for (int64_t step = 0; step < g.steps; step++, loss = loss->next, norm = norm->next) {
    double expected = 0, expected_norm = 0;
    assert_true(loss && hr__doc_float(loss, &expected) && norm && hr__doc_float(norm, &expected_norm));
    double got = program_run(&g, "step", step);
    char what[64];
    snprintf(what, sizeof what, "loss of step %d", (int)step + 1);
    expect_near(got, expected, STEPS, what);
    worst = fmax(worst, fabs(got - expected) / expected);
    float got_norm;
    check(hr__run_read(g.run, norm_value, 0, &got_norm, sizeof got_norm, &err), &err);
    expect_near((double)got_norm, expected_norm, GRADIENT, "gradient norm");
  }
  print_message("%s: %d AdamW losses within %.1e of PyTorch\n", name, (int)g.steps, worst);
  golden_close(&g);
}

static void test_logits(void **state) {
  logits_match(*state);
}
static void test_gradients(void **state) {
  gradients_match(*state);
}
static void test_steps(void **state) {
  steps_match(*state);
}

int main(void) {
  static char *const names[] = {"grouped-tied", "grouped-untied-rope", "odd-untied", "odd-tied-bias-rope"};
  enum { NAMES = sizeof names / sizeof *names, KINDS = 3 };
  static const struct {
    const char *name;
    CMUnitTestFunction function;
  } kinds[KINDS] = {{"logits", test_logits}, {"gradients", test_gradients}, {"steps", test_steps}};
  struct CMUnitTest tests[NAMES * KINDS];
  char titles[NAMES * KINDS][64];
  for (size_t i = 0; i < NAMES * KINDS; i++) {
    snprintf(titles[i], sizeof titles[i], "%s %s", names[i / KINDS], kinds[i % KINDS].name);
    tests[i] = (struct CMUnitTest){
        .name = titles[i], .test_func = kinds[i % KINDS].function, .initial_state = names[i / KINDS]};
  }
  return cmocka_run_group_tests_name("llama against PyTorch", tests, NULL, NULL);
}
