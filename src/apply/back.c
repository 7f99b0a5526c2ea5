/* The new texts read back as their trainers will read them, and planned: see apply/applied.h. */
#include <string.h>

#include "apply/apply.h"
#include "apply/reading.h"
#include "base/text.h"
#include "job/settings.h"

/* The files as they will be. */
static hr_status files_parse(const hr_applied *a, hr_applied_file *out, hr_error *err) {
  for (size_t f = 0; f < a->n_files; f++) {
    const hr_applied_file *file = &a->files[f];
    HR_TRY(hr__config_parse(file->config.name, file->text, file->bytes, a->arena, &out[f].config, err));
    out[f].config.real = file->config.real;
    out[f].map = file->map;
  }
  return HR_OK;
}

/* The fastest change that keeps results, or else the fastest of all, as words for --set. */
static hr_status cheapest_name(const hr_job *job, char out[256], hr_error *err) {
  hr_change changes[HR_SUGGESTIONS];
  int count = 0, best = 0;
  HR_TRY(hr__job_suggest(job, changes, &count, err));
  while (best < count && changes[best].changes_results)
    best++;
  if (best == count) best = 0;
  size_t used =
      (size_t)snprintf(out, 256, count ? "the cheapest change that fits:" : "a smaller model or a larger GPU");
  for (int i = 0; count && i < changes[best].n_overrides && used < 256; i++)
    used += (size_t)snprintf(out + used, 256 - used, " --set %s", changes[best].override[i]);
  if (count && used < 256) snprintf(out + used, 256 - used, " --override");
  return HR_OK;
}

/* What the plan has and the texts do not, as a remedy: the first value that was left alone or has no place. NULL: all
 * of it is there, or there is no memory. */
static const char *unwritten(const hr_applied *a, const char **place) {
  for (size_t f = 0; f < a->n_files; f++)
    for (size_t i = 0; i < a->files[f].count; i++) {
      const hr_edit *edit = &a->files[f].edits[i];
      if (edit->outcome != HR_EDIT_LEFT) continue;
      *place = hr__arena_format(a->arena, "%s:%d", a->files[f].config.name, edit->line);
      return hr__arena_format(a->arena, "the plan needs %s: %s, which was left alone (%s): change it by hand",
                              edit->path, edit->value.text, edit->reason);
    }
  for (size_t i = 0; i < a->n_notes; i++)
    if (*a->notes[i].key)
      return hr__arena_format(a->arena, "the plan needs %s: %s, which %s", a->notes[i].key, a->notes[i].value,
                              a->notes[i].reason);
  return NULL;
}

static hr_status judge(hr_applied *a, const hr_job *job, hr_error *err) {
  char held[HR_SIZE_TEXT], budget[HR_SIZE_TEXT], margin[HR_SIZE_TEXT], remedy[256];
  a->held_known = true;
  a->held_bytes = job->verdict.peak_bytes;
  a->budget_bytes = job->verdict.budget_bytes;
  a->margin_bytes = job->verdict.margin_bytes;
  if (job->verdict.fits) return HR_OK;
  const char *place = a->files[0].config.name, *by_hand = unwritten(a, &place);
  if (!by_hand) HR_TRY(cheapest_name(job, remedy, err));
  return hr__fail(err, HR_NO_FIT, place, by_hand ? by_hand : remedy,
                  "read back, this config would make PyTorch hold %s of %s, with a margin of %s: nothing is written",
                  hr__size_text(a->held_bytes, held), hr__size_text(a->budget_bytes, budget),
                  hr__size_text(a->margin_bytes, margin));
}

hr_status hr__applied_agree(const hr_applied *a, hr_error *err) {
  hr_applied_file *files = hr__arena_array(a->arena, a->n_files, sizeof *files);
  if (!files) return hr__nomem(err);
  HR_TRY(files_parse(a, files, err));
  return hr__reading_agree(files, a->n_files, a->arena, err);
}

hr_status hr__applied_read_back(hr_applied *a, hr_error *err) {
  hr_applied_file *files = hr__arena_array(a->arena, a->n_files, sizeof *files);
  const hr_job_source *planned = &a->job->source;
  const char **overrides = hr__arena_array(a->arena, planned->n_overrides + HR_TAKEN, sizeof *overrides);
  hr_taken says;
  hr_job *job = NULL;
  if (!files || !overrides) return hr__nomem(err);
  HR_TRY(files_parse(a, files, err));
  HR_TRY(hr__apply_says(files, a->n_files, a->arena, &says, err));
  memcpy(overrides, planned->overrides, planned->n_overrides * sizeof *overrides);
  memcpy(overrides + planned->n_overrides, says.overrides, says.count * sizeof *overrides);
  hr_job_source source = {planned->path, overrides, planned->n_overrides + says.count};
  HR_TRY(hr__job_open(&source, &job, err));
  hr_status status = judge(a, job, err);
  hr__job_close(job);
  return status;
}
