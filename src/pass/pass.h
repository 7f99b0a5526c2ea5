/* The type of a pass: changes the builder's graph in place, verified between any two in debug builds. A row of
 * passes.def fixes its place in the order, its name for `dump --after`, and the keys that recipes have for it. */
#ifndef HR_PASS_PASS_H
#define HR_PASS_PASS_H

#include "graph/builder.h"
#include "model/model.h"
#include "pass/choices.h"

typedef enum hr_pass_part {
  HR_BEFORE_GRAD, /* what is trained, in which precision, with which ops; choices->slices is all that is read of choices
                   */
  HR_AFTER_GRAD,  /* what is updated, and in which order; choices are not read */
  HR_BY_KEEP,     /* what is kept and recomputed; choices->keep is all that is read of choices */
  HR_BY_CHOICE    /* what is moved */
} hr_pass_part;

typedef struct hr_pass {
  const char *name;
  hr_pass_part part;
  const hr_key_table *keys; /* settings of recipes that are its own; may be none */
  hr_status (*run)(hr_builder *b, const hr_recipe *recipe, const hr_choices *choices, hr_error *err);
} hr_pass;

#define HR_PASS(name, part, keys)                                                                                      \
  extern const hr_key_table keys;                                                                                      \
  hr_status hr__pass_##name(hr_builder *b, const hr_recipe *recipe, const hr_choices *choices, hr_error *err);
#include "pass/passes.def"
#undef HR_PASS

enum {
#define HR_PASS(...) +1
  HR_PASSES = 0
#include "pass/passes.def"
#undef HR_PASS
};
extern const hr_pass hr_passes[HR_PASSES]; /* in order */

#endif
