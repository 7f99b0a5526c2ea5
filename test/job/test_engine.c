/* What PyTorch is said to hold, against what it held: rows that were measured on a GPU (test/torch/measured.json), and
 * peaks of the public Python code traced on tensors without data (test/torch/oracle.json: a random sample of what
 * bench/torch_oracle drew). Those that are held out are judged apart: no rule was changed with an eye on them.
 * test/torch/drawn.json has random settings that were once simulated wrongly, test/torch/gemma.json Gemma 3.
 *
 * HR_ENGINE_VERBOSE=1 prints every case with its errors. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "dev/gpus.h"
#include "job/engine.h"
#include "job/job.h"
#include "job/settings.h"

static const double MIB = 1048576.0;
enum { RECIPE = 4096 };

static json_t *file_load(const char *name) {
  char path[512];
  snprintf(path, sizeof path, HR_SOURCE_DIR "/test/torch/%s", name);
  json_error_t why;
  json_t *root = json_load_file(path, 0, &why);
  if (!root) fail_msg("%s: %s", path, why.text);
  return root;
}

static const char *text_of(const json_t *object, const char *key, const char *otherwise) {
  const json_t *value = json_object_get(object, key);
  return value ? json_string_value(value) : otherwise;
}

static long long number_of(const json_t *object, const char *key, long long otherwise) {
  const json_t *value = json_object_get(object, key);
  return value ? json_integer_value(value) : otherwise;
}

/* A recipe with the settings of a row; adapters are plain ones, and gradients are not clipped. */
static void recipe_write(const json_t *shape, const json_t *row, char out[RECIPE]) {
  const char *precision = text_of(row, "precision", "bf16");
  bool adapted = strcmp(text_of(row, "method", "full"), "full") != 0;
  json_t *config = json_deep_copy(shape);
  json_object_del(config, "architecture");
  char *config_text = json_dumps(config, 0);
  int used = snprintf(out, RECIPE, "model: {family: llama, precision: %s, config: %s%s}\n",
                      strcmp(precision, "fp32") == 0  ? "32-true"
                      : strcmp(precision, "amp") == 0 ? "bf16-mixed"
                                                      : "bf16-true",
                      config_text, adapted ? ", adapters: {kind: lora, rank: 8, alpha: 16, targets: all-linear}" : "");
  free(config_text);
  json_decref(config);
  used += snprintf(out + used, RECIPE - (size_t)used,
                   "data: {source: synthetic, sequence_length: %lld}\n"
                   "training: {batch_size: %lld, optimizer: {kind: adamw, weight_decay: 0.01}}\n"
                   "memory: {device: cuda, gpu: H200, checkpoint: %s}\n"
                   "engine: {kind: pytorch, adapters: plain}\n",
                   number_of(row, "tokens", 1024), number_of(row, "batch", 1),
                   json_is_true(json_object_get(row, "checkpoint")) ? "every-layer" : "none");
  assert_true(used < RECIPE);
}

typedef struct peaks {
  double allocated, reserved, driver, seconds; /* bytes */
} peaks;

/* `falling`: with each segment below those before it, as the allocator has them that traced the public code
 * (bench/torch_oracle); else as the driver puts them. */
static peaks simulate(const char *recipe_text, const char *gpu, bool falling) {
  hr_error err = {0};
  hr_recipe *recipe = NULL;
  hr_facts facts;
  hr_rates rates;
  hr__gpu_facts(hr__gpu_find(gpu), &facts);
  hr__rates_default(&facts, &rates);
  if (hr__settings_parse("case", ".", recipe_text, strlen(recipe_text), NULL, 0, &recipe, &err) != HR_OK)
    fail_msg("%s: %s\n%s", err.place, err.message, recipe_text);
  hr_engine_run run = {0};
  if (hr__engine_simulate(recipe, &facts, &run, &err) != HR_OK)
    fail_msg("%s: %s\n%s", err.place, err.message, recipe_text);
  hr_torch_rules rules;
  hr__torch_rules_init(&rules);
  rules.order = HR_TORCH_FALLING;
  if (falling) assert_int_equal(hr__torch_replay(&run.events, &rules, &run.arena, &run.result, &err), HR_OK);
  peaks p = {.allocated = (double)run.result.allocated.use.allocated_bytes,
             .reserved = (double)run.result.reserved.use.reserved_bytes,
             .driver = (double)run.driver_bytes,
             .seconds = hr__engine_seconds(&run, &rates, 1)};
  hr__engine_fini(&run);
  hr__rates_fini(&rates);
  hr__recipe_destroy(recipe);
  return p;
}

/* --- sums of errors ----------------------------------------------------------------------------------------------- */

typedef struct errors {
  double sum, worst;
  int count;
} errors;

static double error_add(errors *e, double said, double held) {
  double error = fabs(said / held - 1);
  e->sum += error;
  e->count++;
  if (error > e->worst) e->worst = error;
  return 100 * (said / held - 1);
}

static double average(const errors *e) {
  return e->count > 0 ? e->sum / e->count : 0;
}

static double mib(const json_t *row, const char *key) {
  return json_number_value(json_object_get(row, key)); /* 0 where there is none */
}

