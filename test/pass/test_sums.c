/* sums: products come behind their adapters and add to what these made; nothing else changes. */
#include <stdio.h>
#include <string.h>

#include "op/linear.h"
#include "op/lora_up.h"
#include "op/nf4.h"
#include "part_compiled.h"

static const char recipe_text[] = "model:\n"
                                  "  family: llama\n"
                                  "  config: { hidden_size: 16, num_hidden_layers: 2, num_attention_heads: 4,\n"
                                  "            num_key_value_heads: 2, intermediate_size: 24, vocab_size: 64,\n"
                                  "            attention_bias: true }\n"
                                  "data: { sequence_length: 8 }\n"
                                  "training: { batch_size: 2, eval_every: 5 }\n";
#define ALL "model.adapters={rank: 4, targets: all-linear}"
enum { LAYERS = 2, LINEARS = 7, PRODUCTS = 4 /* q, k and v; o; gate and up; down */ };
enum { ADD = 2, LINEAR_ADD = 3 };

static const hr_node *producer(const hr_graph *g, hr_id value) {
  return value == HR_NONE || g->values[value].producer == HR_NONE ? NULL : &g->nodes[g->values[value].producer];
}

static bool is_base(const hr_node *node) {
  return node->op == &hr_op_linear && node->phase == HR_FORWARD && !strstr(node->module, ".lora_A");
}

static int readers(const hr_graph *g, hr_id value) {
  int count = 0;
  for (size_t n = 0; n < g->n_nodes; n++)
    for (int i = 0; i < g->nodes[n].n_in; i++)
      count += g->nodes[n].in[i] == value;
  return count;
}

/* The result has the name of its node. */
static void expect_named(const hr_graph *g, const hr_node *node) {
  char name[256];
  snprintf(name, sizeof name, "%s:%s", node->module, node->op->name);
  assert_string_equal(g->values[node->out[0]].name, name);
}

/* Products that add to adapters of their own module; each is right behind them, but for its unpacked weight. */
static int turned(const hr_graph *g) {
  int count = 0;
  for (hr_id n = 0; n < g->n_nodes; n++) {
    const hr_node *node = &g->nodes[n], *up = is_base(node) ? producer(g, node->in[LINEAR_ADD]) : NULL;
    if (!up || up->op != &hr_op_lora_up) continue;
    hr_id before = n - 1;
    if (g->nodes[before].op == &hr_op_nf4_unpack) {
      assert_int_equal(g->nodes[before].out[0], node->in[1]);
      before--;
    }
    assert_ptr_equal(&g->nodes[before], up);
    assert_int_equal(readers(g, up->out[0]), 1);
    assert_int_equal(up->block, node->block);
    expect_named(g, up);
    expect_named(g, node);
    count++;
  }
  return count;
}

/* Adapters that add to a product which nothing else reads. */
static int unturned(const hr_graph *g) {
  int count = 0;
  for (size_t n = 0; n < g->n_nodes; n++) {
    const hr_node *from = g->nodes[n].op == &hr_op_lora_up ? producer(g, g->nodes[n].in[ADD]) : NULL;
    count += from && is_base(from) && readers(g, from->out[0]) == 1;
  }
  return count;
}

/* In both programs; the residual is what adapters of o and down add to, and nothing where there is none. */
static void test_products_add(void **state) {
  compiled *c = *state;
  expect_ok(c, COMPILE(c, "order", ALL));
  assert_int_equal(unturned(c->graph), 2 * LAYERS * PRODUCTS);
  size_t nodes = c->graph->n_nodes;
  expect_ok(c, COMPILE(c, "sums", ALL));
  const hr_graph *g = c->graph;
  assert_int_equal(g->n_nodes, nodes);
  assert_int_equal(turned(g), 2 * LAYERS * PRODUCTS);
  assert_int_equal(unturned(g), 0);
  int residuals = 0;
  for (size_t n = 0; n < g->n_nodes; n++)
    residuals += g->nodes[n].op == &hr_op_lora_up && g->nodes[n].in[ADD] != HR_NONE;
  assert_int_equal(residuals, 2 * LAYERS * 2);
}

