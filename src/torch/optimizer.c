/* What clipping and optimizers allocate. See eager.h.
 *
 * States are made in the first step, parameter by parameter, in what is left free of the activations. torch's own
 * optimizers keep them in the type of the parameter; bitsandbytes keeps 8 bits and a scale for every 256 elements, and
 * f32 of small ones.
 */
#include "torch/call.h"
#include "torch/eager.h"

enum { BLOCK_8BIT = 256, CODES_8BIT = 256, LEAST_8BIT = 4096, PAGED_FROM = 100000 };

static void state_make(hr_tape *t, hr_tdims dims, hr_dtype dtype) {
  hr__tape_fresh(t, "aten::zeros_like", dims, dtype, false); /* never dropped */
}

static void state_8bit(hr_eager *e, const hr_tape_tensor *p) {
  hr_tape *t = &e->tape;
  int64_t n = hr__tdims_elements(p->dims);
  bool away = e->settings.paged && n >= PAGED_FROM; /* managed memory, outside of the allocator */
  bool wide = n < LEAST_8BIT;
  for (int i = 0; i < 2 && !away; i++)
    state_make(t, p->dims, wide ? HR_F32 : HR_U8);
  for (int i = 0; i < 2 && !wide; i++)
    state_make(t, hr__tdims1((n + BLOCK_8BIT - 1) / BLOCK_8BIT), HR_F32);
}

/* Its AdamW of 32 bits keeps f32 whatever the parameter's type. */
static void state_bnb(hr_eager *e, const hr_tape_tensor *p) {
  bool away = e->settings.paged && hr__tdims_elements(p->dims) >= PAGED_FROM;
  for (int i = 0; i < 2 && !away; i++)
    state_make(&e->tape, p->dims, HR_F32);
}

static void states_make(hr_eager *e) {
  hr_tape *t = &e->tape;
  bool eight = e->settings.optimizer == HR_TORCH_ADAMW8BIT, adam = e->settings.optimizer == HR_TORCH_ADAMW;
  for (int i = 0; i < 2 && eight; i++)
    state_make(t, hr__tdims1(CODES_8BIT), HR_F32);
  for (size_t i = 0; i < e->n_trained && !t->stopped; i++) {
    hr_tape_tensor p = *hr__tape_tensor(t, e->trained[i]);
    if (p.grad == HR_TT_NONE) continue;
    if (eight) {
      state_8bit(e, &p);
    } else if (e->settings.optimizer == HR_TORCH_ADAMW_BNB) {
      state_bnb(e, &p);
    } else if (adam) {
      if (e->settings.update == HR_TORCH_FUSED) state_make(t, (hr_tdims){0}, HR_F32);
      state_make(t, p.dims, p.dtype);
      state_make(t, p.dims, p.dtype);
    } else if (e->settings.momentum > 0) {
      state_make(t, p.dims, p.dtype);
    }
  }
}

/* A tensor like each parameter that has a gradient, all of them at once; NULL stops the tape. */
static hr_tt *tensors_make(hr_eager *e, const char *call) {
  hr_tape *t = &e->tape;
  hr_tt *made = hr__eager_room(e, e->n_trained, sizeof *made);
  for (size_t i = 0; i < e->n_trained && made && !t->stopped; i++) {
    hr_tape_tensor p = *hr__tape_tensor(t, e->trained[i]);
    if (p.grad != HR_TT_NONE) made[i] = hr__tape_fresh(t, call, p.dims, p.dtype, false);
  }
  return made;
}

static void tensors_drop(hr_eager *e, hr_tt *made) {
  for (size_t i = e->n_trained; i-- > 0 && made;)
    hr__tape_drop(&e->tape, made[i]);
}

/* One parameter after the other: `made` of each is dropped when the next one has its own, as a loop's variable is. */
static void for_loop(hr_eager *e, void (*each)(hr_tape *t, const hr_tape_tensor *p, hr_tt *made)) {
  hr_tt made = HR_TT_NONE;
  for (size_t i = 0; i < e->n_trained && !e->tape.stopped; i++) {
    hr_tape_tensor p = *hr__tape_tensor(&e->tape, e->trained[i]);
    if (p.grad != HR_TT_NONE) each(&e->tape, &p, &made);
  }
  hr__tape_drop(&e->tape, made);
}

