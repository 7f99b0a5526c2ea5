/* What configs say of the training that a folder is planned for: see apply/apply.h. */
#include <ctype.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "apply/apply.h"
#include "apply/reading.h"

#define ADAPTERS "model.adapters"
#define QUANTIZE "model.quantize"
#define LENGTH   "data.sequence_length"

typedef struct taking {
  const hr_apply_taking *from;
  hr_arena *arena;
  hr_applied_file *files;
  size_t n_files;
  hr_reading reading;
  hr_taken *taken;
} taking;

/* Files that cannot be read, or are of no kind that is known, say nothing here; applying to them says why. */
static hr_status files_read(taking *t, hr_error *err) {
  t->files = hr__arena_array(t->arena, t->from->n_files, sizeof *t->files);
  if (!t->files) return hr__nomem(err);
  for (size_t i = 0; i < t->from->n_files; i++) {
    hr_applied_file *file = &t->files[t->n_files];
    hr_error why;
    if (!hr__reading_open(t->from->files[i], t->arena, file, &why)) continue;
    file->map = hr__map_of(&file->config, t->from->map);
    if (file->map && file->map != hr__map_named("headroom")) t->n_files++;
  }
  return hr__reading_make(t->files, t->n_files, t->arena, &t->reading, err);
}

/* --- what is given ------------------------------------------------------------------------------------------------ */

/* The value that the last override gives a setting; of a section that is there or not, its kind ("none": not). NULL: no
 * override does. */
static const char *given(const taking *t, const char *setting) {
  const char *value = NULL, *kind = strstr(setting, ".kind");
  size_t length = strlen(setting), section = kind && !kind[5] ? (size_t)(kind - setting) : 0;
  for (size_t i = 0; i < t->from->n_overrides; i++) {
    const char *override = t->from->overrides[i];
    if (strncmp(override, setting, length) == 0 && override[length] == '=') value = override + length + 1;
    if (section && strncmp(override, setting, section) == 0 && override[section] == '=')
      value = strcmp(override + section + 1, "null") == 0 ? "none" : "auto";
  }
  return value;
}

static hr_status word_take(taking *t, const char *setting, const char *word, hr_error *err) {
  const char *override = hr__arena_format(t->arena, "%s=%s", setting, word);
  if (!override) return hr__nomem(err);
  if (t->taken->count == HR_TAKEN) return HR_OK;
  const hr_said *said = hr__reading_find(&t->reading, setting);
  t->taken->places[t->taken->count] = said ? said->place : NULL;
  t->taken->overrides[t->taken->count++] = override;
  return HR_OK;
}

static hr_status number_take(taking *t, const char *setting, int64_t number, hr_error *err) {
  char text[24];
  snprintf(text, sizeof text, "%" PRId64, number);
  return word_take(t, setting, text, err);
}

/* Whether two values of a setting mean the same: as words, or as numbers. */
static bool same_value(const char *a, const char *b) {
  char *end_a, *end_b;
  double x = strtod(a, &end_a), y = strtod(b, &end_b);
  bool numbers = end_a != a && end_b != b && !*end_a && !*end_b;
  return strcmp(a, b) == 0 || (numbers && !(x < y) && !(x > y));
}

/* What is open, or a list of choices or a section, contradicts nothing. */
static bool is_one_value(const char *value) {
  return strcmp(value, "auto") != 0 && !strchr("[{", *value);
}

/* A flag against the file stops, unless the user says that he means it. What a file does not say but by its silence is
 * no contradiction, but for the method: the trainer would run another one. */
static hr_status contradiction_check(const taking *t, const hr_said *said, const char *value, hr_error *err) {
  bool method = strcmp(said->setting, ADAPTERS ".kind") == 0 || strcmp(said->setting, QUANTIZE ".kind") == 0;
  if (t->from->override || !is_one_value(value) || same_value(said->value, value) || (!said->shown && !method))
    return HR_OK;
  return hr__fail(err, HR_BAD_INPUT, said->place, "leave one of them out, or go on with the flag's value by --override",
                  "%s%s%.60s here means %s=%s, and a flag or --set gives %s=%.60s", said->key,
                  said->shown ? ": " : " is not there, which ", said->shown ? said->shown : "", said->setting,
                  said->value, said->setting, value);
}

