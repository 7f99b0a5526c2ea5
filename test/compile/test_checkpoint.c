/* checkpoint: what is kept and what is made again, by recipe and by choices; the cut against all subsets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "compile/compile.h"
#include "grad/grad.h"
#include "op/add.h"
#include "op/copy.h"
#include "op/dropout.h"
#include "op/gelu.h"
#include "op/group_norm.h"
#include "op/linear.h"
#include "op/mse.h"
#include "op/pointwise.h"
#include "op/rmsnorm.h"
#include "op/swiglu.h"
#include "pass/checkpoint_cut.h"
#include "pass/pass.h"

static const char recipe_text[] = "model:\n"
                                  "  family: llama\n"
                                  "  config: { hidden_size: 16, num_hidden_layers: 3, num_attention_heads: 4,\n"
                                  "            num_key_value_heads: 2, intermediate_size: 24, vocab_size: 64 }\n"
                                  "data: { sequence_length: 8 }\n"
                                  "training: { batch_size: 2, gradient_accumulation: 2, eval_every: 5 }\n";

static hr_recipe *recipe_of(const char *mode) {
  hr_key_table tables[HR_COMPILE_TABLES];
  hr__compile_tables(tables);
  char override[64];
  const char *overrides[] = {override};
  snprintf(override, sizeof override, "memory.checkpoint=%s", mode);
  hr_recipe *recipe = NULL;
  hr_error err = {0};
  if (hr__recipe_parse("test.yaml", ".", recipe_text, sizeof recipe_text - 1, overrides, 1, tables, HR_COMPILE_TABLES,
                       &recipe, &err) != HR_OK)
    fail_msg("%s: %s", err.place, err.message);
  return recipe;
}

static hr_graph *graph_of(const char *mode, const hr_choices *choices) {
  hr_recipe *recipe = recipe_of(mode);
  hr_graph *graph = NULL;
  hr_error err = {0};
  if (hr__compile(recipe, choices, "checkpoint", &graph, &err) != HR_OK || hr__graph_verify(graph, &err) != HR_OK)
    fail_msg("%s: %s", err.place, err.message);
  hr__recipe_destroy(recipe);
  return graph;
}

static int ops_count(const hr_graph *g, hr_program_kind kind, hr_phase phase, const char *op) {
  const hr_program *p = &g->programs[hr__graph_find_kind(g, kind)];
  int count = 0;
  for (hr_id n = p->first; n < p->first + p->count; n++)
    count += g->nodes[n].phase == phase && strcmp(g->nodes[n].op->name, op) == 0;
  return count;
}

/* Bytes of forward results that nodes behind forward read. */
static size_t kept_bytes(const hr_graph *g, hr_program_kind kind) {
  hr_id at = hr__graph_find_kind(g, kind);
  const hr_program *p = &g->programs[at];
  size_t bytes = 0;
  for (hr_id v = 0; v < g->n_values; v++) {
    hr_id producer = g->values[v].producer;
    if (producer >= g->n_nodes || g->nodes[producer].phase != HR_FORWARD || g->nodes[producer].program != at) continue;
    bool read = false;
    for (hr_id n = p->first; n < p->first + p->count; n++)
      for (int i = 0; g->nodes[n].phase != HR_FORWARD && i < g->nodes[n].n_in; i++)
        read |= g->nodes[n].in[i] == v;
    if (read) bytes += hr_desc_bytes(&g->values[v].desc);
  }
  return bytes;
}

enum { ROWS = 16, H = 16 * 4 * ROWS, KV = 8 * 4 * ROWS, I = 24 * 4 * ROWS, STATS = 4 * ROWS, LSE = 4 * 4 * ROWS };
enum { OUTSIDE = 2 * H + STATS + 8 * 4 * 4 /* the last layer's output, final norm with its statistics, rope table */ };

static void test_none_clones_nothing(void **state) {
  (void)state;
  hr_graph *g = graph_of("none", NULL);
  assert_int_equal(ops_count(g, HR_PROGRAM_MICRO_NEXT, HR_BACKWARD, "linear"), 0);
  assert_int_equal(ops_count(g, HR_PROGRAM_MICRO_NEXT, HR_BACKWARD, "rmsnorm"), 0);
  /* input, two norms with statistics, q, k, v, attention with its statistics, sum, gate, up, product of both */
  assert_int_equal(kept_bytes(g, HR_PROGRAM_MICRO_NEXT), OUTSIDE + 3 * (6 * H + 2 * KV + LSE + 2 * STATS + 3 * I));
  hr__graph_destroy(g);
}

