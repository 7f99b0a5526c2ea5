/* See stored.h. */
#include "model/stored.h"

#include <assert.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "format/gguf.h"
#include "format/gguf_blocks.h"
#include "model/convert.h"
#include "model/gguf.h"

struct hr_stored {
  hr_safetensors *file; /* either this, */
  hr_gguf *gguf;        /* or this */
  hr_arena arena;
  hr_stored_tensor *tensors; /* sorted by name */
  size_t count;
  /* Of a GGUF file, per tensor. */
  struct gguf_source {
    const hr_gguf_tensor *tensor;
    hr_gguf_weight weight;
  } * sources;
};

/* A file of weights in a format that is not read, such as pickled ones: its name. */
static bool other_format(const char *folder, char name[256]) {
  static const char *const endings[] = {".bin", ".pt", ".pth", ".ckpt", ".h5", ".msgpack", ".npz"};
  static const char *const beginnings[] = {"pytorch_model", "model", "tf_model", "flax_model", "consolidated"};
  DIR *files = opendir(folder);
  bool found = false;
  for (struct dirent *entry; files && !found && (entry = readdir(files)) != NULL;) {
    const char *dot = strrchr(entry->d_name, '.');
    bool begins = false, ends = false;
    for (size_t i = 0; i < sizeof beginnings / sizeof *beginnings; i++)
      begins |= strncmp(entry->d_name, beginnings[i], strlen(beginnings[i])) == 0;
    for (size_t i = 0; dot && i < sizeof endings / sizeof *endings; i++)
      ends |= strcmp(dot, endings[i]) == 0;
    found = begins && ends;
    if (found) snprintf(name, 256, "%s", entry->d_name);
  }
  if (files) closedir(files);
  return found;
}

bool hr__stored_is_there(const char *path) {
  static const char *const names[] = {"model.safetensors", "model.safetensors.index.json"};
  char file[4096], other[256];
  if (hr__gguf_is_name(path)) return true;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (snprintf(file, sizeof file, "%s/%s", path, names[i]) < (int)sizeof file && access(file, F_OK) == 0) return true;
  return other_format(path, other);
}

static hr_status folder_open(hr_stored *s, const char *folder, hr_error *err) {
  static const char *const names[] = {"model.safetensors", "model.safetensors.index.json"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    const char *path = hr__arena_format(&s->arena, "%s/%s", folder, names[i]);
    if (!path) return hr__nomem(err);
    if (access(path, F_OK) == 0) return hr__safetensors_open(path, &s->file, err);
  }
  char other[256], remedy[sizeof err->remedy];
  if (other_format(folder, other)) {
    snprintf(remedy, sizeof remedy,
             "convert them: python -c \"from transformers import AutoModelForCausalLM as M; "
             "M.from_pretrained('%.160s').save_pretrained('%.160s')\"",
             folder, folder);
    return hr__fail(err, HR_BAD_INPUT, folder, remedy, "its weights are not safetensors but %.100s, which is not read",
                    other);
  }
  return hr__fail(err, HR_BAD_INPUT, folder, "give a folder with weights, or model.config to start from fresh ones",
                  "there is neither %s nor %s in this folder", names[0], names[1]);
}

static const char *const type_names[HR_DTYPE_COUNT] = {[HR_F32] = "F32", [HR_BF16] = "BF16", [HR_F16] = "F16"};

static hr_dtype dtype_of(const char *type) {
  for (int d = 0; d < HR_DTYPE_COUNT; d++)
    if (type_names[d] && strcmp(type, type_names[d]) == 0) return (hr_dtype)d;
  return HR_DTYPE_COUNT;
}

static hr_status safetensors_list(hr_stored *s, hr_error *err) {
  s->count = hr__safetensors_count(s->file);
  s->tensors = hr__arena_array(&s->arena, s->count + 1, sizeof *s->tensors);
  if (!s->tensors) return hr__nomem(err);
  for (size_t i = 0; i < s->count; i++) {
    const hr_safetensor *from = hr__safetensors_at(s->file, i);
    s->tensors[i] = (hr_stored_tensor){from->name, from->dtype, dtype_of(from->dtype), from->rank, {0}};
    memcpy(s->tensors[i].dim, from->dim, sizeof from->dim);
  }
  return HR_OK;
}