/* --- one setting -------------------------------------------------------------------------------------------------- */

static bool adapters_said(const taking *t) {
  const char *flag = given(t, ADAPTERS ".kind");
  const hr_said *said = hr__reading_find(&t->reading, ADAPTERS ".kind");
  return flag ? strcmp(flag, "none") != 0 : said && said->value && strcmp(said->value, "none") != 0;
}

static hr_status unreadable(const hr_said *said, hr_error *err) {
  char text[256];
  if (said->unlimited)
    snprintf(text, sizeof text, "--seq N plans for samples of up to N tokens, and the key stays as it is");
  else
    snprintf(text, sizeof text, "write a value that can be read, or plan with one of yours: --set %s=VALUE",
             said->setting);
  return hr__fail(err, HR_BAD_INPUT, said->place, text, "%s: %.60s %s", said->key, said->shown ? said->shown : "null",
                  said->reason);
}

/* A section is there with its kind, or not at all. */
static hr_status said_take(taking *t, const hr_said *said, hr_error *err) {
  const char *dot = strrchr(said->setting, '.');
  if (strcmp(said->value, "none") != 0 || strcmp(dot, ".kind") != 0)
    return word_take(t, said->setting, said->value, err);
  const char *section = hr__arena_format(t->arena, "%.*s", (int)(dot - said->setting), said->setting);
  return section ? word_take(t, section, "null", err) : hr__nomem(err);
}

/* Whether it is taken as it stands: steps are put together, and without adapters there is nothing to say of them. */
static bool is_taken(const taking *t, const hr_said *said) {
  bool of_adapters =
      strncmp(said->setting, ADAPTERS ".", strlen(ADAPTERS ".")) == 0 && strcmp(said->setting, ADAPTERS ".kind") != 0;
  return !hr__applied_is_step(said->setting) && (!of_adapters || adapters_said(t));
}

static hr_status setting_take(taking *t, const hr_said *said, hr_error *err) {
  const char *flag = given(t, said->setting);
  if (!is_taken(t, said)) return HR_OK;
  if (!said->value) return flag || given(t, ADAPTERS ".path") ? HR_OK : unreadable(said, err);
  if (flag) return contradiction_check(t, said, flag, err);
  /* what changes no result is the search's to choose, where its choice can be written */
  if (t->from->all && strcmp(said->setting, "memory.checkpoint") == 0 &&
      !hr__reading_pinned(&t->reading, said->setting) &&
      hr__reading_writable(t->files, t->n_files, said->setting, t->from->insert))
    return HR_OK;
  return said_take(t, said, err);
}

/* Settings that say under what the training runs, and not what it is. */
static bool is_engine(const char *setting) {
  static const char *const own[] = {"engine.trainer", "engine.zero.", "engine.eval_batch_size"};
  for (size_t i = 0; i < sizeof own / sizeof *own; i++)
    if (strncmp(setting, own[i], strlen(own[i])) == 0) return true;
  return false;
}

/* --- a step ------------------------------------------------------------------------------------------------------- */

/* A step stays what it is, but for what is given of it. Where all is open only that: how it is cut into micro-batches
 * is for the search to find, as far as the files have a place for it. */
