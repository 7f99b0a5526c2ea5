/* Backbones and the video model's pieces against PyTorch (make_vision.py): what they make of a batch, the loss,
 * gradients of the first step, ten steps, and running statistics behind them; norms by running statistics, folded into
 * the convolutions in front of them, and by the batch. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "job/settings.h"
#include "model/backbone.h"
#include "model/losses.h"
#include "model/parts.h"
#include "model/video_pieces.h"
#include "model/weights.h"
#include "op/concat.h"
#include "op/mse.h"
#include "op/pointwise.h"
#include "op/slice.h"
#include "part_golden.h"

enum { SAMPLES = 4, STEPS = 10, SIZE = 64 };
enum { FRAMES = 7, COLUMNS = 10, DECODER = 14 };

#define TRAINING                                                                                                       \
  "training:\n"                                                                                                        \
  "  batch_size: 4\n"                                                                                                  \
  "  steps: 10\n"                                                                                                      \
  "  eval_every: 10\n"                                                                                                 \
  "  optimizer: { kind: adamw, lr: 1e-3, betas: [0.9, 0.95], eps: 1e-4, weight_decay: 0.1 }\n"                         \
  "  clip_norm: 1.0\n"                                                                                                 \
  "data: { source: synthetic }\n"

/* ---- models that have nothing but what is compared ---- */

static hr_id shown(hr_builder *b, const hr_model_batch *batch, const char *name, hr_id x) {
  if (b->status != HR_OK) return HR_NONE;
  hr__module(b, "loss");
  hr__program_set_output(b, name, x);
  return hr__mse(b, x, hr__batch_field(batch, "wanted"));
}

static void images_fields(const hr_model_part *whole, const hr_field_shape *shape, hr_fields *out) {
  hr_model_part part = hr__part_find(whole, "visual");
  int64_t b = shape->batch;
  hr__field_add(
      out,
      (hr_field){.name = "images", .purpose = HR_FOR_VALUES, .desc = {HR_U8, 4, {b, SIZE, SIZE, 3}}, .bound = 256});
  hr__field_add(out, (hr_field){.name = "wanted",
                                .purpose = HR_FOR_VALUES,
                                .desc = hr__desc2(HR_F32, b, hr__backbone_features(&part))});
}

static hr_id images_forward(hr_builder *b, const hr_model_part *whole, const hr_model_batch *batch) {
  hr_model_part part = hr__part_find(whole, "visual");
  hr_id x = hr__batch_field(batch, "images");
  bool evaluates = b->graph->programs[b->program].key.kind == HR_PROGRAM_EVAL;
  hr_id features = hr__part_body(b, &part, x, batch);
  if (evaluates && b->status == HR_OK) {
    hr_part_names before = hr__part_open(b, &part);
    hr_id map = hr__backbone_map(b, &part, x);
    hr__part_close(b, before);
    if (b->status == HR_OK) hr__program_set_output(b, "map", map);
  }
  return shown(b, batch, "features", features);
}

static const hr_part_declared visual[] = {{"visual", "resnet18"}};
static const hr_model images_model = {
    .family = "images", .parts = visual, .n_parts = 1, .fields = images_fields, .forward = images_forward};

static void pieces_fields(const hr_model_part *whole, const hr_field_shape *shape, hr_fields *out) {
  int64_t b = shape->batch;
  (void)whole;
  const hr_field list[] = {
      {.name = "x", .purpose = HR_FOR_VALUES, .desc = hr__desc3(HR_F32, b, FRAMES, COLUMNS)},
      {.name = "timestamps", .purpose = HR_FOR_VALUES, .desc = hr__desc2(HR_F32, b, FRAMES)},
      {.name = "wanted", .purpose = HR_FOR_VALUES, .desc = hr__desc3(HR_F32, b, FRAMES, 2 + DECODER)},
      {.name = "lengths", .purpose = HR_FOR_VALUES, .desc = hr__desc1(HR_I32, b), .bound = FRAMES + 1},
      {.name = "valid", .purpose = HR_FOR_VALUES, .desc = hr__desc2(HR_F32, b, FRAMES)},
  };
  for (size_t i = 0; i < sizeof list / sizeof *list; i++)
    hr__field_add(out, list[i]);
}

/* What is behind the valid frames counts for nothing. */
static hr_id counted(hr_builder *b, const hr_model_batch *batch, hr_id x) {
  hr_id valid = hr__reshape(b, hr__batch_field(batch, "valid"), 3, (const int64_t[]){batch->batch, FRAMES, 1});
  return hr__binary(b, HR_FORMULA_keep, x, valid);
}

