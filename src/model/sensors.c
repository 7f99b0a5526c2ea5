/* The sensor model's forward pass: patches of recordings become vectors of the decoder's width, which stand in the
 * prompt where it has [SENSOR], and the decoder answers the question. The loss is that of answers. See sensors.h.
 */
#include "model/sensors.h"

#include "model/greedy.h"
#include "model/losses.h"
#include "model/parts.h"
#include "op/concat.h"
#include "op/gather.h"
#include "op/pointwise.h"
#include "op/slice.h"

/* Of questions of one type: those that a field of the type's name has. */
#define EXACT(called, type)                                                                                            \
  { .name = called, .metric = true, .evaluated = true, .over = HR_OVER_MASK, .mask = type }

static const hr_reported reported[] = {
    {.name = "loss", .weight = 1, .over = HR_OVER_TARGETS},
    {.name = "exact_match", .metric = true, .evaluated = true, .over = HR_OVER_SAMPLES},
    EXACT("exact_recognition", "simple_activity_recognition"),
    EXACT("exact_ordering", "multi_activity_ordering"),
    EXACT("exact_existence", "multi_activity_existence"),
    EXACT("exact_relative_ordering", "multi_activity_relative_ordering"),
};
enum { REPORTED = sizeof reported / sizeof *reported };

static const hr_part_declared parts[] = {{HR_SENSORS_DECODER, "llama"}};

/* In these modules everything is f32: pooling as the original has it, and the few rows that positions are made of. */
static const char *const wide[] = {"pooling", "encoder.positions", "answers", NULL};

static int64_t vocabulary(const hr_model_part *whole) {
  hr_model_part decoder = hr__part_find(whole, HR_SENSORS_DECODER);
  return decoder.model->vocabulary(&decoder);
}

/* What a source says of samples of L positions and P patches. Rows behind the valid patches, the first of a sample, are
 * 0; positions of patches count from the end: P - n is the first. */
static void fields(const hr_model_part *whole, const hr_field_shape *shape, hr_fields *out) {
  hr_sensor_model m = hr__sensor_model_read(whole);
  int64_t b = shape->batch, l = shape->length, p = m.patches, words = vocabulary(whole);
  hr_desc text = hr__desc2(HR_I32, b, l), samples = hr__desc1(HR_I32, b);
  const hr_field list[] = {
      {.name = "patches", .purpose = HR_FOR_VALUES, .desc = {HR_F32, 4, {b, p, m.channels, m.points}}},
      {.name = "statistics", .purpose = HR_FOR_VALUES, .desc = {HR_F32, 4, {b, p, m.channels, 6}}},
      {.name = "patch_counts", .purpose = HR_FOR_VALUES, .desc = samples, .bound = p + 1, .made_up = HR_MADE_LARGEST},
      {.name = "patch_mask",
       .purpose = HR_FOR_VALUES,
       .desc = hr__desc2(HR_U8, b, p),
       .bound = 2,
       .made_up = HR_MADE_LARGEST},
      {.name = "patch_positions",
       .purpose = HR_FOR_VALUES,
       .desc = hr__desc2(HR_I32, b, p),
       .bound = p,
       .made_up = HR_MADE_IN_ORDER},
      {.name = "patch_size", .purpose = HR_FOR_VALUES, .desc = samples, .bound = m.size_rows},
      {.name = "tokens", .purpose = HR_FOR_TOKENS, .desc = text, .bound = words},
      {.name = "targets", .purpose = HR_FOR_TARGETS, .desc = text, .bound = words},
      {.name = "placement", .purpose = HR_FOR_VALUES, .desc = text, .bound = l + p, .made_up = HR_MADE_IN_ORDER},
  };
  for (size_t i = 0; i < sizeof list / sizeof *list; i++)
    hr__field_add(out, list[i]);
  for (int i = 0; i < REPORTED; i++) /* 1: the question is of this type */
    if (reported[i].mask)
      hr__field_add(
          out, (hr_field){.name = reported[i].mask, .purpose = HR_FOR_VALUES, .desc = hr__desc1(HR_U8, b), .bound = 2});
}

