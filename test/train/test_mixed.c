/* Gradients in every precision, as numbers: near those of f32, scaled by the loss scale, summed in f32. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "part_tiny.h"
#include "run/run.h"

enum { LENGTH = 16, VOCABULARY = 256, TOKENS_MAX = 8 * LENGTH };

static void check(hr_status status, const hr_error *err) {
  if (status != HR_OK) fail_msg("%s: %s", err->place, err->message);
}

typedef struct model {
  tiny t;
  hr_run *run;
} model;

/* Two layers with biases and a tied table; gradients stay in grad.* after a micro-batch. */
static void model_open(model *m, const char *precision, const char *batch) {
  hr_error err = {0};
  char precision_set[64], batch_set[64];
  snprintf(precision_set, sizeof precision_set, "model.precision=%s", precision);
  snprintf(batch_set, sizeof batch_set, "training.batch_size=%s", batch);
  const char *const overrides[] = {precision_set,
                                   batch_set,
                                   "training.gradient_accumulation=2",
                                   "model.config.num_hidden_layers=2",
                                   "model.config.mlp_bias=true",
                                   "model.config.tie_word_embeddings=true",
                                   "model.config.initializer_range=0.1",
                                   NULL};
  check(tiny_open(&m->t, overrides, &err), &err);
  check(hr__run_create(m->t.plan, m->t.device, NULL, &m->run, &err), &err);
  check(hr__run_init_values(m->run, 3, &err), &err);
}

static void model_close(model *m) {
  hr__run_destroy(m->run);
  tiny_close(&m->t);
}

/* A micro-batch of `rows` sequences from row `first` of one fixed text; every seventh target does not count. */
static double micro_run(model *m, hr_program_kind kind, int first, int rows, float scale) {
  hr_error err = {0};
  const hr_graph *g = m->t.graph;
  hr_id program = hr__graph_find_kind(g, kind);
  int32_t tokens[TOKENS_MAX], targets[TOKENS_MAX];
  int count = rows * LENGTH;
  for (int i = 0; i < count; i++) {
    int at = first * LENGTH + i;
    tokens[i] = at * at * 31 % VOCABULARY;
    targets[i] = at % 7 == 3 ? -1 : (at * 57 + 11) % VOCABULARY;
  }
  hr_control control = {.seed = 1, .step = 1, .loss_weight = 1.0f / 64, .loss_scale = scale};
  check(hr__run_write(m->run, hr__graph_find_value(g, "control"), 0, &control, sizeof control, &err), &err);
  check(hr__run_write(m->run, hr__program_input(g, program, "tokens"), 0, tokens, (size_t)count * 4, &err), &err);
  check(hr__run_write(m->run, hr__program_input(g, program, "targets"), 0, targets, (size_t)count * 4, &err), &err);
  check(hr__run_program(m->run, program, &err), &err);
  float loss;
  check(hr__run_read(m->run, hr__program_output(g, program, "loss"), 0, &loss, sizeof loss, &err), &err);
  return (double)loss;
}

/* Largest relative L2 distance of the gradients of a, divided by `factor`, from those of b; by parameter. */
static double gradients_distance(model *a, double factor, model *b, const char **worst) {
  hr_error err = {0};
  double most = 0;
  int compared = 0;
  for (hr_id v = 0; v < a->t.graph->n_values; v++) {
    const hr_value *value = &a->t.graph->values[v];
    if (!value->trained || value->base != HR_NONE) continue; /* members lie in their whole */
    hr_id other = b->t.graph->values[hr__graph_find_value(b->t.graph, value->name)].gradient;
    assert_int_equal(a->t.graph->values[value->gradient].desc.dtype, HR_F32);
    assert_int_equal(b->t.graph->values[other].desc.dtype, HR_F32);
    size_t count = (size_t)hr_desc_count(&value->desc);
    float *got = malloc(count * sizeof *got), *want = malloc(count * sizeof *want);
    assert_true(got && want);
    check(hr__run_read(a->run, value->gradient, 0, got, count * sizeof *got, &err), &err);
    check(hr__run_read(b->run, other, 0, want, count * sizeof *want, &err), &err);
    double wrong = 0, size = 0;
    for (size_t i = 0; i < count; i++) {
      double difference = (double)got[i] / factor - (double)want[i];
      wrong += difference * difference;
      size += (double)want[i] * (double)want[i];
    }
    free(got);
    free(want);
    double distance = sqrt(wrong / size); /* a NaN or an all-zero gradient fails below */
    if (!(distance <= most)) {
      most = distance;
      *worst = value->name;
    }
    compared++;
  }
  assert_true(compared > 10);
  return most;
}

