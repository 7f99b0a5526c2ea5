/* Matching a checkpoint folder against a graph, and reading its tensors in the types of the graph. */
#include "model/weights.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "model/stored.h"

struct hr_weights {
  const hr_graph *graph;
  hr_stored *file;
  hr_arena arena;
  size_t *weights;           /* by value: number of its tensor in the file; SIZE_MAX: it is not there */
  size_t *packed;            /* the same by number of the packed parameter */
  const hr_model_part *part; /* while it is opened */
  bool *taken;               /* per tensor of the file */
  bool bare;                 /* the file has the body alone, under names of its own */
  bool *fresh;               /* by value: the file has not, and need not have it; NULL: of one file of many */
  char remark[640];          /* which those are; or "" */
  hr_pool *pool;             /* NULL: the calling thread reads alone */
};

/* The first names of a list that may be long. */
enum { NAMED = 3, NAMED_FRESH = 8 };
typedef struct name_list {
  size_t most; /* that are named */
  size_t count, used;
  char text[512];
} name_list;

static void name_add(name_list *list, const char *name) {
  if (list->count < list->most && list->used < sizeof list->text) {
    int length =
        snprintf(list->text + list->used, sizeof list->text - list->used, "%s%.80s", list->count ? ", " : "", name);
    list->used += (size_t)length;
  }
  list->count++;
}

/* Parameters of the model itself, and its state, which a checkpoint may have and need not: adapters come from
 * elsewhere, parts of packed parameters have other names. */
static bool value_is_weight(const hr_graph *g, hr_id value) {
  const hr_value *v = &g->values[value];
  hr_role role = g->buffers[v->buffer].role;
  return hr__graph_is_tensor(g, value) && (role == HR_ROLE_PARAMETER || role == HR_ROLE_STATE) && !v->keep_f32 &&
         !hr__graph_is_packed(g, value);
}

static void shape_text(int rank, const int64_t *dim, char out[96]) {
  size_t used = (size_t)snprintf(out, 96, "[");
  for (int i = 0; i < rank && used < 70; i++) {
    used += (size_t)snprintf(out + used, 96 - used, "%s%" PRId64, i ? ", " : "", dim[i]);
  }
  snprintf(out + used, 96 - used, "]");
}

static hr_status shape_match(const char *folder, const hr_stored_tensor *tensor, const hr_desc *desc, hr_error *err) {
  if (tensor->rank == desc->rank && memcmp(tensor->dim, desc->dim, (size_t)desc->rank * sizeof *desc->dim) == 0) {
    return HR_OK;
  }
  char stored[96], wanted[96];
  shape_text(tensor->rank, tensor->dim, stored);
  shape_text(desc->rank, desc->dim, wanted);
  return hr__fail(err, HR_BAD_INPUT, folder,
                  "make model.config agree with the checkpoint: its config.json has the sizes",
                  "tensor %.120s has the shape %s, but the model has %s", tensor->name, stored, wanted);
}

static hr_status dtype_match(const char *folder, const hr_stored_tensor *tensor, hr_error *err) {
  if (tensor->dtype != HR_DTYPE_COUNT) return HR_OK;
  return hr__fail(err, HR_BAD_INPUT, folder, "convert the checkpoint to F32, BF16 or F16",
                  "tensor %.120s is stored as %s; weights must be F32, BF16 or F16", tensor->name, tensor->type);
}

/* The name in the checkpoint of a parameter of this part; NULL: it belongs to another one. */
static const char *public_name(const hr_weights *w, const char *name) {
  size_t length = strlen(w->part->name);
  if (length == 0) return name;
  return strncmp(name, w->part->name, length) == 0 && name[length] == '.' ? name + length + 1 : NULL;
}

/* Tensor number `at` of the file (SIZE_MAX: none) is what becomes a value of this shape. */
static hr_status tensor_take(hr_weights *w, const char *place, size_t at, const hr_desc *desc, size_t *found,
                             hr_error *err) {
  *found = at;
  if (at == SIZE_MAX) return HR_OK;
  w->taken[at] = true;
  HR_TRY(dtype_match(place, hr__stored_at(w->file, at), err));
  return shape_match(place, hr__stored_at(w->file, at), desc, err);
}

/* What a checkpoint of the body alone calls a parameter of it; NULL: the parameter is of the head. */
static const char *bare_name(const hr_model *model, const char *name) {
  size_t length = model->body_name ? strlen(model->body_name) : 0;
  return length > 0 && strncmp(name, model->body_name, length) == 0 ? name + length : NULL;
}

