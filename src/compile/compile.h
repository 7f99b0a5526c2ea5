/* compile: recipe -> the whole training graph, through model, the passes before grad, grad, and the passes after it.
 * pass/passes.def lists the passes in order. */
#ifndef HR_COMPILE_COMPILE_H
#define HR_COMPILE_COMPILE_H

#include "compile/shape.h"
#include "model/model.h"
#include "pass/offload_homes.h"
#include "pass/pass.h"

extern const hr_key_table hr_compile_keys; /* training.* settings that shape the graph: batch, clipping */

/* All that a recipe says about the graph: the key tables of models (the first), of passes, of data and of this stage.
 */
enum { HR_COMPILE_TABLES = HR_PASSES + 11 };
void hr__compile_tables(hr_key_table out[HR_COMPILE_TABLES]);

/* Compiles up to and including the stage named `until` ("model", "grad", a pass; NULL: all). */
hr_status hr__compile(const hr_recipe *recipe, const hr_choices *choices, const char *until, hr_graph **out,
                      hr_error *err);

/* Takes a graph that was built by hand, with its losses as outputs of its programs (hr__program_set_reported), through
 * all stages that follow the model. Values keep their ids; after an error the graph can only be destroyed. */
hr_status hr__compile_by_hand(hr_builder *b, const hr_recipe *settings, hr_error *err);
/* Settings for it from a recipe's text without a model. */
hr_status hr__by_hand_settings(const char *text, hr_recipe **out, hr_error *err);

/* A trunk is a recipe compiled as far as only choices->slices matters of the choices; what other choices make of it are
 * its branches. A recipe that is to be judged in many ways is built once that way. */
typedef struct hr_trunk hr_trunk;
/* The recipe must be there as long as the trunk. */
hr_status hr__trunk_grow(const hr_recipe *recipe, int64_t slices, hr_trunk **out, hr_error *err);
/* All stages, with the trunk's slices. The graph lies in part in the storage of the trunk, which must be there as long,
 * and in that of the passes; hr__graph_compact makes it what hr__compile gives, and its own. */
hr_status hr__trunk_branch(hr_trunk *trunk, const hr_choices *choices, hr_graph **out, hr_error *err);
/* What choices come to: those that keep blocks alike and come to the same give the same branch. */
hr_status hr__trunk_homes(const hr_trunk *trunk, const hr_choices *choices, hr_arena *arena, hr_offload_homes *out,
                          hr_error *err);
void hr__trunk_destroy(hr_trunk *trunk); /* or NULL */

#endif
