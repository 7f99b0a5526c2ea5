/* A run: building, adapters, steps. See eager.h. */
#include "torch/eager.h"

#include "torch/call.h"
#include "torch/zero.h"

enum { EVALUATED = 2 }; /* batches: the second one begins where the first one ended */

hr_status hr__eager_init(hr_eager *e, const hr_eager_settings *settings, hr_torch_events *events, hr_error *err) {
  *e = (hr_eager){.settings = *settings};
  hr__arena_init(&e->arena);
  hr__tape_init(&e->tape, events);
  e->tape.checkpointing = settings->checkpointing;
  e->tape.workspace_bytes = settings->workspace_bytes;
  e->tape.capability = settings->capability;
  e->tape.multiprocessors = settings->multiprocessors;
  e->tape.threads_each = settings->threads_each;
  if (settings->zero.stage > 0) hr__zero_init(e);
  return hr__tape_check(&e->tape, err);
}

void hr__eager_fini(hr_eager *e) {
  hr__tape_fini(&e->tape);
  hr__arena_fini(&e->arena);
}

/* --- what is trained ---------------------------------------------------------------------------------------------- */

static void trained_add(hr_eager *e, hr_tt x) {
  if (x == HR_TT_NONE) return;
  if (hr__arena_grow(&e->arena, (void **)&e->trained, &e->trained_capacity, e->n_trained, sizeof *e->trained) != 0)
    e->tape.failed = e->tape.stopped = true;
  else
    e->trained[e->n_trained++] = x;
}

/* prepare_model_for_kbit_training: what is not packed becomes f32, and the cache is emptied. */
static void packed_prepare(hr_eager *e) {
  hr_tape *t = &e->tape;
  for (size_t i = 0; i < e->n_parameters; i++) {
    hr_eager_parameter *p = &e->parameters[i];
    if (p->fixed || t->stopped || hr_dtype_bytes(hr__tape_tensor(t, *p->slot)->dtype) != 2) continue;
    uint32_t owner = hr__tape_module(t, p->name);
    hr__tape_assign(t, p->slot, hr__tape_parameter(t, hr__tape_tensor(t, *p->slot)->dims, HR_F32, false));
    t->owner = owner;
  }
  hr__torch_events_empty_cache(t->events);
}

/* PEFT makes adapters on the host and moves them in the type of the weights; then all of them become f32. DeepSpeed
 * gives them the type of the weights again before they move. */
static void adapters_make(hr_eager *e) {
  hr_tape *t = &e->tape;
  bool twice = !e->settings.plain_adapters && !e->zero && e->settings.weights != HR_F32;
  hr_dtype first = twice || e->zero ? e->settings.weights : HR_F32;
  for (size_t i = 0; i < e->n_linears; i++) {
    hr_torch_linear *l = e->linears[i];
    uint32_t owner = hr__tape_module(t, hr__eager_name(e, "%s.lora", l->name));
    if (e->settings.plain_adapters) {
      hr_tt drawn = hr__tape_made(t, "aten::randn", hr__tdims2(e->settings.rank, l->in), HR_F32);
      l->a = hr__tape_parameter(t, hr__tdims2(e->settings.rank, l->in), first, !twice);
      hr__tape_drop(t, drawn);
    } else {
      l->a = hr__tape_parameter(t, hr__tdims2(e->settings.rank, l->in), first, !twice);
    }
    l->b = hr__tape_parameter(t, hr__tdims2(l->out, e->settings.rank), first, !twice);
    t->owner = owner;
  }
  for (size_t i = 0; i < e->n_linears && twice; i++) {
    hr_torch_linear *l = e->linears[i];
    uint32_t owner = hr__tape_module(t, hr__eager_name(e, "%s.lora", l->name));
    hr__tape_assign(t, &l->a, hr__tape_parameter(t, hr__tdims2(e->settings.rank, l->in), HR_F32, true));
    hr__tape_assign(t, &l->b, hr__tape_parameter(t, hr__tdims2(l->out, e->settings.rank), HR_F32, true));
    t->owner = owner;
  }
}

static void model_finish(hr_eager *e) {
  if (e->settings.packed) packed_prepare(e);
  adapters_make(e);
  for (size_t i = 0; i < e->n_parameters; i++)
    if (*e->parameters[i].slot != HR_TT_NONE && hr__tape_tensor(&e->tape, *e->parameters[i].slot)->wants)
      trained_add(e, *e->parameters[i].slot);
  for (size_t i = 0; i < e->n_linears; i++) {
    trained_add(e, e->linears[i]->a);
    trained_add(e, e->linears[i]->b);
  }
}