static void test_every_layer_keeps_inputs(void **state) {
  (void)state;
  hr_graph *g = graph_of("every-layer", NULL);
  for (int i = 0; i < 2; i++) {
    hr_program_kind program = i ? HR_PROGRAM_MICRO_NEXT : HR_PROGRAM_MICRO_FIRST;
    assert_int_equal(kept_bytes(g, program), OUTSIDE + 3 * H);
    assert_int_equal(ops_count(g, program, HR_BACKWARD, "linear"), 3 * 3); /* the last product feeds no backward node */
    assert_int_equal(ops_count(g, program, HR_BACKWARD, "attention"), 3);
    assert_int_equal(ops_count(g, program, HR_BACKWARD, "swiglu"), 3);
    assert_int_equal(ops_count(g, program, HR_BACKWARD, "head_loss"), 0);
  }
  assert_int_equal(ops_count(g, HR_PROGRAM_EVAL, HR_BACKWARD, "linear"), 0);
  hr__graph_destroy(g);
}

static void test_selective_recomputes_no_product(void **state) {
  (void)state;
  hr_graph *g = graph_of("selective", NULL);
  assert_int_equal(ops_count(g, HR_PROGRAM_MICRO_FIRST, HR_BACKWARD, "linear"), 0);
  assert_int_equal(ops_count(g, HR_PROGRAM_MICRO_FIRST, HR_BACKWARD, "attention"), 0);
  assert_int_equal(ops_count(g, HR_PROGRAM_MICRO_FIRST, HR_BACKWARD, "rmsnorm"), 3 * 2);
  assert_int_equal(ops_count(g, HR_PROGRAM_MICRO_FIRST, HR_BACKWARD, "swiglu"), 3);
  /* turned queries and keys are kept, not the projections before; the sum, not the projection added to it */
  assert_int_equal(ops_count(g, HR_PROGRAM_MICRO_FIRST, HR_BACKWARD, "rope"), 3); /* the gradient of both, no clone */
  assert_int_equal(ops_count(g, HR_PROGRAM_MICRO_FIRST, HR_BACKWARD, "add"), 0);
  assert_int_equal(kept_bytes(g, HR_PROGRAM_MICRO_FIRST), OUTSIDE + 3 * (4 * H + 2 * KV + LSE + 2 * I));
  hr__graph_destroy(g);
}

static void test_choices_by_block(void **state) {
  (void)state;
  hr_keep keep[] = {HR_KEEP_INPUT, HR_KEEP_SELECTIVE, HR_KEEP_ALL};
  hr_graph *g = graph_of("auto", &(hr_choices){.keep = keep, .n_keep = 3});
  const hr_program *p = &g->programs[hr__graph_find_kind(g, HR_PROGRAM_MICRO_NEXT)];
  hr_id blocks[64];
  assert_int_equal(hr__program_layers(g, hr__graph_find_kind(g, HR_PROGRAM_MICRO_NEXT), blocks), 3);
  int clones[3][2] = {{0}}; /* per layer: products, norms */
  for (hr_id n = p->first; n < p->first + p->count; n++) {
    const hr_node *node = &g->nodes[n];
    for (int i = 0; node->phase == HR_BACKWARD && i < 3; i++) {
      clones[i][0] += hr__block_within(g, node->block, blocks[i]) && strcmp(node->op->name, "linear") == 0;
      clones[i][1] += hr__block_within(g, node->block, blocks[i]) && strcmp(node->op->name, "rmsnorm") == 0;
    }
  }
  assert_memory_equal(clones, ((int[3][2]){{3, 2}, {0, 2}, {0, 0}}), sizeof clones);
  hr__graph_destroy(g);
  g = graph_of("auto", NULL); /* without choices everything is kept */
  assert_int_equal(ops_count(g, HR_PROGRAM_MICRO_FIRST, HR_BACKWARD, "rmsnorm"), 0);
  hr__graph_destroy(g);
}

