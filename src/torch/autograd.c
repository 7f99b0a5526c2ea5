/* Autograd's walk through the graph of a tape, autocast's casts, and checkpointing. See tape.h. */
#include <assert.h>
#include <string.h>

#include "torch/aten.h"
#include "torch/call.h"

/* --- the order of nodes ------------------------------------------------------------------------------------------- */

/* Nodes that have all their gradients are a binary heap, the one that was made last in front. */

static bool before(const hr_tape *t, uint32_t a, uint32_t b) {
  return hr__tape_node(t, a)->order > hr__tape_node(t, b)->order;
}

static void ready_push(hr_tape *t, hr_tape_list *ready, uint32_t node) {
  size_t i = hr__tape_room(t, ready, sizeof node);
  if (t->failed) return;
  uint32_t *nodes = ready->items;
  for (; i > 0 && before(t, node, nodes[(i - 1) / 2]); i = (i - 1) / 2)
    nodes[i] = nodes[(i - 1) / 2];
  nodes[i] = node;
}

static uint32_t ready_pop(hr_tape *t, hr_tape_list *ready) {
  uint32_t *nodes = ready->items, first = nodes[0], last = nodes[--ready->count];
  size_t i = 0;
  for (size_t child; (child = 2 * i + 1) < ready->count; i = child) {
    if (child + 1 < ready->count && before(t, nodes[child + 1], nodes[child])) child++;
    if (!before(t, nodes[child], last)) break;
    nodes[i] = nodes[child];
  }
  nodes[i] = last;
  return first;
}

/* How many gradients every node below `root` waits for. */
static void branches_count(hr_tape *t, uint32_t root) {
  hr_tape_list found = {0};
  uint32_t walk = ++t->walks;
  hr__tape_node(t, root)->walk = walk;
  hr__tape_node(t, root)->waits = 0;
  ready_push(t, &found, root);
  while (found.count > 0 && !t->failed) {
    hr_tape_node *n = hr__tape_node(t, ready_pop(t, &found));
    for (int i = 0; i < n->n_inputs; i++) {
      uint32_t next = n->input[i].node;
      if (next == 0) continue;
      hr_tape_node *to = hr__tape_node(t, next);
      bool new = to->walk != walk;
      to->waits = new ? 1 : to->waits + 1;
      to->walk = walk;
      if (new) ready_push(t, &found, next);
    }
  }
  hr__free(found.items);
}

/* --- one node ----------------------------------------------------------------------------------------------------- */

/* One more gradient for what waits: in place where nobody else has the first. */
static hr_tt gradients_sum(hr_tape *t, hr_tt sum, hr_tt more) {
  if (sum == HR_TT_NONE) return more;
  if (more == HR_TT_NONE) return sum;
  if (hr__tape_alone(t, sum)) {
    hr__tape_drop(t, more);
    return sum;
  }
  hr_tape_tensor form = *hr__tape_tensor(t, sum);
  hr_tt both = hr__tape_fresh(t, "aten::add", form.dims, form.dtype, form.permuted);
  hr__tape_drop(t, sum);
  hr__tape_drop(t, more);
  return both;
}

/* AccumulateGrad: a first gradient is taken over where nobody else has it. */
static void leaf_add(hr_tape *t, uint32_t leaf, hr_tt gradient) {
  if (hr__tape_tensor(t, leaf)->grad != HR_TT_NONE) {
    hr__tape_drop(t, gradient);
    return;
  }
  if (hr__tape_tensor(t, gradient)->owners > 1) {
    hr_tape_tensor form = *hr__tape_tensor(t, gradient);
    hr_tt own = hr__tape_fresh(t, "aten::clone", form.dims, form.dtype, form.permuted);
    hr__tape_drop(t, gradient);
    gradient = own;
  }
  hr__tape_become(t, gradient, HR_TORCH_GRADIENTS);
  hr__tape_tensor(t, leaf)->grad = hr__tape_name(gradient);
}

