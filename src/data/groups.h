/* Groups of items: clusters of their points, made anew every few epochs, by which a source treats its samples from then
 * on (negatives in the group of their anchor are likely false ones). They are k-means: centres are drawn far from each
 * other (k-means++), then points go to the nearest centre and centres to the mean of their points, until no point
 * moves or MOVES_MOST times.
 *
 * Groups depend on weights that are gone when a run is resumed, so checkpoints hold them: `saved` is what they hold.
 * They are the same bits for the same points: draws are keyed by seed and epoch, sums go in the order of items.
 */
#ifndef HR_DATA_GROUPS_H
#define HR_DATA_GROUPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct hr_groups {
  int64_t from, every; /* epochs in which they are made, from 0; every 0: never */
  int64_t most;        /* groups */
  uint64_t seed;
  size_t items;           /* of the data */
  const int32_t *members; /* ascending: items that are grouped; owned by the source */
  size_t n_members;
  int64_t width;  /* of points */
  int32_t *saved; /* [1 + items]: 1 + epoch that they were made in (0: not yet), and the group of each item, or -1 */
  float *vectors, *centres;
  double *sums, *nearest; /* [groups, width], [members] */
  int32_t *counts;        /* of a group */
} hr_groups;

/* How many groups `n_members` items get: half as many, by tens, at most `most`; 0: too few to tell apart. */
int64_t hr__groups_number(const hr_groups *groups);
/* Bytes of all that hr__groups_open takes. */
uint64_t hr__groups_bytes(const hr_groups *groups, int64_t width);
/* Room for groups by points of `width` numbers; the fields above `width` are there. */
hr_status hr__groups_open(hr_groups *groups, int64_t width, hr_error *err);
void hr__groups_close(hr_groups *groups); /* also of one that was never opened */

/* Whether they are to be made before a step that begins in an epoch, and the epoch that they are for. */
bool hr__groups_due(const hr_groups *groups, uint64_t epoch, uint64_t *of);
/* Of points on a hyperboloid [items, width], which count as their tangent vectors at its origin. */
void hr__groups_make(hr_groups *groups, uint64_t epoch, const float *points);

/* What checkpoints hold; restored by writing it. */
size_t hr__groups_saved_bytes(const hr_groups *groups);

static inline bool hr__groups_same(const hr_groups *groups, int32_t a, int32_t b) {
  if (!groups->saved || groups->saved[0] == 0) return false;
  return groups->saved[1 + a] >= 0 && groups->saved[1 + a] == groups->saved[1 + b];
}

#endif