/* --- GGUF --------------------------------------------------------------------------------------------------------- */

static int by_public_name(const void *a, const void *b) {
  return strcmp(((const struct gguf_source *)a)->weight.name, ((const struct gguf_source *)b)->weight.name);
}

static hr_status gguf_tensor(hr_stored *s, const struct gguf_source *from, hr_stored_tensor *out, hr_error *err) {
  const hr_gguf_type *type = hr__gguf_type(from->tensor->type);
  hr_dtype plain = dtype_of(type->name);
  const char *name = hr__arena_text(&s->arena, from->weight.name);
  if (!name) return hr__nomem(err);
  *out = (hr_stored_tensor){.name = name, .type = type->name, .rank = from->tensor->rank};
  out->dtype = plain != HR_DTYPE_COUNT ? plain : type->to_f32 ? HR_F32 : HR_DTYPE_COUNT;
  memcpy(out->dim, from->tensor->dim, sizeof from->tensor->dim);
  return HR_OK;
}

static hr_status gguf_list(hr_stored *s, const char *path, hr_error *err) {
  size_t all = hr__gguf_count(s->gguf);
  s->sources = hr__arena_array(&s->arena, all + 1, sizeof *s->sources);
  s->tensors = hr__arena_array(&s->arena, all + 1, sizeof *s->tensors);
  if (!s->sources || !s->tensors) return hr__nomem(err);
  for (size_t i = 0; i < all; i++) {
    struct gguf_source *to = &s->sources[s->count];
    to->tensor = hr__gguf_at(s->gguf, i);
    hr_status status = hr__gguf_weight(s->gguf, to->tensor, &to->weight, err);
    if (status != HR_OK && err && !err->place[0]) snprintf(err->place, sizeof err->place, "%s", path);
    HR_TRY(status);
    s->count += to->weight.name[0] != 0;
  }
  qsort(s->sources, s->count, sizeof *s->sources, by_public_name);
  for (size_t i = 0; i < s->count; i++) {
    HR_TRY(gguf_tensor(s, &s->sources[i], &s->tensors[i], err));
    if (i > 0 && strcmp(s->tensors[i].name, s->tensors[i - 1].name) == 0)
      return hr__fail(err, HR_BAD_INPUT, path, NULL, "two tensors of the file are %s", s->tensors[i].name);
  }
  return HR_OK;
}

enum { WINDOW = 1 << 13 }; /* elements that are converted at a time, on the stack */

/* Rows may lie in another order, and blocks of a type are read whole: a run of blocks within a row at a time. */
static hr_status gguf_read(const hr_stored *s, size_t index, hr_dtype dtype, int64_t first, int64_t count, char *to,
                           hr_error *err) {
  const struct gguf_source *from = &s->sources[index];
  int64_t block = hr__gguf_type(from->tensor->type)->elements;
  int64_t width = hr__gguf_row_width(from->tensor, &from->weight);
  size_t bytes = hr_dtype_bytes(dtype);
  float window[WINDOW];
  while (count > 0) {
    int64_t row = first / width, column = first % width, begin = column / block * block;
    int64_t wanted = width - column < count ? width - column : count;
    int64_t blocks = (column + wanted - begin + block - 1) / block * block;
    if (blocks > WINDOW) blocks = WINDOW / block * block;
    if (wanted > begin + blocks - column) wanted = begin + blocks - column;
    HR_TRY(hr__gguf_row_read(s->gguf, from->tensor, &from->weight, row, begin, blocks, window, err));
    hr__convert(dtype, to, HR_F32, window + (column - begin), (size_t)wanted);
    to += (size_t)wanted * bytes;
    first += wanted;
    count -= wanted;
  }
  return HR_OK;
}

/* ------------------------------------------------------------------------------------------------------------------ */

