/* See origin.h. */
#include "train/origin.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "format/gguf.h"
#include "format/item.h"
#include "format/json.h"
#include "model/model.h"
#include "model/peft.h"
#include "text/tokenizer.h"
#include "train/store.h"

static bool is_there(const char *folder, const char *file, hr_arena *arena) {
  const char *path = hr__arena_format(arena, "%s/%s", folder, file);
  return path && access(path, F_OK) == 0;
}

__attribute__((format(printf, 4, 5))) static hr_status setting_add(hr_origin *o, hr_arena *arena, hr_error *err,
                                                                   const char *format, ...) {
  va_list list;
  va_start(list, format);
  char *text = hr__arena_alloc(arena, 4096);
  if (text) vsnprintf(text, 4096, format, list);
  va_end(list);
  if (!text) return hr__nomem(err);
  o->settings[o->n_settings++] = text;
  return HR_OK;
}

/* The newest checkpoint of a run that is whole; *folder stays NULL where the folder holds none. */
static hr_status checkpoint_find(const char *run, hr_arena *arena, hr_origin *o, const char **folder, hr_error *err) {
  hr_store *store = hr__arena_alloc(arena, sizeof *store);
  int64_t *steps;
  bool *committed;
  size_t count;
  if (!store) return hr__nomem(err);
  *store = (hr_store){.lock = -1};
  snprintf(store->out, sizeof store->out, "%s", run);
  HR_TRY(hr__store_list(store, arena, &steps, &committed, &count, err));
  for (size_t i = 0; i < count && !*folder; i++) {
    char path[HR_STORE_PATH];
    if (!committed[i]) continue;
    *folder = hr__arena_text(arena, hr__store_path(store, steps[i], NULL, path));
    if (!*folder) return hr__nomem(err);
    o->step = steps[i];
  }
  return HR_OK;
}

/* --- runs --------------------------------------------------------------------------------------------------------- */

/* A setting of the run that a checkpoint is of, as JSON text; NULL: it has none. */
static const char *run_setting(const hr_item *settings, const char *path) {
  const char *text = json_string_value(hr__item_get(settings, path).value);
  return text && strcmp(text, "null") != 0 ? text : NULL;
}

/* Tokens of a run whose folders have no tokenizer: as it was trained. */
static hr_status run_tokenizer_add(const hr_item *settings, hr_arena *arena, hr_origin *o, hr_error *err) {
  const char *named = run_setting(settings, "data.tokenizer"), *path = run_setting(settings, "model.path");
  if (named) return setting_add(o, arena, err, "data.tokenizer=%s", named);
  return path ? setting_add(o, arena, err, "data.tokenizer=%s", path)
              : setting_add(o, arena, err, "data.tokenizer=bytes");
}

/* What a checkpoint's manifest says of how its base was held, and of its tokens. */
static hr_status run_read(const char *folder, bool tokenizer, hr_arena *arena, hr_origin *o, hr_error *err) {
  static const char *const kept[] = {"model.quantize.kind", "model.quantize.double", "model.quantize.targets"};
  hr_item_file file;
  const char *path = hr__arena_format(arena, "%s/%s", folder, HR_MANIFEST_NAME);
  if (!path) return hr__nomem(err);
  HR_TRY(hr__item_open(path, arena, &file, err));
  hr_item root = hr__item_root(&file), settings = hr__item_get(&root, "settings");
  for (size_t i = 0; o->adapted && i < sizeof kept / sizeof *kept; i++) {
    const char *text = run_setting(&settings, kept[i]);
    if (text) HR_TRY(setting_add(o, arena, err, "%s=%s", kept[i], text));
  }
  return tokenizer ? HR_OK : run_tokenizer_add(&settings, arena, o, err);
}

/* --- adapters ----------------------------------------------------------------------------------------------------- */

/* Whether a path names a folder with a model's config, or a GGUF file. */
static bool model_is_there(const char *path, hr_arena *arena) {
  return hr__gguf_is_name(path) ? access(path, F_OK) == 0 : is_there(path, "config.json", arena);
}

