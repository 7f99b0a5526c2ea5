/* The settings of data and training, and the one place where all key tables meet. */
#include "job/settings.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "compile/compile.h"
#include "format/gguf.h"
#include "job/engine.h"
#include "model/model.h"
#include "plan/memory.h"

static const hr_key keys[] = {
    {.path = HR_STAGES,
     .type = HR_KEY_TREE,
     .example = "{first: {training: {steps: 100}}, second: {model: {train: all}}}",
     .meaning = "versions of this recipe that are trained one after the other: settings that differ, by name"},
    {.path = HR_STAGE,
     .type = HR_KEY_TEXT,
     .chooses = HR_STAGES,
     .meaning = "one of the stages, alone (default: all of them, in order)"},
    {.path = "training.steps",
     .type = HR_KEY_INT,
     .fallback = "1000",
     .min = 1,
     .max = 1e12,
     .meaning = "optimizer steps of the whole run, or of a stage"},
    {.path = "training.epochs",
     .type = HR_KEY_FLOAT,
     .min = 1e-6,
     .max = 1e9,
     .meaning = "passes over the data, in place of steps"},
    {.path = "training.schedule.kind",
     .type = HR_KEY_CHOICE,
     .fallback = "constant",
     .choices = "constant|linear|cosine",
     .meaning = "learning rate after warm-up: the highest to the end, falling in a line, or falling as a cosine"},
    {.path = "training.schedule.warmup_steps",
     .type = HR_KEY_INT,
     .fallback = "0",
     .min = 0,
     .max = 1e12,
     .meaning = "steps in which the learning rate rises from 0"},
    {.path = "training.schedule.warmup_ratio",
     .type = HR_KEY_FLOAT,
     .min = 0,
     .max = 1,
     .meaning = "in place of warmup_steps: the part of the run in which the learning rate rises, 0.03 for 3 %"},
    {.path = "training.schedule.min_lr_ratio",
     .type = HR_KEY_FLOAT,
     .fallback = "0",
     .min = 0,
     .max = 1,
     .meaning = "linear, cosine: learning rate at the end, as a part of the highest"},
    {.path = "training.loss_scale.init",
     .type = HR_KEY_FLOAT,
     .fallback = "65536",
     .min = 1,
     .max = 1e30,
     .meaning = "16-mixed: factor on the loss at the beginning"},
    {.path = "training.loss_scale.growth_interval",
     .type = HR_KEY_INT,
     .fallback = "2000",
     .min = 1,
     .max = 1e12,
     .meaning = "16-mixed: steps without overflow after which the loss scale grows"},
    {.path = "training.loss_scale.growth",
     .type = HR_KEY_FLOAT,
     .fallback = "2",
     .min = 1,
     .max = 1e6,
     .meaning = "16-mixed: factor by which the loss scale grows"},
    {.path = "training.loss_scale.backoff",
     .type = HR_KEY_FLOAT,
     .fallback = "0.5",
     .min = 1e-6,
     .max = 0.999999,
     .meaning = "16-mixed: factor on the loss scale after a step that overflowed and was skipped"},
    {.path = "training.save_every",
     .type = HR_KEY_INT,
     .min = 1,
     .max = 1e12,
     .meaning = "steps between checkpoints; the end of a run is always saved"},
    {.path = "training.save_minutes",
     .type = HR_KEY_FLOAT,
     .min = 0,
     .max = 1e6,
     .meaning = "minutes between checkpoints, 0: none by time (default: 30, where save_every is not given)"},
    {.path = "training.keep",
     .type = HR_KEY_INT,
     .fallback = "2",
     .min = 1,
     .max = 1e6,
     .meaning = "newest checkpoints that stay; an older one is removed when the newest is whole"},
    {.path = "training.save_best",
     .type = HR_KEY_BOOL,
     .fallback = "false",
     .meaning = "true: an evaluation that is the best so far is saved, and stays as `best` however many are kept"},
    {.path = "training.patience",
     .type = HR_KEY_INT,
     .min = 1,
     .max = 1e9,
     .meaning = "evaluations in a row without a better one after which the run ends early; never unless given"},
    {.path = "training.best.metric",
     .type = HR_KEY_TEXT,
     .fallback = "loss",
     .meaning = "what decides which evaluation is the best: loss, or the name of one of the model's losses or metrics"},
    {.path = "training.best.order",
     .type = HR_KEY_CHOICE,
     .fallback = "lowest",
     .choices = "lowest|highest",
     .meaning = "whether the best evaluation has the lowest metric or the highest"},
    {.path = "training.best.min_delta",
     .type = HR_KEY_FLOAT,
     .fallback = "0",
     .min = 0,
     .max = 1e12,
     .meaning = "an evaluation counts as better only by more than this"},
    {.path = "training.eval_batches",
     .type = HR_KEY_INT,
     .fallback = "8",
     .min = 1,
     .max = 1e9,
     .meaning = "batches of one evaluation"},
    {.path = "training.log_every",
     .type = HR_KEY_INT,
     .fallback = "1",
     .min = 1,
     .max = 1e12,
     .meaning = "steps between lines of log.jsonl"},
    {.path = "training.tensorboard",
     .type = HR_KEY_BOOL,
     .fallback = "false",
     .meaning = "TensorBoard's event files beside log.jsonl: losses, metrics, speed, memory, generated texts"},
    {.path = "training.seed",
     .type = HR_KEY_INT,
     .fallback = "1",
     .min = 0,
     .max = 9007199254740992.0,
     .meaning = "seed of first weights, data order and rounding"},
};
const hr_key_table hr_train_keys = {keys, sizeof keys / sizeof keys[0]};

