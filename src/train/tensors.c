/* See tensors.h. */
#include "train/tensors.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/work.h"

static const char *dtype_file_name(hr_dtype dtype) {
  static const char *const names[HR_DTYPE_COUNT] = {
#define FILE_NAME(code, name, file_name, bytes) [code] = file_name,
      HR_DTYPE_MAP(FILE_NAME)
#undef FILE_NAME
  };
  return names[dtype];
}

static int by_name(const void *a, const void *b, void *graph) {
  const hr_graph *g = graph;
  return strcmp(g->values[*(const hr_id *)a].name, g->values[*(const hr_id *)b].name);
}

/* The persistent values of one role, sorted by name; of parameters those that are trained or carried. `state`: those of
 * the model's state with them. */
static hr_status role_list(hr_tensors *t, const hr_graph *graph, const bool *carried, hr_role role, bool state,
                           hr_id **out, size_t *count, hr_error *err) {
  hr_id *list = hr__arena_array(&t->arena, graph->n_values + 1, sizeof *list);
  if (!list) return hr__nomem(err);
  for (hr_id v = 0; v < graph->n_values; v++) {
    const hr_role own = graph->buffers[graph->values[v].buffer].role;
    const hr_value *value = &graph->values[v];
    if (!hr__graph_is_tensor(graph, v) || (own != role && !(state && own == HR_ROLE_STATE))) continue;
    if (own == HR_ROLE_PARAMETER && !value->trained && !(carried && carried[v])) {
      t->frozen = true;
      continue;
    }
    list[(*count)++] = v;
  }
  qsort_r(list, *count, sizeof *list, by_name, (void *)(uintptr_t)graph);
  *out = list;
  return HR_OK;
}

hr_status hr__tensors_create(hr_run *run, const bool *carried, hr_tensors *out, hr_error *err) {
  *out = (hr_tensors){.run = run};
  const hr_graph *graph = hr__run_graph(run);
  hr__arena_init(&out->arena);
  for (hr_id v = 0; v < graph->n_values; v++)
    out->adapters |= graph->values[v].keep_f32 && (graph->values[v].trained || (carried && carried[v]));
  hr_status status =
      role_list(out, graph, carried, HR_ROLE_PARAMETER, !out->adapters, &out->parameters, &out->n_parameters, err);
  if (status == HR_OK)
    status = role_list(out, graph, carried, HR_ROLE_OPTIMIZER, out->adapters, &out->state, &out->n_state, err);
  if (status == HR_OK)
    status = role_list(out, graph, carried, HR_ROLE_AVERAGE, false, &out->averages, &out->n_averages, err);
  if (status == HR_OK && !(out->window = hr__alloc(HR_WINDOW_BYTES))) status = hr__nomem(err);
  if (status != HR_OK) hr__tensors_destroy(out);
  return status;
}

void hr__tensors_destroy(hr_tensors *tensors) {
  hr__free(tensors->window);
  hr__arena_fini(&tensors->arena);
  *tensors = (hr_tensors){0};
}

enum { NAME_TEXT = 1280 };

static const char *name_in_file(const hr_tensor_names *names, const hr_value *v, char out[NAME_TEXT]) {
  snprintf(out, NAME_TEXT, "%s%s", names->prefix, v->name + names->drop);
  return out;
}

typedef hr_status (*piece_fn)(void *arg, const void *data, size_t bytes, hr_error *err);

/* Hands the bytes of a value to `fn` in order, in pieces of at most a window. */
static hr_status value_pieces(hr_tensors *t, hr_id value, piece_fn fn, void *arg, hr_error *err) {
  size_t all = hr_desc_bytes(&hr__run_graph(t->run)->values[value].desc);
  const unsigned char *address = hr__run_address(t->run, value);
  for (size_t at = 0; at < all; at += HR_WINDOW_BYTES) {
    size_t bytes = all - at < HR_WINDOW_BYTES ? all - at : HR_WINDOW_BYTES;
    if (!address) HR_TRY(hr__run_read(t->run, value, at, t->window, bytes, err));
    HR_TRY(fn(arg, address ? address + at : t->window, bytes, err));
  }
  return HR_OK;
}

static hr_status piece_put(void *arg, const void *data, size_t bytes, hr_error *err) {
  return hr__safetensors_writer_put(arg, data, bytes, err);
}

static hr_status piece_hash(void *arg, const void *data, size_t bytes, hr_error *err) {
  return hr__hash_update(arg, data, bytes, err);
}

