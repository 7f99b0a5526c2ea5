/* Random U-Nets over time, split by rows (frames) and whole, planned and run: windows of several widths, strides,
 * dilations and paddings, levels that keep their convolution's result and levels that make it again, what goes across
 * from the way down to the way up, a mask at the end.
 *
 * The loss and all gradients agree to rounding; where every statistic is taken from a whole value, the loss keeps its
 * bits. */
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
#include "op/conv.h"
#include "op/group_norm.h"
#include "op/mse.h"
#include "op/pointwise.h"
#include "op/resize.h"
#include "op/slice.h"
#include "pass/pass.h"
#include "plan/memory.h"
#include "run/run.h"

enum { B = 2, HEIGHT = 5, WIDTH = 6, CHANNELS = 2, VALUES = 32, ROUNDS = 60 };

static const char recipe_text[] =
    "model:\n"
    "  family: llama\n"
    "  config: { hidden_size: 64, num_hidden_layers: 3, num_attention_heads: 4, num_key_value_heads: 2,\n"
    "            intermediate_size: 176, vocab_size: 97 }\n"
    "data: { sequence_length: 24 }\n";

static void must(hr_status status, const hr_error *err) {
  if (status != HR_OK) fail_msg("%s: %s: %s", hr_status_name(status), err->place, err->message);
}

typedef struct maker {
  hr_builder b;
  uint32_t state;
  int64_t frames, width; /* of the input; channels of the first level: few are made again, many are kept */
} maker;

static int64_t draw(maker *m, unsigned below) {
  m->state = m->state * 1664525u + 1013904223u;
  return (m->state >> 16) % below;
}

static hr_id weight(maker *m, const char *name, hr_desc desc, float size) {
  hr__module(&m->b, "%s", name);
  return hr__parameter(&m->b, name, desc, (hr_init){.rule = HR_INIT_NORMAL, .a = size});
}

static hr_id named(maker *m, const char *where, const char *what, hr_desc desc, float size) {
  char name[64];
  snprintf(name, sizeof name, "%s.%s", where, what);
  return weight(m, name, desc, size);
}

static int64_t channels(const maker *m, hr_id x) {
  return m->b.status == HR_OK ? m->b.graph->values[x].desc.dim[1] : 1;
}

/* A convolution with a kernel of `time` frames, onto `add`. */
static hr_id conv(maker *m, const char *where, int64_t out, int64_t time, hr_id x, hr_id add, hr_conv_args args) {
  hr_desc desc = {HR_F32, 5, {out, channels(m, x), time, 3, 3}};
  hr_id w = named(m, where, add == HR_NONE ? "conv" : "more", desc, 0.2f);
  hr_id bias = add == HR_NONE ? named(m, where, "bias", hr__desc1(HR_F32, out), 0.1f) : HR_NONE;
  return hr__conv_add(&m->b, x, w, bias, add, &args);
}

static hr_id norm(maker *m, const char *where, hr_id x) {
  int64_t count = channels(m, x);
  hr_id w = named(m, where, "scale", hr__desc1(HR_F32, count), 1.0f);
  hr_id b = named(m, where, "shift", hr__desc1(HR_F32, count), 0.3f);
  return hr__group_norm(&m->b, x, w, b, &(hr_group_norm_args){2, 1e-5f, draw(m, 2) == 0});
}

/* Windows of one size over all frames: as many come out. */
static hr_conv_args around(maker *m, int64_t *time) {
  *time = 1 + 2 * draw(m, 2);
  int64_t dilation = 1 + draw(m, 2);
  return (hr_conv_args){
      .stride = {1, 1, 1}, .padding = {dilation * (*time - 1) / 2, 1, 1}, .dilation = {dilation, 1, 1}, .groups = 1};
}

static hr_id level(maker *m, const char *where, int64_t out, hr_id x, hr_id beside) {
  int64_t time;
  hr_conv_args args = around(m, &time);
  x = conv(m, where, out, time, x, HR_NONE, args);
  if (beside != HR_NONE) {
    args = around(m, &time);
    x = conv(m, where, out, time, beside, x, args);
  }
  return norm(m, where, x);
}