static bool verbose(void) {
  return getenv("HR_ENGINE_VERBOSE") != NULL;
}

static void test_measured(void **state) {
  (void)state;
  json_t *root = file_load("measured.json"), *row;
  errors allocated = {0}, reserved = {0}, driver = {0};
  size_t i;
  json_array_foreach(json_object_get(root, "rows"), i, row) {
    char text[RECIPE];
    recipe_write(json_object_get(root, "shape"), row, text);
    peaks p = simulate(text, "H200", false);
    double a = error_add(&allocated, p.allocated, MIB * (mib(row, "allocated_mib") - mib(row, "others_mib")));
    double r = error_add(&reserved, p.reserved, MIB * mib(row, "reserved_mib"));
    double d = error_add(&driver, p.driver, MIB * mib(row, "driver_mib"));
    double s = 1e3 * p.seconds / json_number_value(json_object_get(row, "step_ms"));
    if (verbose())
      printf("%-20s allocated %.1f (%+.3f %%) reserved %.0f (%+.3f %%) driver %.0f (%+.3f %%) step x %.2f\n",
             text_of(row, "name", ""), p.allocated / MIB, a, p.reserved / MIB, r, p.driver / MIB, d, s);
    assert_true(s > 0.7 && s < 1.3); /* an estimate */
  }
  assert_int_equal(allocated.count, 7);
  assert_true(average(&allocated) <= 0.0005 && allocated.worst <= 0.003);
  assert_true(average(&reserved) <= 0.002 && reserved.worst <= 0.005);
  assert_true(average(&driver) <= 0.002 && driver.worst <= 0.005);
  json_decref(root);
}

/* Of what is held out sums alone are shown. */
static void oracle_judge(bool held_out) {
  json_t *root = file_load("oracle.json"), *it;
  errors allocated = {0}, reserved = {0};
  size_t i;
  json_array_foreach(json_object_get(root, "cases"), i, it) {
    if (json_is_true(json_object_get(it, "held_out")) != held_out) continue;
    char *text = json_dumps(json_object_get(it, "recipe"), 0); /* JSON is YAML */
    peaks p = simulate(text, text_of(it, "gpu", ""), true);
    double a = error_add(&allocated, p.allocated, json_number_value(json_object_get(it, "allocated_bytes")));
    double r = error_add(&reserved, p.reserved, json_number_value(json_object_get(it, "reserved_bytes")));
    if (verbose() && !held_out) printf("%+.3f %% %+.3f %% %s\n", a, r, text);
    free(text);
  }
  if (verbose() || held_out)
    printf("%d settings%s: allocated %.3f %% on average, %.3f %% at worst; reserved %.3f %%, %.3f %%\n",
           allocated.count, held_out ? ", held out" : "", 100 * average(&allocated), 100 * allocated.worst,
           100 * average(&reserved), 100 * reserved.worst);
  assert_true(allocated.count > 0);
  assert_true(average(&allocated) <= 0.0005 && allocated.worst <= 0.01);
  assert_true(average(&reserved) <= 0.0015 && reserved.worst <= 0.02);
  json_decref(root);
}

static void test_oracle(void **state) {
  (void)state;
  oracle_judge(false);
}

static void test_oracle_held_out(void **state) {
  (void)state;
  oracle_judge(true);
}

/* Runs on an H200, each in a process of its own (bench/torch_measured). */
static void h200_judge(bool held_out) {
  json_t *root = file_load("h200.json"), *it;
  errors allocated = {0}, reserved = {0}, driver = {0};
  size_t i;
  json_array_foreach(json_object_get(root, "cases"), i, it) {
    if (json_is_true(json_object_get(it, "held_out")) != held_out) continue;
    char *text = json_dumps(json_object_get(it, "recipe"), 0); /* JSON is YAML */
    peaks p = simulate(text, "H200", false);
    free(text);
    double a = error_add(&allocated, p.allocated, json_number_value(json_object_get(it, "allocated_bytes")));
    double r = error_add(&reserved, p.reserved, json_number_value(json_object_get(it, "reserved_bytes")));
    double d = error_add(&driver, p.driver, json_number_value(json_object_get(it, "driver_bytes")));
    if (verbose() && !held_out)
      printf("%s allocated %+.3f %% reserved %+.3f %% driver %+.3f %%\n", text_of(it, "name", ""), a, r, d);
  }
  if (verbose() || held_out)
    printf("%d runs on an H200%s: allocated %.3f %% on average, %.3f %% at worst; reserved %.3f %%, %.3f %%; driver "
           "%.3f %%, %.3f %%\n",
           allocated.count, held_out ? ", held out" : "", 100 * average(&allocated), 100 * allocated.worst,
           100 * average(&reserved), 100 * reserved.worst, 100 * average(&driver), 100 * driver.worst);
  assert_true(allocated.count > 0);
  assert_true(average(&allocated) <= 0.003 && allocated.worst <= 0.01);
  assert_true(average(&reserved) <= 0.005 && reserved.worst <= (held_out ? 0.02 : 0.03));
  assert_true(average(&driver) <= 0.01 && driver.worst <= 0.025);
  json_decref(root);
}

