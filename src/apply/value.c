/* Settings of a closed recipe as values for a config: see apply/applied.h. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "apply/applied.h"
#include "format/flow.h"

static bool is(const char *setting, const char *name) {
  return strcmp(setting, name) == 0;
}

static bool text_literal(const char *text, hr_literal_kind kind, hr_literal *out) {
  *out = (hr_literal){kind, text};
  return text != NULL;
}

static bool number_literal(const hr_applied *a, int64_t number, hr_literal *out) {
  return text_literal(hr__arena_format(a->arena, "%" PRId64, number), HR_LITERAL_NUMBER, out);
}

static bool json_literal(const hr_applied *a, const json_t *value, hr_literal *out) {
  switch (json_typeof(value)) {
  case JSON_STRING:
    return text_literal(hr__arena_text(a->arena, json_string_value(value)), HR_LITERAL_TEXT, out);
  case JSON_INTEGER:
    return number_literal(a, json_integer_value(value), out);
  case JSON_REAL:
    return text_literal(hr__real_text(json_real_value(value), a->arena), HR_LITERAL_NUMBER, out);
  case JSON_TRUE:
  case JSON_FALSE:
    return text_literal(json_is_true(value) ? "true" : "false", HR_LITERAL_BOOL, out);
  case JSON_NULL:
    return false;
  case JSON_OBJECT:
  case JSON_ARRAY:
    break;
  }
  return text_literal(hr__flow_text(value, " ", a->arena), HR_LITERAL_FLOW, out);
}

/* The setting as the closed recipe has it; NULL: not at all. */
static const json_t *setting_json(const hr_applied *a, const char *setting) {
  const json_t *at = a->settings;
  char part[HR_MAP_PATH];
  for (size_t length; at; setting += length + 1) {
    length = strcspn(setting, ".");
    snprintf(part, sizeof part, "%.*s", (int)length, setting);
    at = json_object_get(at, part);
    if (!setting[length]) break;
  }
  return at;
}

/* Batch and accumulation say together what a step is, so both are always written; a recipe of headroom's own needs only
 * the batch and those of the others that it has: a stale one would say another step. */
static bool batch_value(const hr_applied *a, const char *setting, hr_literal *out) {
  const hr_training_shape *shape = &a->job->shape;
  if (is(setting, "training.batch_size")) return number_literal(a, shape->batch, out);
  if (shape->n_schedule > 1) return json_literal(a, setting_json(a, "training.gradient_accumulation"), out);
  bool step = is(setting, "training.effective_batch");
  return number_literal(a, step ? shape->batch * shape->accumulation : shape->accumulation, out);
}

bool hr__applied_is_step(const char *setting) {
  return is(setting, "training.batch_size") || is(setting, "training.gradient_accumulation") ||
         is(setting, "training.effective_batch");
}

const char *hr__applied_warning(const hr_applied *a) {
  bool differs = false;
  for (size_t f = 0; f < a->n_files; f++)
    for (size_t i = 0; i < a->files[f].count; i++) {
      const hr_edit *edit = &a->files[f].edits[i];
      bool left = edit->outcome == HR_EDIT_LEFT || edit->outcome == HR_EDIT_MISSING;
      differs |= left && edit->label && hr__applied_is_step(edit->label);
    }
  for (size_t i = 0; i < a->n_notes; i++)
    differs |= a->notes[i].setting && hr__applied_is_step(a->notes[i].setting);
  return differs ? "batch size and accumulation are not both as planned: set what is left by hand, or a step has "
                   "another number of samples"
                 : NULL;
}

/* What --auto opened and left as it was, where another choice would train other weights, is nobody's wish. */
static bool stays_default(const hr_job *job, const char *setting) {
  const hr_search *search = &job->search;
  for (size_t k = 0; k < search->n_knobs; k++) {
    const hr_knob *knob = &search->knobs[k];
    if (is(knob->path, setting))
      return knob->changes_results && !knob->by_hand &&
             is(strchr(search->chosen.overrides[k], '=') + 1, knob->choices[0]);
  }
  return false;
}

bool hr__applied_value(const hr_applied *a, const hr_map_key *key, bool own_recipe, bool there, hr_literal *out) {
  const char *setting = key->setting;
  const hr_recipe *recipe = a->job->recipe;
  bool given = hr__recipe_given(recipe, setting) && !stays_default(a->job, setting);
  bool step = hr__applied_is_step(setting) && (there || is(setting, "training.batch_size"));
  if (!given && own_recipe && !step) return false;
  if (hr__applied_is_step(setting)) return batch_value(a, setting, out);
  /* who adapts weights has said whether they are quantized */
  if (is(setting, "model.quantize.kind") && !given && hr__recipe_given(recipe, "model.adapters"))
    return text_literal("none", HR_LITERAL_TEXT, out);
  if (!given && !key->asked) return false;
  const json_t *value = setting_json(a, setting);
  if (!value || !json_literal(a, value, out)) return false;
  if (own_recipe || !is(out->text, "auto")) return true; /* an `auto` of our own means the same there */
  const char *word = hr__chosen_word(&a->job->chosen, setting);
  return word && text_literal(word, HR_LITERAL_TEXT, out);
}
