/* See zero.h. */
#include "torch/zero.h"

#include <stdlib.h>

#include "torch/call.h"

enum { ALIGNMENT = 2, SIDE_STREAM = 1, BUCKETS = 2, NORM_PART = 250000000 };

struct hr_zero {
  hr_tt weights;  /* all that is trained, in the model's type */
  hr_tt *masters; /* f32 copies of it, by sub-group */
  size_t *ends;   /* of sub-groups: one behind their last of what is trained */
  size_t n_groups;
  int64_t elements, largest;
  uint32_t *places; /* by tensor: which of the trained it is, from 1 */
  size_t n_places;
  hr_tt bucket[BUCKETS]; /* gradients on their way */
  int current;           /* of the buckets */
  int64_t filled;        /* elements */
  size_t *waiting;       /* which of the trained are in it, as they came; one too large for it waits alone */
  size_t n_waiting;
  hr_tt gradients;  /* all of a micro-batch; in stage 3 all of a step */
  hr_tt averaged;   /* all of a step */
  hr_tt scratch;    /* of the largest, for gradients that come back from the host */
  bool ready, last; /* buckets are there; of the step's micro-batches */
};

void hr__zero_init(hr_eager *e) {
  e->zero = hr__eager_room(e, 1, sizeof *e->zero);
  e->tape.zero_linear = e->zero && e->settings.zero.stage == 3;
}

static hr_tt made(hr_eager *e, hr_torch_category category, const char *call, int64_t elements, hr_dtype dtype) {
  hr_tape *t = &e->tape;
  hr_torch_category before = t->category;
  t->category = category;
  hr_tt x = hr__tape_name(hr__tape_made(t, call, hr__tdims1(elements), dtype));
  t->category = before;
  return x;
}

/* Something that is there for a moment. */
static void passing(hr_eager *e, hr_torch_category category, const char *call, int64_t elements, hr_dtype dtype) {
  hr__tape_drop(&e->tape, made(e, category, call, elements, dtype));
}

