/* The update pass: see update.h. With accumulation the update is a program of its own over persistent gradients. */
#include "pass/update.h"

#include "base/text.h"
#include "model/features.h"
#include "op/adamw.h"
#include "op/adamw8bit.h"
#include "op/ema.h"
#include "op/found_inf.h"
#include "op/grad_norm.h"
#include "op/sgd.h"
#include "pass/pass.h"

/* What is being emitted. */
typedef struct emission {
  hr_builder *b;
  const hr_update_settings *settings;
  hr_id control, norm; /* operands of the optimizers; norm HR_NONE: no clipping */
} emission;

/* A state of a parameter that begins as zero: <kind>.<parameter>. */
static hr_id state_declare(const emission *e, const char *kind, hr_id parameter, hr_desc desc, bool paged) {
  hr_builder *b = e->b;
  hr_id state = hr__beside(b, parameter, kind, HR_ROLE_OPTIMIZER, desc, (hr_init){.rule = HR_INIT_ZERO});
  if (state != HR_NONE && paged && hr_desc_count(&desc) >= HR_UPDATE_PAGED)
    b->graph->buffers[b->graph->values[state].buffer].home = HR_TIER_HOST;
  return state;
}

typedef struct rates {
  float lr_scale, weight_decay;
} rates;

static rates rates_find(const hr_update_settings *s, const hr_value *parameter) {
  rates own = {.lr_scale = 1, .weight_decay = parameter->desc.rank >= 2 ? s->weight_decay : 0};
  for (size_t i = 0; i < s->n_groups; i++) {
    const hr_update_group *group = &s->groups[i];
    for (size_t k = 0; k < group->n_patterns; k++) {
      if (!hr__name_matches(parameter->name, group->patterns[k])) continue;
      own.lr_scale = group->lr_scale;
      if (group->weight_decay >= 0) own.weight_decay = group->weight_decay;
      return own;
    }
  }
  return own;
}

static void adamw_emit(const emission *e, hr_id parameter, hr_id gradient, rates own, hr_dtype state) {
  const hr_update_settings *s = e->settings;
  hr_adamw_args args = {.beta1 = (float)s->beta1,
                        .beta2 = (float)s->beta2,
                        .eps = s->eps,
                        .weight_decay = own.weight_decay,
                        .clip_norm = s->clip_norm,
                        .lr_scale = own.lr_scale};
  hr_desc desc = e->b->graph->values[parameter].desc;
  desc.dtype = state;
  hr_id m = state_declare(e, "adam.m", parameter, desc, s->paged);
  hr_id v = state_declare(e, "adam.v", parameter, desc, s->paged);
  hr__adamw(e->b, parameter, gradient, m, v, e->control, e->norm, &args);
}

static void adamw8bit_emit(const emission *e, hr_id parameter, hr_id gradient, rates own) {
  const hr_update_settings *s = e->settings;
  hr_adamw8bit_args args = {.beta1 = s->beta1,
                            .beta2 = s->beta2,
                            .eps = s->eps,
                            .weight_decay = own.weight_decay,
                            .clip_norm = s->clip_norm,
                            .lr_scale = own.lr_scale};
  hr_desc codes = e->b->graph->values[parameter].desc;
  codes.dtype = HR_U8;
  int64_t blocks = (hr_desc_count(&codes) + HR_ADAMW8BIT_BLOCK - 1) / HR_ADAMW8BIT_BLOCK;
  hr_desc absmax = hr__desc1(HR_F32, blocks);
  hr_adamw8bit_state state = {.m = state_declare(e, "adam8.m", parameter, codes, s->paged),
                              .v = state_declare(e, "adam8.v", parameter, codes, s->paged),
                              .m_absmax = state_declare(e, "adam8.m_absmax", parameter, absmax, false),
                              .v_absmax = state_declare(e, "adam8.v_absmax", parameter, absmax, false)};
  hr__adamw8bit(e->b, parameter, gradient, state, e->control, e->norm, &args);
}

static void sgd_emit(const emission *e, hr_id parameter, hr_id gradient, rates own) {
  const hr_update_settings *s = e->settings;
  hr_sgd_args args = {.momentum = s->momentum,
                      .nesterov = s->nesterov,
                      .weight_decay = own.weight_decay,
                      .clip_norm = s->clip_norm,
                      .lr_scale = own.lr_scale};
  if (s->momentum == 0) {
    hr__sgd(e->b, parameter, gradient, e->control, e->norm, &args);
    return;
  }
  hr_desc desc = e->b->graph->values[parameter].desc;
  desc.dtype = HR_F32;
  hr_id sum = state_declare(e, "sgd.momentum", parameter, desc, s->paged);
  hr__sgd_momentum(e->b, parameter, gradient, sum, e->control, e->norm, &args);
}

