/* The multistream model against PyTorch (make_multistream.py): what it makes of a batch, its losses, every gradient of
 * the first step, and ten steps. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "job/settings.h"
#include "model/model.h"
#include "part_system.h"

enum { STEPS = 10, LOSSES = 11, FIELDS = 14 };

#define FUSION                                                                                                         \
  "    fusion: { config: { width: 12, heads: 3, layers: 2, image: 8, thermal: 6, motion: 16, class_width: 4,\n"        \
  "                        classes: 5, dropout: 0 } }\n"                                                               \
  "    geometry: { config: { hidden: 10, embedding: 6, importance: 4, dropout: 0 } }\n"                                \
  "    temporal: { config: { width: 8, heads: 2, layers: 2, mlp: 12, embedding: 8, dropout: 0 } }\n"
#define TRAINING(samples, eps)                                                                                         \
  "data: { source: synthetic }\n"                                                                                      \
  "training:\n"                                                                                                        \
  "  batch_size: " samples "\n"                                                                                        \
  "  steps: 10\n"                                                                                                      \
  "  eval_every: 10\n"                                                                                                 \
  "  optimizer: { kind: adamw, lr: 1e-3, betas: [0.9, 0.95], eps: " eps ", weight_decay: 0.1 }\n"                      \
  "  clip_norm: 1.0\n"

/* What nothing but rounding flows to: a bias of a key shifts all scores of a query alike, as does the last one before a
 * softmax; a bias in front of a norm by the batch is taken off again. */
static bool only_rounding(const char *name) {
  return strstr(name, "k_proj.bias") || strcmp(name, "g.cooling.attention.2.bias") == 0;
}
static bool only_rounding_by_batch(const char *name) {
  const char *end = strrchr(name, '.');
  if (only_rounding(name)) return true;
  if (!end || strcmp(end, ".bias") != 0) return false;
  return (strncmp(name, "g.detector.", 11) == 0 && strstr(name, ".conv")) || strstr(name, ".double.") ||
         strcmp(name, "g.course.time.conv.bias") == 0 ||
         (strncmp(name, "g.course.saliency.", 18) == 0 && strstr(name, ".conv."));
}

typedef struct stream_case {
  system_case of;
  bool by_batch; /* norms go by the batch in training, so that evaluations have losses of their own */
  const char *outputs[6];
} stream_case;

static const stream_case cases[] = {
    {.of =
         {.file = "multistream/whole",
          .least = 80,
          .own_state = true,
          .rounding = only_rounding,
          .recipe =
              "model:\n"
              "  family: shown\n"
              "  config: { frames: 4, frame_height: 12, frame_width: 14, head_size: 7, head_last: 5, head_dropout: 0,\n"
              "            infrared_branch: false, pair_branch: false }\n"
              "  parts:\n"
              "    video: { config: { width: 2, groups: 1, embedding: 6 } }\n"
              "    cooling: { config: { hidden: 16, embedding: 5, dropout: 0 } }\n" FUSION TRAINING("3", "1e-6"),
          .samples = 3},
     .outputs = {"points", "importance", "tau", "kinds", "logits"}},
    {.of =
         {.file = "multistream/infrared",
          .least = 80,
          .own_state = true,
          .rounding = only_rounding_by_batch,
          .recipe =
              "model:\n"
              "  family: shown\n"
              "  config: { frames: 3, frame_height: 40, frame_width: 48, head_size: 7, head_last: 5, head_dropout: 0,\n"
              "            video_branch: false, cooling_branch: false, pair_branch: false }\n"
              "  parts:\n"
              "    detector: { config: { width: 4, pyramid: 6, map_width: 5, embedding: 6 } }\n" FUSION TRAINING(
                  "3", "1e-4"),
          .samples = 3},
     .by_batch = true,
     .outputs = {"points", "importance", "detections", "tracks"}},
    {.of =
         {.file = "multistream/pair",
          .least = 80,
          .own_state = true,
          .rounding = only_rounding_by_batch,
          .recipe =
              "model:\n"
              "  family: shown\n"
              "  config: { frames: 4, frame_height: 34, frame_width: 66, head_size: 7, head_last: 5, head_dropout: 0,\n"
              "            video_branch: false, cooling_branch: false, infrared_branch: false }\n"
              "  parts:\n"
              "    backbone: { config: { channel_multiplier: 0.05 } }\n"
              "    pair: { config: { width: 16, heads: 2, layers: 2, mlp: 12, embedding: 6, dropout: 0 } }\n" FUSION
                  TRAINING("2", "1e-4"),
          .samples = 2},
     .by_batch = true,
     .outputs = {"points", "importance", "integrity"}},
    {.of =
         {.file = "multistream/course",
          .least = 80,
          .own_state = true,
          .rounding = only_rounding_by_batch,
          .recipe =
              "model:\n"
              "  family: shown\n"
              "  config: { frames: 5, frame_height: 40, frame_width: 48, head_size: 7, head_last: 5, head_dropout: 0,\n"
              "            video_branch: false, cooling_branch: false, infrared_branch: false, pair_branch: false,\n"
              "            temporal_conv_branch: true }\n"
              "  parts:\n"
              "    convnext: { config: { width: 4 } }\n"
              "    course: { config: { frames: 3, frame_height: 64, frame_width: 32, pyramid: 6, map_width: 4,\n"
              "                        embedding: 6, dropout: 0 } }\n" FUSION TRAINING("2", "1e-4"),
          .samples = 2},
     .by_batch = true,
     .outputs = {"points", "importance", "saliency"}},
};
enum { WHOLE, INFRARED, PAIR, COURSE, CASES };