static void expect_distance(model *a, double factor, model *b, double limit) {
  const char *worst = "";
  double distance = gradients_distance(a, factor, b, &worst);
  if (!(distance <= limit)) fail_msg("gradient of %s is off by %.2e, allowed are %.2e", worst, distance, limit);
}

static void test_gradients_are_near_those_of_f32(void **state) {
  static const struct {
    const char *precision;
    float scale;
    double limit;
  } cases[] = {{"bf16-mixed", 1.0f, 2e-2}, {"16-mixed", 1024.0f, 3e-3}};
  (void)state;
  model plain;
  model_open(&plain, "32-true", "2");
  double expected = micro_run(&plain, HR_PROGRAM_MICRO_FIRST, 0, 2, 1.0f);
  for (int i = 0; i < 2; i++) {
    model m;
    model_open(&m, cases[i].precision, "2");
    double loss = micro_run(&m, HR_PROGRAM_MICRO_FIRST, 0, 2, cases[i].scale);
    assert_true(fabs(loss - expected) < 5e-3 * expected); /* the loss itself is not scaled */
    expect_distance(&m, (double)cases[i].scale, &plain, cases[i].limit);
    model_close(&m);
  }
  model_close(&plain);
}

/* A power of two moves through a network of f32 exactly. */
static void test_loss_scale_is_a_factor(void **state) {
  (void)state;
  model one, scaled;
  model_open(&one, "32-true", "2");
  model_open(&scaled, "32-true", "2");
  assert_true(micro_run(&one, HR_PROGRAM_MICRO_FIRST, 0, 2, 1.0f) ==
              micro_run(&scaled, HR_PROGRAM_MICRO_FIRST, 0, 2, 4096.0f));
  expect_distance(&scaled, 4096.0, &one, 0.0);
  model_close(&one);
  model_close(&scaled);
}

/* Two micro-batches give what one of twice the size gives: rows do not meet but in sums, which are f32. */
static void test_accumulation_is_a_larger_batch(void **state) {
  static const char *const precisions[] = {"32-true", "bf16-mixed", "16-mixed"};
  (void)state;
  for (int i = 0; i < 3; i++) {
    model small, large;
    model_open(&small, precisions[i], "2");
    model_open(&large, precisions[i], "4");
    double loss =
        micro_run(&small, HR_PROGRAM_MICRO_FIRST, 0, 2, 64.0f) + micro_run(&small, HR_PROGRAM_MICRO_NEXT, 2, 2, 64.0f);
    assert_true(fabs(loss - micro_run(&large, HR_PROGRAM_MICRO_FIRST, 0, 4, 64.0f)) < 1e-5 * loss);
    expect_distance(&small, 1.0, &large, 1e-6);
    model_close(&small);
    model_close(&large);
  }
}

/* f16 without scaling loses what lies below its smallest number; with it nothing is lost. */
static void test_scaling_saves_small_gradients(void **state) {
  const char *worst = "";
  (void)state;
  model plain, unscaled, scaled;
  model_open(&plain, "32-true", "2");
  model_open(&unscaled, "16-mixed", "2");
  model_open(&scaled, "16-mixed", "2");
  const float tiny_scale = 0x1p-14f; /* stands for a loss with small gradients */
  micro_run(&plain, HR_PROGRAM_MICRO_FIRST, 0, 2, tiny_scale);
  micro_run(&unscaled, HR_PROGRAM_MICRO_FIRST, 0, 2, tiny_scale);
  micro_run(&scaled, HR_PROGRAM_MICRO_FIRST, 0, 2, tiny_scale * 0x1p24f);
  assert_true(gradients_distance(&unscaled, 1.0, &plain, &worst) > 0.05);
  expect_distance(&scaled, 0x1p24, &plain, 3e-3);
  model_close(&plain);
  model_close(&unscaled);
  model_close(&scaled);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_gradients_are_near_those_of_f32),
      cmocka_unit_test(test_loss_scale_is_a_factor),
      cmocka_unit_test(test_accumulation_is_a_larger_batch),
      cmocka_unit_test(test_scaling_saves_small_gradients),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