static hr_id halved(maker *m, const char *where, hr_id x) {
  int64_t time = 2 + draw(m, 2);
  hr_conv_args args = {.stride = {2, 1, 1}, .padding = {draw(m, 2), 1, 1}, .dilation = {1, 1, 1}, .groups = 1};
  return conv(m, where, channels(m, x), time, x, HR_NONE, args);
}

/* By a transposed convolution of 2 or 3 frames, to m->frames with padding, or to as many as come out. Without anything
 * behind it, what reads it asks for the very rows that it makes, some of which its padding has cut off. */
static hr_id doubled(maker *m, const char *where, int64_t out, hr_id x) {
  if (m->b.status != HR_OK) return HR_NONE;
  int64_t time = 2 + draw(m, 2), full = 2 * (m->b.graph->values[x].desc.dim[2] - 1) + time;
  int64_t frames = draw(m, 2) && m->frames <= full + 1 ? m->frames : full - 2 * draw(m, 2);
  int64_t padding = full > frames ? (full - frames + 1) / 2 : 0;
  hr_desc desc = {HR_F32, 5, {channels(m, x), out, time, 3, 3}};
  hr_conv_args args = {.stride = {2, 1, 1}, .padding = {padding, 1, 1}, .dilation = {1, 1, 1}, .groups = 1};
  int64_t more[HR_CONV_AXES] = {frames - full + 2 * padding, 0, 0};
  hr_id w = named(m, where, "double", desc, 0.2f);
  if (draw(m, 2)) return hr__conv_transpose(&m->b, x, w, HR_NONE, more, &args);
  x = hr__conv_transpose(&m->b, x, w, named(m, where, "double.bias", hr__desc1(HR_F32, out), 0.1f), more, &args);
  return hr__unary(&m->b, HR_FORMULA_tanh, x, 0, 0);
}

static void graph_make(maker *m, uint32_t seed, bool wide) {
  hr_builder *b = &m->b;
  hr_error err = {0};
  hr_graph *graph;
  must(hr__graph_create(&graph, &err), &err);
  hr__builder_init(b, graph, HR_F32);
  m->state = seed;
  m->frames = 8 + draw(m, 4);
  m->width = wide ? 32 : 4;
  hr__program_begin(b, HR_PROGRAM_STEP);
  hr_id x = hr__input(b, "x", (hr_desc){HR_F32, 5, {B, CHANNELS, m->frames, HEIGHT, WIDTH}});
  hr__module(b, "before");
  if (wide) x = conv(m, "before", m->width, 1, x, HR_NONE, (hr_conv_args){{1, 1, 1}, {0, 1, 1}, {1, 1, 1}, 1});
  hr__rows_along(b, x, 2);
  hr__block_begin(b, "down.0");
  hr_id skip = x = level(m, "down.0", m->width, x, HR_NONE);
  hr__block_end(b);
  hr__block_begin(b, "down.1");
  x = level(m, "down.1", m->width, halved(m, "down.1.half", x), HR_NONE);
  hr__block_end(b);
  hr__block_begin(b, "up");
  x = doubled(m, "up", m->width, x);
  if (b->status == HR_OK) skip = hr__resize(b, skip, (const int64_t[]){b->graph->values[x].desc.dim[2], HEIGHT, WIDTH});
  x = level(m, "up", m->width, x, skip);
  x = conv(m, "mask", 1, 1, x, HR_NONE, (hr_conv_args){{1, 1, 1}, {0, 1, 1}, {1, 1, 1}, 1});
  x = hr__resize(b, x, (const int64_t[]){m->frames, HEIGHT, WIDTH});
  hr__block_end(b);
  hr_id target = hr__input(b, "t", (hr_desc){HR_F32, 5, {B, 1, m->frames, HEIGHT, WIDTH}});
  hr__module(b, "loss");
  hr__program_set_output(b, "loss", hr__mse(b, x, target));
  must(hr__builder_status(b, &err), &err);
}

typedef struct outcome {
  hr_arena arena;
  float loss;
  int n;
  int joined;      /* strips whose statistics are joined to those before */
  int whole_norms; /* that read all frames */
  const char *name[VALUES];
  float *gradient[VALUES];
  int64_t count[VALUES];
} outcome;