static hr_id pieces_forward(hr_builder *b, const hr_model_part *whole, const hr_model_batch *batch) {
  static const hr_video_sizes m = {.frames = FRAMES,
                                   .feature = 12,
                                   .trigger = 8,
                                   .width = 16,
                                   .layers = 2,
                                   .heads = 2,
                                   .mlp = 24,
                                   .lstm = 6,
                                   .lstm_layers = 2};
  hr_id lengths = hr__batch_field(batch, "lengths");
  hr_id x = hr__video_features(b, &m, hr__batch_field(batch, "x"), COLUMNS);
  hr_id logits = hr__video_trigger(b, &m, x, lengths);
  hr_id y = hr__video_encode(b, &whole->scope, &m, x, hr__batch_field(batch, "timestamps"), lengths);
  y = hr__video_project(b, &m, hr__video_temporal(b, &m, y, lengths), DECODER);
  if (b->status != HR_OK) return HR_NONE;
  hr__module(b, "loss");
  hr_id both = counted(b, batch, hr__concat(b, (hr_id[]){logits, y}, 2, 2));
  if (b->status == HR_OK) hr__program_set_output(b, "result", both);
  return hr__mse(b, both, counted(b, batch, hr__batch_field(batch, "wanted")));
}

static const hr_model pieces_model = {.family = "pieces", .fields = pieces_fields, .forward = pieces_forward};

enum { GROUPED_CHANNELS = 5 };

static void grouped_fields(const hr_model_part *whole, const hr_field_shape *shape, hr_fields *out) {
  static const char *const names[] = {"images", "wanted"};
  (void)whole;
  for (int i = 0; i < 2; i++)
    hr__field_add(out, (hr_field){.name = names[i],
                                  .purpose = HR_FOR_VALUES,
                                  .desc = {HR_F32, 4, {shape->batch, GROUPED_CHANNELS, 3, 4}}});
}

/* Three groups of two images. */
static hr_id grouped_forward(hr_builder *b, const hr_model_part *whole, const hr_model_batch *batch) {
  const hr_batchnorm norm = {.path = "norm",
                             .at = "apply",
                             .channels = GROUPED_CHANNELS,
                             .groups = 3,
                             .eps = 1e-5f,
                             .momentum = 0.1f,
                             .by_batch = true};
  (void)whole;
  return shown(b, batch, "features", hr__batchnorm(b, &norm, hr__batch_field(batch, "images")));
}

static const hr_model grouped_model = {.family = "grouped", .fields = grouped_fields, .forward = grouped_forward};

/* ---- comparing ---- */

/* Writes what the file has under "w." into parameters and states. */
static void weights_put(golden *g) {
  hr_error err;
  size_t count;
  for (hr_id v = 0; v < g->graph->n_values; v++) {
    const hr_value *value = &g->graph->values[v];
    hr_role role = g->graph->buffers[value->buffer].role;
    char name[300];
    if (!hr__graph_is_tensor(g->graph, v) || (role != HR_ROLE_PARAMETER && role != HR_ROLE_STATE)) continue;
    snprintf(name, sizeof name, "w.%s",
             strncmp(value->name, "visual.", 7) == 0 && strchr(value->name + 7, '.') ? value->name + 7 : value->name);
    float *data = golden_tensor(g, g->io, name, "F32", sizeof(float), &count);
    assert_int_equal(count, hr_desc_count(&value->desc));
    check(hr__run_write(g->run, v, 0, data, count * sizeof *data, &err), &err);
  }
}

/* `more`: further settings, as --set takes them, or NULL. */
static void case_open(golden *g, const char *name, const char *text, int accumulation, const char *more) {
  hr_error err;
  char path[600], accumulated[64];
  *g = (golden){0};
  hr__arena_init(&g->arena);
  snprintf(path, sizeof path, "%s/test/golden/vision/%s.safetensors", HR_SOURCE_DIR, name);
  snprintf(g->folder, sizeof g->folder, "%s", path);
  check(hr__safetensors_open(path, &g->io, &err), &err);
  snprintf(accumulated, sizeof accumulated, "training.gradient_accumulation=%d", accumulation);
  const char *const set[] = {accumulated, more};
  check(hr__settings_parse("golden.yaml", ".", text, strlen(text), set, more ? 2 : 1, &g->recipe, &err), &err);
  check(hr__compile(g->recipe, NULL, NULL, &g->graph, &err), &err);
  hr_rates rates;
  hr_plan_options options = {.accumulation = accumulation};
  check(hr__cpu_open(&g->device, &err), &err);
  hr__rates_default(&g->device->facts, &rates);
  check(hr__plan_build(g->graph, &g->device->facts, &rates, &options, &g->plan, &err), &err);
  hr__rates_fini(&rates);
  check(hr__run_create(g->plan, g->device, NULL, &g->run, &err), &err);
  check(hr__run_init_values(g->run, 1, &err), &err);
  weights_put(g);
}