/* Of the two gradients of a product the weight's is taken first: the kept input is gone when its own is made. */
static void test_weight_gradient_first(void **state) {
  (void)state;
  hr_graph *g = graph_of("none", NULL);
  const char *module = "model.layers.1.mlp.down_proj";
  hr_id dw = HR_NONE, dx = HR_NONE;
  const hr_program *p = &g->programs[hr__graph_find_kind(g, HR_PROGRAM_MICRO_FIRST)];
  for (hr_id n = p->first; n < p->first + p->count; n++) {
    if (strcmp(g->nodes[n].module, module) != 0) continue;
    if (g->nodes[n].op == &hr_op_linear_dw) dw = n;
    if (g->nodes[n].op == &hr_op_linear_dx) dx = n;
  }
  assert_int_equal(dw + 1, dx);
  hr__graph_destroy(g);
}

/* --- graphs built by hand ----------------------------------------------------------------------------------------- */

typedef struct desk {
  hr_graph *g;
  hr_builder b;
  hr_id x, target;
} desk;

static void desk_open(desk *d) {
  hr_error err = {0};
  assert_int_equal(hr__graph_create(&d->g, &err), HR_OK);
  hr__builder_init(&d->b, d->g, HR_F32);
  hr__program_begin(&d->b, HR_PROGRAM_STEP);
  d->x = hr__input(&d->b, "x", hr__desc2(HR_F32, 3, 4));
  d->target = hr__input(&d->b, "t", hr__desc2(HR_F32, 3, 4));
}

static hr_id weight(desk *d, const char *name, bool trained) {
  hr_id id = hr__parameter(&d->b, name, hr__desc2(HR_F32, 4, 4), (hr_init){.rule = HR_INIT_ONE});
  d->g->values[id].trained = trained;
  return id;
}

static void desk_pass(desk *d, hr_id y, const hr_recipe *recipe, const hr_choices *choices) {
  hr_error err = {0};
  hr_loss loss = {.value = hr__mse(&d->b, y, d->target), .weight = 1.0f};
  hr__program_set_output(&d->b, "loss", loss.value);
  hr_status status = hr__grad(&d->b, &loss, 1, HR_GRAD_TRANSIENT, &err);
  for (hr_id v = 0; status == HR_OK && v < d->g->n_values; v++)
    if (d->g->values[v].trained) hr__program_set_output(&d->b, d->g->values[v].name, d->g->values[v].gradient);
  if (status != HR_OK || hr__pass_checkpoint(&d->b, recipe, choices, &err) != HR_OK ||
      hr__graph_verify(d->g, &err) != HR_OK)
    fail_msg("%s: %s", err.place, err.message);
}

static void desk_finish(desk *d, hr_id y, const hr_keep *keep, size_t n_keep) {
  desk_pass(d, y, NULL, &(hr_choices){.keep = keep, .n_keep = n_keep});
}

static void desk_finish_by(desk *d, hr_id y, const char *mode) {
  hr_recipe *recipe = recipe_of(mode);
  desk_pass(d, y, recipe, NULL);
  hr__recipe_destroy(recipe);
}

/* Two products by frozen unpacked weights: backward unpacks each anew, whatever is kept, also outside blocks. */
static void test_fleeting_results_are_made_for_every_reader(void **state) {
  (void)state;
  hr_op unpack = hr_op_copy;
  unpack.never_saved = true;
  hr_copy_args args = {.dtype = HR_F32, .factor = 1.0f};
  for (int keep = HR_KEEP_ALL; keep <= HR_KEEP_INPUT; keep++) {
    desk d;
    desk_open(&d);
    hr_id packed = weight(&d, "packed", false);
    hr_id y = hr__linear(&d.b, d.x, weight(&d, "first", true), HR_NONE);
    y = hr__linear(&d.b, y, hr__emit(&d.b, &unpack, &packed, 1, &args), HR_NONE);
    hr__block_begin(&d.b, "block");
    hr_id once = hr__emit(&d.b, &unpack, &packed, 1, &args);
    y = hr__linear(&d.b, y, once, HR_NONE);
    y = hr__swiglu(&d.b, y, hr__linear(&d.b, y, once, HR_NONE));
    hr__block_end(&d.b);
    desk_finish(&d, y, (hr_keep[]){(hr_keep)keep}, 1);
    int clones = 0;
    for (hr_id n = 0; n < d.g->n_nodes; n++) {
      const hr_node *node = &d.g->nodes[n];
      if (node->op == &unpack && node->phase == HR_BACKWARD) clones++;
      for (int i = 0; node->phase == HR_BACKWARD && i < node->n_in; i++) {
        hr_id producer = node->in[i] == HR_NONE ? HR_NONE : d.g->values[node->in[i]].producer;
        if (producer >= d.g->n_nodes || d.g->nodes[producer].op != &unpack) continue;
        assert_int_equal(d.g->nodes[producer].phase, HR_BACKWARD);
        assert_int_equal(producer + 1, n); /* right before its only reader */
      }
    }
    /* three linear_dx; and the two products of the block when they are made again */
    assert_int_equal(clones, keep == HR_KEEP_INPUT ? 5 : 3);
    hr__graph_destroy(d.g);
  }
}