/* Looks for one parameter in the file; *found is SIZE_MAX where it is missing. */
static hr_status weight_find(hr_weights *w, const char *folder, const char *name, const hr_desc *desc, size_t *found,
                             hr_error *err) {
  char other[HR_TENSOR_NAME];
  const hr_model *model = w->part->model;
  size_t at = SIZE_MAX;
  for (int bare = 0; bare < 2 && at == SIZE_MAX; bare++) {
    const char *called = bare ? bare_name(model, name) : name;
    if (!called) break;
    at = hr__stored_find(w->file, called);
    for (int i = 0; at == SIZE_MAX && model->other_name && model->other_name(called, i, other); i++)
      at = hr__stored_find(w->file, other);
    w->bare |= bare && at != SIZE_MAX;
  }
  return tensor_take(w, folder, at, desc, found, err);
}

/* A parameter of this part that the file has not, and its name there. */
static bool value_is_missing(const hr_weights *w, hr_id i, const char **name) {
  const hr_graph *g = w->graph;
  return value_is_weight(g, i) && (*name = public_name(w, g->values[i].name)) && w->weights[i] == SIZE_MAX &&
         g->buffers[g->values[i].buffer].role != HR_ROLE_STATE;
}

/* Whether a parameter that is missing begins fresh: the head of a checkpoint that has the body alone. */
static bool begins_fresh(const hr_weights *w, const char *name) {
  return w->bare && w->part->model->body_name && !bare_name(w->part->model, name);
}

/* Heads of a body alone, once all of the file is known to be one. */
static hr_status fresh_note(hr_weights *w, hr_error *err) {
  const hr_graph *g = w->graph;
  name_list fresh = {.most = NAMED_FRESH};
  const char *name;
  w->fresh = hr__arena_array(&w->arena, g->n_values + 1, sizeof *w->fresh);
  if (!w->fresh) return hr__nomem(err);
  for (hr_id i = 0; i < g->n_values; i++) {
    if (!value_is_missing(w, i, &name) || !begins_fresh(w, name)) continue;
    w->fresh[i] = true;
    name_add(&fresh, name);
    if (!g->values[i].trained)
      return hr__scope_fail(
          &w->part->scope, "path", "let it be trained: add it to `train`, such as train: [\"lm_head\"]", err,
          "the checkpoint has no %.100s, so that it would begin fresh and stay so: it is frozen", name);
  }
  if (fresh.count > 0)
    snprintf(w->remark, sizeof w->remark, "%zu of the model's tensors %s not in the checkpoint and begin%s fresh: %s%s",
             fresh.count, fresh.count == 1 ? "is" : "are", fresh.count == 1 ? "s" : "", fresh.text,
             fresh.count > NAMED_FRESH ? ", ..." : "");
  return HR_OK;
}

static hr_unused tensor_unused(const hr_weights *w, const char *name) {
  return w->part && w->part->model->unused ? w->part->model->unused(w->part, name) : HR_UNUSED_WRONG;
}

/* What becomes a parameter of the model must be there. */
static hr_status missing_refuse(const hr_weights *w, const char *folder, hr_error *err) {
  const hr_graph *g = w->graph;
  name_list missing = {.most = NAMED};
  const char *name, *section = w->part->scope.section;
  bool head = false; /* one that is often tied is missing */
  for (hr_id i = 0; i < g->n_values; i++) {
    if (!value_is_missing(w, i, &name) || w->fresh[i]) continue;
    name_add(&missing, name);
    head = head || tensor_unused(w, name) != HR_UNUSED_WRONG;
  }
  for (size_t i = 0; i < g->n_packed; i++)
    if ((name = public_name(w, g->packed[i].name)) && w->packed[i] == SIZE_MAX) name_add(&missing, name);
  if (missing.count == 0) return HR_OK;
  char remedy[HR_SECTION_TEXT + 96];
  if (head && missing.count == 1)
    snprintf(remedy, sizeof remedy, "the checkpoint's head is tied: give --set %s.config.tie_word_embeddings=true",
             section);
  else
    snprintf(remedy, sizeof remedy, "make %s.config agree with the checkpoint, or take a complete checkpoint", section);
  return hr__fail(err, HR_BAD_INPUT, folder, remedy, "%zu of the model's tensors %s not in the checkpoint: %s%s",
                  missing.count, missing.count == 1 ? "is" : "are", missing.text, missing.count > NAMED ? ", ..." : "");
}

