/* Tensors, storages and nodes of the tape, and who owns them. See tape.h. */
#include "torch/tape.h"

#include <assert.h>
#include <string.h>

#include "torch/call.h"

/* --- lists -------------------------------------------------------------------------------------------------------- */

static void tape_fail(hr_tape *t) {
  t->failed = t->stopped = true;
}

uint32_t hr__tape_room(hr_tape *t, hr_tape_list *list, size_t item_bytes) {
  if (list->count == list->capacity) {
    size_t capacity = list->capacity > 0 ? 2 * list->capacity : 256;
    void *items = hr__realloc(list->items, capacity * item_bytes);
    if (!items) {
      tape_fail(t);
      return 0;
    }
    list->items = items;
    list->capacity = capacity;
  }
  memset((char *)list->items + list->count * item_bytes, 0, item_bytes);
  return (uint32_t)list->count++;
}

hr_tape_tensor *hr__tape_tensor(const hr_tape *t, hr_tt x) {
  return (hr_tape_tensor *)t->tensors.items + (x & ~HR_TT_UNNAMED);
}

hr_tape_node *hr__tape_node(const hr_tape *t, uint32_t node) {
  return (hr_tape_node *)t->nodes.items + node;
}

static hr_tape_storage *storage_of(const hr_tape *t, uint32_t storage) {
  return (hr_tape_storage *)t->storages.items + storage;
}

static hr_tape_again *again_of(const hr_tape *t, uint32_t again) {
  return (hr_tape_again *)t->agains.items + again;
}

void hr__tape_init(hr_tape *t, hr_torch_events *events) {
  *t = (hr_tape){.events = events, .grad = true, .category = HR_TORCH_ACTIVATIONS};
  hr__tape_room(t, &t->tensors, sizeof(hr_tape_tensor));
  hr__tape_room(t, &t->storages, sizeof(hr_tape_storage));
  hr__tape_room(t, &t->nodes, sizeof(hr_tape_node));
  hr__tape_room(t, &t->agains, sizeof(hr_tape_again));
}

void hr__tape_fini(hr_tape *t) {
  for (size_t i = 0; i < t->agains.count; i++)
    hr__free(again_of(t, (uint32_t)i)->tensors);
  hr__free(t->tensors.items);
  hr__free(t->storages.items);
  hr__free(t->nodes.items);
  hr__free(t->agains.items);
  hr__free(t->casts.items);
  hr__free(t->dying.items);
}

hr_status hr__tape_check(const hr_tape *t, hr_error *err) {
  return t->failed ? hr__nomem(err) : hr__torch_events_check(t->events, err);
}

/* --- tensors ------------------------------------------------------------------------------------------------------ */

static hr_tt tensor_new(hr_tape *t, uint32_t storage, hr_tdims dims, hr_dtype dtype, bool permuted) {
  uint32_t id = t->tensors.free;
  if (id != 0)
    t->tensors.free = hr__tape_tensor(t, id)->storage;
  else
    id = hr__tape_room(t, &t->tensors, sizeof(hr_tape_tensor));
  if (id == 0) return HR_TT_NONE;
  *hr__tape_tensor(t, id) =
      (hr_tape_tensor){.owners = 1, .storage = storage, .dims = dims, .dtype = dtype, .permuted = permuted};
  storage_of(t, storage)->owners++;
  return id | HR_TT_UNNAMED;
}

hr_tt hr__tape_fresh(hr_tape *t, const char *call, hr_tdims dims, hr_dtype dtype, bool permuted) {
  if (t->stopped) return HR_TT_NONE;
  uint32_t id = t->storages.free;
  if (id != 0)
    t->storages.free = storage_of(t, id)->event;
  else
    id = hr__tape_room(t, &t->storages, sizeof(hr_tape_storage));
  if (id == 0) return HR_TT_NONE;
  uint64_t bytes = (uint64_t)hr__tdims_elements(dims) * hr_dtype_bytes(dtype);
  t->work.bytes += (double)bytes;
  t->work.calls++;
  uint32_t name = hr__torch_events_name(t->events, call);
  *storage_of(t, id) = (hr_tape_storage){
      .event = hr__torch_events_allocate_on(t->events, t->stream, bytes, t->category, t->owner, name)};
  return tensor_new(t, id, dims, dtype, permuted);
}