/* Vectors of patches in the decoder's width, [B, P, H]. */
static hr_id projected(hr_builder *b, const hr_model_part *whole, const hr_sensor_model *m,
                       const hr_model_batch *batch) {
  hr_id x = hr__sensors_pool(b, m, hr__sensors_encode(b, &whole->scope, m, batch), batch);
  x = hr__sensors_norm(b, m, "projector", "norm", x);
  return hr__sensors_linear(b, "projector", "linear", m->width, m->decoder, x, HR_NONE);
}

/* Reports how many samples are answered exactly: all, and of each type of question. Those that only fill a batch up
 * have no answer. */
static void matches_report(hr_builder *b, const hr_model_part *whole, const hr_model_part *decoder,
                           const hr_model_batch *batch, hr_id hidden) {
  hr__module(b, "answers");
  hr_id expected = hr__reshape(b, batch->targets, 3, (const int64_t[]){batch->batch, batch->length, 1});
  expected = hr__unary(b, HR_FORMULA_affine, expected, 1, 1); /* 0 where nothing is expected */
  hr_id wrong = hr__greedy_mistakes(b, decoder, batch, hidden, expected);
  hr__module(b, "answers");
  hr_id right = hr__binary(b, HR_FORMULA_equal, wrong, hr__unary(b, HR_FORMULA_affine, wrong, 0, 0));
  right = hr__binary(b, HR_FORMULA_keep, right, hr__reduce(b, HR_REDUCE_MAX, expected, 1u << 1));
  for (int i = 0; i < REPORTED && b->status == HR_OK; i++) {
    if (!reported[i].evaluated) continue;
    hr_id counted = right;
    if (reported[i].mask) {
      hr_id mask = hr__batch_field(batch, reported[i].mask);
      mask = hr__reshape(b, mask, 3, (const int64_t[]){batch->batch, 1, 1});
      counted = hr__binary(b, HR_FORMULA_keep, right, mask);
    }
    hr_id sum = hr__squeeze(b, hr__reduce(b, HR_REDUCE_SUM, counted, 1u << 0), 3u << 1);
    hr__report(b, whole->model, batch, reported[i].name, sum);
  }
}

/* [B, L, H]: of each position the word's own embedding, or the vector of a patch. */
static hr_id prompt(hr_builder *b, const hr_model_part *whole, const hr_model_batch *batch) {
  hr_sensor_model m = hr__sensor_model_read(whole);
  hr_model_part decoder = hr__part_find(whole, HR_SENSORS_DECODER);
  hr_id patches = projected(b, whole, &m, batch), words = hr__part_embed(b, &decoder, batch);
  hr__module(b, "placement");
  if (b->status != HR_OK) return HR_NONE;
  return hr__gather(b, hr__batch_field(batch, "placement"), hr__concat(b, (hr_id[]){words, patches}, 2, 1));
}

static hr_id forward(hr_builder *b, const hr_model_part *whole, const hr_model_batch *batch) {
  hr_model_part decoder = hr__part_find(whole, HR_SENSORS_DECODER);
  hr_id x = hr__part_body(b, &decoder, prompt(b, whole, batch), batch);
  hr_id loss = hr__part_loss(b, &decoder, x, batch);
  hr__report(b, whole->model, batch, "loss", loss);
  if (b->status == HR_OK && b->graph->programs[b->program].key.kind == HR_PROGRAM_EVAL)
    matches_report(b, whole, &decoder, batch, x);
  return loss;
}

const hr_model hr_model_sensors = {
    .family = "sensors",
    .keys = {&hr_sensor_model_keys},
    .parts = parts,
    .n_parts = sizeof parts / sizeof *parts,
    .check = hr__sensor_model_check,
    .forward = forward,
    .speaker = HR_SENSORS_DECODER,
    .prompt = prompt,
    .vocabulary = vocabulary,
    .reported = reported,
    .n_reported = REPORTED,
    .wide = wide,
    .fields = fields,
};
