/* The offload pass: homes by settings and choices, who is served how, and how far ahead copies begin. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "compile/compile.h"
#include "data/keys.h"
#include "grad/grad.h"
#include "op/adamw.h"
#include "op/adamw8bit.h"
#include "op/linear.h"
#include "op/mse.h"
#include "op/transfer.h"
#include "pass/adapters.h"
#include "pass/pass.h"
#include "pass/update.h"

/* Rows of 64 x 128 floats: 32 KiB in the residual stream, 128 KiB inside the feed-forward part. */
static const char recipe_text[] = "model:\n"
                                  "  family: llama\n"
                                  "  config: { hidden_size: 128, num_hidden_layers: 6, num_attention_heads: 4,\n"
                                  "            num_key_value_heads: 2, intermediate_size: 512, vocab_size: 4096 }\n"
                                  "data: { sequence_length: 64 }\n"
                                  "training: { batch_size: 2 }\n";

typedef struct compiled {
  hr_recipe *recipe;
  hr_graph *graph;
  hr_error err;
} compiled;

static void compile(compiled *c, const hr_choices *choices, const char *const *overrides) {
  hr_key_table tables[HR_COMPILE_TABLES];
  hr__compile_tables(tables);
  size_t n = 0;
  while (overrides && overrides[n])
    n++;
  *c = (compiled){0};
  hr_status status = hr__recipe_parse("test.yaml", ".", recipe_text, sizeof recipe_text - 1, overrides, n, tables,
                                      HR_COMPILE_TABLES, &c->recipe, &c->err);
  if (status == HR_OK) status = hr__compile(c->recipe, choices, "offload", &c->graph, &c->err);
  if (status == HR_OK) status = hr__graph_verify(c->graph, &c->err);
  if (status != HR_OK) fail_msg("%s: %s", c->err.place, c->err.message);
}

static void compiled_close(compiled *c) {
  hr__graph_destroy(c->graph);
  hr__recipe_destroy(c->recipe);
}

#define SETTINGS(...)                                                                                                  \
  (const char *const[]) {                                                                                              \
    __VA_ARGS__, NULL                                                                                                  \
  }

static size_t op_count(const hr_graph *g, const hr_op *op) {
  size_t count = 0;
  for (size_t n = 0; n < g->n_nodes; n++)
    count += g->nodes[n].op == op;
  return count;
}

static uint64_t home_bytes(const hr_graph *g, hr_role role, hr_tier tier) {
  uint64_t bytes = 0;
  for (size_t b = 0; b < g->n_buffers; b++)
    if (g->buffers[b].persistent && g->buffers[b].role == role && g->buffers[b].home == tier)
      bytes += g->buffers[b].bytes;
  return bytes;
}

enum { SMALL = 64 << 10 }; /* bytes: below that a value stays */

static uint64_t small_bytes(const hr_graph *g, hr_role role) {
  uint64_t bytes = 0;
  for (size_t b = 0; b < g->n_buffers; b++)
    if (g->buffers[b].persistent && g->buffers[b].role == role && g->buffers[b].bytes < SMALL)
      bytes += g->buffers[b].bytes;
  return bytes;
}

/* Everything of a role is on `tier`, but what is small. */
static void small_stay_check(const hr_graph *g, hr_role role, hr_tier tier) {
  size_t small = 0, moved = 0;
  for (size_t b = 0; b < g->n_buffers; b++) {
    if (!g->buffers[b].persistent || g->buffers[b].role != role) continue;
    bool is_small = g->buffers[b].bytes < SMALL;
    assert_int_equal(g->buffers[b].home, is_small ? HR_TIER_DEVICE : tier);
    small += is_small;
    moved += !is_small;
  }
  assert_true(small > 0 && moved > 0);
}

/* Nothing small is copied, of any kind. */
static void test_small_values_stay(void **state) {
  (void)state;
  compiled c;
  compile(&c, NULL,
          SETTINGS("memory.offload.parameters=host", "memory.offload.gradients=disk", "memory.offload.activations=host",
                   "memory.offload.optimizer=host", "training.gradient_accumulation=2"));
  const hr_graph *g = c.graph;
  small_stay_check(g, HR_ROLE_OPTIMIZER, HR_TIER_HOST);
  small_stay_check(g, HR_ROLE_PARAMETER, HR_TIER_HOST);
  small_stay_check(g, HR_ROLE_GRADIENT, HR_TIER_DISK);
  for (size_t n = 0; n < g->n_nodes; n++)
    if (g->nodes[n].op->transfer == HR_TRANSFER_START)
      assert_true(g->buffers[g->values[g->nodes[n].in[0]].buffer].bytes >= SMALL);
  compiled_close(&c);
}

