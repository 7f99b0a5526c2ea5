/* What apply has done or would do, as JSON: see apply/apply.h. */
#include "apply/apply.h"
#include "format/json.h"

static const char *outcome_name(hr_edit_outcome outcome) {
  static const char *const names[] = {[HR_EDIT_SAME] = "same",
                                      [HR_EDIT_WRITTEN] = "written",
                                      [HR_EDIT_INSERTED] = "inserted",
                                      [HR_EDIT_MISSING] = "missing",
                                      [HR_EDIT_LEFT] = "left"};
  return names[outcome];
}

/* Appends to a list; takes the reference. */
static int put(json_t *list, json_t *item) {
  return json_array_append_new(list, item);
}

/* Adds a member, or gives up the object. Takes both over; NULL: out of memory. */
static json_t *with(json_t *object, const char *name, json_t *value) {
  if (!object) {
    json_decref(value);
    return NULL;
  }
  if (json_object_set_new(object, name, value) == 0) return object;
  json_decref(object);
  return NULL;
}

/* The same for a text that may not be there (NULL). json_pack's `s*` would leave it out where memory runs out, too. */
static json_t *with_text(json_t *object, const char *name, const char *text) {
  return text ? with(object, name, hr__json_string(text)) : object;
}

static json_t *edit_json(const hr_edit *edit) {
  json_t *object = with_text(json_object(), "setting", edit->label);
  object = with_text(object, "key", edit->path);
  object = with_text(object, "outcome", outcome_name(edit->outcome));
  object = with(object, "line", json_integer(edit->line));
  object = with_text(object, "old", edit->old);
  object = with_text(object, "new", edit->now);
  return with_text(object, "reason", edit->reason);
}

static json_t *note_json(const hr_applied_note *note) {
  json_t *object = with_text(json_object(), "setting", note->setting);
  object = with_text(object, "value", note->value);
  object = with_text(object, "key", note->key);
  return with_text(object, "reason", note->reason);
}

static json_t *file_json(const hr_applied_file *file) {
  json_t *edits = json_array();
  int failed = !edits;
  for (size_t i = 0; i < file->count && !failed; i++) {
    char path[HR_APPLIED_PATH];
    hr_edit told;
    for (const void *last = NULL; !failed && hr__applied_told(file, &file->edits[i], &last, path, &told);)
      failed = put(edits, edit_json(&told));
  }
  if (failed) {
    json_decref(edits);
    return NULL;
  }
  return json_pack("{s:o, s:o, s:b, s:o}", "path", hr__json_string(file->config.name), "map",
                   hr__json_string(file->map->name), "changed", file->changed, "keys", edits);
}

json_t *hr__apply_json(const hr_applied *a, const char *diff) {
  json_t *files = json_array(), *notes = json_array();
  int failed = !files || !notes;
  for (size_t f = 0; f < a->n_files && !failed; f++)
    failed = put(files, file_json(&a->files[f]));
  for (size_t i = 0; i < a->n_notes && !failed; i++)
    failed = put(notes, note_json(&a->notes[i]));
  json_t *answer = failed ? NULL : json_pack("{s:i, s:b}", "schema", 1, "dry_run", a->dry_run);
  answer = with(answer, "files", files);
  answer = with(answer, "not_written", notes);
  answer = with_text(answer, "warning", hr__applied_warning(a));
  answer = with_text(answer, "refusal", a->refusal);
  if (a->held_known)
    answer = with(answer, "held",
                  json_pack("{s:I, s:I, s:I}", "bytes", (json_int_t)a->held_bytes, "budget_bytes",
                            (json_int_t)a->budget_bytes, "margin_bytes", (json_int_t)a->margin_bytes));
  return with_text(answer, "diff", diff);
}

json_t *hr__apply_revert_json(const hr_transaction *transaction, bool dry_run) {
  json_t *paths = json_array();
  int failed = !paths;
  for (size_t f = 0; f < transaction->count && !failed; f++)
    if (!transaction->files[f].bare) failed = put(paths, hr__json_string(transaction->files[f].path));
  if (failed) {
    json_decref(paths);
    return NULL;
  }
  return json_pack("{s:i, s:b, s:o}", "schema", 1, "dry_run", dry_run, "reverted", paths);
}