static void leaf_take(hr_tape *t, uint32_t leaf, hr_tt gradient) {
  if (gradient == HR_TT_NONE) return;
  leaf_add(t, leaf, gradient);
  if (t->arrived && !t->failed) t->arrived(t->user, leaf);
}

/* What autograd does to the gradient of an input before it hands it on: its dims and type are those of the input. */
static hr_tt gradient_fit(hr_tape *t, const hr_tape_edge *to, hr_tt gradient) {
  if (gradient == HR_TT_NONE) return gradient;
  if (hr__tape_elements(t, gradient) != hr__tdims_elements(to->dims)) {
    hr_tape_tensor form = *hr__tape_tensor(t, gradient);
    hr_tt sum = hr__tape_sum(t, form.dims, to->dims, form.dtype);
    hr__tape_drop(t, gradient);
    gradient = sum;
  }
  return hr__at_to(t, gradient, to->dtype);
}

/* Tensors that a checkpoint has for a node, made again where they are not there yet. The checkpoint loses as many
 * owners once the node has run: *held. */
static void saved_unpack(hr_tape *t, uint32_t node, uint32_t *held) {
  uint32_t again = hr__tape_node(t, node)->checkpoint;
  if (again == 0) return;
  hr_tape_again *a = (hr_tape_again *)t->agains.items + again;
  if (a->filled == 0 && a->count > 0) hr__tape_recompute(t, again);
  if (t->stopped) return;
  a = (hr_tape_again *)t->agains.items + again;
  hr_tape_node *n = hr__tape_node(t, node);
  for (int i = 0; i < HR_TAPE_SAVED; i++) {
    if (n->saved[i] == 0) continue;
    uint32_t place = n->saved[i] - 1;
    assert(place < a->filled);
    n->saved[i] = a->tensors[place];
    a->tensors[place] = HR_TT_NONE;
    (*held)++;
  }
  n->checkpoint = 0;
}

static void node_run(hr_tape *t, hr_tape_list *r, uint32_t node) {
  hr_tt gradient = hr__tape_node(t, node)->gradient;
  hr__tape_node(t, node)->gradient = HR_TT_NONE;
  t->owner = hr__tape_node(t, node)->owner;
  if (hr__tape_node(t, node)->leaf != 0) {
    leaf_take(t, hr__tape_node(t, node)->leaf, gradient);
    return;
  }
  hr_tt out[HR_TAPE_INPUTS] = {HR_TT_NONE};
  uint32_t again = hr__tape_node(t, node)->checkpoint, held = 0;
  if (gradient != HR_TT_NONE) {
    saved_unpack(t, node, &held);
    t->owner = hr__tape_node(t, node)->owner;
    hr_tape_node copy = *hr__tape_node(t, node);
    if (!t->stopped) copy.call->backward(t, &copy, hr__tape_name(gradient), out);
    if (held > 0) hr__tape_node_release(t, node); /* what was made again is gone before results are fitted */
    for (int i = 0; i < copy.n_inputs; i++)
      out[i] = gradient_fit(t, &copy.input[i], out[i]);
  }
  hr__tape_drop(t, gradient);
  hr__tape_node_release(t, node);
  if (held > 0) hr__tape_again_drop(t, again, held);
  for (int i = 0; i < hr__tape_node(t, node)->n_inputs; i++) {
    uint32_t next = hr__tape_node(t, node)->input[i].node;
    if (next == 0) {
      hr__tape_drop(t, out[i]);
      continue;
    }
    hr_tt sum = gradients_sum(t, hr__tape_node(t, next)->gradient, out[i]);
    hr__tape_node(t, next)->gradient = hr__tape_name(sum);
    if (--hr__tape_node(t, next)->waits == 0) ready_push(t, r, next);
  }
}

