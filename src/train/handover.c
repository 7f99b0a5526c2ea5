/* See handover.h. */
#include "train/handover.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool role_is(const hr_graph *g, hr_id value, hr_role role) {
  return value != HR_NONE && g->buffers[g->values[value].buffer].role == role;
}

static bool is_own(const hr_graph *g, hr_id value) {
  if (value == HR_NONE) return true; /* packed: refused below */
  return (role_is(g, value, HR_ROLE_PARAMETER) && !g->values[value].keep_f32) || role_is(g, value, HR_ROLE_STATE);
}

static bool is_adapter(const hr_graph *g, hr_id value) {
  return role_is(g, value, HR_ROLE_PARAMETER) && g->values[value].keep_f32;
}

static bool is_state(const hr_graph *g, hr_id value) {
  return role_is(g, value, HR_ROLE_STATE);
}

static bool is_average(const hr_graph *g, hr_id value) {
  return role_is(g, value, HR_ROLE_AVERAGE);
}

/* The files of a part that have something to hand over. What is in one that is `trained` must have a place here. */
typedef struct handed {
  const char *file, *before, *prefix;
  bool (*wanted)(const hr_graph *, hr_id);
  bool trained;
} handed;

static const handed kinds[] = {
    {HR_FILE_MODEL, "", "", is_own, true},
    {HR_PEFT_FILE, "", HR_PEFT_PREFIX, is_adapter, true},
    {HR_FILE_AVERAGES, HR_AVERAGE_PREFIX, "", is_average, false},
    {HR_FILE_AVERAGES, HR_AVERAGE_PREFIX, HR_PEFT_PREFIX, is_average, false},
    {HR_FILE_OPTIMIZER, "", "", is_state, false}, /* of a run with adapters, the state is there */
};

static hr_status packed_refuse(const hr_graph *graph, const hr_weights *file, const char *path, hr_error *err) {
  for (size_t i = 0; i < graph->n_packed; i++)
    if (hr__weights_has_packed(file, i))
      return hr__fail(err, HR_USAGE, path, "leave it out of quantize.kind in this stage, or train it in none",
                      "%s was trained in the stage before and is quantized in this one", graph->packed[i].name);
  return HR_OK;
}

static hr_status file_open(hr_handover *h, const hr_graph *graph, const handed *kind, const hr_model_part *part,
                           const char *path, hr_error *err) {
  char missed[256];
  hr_weight_names names = {kind->before, part->name, kind->prefix};
  if (access(path, F_OK) != 0) return HR_OK;
  hr_weights **file = &h->files[h->count++];
  HR_TRY(hr__weights_open_file(path, graph, &names, kind->wanted, part, missed, file, err));
  if (!kind->trained) return HR_OK;
  HR_TRY(packed_refuse(graph, *file, path, err));
  if (!*missed) return HR_OK;
  return hr__fail(err, HR_USAGE, path,
                  "keep its part, or its adapters, in this stage as well: train says what goes on, and "
                  "data.cache_features leaves a part out",
                  "the stage before has left %s, which this one does not have", missed);
}

static hr_status files_open(hr_handover *h, const char *folder, const hr_recipe *recipe, const hr_graph *graph,
                            hr_error *err) {
  hr_model_parts parts;
  hr__parts_read(recipe, &parts);
  for (size_t p = 0; p < parts.count; p++)
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
      if (p > 0 && strcmp(kinds[k].file, HR_FILE_OPTIMIZER) == 0) continue; /* one for all */
      const char *file = hr__run_file_name(&parts.part[p], kinds[k].file, &h->arena);
      const char *path = file ? hr__arena_format(&h->arena, "%s/%s", folder, file) : NULL;
      if (path && access(path, F_OK) != 0)
        path = hr__arena_format(&h->arena, "%s/%s", folder, hr__run_file_old_name(file));
      if (!path) return hr__nomem(err);
      HR_TRY(file_open(h, graph, &kinds[k], &parts.part[p], path, err));
    }
  return HR_OK;
}

static hr_status run_add(hr_handover *h, const char *run, const hr_recipe *recipe, const hr_graph *graph,
                         hr_error *err) {
  const char *folder;
  hr_manifest manifest;
  HR_TRY(hr__generation_newest(run, &h->arena, &folder, &manifest, err));
  if (!folder)
    return hr__fail(err, HR_USAGE, run, "train the stage before first, or put its folder back",
                    "there is no checkpoint of the stage that this one begins from");
  char both[2 * HR_XXH_HEX], own[HR_XXH_HEX];
  HR_TRY(hr__manifest_hash(&manifest, &h->arena, own, err));
  int bytes = snprintf(both, sizeof both, "%s%s", h->hash, own);
  if (h->hash[0])
    hr__xxh128_hex(both, (size_t)bytes, h->hash);
  else
    memcpy(h->hash, own, sizeof own);
  return files_open(h, folder, recipe, graph, err);
}

static hr_status handover_fill(hr_handover *h, const char *run, const char *const *also, const hr_recipe *recipe,
                               const hr_graph *graph, hr_error *err) {
  size_t runs = 1;
  while (also && also[runs - 1])
    runs++;
  h->files = hr__arena_array(&h->arena, runs * HR_RUN_FILES, sizeof(hr_weights *));
  if (!h->files) return hr__nomem(err);
  for (size_t i = 0; i < runs; i++)
    HR_TRY(run_add(h, i == 0 ? run : also[i - 1], recipe, graph, err));
  h->carried = hr__arena_array(&h->arena, graph->n_values + 1, sizeof *h->carried);
  if (!h->carried) return hr__nomem(err);
  for (hr_id v = 0; v < graph->n_values; v++)
    h->carried[v] = role_is(graph, v, HR_ROLE_PARAMETER) && !graph->values[v].trained && hr__handover_of(h, v);
  return HR_OK;
}

hr_status hr__handover_open(const char *run, const char *const *also, const hr_recipe *recipe, const hr_graph *graph,
                            hr_handover *out, hr_error *err) {
  *out = (hr_handover){0};
  hr__arena_init(&out->arena);
  hr_status status = handover_fill(out, run, also, recipe, graph, err);
  if (status != HR_OK) hr__handover_close(out);
  return status;
}

hr_weights *hr__handover_of(const hr_handover *h, hr_id value) {
  for (size_t f = 0; f < h->count; f++)
    if (h->files[f] && hr__weights_has(h->files[f], value)) return h->files[f];
  return NULL;
}

bool hr__handover_carries(const hr_handover *h, hr_id value) {
  return h->carried && value != HR_NONE && h->carried[value];
}

void hr__handover_release(hr_handover *h) {
  for (size_t f = 0; f < h->count; f++)
    hr__weights_close(h->files[f]);
  h->count = 0;
}

void hr__handover_close(hr_handover *h) {
  hr__handover_release(h);
  hr__arena_fini(&h->arena);
  *h = (hr_handover){0};
}
