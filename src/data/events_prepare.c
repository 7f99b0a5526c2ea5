/* What `headroom prepare` does: vectors of all recordings, into a file to train on and one to evaluate. See events.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>

#include "data/events.h"
#include "format/file.h"

static void counted(const hr_events *e, bool held, hr_prepared_part *out) {
  for (size_t i = 0; i < e->n_samples; i++) {
    if (e->samples[i].held != held) continue;
    out->samples++;
    for (uint32_t k = 0; k < e->samples[i].n_intervals; k++)
      out->vectors += e->intervals[e->samples[i].intervals + k].rows;
  }
}

static hr_status part_write(const hr_events *e, bool held, const char *folder, hr_prepared_part *out, hr_arena *arena,
                            hr_error *err) {
  counted(e, held, out);
  if (out->samples == 0) return HR_OK;
  out->path = hr__arena_format(arena, "%s/%s.safetensors", folder, held ? "validation" : "train");
  return out->path ? hr__events_write(e, held, out->path, err) : hr__nomem(err);
}

/* A file of the folder that has lost its name: it is gone when it is closed, however this ends. */
static hr_status spill_open(const char *folder, hr_arena *arena, int *out, hr_error *err) {
  char *path = hr__arena_format(arena, "%s/vectors.tmp", folder);
  if (!path) return hr__nomem(err);
  *out = hr__file_calls.open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (*out < 0) return hr__fail_errno(err, path, "create", errno);
  hr__file_calls.unlink(path);
  return HR_OK;
}

/* Of one key: "data.path", or "data.eval_path", all of which is to evaluate. */
static hr_status key_prepare(const hr_recipe *recipe, uint64_t seed, const char *key, bool all_held, const char *folder,
                             hr_prepared *out, hr_arena *arena, hr_error *err) {
  hr_events e;
  hr__events_begin(&e);
  hr__events_settings(recipe, seed, &e.settings);
  hr_status status = spill_open(folder, arena, &e.spill, err);
  if (status == HR_OK) status = hr__events_read(&e, recipe, key, 0, err);
  size_t held = (size_t)llround(hr__recipe_float(recipe, "data.eval_fraction") * (double)e.n_samples);
  for (size_t i = 0; i < e.n_samples; i++)
    e.samples[i].held |= all_held || (e.settings.generate > 0 && i >= e.n_samples - held);
  if (status == HR_OK && !all_held) status = part_write(&e, false, folder, &out->train, arena, err);
  if (status == HR_OK) status = part_write(&e, true, folder, &out->held, arena, err);
  hr__events_close(&e);
  return status;
}

hr_status hr__events_prepare(const hr_recipe *recipe, uint64_t seed, const char *folder, hr_prepared *out,
                             hr_arena *arena, hr_error *err) {
  *out = (hr_prepared){0};
  HR_TRY(hr__file_make_folders(folder, err));
  HR_TRY(key_prepare(recipe, seed, "data.path", false, folder, out, arena, err));
  if (!hr__recipe_has(recipe, "data.eval_path")) return hr__file_sync_folder(folder, err);
  out->held = (hr_prepared_part){0}; /* what the first had is written over: files to evaluate are given */
  HR_TRY(key_prepare(recipe, seed, "data.eval_path", true, folder, out, arena, err));
  return hr__file_sync_folder(folder, err);
}