/* Every copy is waited for in its program; all others touch only what is on the device, or nodes on the host what is
 * there. */
static void copies_check(const hr_graph *g) {
  size_t starts = op_count(g, &hr_op_fetch) + op_count(g, &hr_op_store);
  assert_int_equal(op_count(g, &hr_op_wait), starts);
  for (size_t n = 0; n < g->n_nodes; n++) {
    const hr_node *node = &g->nodes[n];
    if (node->op->transfer == HR_TRANSFER_WAIT)
      assert_int_equal(g->nodes[g->values[node->in[0]].producer].op->transfer, HR_TRANSFER_START);
    if (node->op->transfer) continue;
    hr_tier own = node->place == HR_ON_HOST ? HR_TIER_HOST : HR_TIER_DEVICE;
    for (int i = 0; i < node->n_in + node->n_out; i++) {
      hr_id value = i < node->n_in ? node->in[i] : node->out[i - node->n_in];
      if (value != HR_NONE && g->buffers[g->values[value].buffer].home != own)
        fail_msg("%s of %s touches %s, which is not on the %s", node->op->name, node->module, g->values[value].name,
                 hr_tier_name(own));
    }
  }
}

/* Most bytes of staging on the device at any node, by first and last touch. */
static uint64_t staging_peak(const hr_graph *g, hr_id program) {
  const hr_program *p = &g->programs[program];
  uint64_t most = 0;
  int64_t *come = hr__alloc_zero((size_t)p->count + 2, sizeof *come), live = 0;
  hr_id *last = hr__alloc_zero(g->n_buffers, sizeof *last); /* position + 1; 0: not touched yet */
  for (hr_id at = 0; at < p->count; at++) {
    const hr_node *node = &g->nodes[p->first + at];
    for (int i = 0; i < node->n_in + node->n_out; i++) {
      hr_id value = i < node->n_in ? node->in[i] : node->out[i - node->n_in];
      if (value == HR_NONE) continue;
      hr_id b = g->values[value].buffer;
      if (g->buffers[b].role != HR_ROLE_STAGING || g->buffers[b].home != HR_TIER_DEVICE) continue;
      if (last[b] == 0) come[at] += (int64_t)g->buffers[b].bytes;
      last[b] = at + 1;
    }
  }
  for (size_t b = 0; b < g->n_buffers; b++)
    if (last[b] > 0) come[last[b]] -= (int64_t)g->buffers[b].bytes;
  hr__free(last);
  for (hr_id at = 0; at < p->count; at++) {
    live += come[at];
    if ((uint64_t)live > most) most = (uint64_t)live;
  }
  hr__free(come);
  return most;
}

static void test_nothing_to_do(void **state) {
  (void)state;
  compiled c;
  compile(&c, NULL, SETTINGS("memory.offload.optimizer=auto", "memory.offload.activations=auto"));
  assert_int_equal(op_count(c.graph, &hr_op_fetch) + op_count(c.graph, &hr_op_store), 0);
  compiled_close(&c);
}

/* Tiles cover each parameter once, begin where the random numbers of rounding allow, and are staged three at a time. */
static void test_state_in_tiles(void **state) {
  (void)state;
  compiled c;
  compile(&c, NULL, SETTINGS("memory.offload.optimizer=host"));
  const hr_graph *g = c.graph;
  copies_check(g);
  hr_id embedding = hr__graph_find_value(g, "model.embed_tokens.weight");
  int64_t next = 0;
  for (size_t n = 0; n < g->n_nodes; n++) {
    const hr_node *node = &g->nodes[n];
    if (node->op != &hr_op_adamw || g->values[node->in[0]].buffer != g->values[embedding].buffer) continue;
    const hr_adamw_args *args = node->args;
    assert_int_equal(args->first, next);
    assert_int_equal(args->first % 16384, 0);
    assert_int_equal(g->values[node->in[0]].offset, (size_t)next * 4);
    next += hr_desc_count(&g->values[node->in[0]].desc);
  }
  assert_int_equal(next, 4096 * 128);
  small_stay_check(g, HR_ROLE_OPTIMIZER, HR_TIER_HOST);
  assert_true(staging_peak(g, 0) <= 3 * (2u << 20));
  compiled_close(&c);
}

