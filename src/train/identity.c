/* See identity.h. */
#include "train/identity.h"

#include <inttypes.h>
#include <string.h>

#include "format/json.h"

typedef struct setting_list {
  hr_arena *arena;
  hr_run_setting *items;
  size_t count, capacity;
} setting_list;

static hr_status list_add(setting_list *list, const char *path, const char *value, bool fallback, hr_error *err) {
  if (hr__arena_grow(list->arena, (void **)&list->items, &list->capacity, list->count, sizeof *list->items) != 0)
    return hr__nomem(err);
  hr_run_setting setting = {hr__arena_text(list->arena, path), hr__arena_text(list->arena, value), fallback};
  list->items[list->count++] = setting;
  return setting.path && setting.value ? HR_OK : hr__nomem(err);
}

static hr_status list_add_count(setting_list *list, const char *path, uint64_t count, hr_error *err) {
  char number[32];
  snprintf(number, sizeof number, "%" PRIu64, count);
  return list_add(list, path, number, false, err);
}

/* Depth is that of the key tables, so recursion is shallow. */
static hr_status list_flatten(setting_list *list, const hr_recipe *recipe, const char *prefix, json_t *value,
                              hr_error *err) {
  if (json_is_object(value)) {
    const char *key;
    json_t *child;
    json_object_foreach(value, key, child) {
      const char *path = prefix[0] ? hr__arena_format(list->arena, "%s.%s", prefix, key) : key;
      if (!path) return hr__nomem(err);
      HR_TRY(list_flatten(list, recipe, path, child, err));
    }
    return HR_OK;
  }
  char *text;
  size_t bytes;
  HR_TRY(hr__json_text(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(15), list->arena,
                       &text, &bytes, err));
  bool key = hr__recipe_has(recipe, prefix); /* else inside a tree, which is never there by default */
  return list_add(list, prefix, text, key && !hr__recipe_given(recipe, prefix), err);
}

/* Samples of a step: "16", or "0:16 4:8" by epoch. Lines are dealt into micro-batches, so there the batch counts too.
 */
static hr_status list_add_shape(setting_list *list, const hr_training_shape *shape, hr_error *err) {
  const char *text = NULL;
  for (int i = 0; i < shape->n_schedule; i++) {
    int64_t samples = shape->batch * shape->schedule[i].accumulation;
    text = shape->n_schedule == 1 ? hr__arena_format(list->arena, "%" PRId64, samples)
                                  : hr__arena_format(list->arena, "%s%s%" PRId64 ":%" PRId64, i ? text : "",
                                                     i ? " " : "", shape->schedule[i].epoch, samples);
    if (!text) return hr__nomem(err);
  }
  HR_TRY(list_add(list, "run.samples_per_step", text, false, err));
  return shape->ragged ? list_add_count(list, "run.rows_per_batch", (uint64_t)shape->batch, err) : HR_OK;
}

/* Facts of the data to train on, and of that to evaluate on where it has files of its own. Runs that were saved before
 * there was a hash do not have it, so it counts as there by default. */
enum { DATA_FACTS = 4 };
static const struct {
  const char *path[2], *difference;
} data_facts[DATA_FACTS] = {
    {{"run.data_bytes", "run.eval_bytes"}, "it has another length"},
    {{"run.data_hash", "run.eval_hash"}, "it has the same length, but other bytes or another tokenizer"},
    {{"run.data_pieces_hash", "run.eval_pieces_hash"}, "it has the same length, but other bytes"},
    {{"run.data_changed_ns", "run.eval_changed_ns"},
     "it was changed at another time (of a file this large only pieces are compared)"},
};

static hr_status list_add_data(setting_list *list, const hr_data *data, bool eval, hr_error *err) {
  hr_trace trace;
  const hr_data_file *file;
  uint64_t bytes = 0;
  for (size_t i = 0; (file = hr__data_file(data, eval, i)); i++)
    bytes += file->bytes;
  char hash[HR_XXH_HEX + 2], changed[32];
  HR_TRY(hr__data_trace(data, eval, &trace, err));
  HR_TRY(list_add_count(list, data_facts[0].path[eval], bytes, err));
  if (!eval) HR_TRY(list_add_count(list, "run.data_windows", (uint64_t)hr__data_train_samples(data), err));
  if (trace.hash[0] == 0) return HR_OK;
  snprintf(hash, sizeof hash, "\"%s\"", trace.hash);
  HR_TRY(list_add(list, data_facts[trace.whole ? 1 : 2].path[eval], hash, true, err));
  if (trace.whole) return HR_OK;
  snprintf(changed, sizeof changed, "%" PRId64, trace.changed_ns);
  return list_add(list, data_facts[3].path[eval], changed, true, err);
}

hr_status hr__identity_list(const hr_recipe *recipe, const hr_data *data, const hr_training_shape *shape,
                            const char *begun_from, const char *features, hr_arena *arena, hr_run_setting **out,
                            size_t *count, hr_error *err) {
  setting_list list = {.arena = arena};
  json_t *root = hr__recipe_json(recipe);
  hr_status status = root ? list_flatten(&list, recipe, "", root, err) : hr__nomem(err);
  json_decref(root);
  HR_TRY(status);
  HR_TRY(list_add_shape(&list, shape, err));
  HR_TRY(list_add_data(&list, data, false, err));
  if (hr__data_own_eval(data)) HR_TRY(list_add_data(&list, data, true, err));
  if (*begun_from) HR_TRY(list_add(&list, "run.begun_from", begun_from, false, err));
  if (*features) HR_TRY(list_add(&list, "run.features_of", features, false, err));
  *out = list.items;
  *count = list.count;
  return HR_OK;
}