void hr__tape_walk(hr_tape *t, uint32_t root, hr_tt gradient) {
  hr_tape_list r = {0};
  bool grad = t->grad;
  uint32_t owner = t->owner;
  t->grad = false;
  branches_count(t, root);
  hr__tape_node(t, root)->gradient = hr__tape_name(gradient);
  ready_push(t, &r, root);
  while (r.count > 0 && !t->failed)
    node_run(t, &r, ready_pop(t, &r));
  hr__free(r.items);
  t->grad = grad;
  t->owner = owner;
}

void hr__tape_backward(hr_tape *t, hr_tt loss) {
  if (t->stopped || loss == HR_TT_NONE) return;
  const hr_tape_tensor *from = hr__tape_tensor(t, loss);
  if (from->node == 0) return;
  t->backward = true;
  hr__tape_walk(t, from->node, hr__tape_fresh(t, "aten::ones_like", from->dims, from->dtype, false));
  t->backward = false;
}

/* --- autocast ----------------------------------------------------------------------------------------------------- */

void hr__tape_autocast_begin(hr_tape *t, hr_dtype narrow) {
  t->autocast = true;
  t->narrow = narrow;
}

static void casts_forget(hr_tape *t, size_t from) {
  hr_tape_cast *casts = t->casts.items;
  while (t->casts.count > from)
    hr__tape_drop(t, casts[--t->casts.count].cast);
}

void hr__tape_autocast_end(hr_tape *t) {
  t->autocast = false;
  casts_forget(t, 0);
}

/* Casts of f32 weights that are trained are kept for the region; of anything else every call makes its own. */
hr_tt hr__tape_narrowed(hr_tape *t, hr_tt x) {
  if (t->stopped || x == HR_TT_NONE || !t->autocast) return x;
  const hr_tape_tensor *from = hr__tape_tensor(t, x);
  bool number = from->dtype == HR_F32 || from->dtype == HR_BF16 || from->dtype == HR_F16;
  if (!number || from->dtype == t->narrow) return x;
  if (!from->leaf || from->dtype != HR_F32) return hr__at_to(t, x, t->narrow);
  hr_tape_cast *casts = t->casts.items;
  for (size_t i = t->casts.count; i-- > 0;)
    if (casts[i].weight == hr__tape_name(x)) {
      hr_tt kept = hr__tape_shared(t, casts[i].cast);
      if (x & HR_TT_UNNAMED) hr__tape_drop(t, x); /* as the call that makes a cast ends it */
      return kept;
    }
  hr_tt cast = hr__at_to(t, x, t->narrow);
  uint32_t place = hr__tape_room(t, &t->casts, sizeof(hr_tape_cast));
  if (t->failed) return HR_TT_NONE;
  ((hr_tape_cast *)t->casts.items)[place] = (hr_tape_cast){hr__tape_name(x), hr__tape_name(cast)};
  return hr__tape_shared(t, cast);
}

/* --- checkpointing ------------------------------------------------------------------------------------------------ */

/* Runs the part of a checkpoint again, on autograd's thread, under the settings of its first time. */
static hr_tt part_again(hr_tape *t, uint32_t again, hr_tt input) {
  hr_tape_again a = *((hr_tape_again *)t->agains.items + again);
  bool grad = t->grad, autocast = t->autocast;
  hr_dtype narrow = t->narrow;
  size_t casts = t->casts.count; /* of a region of its own */
  t->grad = true;
  t->autocast = a.autocast;
  t->narrow = a.narrow;
  hr_tt y = a.fn(t, a.user, input);
  casts_forget(t, casts);
  t->grad = grad;
  t->autocast = autocast;
  t->narrow = narrow;
  return y;
}

void hr__tape_recompute(hr_tape *t, uint32_t again) {
  hr_tape_again *a = (hr_tape_again *)t->agains.items + again;
  if (a->capacity < a->count) {
    uint32_t *tensors = hr__realloc(a->tensors, a->count * sizeof *tensors);
    if (!tensors) {
      t->failed = t->stopped = true;
      return;
    }
    a->tensors = tensors;
    a->capacity = a->count;
  }
  uint32_t outer = t->recomputed;
  t->recomputed = again;
  hr__tape_drop(t, part_again(t, again, hr__tape_name(a->input)));
  t->recomputed = outer;
  t->stopped = t->failed;
}