static hr_status step_take(taking *t, hr_error *err) {
  int64_t batch = 1, accumulation = 1;
  static const char rest[] = "training.gradient_accumulation", whole[] = "training.effective_batch";
  bool cut = t->from->all && !hr__reading_pinned(&t->reading, rest) &&
             (hr__reading_writable(t->files, t->n_files, rest, t->from->insert) ||
              hr__reading_writable(t->files, t->n_files, whole, false));
  bool batch_given = given(t, "training.batch_size"), accumulation_given = given(t, rest);
  bool batch_said = hr__reading_batch(&t->reading, &batch);
  bool accumulation_said = hr__reading_accumulation(&t->reading, &accumulation);
  const char *effective = given(t, whole);
  const hr_said *said = hr__reading_find(&t->reading, "training.batch_size");
  if (said && !said->value && !batch_given && !(t->from->all && effective)) return unreadable(said, err);
  if (effective) {
    hr_doc_node node = {.kind = HR_DOC_SCALAR, .text = effective};
    int64_t samples;
    bool divides = hr__doc_int(&node, &samples) && samples % batch == 0 && !cut;
    return batch_said && !batch_given && divides ? number_take(t, "training.batch_size", batch, err) : HR_OK;
  }
  if (cut && !batch_given && !accumulation_given)
    return batch_said ? number_take(t, whole, batch * accumulation, err) : HR_OK;
  if (batch_said && !batch_given) HR_TRY(number_take(t, "training.batch_size", batch, err));
  return accumulation_said && !accumulation_given ? number_take(t, rest, accumulation, err) : HR_OK;
}

/* What no file has a place for is not searched: it stays without. */
static hr_status unsayable_close(taking *t, hr_error *err) {
  for (int i = 0; i < HR_TECHNIQUE_KEYS && t->from->all; i++) {
    const hr_technique_key *key = &hr_technique_keys[i];
    if (key->flags & HR_TECHNIQUE_IS_SECTION || given(t, key->path) || hr__reading_find(&t->reading, key->path) ||
        hr__reading_writable(t->files, t->n_files, key->path, t->from->insert))
      continue;
    HR_TRY(word_take(t, key->path, key->plain, err));
  }
  return HR_OK;
}

static hr_status remark_add(taking *t, const char *remark, hr_error *err) {
  if (!remark) return hr__nomem(err);
  if (t->taken->n_remarks < HR_TAKEN) t->taken->remarks[t->taken->n_remarks++] = remark;
  return HR_OK;
}

/* The last part of a path, or of a name on the hub, by its letters and digits alone. */
static void name_plain(const char *path, char out[HR_MAP_PATH]) {
  size_t length = strlen(path), used = 0;
  while (length > 0 && path[length - 1] == '/')
    length--;
  size_t begin = length;
  while (begin > 0 && path[begin - 1] != '/')
    begin--;
  for (; begin < length && used + 1 < HR_MAP_PATH; begin++)
    if (isalnum((unsigned char)path[begin])) out[used++] = (char)tolower((unsigned char)path[begin]);
  out[used] = '\0';
}

/* A folder that a config names is the one that is to be planned; a name on the hub is told where it is another one. */
static hr_status model_check(taking *t, const hr_applied_file *file, hr_error *err) {
  char key[HR_MAP_PATH], path[HR_MAP_PATH], place[HR_DOC_PLACE], theirs[HR_MAP_PATH], ours[HR_MAP_PATH];
  char real[PATH_MAX], planned[PATH_MAX];
  for (const char *last = NULL; file->map->model && hr__map_next(file->map->model, '|', &last, key, sizeof key);) {
    if (!hr__map_locate(file->map, &file->config, key, path)) continue;
    const hr_doc_node *node = hr__config_find(&file->config, path);
    if (node->kind != HR_DOC_SCALAR || hr__doc_is_null(node) || strstr(node->text, "${")) continue;
    hr__doc_place(file->config.name, node, false, place);
    bool folder = realpath(node->text, real) && realpath(t->from->path, planned);
    if (folder && strcmp(real, planned) != 0 && !t->from->override)
      return hr__fail(err, HR_BAD_INPUT, place, "name that folder, or go on with yours by --override",
                      "%s: %.100s is another folder than %.100s, which is to be planned", path, node->text,
                      t->from->path);
    name_plain(node->text, theirs);
    name_plain(t->from->path, ours);
    size_t shorter = strlen(theirs) < strlen(ours) ? strlen(theirs) : strlen(ours);
    if (folder || (shorter > 0 && strncmp(theirs, ours, shorter) == 0)) continue;
    HR_TRY(remark_add(t,
                      hr__arena_format(t->arena, "%s: %s is %.100s, and what is planned is %.100s", place, path,
                                       node->text, t->from->path),
                      err));
  }
  return HR_OK;
}

