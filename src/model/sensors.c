/* The sensor model's forward pass: patches of recordings become vectors of the decoder's width, which stand in the
 * prompt where it has [SENSOR], and the decoder answers the question. The loss is that of answers. See sensors.h.
 */
#include "model/sensors.h"

#include "model/losses.h"
#include "model/parts.h"
#include "op/concat.h"
#include "op/gather.h"

static const hr_part_declared parts[] = {{HR_SENSORS_DECODER, "llama"}};

/* In these modules everything is f32: pooling as the original has it, and the few rows that positions are made of. */
static const char *const wide[] = {"pooling", "encoder.positions", NULL};

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
      {.name = "patch_counts", .purpose = HR_FOR_VALUES, .desc = samples, .bound = p + 1},
      {.name = "patch_mask", .purpose = HR_FOR_VALUES, .desc = hr__desc2(HR_U8, b, p), .bound = 2},
      {.name = "patch_positions", .purpose = HR_FOR_VALUES, .desc = hr__desc2(HR_I32, b, p), .bound = p},
      {.name = "patch_size", .purpose = HR_FOR_VALUES, .desc = samples, .bound = m.size_rows},
      {.name = "tokens", .purpose = HR_FOR_TOKENS, .desc = text, .bound = words},
      {.name = "targets", .purpose = HR_FOR_TARGETS, .desc = text, .bound = words},
      {.name = "placement", .purpose = HR_FOR_VALUES, .desc = text, .bound = l + p},
  };
  for (size_t i = 0; i < sizeof list / sizeof *list; i++)
    hr__field_add(out, list[i]);
}

/* Vectors of patches in the decoder's width, [B, P, H]. */
static hr_id projected(hr_builder *b, const hr_model_part *whole, const hr_sensor_model *m,
                       const hr_model_batch *batch) {
  hr_id x = hr__sensors_pool(b, m, hr__sensors_encode(b, &whole->scope, m, batch), batch);
  x = hr__sensors_norm(b, m, "projector", "norm", x);
  return hr__sensors_linear(b, "projector", "linear", m->width, m->decoder, x, HR_NONE);
}

static hr_id forward(hr_builder *b, const hr_model_part *whole, const hr_model_batch *batch) {
  hr_sensor_model m = hr__sensor_model_read(whole);
  hr_model_part decoder = hr__part_find(whole, HR_SENSORS_DECODER);
  hr_id patches = projected(b, whole, &m, batch), words = hr__part_embed(b, &decoder, batch);
  hr__module(b, "placement");
  if (b->status != HR_OK) return HR_NONE;
  /* [B, L, H]: of each position the word's own embedding, or that of a patch. */
  hr_id x = hr__gather(b, hr__batch_field(batch, "placement"), hr__concat(b, (hr_id[]){words, patches}, 2, 1));
  x = hr__part_body(b, &decoder, x, batch);
  return hr__part_loss(b, &decoder, x, batch);
}

const hr_model hr_model_sensors = {
    .family = "sensors",
    .keys = {&hr_sensor_model_keys},
    .parts = parts,
    .n_parts = sizeof parts / sizeof *parts,
    .check = hr__sensor_model_check,
    .forward = forward,
    .vocabulary = vocabulary,
    .wide = wide,
    .fields = fields,
};
