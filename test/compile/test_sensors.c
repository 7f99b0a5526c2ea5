/* The sensor model: its sizes before and after its guide's changes, the guide's table of the tokenizer's activations,
 * what is f32 in every precision, slices of samples, and settings that contradict each other. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "op/conv.h"
#include "op/copy.h"
#include "part_compiled.h"

static const char recipe_text[] =
    "model:\n"
    "  family: sensors\n"
    "  config: { channels: 84, t_fixed: 32, hidden_dim: 128, conv_out_dim: 256, encoder_feature_dim: 512,\n"
    "            encoding_dim: 512 }\n"
    "  parts:\n"
    "    llm:\n"
    "      config: { hidden_size: 2048, intermediate_size: 8192, num_hidden_layers: 16, num_attention_heads: 32,\n"
    "                num_key_value_heads: 8, head_dim: 64, vocab_size: 128256, max_position_embeddings: 131072,\n"
    "                rope_theta: 500000.0, tie_word_embeddings: true }\n"
    "      adapters: { rank: 8, alpha: 16, targets: [all-linear] }\n"
    "data: { source: synthetic, sequence_length: 256, sensors: { context_size: 100 } }\n"
    "training: { batch_size: 2 }\n";

#define BEFORE                                                                                                         \
  "model.config.t_fixed=128", "model.config.hidden_dim=256", "model.config.conv_out_dim=512",                          \
      "model.config.encoder_feature_dim=1024", "model.config.encoding_dim=1024"

/* Elements of the parameters whose names begin so. */
static int64_t elements(const hr_graph *g, const char *prefix, bool trained) {
  int64_t count = 0;
  for (hr_id v = 0; v < g->n_values; v++)
    if (hr__graph_is_tensor(g, v) && g->buffers[g->values[v].buffer].role == HR_ROLE_PARAMETER &&
        g->values[v].trained == trained && strncmp(g->values[v].name, prefix, strlen(prefix)) == 0)
      count += hr_desc_count(&g->values[v].desc);
  return count;
}

static void test_sizes(void **state) {
  compiled *c = *state;
  expect_ok(c, COMPILE(c, "adapters"));
  assert_int_equal(elements(c->graph, "tokenizer.", true), 428032);
  assert_int_equal(elements(c->graph, "encoder.", true), 41245188);
  assert_int_equal(elements(c->graph, "llm.", true), 5636096);
  assert_int_equal(elements(c->graph, "llm.", false), 1235814400);
  int adapters = 0;
  for (hr_id v = 0; v < c->graph->n_values; v++)
    adapters += hr__graph_is_tensor(c->graph, v) && strstr(c->graph->values[v].name, ".lora_A.weight") != NULL;
  assert_int_equal(adapters, 112);
  expect_ok(c, COMPILE(c, "adapters", BEFORE, "model.parts.llm.adapters.rank=16"));
  assert_int_equal(elements(c->graph, "tokenizer.", true), 2363904);
  assert_int_equal(elements(c->graph, "encoder.", true), 160084996);
  assert_int_equal(elements(c->graph, "llm.", true), 11272192);
}

/* What the guide's table counts, at 2 samples of 100 patches in f32: patches, the result of each convolution, tokens.
 */
static size_t activations(const hr_graph *g, size_t *bytes) {
  size_t lines = 0;
  bytes[lines++] = hr_desc_bytes(&g->values[hr__program_input(g, 0, "patches")].desc);
  for (size_t n = 0; n < g->n_nodes; n++)
    if (g->nodes[n].program == 0 &&
        (g->nodes[n].op == &hr_op_conv || strcmp(g->nodes[n].module, "tokenizer.proj") == 0))
      bytes[lines++] = hr_desc_bytes(&g->values[g->nodes[n].out[0]].desc);
  return lines;
}

static void table_compare(const hr_graph *g, size_t lines, const double *mib, double total) {
  size_t bytes[16], sum = 0;
  assert_int_equal(activations(g, bytes), lines);
  for (size_t i = 0; i < lines; i++) {
    assert_true(fabs((double)bytes[i] / (1 << 20) - mib[i]) <= 0.0051); /* the table has two digits, 65.625 as 65.62 */
    sum += bytes[i];
  }
  assert_true(fabs((double)sum / (1 << 20) - total) <= 0.0051);
}