/* However much lies below, state or parameters alone or both, also of 8 bits with the scales of their blocks: some
 * hundred tiles for a plan that is only judged, which stage no more bytes than those of the plan that is run. */
static void test_tiles_are_bounded(void **state) {
  (void)state;
  static const struct {
    const char *kind, *offload;
  } cases[] = {{"adamw", "memory.offload.optimizer=host"},
               {"adamw", "memory.offload.parameters=host"},
               {"adamw8bit", "memory.offload.optimizer=host"},
               {"adamw8bit", "memory.offload={optimizer: host, parameters: host}"}};
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    compiled c; /* 27e9 parameters */
    const hr_choices judged = {.few_tiles = true};
    char kind[64];
    snprintf(kind, sizeof kind, "training.optimizer.kind=%s", cases[k].kind);
    compile(&c, &judged,
            SETTINGS(kind, cases[k].offload, "model.config.hidden_size=8192", "model.config.intermediate_size=262144",
                     "model.config.num_hidden_layers=4"));
    size_t updates = op_count(c.graph, &hr_op_adamw) + op_count(c.graph, &hr_op_adamw8bit);
    assert_in_range(updates, 256, 400);
    size_t judged_bytes = staging_peak(c.graph, 0);
    compiled_close(&c);
    compile(&c, NULL,
            SETTINGS(kind, cases[k].offload, "model.config.hidden_size=8192", "model.config.intermediate_size=262144",
                     "model.config.num_hidden_layers=4"));
    size_t run_bytes = staging_peak(c.graph, 0);
    assert_in_range(judged_bytes, run_bytes - run_bytes / 20, run_bytes);
    compiled_close(&c);
  }
}

/* Updates on the host: every operand lies there, nothing is staged on the device, and what came down goes back. */
static void test_update_on_host(void **state) {
  (void)state;
  compiled c;
  compile(&c, NULL, SETTINGS("memory.offload.optimizer=host", "memory.offload.update=host"));
  const hr_graph *g = c.graph;
  copies_check(g);
  size_t updates = 0, back = 0;
  for (size_t n = 0; n < g->n_nodes; n++) {
    const hr_node *node = &g->nodes[n];
    back += node->op == &hr_op_fetch && node->in[1] != HR_NONE;
    updates += node->place == HR_ON_HOST;
  }
  assert_true(updates > 0);
  assert_int_equal(back, updates);
  assert_int_equal(staging_peak(g, 0), 0);
  compiled_close(&c);
}

/* At most two blocks' parameters are staged at a time, beside the widest of the others. */
static void test_parameters_come_block_by_block(void **state) {
  (void)state;
  compiled c;
  compile(&c, NULL, SETTINGS("memory.offload.parameters=host", "training.eval_every=1"));
  const hr_graph *g = c.graph;
  copies_check(g);
  uint64_t block = 0, widest = 0;
  for (size_t b = 0; b < g->n_buffers; b++) {
    const hr_buffer *buffer = &g->buffers[b];
    if (!buffer->persistent || buffer->role != HR_ROLE_PARAMETER) continue;
    assert_int_equal(buffer->home, buffer->bytes < SMALL ? HR_TIER_DEVICE : HR_TIER_HOST);
    if (strstr(buffer->name, "layers.0.")) block += buffer->bytes;
    if (buffer->bytes > widest) widest = buffer->bytes;
  }
  for (hr_id p = 0; p < g->n_programs; p++)
    assert_true(staging_peak(g, p) <= 3 * block + 2 * widest);
  assert_int_equal(op_count(g, &hr_op_store) > 0, 1);
  compiled_close(&c);
}

/* auto: what there is room for stays, nearly all of it filled. */
static void test_choices(void **state) {
  (void)state;
  compiled c;
  hr_choices choices = {0};
  choices.offload[HR_OFFLOAD_OPTIMIZER].tier = HR_TIER_DISK;
  choices.offload[HR_OFFLOAD_OPTIMIZER].resident_bytes = 5u << 20;
  compile(&c, &choices, SETTINGS("memory.offload.optimizer=auto"));
  copies_check(c.graph);
  uint64_t stays = home_bytes(c.graph, HR_ROLE_OPTIMIZER, HR_TIER_DEVICE);
  assert_true(stays > 4u << 20 && stays <= (5u << 20) + small_bytes(c.graph, HR_ROLE_OPTIMIZER));
  assert_true(home_bytes(c.graph, HR_ROLE_OPTIMIZER, HR_TIER_DISK) > 0);
  compiled_close(&c);
}

