/* Fields of a batch: what a model declares, as inputs of a program. See model.h. */
#include <string.h>

#include "model/generation.h"
#include "model/losses.h"

void hr__token_fields(const hr_field_shape *shape, int64_t vocabulary, hr_fields *out) {
  hr_desc desc = hr__desc2(HR_I32, shape->batch, shape->length);
  hr__field_add(out, (hr_field){.name = "tokens", .purpose = HR_FOR_TOKENS, .desc = desc, .bound = vocabulary});
  hr__field_add(out, (hr_field){.name = "targets", .purpose = HR_FOR_TARGETS, .desc = desc, .bound = vocabulary});
  if (shape->documents) hr__field_add(out, (hr_field){.name = "starts", .purpose = HR_FOR_STARTS, .desc = desc});
  if (!shape->lengths) return;
  desc = hr__desc1(HR_I32, shape->batch);
  hr__field_add(out, (hr_field){.name = "lengths", .purpose = HR_FOR_LENGTHS, .desc = desc});
}

hr_fields hr__model_fields(const hr_model_part *part, const hr_field_shape *shape) {
  const hr_model *model = part->model;
  hr_fields fields = {.count = 0};
  hr_field_shape own = *shape;
  own.lengths = shape->lengths && model->masked; /* others do not look at what lies behind a token */
  if (model->fields)
    model->fields(part, &own, &fields);
  else
    hr__token_fields(&own, model->vocabulary(part), &fields);
  for (int i = 0; i < model->n_reported; i++) {
    if (model->reported[i].over == HR_OVER_TARGETS || !hr__reported_by_evaluation(&model->reported[i])) continue;
    const char *name = model->reported[i].name;
    hr__field_add(&fields, (hr_field){.name = name, .purpose = HR_FOR_FACTOR, .desc = hr__desc1(HR_F32, 1)});
  }
  return fields;
}

hr_id hr__batch_field(const hr_model_batch *batch, const char *name) {
  for (int i = 0; i < batch->fields.count; i++)
    if (strcmp(batch->fields.list[i].name, name) == 0) return batch->inputs[i];
  return HR_NONE;
}

hr_model_batch hr__batch_declare(hr_builder *b, const hr_fields *fields, int64_t batch, int64_t length) {
  hr_model_batch out = {.batch = batch, .length = length, .fields = *fields};
  for (int i = 0; i < fields->count; i++)
    out.inputs[i] =
        hr__input_batch(b, fields->list[i].name, fields->list[i].desc, (hr_batch){fields->list[i].batch_axis, 1});
  out.tokens = hr__batch_field(&out, "tokens");
  out.targets = hr__batch_field(&out, "targets");
  out.lengths = hr__batch_field(&out, "lengths");
  out.starts = hr__batch_field(&out, "starts");
  out.positions = hr__batch_field(&out, HR_FIELD_POSITIONS);
  out.counts = hr__batch_field(&out, HR_FIELD_COUNTS);
  return out;
}
