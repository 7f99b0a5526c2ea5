/* A split graph against the whole one, planned and run: two micro-batches and an evaluation of a small Llama.
 *
 * Losses and all that flows through activations keep their bits: also the gradients of weights outside the split
 * blocks, before and behind them. Gradients of weights inside are summed in another order. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/text.h"
#include "compile/compile.h"
#include "plan/memory.h"
#include "run/run.h"

enum { BATCH = 5, LENGTH = 24, VOCABULARY = 97, PARAMETERS = 64 };

static const char recipe_text[] =
    "model:\n"
    "  family: llama\n"
    "  config: { hidden_size: 64, num_hidden_layers: 3, num_attention_heads: 4, num_key_value_heads: 2,\n"
    "            intermediate_size: 176, vocab_size: 97, attention_bias: true }\n"
    "data: { sequence_length: 24 }\n"
    "training: { batch_size: 5, gradient_accumulation: 2, eval_every: 1 }\n";

typedef struct outcome {
  hr_arena arena;
  float loss[3]; /* micro_first, micro_next, eval */
  struct {
    const char *name;
    hr_desc desc;
    void *data;
  } gradient[PARAMETERS];
  int n_gradients;
} outcome;

static void must(hr_status status, const hr_error *err) {
  if (status != HR_OK) fail_msg("%s: %s: %s", hr_status_name(status), err->place, err->message);
}

static void program_run(hr_run *run, const hr_graph *g, hr_program_kind kind, int seed, float *loss) {
  hr_error err = {0};
  hr_id program = hr__graph_find_kind(g, kind);
  int32_t tokens[BATCH * LENGTH], targets[BATCH * LENGTH];
  hr_control control = {.seed = 1, .step = 1, .loss_weight = 1.0f / (BATCH * LENGTH), .loss_scale = 1.0f};
  for (int i = 0; i < BATCH * LENGTH; i++) {
    tokens[i] = (i * 31 + i * i * 7 + seed) % VOCABULARY;
    targets[i] = i % 11 == 3 ? -1 : (i * 13 + seed * 5) % VOCABULARY;
  }
  must(hr__run_write(run, hr__graph_find_value(g, "control"), 0, &control, sizeof control, &err), &err);
  must(hr__run_write(run, hr__program_input(g, program, "tokens"), 0, tokens, sizeof tokens, &err), &err);
  must(hr__run_write(run, hr__program_input(g, program, "targets"), 0, targets, sizeof targets, &err), &err);
  must(hr__run_program(run, program, &err), &err);
  must(hr__run_read(run, hr__program_output(g, program, "loss"), 0, loss, sizeof *loss, &err), &err);
}

static void gradients_read(outcome *o, hr_run *run, const hr_graph *g) {
  hr_error err = {0};
  for (hr_id v = 0; v < g->n_values; v++) {
    if (!g->values[v].trained || g->values[v].base != HR_NONE) continue; /* members lie in their whole */
    assert_true(o->n_gradients < PARAMETERS);
    hr_id gradient = g->values[v].gradient;
    size_t bytes = hr_desc_bytes(&g->values[gradient].desc);
    int k = o->n_gradients++;
    o->gradient[k].name = hr__arena_text(&o->arena, g->values[v].name);
    o->gradient[k].desc = g->values[gradient].desc;
    o->gradient[k].data = hr__arena_alloc(&o->arena, bytes);
    must(hr__run_read(run, gradient, 0, o->gradient[k].data, bytes, &err), &err);
  }
}