static bool may_change(const char *path) {
  static const char *const free_paths[] = {
      "stages", /* what this one has of them is compared by itself */
      "training.steps",
      "training.epochs",
      "training.save_every",
      "training.save_minutes",
      "training.keep",
      "training.save_best",
      "training.patience",
      "training.best.min_delta",
      "training.eval_every",
      "training.eval_batches",
      "training.log_every",
      "training.tensorboard",
      "training.gradient_norms",
      "training.generation_every", /* and what its samples are */
      "training.generation_prompts",
      "training.generation_tokens",
      "generation",
      "training.batch_size",
      "training.effective_batch",
      "training.gradient_accumulation",
      "data.path",
      "data.eval_path", /* what it changes is run.eval_bytes and its hash */
      "data.workers",
      "model.path",
      "model.adapters.path",
      "data.eval_fraction", /* what it changes is run.data_windows */
  };
  for (size_t i = 0; i < sizeof free_paths / sizeof free_paths[0]; i++) {
    size_t length = strlen(free_paths[i]); /* of what may be a tree */
    if (strncmp(path, free_paths[i], length) == 0 && (path[length] == 0 || path[length] == '.')) return true;
  }
  return strncmp(path, "memory.", 7) == 0;
}

/* "paged_" in front of an optimizer only says where its state lives. */
static bool value_same(const char *path, const char *was, const char *is) {
  static const char paged[] = "\"paged_";
  size_t length = sizeof paged - 1;
  if (strcmp(was, is) == 0) return true;
  if (strcmp(path, "training.optimizer.kind") != 0) return false;
  was += strncmp(was, paged, length) == 0 ? length : *was == '"';
  is += strncmp(is, paged, length) == 0 ? length : *is == '"';
  return strcmp(was, is) == 0;
}

static const char *setting_find(const hr_run_setting *settings, size_t count, const char *path) {
  for (size_t i = 0; i < count; i++)
    if (strcmp(settings[i].path, path) == 0) return settings[i].value;
  return NULL;
}

typedef struct difference {
  char text[384];
  int count;
} difference;

static void difference_note(difference *d, const char *path, const char *was, const char *is) {
  size_t used = strlen(d->text);
  if (d->count++ < 3)
    snprintf(d->text + used, sizeof d->text - used, "%s%s was %s, is %s", used ? "; " : "", path, was ? was : "not set",
             is ? is : "not set");
}

/* What says that the data is another, and whether that to evaluate on; NULL: nothing does. */
static const char *data_difference(const hr_manifest *saved, const hr_run_setting *now, size_t count, int *eval) {
  for (*eval = 0; *eval < 2; (*eval)++)
    for (int i = 0; i < DATA_FACTS; i++) {
      const char *was = setting_find(saved->settings, saved->n_settings, data_facts[i].path[*eval]);
      const char *is = setting_find(now, count, data_facts[i].path[*eval]);
      if (was && is && strcmp(was, is) != 0) return data_facts[i].difference;
    }
  return NULL;
}

/* Whether a fact is of the data alone: compared by data_difference. */
static bool is_of_data(const char *path, bool data_differs) {
  for (int i = 0; i < DATA_FACTS; i++)
    if (strcmp(path, data_facts[i].path[0]) == 0 || strcmp(path, data_facts[i].path[1]) == 0) return true;
  return data_differs && strcmp(path, "run.data_windows") == 0; /* else settings have changed it */
}

/* Recipes used to have the settings of all families, and so do runs of that time. What is missing here without being
 * one of those would show in the shapes of the tensors. */
static bool was_of_another_family(const char *path) {
  return strncmp(path, "model.config.", 13) == 0;
}

hr_status hr__identity_check(const hr_manifest *saved, const hr_run_setting *now, size_t count, bool *accept,
                             hr_error *err) {
  difference d = {.count = 0};
  int eval;
  const char *data = data_difference(saved, now, count, &eval);
  for (size_t i = 0; i < saved->n_settings; i++) {
    const hr_run_setting *was = &saved->settings[i];
    const char *is = setting_find(now, count, was->path);
    if (may_change(was->path) || is_of_data(was->path, data != NULL)) continue;
    if (!is && was_of_another_family(was->path)) continue;
    if (!is || !value_same(was->path, was->value, is)) difference_note(&d, was->path, was->value, is);
  }
  for (size_t i = 0; i < count; i++)
    if (!may_change(now[i].path) && !now[i].fallback && !is_of_data(now[i].path, data != NULL) &&
        !setting_find(saved->settings, saved->n_settings, now[i].path))
      difference_note(&d, now[i].path, NULL, now[i].value);
  if (d.count > 0)
    return hr__fail(err, HR_USAGE, NULL, "put the settings back, or train into another --out",
                    "this run was begun with other settings: %s%s", d.text, d.count > 3 ? "; and more" : "");
  if (accept) *accept = data != NULL;
  if (!data || accept) return HR_OK;
  const char *quoted = setting_find(now, count, eval ? "data.eval_path" : "data.path");
  char path[256] = "";
  if (quoted && strlen(quoted) > 2) snprintf(path, sizeof path, "%.*s", (int)strlen(quoted) - 2, quoted + 1);
  return hr__fail(err, HR_USAGE, path, "put the data back, or go on with what it is now with --accept-changed-data",
                  "the data is not what this run was %s on: %s", eval ? "evaluated" : "trained", data);
}
