/* sketches: what candidates of one setting have shown, by what their choices come to.
 *
 * Many ways to say what is to move come to the same graph: all of a kind stays where there is room for more than that,
 * state that is nowhere on the host is not updated there, few tiles are all of them where there are few. Looks, and
 * plans of what was looked at, ask for such graphs again; what a sketch of one has shown is then known.
 */
#ifndef HR_FIT_SKETCHES_H
#define HR_FIT_SKETCHES_H

#include "fit/blocks.h"
#include "fit/candidate.h"
#include "pass/offload_homes.h"

typedef struct hr_sketch {
  struct hr_sketch *older;
  bool by_choice; /* else everything is as the recipe has it */
  hr_offload_homes homes;
  const hr_keep *keep; /* NULL: by the recipe */
  size_t n_keep;
  /* what it has shown; step_seconds is 0 until it was made */
  double step_seconds;
  uint64_t peak_bytes[HR_TIER_COUNT];
  size_t n_nodes;
  const hr_blocks *blocks; /* with the one variant of every block that it has; NULL: not read yet */
} hr_sketch;

/* That of choices that come to the same, or a new one; NULL choices: by the recipe. In the arena of s. */
hr_status hr__sketch_find(hr_choosing *s, const hr_choices *choices, hr_sketch **out, hr_error *err);
/* What blocks take in the candidate's sketch, which is made if it has to be. */
hr_status hr__sketch_blocks(hr_choosing *s, hr_candidate *c, const hr_blocks **out, hr_error *err);

#endif
