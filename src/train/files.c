/* See files.h. */
#include "train/files.h"

#include <string.h>

#include "pass/adapters.h"
#include "train/adapter.h"
#include "train/config.h"

#define CONFIG "config.json"

static const size_t TRAINING = sizeof HR_FILE_TRAINING - 1;

static bool is_for_training(const char *name) {
  return strncmp(name, HR_FILE_TRAINING, TRAINING) == 0;
}

/* "text/config.json", "training/text/ema.safetensors". */
const char *hr__run_file_name(const hr_model_part *part, const char *file, hr_arena *arena) {
  if (!*part->name) return file;
  if (!is_for_training(file)) return hr__arena_format(arena, "%s/%s", part->name, file);
  return hr__arena_format(arena, HR_FILE_TRAINING "%s/%s", part->name, file + TRAINING);
}

const char *hr__run_file_old_name(const char *name) {
  return is_for_training(name) ? name + TRAINING : name;
}

const char *hr__run_file_in(const hr_manifest *manifest, const char *name) {
  const hr_manifest_file *file = hr__manifest_file(manifest, name);
  if (!file) file = hr__manifest_file(manifest, hr__run_file_old_name(name));
  return file ? file->name : NULL;
}

static hr_status folders_add(hr_run_names *out, const char *part, hr_arena *arena, hr_error *err) {
  const char *training = hr__arena_format(arena, HR_FILE_TRAINING "%s", part);
  if (!training) return hr__nomem(err);
  out->folders[out->n_folders++] = part;
  out->folders[out->n_folders++] = training;
  return HR_OK;
}

static hr_status name_add(hr_run_names *out, const hr_model_part *part, const char *file, hr_arena *arena,
                          hr_error *err) {
  const char *name = hr__run_file_name(part, file, arena);
  if (!name) return hr__nomem(err);
  out->list[out->count++] = name;
  if (is_for_training(name)) out->list[out->count++] = hr__run_file_old_name(name);
  return HR_OK;
}

hr_status hr__run_names(const hr_recipe *recipe, hr_arena *arena, hr_run_names *out, hr_error *err) {
  static const char *const bases[] = {CONFIG, HR_FILE_MODEL, HR_PEFT_CONFIG, HR_PEFT_FILE, HR_FILE_AVERAGES};
  hr_model_parts parts;
  hr__parts_read(recipe, &parts);
  *out = (hr_run_names){.list = {HR_FILE_OPTIMIZER, hr__run_file_old_name(HR_FILE_OPTIMIZER)}, .count = 2};
  out->folders[out->n_folders++] = "training";
  for (size_t p = 0; p < parts.count; p++) {
    if (p > 0) HR_TRY(folders_add(out, parts.part[p].name, arena, err));
    for (size_t i = 0; i < sizeof bases / sizeof *bases; i++)
      HR_TRY(name_add(out, &parts.part[p], bases[i], arena, err));
    for (size_t i = 0; hr__companion_name(i); i++)
      HR_TRY(name_add(out, &parts.part[p], hr__companion_name(i), arena, err));
  }
  return HR_OK;
}

void hr__run_names_add(hr_run_names *names, const hr_run_files *files) {
  for (size_t f = 0; f < files->count; f++) {
    size_t i = 0;
    while (i < names->count && strcmp(names->list[i], files->list[f].name) != 0)
      i++;
    if (i == names->count && i < HR_RUN_FILES) names->list[names->count++] = files->list[f].name;
  }
}

bool hr__run_file_has_tensors(const hr_run_file *file) {
  return !file->text && !file->copied;
}

typedef struct filing {
  const hr_recipe *recipe;
  const hr_graph *graph;
  const hr_tensors *tensors;
  hr_model_parts parts;
  hr_arena *arena;
  hr_run_files *out;
} filing;

/* Adds a file; its name is in place. */
static hr_status file_add(filing *f, size_t p, const char *base, hr_run_file file, hr_error *err) {
  file.name = hr__run_file_name(&f->parts.part[p], base, f->arena);
  if (!file.name) return hr__nomem(err);
  f->out->list[f->out->count++] = file;
  return HR_OK;
}