/* A relative base is looked for beside the adapter, then from here. */
static hr_status base_find(const char *folder, const char *named, hr_arena *arena, const char **out, hr_error *err) {
  if (!named)
    return hr__fail(err, HR_BAD_INPUT, folder, "train adapters beside a model in a folder: model.path",
                    "the adapter names no base model: it was trained beside random weights");
  const char *beside = *named == '/' ? named : hr__arena_format(arena, "%s/%s", folder, named);
  if (!beside) return hr__nomem(err);
  *out = model_is_there(beside, arena) ? beside : named;
  if (model_is_there(*out, arena)) return HR_OK;
  return hr__fail(err, HR_BAD_INPUT, folder, "put the base model there, or give its folder: --set model.path=DIR",
                  "the adapter's base model %.200s is not there", named);
}

static hr_status adapter_read(const char *folder, hr_arena *arena, hr_origin *o, hr_error *err) {
  hr_peft peft;
  HR_TRY(hr__peft_read(folder, arena, &peft, err));
  HR_TRY(base_find(folder, peft.base, arena, &o->model, err));
  o->adapted = true;
  return setting_add(o, arena, err, "model.adapters.path=%s", folder);
}

/* --- models ------------------------------------------------------------------------------------------------------- */

/* Weights are held as the checkpoint has them; of blocks as bf16, which is near to what they give. */
static hr_status precision_read(hr_arena *arena, hr_origin *o, hr_error *err) {
  const char *place, *name = "";
  char *text;
  size_t bytes;
  json_t *root;
  json_error_t fault;
  if (hr__gguf_is_name(o->model)) return setting_add(o, arena, err, "model.precision=bf16-true");
  HR_TRY(hr__config_text(o->model, arena, &place, &text, &bytes, err));
  hr_status status = hr__json_load(text, bytes, arena, &root, &fault, err);
  if (status == HR_BAD_INPUT)
    return hr__fail(err, status, place, "put the file back", "line %d: %s", fault.line, fault.text);
  HR_TRY(status);
  const json_t *type = json_object_get(root, "dtype");
  if (!json_is_string(type)) type = json_object_get(root, "torch_dtype");
  if (json_is_string(type)) name = json_string_value(type);
  bool half = strcmp(name, "float16") == 0, narrow = strcmp(name, "bfloat16") == 0;
  return setting_add(o, arena, err, "model.precision=%s", narrow ? "bf16-true" : half ? "16-mixed" : "32-true");
}

hr_status hr__origin_find(const char *path, hr_arena *arena, hr_origin *o, hr_error *err) {
  *o = (hr_origin){0};
  struct stat facts;
  const char *folder = NULL;
  bool gguf = hr__gguf_is_name(path);
  bool there = stat(path, &facts) == 0;
  if (there && !gguf && !S_ISDIR(facts.st_mode))
    return hr__fail(err, HR_BAD_INPUT, path,
                    "give the folder of a run; headroom train makes one of a recipe, below out/ or where --out says",
                    "this is a file, and neither a folder of a model nor a GGUF file");
  if (!there)
    return hr__fail(err, HR_BAD_INPUT, path, "give the folder of a model, of an adapter, or of a run, or a GGUF file",
                    "there is no such %s", gguf ? "file" : "folder");
  if (!gguf) HR_TRY(checkpoint_find(path, arena, o, &folder, err));
  if (!folder) folder = path;
  if (hr__peft_is_there(folder))
    HR_TRY(adapter_read(folder, arena, o, err));
  else if (model_is_there(folder, arena))
    o->model = folder;
  else
    return hr__fail(err, HR_BAD_INPUT, path, "give the folder of a model, of an adapter, or of a run",
                    "there is neither a config.json nor an " HR_PEFT_CONFIG " in this folder");
  const char *const places[] = {o->model, folder, path};
  size_t place = 0;
  while (place < 3 && !hr__tokenizer_is_there(places[place]))
    place++;
  if (place == 1 || place == 2) HR_TRY(setting_add(o, arena, err, "data.tokenizer=%s", places[place]));
  if (o->step > 0) HR_TRY(run_read(folder, place < 3, arena, o, err));
  return precision_read(arena, o, err);
}