/* What sums up something large is kept: to make it again would take all of that. */
static void test_summaries_are_kept(void **state) {
  (void)state;
  desk d;
  desk_open(&d);
  hr_desc volume = hr__desc3(HR_F32, 1, 4, 8192), row = hr__desc1(HR_F32, 4);
  hr_id x = hr__input(&d.b, "volume", volume);
  d.target = hr__input(&d.b, "other", volume);
  hr_id scale = hr__parameter(&d.b, "scale", row, (hr_init){.rule = HR_INIT_ONE});
  hr_id places = hr__parameter(&d.b, "places", hr__desc1(HR_F32, 8192), (hr_init){.rule = HR_INIT_ONE});
  hr__block_begin(&d.b, "block");
  hr_id y = hr__unary(&d.b, HR_FORMULA_tanh, hr__binary(&d.b, HR_FORMULA_mul, x, places), 0, 0);
  hr_id statistics = hr__emit(&d.b, &hr_op_group_statistics, (hr_id[]){y, HR_NONE}, 2,
                              &(hr_group_statistics_args){.groups = 2, .eps = 1e-5f});
  y = hr__emit(&d.b, &hr_op_group_norm, (hr_id[]){y, scale, scale, statistics}, 4,
               &(hr_group_norm_args){.groups = 2, .eps = 1e-5f});
  hr__block_end(&d.b);
  desk_finish(&d, y, (hr_keep[]){HR_KEEP_INPUT}, 1);
  assert_int_equal(ops_count(d.g, HR_PROGRAM_STEP, HR_BACKWARD, "group_statistics"), 0);
  assert_int_equal(ops_count(d.g, HR_PROGRAM_STEP, HR_BACKWARD, "pointwise"), 2); /* the product and tanh, again */
  hr__graph_destroy(d.g);
}

enum { LIGHT_ROWS = 1100, LIGHT_WIDTH = 1024 }; /* more than 4 MiB of f32 */

static hr_id square(desk *d, const char *name, bool trained) {
  hr_id id = hr__parameter(&d->b, name, hr__desc2(HR_F32, LIGHT_WIDTH, LIGHT_WIDTH), (hr_init){.rule = HR_INIT_ONE});
  d->g->values[id].trained = trained;
  return id;
}

/* y = x + dropout(W2 dropout(gelu(W1 norm(x)))); W1 is a copy of what is stored. */
static hr_id light_layer(desk *d, int layer, hr_id x) {
  char name[3][16];
  for (int i = 0; i < 3; i++)
    snprintf(name[i], sizeof name[i], "%c.%d", "abn"[i], layer);
  hr_id scale = hr__parameter(&d->b, name[2], hr__desc1(HR_F32, LIGHT_WIDTH), (hr_init){.rule = HR_INIT_ONE});
  hr__block_begin(&d->b, "layer.%d", layer);
  hr__module(&d->b, "layer.%d", layer);
  hr_id w = square(d, name[0], true);
  hr_id y = hr__emit(&d->b, &hr_op_rmsnorm, (hr_id[]){x, scale}, 2, &(hr_rmsnorm_args){.eps = 1e-6f});
  w = hr__emit(&d->b, &hr_op_copy, &w, 1, &(hr_copy_args){.dtype = HR_F32, .factor = 1.0f});
  y = hr__dropout(&d->b, hr__gelu(&d->b, hr__linear(&d->b, y, w, HR_NONE), false), 0.1f);
  y = hr__dropout(&d->b, hr__linear(&d->b, y, square(d, name[1], true), HR_NONE), 0.1f);
  y = hr__add(&d->b, y, x, 1.0f);
  hr__block_end(&d->b);
  return y;
}