hr_tt hr__tape_view(hr_tape *t, hr_tt x, hr_tdims dims, bool permuted) {
  if (t->stopped) return HR_TT_NONE;
  hr_tape_tensor from = *hr__tape_tensor(t, x);
  hr_tt view = tensor_new(t, from.storage, dims, from.dtype, permuted);
  if (view != HR_TT_NONE) hr__tape_tensor(t, view)->viewed = true;
  return view;
}

hr_tt hr__tape_shared(hr_tape *t, hr_tt x) {
  if (x == HR_TT_NONE) return x;
  hr__tape_tensor(t, x)->owners++;
  return x | HR_TT_UNNAMED;
}

static void storage_drop(hr_tape *t, uint32_t id) {
  hr_tape_storage *storage = storage_of(t, id);
  if (--storage->owners > 0) return;
  hr__torch_events_free(t->events, storage->event);
  *storage = (hr_tape_storage){.event = t->storages.free};
  t->storages.free = id;
}

void hr__tape_drop(hr_tape *t, hr_tt x) {
  x &= ~HR_TT_UNNAMED;
  if (x == HR_TT_NONE) return;
  hr_tape_tensor *tensor = hr__tape_tensor(t, x);
  assert(tensor->owners > 0);
  if (--tensor->owners > 0) return;
  hr_tape_tensor gone = *tensor;
  *tensor = (hr_tape_tensor){.storage = t->tensors.free};
  t->tensors.free = x;
  storage_drop(t, gone.storage);
  if (gone.leaf)
    hr__tape_drop(t, gone.grad); /* its node owns it, and so has gone before */
  else
    hr__tape_node_drop(t, gone.node);
}

void hr__tape_become(hr_tape *t, hr_tt x, hr_torch_category category) {
  if (x == HR_TT_NONE) return;
  hr__torch_events_become(t->events, storage_of(t, hr__tape_tensor(t, x)->storage)->event, category, UINT32_MAX);
}

bool hr__tape_alone(const hr_tape *t, hr_tt x) {
  const hr_tape_tensor *tensor = hr__tape_tensor(t, x);
  return tensor->owners == 1 && !tensor->viewed && storage_of(t, tensor->storage)->owners == 1;
}

hr_tt hr__tape_name(hr_tt x) {
  return x & ~HR_TT_UNNAMED;
}

hr_tt hr__tape_again(hr_tape *t, hr_tt x) {
  return hr__tape_name(hr__tape_shared(t, x));
}

void hr__tape_assign(hr_tape *t, hr_tt *name, hr_tt value) {
  hr__tape_drop(t, *name);
  *name = hr__tape_name(value);
}

int64_t hr__tape_elements(const hr_tape *t, hr_tt x) {
  return hr__tdims_elements(hr__tape_tensor(t, x)->dims);
}

hr_dtype hr__tape_dtype(const hr_tape *t, hr_tt x) {
  return x == HR_TT_NONE ? HR_F32 : hr__tape_tensor(t, x)->dtype;
}

uint64_t hr__tape_bytes(const hr_tape *t, hr_tt x) {
  return (uint64_t)hr__tape_elements(t, x) * hr_dtype_bytes(hr__tape_tensor(t, x)->dtype);
}

uint32_t hr__tape_module(hr_tape *t, const char *name) {
  uint32_t before = t->owner;
  t->owner = hr__torch_events_name(t->events, name);
  return before;
}

hr_tt hr__tape_made(hr_tape *t, const char *call, hr_tdims dims, hr_dtype dtype) {
  return hr__tape_fresh(t, call, dims, dtype, false);
}