/* Adapters are no model: a config.json beside them would say so to programs that load either. */
static hr_status config_add(filing *f, size_t p, hr_error *err) {
  hr_run_file file = {0};
  if (hr__lora_given(&f->parts.part[p])) return HR_OK;
  HR_TRY(hr__part_config(&f->parts.part[p], f->arena, &file.text, &file.bytes, err));
  return file.text ? file_add(f, p, CONFIG, file, err) : HR_OK;
}

static bool is_whole(const filing *f, size_t p, const hr_tensor_file *file) {
  size_t parameters = 0, listed = 0;
  const hr_graph *g = f->graph;
  for (hr_id v = 0; v < g->n_values; v++)
    parameters += hr__graph_is_tensor(g, v) && g->buffers[g->values[v].buffer].role == HR_ROLE_PARAMETER &&
                  !g->values[v].keep_f32 && hr__parts_of(&f->parts, g->values[v].name) == p;
  for (size_t i = 0; i < file->count; i++)
    listed += g->buffers[g->values[file->values[i]].buffer].role == HR_ROLE_PARAMETER;
  return listed == parameters;
}

/* What the checkpoint of a part has that the graph has not, where all that the graph has is in the file: what is less
 * than a model needs its base for the rest as well. NULL: nothing. */
static hr_status kept_find(filing *f, size_t p, const hr_tensor_file *file, const hr_kept **out, hr_error *err) {
  const hr_model_part *part = &f->parts.part[p];
  hr_kept *kept = &f->out->kept[p];
  size_t count = kept->count;
  kept->count = 0;
  for (size_t i = 0; i < count; i++) {
    const char *dot = *part->name ? "." : "";
    const char *name = hr__arena_format(f->arena, "%s%s%s", part->name, dot, kept->list[i].name);
    if (!name) return hr__nomem(err);
    if (hr__graph_find_value(f->graph, name) != HR_NONE) continue; /* a model that makes use of this head of a part */
    kept->list[kept->count] = kept->list[i];
    kept->numbers[kept->count++] = kept->numbers[i];
  }
  *out = kept->count > 0 && is_whole(f, p, file) ? kept : NULL;
  return HR_OK;
}

/* What is trained of a part: its adapters, or its own weights. */
static hr_status tensors_add(filing *f, size_t p, bool adapters, hr_error *err) {
  const hr_tensors *t = f->tensors;
  hr_tensor_file file = {.names = {.prefix = adapters ? HR_PEFT_PREFIX : ""}};
  if (p > 0) file.names.drop = strlen(f->parts.part[p].name) + 1;
  hr_id *values = hr__arena_array(f->arena, t->n_parameters + 1, sizeof *values);
  if (!values) return hr__nomem(err);
  for (size_t i = 0; i < t->n_parameters; i++) {
    const hr_value *v = &f->graph->values[t->parameters[i]];
    if (v->keep_f32 == adapters && hr__parts_of(&f->parts, v->name) == p) values[file.count++] = t->parameters[i];
  }
  file.values = values;
  if (file.count == 0) return HR_OK;
  if (!adapters) HR_TRY(kept_find(f, p, &file, &file.kept, err));
  return file_add(f, p, adapters ? HR_PEFT_FILE : HR_FILE_MODEL, (hr_run_file){.tensors = file}, err);
}