/* Whether a recipe is for a GPU is not of compile's keys. */
static const hr_key device_keys[] = {
    {.path = "memory.device", .type = HR_KEY_CHOICE, .fallback = "cpu", .choices = "cpu|cuda", .meaning = "where"}};
static const hr_key_table device_table = {device_keys, 1};

static hr_recipe *recipe_for(const char *device, const char *mode) {
  hr_key_table tables[HR_COMPILE_TABLES + 1];
  hr__compile_tables(tables);
  tables[HR_COMPILE_TABLES] = device_table;
  char override[2][64];
  const char *overrides[] = {override[0], override[1]};
  snprintf(override[0], sizeof override[0], "memory.device=%s", device);
  snprintf(override[1], sizeof override[1], "memory.checkpoint=%s", mode);
  hr_recipe *recipe = NULL;
  hr_error err = {0};
  if (hr__recipe_parse("test.yaml", ".", recipe_text, sizeof recipe_text - 1, overrides, 2, tables,
                       HR_COMPILE_TABLES + 1, &recipe, &err) != HR_OK)
    fail_msg("%s: %s", err.place, err.message);
  return recipe;
}

static void light_desk(desk *d, const char *device, int64_t rows, int layers, const char *mode) {
  desk_open(d);
  hr_desc desc = hr__desc2(HR_F32, rows, LIGHT_WIDTH);
  hr_id y = hr__input(&d->b, "many", desc);
  d->target = hr__input(&d->b, "other", desc);
  y = hr__linear(&d->b, y, square(d, "first", true), HR_NONE);
  for (int i = 0; i < layers; i++)
    y = light_layer(d, i, y);
  const hr_keep all[8] = {HR_KEEP_ALL}; /* zero: all */
  hr_recipe *recipe = recipe_for(device, mode);
  bool chosen = strcmp(mode, "auto") == 0;
  desk_pass(d, y, recipe, chosen ? &(hr_choices){.keep = all, .n_keep = (size_t)layers} : NULL);
  hr__recipe_destroy(recipe);
}

/* Where all is kept, on a GPU norms and activations are not: what they are made of is, so they are made again; a small
 * one is kept, and so are sums of what is not there, copies of weights, and all of layers that somebody has chosen. */
static void test_light_values_are_made_again(void **state) {
  (void)state;
  for (int way = 0; way < 4; way++) {
    desk d;
    bool small = way == 1, kept = way > 0;
    light_desk(&d, way == 2 ? "cpu" : "cuda", small ? 8 : LIGHT_ROWS, 2, way == 3 ? "auto" : "none");
    int times = kept ? 0 : 2;
    assert_int_equal(ops_count(d.g, HR_PROGRAM_STEP, HR_BACKWARD, "rmsnorm"), times);
    assert_int_equal(ops_count(d.g, HR_PROGRAM_STEP, HR_BACKWARD, "gelu"), times);
    assert_int_equal(ops_count(d.g, HR_PROGRAM_STEP, HR_BACKWARD, "dropout"), 4 + times); /* four gradients */
    assert_int_equal(ops_count(d.g, HR_PROGRAM_STEP, HR_BACKWARD, "linear"), 0);
    assert_int_equal(ops_count(d.g, HR_PROGRAM_STEP, HR_BACKWARD, "add"), 0);
    assert_int_equal(ops_count(d.g, HR_PROGRAM_STEP, HR_BACKWARD, "copy"), 2); /* the weights' gradients */
    size_t row = LIGHT_WIDTH * sizeof(float), rows = small ? 8 : LIGHT_ROWS;
    /* of each layer what enters it, the root mean squares, the first product, and where they are kept norm and dropout
     */
    size_t layer = rows * (row * (kept ? 4 : 2) + sizeof(float)), weights = 2 * LIGHT_WIDTH * row;
    assert_int_equal(kept_bytes(d.g, HR_PROGRAM_STEP), 2 * layer + rows * row + weights);
    hr__graph_destroy(d.g);
  }
}

