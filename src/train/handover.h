/* What a stage of a recipe hands over to the next: the newest checkpoint of its run; or several stages theirs. Values
 * go over by name, whatever their types: weights that were trained, adapters, state of the model, averages. The
 * optimizer begins anew.
 *
 * What was trained before and is frozen now is carried: it is in the checkpoints of this stage too, so that each has
 * all that was ever trained.
 */
#ifndef HR_TRAIN_HANDOVER_H
#define HR_TRAIN_HANDOVER_H

#include "model/weights.h"
#include "train/store.h"

typedef struct hr_handover {
  hr_weights **files; /* room for those of all runs */
  size_t count;
  bool *carried;         /* per value of the graph; NULL: nothing is handed over */
  char hash[HR_XXH_HEX]; /* of the checkpoint's manifest, or of those of several; "" */
  hr_arena arena;
} hr_handover;

/* `run`: folder of the run that was trained before; every byte of its newest checkpoint is looked at. HR_USAGE where
 * this stage has no place for something that was trained. `also` (or NULL): further runs, of which what those before
 * have not is taken; ends with NULL. */
hr_status hr__handover_open(const char *run, const char *const *also, const hr_recipe *recipe, const hr_graph *graph,
                            hr_handover *out, hr_error *err);
/* The file that has a value; NULL: it is not handed over. */
hr_weights *hr__handover_of(const hr_handover *handover, hr_id value);
bool hr__handover_carries(const hr_handover *handover, hr_id value);
void hr__handover_release(hr_handover *handover); /* the files; what is carried stays known */
void hr__handover_close(hr_handover *handover);

#endif