/* Of a parameter, or of the smallest member of a stacked one. */
static int64_t least_elements(const hr_graph *g, hr_id parameter) {
  int64_t least = hr_desc_count(&g->values[parameter].desc);
  for (hr_id i = 1; i <= g->values[parameter].members; i++) {
    int64_t own = hr_desc_count(&g->values[parameter + i].desc);
    if (own < least) least = own;
  }
  return least;
}

static void step_emit(const emission *e, hr_id parameter) {
  hr_value value = e->b->graph->values[parameter]; /* the table grows */
  rates own = rates_find(e->settings, &value);
  hr__module(e->b, "%s", value.name);
  if (e->settings->optimizer == HR_OPTIMIZER_SGD)
    sgd_emit(e, parameter, value.gradient, own);
  else if (e->settings->optimizer == HR_OPTIMIZER_ADAMW)
    adamw_emit(e, parameter, value.gradient, own, e->settings->state);
  else if (least_elements(e->b->graph, parameter) >= HR_ADAMW8BIT_LEAST)
    adamw8bit_emit(e, parameter, value.gradient, own);
  else
    adamw_emit(e, parameter, value.gradient, own, HR_F32);
}

static void norm_emit(emission *e, const hr_id *squares, int count) {
  hr__module(e->b, "optimizer");
  hr_id norm = hr__grad_norm(e->b, squares, count);
  hr__program_set_output(e->b, "grad_norm", norm);
  if (e->settings->clip_norm > 0) e->norm = norm;
  if (e->settings->guarded) e->control = hr__found_inf(e->b, e->control, norm);
}

/* parameters[0..count): those with a gradient. */
static void after_backward_emit(emission *e, const hr_id *parameters, hr_id *scratch, int count) {
  for (int i = 0; i < count; i++)
    scratch[i] = e->b->graph->values[parameters[i]].gradient;
  hr__module(e->b, "optimizer");
  hr_id squares = hr__grad_squares(e->b, scratch, count);
  if (e->settings->told) hr__program_set_output(e->b, "grad_squares", squares);
  norm_emit(e, &squares, 1);
  for (int i = 0; i < count && e->b->status == HR_OK; i++)
    step_emit(e, parameters[i]);
}

/* Sums of squares and step of one parameter after the other, the norm at the end: in_backward_arrange relies on it. */
static void in_backward_emit(emission *e, const hr_id *parameters, hr_id *scratch, int count) {
  for (int i = 0; i < count && e->b->status == HR_OK; i++) {
    hr__module(e->b, "optimizer");
    scratch[i] = hr__grad_squares(e->b, &e->b->graph->values[parameters[i]].gradient, 1);
    step_emit(e, parameters[i]);
  }
  norm_emit(e, scratch, count);
}

/* What follows the parameters of a program, each behind its update: averages of all of them, side by side at the end.
 */
static hr_status averages_emit(hr_builder *b, hr_id control, float decay, hr_error *err) {
  hr_graph *g = b->graph;
  hr_id *updated = hr__arena_array(&g->arena, g->n_values + 1, sizeof *updated); /* per value: behind its update */
  if (!updated) return hr__nomem(err);
  size_t n_values = g->n_values, n_nodes = g->n_nodes;
  for (size_t v = 0; v < n_values; v++)
    updated[v] = HR_NONE;
  for (size_t n = 0; n < n_nodes; n++)
    if (g->nodes[n].program == b->program && g->nodes[n].phase == HR_UPDATE && g->nodes[n].op->effect &&
        g->nodes[n].n_in > 0 && g->values[g->nodes[n].in[0]].trained)
      updated[g->nodes[n].in[0]] = g->nodes[n].out[0];
  for (hr_id v = 0; v < n_values && b->status == HR_OK; v++) {
    if (updated[v] == HR_NONE) continue;
    hr_desc desc = g->values[v].desc;
    desc.dtype = HR_F32;
    hr__module(b, "%s", g->values[v].name);
    hr_id average = hr__beside(b, v, "ema", HR_ROLE_AVERAGE, desc, (hr_init){.rule = HR_INIT_ZERO});
    hr__ema(b, average, updated[v], control, decay);
  }
  return hr__builder_status(b, err);
}