/* Runs a program on the batch, as step `number`, and gives its loss. */
static double step_run(golden *g, const char *const *fields, hr_program_kind kind, int64_t number) {
  hr_error err;
  hr_id program = hr__graph_find_kind(g->graph, kind);
  for (; *fields; fields++) {
    const hr_safetensor *tensor = hr__safetensors_find(g->io, *fields);
    assert_non_null(tensor);
    size_t bytes = (size_t)(tensor->end - tensor->begin);
    char *data = hr__arena_alloc(&g->arena, bytes);
    check(hr__safetensors_read(g->io, tensor, 0, data, bytes, &err), &err);
    check(hr__run_write(g->run, hr__program_input(g->graph, program, *fields), 0, data, bytes, &err), &err);
  }
  hr_control control = {.seed = 1,
                        .step = (uint64_t)number + 1,
                        .learning_rate = 1e-3f,
                        .bias_correction1 = (float)(1.0 - pow(0.9, (double)number + 1.0)),
                        .bias_correction2 = (float)(1.0 - pow(0.95, (double)number + 1.0)),
                        .loss_weight = 1,
                        .loss_scale = 1,
                        .valid_rows = SAMPLES};
  check(hr__run_write(g->run, hr__graph_find_value(g->graph, "control"), 0, &control, sizeof control, &err), &err);
  check(hr__run_program(g->run, program, &err), &err);
  float loss;
  check(hr__run_read(g->run, hr__program_output(g->graph, program, "loss"), 0, &loss, sizeof loss, &err), &err);
  return (double)loss;
}

static double norm_of(const float *data, size_t count) {
  double sum = 0;
  for (size_t i = 0; i < count; i++)
    sum += (double)data[i] * (double)data[i];
  return sqrt(sum);
}

/* `least`: what is smaller is rounding and nothing else, such as gradients of what a norm behind it takes away again.
 */
static void value_compare(golden *g, hr_id value, const char *expected, double tolerance, double least) {
  size_t count;
  const float *data = golden_tensor(g, g->io, expected, "F32", sizeof(float), &count);
  assert_int_equal(count, hr_desc_count(&g->graph->values[value].desc));
  double norm = norm_of(data, count), off = golden_distance(g, value, data, count);
  if (norm < least) off *= norm / least;
  if (!(off <= tolerance)) fail_msg("%s: %s is off by %.2e", g->folder, expected, off);
}

/* Everything of the file whose names begin with `prefix` is a value of the same name behind `own`. */
static void values_compare(golden *g, const char *prefix, const char *own, double tolerance, size_t fewest) {
  const double nothing = 1e-3; /* of the largest */
  size_t compared = 0, n, length = strlen(prefix), count = hr__safetensors_count(g->io);
  double largest = 0;
  for (size_t t = 0; t < count; t++) {
    const char *name = hr__safetensors_at(g->io, t)->name;
    if (strncmp(name, prefix, length) != 0) continue;
    const float *data = golden_tensor(g, g->io, name, "F32", sizeof(float), &n);
    largest = fmax(largest, norm_of(data, n));
  }
  for (size_t t = 0; t < count; t++) {
    const char *name = hr__safetensors_at(g->io, t)->name;
    char wanted[300];
    if (strncmp(name, prefix, length) != 0) continue;
    snprintf(wanted, sizeof wanted, "%s%s", own, name + length);
    hr_id value = hr__graph_find_value(g->graph, wanted);
    if (value == HR_NONE) fail_msg("there is no %s", wanted);
    value_compare(g, value, name, tolerance, nothing * largest);
    compared++;
  }
  print_message("%s: %zu of %s*\n", g->folder, compared, prefix);
  assert_true(compared >= fewest);
}

/* What f32 has to be true to where norms by the batch raise rounding: PyTorch's own distance in f32, which the script
 * has measured, stands for one order of sums, and another may be some times as far off. */