static size_t n_kept(const hr_tensor_file *f) {
  return f->kept ? f->kept->count : 0;
}

/* What the header of a file says. NULL: out of memory. */
static hr_safetensor *list_make(hr_tensors *t, const hr_tensor_file *f, hr_arena *arena) {
  const hr_graph *graph = hr__run_graph(t->run);
  hr_safetensor *list = hr__arena_array(arena, f->count + n_kept(f) + 1, sizeof *list);
  uint64_t at = 0;
  for (size_t i = 0; list && i < f->count; i++) {
    const hr_value *v = &graph->values[f->values[i]];
    const char *bare = v->name + f->names.drop;
    const char *name = *f->names.prefix ? hr__arena_format(arena, "%s%s", f->names.prefix, bare) : bare;
    if (!name) return NULL;
    list[i] = (hr_safetensor){.name = name, .dtype = dtype_file_name(v->desc.dtype), .rank = v->desc.rank};
    memcpy(list[i].dim, v->desc.dim, sizeof v->desc.dim);
    list[i].begin = at;
    list[i].end = at += hr_desc_bytes(&v->desc);
  }
  for (size_t i = 0; list && i < n_kept(f); i++) {
    hr_safetensor *to = &list[f->count + i];
    *to = f->kept->list[i];
    to->begin = at;
    to->end = at += f->kept->list[i].end;
  }
  return list;
}

static const char *const metadata[] = {"format", "pt", NULL}; /* of every file */

hr_status hr__tensors_file_bytes(hr_tensors *t, const hr_tensor_file *f, uint64_t *bytes, hr_error *err) {
  hr_arena arena = {0};
  hr_safetensor *list = list_make(t, f, &arena);
  hr_status status =
      list ? hr__safetensors_file_bytes(list, f->count + n_kept(f), metadata, bytes, err) : hr__nomem(err);
  hr__arena_fini(&arena);
  return status;
}

hr_status hr__tensors_write(hr_tensors *t, const hr_tensor_file *f, const char *path, char hex[HR_SHA256_HEX],
                            uint64_t *bytes, bool *unread, hr_error *err) {
  hr_arena arena = {0};
  hr_safetensor *list = list_make(t, f, &arena);
  hr_safetensors_writer *writer = NULL;
  *unread = false;
  hr_status status =
      list ? hr__safetensors_writer_open(path, list, f->count + n_kept(f), metadata, &writer, err) : hr__nomem(err);
  for (size_t i = 0; i < f->count && status == HR_OK; i++)
    status = value_pieces(t, f->values[i], piece_put, writer, err);
  if (status == HR_OK && f->kept) status = hr__kept_put(f->kept, writer, t->window, HR_WINDOW_BYTES, unread, err);
  if (status == HR_OK) status = hr__safetensors_writer_finish(writer, hex, bytes, err);
  hr__safetensors_writer_destroy(writer);
  hr__arena_fini(&arena);
  return status;
}

static hr_status tensor_match(const hr_value *v, const hr_safetensor *tensor, const char *path, hr_error *err) {
  if (!tensor) return hr__fail(err, HR_BAD_INPUT, path, NULL, "tensor %s is missing", v->name);
  bool same = strcmp(tensor->dtype, dtype_file_name(v->desc.dtype)) == 0 && tensor->rank == v->desc.rank;
  for (int d = 0; same && d < v->desc.rank; d++)
    same = tensor->dim[d] == v->desc.dim[d];
  if (!same) return hr__fail(err, HR_BAD_INPUT, path, NULL, "tensor %s has another shape or type", v->name);
  return HR_OK;
}

/* Tensors of a file that are neither among `count` values that it has, nor kept. */
static size_t others_count(const hr_safetensors *file, const hr_tensor_file *f) {
  size_t others = hr__safetensors_count(file) - f->count;
  for (size_t i = 0; i < n_kept(f); i++)
    others -= hr__safetensors_find(file, f->kept->list[i].name) != NULL;
  return others;
}

