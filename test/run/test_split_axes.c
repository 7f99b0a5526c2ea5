/* Random graphs, split and whole, planned and run: values with B samples, with k rows to a sample, and with the batch
 * along the second axis; layers nested in the split block, recomputed or not.
 *
 * The loss and gradients of weights outside of the split block keep their bits. Gradients of weights inside are summed
 * in another order, unless the number of slices is 1 sample's. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "compile/compile.h"
#include "grad/grad.h"
#include "op/concat.h"
#include "op/dropout.h"
#include "op/layernorm.h"
#include "op/linear.h"
#include "op/mse.h"
#include "op/pointwise.h"
#include "op/slice.h"
#include "pass/pass.h"
#include "plan/memory.h"
#include "run/run.h"

enum { B = 6, K = 4, D = 16, WEIGHTS = 96, ROUNDS = 40 };

static const char recipe_text[] =
    "model:\n"
    "  family: llama\n"
    "  config: { hidden_size: 64, num_hidden_layers: 3, num_attention_heads: 4, num_key_value_heads: 2,\n"
    "            intermediate_size: 176, vocab_size: 97 }\n"
    "data: { sequence_length: 24 }\n";

static void must(hr_status status, const hr_error *err) {
  if (status != HR_OK) fail_msg("%s: %s: %s", hr_status_name(status), err->place, err->message);
}

/* How a value lies: B samples of K rows of D numbers in all. */
typedef enum form { SAMPLES /* [B, K, D] */, ROWS /* [B K, D] */, SECOND /* [K, B, D] */, FORMS } form;

typedef struct maker {
  hr_builder b;
  uint32_t state;
  int weights;
  form form;
  hr_id y;
} maker;

static unsigned draw(maker *m, unsigned below) {
  m->state = m->state * 1664525u + 1013904223u;
  return (m->state >> 16) % below;
}

static hr_id weight(maker *m, const char *where, hr_desc desc, float size) {
  char name[48];
  snprintf(name, sizeof name, "%s.%d", where, m->weights++);
  hr__module(&m->b, "%s", name);
  return hr__parameter(&m->b, name, desc, (hr_init){.rule = HR_INIT_NORMAL, .a = size});
}

static void form_change(maker *m, form to) {
  if (m->form == to) return;
  if (m->form == ROWS) m->y = hr__reshape(&m->b, m->y, 3, (const int64_t[]){B, K, D});
  if (m->form == SECOND) m->y = hr__permute(&m->b, m->y, (const int[]){1, 0, 2});
  if (to == ROWS) m->y = hr__reshape(&m->b, m->y, 2, (const int64_t[]){B * K, D});
  if (to == SECOND) m->y = hr__permute(&m->b, m->y, (const int[]){1, 0, 2});
  m->form = to;
}

/* One step with ops of all kinds; `where` names its weights. */
static void step_make(maker *m, const char *where, bool by_rows) {
  hr_builder *b = &m->b;
  hr_desc square = hr__desc2(HR_F32, D, D), row = hr__desc1(HR_F32, D);
  hr_id x = m->y, more;
  if (!by_rows && draw(m, 3) == 0) form_change(m, (form)draw(m, FORMS));
  switch (draw(m, by_rows ? 4 : 8)) {
  case 0:
    m->y = hr__linear(b, m->y, weight(m, where, square, 0.3f), weight(m, where, row, 0.1f));
    break;
  case 1:
    m->y = hr__layernorm(b, m->y, weight(m, where, row, 1.0f), weight(m, where, row, 0.1f), 1e-5f);
    break;
  case 2:
    x = m->y;
    more = hr__unary(b, HR_FORMULA_tanh, hr__linear(b, x, weight(m, where, square, 0.3f), HR_NONE), 0, 0);
    m->y = hr__binary(b, HR_FORMULA_add, x, more);
    break;
  case 3:
    m->y = hr__binary(b, HR_FORMULA_mul, m->y, weight(m, where, row, 1.0f));
    break;
  case 4: /* what a sample's rows have in common */
    form_change(m, SAMPLES);
    more = hr__reduce(b, HR_REDUCE_MEAN, m->y, 1u << 1);
    m->y = hr__binary(b, HR_FORMULA_sub, m->y, more);
    break;
  case 5: /* repeated and put beside */
    form_change(m, SAMPLES);
    more = hr__expand(b, hr__reduce(b, HR_REDUCE_MAX, m->y, 1u << 1), 3, (const int64_t[]){B, K / 2, D});
    m->y = hr__concat(b, (hr_id[]){hr__window(b, m->y, 1, 1, K / 2), more}, 2, 1);
    break;
  case 6:
    form_change(m, draw(m, 2) ? SAMPLES : ROWS);
    hr__module(b, "%s.dropout.%d", where, m->weights);
    m->y = hr__dropout(b, m->y, 0.25f);
    break;
  default: { /* all of a sample in one row */
    form_change(m, ROWS);
    hr_id flat = hr__reshape(b, m->y, 2, (const int64_t[]){B, K * D});
    flat = hr__linear(b, flat, weight(m, where, hr__desc2(HR_F32, D, K * D), 0.2f), HR_NONE);
    form_change(m, SAMPLES);
    m->y = hr__binary(b, HR_FORMULA_add, m->y, hr__reshape(b, flat, 3, (const int64_t[]){B, 1, D}));
  }
  }
}