static double tolerance_of(golden *g, const char *mode, int which, double bound) {
  char name[64];
  snprintf(name, sizeof name, "%s.f32_off", mode);
  const float *off = golden_tensor(g, g->io, name, "F32", sizeof(float), NULL);
  return fmax(bound, 4 * (double)off[which]);
}
enum { OFF_GRADIENTS, OFF_LOSSES, OFF_STATES };

/* `later`: how near losses behind the first step are. */
static void losses_compare(golden *g, const char *const *fields, const char *mode, double later) {
  char name[64], what[64];
  snprintf(name, sizeof name, "%sloss", mode);
  const float *losses = golden_tensor(g, g->io, name, "F32", sizeof(float), NULL);
  for (int64_t step = 0; step < STEPS; step++) {
    snprintf(what, sizeof what, "%sthe loss of step %d", mode, (int)step + 1);
    expect_near(step_run(g, fields, HR_PROGRAM_STEP, step), (double)losses[step], step ? later : 1e-6, what);
  }
}

static const char *const image_fields[] = {"images", "wanted", NULL};

/* mode: of batch norms; NULL: the family has none. */
static void recipe_write(char text[1024], const char *family, const char *config, const char *mode) {
  snprintf(text, 1024, "model:\n  family: images\n  parts: { visual: { family: %s, config: { %s%s%s } } }\n" TRAINING,
           family, config, mode ? ", batch_norm: " : "", mode ? mode : "");
}

static void backbone_compare(const char *family, const char *config, bool batch_norms) {
  static const char *const modes[] = {"eval", "train"}, *const *const fields = image_fields;
  char text[1024], name[64], grads[64];
  golden g;
  for (int train = 0; train < 2; train++) {
    recipe_write(text, family, config, batch_norms ? modes[train] : NULL);
    if (!train) {
      case_open(&g, family, text, 1, NULL);
      const float *losses = golden_tensor(&g, g.io, "eval.loss", "F32", sizeof(float), NULL);
      expect_near(step_run(&g, fields, HR_PROGRAM_EVAL, 0), (double)losses[0], 1e-6, "the first loss");
      hr_id program = hr__graph_find_kind(g.graph, HR_PROGRAM_EVAL);
      value_compare(&g, hr__program_output(g.graph, program, "features"), "eval.features", 1e-5, 0);
      value_compare(&g, hr__program_output(g.graph, program, "map"), "eval.map", 1e-5, 0);
      golden_close(&g);
    }
    case_open(&g, family, text, 2, NULL);
    step_run(&g, fields, HR_PROGRAM_MICRO_FIRST, 0);
    snprintf(grads, sizeof grads, "%s.g.", modes[train]);
    snprintf(name, sizeof name, "%s.features", modes[train]);
    value_compare(&g, hr__program_output(g.graph, hr__graph_find_kind(g.graph, HR_PROGRAM_MICRO_FIRST), "features"),
                  name, 1e-5, 0);
    values_compare(&g, grads, "grad.visual.", tolerance_of(&g, modes[train], OFF_GRADIENTS, 1e-4), 40);
    golden_close(&g);
    case_open(&g, family, text, 1, NULL);
    snprintf(name, sizeof name, "%s.", modes[train]);
    losses_compare(&g, fields, name, tolerance_of(&g, modes[train], OFF_LOSSES, 1e-5));
    if (train && batch_norms)
      values_compare(&g, "train.s.", "visual.", tolerance_of(&g, "train", OFF_STATES, 1e-4), 40);
    golden_close(&g);
  }
}

static void test_resnet18(void **state) {
  (void)state;
  backbone_compare("resnet18", "width: 2", true);
}

static void test_resnet50(void **state) {
  (void)state;
  backbone_compare("resnet50", "width: 2", true);
}

static void test_efficientnet_b0(void **state) {
  (void)state;
  backbone_compare("efficientnet_b0", "channel_multiplier: 0.1", true);
}

static void test_convnext_tiny(void **state) {
  (void)state;
  backbone_compare("convnext_tiny", "width: 4", false);
}

/* Drawn again by what is recomputed, to the bit, and by slices, whose sums over images have another order; other losses
 * than those of all blocks. */
