/* look: placements (fit/placement.h) looked at until bounds pass what was found, the one that is likely to be fastest
 * first: by its bound, and by what others like it took of theirs. A look is a few sketches, of large graphs with few
 * tiles; those that come close to the best of them are then planned as they would be run.
 */
#ifndef HR_FIT_LOOK_H
#define HR_FIT_LOOK_H

#include "fit/fill.h"

/* A placement that fits by its look. */
typedef struct hr_look {
  hr_placement it;
  hr_stays up;
  double seconds;
  int number; /* in the order they were found */
} hr_look;

enum { HR_MOVED_SETS = 1 << HR_OFFLOAD_KINDS };

typedef struct hr_looking {
  hr_choosing *s;
  /* per place of the update (1: the host), set of kinds that are moved whole, and way: bytes on the device, 0: not
   * known */
  uint64_t peak[2][HR_MOVED_SETS][HR_ALIKE];
  /* per way, kind in part on the device, kind on the disk (0: none), place of the update and of activations (0: the
   * device): the least that a look took of its bound; 0: none fitted */
  double ratio[HR_WAY_MIX + 1][1 + HR_OFFLOAD_KINDS][1 + HR_OFFLOAD_KINDS][2][2];
  /* per kind on the disk: how many bytes less than its bound the host had room for in the last look that filled it; 0:
   * there was none */
  uint64_t host_less[HR_OFFLOAD_KINDS];
  size_t nodes;  /* of all sketches */
  hr_look *list; /* in the arena of s */
  size_t count, capacity;
  double best; /* seconds of the fastest; 0: there is none */
  int looks;   /* so far */
  int idle;    /* since the fastest was found */
} hr_looking;

/* Whether nothing from this bound on is worth a look. */
bool hr__look_late(const hr_looking *l, double bound);
/* Looks at the placements listed, at most as many as `most`. */
hr_status hr__placements_look(hr_looking *l, int most, hr_error *err);
/* Plans what was found, the most promising first; what the first of them takes less than with few tiles the others do
 * as well. Of large graphs only some are planned. */
hr_status hr__looks_plan(hr_looking *l, hr_error *err);

#endif