/* Losses as the program and as the file call them, and what they weigh. */
static const struct {
  const char *name, *in_file;
  double weight;
} losses[LOSSES] = {{"event", "event", 1},
                    {"outcome", "outcome", 1},
                    {"brier", "brier", 0.25},
                    {"order", "order", 0.2},
                    {"mask", "mask_loss", 1},
                    {"pair_mask", "pair_mask", 1},
                    {"course_mask", "course_mask", 1},
                    {"spot_found", "spot_found", 1},
                    {"spot_offset", "spot_offset", 0.25},
                    {"spot_size", "spot_size", 0.25},
                    {"spot_brightness", "spot_brightness", 0.25}};

/* The family with the mask's logits as an output: what its module makes last. */
static hr_id forward(hr_builder *b, const hr_model_part *part, const hr_model_batch *batch) {
  hr_id loss = hr_model_multistream.forward(b, part, batch), made = HR_NONE;
  for (size_t n = 0; b->status == HR_OK && n < b->graph->n_nodes; n++)
    if (b->graph->nodes[n].program == b->program && strcmp(b->graph->nodes[n].module, "video.mask") == 0)
      made = b->graph->nodes[n].out[0];
  if (b->status == HR_OK && made != HR_NONE) hr__program_set_output(b, "logits", made);
  return loss;
}

/* Runs a program on batch `number`; gives its losses, each the mean over samples. */
static void step_run(golden *g, const stream_case *c, hr_program_kind kind, int64_t number, double out[LOSSES]) {
  static const char *const fields[FIELDS] = {
      "rgb",    "frame_mask",  "infrared",   "spots",    "spot_cells",  "spot_mask",    "motion", "motion_features",
      "curves", "curve_areas", "curve_mask", "class_id", "event_label", "outcome_label"};
  static const char *const metrics[] = {"event_right", "outcome_right"};
  hr_id program = hr__graph_find_kind(g->graph, kind);
  float factor = 1.0f / (float)c->of.samples;
  for (size_t i = 0; i < FIELDS; i++)
    if (hr__safetensors_find(g->io, fields[i])) system_feed(g, program, fields[i], number, STEPS);
  for (size_t i = 0; i < LOSSES + 2; i++)
    system_write(g, program, i < LOSSES ? losses[i].name : metrics[i - LOSSES], &factor, sizeof factor);
  system_run(g, &c->of, program, number, 1);
  for (int i = 0; i < LOSSES; i++)
    out[i] = system_output(g, program, losses[i].name) / c->of.samples;
}

/* Each loss as a part of the sum that is trained on: one of them may be 0, and is where its branch is not there. */
static void losses_expect(golden *g, const char *prefix, int64_t number, const double got[LOSSES], double tolerance) {
  double expected[LOSSES] = {0}, whole = 0;
  for (int i = 0; i < LOSSES; i++) {
    char name[64];
    snprintf(name, sizeof name, "%s%s", prefix, losses[i].in_file);
    if (!hr__safetensors_find(g->io, name)) continue;
    expected[i] = (double)((const float *)golden_tensor(g, g->io, name, "F32", sizeof(float), NULL))[number];
    whole += losses[i].weight * expected[i];
  }
  for (int i = 0; i < LOSSES; i++)
    if (!(fabs(got[i] - expected[i]) <= tolerance * whole))
      fail_msg("%sloss %s, number %d: %.9g, expected %.9g", prefix, losses[i].name, (int)number + 1, got[i],
               expected[i]);
}

