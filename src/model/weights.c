/* Matching a checkpoint folder against a graph, and reading its tensors in the types of the graph. */
#include "model/weights.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clones.h"
#include "format/safetensors.h"

typedef struct weight {
  const hr_safetensor *tensor; /* NULL: this value is not in the file */
  hr_dtype stored;
} weight;

struct hr_weights {
  const hr_graph *graph;
  hr_safetensors *file;
  hr_arena arena;
  weight *weights;           /* by value */
  weight *packed;            /* by number of the packed parameter */
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

static hr_status shape_match(const char *folder, const hr_safetensor *tensor, const hr_desc *desc, hr_error *err) {
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

static hr_status dtype_match(const char *folder, const hr_safetensor *tensor, hr_dtype *stored, hr_error *err) {
  static const struct {
    const char *name;
    hr_dtype dtype;
  } allowed[] = {{"F32", HR_F32}, {"BF16", HR_BF16}, {"F16", HR_F16}};
  for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++) {
    if (strcmp(tensor->dtype, allowed[i].name) == 0) {
      *stored = allowed[i].dtype;
      return HR_OK;
    }
  }
  return hr__fail(err, HR_BAD_INPUT, folder, "convert the checkpoint to F32, BF16 or F16",
                  "tensor %.120s is stored as %s; weights must be F32, BF16 or F16", tensor->name, tensor->dtype);
}

/* The name in the checkpoint of a parameter of this part; NULL: it belongs to another one. */
static const char *public_name(const hr_weights *w, const char *name) {
  size_t length = strlen(w->part->name);
  if (length == 0) return name;
  return strncmp(name, w->part->name, length) == 0 && name[length] == '.' ? name + length + 1 : NULL;
}

static size_t tensor_find(const hr_weights *w, const char *name) {
  const hr_safetensor *tensor = hr__safetensors_find(w->file, name);
  return tensor ? hr__safetensors_index(w->file, tensor) : SIZE_MAX;
}

/* Tensor number `at` of the file (SIZE_MAX: none) is what becomes a value of this shape. */
static hr_status tensor_take(hr_weights *w, const char *place, size_t at, const hr_desc *desc, weight *found,
                             hr_error *err) {
  if (at == SIZE_MAX) return HR_OK;
  w->taken[at] = true;
  found->tensor = hr__safetensors_at(w->file, at);
  HR_TRY(dtype_match(place, found->tensor, &found->stored, err));
  return shape_match(place, found->tensor, desc, err);
}

/* Looks for one parameter in the file; *found stays without a tensor where it is missing. */
static hr_status weight_find(hr_weights *w, const char *folder, const char *name, const hr_desc *desc, weight *found,
                             hr_error *err) {
  char other[HR_TENSOR_NAME];
  const hr_model *model = w->part->model;
  size_t at = tensor_find(w, name);
  for (int i = 0; at == SIZE_MAX && model->other_name && model->other_name(name, i, other); i++)
    at = tensor_find(w, other);
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
    if (w->weights[i].tensor || g->buffers[g->values[i].buffer].role == HR_ROLE_STATE) continue;
    name_add(&missing, name);
    head = head || tensor_left(w, name);
  }
  for (size_t i = 0; i < g->n_packed; i++) {
    if (!(name = public_name(w, g->packed[i].name))) continue;
    HR_TRY(weight_find(w, folder, name, &g->packed[i].desc, &w->packed[i], err));
    if (!w->packed[i].tensor) name_add(&missing, name);
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
  for (size_t i = 0; i < hr__safetensors_count(w->file); i++) {
    name = hr__safetensors_at(w->file, i)->name;
    if (!w->taken[i] && !tensor_left(w, name)) name_add(&unused, name);
  }
  if (unused.count) {
    return hr__fail(err, HR_BAD_INPUT, folder, "make model.config agree with the checkpoint (layers, biases)",
                    "%zu of the checkpoint's tensors %s not in the model: %s%s", unused.count,
                    unused.count == 1 ? "is" : "are", unused.text, unused.count > 3 ? ", ..." : "");
  }
  return HR_OK;
}

static hr_status folder_open(hr_weights *w, const char *folder, hr_error *err) {
  static const char *const names[] = {"model.safetensors", "model.safetensors.index.json"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    const char *path = hr__arena_format(&w->arena, "%s/%s", folder, names[i]);
    if (!path) return hr__nomem(err);
    if (access(path, F_OK) == 0) return hr__safetensors_open(path, &w->file, err);
  }
  return hr__fail(err, HR_BAD_INPUT, folder, "give a folder with weights, or model.config to start from fresh ones",
                  "there is neither %s nor %s in this folder", names[0], names[1]);
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
  w->weights = hr__arena_array(&w->arena, w->graph->n_values, sizeof *w->weights);
  w->packed = hr__arena_array(&w->arena, w->graph->n_packed + 1, sizeof *w->packed);
  w->taken = hr__arena_array(&w->arena, hr__safetensors_count(w->file) + 1, sizeof *w->taken);
  return w->weights && w->packed && w->taken ? HR_OK : hr__nomem(err);
}

hr_status hr__weights_open(const char *folder, const hr_graph *graph, const hr_model_part *part, hr_weights **out,
                           hr_error *err) {
  *out = NULL;
  hr_weights *w;
  HR_TRY(weights_create(graph, &w, err));
  w->part = part;
  hr_status status = folder_open(w, folder, err);
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
                           const hr_desc *desc, weight *found, hr_error *err) {
  char text[HR_TENSOR_NAME];
  const char *called = file_name(names, name, text);
  return tensor_take(w, path, called ? tensor_find(w, called) : SIZE_MAX, desc, found, err);
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
  for (size_t i = 0; i < hr__safetensors_count(w->file) && !*missed; i++)
    if (!w->taken[i]) snprintf(missed, 256, "%s", hr__safetensors_at(w->file, i)->name);
  return HR_OK;
}

hr_status hr__weights_open_file(const char *path, const hr_graph *graph, const hr_weight_names *names,
                                bool (*wanted)(const hr_graph *graph, hr_id value), char missed[256], hr_weights **out,
                                hr_error *err) {
  hr_weights *w;
  HR_TRY(weights_create(graph, &w, err));
  hr_status status = hr__safetensors_open(path, &w->file, err);
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
  if (w->file) hr__safetensors_close(w->file);
  hr__arena_fini(&w->arena);
  hr__free(w);
}

/* Loops over two fixed types each, so that the compiler vectorises them where it can. */
HR_CLONES static void f32_from_bf16(float *to, const uint16_t *from, size_t count) {
  for (size_t i = 0; i < count; i++)
    to[i] = hr__bf16_to_f32(from[i]);
}
HR_CLONES static void f32_from_f16(float *to, const uint16_t *from, size_t count) {
  for (size_t i = 0; i < count; i++)
    to[i] = hr__f16_to_f32(from[i]);
}
HR_CLONES static void bf16_from_f32(uint16_t *to, const float *from, size_t count) {
  for (size_t i = 0; i < count; i++)
    to[i] = hr__f32_to_bf16(from[i]);
}
HR_CLONES static void bf16_from_f16(uint16_t *to, const uint16_t *from, size_t count) {
  for (size_t i = 0; i < count; i++)
    to[i] = hr__f32_to_bf16(hr__f16_to_f32(from[i]));
}
HR_CLONES static void f16_from_f32(uint16_t *to, const float *from, size_t count) {
  for (size_t i = 0; i < count; i++)
    to[i] = hr__f32_to_f16(from[i]);
}
HR_CLONES static void f16_from_bf16(uint16_t *to, const uint16_t *from, size_t count) {
  for (size_t i = 0; i < count; i++)
    to[i] = hr__f32_to_f16(hr__bf16_to_f32(from[i]));
}

static void convert(hr_dtype to_type, void *to, hr_dtype from_type, const void *from, size_t count) {
  if (to_type == HR_F32 && from_type == HR_BF16) f32_from_bf16(to, from, count);
  if (to_type == HR_F32 && from_type == HR_F16) f32_from_f16(to, from, count);
  if (to_type == HR_BF16 && from_type == HR_F32) bf16_from_f32(to, from, count);
  if (to_type == HR_BF16 && from_type == HR_F16) bf16_from_f16(to, from, count);
  if (to_type == HR_F16 && from_type == HR_F32) f16_from_f32(to, from, count);
  if (to_type == HR_F16 && from_type == HR_BF16) f16_from_bf16(to, from, count);
}

enum {
  PIECE = 1 << 14, /* elements that one thread reads at a time */
  WINDOW = 1 << 13 /* elements that are converted at a time, on the stack */
};

/* Elements [first, first + count) of a tensor, read by several threads. */
typedef struct reading {
  const hr_weights *weights;
  const weight *source;
  hr_dtype dtype; /* that they become */
  int64_t first, count;
  char *to;
  int failed; /* set by the first thread that fails, which also says how */
  hr_status status;
  hr_error err;
} reading;

static hr_status piece_read(const reading *r, int64_t first, int64_t count, char *to, hr_error *err) {
  size_t stored_bytes = hr_dtype_bytes(r->source->stored), bytes = hr_dtype_bytes(r->dtype);
  uint64_t offset = (uint64_t)first * stored_bytes;
  size_t left = (size_t)count;
  if (r->source->stored == r->dtype)
    return hr__safetensors_read(r->weights->file, r->source->tensor, offset, to, left * bytes, err);
  float window[WINDOW]; /* as large as the largest type that is stored */
  while (left > 0) {
    size_t piece = left < WINDOW ? left : WINDOW;
    HR_TRY(hr__safetensors_read(r->weights->file, r->source->tensor, offset, window, piece * stored_bytes, err));
    convert(r->dtype, to, r->source->stored, window, piece);
    to += piece * bytes;
    offset += piece * stored_bytes;
    left -= piece;
  }
  return HR_OK;
}

static void piece_task(void *arg, int64_t task, int worker) {
  reading *r = arg;
  (void)worker;
  int64_t at = task * PIECE, count = r->count - at < PIECE ? r->count - at : PIECE;
  hr_error err = {0};
  hr_status status = piece_read(r, r->first + at, count, r->to + (size_t)at * hr_dtype_bytes(r->dtype), &err);
  if (status == HR_OK || __atomic_exchange_n(&r->failed, 1, __ATOMIC_RELAXED)) return;
  r->status = status;
  r->err = err;
}

static hr_status source_read(const hr_weights *w, const weight *source, hr_dtype dtype, int64_t first, int64_t count,
                             void *to, hr_error *err) {
  assert(source->tensor && first >= 0 && count >= 0);
  assert(dtype == HR_F32 || dtype == HR_BF16 || dtype == HR_F16);
  reading r = {.weights = w, .source = source, .dtype = dtype, .first = first, .count = count, .to = to};
  hr__pool_run(w->pool, w->pool ? hr__pool_threads(w->pool) : 1, (count + PIECE - 1) / PIECE, piece_task, &r);
  if (r.failed && err) *err = r.err;
  return r.status;
}

void hr__weights_share(hr_weights *w, hr_pool *pool) {
  w->pool = pool;
}

bool hr__weights_has(const hr_weights *w, hr_id parameter) {
  return w->weights[parameter].tensor != NULL;
}

bool hr__weights_has_packed(const hr_weights *w, size_t packed) {
  return w->packed[packed].tensor != NULL;
}

hr_status hr__weights_read(const hr_weights *w, hr_id parameter, int64_t first, int64_t count, void *to,
                           hr_error *err) {
  const hr_desc *desc = &w->graph->values[parameter].desc;
  assert(first + count <= hr_desc_count(desc));
  return source_read(w, &w->weights[parameter], desc->dtype, first, count, to, err);
}

hr_status hr__weights_read_packed(const hr_weights *w, size_t packed, int64_t first, int64_t count, float *to,
                                  hr_error *err) {
  assert(packed < w->graph->n_packed && first + count <= hr_desc_count(&w->graph->packed[packed].desc));
  return source_read(w, &w->packed[packed], HR_F32, first, count, to, err);
}
