/* A system of three parts with three losses, state and inputs of three types, in two stages: gradients against
 * differences, resume inside both stages, recompute, offload and division into micro-batches, and the process within
 * its plan. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "part_session.h"
#include "part_system.h"

#define LIST(...)                                                                                                      \
  (const char *const[]) {                                                                                              \
    __VA_ARGS__, NULL                                                                                                  \
  }
/* First the head and one layer of text, which has no adapters yet; then adapters of text, and the head goes on. */
#define FIRST                                                                                                          \
  SYSTEM, "model.parts.text.adapters=null", "model.parts.text.quantize=null", "model.parts.text.train=[layer.1]"
#define SECOND SYSTEM, "model.parts.text.quantize.targets=[layer.0]"

static void must(hr_status status, const hr_error *err) {
  if (status != HR_OK) fail_msg("%s: %s: %s", hr_status_name(status), err->place, err->message);
}

/* --- gradients ---------------------------------------------------------------------------------------------------- */

/* All trained tensors as one vector. */
typedef struct vector {
  float *at;
  size_t count;
} vector;

static bool is_trained(const hr_graph *g, hr_id v) {
  return g->values[v].trained && hr__graph_is_tensor(g, v);
}

static size_t trained_count(const hr_graph *g) {
  size_t count = 0;
  for (hr_id v = 0; v < g->n_values; v++)
    if (is_trained(g, v)) count += (size_t)hr_desc_count(&g->values[v].desc);
  return count;
}

static void weights_move(desk *d, vector w, bool write) {
  const hr_graph *g = hr__run_graph(d->session.run);
  size_t at = 0;
  hr_error err = {0};
  for (hr_id v = 0; v < g->n_values; v++) {
    if (!is_trained(g, v)) continue;
    size_t count = (size_t)hr_desc_count(&g->values[v].desc), bytes = count * sizeof(float);
    assert_int_equal(g->values[v].desc.dtype, HR_F32);
    must(write ? hr__run_write(d->session.run, v, 0, w.at + at, bytes, &err)
               : hr__run_read(d->session.run, v, 0, w.at + at, bytes, &err),
         &err);
    at += count;
  }
  assert_int_equal(at, w.count);
}

static vector vector_make(size_t count) {
  vector v = {calloc(count, sizeof(float)), count};
  assert_non_null(v.at);
  return v;
}

/* The loss at these weights, on the batch of the first step. */
static double loss_at(desk *d, vector w) {
  hr_step_result result;
  hr_error err = {0};
  weights_move(d, w, true);
  must(hr__session_step(&d->session, 1, &result, &err), &err);
  return result.loss;
}

/* Along random directions the loss changes as the gradients say, of every trained tensor together: adapters beside NF4,
 * the head behind frozen weights, statistics of the batch. A step of SGD at rate 1 leaves the gradient. */
static void test_gradients(void **state) {
  (void)state;
  enum { DIRECTIONS = 6 };
  desk d;
  hr_error err = {0};
  hr_step_result result;
  desk_open(&d, "none",
            LIST(SYSTEM, "model.parts.text.adapters.dropout=0", "model.parts.text.config.hidden_dropout_prob=0",
                 "training.batch_size=4", "training.gradient_accumulation=2", "training.clip_norm=null",
                 "training.schedule=null", "training.optimizer={kind: sgd, lr: 1, weight_decay: 0, momentum: 0}"));
  size_t count = trained_count(hr__run_graph(d.session.run));
  vector w = vector_make(count), after = vector_make(count), moved = vector_make(count);
  weights_move(&d, w, false);
  hr_random_key key = {11, hr__random_stream("test.start")};
  for (size_t i = 0; i < count; i++) /* B of adapters begins as 0, where A has no gradient */
    w.at[i] += 0.05f * ((float)hr__random_below(key, 0, i, 2001) / 1000 - 1);
  weights_move(&d, w, true);
  must(hr__session_step(&d.session, 1, &result, &err), &err);
  weights_move(&d, after, false);
  for (int k = 0; k < DIRECTIONS; k++) {
    const float h = 2e-3f;
    double along = 0, change = 0;
    for (int side = 1; side >= -1; side -= 2) {
      along = 0;
      for (size_t i = 0; i < count; i++) {
        float direction = hr__random_below(key, (uint64_t)k + 1, i, 2) ? 1 : -1;
        moved.at[i] = w.at[i] + (float)side * h * direction;
        along += ((double)w.at[i] - (double)after.at[i]) * (double)direction;
      }
      change += side * loss_at(&d, moved) / (2 * (double)h);
    }
    if (fabs(change - along) > 1e-3 * fabs(along) + 1e-3)
      fail_msg("direction %d: the loss changes by %.6f, the gradient says %.6f", k, change, along);
  }
  free(w.at);
  free(after.at);
  free(moved.at);
  desk_close(&d);
}

/* --- two stages --------------------------------------------------------------------------------------------------- */