/* What backward reads of far-away blocks goes down; the last block's results are needed at once and stay. */
/* Bytes of a layer's parameters on a tier. */
static uint64_t layer_bytes(const hr_graph *g, int layer, hr_tier tier) {
  char name[32];
  uint64_t bytes = 0;
  snprintf(name, sizeof name, "layers.%d.", layer);
  for (size_t b = 0; b < g->n_buffers; b++) {
    const hr_buffer *buffer = &g->buffers[b];
    if (buffer->persistent && buffer->role == HR_ROLE_PARAMETER && buffer->home == tier && strstr(buffer->name, name))
      bytes += buffer->bytes;
  }
  return bytes;
}

/* What stays in part is spread over all layers, on the device and on the host before the disk, so that copies of the
 * rest are; the embedding goes, or stays as the first. */
static void test_parts_are_spread(void **state) {
  (void)state;
  enum { LAYERS = 6, LAYER = 1 << 20, MATRIX = 512 << 10, EMBEDDING = 2 << 20 };
  for (int largest = 0; largest < 2; largest++) {
    hr_choices choices = {.largest_stay = largest};
    for (int k = 0; k < HR_OFFLOAD_KINDS; k++)
      choices.offload[k].resident_bytes = UINT64_MAX;
    choices.offload[HR_OFFLOAD_PARAMETERS].tier = HR_TIER_DISK;
    choices.offload[HR_OFFLOAD_PARAMETERS].resident_bytes = 3 << 20;
    choices.offload[HR_OFFLOAD_PARAMETERS].host_bytes = 1 << 20;
    compiled c;
    compile(&c, &choices, SETTINGS("memory.offload.parameters=auto"));
    uint64_t small = small_bytes(c.graph, HR_ROLE_PARAMETER),
             up = home_bytes(c.graph, HR_ROLE_PARAMETER, HR_TIER_DEVICE);
    assert_in_range(up - small, (3 << 20) - MATRIX, 3 << 20);
    assert_in_range(home_bytes(c.graph, HR_ROLE_PARAMETER, HR_TIER_HOST), (1 << 20) - MATRIX, 1 << 20);
    uint64_t least = UINT64_MAX, most = 0;
    for (int layer = 0; layer < LAYERS; layer++) {
      uint64_t disk = layer_bytes(c.graph, layer, HR_TIER_DISK);
      if (disk < least) least = disk;
      if (disk > most) most = disk;
    }
    assert_true(most - least <= MATRIX && most < LAYER);
    uint64_t layers = 0;
    for (int layer = 0; layer < LAYERS; layer++)
      layers += layer_bytes(c.graph, layer, HR_TIER_DEVICE);
    if (largest) /* one of the embeddings, and what is small */
      assert_true(layers <= small + (3 << 20) - EMBEDDING);
    else
      assert_true(layers + MATRIX >= 3 << 20);
    compiled_close(&c);
  }
}

static void test_activations(void **state) {
  (void)state;
  compiled c;
  compile(&c, NULL, SETTINGS("memory.offload.activations=host"));
  const hr_graph *g = c.graph;
  copies_check(g);
  size_t early = 0, last = 0;
  for (size_t n = 0; n < g->n_nodes; n++) {
    if (g->nodes[n].op != &hr_op_store) continue;
    early += strstr(g->nodes[n].module, "layers.0.") != NULL;
    last += strstr(g->nodes[n].module, "layers.5.") != NULL;
  }
  assert_true(early > 0);
  assert_int_equal(last, 0);
  compiled_close(&c);
}

/* Blocks chosen one by one: only what enters them goes down. */
static void test_kept_inputs(void **state) {
  (void)state;
  compiled c;
  static const hr_keep keep[] = {HR_KEEP_ALL, HR_KEEP_OFFLOADED, HR_KEEP_ALL, HR_KEEP_ALL, HR_KEEP_ALL, HR_KEEP_ALL};
  hr_choices choices = {.keep = keep, .n_keep = sizeof keep / sizeof *keep};
  compile(&c, &choices, SETTINGS("memory.offload.activations=auto", "data.sequence_length=128"));
  const hr_graph *g = c.graph;
  copies_check(g);
  size_t stores = 0;
  for (size_t n = 0; n < g->n_nodes; n++) {
    if (g->nodes[n].op != &hr_op_store) continue;
    stores++;
    assert_null(strstr(g->nodes[n].module, "layers.1."));
    assert_null(strstr(g->nodes[n].module, "layers.2."));
  }
  assert_true(stores > 0);
  compiled_close(&c);
}