static void test_h200(void **state) {
  (void)state;
  h200_judge(false);
}

static void test_h200_held_out(void **state) {
  (void)state;
  h200_judge(true);
}

static void recipes_judge(const char *name, double most_allocated, double most_reserved) {
  json_t *root = file_load(name), *it;
  size_t i;
  json_array_foreach(json_object_get(root, "cases"), i, it) {
    char *text = json_dumps(json_object_get(it, "recipe"), 0); /* JSON is YAML */
    peaks p = simulate(text, text_of(it, "gpu", ""), true);
    free(text);
    double allocated = p.allocated / json_number_value(json_object_get(it, "allocated_bytes")) - 1;
    double reserved = p.reserved / json_number_value(json_object_get(it, "reserved_bytes")) - 1;
    if (fabs(allocated) > most_allocated || fabs(reserved) > most_reserved)
      fail_msg("%s, no. %lld: allocated %+.3f %%, reserved %+.3f %%", name, number_of(it, "number", -1),
               100 * allocated, 100 * reserved);
  }
  assert_true(i > 0);
  json_decref(root);
}

static void test_drawn(void **state) {
  (void)state;
  recipes_judge("drawn.json", 0.003, 0.005); /* what docs/torch.md calls a miss */
}

static void test_gemma(void **state) {
  (void)state;
  recipes_judge("gemma.json", 0.0015, 0.002);
}

/* With an evaluation behind every step. */
static void test_evaluated(void **state) {
  (void)state;
  recipes_judge("eval.json", 0.001, 0.002);
}

/* Rows of several documents, none held out. */
static void test_packed(void **state) {
  (void)state;
  recipes_judge("packed.json", 0.0005, 0.0025);
}

/* Under DeepSpeed, a random sample of two of the four sets in docs/torch.md, half of it held out; the three settings
 * that miss are of another set. */
static void test_zero(void **state) {
  (void)state;
  recipes_judge("zero.json", 0.001, 0.005);
}

/* Eager steps as any other, and those that torch.compile made, which are an estimate. */
static void test_compiled(void **state) {
  (void)state;
  json_t *root = file_load("compiled.json"), *it;
  errors allocated[3] = {{0}}, reserved[3] = {{0}}; /* eager, compiled, and of these those that are held out */
  size_t i;
  json_array_foreach(json_object_get(root, "cases"), i, it) {
    json_t *recipe = json_object_get(it, "recipe");
    int kind = json_is_true(json_object_get(json_object_get(recipe, "engine"), "compile"));
    if (kind && json_is_true(json_object_get(it, "held_out"))) kind = 2;
    char *text = json_dumps(recipe, 0);
    peaks p = simulate(text, "H200", false);
    free(text);
    error_add(&allocated[kind], p.allocated, json_number_value(json_object_get(it, "allocated_bytes")));
    error_add(&reserved[kind], p.reserved, json_number_value(json_object_get(it, "reserved_bytes")));
  }
  for (int kind = 0; kind < 3; kind++)
    printf("%d runs: allocated %.3f %% on average, %.3f %% at worst; reserved %.3f %%, %.3f %%\n",
           allocated[kind].count, 100 * average(&allocated[kind]), 100 * allocated[kind].worst,
           100 * average(&reserved[kind]), 100 * reserved[kind].worst);
  assert_int_equal(allocated[2].count, 8); /* as hr__engine_estimate says */
  assert_true(allocated[0].worst <= 0.0005 && reserved[0].worst <= 0.0015);
  assert_true(allocated[1].worst <= 0.01 && reserved[1].worst <= 0.07);
  assert_true(allocated[2].worst <= 0.0345 && reserved[2].worst <= 0.0965);
  json_decref(root);
}

/* What cannot be planned once it is closed leaves nothing behind (under ASan). */
static void test_refused(void **state) {
  (void)state;
  static const char *const overrides[] = {
      ("model={family: llama, config: {hidden_size: 64, intermediate_size: 128, num_hidden_layers: 2, "
       "num_attention_heads: 4, num_key_value_heads: 2, vocab_size: 256, max_position_embeddings: 64}}"),
      "data={source: synthetic, sequence_length: 128}", "memory={device: cuda, gpu: H200}", "engine={kind: pytorch}"};
  hr_job_source source = {"", overrides, sizeof overrides / sizeof *overrides};
  hr_job *job = NULL;
  hr_error err = {0};
  assert_int_equal(hr__job_open(&source, &job, &err), HR_BAD_INPUT);
  assert_non_null(strstr(err.message, "longer than the model is made for"));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_measured),        cmocka_unit_test(test_h200),
                                     cmocka_unit_test(test_h200_held_out),   cmocka_unit_test(test_oracle),
                                     cmocka_unit_test(test_oracle_held_out), cmocka_unit_test(test_drawn),
                                     cmocka_unit_test(test_evaluated),       cmocka_unit_test(test_gemma),
                                     cmocka_unit_test(test_packed),          cmocka_unit_test(test_zero),
                                     cmocka_unit_test(test_compiled),        cmocka_unit_test(test_refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