hr_tt hr__tape_parameter(hr_tape *t, hr_tdims dims, hr_dtype dtype, bool trained) {
  hr_torch_category before = t->category;
  t->category = HR_TORCH_PARAMETERS;
  hr_tt x = hr__tape_fresh(t, "parameter", dims, dtype, false);
  t->category = before;
  if (trained) hr__tape_want(t, x);
  return hr__tape_name(x);
}

void hr__tape_retype(hr_tape *t, hr_tt x, hr_dtype dtype) {
  if (t->stopped || x == HR_TT_NONE || hr__tape_tensor(t, x)->dtype == dtype) return;
  hr_torch_category before = t->category;
  t->category = HR_TORCH_PARAMETERS;
  hr_tt made = hr__tape_fresh(t, "aten::_to_copy", hr__tape_tensor(t, x)->dims, dtype, false);
  t->category = before;
  if (made == HR_TT_NONE) return;
  hr_tape_tensor *parameter = hr__tape_tensor(t, x);
  uint32_t storage = parameter->storage;
  parameter->storage = hr__tape_tensor(t, made)->storage;
  parameter->dtype = dtype;
  hr__tape_tensor(t, made)->storage = storage;
  hr__tape_drop(t, made);
}

void hr__tape_onto(hr_tape *t, hr_tt x, hr_tt from) {
  if (t->stopped || x == HR_TT_NONE || from == HR_TT_NONE) return;
  uint32_t storage = hr__tape_tensor(t, x)->storage;
  hr__tape_tensor(t, x)->storage = hr__tape_tensor(t, from)->storage;
  storage_of(t, hr__tape_tensor(t, x)->storage)->owners++;
  storage_drop(t, storage);
}

void hr__tape_want(hr_tape *t, hr_tt x) {
  if (x == HR_TT_NONE) return;
  hr_tape_tensor *tensor = hr__tape_tensor(t, x);
  if (tensor->wants) return;
  tensor->wants = tensor->leaf = true;
}

/* --- nodes -------------------------------------------------------------------------------------------------------- */

static uint32_t node_new(hr_tape *t) {
  uint32_t id = t->nodes.free;
  if (id != 0)
    t->nodes.free = hr__tape_node(t, id)->next_free;
  else
    id = hr__tape_room(t, &t->nodes, sizeof(hr_tape_node));
  if (id != 0) *hr__tape_node(t, id) = (hr_tape_node){.owner = t->owner};
  return id;
}

uint32_t hr__tape_leaf_node(hr_tape *t, hr_tt leaf) {
  leaf = hr__tape_name(leaf);
  if (hr__tape_tensor(t, leaf)->node != 0) return hr__tape_tensor(t, leaf)->node;
  uint32_t id = node_new(t);
  if (id == 0) return 0;
  hr_tape_tensor *tensor = hr__tape_tensor(t, leaf);
  tensor->owners++;
  tensor->node = id;
  hr__tape_node(t, id)->leaf = leaf;
  hr__tape_node(t, id)->order = UINT64_MAX;
  return id;
}

void hr__tape_again_drop(hr_tape *t, uint32_t again, uint32_t count) {
  hr_tape_again *a = again_of(t, again);
  assert(a->owners >= count);
  a->owners -= count;
  if (a->owners > 0) return;
  for (uint32_t i = 0; i < a->filled; i++) {
    hr__tape_drop(t, a->tensors[i]);
    a->tensors[i] = HR_TT_NONE;
  }
  hr__tape_again_end(t, again);
}

void hr__tape_again_end(hr_tape *t, uint32_t again) {
  hr_tape_again a = *again_of(t, again);
  again_of(t, again)->input = HR_TT_NONE;
  memset(again_of(t, again)->with, 0, sizeof a.with);
  hr__tape_drop(t, a.input);
  for (int i = 0; i < HR_TAPE_WITH; i++)
    hr__tape_drop(t, a.with[i]);
}