/* A program with a block "region" in its middle, which has layers in it. */
static void graph_make(maker *m, uint32_t seed, bool by_rows) {
  hr_builder *b = &m->b;
  hr_error err = {0};
  hr_graph *graph;
  must(hr__graph_create(&graph, &err), &err);
  hr__builder_init(b, graph, HR_F32);
  m->state = seed;
  m->weights = 0;
  hr__program_begin(b, HR_PROGRAM_STEP);
  m->form = by_rows ? ROWS : (form)draw(m, FORMS);
  hr_desc desc[FORMS] = {hr__desc3(HR_F32, B, K, D), hr__desc2(HR_F32, B * K, D), hr__desc3(HR_F32, K, B, D)};
  hr_batch batch[FORMS] = {{0, 1}, {0, K}, {1, 1}};
  m->y = hr__input_batch(b, "x", desc[m->form], batch[m->form]);
  m->y = hr__linear(b, m->y, weight(m, "before", hr__desc2(HR_F32, D, D), 0.3f), HR_NONE);
  bool component = draw(m, 2);
  if (component)
    hr__component_begin(b, "region");
  else
    hr__block_begin(b, "region");
  for (int layer = 0, layers = 1 + (int)draw(m, 3); layer < layers; layer++) {
    hr__block_begin(b, "region.layer.%d", layer);
    for (int k = 0, steps = 1 + (int)draw(m, 4); k < steps; k++)
      step_make(m, "region", by_rows);
    hr__block_end(b);
    if (draw(m, 2)) step_make(m, "region", by_rows);
  }
  hr__block_end(b);
  m->y = hr__linear(b, m->y, weight(m, "behind", hr__desc2(HR_F32, D, D), 0.3f), HR_NONE);
  form_change(m, SAMPLES);
  hr_id target = hr__input(b, "t", hr__desc3(HR_F32, B, K, D));
  hr__program_set_output(b, "loss", hr__mse(b, m->y, target));
  must(hr__builder_status(b, &err), &err);
}

typedef struct outcome {
  hr_arena arena;
  float loss;
  int n;
  const char *name[WEIGHTS];
  float *gradient[WEIGHTS];
  int64_t count[WEIGHTS];
  int clones; /* forward ops in backward */
} outcome;

static void values_write(hr_run *run, const hr_graph *g) {
  hr_error err = {0};
  float x[B * K * D];
  hr_control control = {.seed = 3, .step = 2, .loss_weight = 1.0f, .loss_scale = 1.0f};
  for (const char *name = "x"; name; name = *name == 'x' ? "t" : NULL) {
    for (int i = 0; i < B * K * D; i++)
      x[i] = 0.0625f * (float)((i * (*name == 'x' ? 37 : 53) + i / 7) % 41 - 20);
    must(hr__run_write(run, hr__program_input(g, 0, name), 0, x, sizeof x, &err), &err);
  }
  hr_id at = hr__graph_find_value(g, "control");
  if (at != HR_NONE) must(hr__run_write(run, at, 0, &control, sizeof control, &err), &err);
}

static void outcome_read(outcome *o, hr_run *run, const hr_graph *g) {
  hr_error err = {0};
  must(hr__run_read(run, hr__program_output(g, 0, "loss"), 0, &o->loss, sizeof o->loss, &err), &err);
  for (hr_id v = 0; v < g->n_values; v++) {
    if (!g->values[v].trained) continue;
    assert_true(o->n < WEIGHTS);
    o->name[o->n] = hr__arena_text(&o->arena, g->values[v].name);
    o->count[o->n] = hr_desc_count(&g->values[v].desc);
    o->gradient[o->n] = hr__arena_array(&o->arena, (size_t)o->count[o->n], sizeof(float));
    must(hr__run_read(run, g->values[v].gradient, 0, o->gradient[o->n], (size_t)o->count[o->n] * sizeof(float), &err),
         &err);
    o->n++;
  }
}