static void test_drop_path(void **state) {
  static const char *const ways[] = {NULL, "memory.checkpoint=every-layer", "memory.split={visual: 2}"};
  enum { SLICED = 2 };
  double first[STEPS] = {0};
  char text[1024];
  golden g;
  (void)state;
  recipe_write(text, "convnext_tiny", "width: 4, drop_path: 0.5", NULL);
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
    case_open(&g, "convnext_tiny", text, 1, ways[i]);
    const float *whole = golden_tensor(&g, g.io, "eval.loss", "F32", sizeof(float), NULL);
    for (int step = 0; step < 3; step++) {
      double loss = step_run(&g, image_fields, HR_PROGRAM_STEP, step);
      double room = i == SLICED ? 1e-6 * first[step] : 0;
      if (i > 0 && !(fabs(loss - first[step]) <= room))
        fail_msg("%s: step %d gives %.9g, not %.9g", ways[i], step + 1, loss, first[step]);
      if (i == 0) first[step] = loss;
    }
    assert_true(fabs(first[0] - (double)whole[0]) > 1e-3 && fabs(first[0] - (double)whole[0]) < 0.5);
    golden_close(&g);
  }
  case_open(&g, "convnext_tiny", text, 1, NULL); /* nothing is dropped where nothing is trained */
  const float *whole = golden_tensor(&g, g.io, "eval.loss", "F32", sizeof(float), NULL);
  expect_near(step_run(&g, image_fields, HR_PROGRAM_EVAL, 0), (double)whole[0], 1e-6, "the loss of an evaluation");
  golden_close(&g);
}

static void test_pieces(void **state) {
  static const char *const fields[] = {"x", "timestamps", "wanted", "lengths", "valid", NULL};
  static const char text[] = "model: { family: pieces }\n" TRAINING;
  golden g;
  (void)state;
  case_open(&g, "pieces", text, 2, NULL);
  step_run(&g, fields, HR_PROGRAM_MICRO_FIRST, 0);
  value_compare(&g, hr__program_output(g.graph, hr__graph_find_kind(g.graph, HR_PROGRAM_MICRO_FIRST), "result"),
                "result", 1e-5, 0);
  values_compare(&g, "g.", "grad.", 1e-4, 50);
  golden_close(&g);
  case_open(&g, "pieces", text, 1, NULL);
  losses_compare(&g, fields, "", 1e-5);
  golden_close(&g);
}

/* Recomputed, or in slices where images do not meet: the bits of every loss. */
static void test_same_bits(void **state) {
  static const struct {
    const char *mode, *set;
  } ways[] = {{"eval", NULL},
              {"eval", "memory.checkpoint=every-layer"},
              {"eval", "memory.split={visual: 2}"},
              {"eval", "memory.split={visual: 4}"},
              {"train", NULL},
              {"train", "memory.checkpoint=every-layer"}};
  double first[STEPS] = {0};
  (void)state;
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
    char text[1024];
    golden g;
    recipe_write(text, "efficientnet_b0", "channel_multiplier: 0.1", ways[i].mode);
    case_open(&g, "efficientnet_b0", text, 1, ways[i].set);
    for (int step = 0; step < 3; step++) {
      double loss = step_run(&g, image_fields, HR_PROGRAM_STEP, step);
      if (ways[i].set && loss != first[step])
        fail_msg("%s: step %d gives %.9g, not %.9g", ways[i].set, step + 1, loss, first[step]);
      first[step] = loss;
    }
    golden_close(&g);
  }
}

/* Products in 16 bits, norms made in f32: losses as near as bf16 lets them be. */
static void test_narrow(void **state) {
  static const char *const modes[] = {"eval", "train"};
  (void)state;
  for (int mode = 0; mode < 2; mode++) {
    char text[1024], name[32];
    golden g;
    recipe_write(text, "efficientnet_b0", "channel_multiplier: 0.1", modes[mode]);
    case_open(&g, "efficientnet_b0", text, 1, "model.precision=bf16-mixed");
    snprintf(name, sizeof name, "%s.loss", modes[mode]);
    const float *losses = golden_tensor(&g, g.io, name, "F32", sizeof(float), NULL);
    for (int64_t step = 0; step < STEPS; step++)
      expect_near(step_run(&g, image_fields, HR_PROGRAM_STEP, step), (double)losses[step], 2e-2, "a loss in bf16");
    golden_close(&g);
  }
}

