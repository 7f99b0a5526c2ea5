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
  hr_pool *pool;             /* NULL: the calling thread reads alone */
};

/* The first few names of a list that may be long. */
typedef struct name_list {
  size_t count, used;
  char text[256];
} name_list;

static void name_add(name_list *list, const char *name) {
  if (list->count < 3 && list->used < sizeof list->text) {
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

/* Looks for one parameter in the file; *found is SIZE_MAX where it is missing. */
static hr_status weight_find(hr_weights *w, const char *folder, const char *name, const hr_desc *desc, size_t *found,
                             hr_error *err) {
  char other[HR_TENSOR_NAME];
  const hr_model *model = w->part->model;
  size_t at = hr__stored_find(w->file, name);
  for (int i = 0; at == SIZE_MAX && model->other_name && model->other_name(name, i, other); i++)
    at = hr__stored_find(w->file, other);
  return tensor_take(w, folder, at, desc, found, err);
}

static bool tensor_left(const hr_weights *w, const char *name) {
  return w->part->model->leaves && w->part->model->leaves(w->part, name);
}

static hr_status names_match(hr_weights *w, const char *folder, hr_error *err) {
  const hr_graph *g = w->graph;
  name_list missing = {0}, unused = {0};
  const char *name;
  bool head = false; /* one that is often tied is missing */
  for (hr_id i = 0; i < g->n_values; i++) {
    if (!value_is_weight(g, i) || !(name = public_name(w, g->values[i].name))) continue;
    HR_TRY(weight_find(w, folder, name, &g->values[i].desc, &w->weights[i], err));
    if (w->weights[i] != SIZE_MAX || g->buffers[g->values[i].buffer].role == HR_ROLE_STATE) continue;
    name_add(&missing, name);
    head = head || tensor_left(w, name);
  }
  for (size_t i = 0; i < g->n_packed; i++) {
    if (!(name = public_name(w, g->packed[i].name))) continue;
    HR_TRY(weight_find(w, folder, name, &g->packed[i].desc, &w->packed[i], err));
    if (w->packed[i] == SIZE_MAX) name_add(&missing, name);
  }
  if (missing.count) {
    char remedy[HR_SECTION_TEXT + 96];
    const char *section = w->part->scope.section;
    if (head && missing.count == 1)
      snprintf(remedy, sizeof remedy, "the checkpoint's head is tied: give --set %s.config.tie_word_embeddings=true",
               section);
    else
      snprintf(remedy, sizeof remedy, "make %s.config agree with the checkpoint, or take a complete checkpoint",
               section);
    return hr__fail(err, HR_BAD_INPUT, folder, remedy, "%zu of the model's tensors %s not in the checkpoint: %s%s",
                    missing.count, missing.count == 1 ? "is" : "are", missing.text, missing.count > 3 ? ", ..." : "");
  }
  for (size_t i = 0; i < hr__stored_count(w->file); i++) {
    name = hr__stored_at(w->file, i)->name;
    if (!w->taken[i] && !tensor_left(w, name)) name_add(&unused, name);
  }
  if (unused.count) {
    return hr__fail(err, HR_BAD_INPUT, folder, "make model.config agree with the checkpoint (layers, biases)",
                    "%zu of the checkpoint's tensors %s not in the model: %s%s", unused.count,
                    unused.count == 1 ? "is" : "are", unused.text, unused.count > 3 ? ", ..." : "");
  }
  return HR_OK;
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
    if (!w->taken[i]) snprintf(missed, 256, "%s", hr__stored_at(w->file, i)->name);
  return HR_OK;
}

hr_status hr__weights_open_file(const char *path, const hr_graph *graph, const hr_weight_names *names,
                                bool (*wanted)(const hr_graph *graph, hr_id value), char missed[256], hr_weights **out,
                                hr_error *err) {
  hr_weights *w;
  HR_TRY(weights_create(graph, &w, err));
  hr_status status = hr__stored_open(path, &w->file, err);
  if (status == HR_OK) status = tables_create(w, err);
  if (status == HR_OK) status = some_match(w, path, names, wanted, missed, err);
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