static hr_status file_match(hr_tensors *t, const hr_tensor_file *f, const char *path, const hr_safetensors *file,
                            hr_error *err) {
  char name[NAME_TEXT];
  for (size_t i = 0; i < f->count; i++) {
    const hr_value *v = &hr__run_graph(t->run)->values[f->values[i]];
    HR_TRY(tensor_match(v, hr__safetensors_find(file, name_in_file(&f->names, v, name)), path, err));
  }
  if (others_count(file, f) > 0)
    return hr__fail(err, HR_BAD_INPUT, path, "put the weights back that the run has begun with (model.path)",
                    "the file holds %zu tensors, the run has %zu", hr__safetensors_count(file), f->count + n_kept(f));
  return HR_OK;
}

hr_status hr__tensors_match(hr_tensors *t, const hr_tensor_file *f, const char *path, hr_error *err) {
  hr_safetensors *file;
  HR_TRY(hr__safetensors_open(path, &file, err));
  hr_status status = file_match(t, f, path, file, err);
  hr__safetensors_close(file);
  return status;
}

static hr_status value_load(hr_tensors *t, hr_safetensors *file, const hr_tensor_names *names, hr_id value,
                            hr_error *err) {
  const hr_value *v = &hr__run_graph(t->run)->values[value];
  char name[NAME_TEXT];
  const hr_safetensor *tensor = hr__safetensors_find(file, name_in_file(names, v, name));
  size_t all = hr_desc_bytes(&v->desc);
  unsigned char *address = hr__run_address(t->run, value);
  for (size_t at = 0; at < all; at += HR_WINDOW_BYTES) {
    size_t bytes = all - at < HR_WINDOW_BYTES ? all - at : HR_WINDOW_BYTES;
    HR_TRY(hr__safetensors_read(file, tensor, at, address ? address + at : t->window, bytes, err));
    if (!address) HR_TRY(hr__run_write(t->run, value, at, t->window, bytes, err));
    hr__work_advance(bytes);
  }
  return HR_OK;
}

hr_status hr__tensors_read(hr_tensors *t, const hr_tensor_file *f, const char *path, hr_error *err) {
  hr_safetensors *file;
  HR_TRY(hr__safetensors_open(path, &file, err));
  hr_status status = file_match(t, f, path, file, err);
  for (size_t i = 0; i < f->count && status == HR_OK; i++)
    status = value_load(t, file, &f->names, f->values[i], err);
  hr__safetensors_close(file);
  return status;
}

typedef struct finite_check {
  hr_dtype dtype;
  bool finite;
} finite_check;

/* All exponent bits set: NaN or infinite. */
static hr_status piece_finite(void *arg, const void *data, size_t bytes, hr_error *err) {
  (void)err;
  finite_check *check = arg;
  const unsigned char *from = data;
  unsigned bad = 0;
  if (check->dtype == HR_F32) {
    for (size_t i = 0; i < bytes / 4; i++) {
      uint32_t word;
      memcpy(&word, from + 4 * i, 4);
      bad |= (word & 0x7f800000u) == 0x7f800000u;
    }
  } else if (check->dtype == HR_BF16 || check->dtype == HR_F16) {
    unsigned exponent = check->dtype == HR_BF16 ? 0x7f80u : 0x7c00u;
    for (size_t i = 0; i < bytes / 2; i++) {
      uint16_t half;
      memcpy(&half, from + 2 * i, 2);
      bad |= (half & exponent) == exponent;
    }
  }
  if (bad) check->finite = false;
  return HR_OK;
}

hr_status hr__tensors_finite(hr_tensors *t, const hr_id *values, size_t count, hr_error *err) {
  for (size_t i = 0; i < count; i++) {
    const hr_value *v = &hr__run_graph(t->run)->values[values[i]];
    finite_check check = {.dtype = v->desc.dtype, .finite = true};
    HR_TRY(value_pieces(t, values[i], piece_finite, &check, err));
    if (!check.finite)
      return hr__fail(err, HR_FAILURE, v->name,
                      "lower the learning rate or clip gradients (training.clip_norm); "
                      "--check-numerics names the node",
                      "this tensor has values that are not finite: not saved");
  }
  return HR_OK;
}

hr_status hr__tensors_sha256(hr_tensors *t, char hex[HR_SHA256_HEX], hr_error *err) {
  hr_hash *hash;
  HR_TRY(hr__hash_create(HR_HASH_SHA256, &hash, err));
  hr_status status = HR_OK;
  for (size_t i = 0; i < t->n_parameters && status == HR_OK; i++)
    status = value_pieces(t, t->parameters[i], piece_hash, hash, err);
  if (status == HR_OK) status = hr__hash_hex(hash, hex, err);
  hr__hash_destroy(hash);
  return status;
}
