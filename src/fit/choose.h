/* choose: closes the settings of memory that a recipe leaves open (`auto`) for a budget.
 *
 * memory.checkpoint: plans with all blocks kept alike give the variants of every block, fit/chain the frontier, and the
 * fastest entry whose real, packed plan fits is taken. The frontier does not depend on the budget, so a larger budget
 * never gives a slower plan of that kind. memory.offload.* and memory.offload.update: places of all open kinds and of
 * the update are chosen together with what is kept of the blocks (fit/placement.h), and compete with that.
 * memory.split: the number of slices is given (hr_open.slices); the search compares them. What cannot fit is answered
 * with the smallest plan.
 */
#ifndef HR_FIT_CHOOSE_H
#define HR_FIT_CHOOSE_H

#include "compile/compile.h"
#include "plan/plan.h"
#include "recipe/techniques.h"

typedef struct hr_open {
  const hr_recipe *recipe;
  const hr_facts *facts;
  const hr_rates *rates;
  int accumulation;
  uint64_t budget_bytes; /* on the device, fixed costs and all, margin taken off */
  uint64_t host_bytes;   /* budget of the host tier */
  uint64_t disk_bytes;   /* of the disk tier */
  hr_effort effort;
  double limit_seconds; /* of a step, above which a plan is of no use; 0: none */
  int64_t slices;       /* of every outermost block where memory.split = auto; below 2: they stay whole */
} hr_open;

/* The recipe compiled and planned with what was chosen. */
typedef struct hr_chosen {
  hr_arena arena;
  hr_choices choices; /* keep == NULL: checkpointing was not open */
  bool open[HR_OFFLOAD_KINDS];
  bool split; /* memory.split was open */
  bool any;   /* something was open; else the choices are not used */
  hr_graph *graph;
  hr_plan *plan;
  hr_trunk *trunk; /* what the graph may lie in; NULL: it is its own */
} hr_chosen;

/* Whether a recipe leaves a technique to be closed here; whether any. */
bool hr__choose_closes(const hr_recipe *recipe, const hr_technique_key *technique);
bool hr__choose_any(const hr_recipe *recipe);

/* With limit_seconds, no plan (NULL) where none fits within it. The plan is nameless (plan/plan.h): of many choices
 * only the one that the search ends with gets its fingerprint. */
hr_status hr__choose(const hr_open *open, hr_chosen *out, hr_error *err);
void hr__chosen_fini(hr_chosen *chosen);

/* What open settings came to in the graph: whether all but resident_bytes of a kind is offloaded. A kind may
 * have been let go without any of it leaving: small tensors stay. */
bool hr__chosen_divides(const hr_chosen *chosen, hr_offload_kind kind);
/* The same, or, of activations, inputs of blocks that are kept there. */
bool hr__chosen_offloads(const hr_chosen *chosen, hr_offload_kind kind);

/* The word that a setting comes to where it is `auto`, for those who have no such word: "none" to "every-layer" of
 * memory.checkpoint, a tier of memory.offload.*, of memory.split "none" where blocks stay whole, else "auto". NULL: it
 * was not open. */
const char *hr__chosen_word(const hr_chosen *chosen, const char *path);

const char *hr__keep_name(hr_keep keep);
const char *hr__offload_name(hr_offload_kind kind); /* as in memory.offload.<name> */
/* Whether buffers of a role are of a kind: averages of weights go with the optimizer's state. */
bool hr__offload_has(hr_offload_kind kind, hr_role role);

#endif
