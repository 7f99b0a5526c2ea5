/* What configs say of the training that a folder is planned for: see apply/apply.h. */
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "apply/apply.h"
#include "format/file.h"
#include "format/literal.h"

typedef struct taking {
  const hr_apply_taking *from;
  hr_arena *arena;
  hr_applied_file *files;
  size_t n_files;
  hr_taken *taken;
} taking;

/* Files that cannot be read, or are of no kind that is known, say nothing here; applying to them says why. */
static hr_status files_read(taking *t, hr_error *err) {
  const hr_map *map = t->from->map;
  t->files = hr__arena_array(t->arena, t->from->n_files, sizeof *t->files);
  if (!t->files) return hr__nomem(err);
  for (size_t i = 0; i < t->from->n_files; i++) {
    hr_applied_file *file = &t->files[t->n_files];
    const char *path = t->from->files[i];
    char *text, real[PATH_MAX];
    size_t bytes;
    hr_error why;
    *file = (hr_applied_file){0};
    if (hr__file_read(path, HR_DOC_MAX_BYTES, t->arena, &text, &bytes, &why) == HR_OK &&
        hr__config_parse(path, text, bytes, t->arena, &file->config, &why) == HR_OK) {
      const hr_map *guess = hr__map_guess(&file->config, map && hr__map_named(map->name) == map ? map : NULL);
      file->map = map && !(guess && hr__map_named(map->name) == map) ? map : guess;
      file->config.real = realpath(path, real) ? hr__arena_text(t->arena, real) : NULL;
      if (file->map && file->map != hr__map_named("headroom")) t->n_files++;
    }
  }
  return HR_OK;
}

static bool said(const taking *t, const char *setting, int64_t *out) {
  for (size_t f = 0; f < t->n_files; f++)
    if (hr__applied_number(&t->files[f], setting, out)) return true;
  return false;
}

/* The value that the last override of a setting gives; NULL: none is there. */
static const char *given(const taking *t, const char *setting) {
  size_t length = strlen(setting);
  const char *value = NULL;
  for (size_t i = 0; i < t->from->n_overrides; i++) {
    const char *override = t->from->overrides[i];
    if (strncmp(override, setting, length) == 0 && override[length] == '=') value = override + length + 1;
  }
  return value;
}

static hr_status word_take(taking *t, const char *setting, const char *word, hr_error *err) {
  const char *override = hr__arena_format(t->arena, "%s=%s", setting, word);
  if (!override) return hr__nomem(err);
  t->taken->overrides[t->taken->count++] = override;
  return HR_OK;
}

static hr_status take(taking *t, const char *setting, int64_t number, hr_error *err) {
  char text[24];
  snprintf(text, sizeof text, "%" PRId64, number);
  return word_take(t, setting, text, err);
}

/* Whether a file says a value of a setting with all keys that it has for it, and with those that it lacks. */
static bool means(const taking *t, const hr_applied_file *file, const char *setting, const char *value) {
  bool any = false;
  for (size_t i = 0; i < file->map->count; i++) {
    const hr_map_key *key = &file->map->keys[i];
    char name[HR_MAP_PATH], path[HR_MAP_PATH];
    const char *word, *same;
    if (!key->setting || strcmp(key->setting, setting) != 0) continue;
    if (!hr__map_word(key, value, t->arena, &word, &same) || !word) return false;
    hr_literal literal = hr__applied_word(word);
    const hr_doc_node *node = NULL;
    for (const char *last = NULL; !node && hr__map_spelling(key, &last, name);)
      if (hr__map_locate(file->map, &file->config, name, path)) node = hr__config_find(&file->config, path);
    hr_doc_node absent = {.kind = HR_DOC_SCALAR, .text = key->absent};
    bool silent = !node && (!key->absent || strcmp(key->absent, "*") == 0);
    if (!silent && !hr__literal_means(&literal, same, node ? node : &absent)) return false;
    any |= node != NULL;
  }
  return any;
}

/* A config that says another precision than the usual one is not overruled by it. */
static hr_status precision_take(taking *t, hr_error *err) {
  static const char *const words[] = {"bf16-mixed", "16-mixed", "bf16-true", "32-true"};
  if (given(t, "model.precision")) return HR_OK;
  for (size_t w = 0; w < sizeof words / sizeof *words; w++)
    for (size_t f = 0; f < t->n_files; f++)
      if (means(t, &t->files[f], "model.precision", words[w]))
        return strcmp(words[w], t->from->precision) == 0 ? HR_OK : word_take(t, "model.precision", words[w], err);
  return HR_OK;
}

/* A step stays what it is, but for what is given of it. Where all is open only that: how it is cut into micro-batches
 * is for the search to find. */
static hr_status step_take(taking *t, hr_error *err) {
  int64_t batch = 1, accumulation = 1;
  bool all = t->from->all;
  bool batch_given = given(t, "training.batch_size"), accumulation_given = given(t, "training.gradient_accumulation");
  bool batch_said = said(t, "training.batch_size", &batch);
  bool accumulation_said = said(t, "training.gradient_accumulation", &accumulation);
  const char *effective = given(t, "training.effective_batch");
  if (effective) {
    hr_doc_node node = {.kind = HR_DOC_SCALAR, .text = effective};
    int64_t samples;
    bool divides = hr__doc_int(&node, &samples) && samples % batch == 0 && !all;
    return batch_said && !batch_given && divides ? take(t, "training.batch_size", batch, err) : HR_OK;
  }
  if (all && !batch_given && !accumulation_given)
    return batch_said ? take(t, "training.effective_batch", batch * accumulation, err) : HR_OK;
  if (batch_said && !batch_given) HR_TRY(take(t, "training.batch_size", batch, err));
  return accumulation_said && !accumulation_given ? take(t, "training.gradient_accumulation", accumulation, err)
                                                  : HR_OK;
}

/* Whether the last word on adapters is that there are some. */
static bool adapters_given(const taking *t) {
  static const char section[] = "model.adapters";
  bool some = false;
  for (size_t i = 0; i < t->from->n_overrides; i++) {
    const char *override = t->from->overrides[i];
    if (strncmp(override, section, strlen(section)) == 0) some = strcmp(override + strlen(section), "=null") != 0;
  }
  return some;
}

hr_status hr__apply_take(const hr_apply_taking *from, hr_arena *arena, hr_taken *out, hr_error *err) {
  struct stat facts;
  out->count = 0;
  if (stat(from->path, &facts) != 0 || !S_ISDIR(facts.st_mode)) return HR_OK;
  taking t = {.from = from, .arena = arena, .taken = out};
  int64_t number;
  HR_TRY(files_read(&t, err));
  if (!given(&t, "data.sequence_length") && said(&t, "data.sequence_length", &number))
    HR_TRY(take(&t, "data.sequence_length", number, err));
  HR_TRY(step_take(&t, err));
  HR_TRY(precision_take(&t, err));
  if (adapters_given(&t) && !given(&t, "model.adapters.rank") && said(&t, "model.adapters.rank", &number))
    HR_TRY(take(&t, "model.adapters.rank", number, err));
  return HR_OK;
}

hr_status hr__apply_foreign(const hr_apply_taking *from, hr_arena *arena, bool *out, hr_error *err) {
  taking t = {.from = from, .arena = arena};
  HR_TRY(files_read(&t, err));
  *out = t.n_files > 0;
  return HR_OK;
}