void hr__settings_tables(hr_key_table out[HR_SETTINGS_TABLES]) {
  hr__compile_tables(out);
  out[HR_COMPILE_TABLES] = hr_train_keys;
  out[HR_COMPILE_TABLES + 1] = hr_memory_keys;
  out[HR_COMPILE_TABLES + 2] = hr_engine_keys;
}

hr_status hr__settings_keys(hr_arena *arena, hr_key_table *out, hr_error *err) {
  hr_key_table tables[HR_SETTINGS_TABLES];
  const hr_key_table *all[HR_SETTINGS_TABLES + HR_MODEL_TABLES];
  hr__settings_tables(tables);
  all[0] = &tables[0]; /* of models; those of families follow */
  size_t count = 1 + hr__model_tables(all + 1, HR_MODEL_TABLES);
  for (size_t t = 1; t < HR_SETTINGS_TABLES; t++)
    all[count++] = &tables[t];
  return hr__keys_list(all, count, "model", arena, out, err);
}

hr_status hr__settings_parse(const char *name, const char *folder, const char *text, size_t bytes,
                             const char *const *overrides, size_t n_overrides, hr_recipe **out, hr_error *err) {
  hr_key_table tables[HR_SETTINGS_TABLES];
  hr__settings_tables(tables);
  return hr__recipe_parse(name, folder, text, bytes, overrides, n_overrides, tables, HR_SETTINGS_TABLES, out, err);
}

bool hr__settings_is_checkpoint(const char *path) {
  struct stat facts;
  return stat(path, &facts) == 0 && (S_ISDIR(facts.st_mode) || hr__gguf_is_name(path));
}

static bool overridden(const char *const *overrides, size_t count, const char *path) {
  size_t length = strlen(path);
  for (size_t i = 0; i < count; i++)
    if (strncmp(overrides[i], path, length) == 0 && overrides[i][length] == '=') return true;
  return false;
}

hr_status hr__settings_data(const char *path, const char *const *overrides, size_t n_overrides, hr_error *err) {
  if (!hr__settings_is_checkpoint(path) || overridden(overrides, n_overrides, "data.path") ||
      overridden(overrides, n_overrides, "data.source"))
    return HR_OK;
  return hr__fail(err, HR_USAGE, path, "give --data FILE, or try it on random tokens: --set data.source=synthetic",
                  "there is a model to train, but no data");
}

hr_status hr__settings_evaluated(const hr_recipe *recipe, hr_error *err) {
  static const char data[] = "data.eval_path", best[] = "training.save_best", patience[] = "training.patience";
  if (hr__recipe_has(recipe, "training.eval_every")) return HR_OK;
  if (hr__recipe_has(recipe, data))
    return hr__recipe_fail(recipe, data, "set training.eval_every, or leave data.eval_path out", err,
                           "there is data to evaluate on, but nothing is evaluated");
  const char *path = hr__recipe_bool(recipe, best) ? best : hr__recipe_has(recipe, patience) ? patience : NULL;
  if (!path) return HR_OK;
  return hr__recipe_fail(recipe, path, "set training.eval_every", err, "%s goes by evaluations, and there are none",
                         path);
}

/* What a bare folder of weights means, or a GGUF file: its model, fine-tuned on data of a common shape. Paths that are
 * given beside it begin here, not in that folder. */
static hr_status folder_parse(const char *path, int64_t length, const char *const *overrides, size_t n_overrides,
                              hr_recipe **out, hr_error *err) {
  char text[2 * PATH_MAX + 128];
  size_t used = (size_t)snprintf(text, sizeof text, "model: { path: '");
  for (const char *at = path; *at && used < 2 * PATH_MAX; at++) { /* quotes are doubled inside of quotes */
    if (*at == '\'') text[used++] = '\'';
    text[used++] = *at;
  }
  bool data = overridden(overrides, n_overrides, "data.path");
  used += (size_t)snprintf(text + used, sizeof text - used, "' }\ndata: { %ssequence_length: %d }\n",
                           data ? "" : "source: synthetic, ", (int)length);
  return hr__settings_parse(path, "", text, used, overrides, n_overrides, out, err);
}

static hr_status folder_load(const char *path, const char *const *overrides, size_t n_overrides, hr_recipe **out,
                             hr_error *err) {
  const int64_t common = 1024;
  HR_TRY(folder_parse(path, common, overrides, n_overrides, out, err));
  static const char positions[] = "model.config.max_position_embeddings";
  int64_t longest = hr__recipe_has(*out, positions) ? hr__recipe_int(*out, positions) : common;
  if (longest >= common) return HR_OK;
  hr__recipe_destroy(*out);
  *out = NULL;
  return folder_parse(path, longest, overrides, n_overrides, out, err);
}

hr_status hr__settings_load(const char *path, const char *const *overrides, size_t n_overrides, hr_recipe **out,
                            hr_error *err) {
  if (!*path) return hr__settings_parse("settings", ".", "", 0, overrides, n_overrides, out, err);
  if (hr__settings_is_checkpoint(path)) return folder_load(path, overrides, n_overrides, out, err);
  hr_key_table tables[HR_SETTINGS_TABLES];
  hr__settings_tables(tables);
  return hr__recipe_load(path, overrides, n_overrides, tables, HR_SETTINGS_TABLES, out, err);
}