/* denom = (exp_avg_sq.sqrt() / correction).add_(eps) */
static void adam_each(hr_tape *t, const hr_tape_tensor *p, hr_tt *made) {
  hr_tt root = hr__tape_fresh(t, "aten::sqrt", p->dims, p->dtype, false);
  hr_tt divided = hr__tape_fresh(t, "aten::div", p->dims, p->dtype, false);
  hr__tape_drop(t, root);
  hr__tape_assign(t, made, divided);
}

/* grad = grads[i], which ends the one before; grad = grad.add(param, alpha=weight_decay) */
static void decay_each(hr_tape *t, const hr_tape_tensor *p, hr_tt *made) {
  hr__tape_drop(t, *made);
  *made = hr__tape_name(hr__tape_fresh(t, "aten::add", p->dims, p->dtype, false));
}

static void decay_each_first(hr_tape *t, const hr_tape_tensor *p, hr_tt *made) {
  decay_each(t, p, made);
  state_make(t, p->dims, p->dtype);
}

/* Decay makes gradients anew, of which momentum begins as a copy. */
static void sgd(hr_eager *e, bool first) {
  bool decays = e->settings.weight_decay > 0 && e->settings.update != HR_TORCH_FUSED;
  if (decays && e->settings.update == HR_TORCH_FOR_LOOP) {
    for_loop(e, first && e->settings.momentum > 0 ? decay_each_first : decay_each);
    return;
  }
  hr_tt *decayed = decays ? tensors_make(e, "aten::_foreach_add") : NULL;
  if (first) states_make(e);
  tensors_drop(e, decayed);
}

static void adamw(hr_eager *e, bool first) {
  if (first) states_make(e);
  if (e->settings.update == HR_TORCH_FOR_LOOP) for_loop(e, adam_each);
  if (e->settings.update == HR_TORCH_FOREACH) tensors_drop(e, tensors_make(e, "aten::_foreach_sqrt"));
}

/* clip_grad_norm_: a norm of every gradient, and of them all; scaling is in place. */
static void clip(hr_eager *e) {
  hr_tape *t = &e->tape;
  hr_tt *norms = hr__eager_room(e, e->n_trained, sizeof *norms);
  if (!norms || e->n_trained == 0) return;
  for (size_t i = 0; i < e->n_trained; i++)
    norms[i] = hr__tape_fresh(t, "aten::_foreach_norm", (hr_tdims){0}, HR_F32, false);
  hr_tt stack = hr__tape_fresh(t, "aten::stack", hr__tdims1((int64_t)e->n_trained), HR_F32, false);
  hr_tt norm = hr__tape_fresh(t, "aten::linalg_vector_norm", (hr_tdims){0}, HR_F32, false);
  hr__tape_drop(t, stack);
  for (size_t i = e->n_trained; i-- > 0;)
    hr__tape_drop(t, norms[i]);
  hr__tape_drop(t, norm);
}

void hr__eager_update(hr_eager *e, bool first) {
  hr_tape *t = &e->tape;
  hr_torch_category before = t->category;
  uint32_t owner = hr__tape_module(t, "optimizer");
  t->category = HR_TORCH_OPTIMIZER;
  if (e->settings.clipped) clip(e);
  bool fused = e->settings.update == HR_TORCH_FUSED, descent = e->settings.optimizer == HR_TORCH_SGD;
  /* weights, gradients and states are read, and all but gradients written; element by element by a kernel each unless
   * they are fused */
  for (size_t i = 0; i < e->n_trained; i++) {
    t->work.bytes += (descent ? 1.5 : 2.5) * (double)hr__tape_bytes(t, e->trained[i]);
    t->work.calls += fused ? 0.1 : 1;
  }
  if (descent)
    sgd(e, first);
  else if (e->settings.optimizer == HR_TORCH_ADAMW)
    adamw(e, first);
  else if (first)
    states_make(e);
  t->category = before;
  t->owner = owner;
}
