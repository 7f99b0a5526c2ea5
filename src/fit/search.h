/* search: the settings with the least predicted seconds whose plan fits all budgets.
 *
 * What is open. A setting is open when the recipe gives it as a list of choices, when its word is `auto`, or, with
 * `all`, when the recipe does not write it (fit/knobs.h). Closed settings are never changed. One choice of every open
 * setting is a *setting of the space*; memory.checkpoint, memory.offload.* and memory.offload.update = auto are closed
 * inside of each by fit/choose, so that they take no part in the product.
 *
 * What wins. Of the settings whose plan fits, those of the highest quality: with the largest number of every open
 * setting that has quality (hr_key.quality: length, rank), the first knob before the next. Of these the one with the
 * least seconds per token of an effective batch (the effective batch is kept, so this is the time of a step wherever
 * length and samples are closed). Equal ones: the one that changes no result, then the smaller peak, then the order of
 * the choices. Slices (memory.split = auto) always recompute, and are looked at only where that may still be faster
 * than what fits without. What changes results and was opened only by `all` is looked at only when nothing else fits.
 * Where nothing fits at all the answer is the smallest plan without such changes.
 *
 * How. Every setting is compiled once, without layout, for two bounds (fit/bound.h):
 *   seconds  no choice of fit/choose makes forward and backward of a setting faster than all its nodes on the device,
 *            each once: recomputing adds nodes, moving adds waits, and neither takes one away. The update counts where
 *            its place is closed: only tiles and the host can change its time.
 *   bytes    what is persistent and may not be moved is on the device always, and so are, while any node of forward or
 *            backward runs, all its operands or all its results.
 * Neither looks at lifetimes or layouts, so neither can be too large. Settings over a budget by the second bound are
 * dropped; the rest are planned in rising order of the first, and the search ends when that is above the best time
 * found: nothing behind it can win. Inside of a setting the best time of all others is a limit as well. The answer is
 * that of planning every setting (test/fit/test_search.c compares).
 *
 * Bounds are computed on several threads, each by itself; planning goes on in a fixed order, in pairs. The same input
 * gives the same answer on every machine and with any number of threads.
 */
#ifndef HR_FIT_SEARCH_H
#define HR_FIT_SEARCH_H

#include "fit/choose.h"
#include "fit/knobs.h"

/* A setting of the space as it was planned. */
typedef struct hr_found {
  const char *const *overrides; /* one per knob, in their order: "training.batch_size=8"; as --set takes them */
  const bool *changes;          /* per override: other weights come out than with the knob's first choice */
  size_t n_overrides;
  bool changes_results; /* any of them */
  bool fits;            /* the budgets of all tiers */
  uint64_t peak_bytes[HR_TIER_COUNT];
  double step_seconds;  /* of one effective step */
  double token_seconds; /* the same per token, or per sample where there are none: what is compared */
} hr_found;

typedef struct hr_search {
  hr_arena arena;       /* of everything below */
  const hr_knob *knobs; /* what was open; n_knobs == 0: nothing, and there is one setting */
  size_t n_knobs;
  hr_found chosen;
  size_t n_settings; /* in the space, as far as it was opened */
  size_t n_planned;  /* by fit/choose */
  size_t n_pruned;   /* by a bound */
  size_t n_refused;  /* contradict themselves: a batch that does not divide the effective one, ... */
  /* Settings that were planned and are not beaten in both device peak and seconds, fastest first, peaks falling. Those
   * before the chosen one are faster and do not fit (their peak says what they would need), those behind it take less
   * memory. `at` is the chosen one. */
  const hr_found *frontier;
  size_t n_frontier, at;
} hr_search;

/* How far a search is, for somebody who waits for it. */
typedef struct hr_search_state {
  size_t settings;      /* in the rounds begun so far */
  size_t bounded;       /* of these; they are planned or ruled out when all are */
  size_t planned, done; /* done: planned, ruled out or refused */
  double token_seconds; /* of the fastest that fits so far; 0: none does */
  bool by_sample;       /* the model takes no tokens: seconds are per sample */
} hr_search_state;

/* What planning a setting needs, from the caller. */
typedef struct hr_space {
  const hr_recipe *recipe; /* as given, with what is open */
  bool all;                /* opens what the recipe does not write */
  hr_effort effort; /* with others than HR_EFFORT_RUN the plan chosen may be a sketch; `chosen` says what it comes to */
  bool any_result;  /* settings with other results that only `all` has opened count like all others */
  double limit_token_seconds; /* above which a setting is of no use; 0: none */
  int threads;
  void *user;
  /* The recipe with further overrides, in which nothing but what fit/choose closes is open, and its budgets. Called
   * from several threads. *recipe is the caller's (hr__recipe_destroy). */
  hr_status (*load)(void *user, const char *const *overrides, size_t count, hr_recipe **recipe, hr_open *open,
                    hr_error *err);
  /* (optional) Called after every setting, from several threads. */
  void (*progress)(void *user, const hr_search_state *state);
} hr_space;

/* Finds the best setting. *recipe: the closed one, *chosen: its plan; both the caller's. Where only some settings are
 * of use there may be none: then out->chosen has no overrides, and there is neither recipe nor plan. */
hr_status hr__search(const hr_space *space, hr_search *out, hr_recipe **recipe, hr_chosen *chosen, hr_error *err);
void hr__search_fini(hr_search *search);
/* The frontier of what was planned, out->n_planned of them in the search's arena, once `chosen` is known. */
void hr__search_frontier(hr_search *out, hr_found *planned);

#endif
