/* The gesture model against PyTorch (make_gesture.py), which takes a sample at a time without padding, sorts events
 * itself, and scans position by position: logits, losses, every gradient of the first step, and ten steps, for each way
 * of sharing weights. Also how many parameters it has at the sizes of the original. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "job/settings.h"
#include "model/model.h"
#include "part_system.h"

enum { SAMPLES = 2, CLASSES = 4, STEPS = 10 }; /* a batch has a third row, which only fills it up */

static const char recipe_text[] =
    "model:\n"
    "  family: gesture\n"
    "  config: { encoding_dim: 3, hidden_dim: 8, headdim: 4, d_state: 5, num_layers: 2, num_classes: 4, chunk_size: "
    "6,\n"
    "            dropout: 0, drop_path: 0 }\n"
    "data: { source: synthetic, sequence_length: 13 }\n"
    "training:\n"
    "  batch_size: 3\n"
    "  steps: 10\n"
    "  eval_every: 10\n"
    "  optimizer: { kind: adamw, lr: 1e-3, betas: [0.9, 0.95], eps: 1e-6, weight_decay: 0.1 }\n"
    "  clip_norm: 1.0\n";

#define KIND(name, words, layers)                                                                                      \
  {                                                                                                                    \
    .file = "gesture/" name, .recipe = recipe_text, .samples = SAMPLES, .least = 30, .set = {                          \
      "model.config.share_weights=" words,                                                                             \
      "model.config.num_layers=" layers                                                                                \
    }                                                                                                                  \
  }
static const system_case kinds[] = {KIND("pairs", "bidirectional", "2"), KIND("none", "false", "1"),
                                    KIND("all", "true", "2")};

/* Runs a program on batch `number` and gives its loss, the mean over samples. */
static double step_run(golden *g, const system_case *c, hr_program_kind kind, int64_t number) {
  static const char *const fields[] = {"vectors", "orders", "inverses", "pooling", "labels"};
  hr_id program = hr__graph_find_kind(g->graph, kind);
  float factor = 1.0f / SAMPLES;
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
    system_feed(g, program, fields[i], number, STEPS);
  system_write(g, program, "loss", &factor, sizeof factor);
  system_write(g, program, "accuracy", &factor, sizeof factor);
  system_run(g, c, program, number, 1);
  return system_output(g, program, "loss") / SAMPLES;
}

static void forward_compare(const system_case *kind) {
  golden g;
  hr_error err;
  float got[SAMPLES * CLASSES];
  system_open(&g, kind, 1, "32-true");
  const float *loss = golden_tensor(&g, g.io, "evaluated", "F32", sizeof(float), NULL);
  const float *expected = golden_tensor(&g, g.io, "logits", "F32", sizeof(float), NULL);
  expect_near(step_run(&g, kind, HR_PROGRAM_EVAL, 0), (double)*loss, 1e-6, "the loss without smoothing");
  hr_id points = hr__program_output(g.graph, hr__graph_find_kind(g.graph, HR_PROGRAM_EVAL), HR_OUTPUT_POINTS);
  check(hr__run_read(g.run, points, 0, got, sizeof got, &err), &err);
  double largest = 0, off = 0;
  for (int i = 0; i < SAMPLES * CLASSES; i++) {
    largest = fmax(largest, fabs((double)expected[i]));
    off = fmax(off, fabs((double)got[i] - (double)expected[i]));
  }
  if (!(off / largest <= 1e-5)) fail_msg("%s: logits are off by %.2e", kind->file, off / largest);
  print_message("%s: logits within %.1e of PyTorch\n", kind->file, off / largest);
  golden_close(&g);
}

static void gradients_compare(const system_case *kind) {
  golden g;
  system_open(&g, kind, 2, "32-true");
  step_run(&g, kind, HR_PROGRAM_MICRO_FIRST, 0);
  system_gradients(&g, kind);
  golden_close(&g);
}

static void steps_compare(const system_case *kind, const char *precision, double tolerance) {
  golden g;
  char what[64];
  system_open(&g, kind, 1, precision);
  const float *losses = golden_tensor(&g, g.io, "loss", "F32", sizeof(float), NULL);
  for (int64_t step = 0; step < STEPS; step++) {
    snprintf(what, sizeof what, "%s: the loss of step %d", precision, (int)step + 1);
    expect_near(step_run(&g, kind, HR_PROGRAM_STEP, step), (double)losses[step], tolerance, what);
  }
  golden_close(&g);
}

static void test_kind(void **state) {
  const system_case *kind = *state;
  forward_compare(kind);
  gradients_compare(kind);
  steps_compare(kind, "32-true", 1e-5);
  steps_compare(kind, "bf16-mixed", 2e-2);
}

static void count_expect(const char *width, const char *state, const char *layers, const char *shared,
                         int64_t expected) {
  char set[4][96];
  hr_recipe *recipe;
  hr_graph *graph;
  hr_error err;
  int64_t count = 0;
  snprintf(set[0], sizeof set[0], "model.config.hidden_dim=%s", width);
  snprintf(set[1], sizeof set[1], "model.config.d_state=%s", state);
  snprintf(set[2], sizeof set[2], "model.config.num_layers=%s", layers);
  snprintf(set[3], sizeof set[3], "model.config.share_weights=%s", shared);
  const char *const list[] = {set[0],
                              set[1],
                              set[2],
                              set[3],
                              "model.config.headdim=64",
                              "model.config.num_classes=16",
                              "model.config.encoding_dim=64"};
  check(hr__settings_parse("count.yaml", ".", recipe_text, sizeof recipe_text - 1, list, 7, &recipe, &err), &err);
  check(hr__compile(recipe, NULL, NULL, &graph, &err), &err);
  for (hr_id v = 0; v < graph->n_values; v++)
    if (hr__graph_is_tensor(graph, v) && graph->buffers[graph->values[v].buffer].role == HR_ROLE_PARAMETER)
      count += hr_desc_count(&graph->values[v].desc);
  if (count != expected)
    fail_msg("%s/%s/%s, %s: %lld parameters, not %lld", width, state, layers, shared, (long long)count,
             (long long)expected);
  hr__graph_destroy(graph);
  hr__recipe_destroy(recipe);
}

static void test_parameters(void **state) {
  (void)state;
  count_expect("256", "128", "6", "bidirectional", 9343168);
  count_expect("192", "96", "6", "bidirectional", 5280148);
  count_expect("160", "64", "4", "bidirectional", 2518756);
  count_expect("256", "128", "6", "true", 3754912);
  count_expect("256", "128", "6", "false", 17725552);
}

int main(void) {
  enum { KINDS = sizeof kinds / sizeof *kinds };
  struct CMUnitTest tests[KINDS + 1];
  for (size_t i = 0; i < KINDS; i++)
    tests[i] = (struct CMUnitTest){
        .name = kinds[i].file, .test_func = test_kind, .initial_state = (void *)(uintptr_t)&kinds[i]};
  tests[KINDS] = (struct CMUnitTest)cmocka_unit_test(test_parameters);
  return cmocka_run_group_tests_name("gestures against PyTorch", tests, NULL, NULL);
}
