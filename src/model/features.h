/* Features: what a frozen part of a model makes of samples. It never changes while the rest is trained, so it may be
 * made once (hr_model_features): by a program of its own, in a plan of its own, before training takes its memory
 * (train/features.h). It is kept in the cache folder (data/featured.h); training reads it, and has neither the part nor
 * what it reads.
 */
#ifndef HR_MODEL_FEATURES_H
#define HR_MODEL_FEATURES_H

#include "model/parts.h"

#define HR_OUTPUT_FEATURES "features" /* [rows, numbers] */

/* Whether training reads them from the cache, and whether a recipe is only to make them. Graphs that were built by hand
 * have none. */
bool hr__features_cached(const hr_recipe *recipe);
bool hr__features_alone(const hr_recipe *recipe);
/* HR_BAD_INPUT where features are asked for (true, make) of a model that has none. */
hr_status hr__features_check(const hr_model_part *whole, hr_error *err);
/* What such a recipe's program makes them of, and the program's forward pass, in the builder's current program. */
hr_fields hr__features_fields(const hr_model_part *whole, int64_t rows);
void hr__features_emit(hr_builder *b, const hr_model_part *whole, int64_t rows);

/* Whether a graph has nothing of part `p`, whose settings then say nothing: where features are read it lacks the part
 * that makes them, and where they are made all others, the whole model's own (0) too. */
bool hr__part_left_out(const hr_model_parts *parts, size_t p, const hr_graph *graph);
/* The same of the part that a pattern of names begins with. */
bool hr__pattern_left_out(const hr_model_parts *parts, const char *pattern, const hr_graph *graph);

/* Whether nothing is trained: a recipe that only makes features, or only generates. */
bool hr__untrained(const hr_recipe *recipe);

#endif
