/* knobs: the settings of a recipe that are open, each with its choices.
 *
 * By hand: a list of choices, or the word `auto` of a key that fit/choose does not close itself; in a list it stands
 * for its choices that the list does not name. Choices of `auto`:
 *   training.batch_size             divisors of effective_batch (without one: powers of two, which changes results)
 *   training.gradient_accumulation  what effective_batch leaves
 *   data.sequence_length            powers of two up to the model's longest, at most 8192
 *   model.adapters.rank             8, 16, 32, 64; also that of a part
 *   memory.split                    none; 2, 4, ... slices up to one sample each; of frames and the like up to 16
 * and the words of techniques (recipe/techniques.def), also of a part (fit/sites.h); paged moments only where
 * memory.offload.optimizer is closed. `all` opens the same keys, and those that fit/choose closes, where the recipe
 * does not write them and their owner has a use for them: the first choice is then what the recipe has without being
 * opened. It opens the batch only beside an effective one and where no op couples samples (fit/coupling.h).
 *
 * Length, rank and the like are settings of quality (hr_key.quality): what is open of them is as large as fits,
 * whatever its speed.
 *
 * A choice changes results when other weights come out than with the first one, beyond the order of sums. Batch and
 * accumulation at a kept effective batch do not, nor does anything of memory.*, nor paged moments.
 */
#ifndef HR_FIT_KNOBS_H
#define HR_FIT_KNOBS_H

#include "compile/compile.h"

typedef struct hr_knob {
  const char *path;
  const char *const *choices; /* values as overrides take them */
  const bool *changes;        /* per choice: other results than with the first */
  size_t n_choices;
  bool changes_results;  /* any of its choices */
  bool by_hand;          /* opened in the recipe, not by `all` */
  const size_t *quality; /* per choice: how many others are larger numbers; NULL: speed alone decides */
  bool slices;           /* memory.split: choice k is 2^k slices, the last one at most a sample each, or as below */
  int64_t slices_by_row; /* of it: how many slices there may be of rows of an axis that the model has named; 0: none */
} hr_knob;

/* All of them, in `arena`. An `auto` that the rest of the recipe leaves without meaning is HR_BAD_INPUT. */
hr_status hr__knobs_find(const hr_recipe *recipe, bool all, hr_arena *arena, const hr_knob **out, size_t *count,
                         hr_error *err);
/* Whether there is any without `all`, beyond what fit/choose closes. */
bool hr__knobs_any(const hr_recipe *recipe);

#endif