/* Of layers that are made again, what is large beside all that is kept is not held until backward comes to it. */
static void test_large_light_values_are_made_twice(void **state) {
  (void)state;
  static const struct { int layers, norms; } cases[] = {{1, 2}, {6, 6}};
  for (size_t i = 0; i < 2; i++) {
    desk d;
    light_desk(&d, "cuda", LIGHT_ROWS, cases[i].layers, "every-layer");
    assert_int_equal(ops_count(d.g, HR_PROGRAM_STEP, HR_BACKWARD, "rmsnorm"), cases[i].norms);
    assert_int_equal(ops_count(d.g, HR_PROGRAM_STEP, HR_BACKWARD, "linear"), cases[i].layers); /* each once */
    assert_int_equal(ops_count(d.g, HR_PROGRAM_STEP, HR_BACKWARD, "gelu"), cases[i].layers);
    hr__graph_destroy(d.g);
  }
}

/* Inner blocks with `recompute` inside a block of which all is kept: backward of each needs only its own clones. */
static void test_recomputed_blocks_inside_a_kept_one(void **state) {
  (void)state;
  desk d;
  desk_open(&d);
  hr_id w = weight(&d, "w", true);
  hr__block_begin(&d.b, "layer");
  hr_id y = hr__linear(&d.b, d.x, w, HR_NONE);
  for (int slice = 0; slice < 2; slice++) {
    hr__block_begin(&d.b, "slice.%d", slice);
    d.g->blocks[d.b.block].recompute = true;
    hr_id gate = hr__linear(&d.b, y, w, HR_NONE), up = hr__linear(&d.b, y, w, HR_NONE);
    y = hr__linear(&d.b, hr__swiglu(&d.b, gate, up), w, HR_NONE);
    hr__block_end(&d.b);
  }
  hr__block_end(&d.b);
  desk_finish(&d, y, (hr_keep[]){HR_KEEP_ALL}, 1);
  assert_int_equal(ops_count(d.g, HR_PROGRAM_STEP, HR_BACKWARD, "linear"), 2 * 2); /* what leaves a slice is kept */
  assert_int_equal(ops_count(d.g, HR_PROGRAM_STEP, HR_BACKWARD, "swiglu"), 2);
  /* all of slice 1's backward comes before the first clone of slice 0 */
  int last_one = -1, first_zero = -1;
  for (hr_id n = 0; n < d.g->n_nodes; n++) {
    const hr_node *node = &d.g->nodes[n];
    if (node->phase != HR_BACKWARD || node->block == HR_NONE) continue;
    const char *name = d.g->blocks[node->block].name;
    if (strcmp(name, "slice.1") == 0) last_one = (int)n;
    if (strcmp(name, "slice.0") == 0 && strcmp(node->op->name, "linear") == 0 && first_zero < 0) first_zero = (int)n;
  }
  assert_true(last_one >= 0 && last_one < first_zero);
  hr__graph_destroy(d.g);
}

/* Layers in a slice of a component: kept, its inside is made again once; else each layer's is made in passing, to come
 * by the inputs of the layers behind it, and again before its own backward. */
static void test_layers_inside_a_recomputed_component(void **state) {
  (void)state;
  enum { LAYERS = 3 };
  static const char *const modes[] = {"none", "selective", "every-layer"};
  for (int mode = 0; mode < 3; mode++) {
    desk d;
    desk_open(&d);
    hr_id y = d.x;
    hr__component_begin(&d.b, "part");
    for (int k = 0; k < LAYERS; k++) { /* as declared, without nodes of their own any more */
      hr__block_begin(&d.b, "layer.%d", k);
      hr__block_end(&d.b);
    }
    hr__component_begin(&d.b, "part/slice.0");
    d.g->blocks[d.b.block].recompute = true;
    for (int k = 0; k < LAYERS; k++) {
      char name[16];
      snprintf(name, sizeof name, "w.%d", k);
      hr__block_begin(&d.b, "layer.%d", k);
      d.g->blocks[d.b.block].origin = (hr_id)(1 + k);
      hr_id up = hr__linear(&d.b, y, weight(&d, name, true), HR_NONE);
      y = hr__linear(&d.b, hr__swiglu(&d.b, up, up), weight(&d, name, true), HR_NONE);
      hr__block_end(&d.b);
    }
    hr__block_end(&d.b);
    hr__block_end(&d.b);
    hr_id blocks[3 * LAYERS], slice = 1 + LAYERS;
    assert_int_equal(hr__program_layers(d.g, 0, blocks), LAYERS);
    assert_int_equal(hr__block_layer(d.g, slice), HR_NONE);
    assert_int_equal(hr__block_numbered(d.g, slice), HR_NONE);
    for (hr_id k = 0; k < LAYERS; k++) {
      assert_int_equal(blocks[k], 1 + k);
      assert_int_equal(hr__block_layer(d.g, slice + 1 + k), slice + 1 + k);
      assert_int_equal(hr__block_numbered(d.g, slice + 1 + k), 1 + k);
    }
    desk_finish_by(&d, y, modes[mode]);
    /* kept: one of each layer, and what leads to the next; made twice: what leads to others, and the first half again
     */
    int linear = ops_count(d.g, HR_PROGRAM_STEP, HR_BACKWARD, "linear"),
        swiglu = ops_count(d.g, HR_PROGRAM_STEP, HR_BACKWARD, "swiglu");
    int passing = 2 * (LAYERS - 1), own = LAYERS;
    assert_int_equal(linear, mode < 2 ? passing + 1 : passing + own);
    assert_int_equal(swiglu, mode == 0 ? LAYERS : LAYERS - 1 + LAYERS);
    hr__graph_destroy(d.g);
  }
}