static int64_t aligned(int64_t elements) {
  return (elements + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static int64_t elements_of(const hr_eager *e, size_t i) {
  return hr__tape_elements(&e->tape, e->trained[i]);
}

static bool is_partitioned(const hr_eager *e) {
  return e->settings.zero.stage == 3;
}

/* Work that another stream does, where it is to overlap. */
static void aside(hr_eager *e, bool is) {
  e->tape.stream = is && e->settings.zero.overlap ? SIDE_STREAM : 0;
}

/* --- the beginning ------------------------------------------------------------------------------------------------ */

/* By whole tensors, as many as it takes to reach the size of one; the first two stages have one of all. */
static void groups_find(hr_eager *e) {
  hr_zero *z = e->zero;
  int64_t size = 0;
  bool divided = is_partitioned(e) && e->settings.zero.sub_group < z->elements;
  for (size_t i = 0; i < e->n_trained; i++) {
    size += elements_of(e, i);
    if (i + 1 < e->n_trained && (!divided || size < e->settings.zero.sub_group)) continue;
    z->ends[z->n_groups++] = i + 1;
    size = 0;
  }
}

static size_t group_begin(const hr_zero *z, size_t group) {
  return group == 0 ? 0 : z->ends[group - 1];
}

static int64_t group_elements(const hr_eager *e, size_t group) {
  int64_t elements = 0;
  for (size_t i = group_begin(e->zero, group); i < e->zero->ends[group]; i++)
    elements += elements_of(e, i);
  return is_partitioned(e) ? elements : aligned(elements);
}

/* The f32 copy that the optimizer has for a parameter. */
static hr_tt master_make(hr_eager *e, int64_t elements) {
  hr_dtype weights = e->settings.weights;
  hr_tt first = HR_TT_NONE, master;
  if (is_partitioned(e)) {
    if (weights != HR_F32) first = made(e, HR_TORCH_OPTIMIZER, "aten::_to_copy", elements, HR_F32);
    master = made(e, HR_TORCH_OPTIMIZER, "aten::clone", elements, HR_F32);
  } else {
    master = made(e, HR_TORCH_OPTIMIZER, "aten::clone", elements, weights);
    if (weights != HR_F32) {
      first = master;
      master = made(e, HR_TORCH_OPTIMIZER, "aten::_to_copy", elements, HR_F32);
    }
  }
  hr__tape_drop(&e->tape, first);
  hr__tape_want(&e->tape, master);
  return master;
}

static void flatten(hr_eager *e) {
  hr_tape *t = &e->tape;
  hr_zero *z = e->zero;
  hr_dtype weights = e->settings.weights;
  hr__torch_events_empty_cache(t->events);
  z->weights = made(e, HR_TORCH_PARAMETERS, "aten::cat", aligned(z->elements), weights);
  for (size_t i = 0; i < e->n_trained; i++)
    hr__tape_onto(t, e->trained[i], z->weights);
  if (e->settings.zero.offloaded) {
    passing(e, HR_TORCH_PARAMETERS, "aten::clone", aligned(z->elements), weights);
    z->scratch = made(e, HR_TORCH_WORKSPACE, "aten::zeros", z->largest, weights);
    return;
  }
  z->masters[0] = master_make(e, aligned(z->elements));
  passing(e, HR_TORCH_GRADIENTS, "aten::zeros", aligned(z->elements), HR_F32);
}

/* Every weight gets a tensor of its own, which is a part of it on more GPUs. */
static void part_make(hr_eager *e, hr_tt x) {
  hr_tape *t = &e->tape;
  if (x == HR_TT_NONE || t->stopped) return;
  hr_tape_tensor form = *hr__tape_tensor(t, x);
  hr_tt part = hr__tape_parameter(t, form.dims, form.dtype, false);
  hr__tape_onto(t, x, part);
  hr__tape_drop(t, part);
}

static void parts_make(hr_eager *e) {
  for (size_t i = 0; i < e->n_parameters; i++)
    if (!e->parameters[i].fixed) part_make(e, *e->parameters[i].slot);
  for (size_t i = 0; i < e->n_linears; i++) {
    part_make(e, e->linears[i]->a);
    part_make(e, e->linears[i]->b);
  }
}

/* What is trained goes to the host, and comes back as one tensor. */
static void parts_join(hr_eager *e) {
  hr_tape *t = &e->tape;
  hr_zero *z = e->zero;
  hr_tt nothing = made(e, HR_TORCH_OTHER, "aten::empty", 0, e->settings.weights);
  for (size_t i = 0; i < e->n_trained; i++)
    hr__tape_onto(t, e->trained[i], nothing);
  hr__torch_events_empty_cache(t->events);
  z->weights = made(e, HR_TORCH_PARAMETERS, "aten::_to_copy", z->elements, e->settings.weights);
  for (size_t i = 0; i < e->n_trained; i++)
    hr__tape_onto(t, e->trained[i], z->weights);
  hr__tape_drop(t, nothing);
}

static void partition(hr_eager *e) {
  hr_zero *z = e->zero;
  int64_t most = 0;
  parts_make(e);
  parts_join(e);
  for (size_t g = 0; g < z->n_groups; g++) {
    int64_t elements = group_elements(e, g);
    if (!e->settings.zero.offloaded) z->masters[g] = master_make(e, elements);
    most = elements > most ? elements : most;
  }
  if (!e->settings.zero.offloaded) passing(e, HR_TORCH_GRADIENTS, "aten::zeros", most, HR_F32);
  z->bucket[0] = made(e, HR_TORCH_WORKSPACE, "aten::empty", e->settings.zero.bucket, e->settings.weights);
  if (!e->settings.zero.offloaded)
    z->gradients = made(e, HR_TORCH_GRADIENTS, "aten::zeros", z->elements, e->settings.weights);
  for (size_t i = 0; i < e->n_trained; i++)
    passing(e, HR_TORCH_PARAMETERS, "aten::empty", elements_of(e, i), e->settings.weights);
}

static void arrived(void *user, hr_tt leaf);

void hr__zero_begin(hr_eager *e) {
  hr_tape *t = &e->tape;
  hr_zero *z = e->zero;
  z->ends = hr__eager_room(e, e->n_trained + 1, sizeof *z->ends);
  z->masters = hr__eager_room(e, e->n_trained + 1, sizeof *z->masters);
  z->waiting = hr__eager_room(e, e->n_trained + 1, sizeof *z->waiting);
  z->n_places = t->tensors.count;
  z->places = hr__eager_room(e, z->n_places + 1, sizeof *z->places);
  if (t->stopped) return;
  for (size_t i = 0; i < e->n_trained; i++) {
    int64_t elements = elements_of(e, i);
    z->places[e->trained[i]] = (uint32_t)i + 1;
    z->elements += elements;
    z->largest = elements > z->largest ? elements : z->largest;
  }
  uint32_t owner = hr__tape_module(t, "deepspeed");
  groups_find(e);
  if (is_partitioned(e))
    partition(e);
  else
    flatten(e);
  t->owner = owner;
  t->arrived = arrived;
  t->user = e;
}

/* --- gradients ---------------------------------------------------------------------------------------------------- */

static void gradient_drop(hr_eager *e, size_t i) {
  hr_tape_tensor *leaf = hr__tape_tensor(&e->tape, e->trained[i]);
  hr_tt gradient = leaf->grad;
  leaf->grad = HR_TT_NONE;
  hr__tape_drop(&e->tape, gradient);
}

static void gradient_onto(hr_eager *e, size_t i, hr_tt from) {
  hr__tape_onto(&e->tape, hr__tape_tensor(&e->tape, e->trained[i])->grad, from);
}

/* What a gradient takes on the way to the host: its norm, and itself in f32. */
static void gradient_offload(hr_eager *e, size_t i) {
  int64_t elements = elements_of(e, i);
  for (int64_t at = 0; at < elements; at += NORM_PART) {
    int64_t part = is_partitioned(e) && elements - at > NORM_PART ? NORM_PART : elements - at;
    passing(e, HR_TORCH_GRADIENTS, "aten::_to_copy", part, HR_F64);
    if (!is_partitioned(e)) break;
  }
  if (e->settings.weights != HR_F32) passing(e, HR_TORCH_GRADIENTS, "aten::_to_copy", elements, HR_F32);
}

/* Stages 1 and 2: from the bucket into the tensor of all, or to the host. */
static void bucket_empty(hr_eager *e) {
  hr_zero *z = e->zero;
  aside(e, true);
  for (size_t i = 0; i < z->n_waiting; i++) {
    if (e->settings.zero.offloaded) {
      if (!z->last) continue;
      gradient_offload(e, z->waiting[i]);
      gradient_drop(e, z->waiting[i]);
      continue;
    }
    if (z->gradients == HR_TT_NONE)
      z->gradients = made(e, HR_TORCH_GRADIENTS, "aten::empty", z->elements, e->settings.weights);
    gradient_onto(e, z->waiting[i], z->gradients);
  }
  aside(e, false);
  z->n_waiting = 0;
  z->filled = 0;
}

static int number_compare(const void *a, const void *b) {
  const size_t *x = a, *y = b;
  return (*x > *y) - (*x < *y);
}

/* Stage 3: those of the bucket in one tensor, in the order of parameters, and from there into the tensor of all, or to
 * the host. */
static void bucket_scatter(hr_eager *e) {
  hr_tape *t = &e->tape;
  hr_zero *z = e->zero;
  if (z->n_waiting == 0) return;
  aside(e, true);
  hr_tt joined = HR_TT_NONE;
  if (z->n_waiting > 1) joined = made(e, HR_TORCH_GRADIENTS, "aten::cat", z->filled, e->settings.weights);
  qsort(z->waiting, z->n_waiting, sizeof *z->waiting, number_compare);
  for (size_t k = 0; k < z->n_waiting; k++) {
    size_t i = z->waiting[k];
    if (e->settings.zero.offloaded) {
      hr_tt here = made(e, HR_TORCH_GRADIENTS, "aten::_to_copy", elements_of(e, i), e->settings.weights);
      if (z->last) gradient_offload(e, i);
      hr__tape_drop(t, here);
    }
    gradient_drop(e, i);
  }
  hr__tape_drop(t, joined);
  aside(e, false);
  z->n_waiting = 0;
  z->filled = 0;
}

static void bucket_take(hr_eager *e, size_t i) {
  hr_zero *z = e->zero;
  int64_t elements = elements_of(e, i), most = e->settings.zero.bucket;
  if (z->filled + elements > most) {
    if (is_partitioned(e)) {
      bucket_scatter(e);
    } else {
      bucket_empty(e);
      if (e->settings.zero.overlap) z->current = 1 - z->current;
    }
  }
  if (elements <= most) {
    gradient_onto(e, i, z->bucket[z->current]);
  } else if (e->settings.zero.offloaded && !is_partitioned(e)) { /* a copy that nobody else has */
    hr_tt copy = made(e, HR_TORCH_GRADIENTS, "aten::clone", elements, e->settings.weights);
    gradient_onto(e, i, copy);
    hr__tape_drop(&e->tape, copy);
  }
  z->waiting[z->n_waiting++] = i;
  z->filled += elements;
}

/* Buckets of stages 1 and 2 come with the first gradient, and go when the last has left them. */
static void buckets_make(hr_eager *e) {
  hr_zero *z = e->zero;
  if (z->ready || is_partitioned(e)) return;
  for (int i = 0; i < (e->settings.zero.overlap ? BUCKETS : 1); i++)
    z->bucket[i] = made(e, HR_TORCH_WORKSPACE, "aten::empty", e->settings.zero.bucket, e->settings.weights);
  z->current = 0;
  z->ready = true;
}

static bool is_reduced_at_once(const hr_eager *e) {
  return e->settings.zero.stage > 1 || (e->settings.zero.overlap && e->zero->last);
}

static void arrived(void *user, hr_tt leaf) {
  hr_eager *e = user;
  const hr_zero *z = e->zero;
  uint32_t place = hr__tape_name(leaf) < z->n_places ? z->places[hr__tape_name(leaf)] : 0;
  if (place == 0) return; /* an input that was cut off */
  uint32_t owner = hr__tape_module(&e->tape, "deepspeed");
  buckets_make(e);
  if (is_reduced_at_once(e)) bucket_take(e, place - 1);
  e->tape.owner = owner;
}

void hr__zero_backward_begin(hr_eager *e, bool last) {
  e->zero->last = last;
}

/* Gradients of a micro-batch are added to those before. */
static void gradients_keep(hr_eager *e) {
  hr_zero *z = e->zero;
  for (size_t i = 0; i < e->n_trained; i++)
    gradient_drop(e, i);
  if (z->averaged == HR_TT_NONE)
    z->averaged = z->gradients;
  else
    hr__tape_drop(&e->tape, z->gradients);
  z->gradients = HR_TT_NONE;
  for (int i = 0; i < BUCKETS; i++)
    hr__tape_assign(&e->tape, &z->bucket[i], HR_TT_NONE);
  z->ready = false;
}

void hr__zero_backward_end(hr_eager *e) {
  if (e->tape.stopped) return;
  uint32_t owner = hr__tape_module(&e->tape, "deepspeed");
  bool reduces = e->settings.zero.stage > 1 || e->zero->last;
  for (size_t i = 0; i < e->n_trained && reduces && !is_reduced_at_once(e); i++)
    if (hr__tape_tensor(&e->tape, e->trained[i])->grad != HR_TT_NONE) bucket_take(e, i);
  if (is_partitioned(e)) {
    bucket_scatter(e);
  } else if (reduces) {
    bucket_empty(e);
    gradients_keep(e);
  }
  e->tape.owner = owner;
}

/* --- an update ---------------------------------------------------------------------------------------------------- */

/* In f64, each of them; what they come to stays until there is one of all. */
static void norms_take(hr_eager *e) {
  hr_tape *t = &e->tape;
  hr_tt *norms = hr__eager_room(e, e->n_trained + 1, sizeof *norms);
  for (size_t i = 0; i < e->n_trained && norms; i++) {
    hr_tt wide = made(e, HR_TORCH_GRADIENTS, "aten::_to_copy", elements_of(e, i), HR_F64);
    norms[i] = made(e, HR_TORCH_OPTIMIZER, "aten::linalg_vector_norm", 1, HR_F64);
    hr__tape_drop(t, wide);
  }
  for (size_t i = 0; i < e->n_trained && norms; i++)
    hr__tape_drop(t, norms[i]);
}

/* The flat gradient of a group, in f32. */
static hr_tt gradient_wide(hr_eager *e, size_t group) {
  hr_zero *z = e->zero;
  hr_dtype weights = e->settings.weights;
  int64_t elements = group_elements(e, group);
  hr_tt wide = made(e, HR_TORCH_GRADIENTS, "aten::cat", elements, weights);
  if (weights != HR_F32) {
    hr_tt flat = wide;
    wide = made(e, HR_TORCH_GRADIENTS, "aten::_to_copy", elements, HR_F32);
    hr__tape_drop(&e->tape, flat);
  }
  hr__tape_assign(&e->tape, &z->averaged, HR_TT_NONE);
  return wide;
}

/* The optimizer has one parameter for each group. */
static void group_update(hr_eager *e, size_t group, bool first) {
  hr_tt *trained = e->trained;
  size_t n_trained = e->n_trained;
  bool clipped = e->settings.clipped;
  hr_tt wide = gradient_wide(e, group);
  hr__tape_tensor(&e->tape, e->zero->masters[group])->grad = wide;
  e->trained = &e->zero->masters[group];
  e->n_trained = 1;
  e->settings.clipped = false; /* scaled in place, by the norm that was taken */
  hr__eager_update(e, first);
  hr__tape_tensor(&e->tape, e->zero->masters[group])->grad = HR_TT_NONE;
  hr__tape_drop(&e->tape, wide);
  e->trained = trained;
  e->n_trained = n_trained;
  e->settings.clipped = clipped;
}

void hr__zero_update(hr_eager *e, bool first) {
  hr_tape *t = &e->tape;
  if (e->settings.zero.offloaded || t->stopped) return;
  uint32_t owner = hr__tape_module(t, "deepspeed");
  norms_take(e);
  for (size_t g = 0; g < e->zero->n_groups && !t->stopped; g++)
    group_update(e, g, first);
  t->owner = owner;
}

hr_zero_host hr__zero_host(const hr_eager *e) {
  if (!e->zero || !e->settings.zero.offloaded) return (hr_zero_host){0};
  const hr_zero *z = e->zero;
  uint64_t n = (uint64_t)z->elements, narrow = hr_dtype_bytes(e->settings.weights), wide = hr_dtype_bytes(HR_F32);
  bool back =
      is_partitioned(e) || e->settings.accumulation > 1; /* gradients that are added to stay there as they come */
  return (hr_zero_host){.parameters = n * wide + (is_partitioned(e) ? 0 : n * narrow),
                        .gradients = n * wide + (back ? n * narrow : 0) +
                                     (is_partitioned(e) ? 0 : (uint64_t)z->largest * narrow),
                        .optimizer = 2 * n * wide};
}
