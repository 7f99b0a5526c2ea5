/* See losses.h. */
#include "model/losses.h"

#include <string.h>

const hr_reported *hr__model_reported(const hr_model *model, int *count) {
  static const hr_reported one = {.name = "loss", .weight = 1, .over = HR_OVER_TARGETS};
  *count = model->n_reported > 0 ? model->n_reported : 1;
  return model->n_reported > 0 ? model->reported : &one;
}

void hr__report(hr_builder *b, const hr_model *model, const hr_model_batch *batch, const char *name, hr_id sum) {
  int count;
  const hr_reported *list = hr__model_reported(model, &count);
  for (int i = 0; i < count && b->status == HR_OK; i++) {
    if (strcmp(list[i].name, name) != 0) continue;
    hr_id by = list[i].over == HR_OVER_TARGETS ? HR_NONE : hr__batch_field(batch, list[i].name);
    hr__program_set_reported(b, list[i].name, sum, list[i].metric ? HR_OUTPUT_METRIC : HR_OUTPUT_LOSS, list[i].weight,
                             by);
    return;
  }
  if (b->status == HR_OK)
    b->status = hr__fail(&b->error, HR_FAILURE, name, NULL, "family %s has no such loss or metric", model->family);
}
