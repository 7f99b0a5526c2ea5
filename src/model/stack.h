/* When tensors of a model may be one stacked parameter (graph/builder.h, hr__stacked). */
#ifndef HR_MODEL_STACK_H
#define HR_MODEL_STACK_H

#include "recipe/recipe.h"

/* Whether nothing in the recipe can treat tensors of these sizes (elements) differently when they are stacked. They
 * stay single with NF4, whose scales are those of one tensor; with groups of the optimizer and overrides of the
 * precision, whose patterns name tensors and modules; and where the states of an 8-bit optimizer would be other ones:
 * some in 8 bits and some not, or a block of elements across two tensors. */
bool hr__stackable(const hr_recipe *recipe, const int64_t *elements, int count);

#endif