static void test_groups(void **state) {
  static const char text[] = "model: { family: grouped }\n" TRAINING;
  golden g;
  (void)state;
  case_open(&g, "groups", text, 2, "training.batch_size=6");
  const float *loss = golden_tensor(&g, g.io, "loss", "F32", sizeof(float), NULL);
  expect_near(step_run(&g, image_fields, HR_PROGRAM_MICRO_FIRST, 0), (double)*loss, 1e-6, "the loss");
  hr_id program = hr__graph_find_kind(g.graph, HR_PROGRAM_MICRO_FIRST);
  value_compare(&g, hr__program_output(g.graph, program, "features"), "features", 1e-5, 0);
  values_compare(&g, "g.", "grad.", 1e-4, 2);
  values_compare(&g, "s.", "", 1e-6, 2);
  golden_close(&g);
}

/* A folder as timm writes it: its config says which family it is, running statistics are read, a classifier and counts
 * of batches are left alone. */
static void test_checkpoint(void **state) {
  char text[1024], folder[600];
  hr_error err;
  hr_weights *weights;
  golden g;
  (void)state;
  snprintf(folder, sizeof folder, "%s/test/golden/vision/checkpoint", HR_SOURCE_DIR);
  snprintf(text, sizeof text, "model:\n  family: images\n  parts: { visual: { path: \"%s\" } }\n" TRAINING, folder);
  case_open(&g, "resnet18", text, 1, NULL);
  check(hr__run_init_values(g.run, 1, &err), &err); /* nothing of the golden weights stays */
  hr_model_part whole = hr__model_whole(g.recipe), part = hr__part_find(&whole, "visual");
  assert_string_equal(part.model->family, "resnet18");
  check(hr__weights_open(folder, g.graph, &part, &weights, &err), &err);
  for (hr_id v = 0; v < g.graph->n_values; v++) {
    if (!hr__weights_has(weights, v)) continue;
    size_t bytes = hr_desc_bytes(&g.graph->values[v].desc);
    void *data = hr__arena_alloc(&g.arena, bytes);
    check(hr__weights_read(weights, v, 0, hr_desc_count(&g.graph->values[v].desc), data, &err), &err);
    check(hr__run_write(g.run, v, 0, data, bytes, &err), &err);
  }
  hr__weights_close(weights);
  step_run(&g, image_fields, HR_PROGRAM_EVAL, 0);
  hr_id program = hr__graph_find_kind(g.graph, HR_PROGRAM_EVAL);
  value_compare(&g, hr__program_output(g.graph, program, "features"), "eval.features", 1e-5, 0);
  golden_close(&g);
}

/* As timm counts them, without the classifier. */
static void test_parameters(void **state) {
  static const struct {
    const char *family;
    int64_t parameters, features;
  } expected[] = {{"resnet18", 11176512, 512},
                  {"resnet50", 23508032, 2048},
                  {"efficientnet_b0", 4007548, 1280},
                  {"convnext_tiny", 27820128, 768}};
  (void)state;
  for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
    char text[512];
    hr_error err;
    hr_recipe *recipe;
    hr_graph *graph;
    int64_t count = 0;
    snprintf(text, sizeof text, "model:\n  family: images\n  parts: { visual: { family: %s } }\n" TRAINING,
             expected[i].family);
    check(hr__settings_parse("golden.yaml", ".", text, strlen(text), NULL, 0, &recipe, &err), &err);
    check(hr__compile(recipe, NULL, NULL, &graph, &err), &err);
    for (hr_id v = 0; v < graph->n_values; v++)
      if (hr__graph_is_tensor(graph, v) && graph->buffers[graph->values[v].buffer].role == HR_ROLE_PARAMETER)
        count += hr_desc_count(&graph->values[v].desc);
    hr_model_part whole = hr__model_whole(recipe), part = hr__part_find(&whole, "visual");
    assert_int_equal(hr__backbone_features(&part), expected[i].features);
    if (count != expected[i].parameters) fail_msg("%s has %lld parameters", expected[i].family, (long long)count);
    hr__graph_destroy(graph);
    hr__recipe_destroy(recipe);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_resnet18),      cmocka_unit_test(test_resnet50),  cmocka_unit_test(test_efficientnet_b0),
      cmocka_unit_test(test_convnext_tiny), cmocka_unit_test(test_drop_path), cmocka_unit_test(test_pieces),
      cmocka_unit_test(test_same_bits),     cmocka_unit_test(test_narrow),    cmocka_unit_test(test_groups),
      cmocka_unit_test(test_checkpoint),    cmocka_unit_test(test_parameters)};
  hr__model_register(&images_model);
  hr__model_register(&pieces_model);
  hr__model_register(&grouped_model);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