/* HR_OK and what came of it, or why it cannot be split. */
static hr_status outcome_make(outcome *o, uint32_t seed, bool by_rows, const char *split, const char *checkpoint,
                              hr_error *err) {
  hr_key_table tables[HR_COMPILE_TABLES];
  hr__compile_tables(tables);
  char setting[2][96];
  snprintf(setting[0], sizeof setting[0], "memory.split=%s", split);
  snprintf(setting[1], sizeof setting[1], "memory.checkpoint=%s", checkpoint);
  hr_recipe *recipe;
  must(hr__recipe_parse("test.yaml", ".", recipe_text, sizeof recipe_text - 1,
                        (const char *const[]){setting[0], setting[1]}, 2, tables, HR_COMPILE_TABLES, &recipe, err),
       err);
  maker m = {0};
  *o = (outcome){0};
  graph_make(&m, seed, by_rows);
  hr_graph *g = m.b.graph;
  hr_status status = hr__pass_split(&m.b, recipe, NULL, err);
  if (status == HR_OK) {
    hr_loss loss = {.value = hr__program_output(g, 0, "loss"), .weight = 1.0f};
    must(hr__grad(&m.b, &loss, 1, HR_GRAD_WRITE, err), err);
    must(hr__pass_checkpoint(&m.b, recipe, NULL, err), err);
    must(hr__graph_verify(g, err), err);
    for (size_t n = 0; n < g->n_nodes; n++)
      o->clones +=
          g->nodes[n].phase == HR_BACKWARD && (g->nodes[n].op == &hr_op_linear || g->nodes[n].op == &hr_op_layernorm);
    hr_device *device;
    hr_plan *plan;
    hr_run *run;
    hr_rates rates = {0};
    must(hr__cpu_open(&device, err), err);
    hr__rates_default(&device->facts, &rates);
    must(hr__plan_build(g, &device->facts, &rates, &(hr_plan_options){.accumulation = 1}, &plan, err), err);
    must(hr__run_create(plan, device, &(hr_run_options){.check_numerics = true}, &run, err), err);
    must(hr__run_init_values(run, 11, err), err);
    values_write(run, g);
    must(hr__run_program(run, 0, err), err);
    outcome_read(o, run, g);
    hr__run_destroy(run);
    hr__plan_destroy(plan);
    hr__rates_fini(&rates);
    hr__device_close(device);
  }
  hr__graph_destroy(g);
  hr__recipe_destroy(recipe);
  return status;
}

static void compare(const outcome *whole, const outcome *o, uint32_t seed, const char *split) {
  if (memcmp(&o->loss, &whole->loss, sizeof o->loss) != 0)
    fail_msg("graph %u, %s: loss %.9g instead of %.9g", seed, split, (double)o->loss, (double)whole->loss);
  assert_int_equal(o->n, whole->n);
  float largest = 0; /* of all: that of a bias before a norm is rounding alone */
  for (int k = 0; k < whole->n; k++)
    for (int64_t i = 0; i < whole->count[k]; i++)
      largest = fmaxf(largest, fabsf(whole->gradient[k][i]));
  assert_true(largest > 0.0f);
  for (int k = 0; k < o->n; k++) {
    assert_string_equal(o->name[k], whole->name[k]);
    bool inside = strncmp(o->name[k], "region", 6) == 0;
    float worst = 0;
    for (int64_t i = 0; i < o->count[k]; i++)
      worst = fmaxf(worst, fabsf(o->gradient[k][i] - whole->gradient[k][i]));
    if (worst > (inside ? 2e-6f * largest : 0.0f))
      fail_msg("graph %u, %s: the gradient of %s is off by %g of %g", seed, split, o->name[k], (double)worst,
               (double)largest);
  }
}

static const char *const checkpoints[] = {"none", "selective", "every-layer"};

static void test_random_graphs(void **state) {
  (void)state;
  for (uint32_t seed = 1; seed <= ROUNDS; seed++) {
    hr_error err = {0};
    outcome whole, o;
    char split[48];
    snprintf(split, sizeof split, "{region: %d}", 2 + (int)(seed % (B - 1)));
    must(outcome_make(&whole, seed, false, "none", "none", &err), &err);
    must(outcome_make(&o, seed, false, split, checkpoints[seed % 3], &err), &err);
    compare(&whole, &o, seed, split);
    hr__arena_fini(&whole.arena);
    hr__arena_fini(&o.arena);
  }
}

/* A block that reads rows only is cut between rows, not only between samples. */
static void test_rows_of_a_sample(void **state) {
  (void)state;
  for (uint32_t seed = 1; seed <= ROUNDS / 2; seed++) {
    hr_error err = {0};
    outcome whole, o;
    char split[48];
    snprintf(split, sizeof split, "{region: %d}", seed % 2 ? B * K : B + 1 + (int)seed % 9);
    must(outcome_make(&whole, seed, true, "none", "none", &err), &err);
    must(outcome_make(&o, seed, true, split, checkpoints[seed % 3], &err), &err);
    compare(&whole, &o, seed, split);
    hr__arena_fini(&whole.arena);
    hr__arena_fini(&o.arena);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_graphs), cmocka_unit_test(test_rows_of_a_sample)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
