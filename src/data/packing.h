/* Packing (data.packing): documents share samples, with borders between them that attention does not cross. */
#ifndef HR_DATA_PACKING_H
#define HR_DATA_PACKING_H

#include "data/source.h"

/* packed.c: in place of the source that data.source names, where that has documents of different lengths. One that is
 * cut into windows tells where documents begin in them itself. */
extern const hr_source hr_source_packed;

/* Whether a recipe asks for it. */
bool hr__packing(const hr_recipe *recipe);
/* HR_BAD_INPUT where the source has no documents, or the model looks to both sides of a token (`masked`). */
hr_status hr__packing_check(const hr_recipe *recipe, bool masked, hr_error *err);

#endif
