/* The adapters of a PEFT folder against those of a graph. */
#include <stdio.h>
#include <string.h>

#include "model/peft.h"
#include "model/weights.h"

static bool is_adapter(const hr_graph *g, hr_id value) {
  return value != HR_NONE && g->buffers[g->values[value].buffer].role == HR_ROLE_PARAMETER && g->values[value].keep_f32;
}

/* Whether a value of the graph is one of the part's adapters. */
static bool is_of_part(const hr_graph *g, hr_id value, const char *part) {
  size_t length = strlen(part);
  const char *name = g->values[value].name;
  return hr__graph_is_tensor(g, value) && is_adapter(g, value) &&
         (length == 0 || (strncmp(name, part, length) == 0 && name[length] == '.'));
}

static hr_status adapters_check(const hr_model_part *part, const hr_graph *g, const hr_weights *weights,
                                const char *missed, hr_error *err) {
  static const char remedy[] =
      "leave adapters.targets out: they are the adapters' own; or take the base of these adapters";
  if (*missed)
    return hr__scope_fail(&part->scope, "adapters.path", remedy, err,
                          "the adapters have %.160s, which this model has no place for", missed);
  for (hr_id v = 0; v < g->n_values; v++)
    if (is_of_part(g, v, part->name) && !hr__weights_has(weights, v))
      return hr__scope_fail(&part->scope, "adapters.path", remedy, err,
                            "the adapters have no %.160s, which the recipe's targets ask for", g->values[v].name);
  return HR_OK;
}

hr_status hr__peft_weights_open(const hr_model_part *part, const hr_graph *graph, hr_weights **out, hr_error *err) {
  char path[4096], missed[256];
  hr_weight_names names = {"", part->name, HR_PEFT_PREFIX};
  *out = NULL;
  if (!hr__scope_has(&part->scope, "adapters.path")) return HR_OK;
  const char *folder = hr__scope_text(&part->scope, "adapters.path");
  snprintf(path, sizeof path, "%s/" HR_PEFT_FILE, folder);
  HR_TRY(hr__weights_open_file(path, graph, &names, is_adapter, NULL, missed, out, err));
  hr_status status = adapters_check(part, graph, *out, missed, err);
  if (status == HR_OK) return HR_OK;
  hr__weights_close(*out);
  *out = NULL;
  return status;
}