static void what_it_makes(const stream_case *c) {
  golden g;
  size_t count;
  double got[LOSSES];
  system_open(&g, &c->of, 1, "32-true");
  step_run(&g, c, HR_PROGRAM_EVAL, 0, got);
  losses_expect(&g, c->by_batch ? "eval." : "", 0, got, 1e-6);
  for (size_t i = 0; i < sizeof c->outputs / sizeof *c->outputs && c->outputs[i]; i++) {
    const char *name = strcmp(c->outputs[i], "logits") == 0 ? "mask" : c->outputs[i];
    const float *expected = golden_tensor(&g, g.io, name, "F32", sizeof(float), &count);
    hr_id value = hr__program_output(g.graph, hr__graph_find_kind(g.graph, HR_PROGRAM_EVAL), c->outputs[i]);
    double off = golden_distance(&g, value, expected, count);
    if (!(off <= 1e-5)) fail_msg("%s of %s is off by %.2e", c->outputs[i], c->of.file, off);
  }
  golden_close(&g);
}

static void test_what_it_makes_of_a_batch(void **state) {
  (void)state;
  for (int i = 0; i < CASES; i++)
    what_it_makes(&cases[i]);
}

static void gradients_compare(const stream_case *c) {
  golden g;
  double got[LOSSES];
  system_open(&g, &c->of, 2, "32-true");
  step_run(&g, c, HR_PROGRAM_MICRO_FIRST, 0, got);
  system_gradients(&g, &c->of);
  golden_close(&g);
}

static void test_gradients(void **state) {
  (void)state;
  for (int i = 0; i < CASES; i++)
    gradients_compare(&cases[i]);
}

static void steps_compare(const stream_case *c, const char *precision, double tolerance) {
  golden g;
  double got[LOSSES];
  system_open(&g, &c->of, 1, precision);
  for (int64_t step = 0; step < STEPS; step++) {
    step_run(&g, c, HR_PROGRAM_STEP, step, got);
    losses_expect(&g, "", step, got, tolerance);
  }
  if (c->by_batch) { /* by the statistics that ten steps have left */
    step_run(&g, c, HR_PROGRAM_EVAL, 0, got);
    losses_expect(&g, "eval.", 1, got, tolerance);
  }
  golden_close(&g);
}

static void test_ten_steps(void **state) {
  (void)state;
  for (int i = 0; i < CASES; i++)
    steps_compare(&cases[i], "32-true", 1e-5);
  steps_compare(&cases[WHOLE], "bf16-mixed", 2e-2);
}

/* At the sizes that the system is described with; those of frames change none of them. */
static void test_sizes_as_described(void **state) {
  static const char described[] = "model: { family: multistream, config: { frames: 4, frame_height: 16, frame_width: "
                                  "16, temporal_conv_branch: true "
                                  "},\n"
                                  "         parts: { fusion: { config: { image: 1024 } } } }\n"
                                  "data: { source: synthetic }\n"
                                  "training: { batch_size: 1, steps: 1, eval_every: 1 }\n";
  static const struct {
    const char *part;
    int64_t parameters;
  } parts[] = {
      {"video.", 3024193},
      {"geometry.", 51205},
      {"temporal.", 1044288},
      {"cooling.", 181892},
      {"fusion.", 10762656 + 256 * 512}, /* of that branch more is seen; these and the next: 11058338 without */
      {"heads.", 295682},
      {"detector.", 1109254},
      {"pair.", 1645122 + 2 * 256},      /* and two places, one to a frame */
      {"convnext.", 27820128 - 2 * 768}, /* without the classifier's norm */
      {"course.", 3428225}};
  hr_error err;
  hr_recipe *parsed;
  hr_graph *graph;
  (void)state;
  check(hr__settings_parse("sizes.yaml", ".", described, strlen(described), NULL, 0, &parsed, &err), &err);
  check(hr__compile(parsed, NULL, NULL, &graph, &err), &err);
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    int64_t sum = 0;
    for (hr_id v = 0; v < graph->n_values; v++)
      if (hr__graph_is_tensor(graph, v) && graph->buffers[graph->values[v].buffer].role == HR_ROLE_PARAMETER &&
          strncmp(graph->values[v].name, parts[i].part, strlen(parts[i].part)) == 0)
        sum += hr_desc_count(&graph->values[v].desc);
    if (sum != parts[i].parameters)
      fail_msg("%s has %lld parameters, expected %lld", parts[i].part, (long long)sum, (long long)parts[i].parameters);
  }
  hr__graph_destroy(graph);
  hr__recipe_destroy(parsed);
}

int main(void) {
  static hr_model family;
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_what_it_makes_of_a_batch), cmocka_unit_test(test_gradients),
                                     cmocka_unit_test(test_ten_steps), cmocka_unit_test(test_sizes_as_described)};
  family = hr_model_multistream;
  family.family = "shown";
  family.forward = forward;
  hr__model_register(&family);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
