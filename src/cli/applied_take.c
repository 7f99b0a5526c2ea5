/* What configs say of the training that a folder is planned for: see applied.h. */
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/applied.h"
#include "format/file.h"
#include "format/literal.h"

typedef struct taking {
  hr_cli *cli;
  hr_applied_file *files;
  size_t n_files;
  const char *said; /* of what was taken, for the remark */
} taking;

/* Files that cannot be read, or are of no kind that is known, say nothing here; applying to them says why. */
static hr_status files_read(taking *t, const hr_map *map, hr_error *err) {
  hr_arena *arena = &t->cli->arena;
  t->files = hr__arena_array(arena, t->cli->n_listed, sizeof *t->files);
  if (!t->files) return hr__nomem(err);
  for (size_t i = 0; i < t->cli->n_listed; i++) {
    hr_applied_file *file = &t->files[t->n_files];
    const char *path = t->cli->listed[i];
    char *text, real[PATH_MAX];
    size_t bytes;
    hr_error why;
    *file = (hr_applied_file){0};
    if (hr__file_read(path, HR_DOC_MAX_BYTES, arena, &text, &bytes, &why) == HR_OK &&
        hr__config_parse(path, text, bytes, arena, &file->config, &why) == HR_OK) {
      const hr_map *guess = hr__map_guess(&file->config, map && hr__map_named(map->name) == map ? map : NULL);
      file->map = map && !(guess && hr__map_named(map->name) == map) ? map : guess;
      file->config.real = realpath(path, real) ? hr__arena_text(arena, real) : NULL;
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

/* By the command's option (NULL: it has none for it), or by --set. */
static bool given(const hr_cli *cli, const char *option, const char *setting) {
  size_t length = strlen(setting);
  bool found = option && hr__cli_value(cli, option) != NULL;
  for (size_t i = 0; i < cli->n_overrides; i++)
    found |= strncmp(cli->overrides[i], setting, length) == 0 && cli->overrides[i][length] == '=';
  return found;
}

static hr_status word_take(taking *t, const char *setting, const char *word, hr_error *err) {
  t->said = hr__arena_format(&t->cli->arena, "%s%s%s=%s", t->said, *t->said ? ", " : "", setting, word);
  if (!t->said) return hr__nomem(err);
  return hr__cli_override(t->cli, err, "%s=%s", setting, word);
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
    if (!hr__map_word(key, value, &t->cli->arena, &word, &same) || !word) return false;
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

/* --method has one that it takes where nothing is written; a config that says another is not overruled by it. */
static hr_status precision_take(taking *t, hr_error *err) {
  static const char *const words[] = {"bf16-mixed", "16-mixed", "bf16-true", "32-true"};
  if (!hr__cli_value(t->cli, "method") || given(t->cli, NULL, "model.precision")) return HR_OK;
  for (size_t w = 0; w < sizeof words / sizeof *words; w++)
    for (size_t f = 0; f < t->n_files; f++)
      if (means(t, &t->files[f], "model.precision", words[w]))
        return w == 0 ? HR_OK : word_take(t, "model.precision", words[w], err);
  return HR_OK;
}

/* A step stays what it is, but for what is given of it. With --auto only that: how it is cut into micro-batches is for
 * the search to find. */
static hr_status step_take(taking *t, hr_error *err) {
  const hr_cli *cli = t->cli;
  int64_t batch = 1, accumulation = 1, samples = 0;
  bool batch_given = given(cli, "batch", "training.batch_size");
  bool accumulation_given = given(cli, NULL, "training.gradient_accumulation");
  bool batch_said = said(t, "training.batch_size", &batch);
  bool accumulation_said = said(t, "training.gradient_accumulation", &accumulation);
  if (given(cli, "target-effective-batch", "training.effective_batch")) {
    HR_TRY(hr__cli_int(cli, "target-effective-batch", 1, 0, &samples, err));
    bool divides = samples > 0 && samples % batch == 0 && !hr__cli_flag(cli, "auto");
    return batch_said && !batch_given && divides ? take(t, "training.batch_size", batch, err) : HR_OK;
  }
  if (hr__cli_flag(cli, "auto") && !batch_given && !accumulation_given)
    return batch_said ? take(t, "training.effective_batch", batch * accumulation, err) : HR_OK;
  if (batch_said && !batch_given) HR_TRY(take(t, "training.batch_size", batch, err));
  return accumulation_said && !accumulation_given ? take(t, "training.gradient_accumulation", accumulation, err)
                                                  : HR_OK;
}

hr_status hr__applied_take(hr_cli *cli, const hr_map *map, hr_error *err) {
  struct stat facts;
  if (stat(cli->arguments[0], &facts) != 0 || !S_ISDIR(facts.st_mode)) return HR_OK;
  taking t = {.cli = cli, .said = ""};
  const char *method = hr__cli_value(cli, "method");
  int64_t number;
  HR_TRY(files_read(&t, map, err));
  if (!given(cli, "seq", "data.sequence_length") && said(&t, "data.sequence_length", &number))
    HR_TRY(take(&t, "data.sequence_length", number, err));
  HR_TRY(step_take(&t, err));
  HR_TRY(precision_take(&t, err));
  if (method && strcmp(method, "full") != 0 && !given(cli, "rank", "model.adapters.rank") &&
      said(&t, "model.adapters.rank", &number))
    HR_TRY(take(&t, "model.adapters.rank", number, err));
  if (*t.said && !cli->quiet && !cli->json)
    hr__cli_tell(cli, stderr, "", "remark: planned as the config says:", t.said);
  return HR_OK;
}
