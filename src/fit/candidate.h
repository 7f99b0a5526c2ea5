/* Inside fit/choose: one closed setting of a recipe being planned in many ways, of which the fastest that fits is kept.
 *
 * A candidate is compiled and timed without a layout (a sketch); its peaks are then lower bounds. Only one that may fit
 * and is faster than the best so far is laid out.
 */
#ifndef HR_FIT_CANDIDATE_H
#define HR_FIT_CANDIDATE_H

#include "fit/choose.h"

typedef struct hr_candidate {
  struct hr_sketch *sketch; /* what it takes (fit/sketches.h) */
  hr_graph *graph;          /* NULL as long as nobody asked for more than that; so is the plan */
  hr_plan *plan;
  hr_choices choices;
  hr_keep *keep; /* what choices.keep is, its own; NULL: by the recipe */
} hr_candidate;

/* Ways to keep blocks that are tried alike for all of them, in this order; the last only where activations may move. */
enum { HR_ALIKE = HR_KEEP_OFFLOADED + 1 };

/* A layout over the device's budget, by what its sketch held. */
typedef struct hr_missed {
  uint64_t sketch_bytes, over_bytes;
} hr_missed;

typedef struct hr_choosing {
  const hr_open *open;
  hr_chosen *out;
  hr_arena arena;
  struct hr_sketch *sketches; /* made so far, the newest first; in the arena */
  hr_trunk *trunk;            /* of all candidates: they have the same slices; made with the first */
  bool keeps;                 /* memory.checkpoint is open, and there are blocks */
  size_t n_keep;              /* blocks */
  int n_alike;                /* ways that are tried; 1 where memory.checkpoint is closed */
  bool coarse;                /* looks are sketches with few tiles: those of a large graph take their time */
  bool hopeless;              /* nothing fits, and that was all to be known */
  bool rests;                 /* best is all blocks kept and nothing moved: the fastest passes there are */
  double limit_seconds;       /* the caller's, 0 where a step may still become faster in the end */
  bool draft;                 /* the first layout will do: what it is over can be taken off */
  hr_missed *missed;          /* layouts; in the arena. Sketches that hold just as much are not laid out as drafts */
  size_t n_missed, cap_missed;
  double pure[HR_ALIKE];                  /* seconds of a step with all blocks kept that way and nothing moved */
  hr_candidate best;                      /* the fastest that fits, laid out; graph == NULL: none */
  hr_candidate least;                     /* the smallest that does not fit; without best it is the answer */
  uint64_t fill_bytes;                    /* of the device's budget: what is filled with what comes back */
  uint64_t mix_bytes;                     /* the same for mixes, whose layouts miss the bound by a little */
  uint64_t whole_bytes[HR_OFFLOAD_KINDS]; /* of each kind, all that is persistent */
  struct hr_prospects *prospects;         /* fit/placement.h */
} hr_choosing;

/* What choices take; compiled and timed unless that is known. */
hr_status hr__candidate_sketch(hr_choosing *s, const hr_choices *choices, hr_candidate *c, hr_error *err);
hr_status hr__candidate_make(hr_choosing *s, hr_candidate *c, hr_error *err); /* gives a sketch its graph and plan */
hr_status hr__candidate_lay(const hr_choosing *s, hr_candidate *c, bool draft, hr_error *err); /* makes it a plan */
void hr__candidate_fini(hr_candidate *c);
double hr__candidate_seconds(const hr_candidate *c); /* of a step */
uint64_t hr__candidate_bytes(const hr_candidate *c, hr_tier tier);
uint64_t hr__candidate_peak(const hr_candidate *c);                  /* the same of the device */
bool hr__candidate_fits(const hr_open *open, const hr_candidate *c); /* of a sketch: whether it may */
/* By how many bytes it misses each tier's budget; of a sketch at least. */
void hr__candidate_over(const hr_open *open, const hr_candidate *c, uint64_t over[HR_TIER_COUNT]);
/* The part of the device's budget within which a sketch will do: none, but for a large plan that is only to be judged
 * all save the 1 % that layouts of training steps are above their bound at most. */
uint64_t hr__candidate_sure_bytes(const hr_open *open, const hr_plan *plan);
/* Whether a plan that takes at least `seconds` comes too late. */
bool hr__candidate_slow(const hr_choosing *s, double seconds);
/* Takes over a sketch. over: by how many bytes it misses each tier's budget, its layout where it was laid out. */
hr_status hr__candidate_offer(hr_choosing *s, hr_candidate *c, uint64_t over[HR_TIER_COUNT], hr_error *err);

/* With all blocks kept one way, where that is open. */
hr_status hr__keep_alike(hr_choosing *s, const hr_choices *base, int way, hr_candidate *c, hr_error *err);
/* keep.c: everything on the device. All ways alike, then the fastest mix of them that fits. */
hr_status hr__keep_choose(hr_choosing *s, hr_error *err);
/* keep.c: the fastest mix that fits with everything where `base` has it. peaks: bytes of the device with all blocks
 * kept one way, per way; may be NULL. *seconds: of the first whose sketch fits, which is not laid out then; NULL: mixes
 * are offered. */
hr_status hr__keep_mixes(hr_choosing *s, const hr_choices *base, uint64_t peaks[HR_ALIKE], double *seconds,
                         hr_error *err);
/* move.c: whether what lives on the host may be updated there or on the device. */
bool hr__update_has_places(const hr_choosing *s, const hr_graph *g);
/* move.c: s->hopeless if it is already, or if the device has no room even with everything moved that may be; the
 * smallest such plan is offered. Not where nothing may be moved. */
hr_status hr__move_hopeless(hr_choosing *s, hr_error *err);
/* move.c: ways to keep blocks together with kinds that may leave the device. */
hr_status hr__move_choose(hr_choosing *s, hr_error *err);

#endif
