/* The type of a pass: changes the builder's graph in place, verified between any two in debug builds. One file per
 * pass, listed in passes.def, which fixes the order and the names of `dump --after`. */
#ifndef HR_PASS_PASS_H
#define HR_PASS_PASS_H

#include "graph/builder.h"
#include "pass/compile.h"

typedef enum hr_pass_part {
  HR_BEFORE_GRAD, /* what is trained, in which precision, with which ops; choices->slices is all that is read of choices
                   */
  HR_AFTER_GRAD,  /* what is updated, and in which order; choices are not read */
  HR_BY_CHOICE    /* what is kept, recomputed, moved */
} hr_pass_part;

typedef struct hr_pass {
  const char *name;
  hr_pass_part part;
  hr_status (*run)(hr_builder *b, const hr_recipe *recipe, const hr_choices *choices, hr_error *err);
} hr_pass;

#define HR_PASS(name, part)                                                                                            \
  hr_status hr__pass_##name(hr_builder *b, const hr_recipe *recipe, const hr_choices *choices, hr_error *err);
#include "pass/passes.def"
#undef HR_PASS

#endif
