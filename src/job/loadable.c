/* See loadable.h. */
#include "job/loadable.h"

#include "model/features.h"
#include "model/stored.h"
#include "model/weights.h"

static hr_status part_check(const hr_model_parts *parts, size_t p, const hr_graph *graph, hr_error *err) {
  const hr_model_part *part = &parts->part[p];
  hr_weights *weights = NULL;
  if (hr__part_left_out(parts, p, graph)) return HR_OK;
  bool own = hr__parts_weights(parts, p) == p;
  if (own && hr__scope_has(&part->scope, "path") && hr__stored_is_there(hr__scope_text(&part->scope, "path"))) {
    HR_TRY(hr__weights_open(hr__scope_text(&part->scope, "path"), graph, part, &weights, err));
    hr__weights_close(weights);
  }
  HR_TRY(hr__peft_weights_open(part, graph, &weights, err));
  hr__weights_close(weights);
  return HR_OK;
}

hr_status hr__loadable(const hr_recipe *recipe, const hr_graph *graph, hr_error *err) {
  hr_model_parts parts;
  hr__parts_read(recipe, &parts);
  for (size_t p = 0; p < parts.count; p++)
    HR_TRY(part_check(&parts, p, graph, err));
  return HR_OK;
}
