/* ladder: the settings next to a recipe's own: the next that needs less memory, and the next that is faster.
 *
 * Where settings were open, the frontier of the search has them (fit/search.h). Otherwise, and where it ends, they are
 * neighbours that give the same result. Neighbours differ in one technique: what is recomputed of the whole or of a
 * part, the micro-batch at a kept effective batch, when parameters are updated, what is offloaded; where fit/choose
 * closes something, only in what is recomputed. Of those that no other neighbour beats in both memory and time, the
 * nearest on either side is a rung. Only computes: planning a changed recipe is the caller's function, called a few
 * times.
 */
#ifndef HR_FIT_LADDER_H
#define HR_FIT_LADDER_H

#include "fit/search.h"
#include "fit/suggest.h"

typedef struct hr_rung {
  const char *const *overrides; /* what is to be set, as --set takes it; n_overrides == 0: there is no such rung */
  size_t n_overrides;
  hr_planned planned;
  bool changes_results;
} hr_rung;

typedef struct hr_ladder {
  hr_rung cheaper; /* fits, with less on the device */
  hr_rung faster;  /* with less seconds and more on the device; may not fit (planned.fits) */
  hr_rung other;   /* the fastest that fits where other results are allowed: of a search over all settings (job) */
} hr_ladder;

/* A setting that was found, as what it has otherwise than the closed recipe, whose own is `chosen`, of the same search
 * or of another with more open; and whether other weights come out than from that, which may have changed the result
 * itself. */
hr_status hr__rung_found(const hr_recipe *recipe, const hr_found *chosen, const hr_found *found, hr_arena *arena,
                         hr_rung *out, hr_error *err);

/* `recipe` is the closed one, `here` what its plan comes to. Texts are the arena's. */
hr_status hr__ladder(const hr_recipe *recipe, const hr_search *search, const hr_planned *here, hr_plan_changed plan,
                     void *user, hr_arena *arena, hr_ladder *out, hr_error *err);

#endif