/* --- steps -------------------------------------------------------------------------------------------------------- */

static void inputs_make(hr_eager *e) {
  hr_tape *t = &e->tape;
  hr_torch_category before = t->category;
  t->category = HR_TORCH_INPUTS;
  hr_tdims rows = hr__tdims2(e->settings.batch, e->settings.length);
  e->ids = hr__tape_name(hr__tape_made(t, "input_ids", rows, HR_I64));
  if (e->settings.documents) e->positions = hr__tape_name(hr__tape_made(t, "position_ids", rows, HR_I64));
  e->labels = e->masked ? hr__tape_name(hr__tape_made(t, "labels", rows, HR_I64)) : hr__tape_again(t, e->ids);
  t->category = before;
}

static void micro_step(hr_eager *e, uint32_t step) {
  hr_tape *t = &e->tape;
  hr__torch_events_mark(t->events, HR_TORCH_FORWARD, step);
  if (e->settings.autocast) hr__tape_autocast_begin(t, e->settings.narrow);
  hr_tt loss = hr__at_divide(t, e->forward(e, e->state));
  hr__tape_assign(t, &e->loss, loss); /* with it goes the graph of the last one */
  if (e->settings.autocast) hr__tape_autocast_end(t);
  hr_tt scaled = e->settings.scaled ? hr__tape_name(hr__at_scale(t, e->loss)) : HR_TT_NONE;
  hr__torch_events_mark(t->events, HR_TORCH_BACKWARD, step);
  hr__tape_backward(t, e->settings.scaled ? scaled : e->loss);
  hr__tape_drop(t, scaled);
}

/* Forward passes over batches of their own, as transformers' Trainer evaluates: without a graph, which is to say
 * without what backward would need, and without dropout. Logits are there as in training. */
static void evaluate(hr_eager *e, uint32_t step) {
  hr_tape *t = &e->tape;
  hr_eager trained = *e;
  hr__torch_events_mark(t->events, HR_TORCH_EVAL, step);
  e->settings.batch = e->settings.eval_batch;
  e->settings.padded = e->settings.eval_padded;
  t->grad = false;
  t->evaluates = true;
  for (int i = 0; i < EVALUATED && !t->stopped; i++) {
    inputs_make(e);
    if (e->settings.autocast) hr__tape_autocast_begin(t, e->settings.narrow);
    hr__tape_drop(t, e->forward(e, e->state));
    if (e->settings.autocast) hr__tape_autocast_end(t);
    hr__tape_drop(t, e->ids);
    hr__tape_drop(t, e->labels);
    hr__tape_drop(t, e->positions);
  }
  t->evaluates = false;
  t->grad = true;
  e->settings = trained.settings;
  e->ids = trained.ids;
  e->labels = trained.labels;
  e->positions = trained.positions;
}

static void gradients_drop(hr_eager *e) {
  for (size_t i = 0; i < e->n_trained; i++) {
    hr_tape_tensor *leaf = hr__tape_tensor(&e->tape, e->trained[i]);
    hr_tt gradient = leaf->grad;
    leaf->grad = HR_TT_NONE;
    hr__tape_drop(&e->tape, gradient);
  }
}

hr_status hr__eager_run(hr_eager *e, hr_error *err) {
  hr_tape *t = &e->tape;
  model_finish(e);
  if (e->zero) hr__zero_begin(e);
  inputs_make(e);
  for (int step = 0; step < e->settings.steps && !t->stopped; step++) {
    for (int64_t i = 0; i < e->settings.accumulation && !t->stopped; i++) {
      t->work = (hr_tape_work){0};
      bool last = i + 1 == e->settings.accumulation;
      if (e->zero) hr__zero_backward_begin(e, last);
      micro_step(e, (uint32_t)step + 1);
      if (e->zero) hr__zero_backward_end(e);
      e->micro = t->work;
    }
    if (t->stopped) break;
    t->work = (hr_tape_work){0};
    hr__torch_events_mark(t->events, HR_TORCH_UPDATE, (uint32_t)step + 1);
    if (e->zero)
      hr__zero_update(e, step == 0);
    else
      hr__eager_update(e, step == 0);
    e->update = t->work;
    gradients_drop(e);
    if (e->settings.eval_batch > 0) evaluate(e, (uint32_t)step + 1);
  }
  return hr__tape_check(t, err);
}
