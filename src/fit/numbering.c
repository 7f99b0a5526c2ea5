/* See numbering.h. */
#include "fit/numbering.h"

size_t hr__numbers_count(const hr_search *search, size_t most) {
  size_t count = 1;
  for (size_t k = 0; k < search->n_knobs && count <= most; k++)
    count *= search->knobs[k].n_choices;
  return count;
}

size_t hr__number_choice(const hr_search *search, size_t number, size_t knob) {
  for (size_t k = search->n_knobs; k-- > knob + 1;)
    number /= search->knobs[k].n_choices;
  return number % search->knobs[knob].n_choices;
}

int64_t hr__number_slices(const hr_search *search, size_t number) {
  for (size_t k = 0; k < search->n_knobs; k++)
    if (search->knobs[k].slices) return (int64_t)1 << hr__number_choice(search, number, k);
  return 1;
}

size_t hr__number_whole(const hr_search *search, size_t number) {
  size_t unit = 1;
  for (size_t k = search->n_knobs; k-- > 0; unit *= search->knobs[k].n_choices)
    if (search->knobs[k].slices) return number - hr__number_choice(search, number, k) * unit;
  return number;
}

size_t hr__number_level(const hr_search *search, size_t number) {
  size_t level = 0;
  for (size_t k = 0; k < search->n_knobs; k++) {
    const hr_knob *knob = &search->knobs[k];
    if (knob->quality) level = level * knob->n_choices + knob->quality[hr__number_choice(search, number, k)];
  }
  return level;
}

size_t hr__levels_count(const hr_search *search) {
  size_t count = 1;
  for (size_t k = 0; k < search->n_knobs; k++)
    if (search->knobs[k].quality) count *= search->knobs[k].n_choices;
  return count;
}

hr_status hr__number_describe(const hr_search *search, size_t number, hr_arena *arena, hr_found *out, hr_error *err) {
  size_t count = search->n_knobs;
  const char **overrides = hr__arena_array(arena, count, sizeof *overrides);
  bool *changes = hr__arena_array(arena, count, sizeof *changes);
  if (!overrides || !changes) return hr__nomem(err);
  *out = (hr_found){.overrides = overrides, .changes = changes, .n_overrides = count};
  for (size_t k = 0; k < count; k++) {
    const hr_knob *knob = &search->knobs[k];
    size_t choice = hr__number_choice(search, number, k);
    overrides[k] = hr__arena_format(arena, "%s=%s", knob->path, knob->choices[choice]);
    if (!overrides[k]) return hr__nomem(err);
    changes[k] = knob->changes[choice];
    out->changes_results |= changes[k];
  }
  return HR_OK;
}