/* Backward reads what it read: neither the product's part of the sum nor the adapters'. */
static void test_backward_stays(void **state) {
  compiled *c = *state;
  char before[1 << 16] = "", *at = before;
  for (int turn = 0; turn < 2; turn++) {
    char now[1 << 16] = "";
    at = turn ? now : before;
    char *end = at + sizeof now;
    expect_ok(c, turn ? COMPILE(c, "sums", ALL) : COMPILE(c, "order", ALL));
    const hr_graph *g = c->graph;
    for (size_t n = 0; n < g->n_nodes; n++) {
      if (g->nodes[n].phase == HR_FORWARD) continue;
      at += snprintf(at, (size_t)(end - at), "\n%s %s", g->nodes[n].op->name, g->nodes[n].module);
      for (int i = 0; i < g->nodes[n].n_in; i++)
        at += snprintf(at, (size_t)(end - at), " %u", g->nodes[n].in[i]);
    }
    assert_true(at + 1 < end);
    if (turn) assert_string_equal(before, now);
  }
}

static int ups(const hr_graph *g) {
  int count = 0;
  for (size_t n = 0; n < g->n_nodes; n++)
    count += g->nodes[n].op == &hr_op_lora_up;
  return count;
}

/* Adapters that cannot be stacked, by their 8-bit states, stand one behind the other, and all before the product. */
static void test_one_behind_the_other(void **state) {
  compiled *c = *state;
  expect_ok(c, COMPILE(c, "sums", "model.adapters={rank: 32, targets: all-linear}", "model.config.hidden_size=256",
                       "model.config.num_key_value_heads=1", "model.config.intermediate_size=64",
                       "training.optimizer.kind=adamw8bit"));
  assert_int_equal(turned(c->graph), 2 * LAYERS * PRODUCTS);
  assert_int_equal(ups(c->graph), 2 * LAYERS * (PRODUCTS + 2));
  assert_int_equal(unturned(c->graph), 0);
}

/* The weight is unpacked right before the product. */
static void test_unpacked_go_along(void **state) {
  compiled *c = *state;
  expect_ok(c, COMPILE(c, "sums", ALL, "model.quantize.kind=nf4"));
  assert_int_equal(turned(c->graph), 2 * LAYERS * LINEARS);
  assert_int_equal(unturned(c->graph), 0);
}

/* A module without adapters stays as it is; so does everything where there are none. */
static void test_others_stay(void **state) {
  compiled *c = *state;
  expect_ok(c, COMPILE(c, "sums", "model.adapters={rank: 4, targets: [k_proj, layers.1.mlp.down_proj]}"));
  assert_int_equal(turned(c->graph), 2 * (LAYERS + 1));
  expect_ok(c, COMPILE(c, "sums"));
  assert_int_equal(turned(c->graph), 0);
}

/* Clones of a turned product have their weight unpacked last. */
static void test_clones(void **state) {
  compiled *c = *state;
  expect_ok(c, COMPILE(c, "checkpoint", ALL, "model.quantize.kind=nf4", "memory.checkpoint=every-layer"));
  const hr_graph *g = c->graph;
  int clones = 0;
  for (hr_id n = 1; n < g->n_nodes; n++) {
    const hr_node *node = &g->nodes[n];
    if (node->op != &hr_op_linear || node->phase != HR_BACKWARD || strstr(node->module, ".lora_A")) continue;
    assert_ptr_equal(g->nodes[n - 1].op, &hr_op_nf4_unpack);
    assert_int_equal(g->nodes[n - 1].out[0], node->in[1]);
    assert_ptr_equal(producer(g, node->in[LINEAR_ADD])->op, &hr_op_lora_up);
    clones++;
  }
  assert_int_equal(clones, LAYERS * (LINEARS - 1)); /* backward reads nothing that down_proj made */
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, compiled_setup, compiled_teardown)
  const struct CMUnitTest tests[] = {TEST(test_products_add),         TEST(test_backward_stays),
                                     TEST(test_one_behind_the_other), TEST(test_unpacked_go_along),
                                     TEST(test_others_stay),          TEST(test_clones)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