/* Both stages with a further setting, each stopped after so many steps and resumed (0: not); their hashes. */
static void stages_train(const char *more, int64_t stop, char hash[2][HR_SHA256_HEX]) {
  static const char plain[] = "training.clip_norm=null"; /* an update in backward knows no norm */
  const char *out[] = {folder_make("system-first"), folder_make("system-second")};
  for (int stage = 0; stage < 2; stage++) {
    const char *const *settings = stage == 0 ? LIST(FIRST, plain, more) : LIST(SECOND, plain, more);
    hr_train_options options = {
        .out = out[stage], .begin = stage == 0 ? NULL : out[0], .stop_at = stop, .check_peak = true};
    if (stop > 0) train_ok(settings, options);
    options.stop_at = 0;
    options.resume = stop > 0;
    hr_train_result result = train_ok(settings, options);
    assert_int_equal(result.steps, 8);
    memcpy(hash[stage], result.weights_sha256, HR_SHA256_HEX);
  }
  for (int stage = 0; stage < 2; stage++) {
    folder_remove(out[stage]);
    free((void *)(uintptr_t)out[stage]);
  }
}

static void test_stages(void **state) {
  (void)state;
  static const char *const variants[] = {
      "memory.checkpoint=every-layer",  "memory.checkpoint={text: selective, head: every-layer}",
      "memory.offload.parameters=host", "memory.offload={optimizer: disk, activations: host}",
      "memory.update=in-backward",      "data.workers=0"};
  char plain[2][HR_SHA256_HEX], other[2][HR_SHA256_HEX];
  stages_train("data.workers=1", 0, plain);
  stages_train("data.workers=1", 3, other);
  assert_memory_equal(other, plain, sizeof plain);
  for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
    stages_train(variants[i], 0, other);
    if (memcmp(other, plain, sizeof plain) != 0) fail_msg("%s changes a bit", variants[i]);
  }
}

static void value_is(desk *d, const char *name, const float *expected, size_t count) {
  float got[64];
  hr_error err = {0};
  assert_true(count <= 64);
  hr_id value = hr__graph_find_value(hr__run_graph(d->session.run), name);
  must(hr__run_read(d->session.run, value, 0, got, count * sizeof *got, &err), &err);
  assert_memory_equal(got, expected, count * sizeof *got);
}

/* State goes over, what was trained and is frozen now is saved again, and a run that began from something else is
 * another one. */
static void test_handed_over(void **state) {
  (void)state;
  const char *one = folder_make("system-one"), *two = folder_make("system-two"), *other = folder_make("system-other");
  train_ok(LIST(FIRST), (hr_train_options){.out = one});
  train_ok(LIST(FIRST, "training.seed=9"), (hr_train_options){.out = other});
  train_ok(LIST(SECOND), (hr_train_options){.out = two, .begin = one, .stop_at = 2});
  hr_safetensors *file;
  hr_error err = {0};
  float mean[16];
  must(hr__safetensors_open(path_join(one, "generation-00000008/model.safetensors"), &file, &err), &err);
  const hr_safetensor *tensor = hr__safetensors_find(file, "norm.running_mean");
  assert_non_null(tensor);
  must(hr__safetensors_read(file, tensor, 0, mean, sizeof mean, &err), &err);
  hr__safetensors_close(file);
  tiny t;
  must(tiny_open(&t, LIST(SECOND), &err), &err);
  hr_train_options options = {.recipe = t.recipe, .plan = t.plan, .device = t.device, .begin = one};
  desk d = {.tiny = t};
  must(hr__session_create(&options, false, &d.session, &err), &err);
  must(hr__session_begin(&d.session, &err), &err);
  value_is(&d, "norm.running_mean", mean, 16);
  hr__session_destroy(&d.session);
  tiny_close(&t);
  must(hr__safetensors_open(path_join(two, "generation-00000002/text/model.safetensors"), &file, &err), &err);
  assert_non_null(hr__safetensors_find(file, "bert.encoder.layer.1.output.dense.weight"));
  assert_null(hr__safetensors_find(file, "bert.encoder.layer.0.output.dense.weight"));
  hr__safetensors_close(file);
  err = train_fails(LIST(SECOND), (hr_train_options){.out = two, .begin = other, .resume = true}, HR_USAGE);
  assert_non_null(strstr(err.message, "run.begun_from"));
  err = train_fails(LIST(SYSTEM), (hr_train_options){.begin = one}, HR_USAGE);
  assert_non_null(strstr(err.message, "is quantized in this one"));
  folder_remove(one);
  folder_remove(two);
  folder_remove(other);
  free((void *)(uintptr_t)one);
  free((void *)(uintptr_t)two);
  free((void *)(uintptr_t)other);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_gradients),
      cmocka_unit_test(test_stages),
      cmocka_unit_test(test_handed_over),
  };
  system_register();
  return cmocka_run_group_tests(tests, NULL, NULL);
}
