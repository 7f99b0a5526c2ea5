/* See origin.h. */
#include "train/origin.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "format/item.h"
#include "format/safetensors.h"
#include "text/tokenizer.h"
#include "train/store.h"

#define ADAPTER_CONFIG "adapter_config.json"

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
  for (size_t i = 0; o->adapter && i < sizeof kept / sizeof *kept; i++) {
    const char *text = run_setting(&settings, kept[i]);
    if (text) HR_TRY(setting_add(o, arena, err, "%s=%s", kept[i], text));
  }
  return tokenizer ? HR_OK : run_tokenizer_add(&settings, arena, o, err);
}

/* --- adapters ----------------------------------------------------------------------------------------------------- */

static hr_status unsupported_check(const hr_item *root, hr_error *err) {
  static const char *const flags[] = {"use_dora", "fan_in_fan_out", "lora_bias"};
  static const char *const patterns[] = {"rank_pattern", "alpha_pattern", "modules_to_save"};
  hr_item kind = hr__item_get(root, "peft_type"), bias = hr__item_get(root, "bias");
  if (!json_is_string(kind.value) || strcmp(json_string_value(kind.value), "LORA") != 0)
    return hr__item_fail(&kind, err, "use an adapter of LoRA", "this is no adapter of LoRA");
  if (json_is_string(bias.value) && strcmp(json_string_value(bias.value), "none") != 0)
    return hr__item_fail(&bias, err, "merge the adapter with the tool that made it",
                         "trained biases are not supported");
  for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
    hr_item item = hr__item_get(root, flags[i]);
    if (json_is_true(item.value))
      return hr__item_fail(&item, err, "merge the adapter with the tool that made it", "%s is not supported", flags[i]);
  }
  for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
    hr_item item = hr__item_get(root, patterns[i]);
    if (json_object_size(item.value) > 0 || json_array_size(item.value) > 0)
      return hr__item_fail(&item, err, "merge the adapter with the tool that made it", "%s is not supported",
                           patterns[i]);
  }
  return HR_OK;
}

/* The modules that have an adapter are those that the file has matrices for. */
static hr_status targets_list(const char *folder, hr_arena *arena, const char **out, hr_error *err) {
  static const char ending[] = ".lora_A.weight";
  const char *path = hr__arena_format(arena, "%s/%s", folder, HR_PEFT_FILE), *list = "";
  hr_safetensors *file;
  if (!path) return hr__nomem(err);
  HR_TRY(hr__safetensors_open(path, &file, err));
  for (size_t i = 0; i < hr__safetensors_count(file) && list; i++) {
    const char *name = hr__safetensors_at(file, i)->name;
    size_t length = strlen(name), prefix = strlen(HR_PEFT_PREFIX), tail = sizeof ending - 1;
    if (length <= prefix + tail || strncmp(name, HR_PEFT_PREFIX, prefix) != 0 ||
        strcmp(name + length - tail, ending) != 0)
      continue;
    list =
        hr__arena_format(arena, "%s%s\"%.*s\"", list, *list ? ", " : "", (int)(length - prefix - tail), name + prefix);
  }
  hr__safetensors_close(file);
  if (list && !*list)
    return hr__fail(err, HR_BAD_INPUT, path, "use an adapter of LoRA as PEFT writes it", "there are no adapters in it");
  *out = list;
  return list ? HR_OK : hr__nomem(err);
}

/* A relative base is looked for beside the adapter, then from here. */
static hr_status base_find(const char *folder, const hr_item *base, hr_arena *arena, const char **out, hr_error *err) {
  const char *text;
  size_t bytes;
  if (!base->value)
    return hr__item_fail(base, err, "train adapters beside a model in a folder: model.path",
                         "the adapter names no base model: it was trained beside random weights");
  HR_TRY(hr__item_text(base, false, &text, &bytes, err));
  const char *beside = *text == '/' ? text : hr__arena_format(arena, "%s/%s", folder, text);
  if (!beside) return hr__nomem(err);
  *out = is_there(beside, "config.json", arena) ? beside : text;
  if (is_there(*out, "config.json", arena)) return HR_OK;
  return hr__item_fail(base, err, "put the base model there, or give its folder: --set model.path=DIR",
                       "the adapter's base model %.200s has no config.json", *out);
}

