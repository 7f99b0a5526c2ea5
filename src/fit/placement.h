/* placement: one way to keep blocks together with a place for every open kind, and the place of the update.
 *
 * All of a setting's placements are listed with bounds that are read off a few sketches: of each way to keep blocks one
 * with nothing moved and one with everything moved. Placements that no budget has room for are left out; the others
 * come in rising order of seconds, so that looking at them can end where the bound passes the best plan found.
 *
 * A kind is closed by a recipe to the device, the host or the disk. These places are all in the list with just the
 * meaning that they have there, whatever else is open: so closing a setting only takes placements away from the list,
 * and can never give a faster plan than leaving it open.
 */
#ifndef HR_FIT_PLACEMENT_H
#define HR_FIT_PLACEMENT_H

#include "fit/candidate.h"
#include "fit/traffic.h"

/* Blocks kept differently: the fastest mix of the ways. */
enum { HR_WAY_MIX = HR_ALIKE };

typedef struct hr_placement {
  int way;                        /* an hr_keep that all blocks have, or HR_WAY_MIX */
  hr_tier tier[HR_OFFLOAD_KINDS]; /* of an open kind; the device: it stays there */
  int part;                       /* kind of which as much stays on the device as there is room for; -1: none */
  bool update_on_host;
  bool hidden;         /* computing takes longer than all copies: what it waits for is single large ones */
  double seconds;      /* of a step, at least */
  double whole;        /* the same with nothing on the device of the kind that may be in part */
  uint64_t room_bytes; /* on the device for the kind that stays in part, at most */
  uint64_t host_bytes; /* on the host for the kind on the disk, at most */
} hr_placement;

/* The kind on the disk of which as much stays on the host as there is room for: the one with the most traffic for a
 * byte (a parameter is read twice for every micro-batch, a gradient written and read, state moves once for a step). -1:
 * none is on the disk. */
int hr__placement_disk_kind(const hr_placement *it);

/* What bounds are made of, for one way to keep blocks; [1]: with activations moved. */
typedef struct hr_way_figures {
  bool known[2];
  hr_traffic traffic[2];
  uint64_t peak_bytes[2];               /* of the device with everything moved */
  uint64_t transient_bytes[2];          /* on the device with everything moved, without what is on its way */
  uint64_t gradient_bytes;              /* of gradients that live in one program alone, on the device, at its peak */
  uint64_t gradients_most;              /* of such gradients, the most at a time */
  uint64_t working_bytes;               /* of everything else that lives so, with nothing moved */
  uint64_t copies_bytes;                /* that offloaded parameters have beside them */
  uint64_t activation_bytes;            /* of offloaded activations */
  uint64_t closed_bytes[HR_TIER_COUNT]; /* persistent, where the recipe wants them */
} hr_way_figures;

typedef struct hr_prospects {
  const hr_choosing *choosing;
  hr_way_figures ways[HR_ALIKE];
  hr_traffic host_update; /* with the processor updating all that is on the host */
  bool update_places;     /* the update has two places */
  hr_placement *list;     /* in the arena of `choosing` */
  size_t count, capacity;
} hr_prospects;

/* Bytes of a kind that may be offloaded: what is persistent, gradients of one program, activations. */
uint64_t hr__kind_bytes(const hr_prospects *p, const hr_way_figures *f, int kind);

/* Lists all placements but those with nothing moved, of the ways whose figures are there, and of mixes of ways. */
hr_status hr__placements_list(hr_prospects *p, bool mixes, hr_error *err);

/* Reads the figures of a way: of the sketch with nothing moved, of the one with everything moved. */
hr_status hr__figures_resting(hr_way_figures *f, hr_choosing *s, const hr_plan *plan, hr_error *err);
hr_status hr__figures_moved(hr_way_figures *f, const hr_choosing *s, const hr_plan *plan, bool activations,
                            hr_error *err);
/* Once all that is to be known of a way is read: takes apart what moves with parameters and what with activations. */
void hr__figures_settle(hr_way_figures *f);

#endif