static void test_table_of_the_guide(void **state) {
  static const double before[] = {8.20, 1050.00, 525.00, 262.50, 131.25, 65.62, 32.81, 65.62},
                      after[] = {2.05, 131.25, 65.62, 32.81, 16.41, 32.81};
  compiled *c = *state;
  expect_ok(c, COMPILE(c, "model"));
  table_compare(c->graph, sizeof after / sizeof *after, after, 280.96);
  expect_ok(c, COMPILE(c, "model", BEFORE));
  table_compare(c->graph, sizeof before / sizeof *before, before, 2141.02);
}

static void test_convolutions(void **state) {
  static const char *const points[] = {"model.config.t_fixed=16", "model.config.t_fixed=32", "model.config.t_fixed=64",
                                       "model.config.t_fixed=128"};
  compiled *c = *state;
  for (int i = 0; i < 4; i++) {
    int convs = 0;
    expect_ok(c, COMPILE(c, "model", points[i]));
    for (size_t n = 0; n < c->graph->n_nodes; n++)
      convs += c->graph->nodes[n].program == 0 && c->graph->nodes[n].op == &hr_op_conv;
    assert_int_equal(convs, 3 + i);
  }
}

/* Pooling and the rows that positions are made of are f32, all else is not. */
static void test_wide_modules(void **state) {
  compiled *c = *state;
  expect_ok(c, COMPILE(c, "precision", "model.precision=bf16-mixed"));
  int wide = 0, narrow = 0;
  for (size_t n = 0; n < c->graph->n_nodes; n++) {
    const hr_node *node = &c->graph->nodes[n];
    hr_dtype dtype = c->graph->values[node->out[0]].desc.dtype;
    bool is_wide = strncmp(node->module, "pooling", 7) == 0 || strncmp(node->module, "encoder.positions", 17) == 0;
    bool is_narrow = strncmp(node->module, "encoder.layers", 14) == 0 || node->op == &hr_op_conv;
    if (node->op == &hr_op_copy || dtype == HR_U8) continue;
    if (is_wide) assert_int_equal(dtype, HR_F32);
    if (is_narrow) assert_int_equal(dtype, HR_BF16);
    wide += is_wide, narrow += is_narrow;
  }
  assert_true(wide > 30 && narrow > 100);
}

/* Sizes that positions are brought to are taken as given: nothing flows back to what they were made of. */
static void test_scale_of_positions(void **state) {
  compiled *c = *state;
  expect_ok(c, COMPILE(c, NULL));
  int given = 0;
  for (hr_id v = 0; v < c->graph->n_values; v++)
    given += c->graph->values[v].detached && c->graph->values[v].producer != HR_DROPPED;
  assert_int_equal(given, 2);
  assert_int_not_equal(c->graph->values[hr__graph_find_value(c->graph, "encoder.positions.scale")].gradient, HR_NONE);
}

static void test_slices(void **state) {
  compiled *c = *state;
  expect_ok(c, COMPILE(c, NULL, "memory.split={encoder: 2, pooling: 2}"));
  int given = 0, convs = 0;
  for (size_t n = 0; n < c->graph->n_nodes; n++) {
    const hr_node *node = &c->graph->nodes[n];
    given += node->phase == HR_FORWARD && c->graph->values[node->out[0]].detached;
    convs += node->phase == HR_FORWARD && node->op == &hr_op_conv;
  }
  assert_int_equal(given, 4);
  assert_int_equal(convs, 8);
}

static void test_refused(void **state) {
  static const struct {
    const char *set, *message;
  } cases[] = {
      {"model.config.t_fixed=48", "convolutions cannot bring 48 points down to one"},
      {"model.config.encoder_heads=7", "7 heads do not divide encoder_feature_dim 512"},
      {"model.config.encoding_dim=511", "encodings of 511 numbers"},
      {"model.config.max_channels=64", "84 channels, but max_channels is 64"},
      {"model.config.channels=0", "channels"},
      {"model.config.encoder_dropout=1", "encoder_dropout"},
      {"model.parts.llm={family: bert, config: {hidden_size: 16}}", "bert does not write answers"},
      {"model.parts.words.family=llama", "words"},
  };
  compiled *c = *state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    assert_int_equal(COMPILE(c, NULL, cases[i].set), HR_BAD_INPUT);
    if (!strstr(c->err.message, cases[i].message)) fail_msg("%s: %s", cases[i].set, c->err.message);
  }
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, compiled_setup, compiled_teardown)
  const struct CMUnitTest tests[] = {
      TEST(test_sizes),        TEST(test_table_of_the_guide), TEST(test_convolutions),
      TEST(test_wide_modules), TEST(test_scale_of_positions), TEST(test_slices),
      TEST(test_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
