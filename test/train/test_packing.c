/* Documents packed into one sequence, and recordings that share a row, are trained on as each alone: the same loss, the
 * same gradients, up to rounding.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "part_session.h"

/* Two samples of 32 positions: 20 + 12, and 17 + 9 + 5 with one that is padding. */
static const char text[] = "the first document..\nof several..\n"
                           "another document.\none more.\nlast!\n";
enum { DOCUMENTS = 5, SAMPLES = 2, LENGTH = 32 };

typedef struct outcome {
  double loss, grad_norm;
  int64_t tokens, samples;
  float *weights; /* after one step */
  int64_t count;
} outcome;

static void weights_read(hr_session *s, outcome *out) {
  const hr_graph *graph = hr__run_graph(s->run);
  for (size_t i = 0; i < s->tensors.n_parameters; i++)
    out->count += hr_desc_count(&graph->values[s->tensors.parameters[i]].desc);
  out->weights = malloc((size_t)out->count * sizeof(float));
  assert_non_null(out->weights);
  float *to = out->weights;
  for (size_t i = 0; i < s->tensors.n_parameters; i++) {
    int64_t count = hr_desc_count(&graph->values[s->tensors.parameters[i]].desc);
    assert_int_equal(hr__run_read(s->run, s->tensors.parameters[i], 0, to, (size_t)count * sizeof *to, NULL), HR_OK);
    to += count;
  }
}

/* In chunks that documents begin and end within. */
#define MAMBA2                                                                                                         \
  "model={family: mamba2, config: {vocab_size: 256, hidden_size: 16, num_hidden_layers: 2, "                           \
  "state_size: 5, num_heads: 4, head_dim: 8, n_groups: 2, chunk_size: 8}}"

/* One step of plain gradient descent; settings end with NULL. */
static outcome step(const char *const *settings, const char *const *more) {
  const char *overrides[24] = {"training.clip_norm=null", "training.optimizer={kind: sgd, lr: 0.5}",
                               "training.schedule.warmup_steps=0"};
  int count = 3;
  for (int i = 0; settings[i]; i++)
    overrides[count++] = settings[i];
  for (int i = 0; more[i]; i++)
    overrides[count++] = more[i];
  desk d;
  desk_open(&d, ".", overrides);
  hr_step_result result;
  hr_error err = {0};
  assert_int_equal(hr__session_step(&d.session, 1, &result, &err), HR_OK);
  outcome out = {
      .loss = result.loss, .grad_norm = result.grad_norm, .tokens = result.tokens, .samples = result.samples};
  weights_read(&d.session, &out);
  desk_close(&d);
  return out;
}

static void outcomes_compare(outcome *alone, outcome *packed) {
  assert_true(fabs(packed->loss - alone->loss) <= 1e-6 * alone->loss);
  assert_true(fabs(packed->grad_norm - alone->grad_norm) <= 1e-5 * alone->grad_norm);
  assert_int_equal(packed->count, alone->count);
  double most = 0;
  for (int64_t i = 0; i < alone->count; i++)
    most = fmax(most, fabs((double)packed->weights[i] - (double)alone->weights[i]));
  assert_true(most <= 1e-6);
  free(alone->weights);
  free(packed->weights);
}

/* Over all documents. */
static void compare(const char *const *more) {
  const char *folder = folder_make("packing");
  char path[4200], data[4300];
  snprintf(path, sizeof path, "%s.txt", folder);
  snprintf(data, sizeof data, "data.path=%s", path);
  file_put(path, text, strlen(text));
  outcome alone = step(
      (const char *const[]){data, "data.source=lines", "data.sequence_length=32", "training.batch_size=5", NULL}, more);
  outcome packed = step((const char *const[]){data, "data.source=lines", "data.sequence_length=32", "data.packing=true",
                                              "training.batch_size=2", NULL},
                        more);
  assert_int_equal(alone.tokens, 63);
  assert_int_equal(packed.tokens, 63);
  assert_true(alone.samples == DOCUMENTS && packed.samples == SAMPLES);
  outcomes_compare(&alone, &packed);
  unlink(path);
  free((void *)(uintptr_t)folder);
}

/* Recordings of 10 to 20 vectors in pieces of 8, which fill six rows. */
#define GESTURE                                                                                                        \
  "model={family: gesture, config: {hidden_dim: 16, d_state: 8, headdim: 8, num_layers: 2, num_classes: 8, "           \
  "chunk_size: 8, dropout: 0, drop_path: 0}}",                                                                         \
      "data={source: events, sequence_length: 64, events: {generate: 24, ratio_of_vectors: 0.06, "                     \
      "train_ratio_of_vectors: 0.5}}"

static void compare_recordings(const char *const *more) {
  outcome alone = step((const char *const[]){GESTURE, "training.batch_size=24", NULL}, more);
  outcome packed = step((const char *const[]){GESTURE, "data.packing=true", "training.batch_size=6", NULL}, more);
  assert_true(alone.samples == 24 && packed.samples == 24);
  outcomes_compare(&alone, &packed);
}

static void test_packed_is_alone(void **state) {
  (void)state;
  compare((const char *const[]){NULL});
}

static void test_with_a_window(void **state) {
  (void)state;
  compare((const char *const[]){"model.family=mistral", "model.config.sliding_window=7", NULL});
}

static void test_recomputed(void **state) {
  (void)state;
  compare((const char *const[]){"memory.checkpoint=every-layer", "model.config.num_hidden_layers=2", NULL});
}

static void test_states_end_with_documents(void **state) {
  (void)state;
  compare((const char *const[]){MAMBA2, NULL});
}

static void test_states_recomputed(void **state) {
  (void)state;
  compare((const char *const[]){MAMBA2, "memory.checkpoint=every-layer", NULL});
}

static void test_recordings(void **state) {
  (void)state;
  compare_recordings((const char *const[]){NULL});
  compare_recordings((const char *const[]){"model.config.share_weights=true", NULL});
}

static void test_recordings_recomputed(void **state) {
  (void)state;
  compare_recordings((const char *const[]){"memory.checkpoint=every-layer", "model.config.share_weights=false", NULL});
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_packed_is_alone),
      cmocka_unit_test(test_with_a_window),
      cmocka_unit_test(test_recomputed),
      cmocka_unit_test(test_states_end_with_documents),
      cmocka_unit_test(test_states_recomputed),
      cmocka_unit_test(test_recordings),
      cmocka_unit_test(test_recordings_recomputed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