static void input_write(hr_run *run, const hr_graph *g, const char *name, int step) {
  hr_error err = {0};
  hr_id value = hr__program_input(g, 0, name);
  int64_t count = hr_desc_count(&g->values[value].desc);
  float *x = hr__alloc((size_t)count * sizeof *x);
  assert_non_null(x);
  for (int64_t i = 0; i < count; i++)
    x[i] = 0.0625f * (float)((i * step + i / 7) % 41 - 20);
  must(hr__run_write(run, value, 0, x, (size_t)count * sizeof *x, &err), &err);
  hr__free(x);
}

static void outcome_read(outcome *o, hr_run *run, const hr_graph *g) {
  hr_error err = {0};
  must(hr__run_read(run, hr__program_output(g, 0, "loss"), 0, &o->loss, sizeof o->loss, &err), &err);
  for (hr_id v = 0; v < g->n_values; v++) {
    if (!g->values[v].trained) continue;
    assert_true(o->n < VALUES);
    o->name[o->n] = hr__arena_text(&o->arena, g->values[v].name);
    o->count[o->n] = hr_desc_count(&g->values[v].desc);
    o->gradient[o->n] = hr__arena_array(&o->arena, (size_t)o->count[o->n], sizeof(float));
    must(hr__run_read(run, g->values[v].gradient, 0, o->gradient[o->n], (size_t)o->count[o->n] * sizeof(float), &err),
         &err);
    o->n++;
  }
}

static void outcome_make(outcome *o, uint32_t seed, bool wide, const char *split, const char *checkpoint) {
  hr_error err = {0};
  hr_key_table tables[HR_COMPILE_TABLES];
  hr__compile_tables(tables);
  char setting[2][96];
  snprintf(setting[0], sizeof setting[0], "memory.split=%s", split);
  snprintf(setting[1], sizeof setting[1], "memory.checkpoint=%s", checkpoint);
  hr_recipe *recipe;
  must(hr__recipe_parse("test.yaml", ".", recipe_text, sizeof recipe_text - 1,
                        (const char *const[]){setting[0], setting[1]}, 2, tables, HR_COMPILE_TABLES, &recipe, &err),
       &err);
  maker m = {0};
  *o = (outcome){0};
  graph_make(&m, seed, wide);
  hr_graph *g = m.b.graph;
  must(hr__pass_split(&m.b, recipe, NULL, &err), &err);
  for (size_t n = 0; n < g->n_nodes; n++)
    o->joined += g->nodes[n].op == &hr_op_group_statistics && g->nodes[n].in[1] != HR_NONE;
  for (size_t n = 0; n < g->n_nodes; n++)
    o->whole_norms += g->nodes[n].op == &hr_op_group_norm && g->nodes[n].in[3] == HR_NONE;
  hr_loss loss = {.value = hr__program_output(g, 0, "loss"), .weight = 1.0f};
  must(hr__grad(&m.b, &loss, 1, HR_GRAD_WRITE, &err), &err);
  must(hr__pass_checkpoint(&m.b, recipe, NULL, &err), &err);
  must(hr__graph_verify(g, &err), &err);
  hr_device *device;
  hr_plan *plan;
  hr_run *run;
  hr_rates rates = {0};
  must(hr__cpu_open(&device, &err), &err);
  hr__rates_default(&device->facts, &rates);
  must(hr__plan_build(g, &device->facts, &rates, &(hr_plan_options){.accumulation = 1}, &plan, &err), &err);
  must(hr__run_create(plan, device, &(hr_run_options){.check_numerics = true}, &run, &err), &err);
  must(hr__run_init_values(run, 11, &err), &err);
  hr_control control = {.seed = 3, .step = 2, .loss_weight = 1.0f, .loss_scale = 1.0f};
  hr_id at = hr__graph_find_value(g, "control");
  if (at != HR_NONE) must(hr__run_write(run, at, 0, &control, sizeof control, &err), &err);
  input_write(run, g, "x", 37);
  input_write(run, g, "t", 53);
  must(hr__run_program(run, 0, &err), &err);
  outcome_read(o, run, g);
  hr__run_destroy(run);
  hr__plan_destroy(plan);
  hr__rates_fini(&rates);
  hr__device_close(device);
  hr__graph_destroy(g);
  hr__recipe_destroy(recipe);
}