/* --- the cut ------------------------------------------------------------------------------------------------------ */

static bool separates(const hr_cut *cut, unsigned set) {
  unsigned reached = 0;
  for (unsigned v = 0; v < cut->n_vertices; v++) /* edges lead from lower to higher numbers */
    for (size_t e = 0; !(set >> v & 1) && e <= cut->n_edges; e++) {
      bool from = e == cut->n_edges ? cut->source[v] : cut->edges[e].to == v && (reached >> cut->edges[e].from & 1);
      if (from) reached |= 1u << v;
    }
  for (unsigned v = 0; v < cut->n_vertices; v++)
    if ((reached >> v & 1) && cut->sink[v]) return false;
  return true;
}

static void test_cut_against_all_subsets(void **state) {
  (void)state;
  enum { N = 9 };
  srand(3);
  for (int round = 0; round < 400; round++) {
    hr_arena arena = {0};
    hr_cut cut;
    hr_error err = {0};
    bool taken[N];
    assert_int_equal(hr__cut_init(&cut, &arena, N, &err), HR_OK);
    for (uint32_t v = 0; v < N; v++) {
      cut.cost[v] = rand() % 5 == 0 ? HR_CUT_NEVER : (uint64_t)(rand() % 6);
      cut.source[v] = v < 5 && rand() % 3 == 0;
      cut.sink[v] = v > 3 && rand() % 3 == 0;
      for (uint32_t from = 0; from < v; from++)
        if (rand() % 3 == 0) assert_int_equal(hr__cut_edge(&cut, from, v, &err), HR_OK);
    }
    uint64_t best = UINT64_MAX;
    for (unsigned set = 0; set < 1u << N; set++) {
      uint64_t cost = 0;
      bool allowed = true;
      for (unsigned v = 0; v < N; v++) {
        if (!(set >> v & 1)) continue;
        allowed &= cut.cost[v] != HR_CUT_NEVER;
        cost += cut.cost[v];
      }
      if (allowed && cost < best && separates(&cut, set)) best = cost;
    }
    hr_status status = hr__cut_solve(&cut, taken, &err);
    assert_int_equal(status, best == UINT64_MAX ? HR_FAILURE : HR_OK);
    if (status == HR_OK) {
      unsigned set = 0;
      uint64_t cost = 0;
      for (unsigned v = 0; v < N; v++) {
        set |= (unsigned)taken[v] << v;
        cost += taken[v] ? cut.cost[v] : 0;
      }
      assert_true(separates(&cut, set));
      assert_int_equal(cost, best);
    }
    hr__arena_fini(&arena);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_none_clones_nothing),
      cmocka_unit_test(test_every_layer_keeps_inputs),
      cmocka_unit_test(test_selective_recomputes_no_product),
      cmocka_unit_test(test_choices_by_block),
      cmocka_unit_test(test_weight_gradient_first),
      cmocka_unit_test(test_fleeting_results_are_made_for_every_reader),
      cmocka_unit_test(test_summaries_are_kept),
      cmocka_unit_test(test_light_values_are_made_again),
      cmocka_unit_test(test_large_light_values_are_made_twice),
      cmocka_unit_test(test_recomputed_blocks_inside_a_kept_one),
      cmocka_unit_test(test_layers_inside_a_recomputed_component),
      cmocka_unit_test(test_cut_against_all_subsets),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