/* A part that runs without a graph, and in backward once more with one of its own. */
static void reentrant_backward(hr_tape *t, const hr_tape_node *node, hr_tt gradient, hr_tt out[HR_TAPE_INPUTS]) {
  hr_tt input = hr__tape_name(hr__tape_shared(t, node->saved[0]));
  hr_tape_tensor form = *hr__tape_tensor(t, input);
  hr_tt cut = hr__tape_name(hr__tape_view(t, input, form.dims, form.permuted));
  hr__tape_want(t, cut);
  hr_tt y = hr__tape_name(part_again(t, node->part, cut));
  if (!t->stopped) hr__tape_walk(t, hr__tape_tensor(t, y)->node, hr__tape_shared(t, gradient));
  hr__tape_drop(t, y);
  if (!t->stopped) out[0] = hr__tape_shared(t, hr__tape_tensor(t, cut)->grad);
  hr__tape_drop(t, cut);
  hr__tape_drop(t, input);
}

static const hr_aten reentrant = {.name = "CheckpointFunction", .backward = reentrant_backward};

static uint32_t again_new(hr_tape *t, hr_tape_fn fn, void *user) {
  hr_tape_again *agains = t->agains.items;
  uint32_t id = 1;
  while (id < t->agains.count && (agains[id].owners > 0 || agains[id].input != HR_TT_NONE))
    id++;
  if (id == t->agains.count && hr__tape_room(t, &t->agains, sizeof(hr_tape_again)) == 0) return 0;
  hr_tape_again *a = (hr_tape_again *)t->agains.items + id;
  *a = (hr_tape_again){.fn = fn,
                       .user = user,
                       .autocast = t->autocast,
                       .narrow = t->narrow,
                       .tensors = a->tensors,
                       .capacity = a->capacity};
  return id;
}

static hr_tt part_reentrant(hr_tape *t, uint32_t again, hr_tt x) {
  hr_tape_again a = *((hr_tape_again *)t->agains.items + again);
  hr_tape_call c;
  if (!hr__call_begin(t, &c, &reentrant, 1, &x)) return HR_TT_NONE;
  hr__call_save(&c, 0, x);
  if (c.node != 0) {
    hr__tape_node(t, c.node)->part = again;
    ((hr_tape_again *)t->agains.items + again)->owners = 1;
  }
  bool grad = t->grad;
  t->grad = false;
  hr_tt y = a.fn(t, a.user, hr__tape_name(x));
  t->grad = grad;
  if (c.node == 0) hr__tape_again_end(t, again); /* nothing runs it again: it keeps nothing */
  return hr__call_end(&c, y);
}

hr_tt hr__tape_part(hr_tape *t, hr_tape_fn fn, void *user, hr_tt x, const hr_tt *with, int n) {
  if (t->stopped || t->checkpointing == HR_TAPE_KEEP || !t->grad) return fn(t, user, x);
  uint32_t again = again_new(t, fn, user);
  if (again == 0) return HR_TT_NONE;
  for (int i = 0; i < n; i++)
    ((hr_tape_again *)t->agains.items + again)->with[i] = hr__tape_again(t, with[i]);
  if (t->checkpointing == HR_TAPE_REENTRANT) return part_reentrant(t, again, x);
  ((hr_tape_again *)t->agains.items + again)->input = hr__tape_again(t, x);
  t->checkpoint = again;
  hr_tt y = fn(t, user, x);
  t->checkpoint = 0;
  if (((hr_tape_again *)t->agains.items + again)->owners == 0) hr__tape_again_end(t, again); /* it keeps nothing */
  return y;
}