static hr_status remarks_make(taking *t, hr_error *err) {
  for (size_t i = 0; i < t->reading.n_traits; i++) {
    const hr_trait *trait = &t->reading.traits[i];
    if (trait->of->effect != HR_TRAIT_NOTE) continue;
    const char *remark =
        hr__arena_format(t->arena, "%s: %s: %.60s %s", trait->place, trait->key, trait->shown, trait->of->text);
    HR_TRY(remark_add(t, remark, err));
  }
  return HR_OK;
}

/* Which engine runs a recipe, and what it holds beside the training, is its trainer's to say: a recipe for headroom has
 * no word for it. What cannot be read stops where PyTorch is planned for. */
static hr_status engine_take(taking *t, hr_error *err) {
  for (size_t i = 0; i < t->reading.count; i++) {
    const hr_said *said = &t->reading.said[i];
    if (is_engine(said->setting) && said->value) HR_TRY(setting_take(t, said, err));
  }
  t->taken->n_said = t->taken->count;
  return HR_OK;
}

hr_status hr__apply_take(const hr_apply_taking *from, hr_arena *arena, hr_taken *out, hr_error *err) {
  struct stat facts;
  *out = (hr_taken){0};
  taking t = {.from = from, .arena = arena, .taken = out};
  HR_TRY(files_read(&t, err));
  HR_TRY(hr__reading_refuse(&t.reading, false, err));
  out->foreign = t.n_files > 0;
  if (t.n_files == 0) return HR_OK;
  HR_TRY(remarks_make(&t, err));
  if (stat(from->path, &facts) != 0 || !S_ISDIR(facts.st_mode)) return engine_take(&t, err);
  for (size_t f = 0; f < t.n_files; f++)
    HR_TRY(model_check(&t, &t.files[f], err));
  for (size_t i = 0; i < t.reading.count; i++)
    HR_TRY(setting_take(&t, &t.reading.said[i], err));
  HR_TRY(step_take(&t, err));
  if (!given(&t, LENGTH) && !hr__reading_find(&t.reading, LENGTH))
    return hr__fail(err, HR_BAD_INPUT, t.files[0].config.name, "--seq N plans for samples of up to N tokens",
                    "how long samples are is not said here");
  out->n_said = out->count;
  return unsayable_close(&t, err);
}

hr_status hr__apply_torch_check(const hr_apply_taking *from, hr_arena *arena, hr_error *err) {
  taking t = {.from = from, .arena = arena};
  HR_TRY(files_read(&t, err));
  HR_TRY(hr__reading_refuse(&t.reading, !from->override, err));
  for (size_t i = 0; i < t.reading.count; i++) {
    const hr_said *said = &t.reading.said[i];
    if (is_engine(said->setting) && !said->value && !given(&t, said->setting)) return unreadable(said, err);
  }
  return HR_OK;
}

/* --- reading back ------------------------------------------------------------------------------------------------- */

hr_status hr__apply_says(const hr_applied_file *files, size_t n_files, hr_arena *arena, hr_taken *out, hr_error *err) {
  hr_apply_taking nothing = {0};
  int64_t batch, accumulation;
  *out = (hr_taken){0};
  taking t = {.from = &nothing, .arena = arena, .taken = out};
  HR_TRY(hr__reading_make(files, n_files, arena, &t.reading, err));
  for (size_t i = 0; i < t.reading.count; i++) {
    const hr_said *said = &t.reading.said[i];
    if (said->value && is_taken(&t, said)) HR_TRY(said_take(&t, said, err));
  }
  if (!hr__reading_batch(&t.reading, &batch) || !hr__reading_accumulation(&t.reading, &accumulation)) return HR_OK;
  HR_TRY(word_take(&t, "training.effective_batch", "null", err));
  HR_TRY(number_take(&t, "training.batch_size", batch, err));
  return number_take(&t, "training.gradient_accumulation", accumulation, err);
}
