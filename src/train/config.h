/* The config.json of a part that is trained: the checkpoint's own where the part comes from one, so that nothing that
 * other programs read there is lost, with what the recipe has changed and the type that weights are saved in.
 */
#ifndef HR_TRAIN_CONFIG_H
#define HR_TRAIN_CONFIG_H

#include "model/parts.h"

/* *text in `arena`; NULL: models of this family have none. */
hr_status hr__part_config(const hr_model_part *part, hr_arena *arena, const char **text, size_t *bytes, hr_error *err);

#endif
