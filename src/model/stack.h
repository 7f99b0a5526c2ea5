/* When tensors of a model may be one stacked parameter (graph/builder.h, hr__stacked). */
#ifndef HR_MODEL_STACK_H
#define HR_MODEL_STACK_H

#include "recipe/scope.h"

/* Whether nothing in the recipe of a model or part can treat tensors of these sizes (elements) differently when they
 * are stacked. They stay single with NF4, whose scales are those of one tensor; with patterns of `train`, groups of the
 * optimizer and overrides of the precision, whose patterns name tensors and modules; and where the states of an 8-bit
 * optimizer would be other ones: some in 8 bits and some not, or a block of elements across two tensors. */
bool hr__stackable(const hr_scope *scope, const int64_t *elements, int count);

#endif