static void outcome_make(outcome *o, const char *split, const char *precision) {
  hr_key_table tables[HR_COMPILE_TABLES + 1];
  hr__compile_tables(tables);
  tables[HR_COMPILE_TABLES] = hr_memory_keys;
  char setting[2][128];
  snprintf(setting[0], sizeof setting[0], "memory.split=%s", split);
  snprintf(setting[1], sizeof setting[1], "model.precision=%s", precision);
  hr_error err = {0};
  hr_recipe *recipe;
  hr_graph *graph;
  hr_device *device;
  hr_plan *plan;
  hr_run *run;
  hr_rates rates = {0};
  *o = (outcome){0};
  must(hr__recipe_parse("test.yaml", ".", recipe_text, sizeof recipe_text - 1,
                        (const char *const[]){setting[0], setting[1]}, 2, tables, HR_COMPILE_TABLES + 1, &recipe, &err),
       &err);
  must(hr__compile(recipe, NULL, NULL, &graph, &err), &err);
  must(hr__graph_verify(graph, &err), &err);
  must(hr__cpu_open(&device, &err), &err);
  hr__rates_default(&device->facts, &rates);
  must(hr__plan_build(graph, &device->facts, &rates, &(hr_plan_options){.accumulation = 2}, &plan, &err), &err);
  must(hr__run_create(plan, device, &(hr_run_options){.check_numerics = true}, &run, &err), &err);
  must(hr__run_init_values(run, 11, &err), &err);
  program_run(run, graph, HR_PROGRAM_MICRO_FIRST, 1, &o->loss[0]);
  program_run(run, graph, HR_PROGRAM_MICRO_NEXT, 2, &o->loss[1]);
  program_run(run, graph, HR_PROGRAM_EVAL, 3, &o->loss[2]);
  gradients_read(o, run, graph);
  hr__run_destroy(run);
  hr__plan_destroy(plan);
  hr__rates_fini(&rates);
  hr__device_close(device);
  hr__graph_destroy(graph);
  hr__recipe_destroy(recipe);
}

static double element(const hr_desc *desc, const void *data, int64_t i) {
  if (desc->dtype == HR_F32) return (double)((const float *)data)[i];
  return (double)hr__bf16_to_f32(((const uint16_t *)data)[i]);
}

/* `blocks`: names of parameters whose gradients are summed in slices. */
static void compare(const outcome *whole, const char *split, const char *precision, const char *const *blocks,
                    double tolerance) {
  outcome o;
  outcome_make(&o, split, precision);
  for (int p = 0; p < 3; p++)
    if (memcmp(&o.loss[p], &whole->loss[p], sizeof(float)) != 0)
      fail_msg("%s: loss %d is %.9g instead of %.9g", split, p, (double)o.loss[p], (double)whole->loss[p]);
  assert_int_equal(o.n_gradients, whole->n_gradients);
  int exact = 0;
  for (int k = 0; k < o.n_gradients; k++) {
    const hr_desc *desc = &o.gradient[k].desc;
    const char *name = o.gradient[k].name;
    bool summed = false;
    for (int i = 0; blocks[i]; i++)
      summed |= hr__name_matches(name, blocks[i]);
    assert_string_equal(name, whole->gradient[k].name);
    if (!summed && memcmp(o.gradient[k].data, whole->gradient[k].data, hr_desc_bytes(desc)) != 0)
      fail_msg("%s: the gradient of %s has other bits", split, name);
    exact += !summed;
    double largest = 0, worst = 0;
    for (int64_t i = 0; i < hr_desc_count(desc); i++) {
      double want = element(desc, whole->gradient[k].data, i);
      largest = fmax(largest, fabs(want));
      worst = fmax(worst, fabs(element(desc, o.gradient[k].data, i) - want));
    }
    if (!(largest > 0 && worst <= tolerance * largest))
      fail_msg("%s: the gradient of %s is off by %g of %g", split, name, worst, largest);
  }
  assert_true(exact >= 2); /* at least the embedding, which all that flows back through activations reaches */
  hr__arena_fini(&o.arena);
}

static void compare_all(const char *precision, double tolerance) {
  outcome whole;
  outcome_make(&whole, "none", precision);
  static const char *const mlp[] = {"mlp", "post_attention_layernorm", NULL};
  static const char *const attention[] = {"layers.1.self_attn", "layers.1.input_layernorm", NULL};
  static const char *const layer[] = {"layers.1", NULL};
  static const char *const head[] = {"lm_head", NULL};
  static const char *const both[] = {"layers", "lm_head", NULL};
  compare(&whole, "{mlp: 2}", precision, mlp, tolerance);
  compare(&whole, "{mlp: 5}", precision, mlp, tolerance);
  compare(&whole, "{layers.1.self_attn: 3}", precision, attention, tolerance);
  compare(&whole, "{layers.1: 4}", precision, layer, tolerance);
  compare(&whole, "{lm_head: 7}", precision, head, tolerance);
  compare(&whole, "{self_attn: 2, mlp: 3, lm_head: 2}", precision, both, tolerance);
  hr__arena_fini(&whole.arena);
}

static void test_f32(void **state) {
  (void)state;
  compare_all("32-true", 1e-6);
}

static void test_bf16(void **state) {
  (void)state;
  compare_all("bf16-true", 0x1p-6);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_f32), cmocka_unit_test(test_bf16)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
