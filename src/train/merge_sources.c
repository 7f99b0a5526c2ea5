/* Where the tensors of a merged model come from. */
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "format/file.h"
#include "format/json.h"
#include "model/model.h"
#include "train/files.h"
#include "train/merging.h"

static bool is_file(const char *folder, const char *name) {
  char path[HR_STORE_PATH];
  struct stat facts;
  return snprintf(path, sizeof path, "%s/%s", folder, name) < (int)sizeof path && stat(path, &facts) == 0 &&
         S_ISREG(facts.st_mode);
}

/* A setting of a run, as text; NULL: it had none. */
static hr_status setting_text(const hr_manifest *manifest, const char *path, hr_arena *arena, const char **out,
                              hr_error *err) {
  json_t *value = NULL;
  json_error_t fault;
  *out = NULL;
  for (size_t i = 0; i < manifest->n_settings; i++) {
    if (strcmp(manifest->settings[i].path, path) != 0) continue;
    const char *list = hr__arena_format(arena, "[%s]", manifest->settings[i].value);
    if (!list) return hr__nomem(err);
    HR_TRY(hr__json_load(list, strlen(list), arena, &value, &fault, err));
    *out = json_string_value(json_array_get(value, 0));
  }
  return HR_OK;
}

/* The manifest of a folder that is one checkpoint of a run. */
static hr_status manifest_read(hr_merging *m, hr_manifest *manifest, hr_error *err) {
  char *text;
  size_t bytes;
  const char *path = hr__arena_format(&m->arena, "%s/%s", m->folder, HR_MANIFEST_NAME);
  if (!path) return hr__nomem(err);
  HR_TRY(hr__file_read(path, HR_MANIFEST_MAX_BYTES, &m->arena, &text, &bytes, err));
  return hr__manifest_parse(path, text, bytes, &m->arena, manifest, err);
}

/* The folder itself where it is a model or an adapter, else its newest checkpoint. */
static hr_status folder_find(hr_merging *m, hr_manifest *manifest, hr_error *err) {
  const char *run = m->options->run;
  struct stat facts;
  if (stat(run, &facts) != 0 || !S_ISDIR(facts.st_mode))
    return hr__fail(err, HR_BAD_INPUT, run, "give the folder of a run, of adapters or of a model",
                    "there is no such folder");
  m->folder = run;
  if (is_file(run, HR_MANIFEST_NAME)) return manifest_read(m, manifest, err);
  if (hr__peft_is_there(run) || is_file(run, "config.json")) return HR_OK;
  HR_TRY(hr__generation_newest(run, &m->arena, &m->folder, manifest, err));
  if (m->folder) return HR_OK;
  return hr__fail(err, HR_BAD_INPUT, run, "give the folder of a run, of adapters or of a model",
                  "there is neither a checkpoint of a run in this folder, nor adapters, nor a model");
}

/* What is not in the folder: the base of adapters, or the frozen weights of a run. */
static hr_status base_find(hr_merging *m, const hr_manifest *manifest, hr_error *err) {
  bool frozen = manifest->state.base[0] != 0;
  m->base = m->options->base;
  if (!m->base && m->adapters) m->base = m->peft.base;
  if (!m->base && frozen) HR_TRY(setting_text(manifest, "model.path", &m->arena, &m->base, err));
  if (!m->base && !m->adapters && !frozen) return HR_OK;
  if (!m->base)
    return hr__fail(err, HR_BAD_INPUT, m->folder, "give the folder of its base with --base",
                    "it does not say which base it belongs to");
  if (access(m->base, F_OK) == 0) return hr__stored_open(m->base, &m->original, err);
  return hr__fail(err, HR_BAD_INPUT, m->folder, "put it back, or say where it is now with --base",
                  "its base \"%.300s\" is not there", m->base);
}

static hr_status files_open(hr_merging *m, hr_error *err) {
  hr_manifest *manifest = hr__arena_alloc(&m->arena, sizeof *manifest);
  if (!manifest) return hr__nomem(err);
  HR_TRY(folder_find(m, manifest, err));
  if (hr__peft_is_there(m->folder)) {
    HR_TRY(hr__peft_read(m->folder, &m->arena, &m->peft, err));
    HR_TRY(hr__peft_open(m->folder, &m->adapters, err));
  }
  HR_TRY(base_find(m, manifest, err));
  if (m->adapters && !is_file(m->folder, HR_FILE_MODEL)) return HR_OK;
  return hr__stored_open(m->folder, &m->trained, err);
}

static hr_status tensor_add(hr_merging *m, const hr_stored *file, size_t index, hr_merge_result *result) {
  const hr_stored_tensor *t = hr__stored_at(file, index);
  if (t->dtype == HR_DTYPE_COUNT) {
    result->left++;
    return HR_OK;
  }
  hr_dtype dtype = m->options->dtype == HR_DTYPE_COUNT ? t->dtype : m->options->dtype;
  m->tensors[m->count++] = (hr_merged){file, index, SIZE_MAX, SIZE_MAX, dtype};
  return HR_OK;
}