/* Averages of what is trained of a part, under the names that it has in its own file. */
static hr_status averages_add(filing *f, size_t p, bool adapters, hr_error *err) {
  const hr_tensors *t = f->tensors;
  hr_tensor_file file = {.names = {.prefix = adapters ? HR_PEFT_PREFIX : "", .drop = strlen(HR_AVERAGE_PREFIX)}};
  if (p > 0) file.names.drop += strlen(f->parts.part[p].name) + 1;
  hr_id *values = hr__arena_array(f->arena, t->n_averages + 1, sizeof *values);
  if (!values) return hr__nomem(err);
  for (size_t i = 0; i < t->n_averages; i++) {
    const char *parameter = f->graph->values[t->averages[i]].name + strlen(HR_AVERAGE_PREFIX);
    if (hr__parts_of(&f->parts, parameter) == p) values[file.count++] = t->averages[i];
  }
  file.values = values;
  return file.count > 0 ? file_add(f, p, HR_FILE_AVERAGES, (hr_run_file){.tensors = file}, err) : HR_OK;
}

static hr_status adapters_add(filing *f, size_t p, hr_error *err) {
  hr_run_file config = {0};
  HR_TRY(hr__adapter_config(&f->parts, p, f->graph, f->arena, &config.text, &config.bytes, err));
  if (!config.text) return averages_add(f, p, false, err);
  HR_TRY(file_add(f, p, HR_PEFT_CONFIG, config, err));
  HR_TRY(tensors_add(f, p, true, err));
  return averages_add(f, p, true, err);
}

static hr_status companions_add(filing *f, size_t p, hr_error *err) {
  const hr_companions *c = f->out->companions[p];
  for (size_t i = 0; i < c->count; i++)
    HR_TRY(file_add(f, p, c->list[i].name, (hr_run_file){.copied = &c->list[i]}, err));
  return HR_OK;
}

static hr_status files_add(filing *f, hr_error *err) {
  const hr_tensors *t = f->tensors;
  for (size_t p = 0; p < f->parts.count; p++) {
    HR_TRY(config_add(f, p, err));
    HR_TRY(tensors_add(f, p, false, err));
  }
  HR_TRY(file_add(f, 0, HR_FILE_OPTIMIZER,
                  (hr_run_file){.tensors = {.values = t->state, .count = t->n_state, .names = {.prefix = ""}}}, err));
  for (size_t p = 0; p < f->parts.count; p++) {
    HR_TRY(adapters_add(f, p, err));
    HR_TRY(companions_add(f, p, err));
  }
  return HR_OK;
}

hr_status hr__run_files_open(const hr_recipe *recipe, hr_arena *arena, hr_run_files *out, hr_error *err) {
  hr_model_parts parts;
  hr_status status = HR_OK;
  hr__parts_read(recipe, &parts);
  *out = (hr_run_files){.count = 0};
  for (size_t p = 0; p < parts.count && status == HR_OK; p++) {
    hr_companions *c = hr__arena_alloc(arena, sizeof *c);
    status =
        c ? hr__companions_open(recipe, &parts.part[p], hr__lora_given(&parts.part[p]), arena, c, err) : hr__nomem(err);
    if (status == HR_OK) out->companions[p] = c;
    if (status == HR_OK) status = hr__kept_open(&parts.part[p], arena, &out->kept[p], err);
  }
  if (status != HR_OK) hr__run_files_close(out);
  return status;
}

hr_status hr__run_files(const hr_recipe *recipe, const hr_tensors *tensors, hr_arena *arena, hr_run_files *out,
                        hr_error *err) {
  filing f = {.recipe = recipe, .graph = hr__run_graph(tensors->run), .tensors = tensors, .arena = arena, .out = out};
  hr__parts_read(recipe, &f.parts);
  out->count = 0;
  hr_status status = files_add(&f, err);
  if (status != HR_OK) hr__run_files_close(out);
  return status;
}

void hr__run_files_add(hr_run_files *files, const char *name, void *state, size_t bytes) {
  files->list[files->count++] = (hr_run_file){.name = name, .text = state, .bytes = bytes, .restored = state};
}

void hr__run_files_close(hr_run_files *files) {
  for (size_t p = 0; p < sizeof files->companions / sizeof *files->companions; p++) {
    if (files->companions[p]) hr__companions_close(files->companions[p]);
    files->companions[p] = NULL;
    hr__kept_close(&files->kept[p]);
  }
  files->count = 0;
}