hr_status hr__update_emit(hr_builder *b, const hr_update_settings *settings, hr_error *err) {
  hr_graph *g = b->graph;
  size_t n_values = g->n_values;
  hr_id *parameters = hr__arena_array(&g->arena, n_values + 1, sizeof *parameters);
  hr_id *scratch = hr__arena_array(&g->arena, n_values + 1, sizeof *scratch);
  if (!parameters || !scratch) return hr__nomem(err);
  int count = 0;
  for (hr_id v = 0; v < n_values; v++)
    if (g->values[v].trained && g->values[v].gradient != HR_NONE) parameters[count++] = v;
  if (count == 0) return hr__fail(err, HR_FAILURE, "update", NULL, "no trained parameter has a gradient");

  b->phase = HR_UPDATE;
  b->block = HR_NONE;
  emission e = {.b = b, .settings = settings, .control = hr__control(b), .norm = HR_NONE};
  if (settings->in_backward)
    in_backward_emit(&e, parameters, scratch, count);
  else
    after_backward_emit(&e, parameters, scratch, count);
  HR_TRY(hr__builder_status(b, err));
  return settings->ema > 0 && !settings->in_backward ? averages_emit(b, e.control, settings->ema, err) : HR_OK;
}

/* Per buffer: the last of nodes[0..end) of a program that reads it; HR_NONE. */
static hr_id *readers_find(hr_graph *g, hr_id program, size_t end) {
  hr_id *last = hr__arena_array(&g->arena, g->n_buffers + 1, sizeof *last);
  if (!last) return NULL;
  for (size_t i = 0; i < g->n_buffers; i++)
    last[i] = HR_NONE;
  for (hr_id n = 0; n < end; n++)
    for (int i = 0; g->nodes[n].program == program && i < g->nodes[n].n_in; i++)
      if (g->nodes[n].in[i] != HR_NONE) last[g->values[g->nodes[n].in[i]].buffer] = n;
  return last;
}

/* Puts the nodes from `first` on, as in_backward_emit made them, right behind the last node that reads the parameter or
 * adds to its gradient; the norm stays at the end. */
static hr_status in_backward_arrange(hr_graph *g, hr_id program, hr_id first, hr_error *err) {
  hr_id *readers = readers_find(g, program, first);
  hr_id *behind = hr__arena_array(&g->arena, first + 1, sizeof *behind);  /* per old node: first new one */
  hr_id *next = hr__arena_array(&g->arena, g->n_nodes + 1, sizeof *next); /* per new node: the one after it */
  hr_id *order = hr__arena_array(&g->arena, g->n_nodes + 1, sizeof *order);
  if (!readers || !behind || !next || !order) return hr__nomem(err);
  for (hr_id n = 0; n < first; n++)
    behind[n] = HR_NONE;
  for (hr_id n = (hr_id)g->n_nodes - 1; n > first; n -= 2) { /* pairs, from the last one back: chains keep the order */
    hr_id step = n - 1, squares = n - 2, parameter = g->nodes[step].in[0];
    hr_id at = g->values[g->values[parameter].gradient].producer, reader = readers[g->values[parameter].buffer];
    if (reader != HR_NONE && reader > at) at = reader;
    next[squares] = step;
    next[step] = behind[at];
    behind[at] = squares;
  }
  size_t count = 0;
  for (hr_id p = 0; p < g->n_programs; p++) {
    for (hr_id n = 0; n < first; n++) {
      if (g->nodes[n].program != p) continue;
      order[count++] = n;
      for (hr_id at = behind[n]; at != HR_NONE; at = next[at])
        order[count++] = at;
    }
    if (p == program) order[count++] = (hr_id)g->n_nodes - 1;
  }
  return hr__graph_arrange(g, order, count, err);
}

hr_status hr__pass_update(hr_builder *b, const hr_recipe *recipe, const hr_choices *choices, hr_error *err) {
  (void)choices;
  if (hr__untrained(recipe)) return HR_OK;
  hr_update_settings settings;
  HR_TRY(hr__update_read(recipe, b->graph, &settings, err));
  b->program = hr__graph_find_kind(b->graph, HR_PROGRAM_STEP);
  if (b->program == HR_NONE) hr__program_begin(b, HR_PROGRAM_UPDATE);
  hr_id first = (hr_id)b->graph->n_nodes, program = b->program;
  HR_TRY(hr__update_emit(b, &settings, err));
  if (settings.in_backward) {
    HR_TRY(in_backward_arrange(b->graph, program, first, err));
    if (settings.ema > 0) HR_TRY(averages_emit(b, hr__control(b), settings.ema, err));
  }
  return hr__graph_regroup(b->graph, err);
}
