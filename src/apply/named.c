/* Configs that another config names. See reading.h. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apply/reading.h"
#include "format/file.h"

bool hr__reading_open(const char *name, hr_arena *arena, hr_applied_file *out, hr_error *why) {
  char *text, real[PATH_MAX];
  size_t bytes;
  *out = (hr_applied_file){0};
  if (hr__file_read(name, HR_DOC_MAX_BYTES, arena, &text, &bytes, why) != HR_OK ||
      hr__config_parse(name, text, bytes, arena, &out->config, why) != HR_OK)
    return false;
  out->config.real = realpath(name, real) ? hr__arena_text(arena, real) : NULL;
  return true;
}

/* False where it is not there, or (`why` has a message) cannot be read. */
static bool config_open(const char *path, hr_arena *arena, hr_applied_file *out, hr_error *why) {
  char real[PATH_MAX];
  *why = (hr_error){0};
  if (!realpath(path, real)) return false;
  const char *name = hr__arena_text(arena, real);
  if (!name) hr__nomem(why);
  return name && hr__reading_open(name, arena, out, why);
}

/* A config by the path that another one has for it, from the folder that the process runs in, or one that the other
 * config lies in. False as above. */
static bool config_find(const hr_applied_file *by, const char *path, hr_arena *arena, hr_applied_file *out,
                        hr_error *why) {
  char folder[PATH_MAX], whole[PATH_MAX];
  if (config_open(path, arena, out, why)) return true;
  if (*why->message || path[0] == '/' || !by->config.real || strlen(by->config.real) >= sizeof folder) return false;
  strcpy(folder, by->config.real);
  for (char *slash; !*why->message && (slash = strrchr(folder, '/')) != NULL;) {
    *slash = '\0';
    if (snprintf(whole, sizeof whole, "%s/%s", folder, path) < (int)sizeof whole && config_open(whole, arena, out, why))
      return true;
  }
  return false;
}

/* The config that a trait names, read as one of `map`. One that cannot be is a trait that stops: with what is wrong
 * with it, and where, if it is there. */
static hr_status config_read(const hr_applied_file *file, hr_trait trait, const hr_map *map, hr_arena *arena,
                             hr_reading *out, hr_error *err) {
  hr_error why = {0};
  hr_applied_file *named = hr__arena_array(arena, 1, sizeof *named);
  hr_map_trait *unread = hr__arena_array(arena, 1, sizeof *unread);
  if (!named || !unread) return hr__nomem(err);
  if (config_find(file, trait.shown, arena, named, &why)) {
    named->map = map;
    return hr__reading_file(named, arena, out, err);
  }
  bool there = *why.message;
  unread->effect = HR_TRAIT_UNKNOWN;
  unread->text = there ? hr__arena_text(arena, why.message)
                       : "no file is there of this name, and what it makes of the run is not known without";
  trait.of = unread;
  if (there && *why.place) trait.place = hr__arena_text(arena, why.place);
  if (!unread->text || !trait.place) return hr__nomem(err);
  return hr__reading_trait(out, trait, arena, err);
}

hr_status hr__reading_named(const hr_applied_file *files, size_t count, hr_arena *arena, hr_reading *out,
                            hr_error *err) {
  const hr_map *engine = hr__map_named("deepspeed");
  for (size_t f = 0; f < count; f++)
    if (files[f].map == engine) return HR_OK;
  for (size_t f = 0; f < count; f++) {
    hr_reading own = {0};
    HR_TRY(hr__reading_file(&files[f], arena, &own, err));
    for (size_t i = 0; i < own.n_traits; i++)
      if (own.traits[i].of->effect == HR_TRAIT_NAMES)
        HR_TRY(config_read(&files[f], own.traits[i], engine, arena, out, err));
  }
  return HR_OK;
}

hr_status hr__reading_agree(const hr_applied_file *files, size_t count, hr_arena *arena, hr_error *err) {
  static const char *const settings[] = {"training.batch_size", "training.gradient_accumulation"};
  hr_reading named = {0}, own = {0};
  HR_TRY(hr__reading_named(files, count, arena, &named, err));
  for (size_t f = 0; f < count; f++)
    if (!files[f].map->lists) HR_TRY(hr__reading_file(&files[f], arena, &own, err));
  for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
    const hr_said *a = hr__reading_find(&named, settings[i]), *b = hr__reading_find(&own, settings[i]);
    if (!a || !b || !a->shown || !b->shown || !a->value || !b->value || strcmp(a->value, b->value) == 0) continue;
    return hr__fail(err, HR_BAD_INPUT, a->place, "name that file in --to as well, or write auto there",
                    "%s: %.20s stays, as the file is not in --to, and %s at %.100s would be %.20s", a->key, a->shown,
                    b->key, b->place, b->value);
  }
  return HR_OK;
}
