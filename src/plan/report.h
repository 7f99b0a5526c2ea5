/* A plan in words and in JSON: the object of `plan --json`, the buffers of `dump --after plan`. */
#ifndef HR_PLAN_REPORT_H
#define HR_PLAN_REPORT_H

#include <jansson.h>
#include <stdio.h>

#include "plan/verdict.h"
#include "recipe/recipe.h"

/* The object of `plan --json`; the caller gives it up with json_decref. `recipe` may be NULL (a graph built by hand):
 * "settings" is then empty and the model has no family. NULL: out of memory. */
json_t *hr__report_json(const hr_plan *plan, const hr_verdict *verdict, const hr_recipe *recipe);

/* {"schema", "fingerprint", "alignment", "arena_bytes" per tier, "programs": [{"name", "nodes", ...}],
 *  "buffers": [{"name", "tier", "category", "program", "bytes", "first", "last", "offset", "home", "module",
 *               "shape"}]}: every buffer and workspace with its own life (plan/tenants.h), all that is needed to check
 * the layout. "program" and "last" of persistent buffers are null, and "shape" of workspaces. NULL: out of memory. */
json_t *hr__report_buffers_json(const hr_plan *plan);

/* Parameters of the graph, and those of them that are trained, in elements. */
void hr__report_parameters(const hr_graph *graph, uint64_t *parameters, uint64_t *trainable);

/* Every slot on a line, for `dump --after plan`. */
void hr__report_buffers_text(const hr_plan *plan, FILE *to);

#endif