/* Checkpointing and offload count blocks alike, also where one has no nodes: the same block that is made again has its
 * input below the device. */
static void test_blocks_are_counted_alike(void **state) {
  (void)state;
  static const hr_keep keep[] = {HR_KEEP_ALL, HR_KEEP_ALL, HR_KEEP_OFFLOADED, HR_KEEP_ALL};
  const hr_choices choices = {.keep = keep, .n_keep = sizeof keep / sizeof *keep};
  compiled c = {0};
  hr_builder b;
  assert_int_equal(hr__graph_create(&c.graph, &c.err), HR_OK);
  hr__builder_init(&b, c.graph, HR_F32);
  hr__program_begin(&b, HR_PROGRAM_STEP);
  hr_desc desc = hr__desc2(HR_F32, 128, 128);
  hr_id x = hr__input(&b, "x", desc), target = hr__input(&b, "t", desc);
  hr_id y = x, into[4];
  for (int k = 0; k < 4; k++) {
    char name[16];
    snprintf(name, sizeof name, "w.%d", k);
    into[k] = y;
    hr__block_begin(&b, "block.%d", k);
    if (k != 1) { /* block 1 stays empty */
      hr_id w = hr__parameter(&b, name, desc, (hr_init){.rule = HR_INIT_ONE});
      y = hr__linear(&b, hr__linear(&b, y, w, HR_NONE), w, HR_NONE);
    }
    hr__block_end(&b);
  }
  hr_loss loss = {.value = hr__mse(&b, y, target), .weight = 1.0f};
  hr__program_set_output(&b, "loss", loss.value);
  hr_status status = hr__grad(&b, &loss, 1, HR_GRAD_TRANSIENT, &c.err);
  for (hr_id v = 0, n = (hr_id)c.graph->n_values; v < n && status == HR_OK; v++)
    if (c.graph->values[v].trained) hr__program_set_output(&b, c.graph->values[v].name, c.graph->values[v].gradient);
  if (status == HR_OK) status = hr__pass_checkpoint(&b, NULL, &choices, &c.err);
  if (status == HR_OK) {
    int again = 0;
    for (size_t n = 0; n < c.graph->n_nodes; n++) {
      const hr_node *node = &c.graph->nodes[n];
      if (node->phase != HR_BACKWARD || node->op != &hr_op_linear) continue;
      assert_string_equal(c.graph->blocks[node->block].name, "block.2");
      again++;
    }
    assert_int_equal(again, 1);
    compiled settings;
    compile(&settings, NULL, NULL);
    status = hr__pass_offload(&b, settings.recipe, &choices, &c.err);
    compiled_close(&settings);
  }
  if (status == HR_OK) status = hr__graph_verify(c.graph, &c.err);
  if (status != HR_OK) fail_msg("%s: %s", c.err.place, c.err.message);
  size_t stores = 0;
  for (size_t n = 0; n < c.graph->n_nodes; n++) {
    if (c.graph->nodes[n].op != &hr_op_store) continue;
    assert_int_equal(c.graph->nodes[n].in[0], into[2]);
    stores++;
  }
  assert_int_equal(stores, 1);
  hr__graph_destroy(c.graph);
}

static void test_accumulated_gradients(void **state) {
  (void)state;
  compiled c;
  compile(&c, NULL, SETTINGS("memory.offload.gradients=disk", "training.gradient_accumulation=2"));
  copies_check(c.graph);
  small_stay_check(c.graph, HR_ROLE_GRADIENT, HR_TIER_DISK);
  compiled_close(&c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_nothing_to_do),
      cmocka_unit_test(test_state_in_tiles),
      cmocka_unit_test(test_update_on_host),
      cmocka_unit_test(test_parameters_come_block_by_block),
      cmocka_unit_test(test_choices),
      cmocka_unit_test(test_parts_are_spread),
      cmocka_unit_test(test_activations),
      cmocka_unit_test(test_kept_inputs),
      cmocka_unit_test(test_accumulated_gradients),
      cmocka_unit_test(test_small_values_stay),
      cmocka_unit_test(test_tiles_are_bounded),
      cmocka_unit_test(test_blocks_are_counted_alike),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