void hr__tape_node_release(hr_tape *t, uint32_t node) {
  hr_tape_node *n = hr__tape_node(t, node);
  uint32_t saved[HR_TAPE_SAVED], again = n->checkpoint, held = 0;
  memcpy(saved, n->saved, sizeof saved);
  memset(n->saved, 0, sizeof n->saved);
  n->checkpoint = 0;
  for (int i = 0; i < HR_TAPE_SAVED; i++) {
    if (saved[i] == 0) continue;
    held++;
    if (again == 0) hr__tape_drop(t, saved[i]);
  }
  if (again != 0) hr__tape_again_drop(t, again, held);
}

static void node_bury(hr_tape *t, uint32_t node) {
  hr__tape_node_release(t, node);
  hr_tape_node n = *hr__tape_node(t, node);
  *hr__tape_node(t, node) = (hr_tape_node){.next_free = t->nodes.free};
  t->nodes.free = node;
  hr__tape_drop(t, n.gradient);
  if (n.part != 0) hr__tape_again_drop(t, n.part, 1);
  if (n.leaf != 0) {
    hr__tape_tensor(t, n.leaf)->node = 0;
    hr__tape_drop(t, n.leaf);
  }
  for (int i = 0; i < n.n_inputs; i++)
    hr__tape_node_drop(t, n.input[i].node);
}

/* Graphs are deep: nodes that fall are buried one after the other, not inside of each other. */
void hr__tape_node_drop(hr_tape *t, uint32_t node) {
  if (node == 0) return;
  hr_tape_node *n = hr__tape_node(t, node);
  assert(n->owners > 0);
  if (--n->owners > 0) return;
  uint32_t place = hr__tape_room(t, &t->dying, sizeof node);
  if (t->failed) return;
  ((uint32_t *)t->dying.items)[place] = node;
  if (t->burying) return;
  t->burying = true;
  while (t->dying.count > 0)
    node_bury(t, ((uint32_t *)t->dying.items)[--t->dying.count]);
  t->burying = false;
}

/* --- calls -------------------------------------------------------------------------------------------------------- */

bool hr__call_begin(hr_tape *t, hr_tape_call *c, const hr_aten *aten, int n, const hr_tt *inputs) {
  *c = (hr_tape_call){.t = t, .aten = aten, .n = n};
  memcpy(c->input, inputs, (size_t)n * sizeof *inputs);
  bool wanted = false;
  for (int i = 0; i < n; i++)
    wanted |= hr__call_wants(c, i);
  if (wanted && !t->stopped) c->node = node_new(t);
  if (c->node == 0) return !hr__call_stopped(c);
  hr__tape_node(t, c->node)->owners = 1; /* the call, until its result has it */
  hr__tape_node(t, c->node)->call = aten;
  hr__tape_node(t, c->node)->order = ++t->order;
  hr__tape_node(t, c->node)->n_inputs = n;
  for (int i = 0; i < n; i++) {
    if (inputs[i] == HR_TT_NONE) continue;
    hr_tape_tensor from = *hr__tape_tensor(t, inputs[i]);
    hr_tape_edge edge = {.dims = from.dims, .dtype = from.dtype};
    if (from.wants) edge.node = from.leaf ? hr__tape_leaf_node(t, inputs[i]) : from.node;
    if (edge.node != 0) hr__tape_node(t, edge.node)->owners++;
    hr__tape_node(t, c->node)->input[i] = edge;
  }
  return !hr__call_stopped(c);
}

bool hr__call_wants(const hr_tape_call *c, int input) {
  return c->t->grad && c->input[input] != HR_TT_NONE && hr__tape_tensor(c->t, c->input[input])->wants;
}

void hr__call_number(hr_tape_call *c, int i, int64_t value) {
  if (c->node != 0) hr__tape_node(c->t, c->node)->number[i] = value;
}