static hr_status adapter_read(const char *folder, hr_arena *arena, hr_origin *o, hr_error *err) {
  hr_item_file file;
  const char *targets, *path = hr__arena_format(arena, "%s/%s", folder, ADAPTER_CONFIG);
  int64_t rank;
  bool stabilised = false;
  if (!path) return hr__nomem(err);
  HR_TRY(hr__item_open(path, arena, &file, err));
  hr_item root = hr__item_root(&file), base = hr__item_get(&root, "base_model_name_or_path");
  hr_item rank_item = hr__item_get(&root, "r"), alpha = hr__item_get(&root, "lora_alpha");
  hr_item rslora = hr__item_get(&root, "use_rslora");
  HR_TRY(unsupported_check(&root, err));
  HR_TRY(base_find(folder, &base, arena, &o->model, err));
  HR_TRY(hr__item_int(&rank_item, false, 1, 1 << 20, &rank, err));
  HR_TRY(hr__item_bool(&rslora, true, &stabilised, err));
  if (!json_is_number(alpha.value)) return hr__item_fail(&alpha, err, NULL, "lora_alpha is not a number");
  HR_TRY(targets_list(folder, arena, &targets, err));
  o->adapter = folder;
  const char *all = hr__arena_format(
      arena, "model.adapters={kind: lora, rank: %" PRId64 ", alpha: %.17g, rank_stabilised: %s, targets: [%s]}", rank,
      json_number_value(alpha.value), stabilised ? "true" : "false", targets);
  if (!all) return hr__nomem(err);
  o->settings[o->n_settings++] = all;
  return HR_OK;
}

/* --- models ------------------------------------------------------------------------------------------------------- */

/* Weights are held as the checkpoint has them. */
static hr_status precision_read(hr_arena *arena, hr_origin *o, hr_error *err) {
  hr_item_file file;
  const char *path = hr__arena_format(arena, "%s/config.json", o->model);
  if (!path) return hr__nomem(err);
  HR_TRY(hr__item_open(path, arena, &file, err));
  hr_item root = hr__item_root(&file), type = hr__item_get(&root, "dtype");
  if (!json_is_string(type.value)) type = hr__item_get(&root, "torch_dtype");
  const char *name = json_is_string(type.value) ? json_string_value(type.value) : "";
  bool half = strcmp(name, "float16") == 0, narrow = strcmp(name, "bfloat16") == 0;
  return setting_add(o, arena, err, "model.precision=%s", narrow ? "bf16-true" : half ? "16-mixed" : "32-true");
}

hr_status hr__origin_find(const char *path, hr_arena *arena, hr_origin *o, hr_error *err) {
  *o = (hr_origin){0};
  struct stat facts;
  const char *folder = NULL;
  if (stat(path, &facts) != 0 || !S_ISDIR(facts.st_mode))
    return hr__fail(err, HR_BAD_INPUT, path, "give the folder of a model, of an adapter, or of a run",
                    "there is no such folder");
  HR_TRY(checkpoint_find(path, arena, o, &folder, err));
  if (!folder) folder = path;
  if (is_there(folder, ADAPTER_CONFIG, arena))
    HR_TRY(adapter_read(folder, arena, o, err));
  else if (is_there(folder, "config.json", arena))
    o->model = folder;
  else
    return hr__fail(err, HR_BAD_INPUT, path, "give the folder of a model, of an adapter, or of a run",
                    "there is neither a config.json nor an adapter_config.json in this folder");
  const char *const places[] = {o->model, folder, path};
  size_t place = 0;
  while (place < 3 && !hr__tokenizer_is_there(places[place]))
    place++;
  if (place == 1 || place == 2) HR_TRY(setting_add(o, arena, err, "data.tokenizer=%s", places[place]));
  if (o->step > 0) HR_TRY(run_read(folder, place < 3, arena, o, err));
  return precision_read(arena, o, err);
}