static hr_status unused_refuse(const hr_weights *w, const char *folder, hr_error *err) {
  name_list unused = {.most = NAMED};
  for (size_t i = 0; i < hr__stored_count(w->file); i++) {
    const char *name = hr__stored_at(w->file, i)->name;
    if (!w->taken[i] && tensor_unused(w, name) == HR_UNUSED_WRONG) name_add(&unused, name);
  }
  if (unused.count == 0) return HR_OK;
  return hr__fail(err, HR_BAD_INPUT, folder, "make model.config agree with the checkpoint (layers, biases)",
                  "%zu of the checkpoint's tensors %s not in the model: %s%s", unused.count,
                  unused.count == 1 ? "is" : "are", unused.text, unused.count > NAMED ? ", ..." : "");
}

static hr_status names_match(hr_weights *w, const char *folder, hr_error *err) {
  const hr_graph *g = w->graph;
  const char *name;
  for (hr_id i = 0; i < g->n_values; i++)
    if (value_is_weight(g, i) && (name = public_name(w, g->values[i].name)))
      HR_TRY(weight_find(w, folder, name, &g->values[i].desc, &w->weights[i], err));
  for (size_t i = 0; i < g->n_packed; i++)
    if ((name = public_name(w, g->packed[i].name)))
      HR_TRY(weight_find(w, folder, name, &g->packed[i].desc, &w->packed[i], err));
  HR_TRY(fresh_note(w, err));
  HR_TRY(missing_refuse(w, folder, err));
  return unused_refuse(w, folder, err);
}

static hr_status weights_create(const hr_graph *graph, hr_weights **out, hr_error *err) {
  *out = hr__alloc_zero(1, sizeof **out);
  if (!*out) return hr__nomem(err);
  (*out)->graph = graph;
  hr__arena_init(&(*out)->arena);
  return HR_OK;
}

/* For an open file. */
static hr_status tables_create(hr_weights *w, hr_error *err) {
  w->weights = hr__arena_array(&w->arena, w->graph->n_values + 1, sizeof *w->weights);
  w->packed = hr__arena_array(&w->arena, w->graph->n_packed + 1, sizeof *w->packed);
  w->taken = hr__arena_array(&w->arena, hr__stored_count(w->file) + 1, sizeof *w->taken);
  if (!w->weights || !w->packed || !w->taken) return hr__nomem(err);
  memset(w->weights, 0xff, w->graph->n_values * sizeof *w->weights); /* SIZE_MAX */
  memset(w->packed, 0xff, w->graph->n_packed * sizeof *w->packed);
  return HR_OK;
}

hr_status hr__weights_open(const char *folder, const hr_graph *graph, const hr_model_part *part, hr_weights **out,
                           hr_error *err) {
  *out = NULL;
  hr_weights *w;
  HR_TRY(weights_create(graph, &w, err));
  w->part = part;
  hr_status status = hr__stored_open(folder, &w->file, err);
  if (status == HR_OK) status = tables_create(w, err);
  if (status == HR_OK) status = names_match(w, folder, err);
  if (status != HR_OK) {
    hr__weights_close(w);
    return status;
  }
  w->part = NULL;
  *out = w;
  return HR_OK;
}

/* The name in a file of a value of the graph; NULL: it is of another part. */
static const char *file_name(const hr_weight_names *names, const char *name, char out[HR_TENSOR_NAME]) {
  size_t before = strlen(names->before), part = strlen(names->part);
  if (strncmp(name, names->before, before) != 0) return NULL;
  name += before;
  if (part > 0 && (strncmp(name, names->part, part) != 0 || name[part] != '.')) return NULL;
  snprintf(out, HR_TENSOR_NAME, "%s%s", names->prefix, name + (part > 0 ? part + 1 : 0));
  return out;
}

static hr_status some_find(hr_weights *w, const char *path, const hr_weight_names *names, const char *name,
                           const hr_desc *desc, size_t *found, hr_error *err) {
  char text[HR_TENSOR_NAME];
  const char *called = file_name(names, name, text);
  return tensor_take(w, path, called ? hr__stored_find(w->file, called) : SIZE_MAX, desc, found, err);
}