/* A tensor on the same storage that no gradient flows through. */
static hr_tt detached(hr_tape *t, hr_tt x) {
  hr_tape_tensor from = *hr__tape_tensor(t, x);
  return tensor_new(t, from.storage, from.dims, from.dtype, from.permuted);
}

static void again_fill(hr_tape *t, hr_tt x) {
  hr_tape_again *a = again_of(t, t->recomputed);
  assert(a->filled < a->count);
  a->tensors[a->filled++] = hr__tape_name(x);
  if (a->filled == a->count) t->stopped = true; /* nothing more is asked for */
}

static void call_keep(hr_tape_call *c, int i, hr_tt x, bool made) {
  hr_tape *t = c->t;
  if (c->node == 0 || x == HR_TT_NONE || t->stopped) return;
  hr_tape_node *n = hr__tape_node(t, c->node);
  if (t->checkpoint != 0) {
    hr_tape_again *a = again_of(t, t->checkpoint);
    a->owners++;
    n->checkpoint = t->checkpoint;
    n->saved[i] = ++a->count;
    return;
  }
  hr_tt kept = made || t->recomputed != 0 ? detached(t, x) : hr__tape_shared(t, x);
  hr__tape_node(t, c->node)->saved[i] = hr__tape_name(kept);
  if (t->recomputed != 0) again_fill(t, detached(t, x));
}

void hr__call_save(hr_tape_call *c, int i, hr_tt x) {
  call_keep(c, i, x, false);
}

void hr__call_save_result(hr_tape_call *c, int i, hr_tt x) {
  call_keep(c, i, x, true);
}

static void inputs_drop(hr_tape_call *c) {
  for (int i = 0; i < c->n; i++)
    if (c->input[i] & HR_TT_UNNAMED) hr__tape_drop(c->t, c->input[i]);
}

bool hr__call_stopped(hr_tape_call *c) {
  if (!c->t->stopped) return false;
  hr__tape_node_drop(c->t, c->node);
  c->node = 0;
  inputs_drop(c);
  return true;
}

hr_tt hr__call_made(hr_tape_call *c, hr_tdims dims, hr_dtype dtype, bool permuted) {
  return hr__tape_fresh(c->t, c->aten->name, dims, dtype, permuted);
}

hr_tt hr__call_view(hr_tape_call *c, hr_tt x, hr_tdims dims, bool permuted) {
  return hr__tape_view(c->t, x, dims, permuted);
}

hr_tt hr__call_end(hr_tape_call *c, hr_tt result) {
  if (c->node != 0 && result != HR_TT_NONE) {
    hr_tape_tensor *tensor = hr__tape_tensor(c->t, result);
    tensor->node = c->node;
    tensor->wants = true;
  } else {
    hr__tape_node_drop(c->t, c->node);
  }
  inputs_drop(c);
  return result;
}

uint32_t hr__tape_scratch(hr_tape *t, const char *call, uint64_t bytes) {
  if (bytes == 0 || t->stopped) return UINT32_MAX;
  return hr__torch_events_allocate(t->events, bytes, HR_TORCH_WORKSPACE, t->owner,
                                   hr__torch_events_name(t->events, call));
}

void hr__tape_scratch_end(hr_tape *t, uint32_t scratch) {
  if (scratch != UINT32_MAX) hr__torch_events_free(t->events, scratch);
}

/* A library takes its workspace once its product has a result. */
void hr__tape_workspace(hr_tape *t) {
  if (t->workspace_made[t->backward] || t->stopped) return;
  t->workspace_made[t->backward] = true;
  hr__tape_scratch(t, t->backward ? "cublas workspace, backward" : "cublas workspace", t->workspace_bytes);
}

void hr__tape_bias_workspace(hr_tape *t) {
  if (t->bias_workspace_made[t->backward] || t->stopped) return;
  t->bias_workspace_made[t->backward] = true;
  hr__tape_scratch(t, t->backward ? "cublasLt workspace, backward" : "cublasLt workspace", HR_TAPE_BIAS_WORKSPACE);
}
