/* Settings of a space by number: one choice of each knob, the last knob's counted first. */
#ifndef HR_FIT_NUMBERING_H
#define HR_FIT_NUMBERING_H

#include "fit/search.h"

/* How many there are, or a number above `most`. */
size_t hr__numbers_count(const hr_search *search, size_t most);
/* The choice of a knob, both by number. */
size_t hr__number_choice(const hr_search *search, size_t number, size_t knob);
/* Into how many slices blocks are cut; 1: they are whole. */
int64_t hr__number_slices(const hr_search *search, size_t number);
/* The same setting with all blocks whole. */
size_t hr__number_whole(const hr_search *search, size_t number);

/* What it sets, as overrides in `arena`; not what it comes to. */
hr_status hr__number_describe(const hr_search *search, size_t number, hr_arena *arena, hr_found *out, hr_error *err);

/* Levels of quality: of two settings the one with the lower level has the larger number, in the first knob of quality
 * that tells them apart. */
size_t hr__number_level(const hr_search *search, size_t number);
size_t hr__levels_count(const hr_search *search);

#endif