static hr_status stored_fill(hr_stored *s, const char *path, hr_error *err) {
  struct stat facts;
  if (hr__gguf_is_name(path)) {
    HR_TRY(hr__gguf_open_lean(path, &s->gguf, err));
    return gguf_list(s, path, err);
  }
  bool is_file = stat(path, &facts) == 0 && !S_ISDIR(facts.st_mode);
  HR_TRY(is_file ? hr__safetensors_open(path, &s->file, err) : folder_open(s, path, err));
  return safetensors_list(s, err);
}

hr_status hr__stored_open(const char *path, hr_stored **out, hr_error *err) {
  hr_stored *s = hr__alloc_zero(1, sizeof *s);
  *out = NULL;
  if (!s) return hr__nomem(err);
  hr__arena_init(&s->arena);
  hr_status status = stored_fill(s, path, err);
  if (status == HR_OK)
    *out = s;
  else
    hr__stored_close(s);
  return status;
}

void hr__stored_close(hr_stored *s) {
  if (!s) return;
  if (s->file) hr__safetensors_close(s->file);
  hr__gguf_close(s->gguf);
  hr__arena_fini(&s->arena);
  hr__free(s);
}

size_t hr__stored_count(const hr_stored *s) {
  return s->count;
}

const hr_stored_tensor *hr__stored_at(const hr_stored *s, size_t index) {
  return &s->tensors[index];
}

size_t hr__stored_find(const hr_stored *s, const char *name) {
  size_t low = 0, high = s->count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    int order = strcmp(name, s->tensors[middle].name);
    if (order == 0) return middle;
    if (order < 0)
      high = middle;
    else
      low = middle + 1;
  }
  return SIZE_MAX;
}

int64_t hr__stored_elements(const hr_stored_tensor *tensor) {
  int64_t count = 1;
  for (int d = 0; d < tensor->rank; d++)
    count *= tensor->dim[d];
  return count;
}

hr_status hr__stored_read(const hr_stored *s, size_t index, hr_dtype dtype, int64_t first, int64_t count, void *to,
                          hr_error *err) {
  const hr_stored_tensor *t = &s->tensors[index];
  assert(dtype == HR_F32 || dtype == HR_BF16 || dtype == HR_F16);
  assert(first >= 0 && count >= 0 && first + count <= hr__stored_elements(t));
  if (s->gguf) return gguf_read(s, index, dtype, first, count, to, err);
  const hr_safetensor *tensor = hr__safetensors_at(s->file, index);
  size_t stored = hr_dtype_bytes(t->dtype), bytes = hr_dtype_bytes(dtype), left = (size_t)count;
  uint64_t offset = (uint64_t)first * stored;
  if (t->dtype == dtype) return hr__safetensors_read(s->file, tensor, offset, to, left * bytes, err);
  float window[WINDOW]; /* as large as the largest type that is stored */
  for (char *at = to; left > 0;) {
    size_t piece = left < WINDOW ? left : WINDOW;
    HR_TRY(hr__safetensors_read(s->file, tensor, offset, window, piece * stored, err));
    hr__convert(dtype, at, t->dtype, window, piece);
    at += piece * bytes;
    offset += piece * stored;
    left -= piece;
  }
  return HR_OK;
}

hr_stored_bytes hr__stored_bytes(const hr_stored *s, size_t index) {
  const hr_stored_tensor *t = &s->tensors[index];
  if (!s->gguf) {
    const hr_safetensor *tensor = hr__safetensors_at(s->file, index);
    return (hr_stored_bytes){tensor->dtype, tensor->end - tensor->begin};
  }
  if (t->dtype == HR_DTYPE_COUNT) return (hr_stored_bytes){0};
  return (hr_stored_bytes){type_names[t->dtype], (uint64_t)hr__stored_elements(t) * hr_dtype_bytes(t->dtype)};
}

hr_status hr__stored_copy(const hr_stored *s, size_t index, uint64_t at, size_t bytes, void *to, hr_error *err) {
  if (!s->gguf) return hr__safetensors_read(s->file, hr__safetensors_at(s->file, index), at, to, bytes, err);
  hr_dtype dtype = s->tensors[index].dtype;
  size_t element = hr_dtype_bytes(dtype);
  return gguf_read(s, index, dtype, (int64_t)(at / element), (int64_t)(bytes / element), to, err);
}
