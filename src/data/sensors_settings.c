/* The settings of data.sensors. See sensors.h. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "data/keys.h"
#include "data/sensors.h"

#define SECTION "data.sensors"

static const hr_key keys[] = {
    {.path = SECTION ".patch_duration_s",
     .type = HR_KEY_FLOAT,
     .fallback = "2.0",
     .min = 1e-6,
     .max = 1e6,
     .meaning = "source sensors: seconds of a patch, which every stream has at its own rate"},
    {.path = SECTION ".context_size",
     .type = HR_KEY_INT,
     .fallback = "60",
     .min = -1,
     .max = 1 << 20,
     .meaning = "source sensors: patches of a sample, at most; the last ones are kept; -1: all"},
    {.path = SECTION ".max_patches",
     .type = HR_KEY_INT,
     .min = 1,
     .max = 1 << 20,
     .meaning = "source sensors with context_size -1: patches of the longest sample"},
    {.path = SECTION ".streams",
     .type = HR_KEY_TEXTS,
     .fallback = "all",
     .meaning = "source sensors: names of the streams to take; all: every NAME_csv of the manifest"},
    {.path = SECTION ".questions",
     .type = HR_KEY_TEXT,
     .fallback = "qa_pairs_templated.jsonl",
     .meaning = "source sensors: the file of questions, in the folder of data.path"},
    {.path = SECTION ".hold_out",
     .type = HR_KEY_CHOICE,
     .fallback = "recordings",
     .choices = "recordings|questions",
     .meaning = "source sensors: what is evaluated on: recordings: no recording is in both training and evaluation; "
                "questions: any questions, also about recordings that are trained on"},
    {.path = SECTION ".unanswered",
     .type = HR_KEY_BOOL,
     .fallback = "false",
     .meaning = "source sensors: true: questions may have no answer (headroom generate)"},
};
const hr_key_table hr_sensors_keys = {keys, sizeof keys / sizeof *keys};

static hr_status folder_of(const hr_recipe *recipe, const char *key, const char **out, hr_error *err) {
  if (!hr__recipe_has(recipe, key))
    return hr__recipe_fail(recipe, "data.source", "give data.path: the folder of manifest.csv", err,
                           "source sensors needs data.path");
  size_t count;
  struct stat facts;
  const char *const *paths = hr__recipe_texts(recipe, key, &count);
  if (count == 1 && stat(paths[0], &facts) == 0 && S_ISDIR(facts.st_mode)) {
    *out = paths[0];
    return HR_OK;
  }
  return hr__recipe_fail(recipe, key, "name the folder of manifest.csv; relative paths begin at the recipe's folder",
                         err,
                         count == 1 ? "\"%s\" is not a folder" : "source sensors reads one folder, not \"%s\" and more",
                         count > 0 ? paths[0] : "");
}

hr_status hr__sensors_settings(const hr_recipe *recipe, const char *key, hr_arena *arena, hr_sensors_settings *out,
                               hr_error *err) {
  *out = (hr_sensors_settings){
      .patch_seconds = hr__recipe_float(recipe, SECTION ".patch_duration_s"),
      .patches = hr__recipe_int(recipe, SECTION ".context_size"),
      .by_question = hr__recipe_word_is(recipe, SECTION ".hold_out", "questions"),
      .unanswered = hr__recipe_bool(recipe, SECTION ".unanswered"),
  };
  if (out->patches == 0)
    return hr__recipe_fail(recipe, SECTION ".context_size", "use 60, or -1 for all", err,
                           "a sample needs at least one patch");
  out->all = out->patches < 0;
  if (out->all)
    out->patches =
        hr__recipe_has(recipe, SECTION ".max_patches") ? hr__recipe_int(recipe, SECTION ".max_patches") : INT64_MAX;
  HR_TRY(folder_of(recipe, key, &out->folder, err));
  out->names = hr__recipe_texts(recipe, SECTION ".streams", &out->n_names);
  for (size_t i = 0; i < out->n_names; i++)
    for (size_t k = 0; k < i; k++)
      if (strcmp(out->names[i], out->names[k]) == 0)
        return hr__recipe_fail(recipe, SECTION ".streams", "name each once", err, "stream %s is there twice",
                               out->names[i]);
  if (out->n_names == 1 && strcmp(out->names[0], "all") == 0) out->n_names = 0;
  out->manifest = hr__arena_format(arena, "%s/manifest.csv", out->folder);
  out->questions = hr__arena_format(arena, "%s/%s", out->folder, hr__recipe_text(recipe, SECTION ".questions"));
  return out->manifest && out->questions ? HR_OK : hr__nomem(err);
}

/* Patches of the longest sample of the data; 0: it cannot be read. */
static int64_t most_patches(const hr_recipe *recipe) {
  hr_sensors s;
  hr_error err = {0};
  int64_t most = 0;
  hr__sensors_begin(&s, 1);
  hr_status status = hr__sensors_settings(recipe, "data.path", &s.arena, &s.settings, &err);
  if (status == HR_OK) status = hr__sensors_read(&s, 1, &err);
  for (size_t i = 0; i < s.n_questions && status == HR_OK; i++)
    if (s.questions[i].patches > most) most = s.questions[i].patches;
  hr__sensors_close(&s);
  return most;
}

hr_status hr__sensors_patches(const hr_recipe *recipe, int64_t *out, hr_error *err) {
  *out = hr__recipe_int(recipe, SECTION ".context_size");
  if (*out > 0) return HR_OK;
  if (*out == 0)
    return hr__recipe_fail(recipe, SECTION ".context_size", "use 60, or -1 for all", err,
                           "a sample needs at least one patch");
  if (hr__recipe_has(recipe, SECTION ".max_patches")) {
    *out = hr__recipe_int(recipe, SECTION ".max_patches");
    return HR_OK;
  }
  int64_t most = most_patches(recipe);
  char remedy[96], known[80] = "";
  snprintf(remedy, sizeof remedy, "give %s.max_patches: %s", SECTION, most > 0 ? "" : "patches of the longest sample");
  if (most > 0) {
    snprintf(remedy, sizeof remedy, "give %s.max_patches: %" PRId64, SECTION, most);
    snprintf(known, sizeof known, "; the longest sample of data.path has %" PRId64, most);
  }
  return hr__recipe_fail(recipe, SECTION ".context_size", remedy, err,
                         "with -1 the number of patches that there is room for must be given%s", known);
}