/* Another name, number `n` from 0 on, that checkpoints of some family have for a tensor; NULL: no more. */
static const char *other_name(const char *name, int n, char out[HR_TENSOR_NAME]) {
  const hr_model *model;
  for (size_t i = 0; (model = hr__model_at(i)); i++)
    for (int k = 0; model->other_name && model->other_name(name, k, out); k++)
      if (n-- == 0) return out;
  return NULL;
}

/* What was trained must not stand beside what it was before under another name: a reader would take either. */
static hr_status names_agree(const hr_merging *m, hr_error *err) {
  char other[HR_TENSOR_NAME];
  size_t count = m->trained && m->original ? hr__stored_count(m->trained) : 0;
  for (size_t i = 0; i < count; i++) {
    const char *name = hr__stored_at(m->trained, i)->name;
    for (int n = 0; other_name(name, n, other); n++)
      if (hr__stored_find(m->original, name) == SIZE_MAX && hr__stored_find(m->original, other) != SIZE_MAX)
        return hr__fail(err, HR_BAD_INPUT, m->folder, "train adapters, or all weights",
                        "the base has %.160s, which was trained, under the name %.160s: they cannot be one model", name,
                        other);
  }
  return HR_OK;
}

/* Both files are sorted: their union is, by one walk along both. What was trained goes before what it was before. */
static hr_status tensors_list(hr_merging *m, hr_merge_result *result, hr_error *err) {
  size_t n_trained = m->trained ? hr__stored_count(m->trained) : 0, i = 0, k = 0;
  size_t n_original = m->original ? hr__stored_count(m->original) : 0;
  m->tensors = hr__arena_array(&m->arena, n_trained + n_original + 1, sizeof *m->tensors);
  if (!m->tensors) return hr__nomem(err);
  while (i < n_trained || k < n_original) {
    int order = i == n_trained    ? 1
                : k == n_original ? -1
                                  : strcmp(hr__stored_at(m->trained, i)->name, hr__stored_at(m->original, k)->name);
    HR_TRY(order <= 0 ? tensor_add(m, m->trained, i, result) : tensor_add(m, m->original, k, result));
    i += order <= 0;
    k += order >= 0;
  }
  return HR_OK;
}

static hr_merged *tensor_find(hr_merging *m, const char *name) {
  for (size_t i = 0; i < m->count; i++)
    if (strcmp(hr__stored_at(m->tensors[i].file, m->tensors[i].index)->name, name) == 0) return &m->tensors[i];
  return NULL;
}

/* The weight that adapters go with; NULL: it is not there. */
static hr_merged *adapted_find(hr_merging *m, const char *weight) {
  char other[HR_TENSOR_NAME];
  const char *dot = strchr(weight, '.');
  hr_merged *t = tensor_find(m, weight);
  for (int n = 0; !t && other_name(weight, n, other); n++)
    t = tensor_find(m, other);
  return t || !dot ? t : tensor_find(m, dot + 1); /* a base that has the body alone, without the name of it */
}

static hr_status adapter_place(hr_merging *m, const char *module, hr_error *err) {
  const char *weight = hr__arena_format(&m->arena, "%s.weight", module);
  const char *a = hr__arena_format(&m->arena, HR_PEFT_PREFIX "%s" HR_PEFT_A, module);
  const char *b = hr__arena_format(&m->arena, HR_PEFT_PREFIX "%s" HR_PEFT_B, module);
  if (!weight || !a || !b) return hr__nomem(err);
  hr_merged *t = adapted_find(m, weight);
  if (!t)
    return hr__fail(err, HR_BAD_INPUT, m->base, "give the base of these adapters with --base",
                    "there is no %.160s, which the adapters belong to", weight);
  t->a = hr__stored_find(m->adapters, a);
  t->b = hr__stored_find(m->adapters, b);
  const hr_stored_tensor *w = hr__stored_at(t->file, t->index);
  if (w->rank == 2 && hr__stored_at(m->adapters, t->a)->dim[1] == w->dim[1] &&
      hr__stored_at(m->adapters, t->b)->dim[0] == w->dim[0])
    return HR_OK;
  return hr__fail(err, HR_BAD_INPUT, m->base, "give the base of these adapters with --base",
                  "%.160s has another shape than the adapters' matrices make", weight);
}

static hr_status merging_fill(hr_merging *m, hr_merge_result *result, hr_error *err) {
  HR_TRY(files_open(m, err));
  HR_TRY(names_agree(m, err));
  HR_TRY(tensors_list(m, result, err));
  for (size_t i = 0; m->adapters && i < m->peft.n_modules; i++)
    HR_TRY(adapter_place(m, m->peft.modules[i], err));
  result->adapters = m->adapters ? m->peft.n_modules : 0;
  result->tensors = m->count;
  return HR_OK;
}

hr_status hr__merging_open(const hr_merge_options *options, hr_merging *out, hr_merge_result *result, hr_error *err) {
  *out = (hr_merging){.options = options};
  hr__arena_init(&out->arena);
  return merging_fill(out, result, err);
}

void hr__merging_close(hr_merging *m) {
  hr__stored_close(m->trained);
  hr__stored_close(m->original);
  hr__stored_close(m->adapters);
  hr__arena_fini(&m->arena);
}
