/* The update pass: see update.h. With accumulation the update is a program of its own over persistent gradients. */
#include "pass/update.h"

#include "op/adamw.h"
#include "op/grad_norm.h"
#include "pass/pass.h"

static hr_id moment_declare(hr_builder *b, const char *kind, hr_id parameter) {
  const hr_value *v = &b->graph->values[parameter];
  const char *name = hr__arena_format(&b->graph->arena, "adam.%s.%s", kind, v->name);
  if (!name) {
    b->status = hr__nomem(&b->error);
    return HR_NONE;
  }
  hr_desc desc = v->desc;
  desc.dtype = HR_F32;
  return hr__persistent(b, name, HR_ROLE_OPTIMIZER, desc, (hr_init){HR_INIT_ZERO, 0});
}

hr_status hr__update_emit(hr_builder *b, const hr_update_settings *settings, hr_error *err) {
  hr_graph *g = b->graph;
  size_t n_values = g->n_values;
  hr_id *gradients = hr__arena_array(&g->arena, n_values + 1, sizeof *gradients);
  if (!gradients) return hr__nomem(err);
  int n_gradients = 0;
  for (hr_id v = 0; v < n_values; v++)
    if (g->values[v].trained && g->values[v].gradient != HR_NONE) gradients[n_gradients++] = g->values[v].gradient;
  if (n_gradients == 0) return hr__fail(err, HR_FAILURE, "update", NULL, "no trained parameter has a gradient");

  b->phase = HR_UPDATE;
  b->block = HR_NONE;
  hr__module(b, "optimizer");
  hr_id norm = hr__grad_norm(b, gradients, n_gradients);
  hr__program_set_output(b, "grad_norm", norm);
  for (hr_id v = 0; v < n_values && b->status == HR_OK; v++) {
    if (!g->values[v].trained || g->values[v].gradient == HR_NONE) continue;
    hr__module(b, "%s", g->values[v].name);
    hr_adamw_args args = {.beta1 = settings->beta1,
                          .beta2 = settings->beta2,
                          .eps = settings->eps,
                          .weight_decay = g->values[v].desc.rank >= 2 ? settings->weight_decay : 0.0f,
                          .clip_norm = settings->clip_norm};
    hr_id m = moment_declare(b, "m", v), s = moment_declare(b, "v", v);
    hr__adamw(b, v, g->values[v].gradient, m, s, settings->clip_norm > 0 ? norm : HR_NONE, &args);
  }
  return hr__builder_status(b, err);
}

hr_status hr__pass_update(hr_builder *b, const hr_recipe *recipe, const hr_choices *choices, hr_error *err) {
  (void)choices;
  const double *betas = hr__recipe_floats(recipe, "training.optimizer.betas");
  hr_update_settings settings = {
      .beta1 = (float)betas[0],
      .beta2 = (float)betas[1],
      .eps = (float)hr__recipe_float(recipe, "training.optimizer.eps"),
      .weight_decay = (float)hr__recipe_float(recipe, "training.optimizer.weight_decay"),
      .clip_norm =
          hr__recipe_has(recipe, "training.clip_norm") ? (float)hr__recipe_float(recipe, "training.clip_norm") : 0,
  };
  b->program = hr__graph_find_program(b->graph, "step");
  if (b->program == HR_NONE) hr__program_begin(b, "update");
  HR_TRY(hr__update_emit(b, &settings, err));
  return hr__graph_regroup(b->graph, NULL, err);
}