static void compare(const outcome *whole, const outcome *o, uint32_t seed, const char *split, bool bits) {
  float apart = fabsf(o->loss - whole->loss), largest = 0;
  if (apart > (bits ? 0.0f : 2e-6f * fabsf(whole->loss)))
    fail_msg("graph %u, %s: loss %.9g instead of %.9g", seed, split, (double)o->loss, (double)whole->loss);
  assert_int_equal(o->n, whole->n);
  for (int k = 0; k < whole->n; k++)
    for (int64_t i = 0; i < whole->count[k]; i++)
      largest = fmaxf(largest, fabsf(whole->gradient[k][i]));
  assert_true(largest > 0.0f);
  for (int k = 0; k < o->n; k++) {
    float worst = 0;
    assert_string_equal(o->name[k], whole->name[k]);
    for (int64_t i = 0; i < o->count[k]; i++)
      worst = fmaxf(worst, fabsf(o->gradient[k][i] - whole->gradient[k][i]));
    if (worst > 1e-5f * largest)
      fail_msg("graph %u, %s: the gradient of %s is off by %g of %g", seed, split, o->name[k], (double)worst,
               (double)largest);
  }
}

static void rounds(bool wide) {
  static const char *const splits[] = {
      "{\"*\": 3}", "{\"*\": 4}", "{down.0: 3, up: 5}", "{down.0: 3, down.1: 3}", "{up: 8, down.0: 1}", "{\"*\": 100}"};
  static const char *const checkpoints[] = {"none", "selective", "every-layer"};
  int joined = 0;
  for (uint32_t seed = 1; seed <= ROUNDS; seed++) {
    outcome whole, o;
    const char *split = splits[seed % (sizeof splits / sizeof *splits)];
    outcome_make(&whole, seed, wide, "none", "none");
    outcome_make(&o, seed, wide, split, checkpoints[seed / 6 % 3]);
    if (wide) assert_int_equal(o.joined, 0); /* every statistic is taken from what is whole */
    compare(&whole, &o, seed, split, wide);
    assert_int_equal(whole.whole_norms, 3);
    if (strchr(split, '*')) assert_int_equal(o.whole_norms, 0);
    joined += o.joined;
    hr__arena_fini(&whole.arena);
    hr__arena_fini(&o.arena);
  }
  assert_true(wide || joined > 0); /* statistics were put together of those of strips */
}

static void test_results_that_are_made_again(void **state) {
  (void)state;
  rounds(false);
}

static void test_results_that_are_kept(void **state) {
  (void)state;
  rounds(true);
}

/* A mean over frames needs all of them at once. */
static void test_what_needs_all_rows(void **state) {
  (void)state;
  hr_error err = {0};
  hr_key_table tables[HR_COMPILE_TABLES];
  hr__compile_tables(tables);
  hr_recipe *recipe;
  must(hr__recipe_parse("test.yaml", ".", recipe_text, sizeof recipe_text - 1,
                        (const char *const[]){"memory.split={block: 5}"}, 1, tables, HR_COMPILE_TABLES, &recipe, &err),
       &err);
  hr_builder b;
  hr_graph *graph;
  must(hr__graph_create(&graph, &err), &err);
  hr__builder_init(&b, graph, HR_F32);
  hr__program_begin(&b, HR_PROGRAM_STEP);
  hr_id x = hr__input(&b, "x", (hr_desc){HR_F32, 5, {B, CHANNELS, 8, HEIGHT, WIDTH}});
  hr__rows_along(&b, x, 2);
  hr__block_begin(&b, "block");
  x = hr__reduce(&b, HR_REDUCE_MEAN, hr__unary(&b, HR_FORMULA_tanh, x, 0, 0), 1u << 2);
  hr__block_end(&b);
  hr__program_set_output(&b, "y", x);
  assert_int_equal(hr__pass_split(&b, recipe, NULL, &err), HR_BAD_INPUT);
  assert_non_null(strstr(err.message, "block as a whole cannot be split into 5 slices"));
  assert_non_null(strstr(err.message, "does not go frame by frame"));
  hr__graph_destroy(graph);
  hr__recipe_destroy(recipe);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_results_that_are_made_again),
                                     cmocka_unit_test(test_results_that_are_kept),
                                     cmocka_unit_test(test_what_needs_all_rows)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