static hr_status some_match(hr_weights *w, const char *path, const hr_weight_names *names,
                            bool (*wanted)(const hr_graph *, hr_id), char missed[256], hr_error *err) {
  const hr_graph *g = w->graph;
  for (hr_id v = 0; v < g->n_values; v++)
    if (hr__graph_is_tensor(g, v) && !hr__graph_is_packed(g, v) && wanted(g, v))
      HR_TRY(some_find(w, path, names, g->values[v].name, &g->values[v].desc, &w->weights[v], err));
  for (size_t i = 0; i < g->n_packed && wanted(g, HR_NONE); i++)
    HR_TRY(some_find(w, path, names, g->packed[i].name, &g->packed[i].desc, &w->packed[i], err));
  *missed = '\0';
  for (size_t i = 0; i < hr__stored_count(w->file) && !*missed; i++)
    if (!w->taken[i] && tensor_unused(w, hr__stored_at(w->file, i)->name) != HR_UNUSED_KEPT)
      snprintf(missed, 256, "%s", hr__stored_at(w->file, i)->name);
  return HR_OK;
}

hr_status hr__weights_open_file(const char *path, const hr_graph *graph, const hr_weight_names *names,
                                bool (*wanted)(const hr_graph *graph, hr_id value), const hr_model_part *part,
                                char missed[256], hr_weights **out, hr_error *err) {
  hr_weights *w;
  HR_TRY(weights_create(graph, &w, err));
  w->part = part;
  hr_status status = hr__stored_open(path, &w->file, err);
  if (status == HR_OK) status = tables_create(w, err);
  if (status == HR_OK) status = some_match(w, path, names, wanted, missed, err);
  w->part = NULL;
  if (status != HR_OK) {
    hr__weights_close(w);
    w = NULL;
  }
  *out = w;
  return status;
}

void hr__weights_close(hr_weights *w) {
  if (!w) return;
  hr__stored_close(w->file);
  hr__arena_fini(&w->arena);
  hr__free(w);
}

enum { PIECE = 1 << 14 }; /* elements that one thread reads at a time */

/* Elements [first, first + count) of a tensor, read by several threads. */
typedef struct reading {
  const hr_weights *weights;
  size_t source;  /* tensor of the file */
  hr_dtype dtype; /* that they become */
  int64_t first, count;
  char *to;
  int failed; /* set by the first thread that fails, which also says how */
  hr_status status;
  hr_error err;
} reading;

static void piece_task(void *arg, int64_t task, int worker) {
  reading *r = arg;
  (void)worker;
  int64_t at = task * PIECE, count = r->count - at < PIECE ? r->count - at : PIECE;
  hr_error err = {0};
  char *to = r->to + (size_t)at * hr_dtype_bytes(r->dtype);
  hr_status status = hr__stored_read(r->weights->file, r->source, r->dtype, r->first + at, count, to, &err);
  if (status == HR_OK || __atomic_exchange_n(&r->failed, 1, __ATOMIC_RELAXED)) return;
  r->status = status;
  r->err = err;
}

static hr_status source_read(const hr_weights *w, size_t source, hr_dtype dtype, int64_t first, int64_t count, void *to,
                             hr_error *err) {
  assert(source != SIZE_MAX && first >= 0 && count >= 0);
  reading r = {.weights = w, .source = source, .dtype = dtype, .first = first, .count = count, .to = to};
  hr__pool_run(w->pool, w->pool ? hr__pool_threads(w->pool) : 1, (count + PIECE - 1) / PIECE, piece_task, &r);
  if (r.failed && err) *err = r.err;
  return r.status;
}

void hr__weights_share(hr_weights *w, hr_pool *pool) {
  w->pool = pool;
}

bool hr__weights_has(const hr_weights *w, hr_id parameter) {
  return w->weights[parameter] != SIZE_MAX;
}

bool hr__weights_is_fresh(const hr_weights *w, hr_id parameter) {
  return w->fresh && w->fresh[parameter];
}

const char *hr__weights_remark(const hr_weights *w) {
  return w->remark[0] ? w->remark : NULL;
}

bool hr__weights_has_packed(const hr_weights *w, size_t packed) {
  return w->packed[packed] != SIZE_MAX;
}

hr_status hr__weights_read(const hr_weights *w, hr_id parameter, int64_t first, int64_t count, void *to,
                           hr_error *err) {
  const hr_desc *desc = &w->graph->values[parameter].desc;
  assert(first + count <= hr_desc_count(desc));
  return source_read(w, w->weights[parameter], desc->dtype, first, count, to, err);
}

hr_status hr__weights_read_packed(const hr_weights *w, size_t packed, int64_t first, int64_t count, float *to,
                                  hr_error *err) {
  assert(packed < w->graph->n_packed && first + count <= hr_desc_count(&w->graph->packed[packed].desc));
  return source_read(w, w->packed[packed], HR_F32, first, count, to, err);
}
