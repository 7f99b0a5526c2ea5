/* What a run in PyTorch comes to, in the form of a plan: peaks, categories, owners and seconds, so that whatever shows,
 * compares or searches plans does so with it as well. It cannot be run. */
#ifndef HR_JOB_ENGINE_PLAN_H
#define HR_JOB_ENGINE_PLAN_H

#include "fit/search.h"
#include "job/engine.h"
#include "plan/memory.h"

/* The budget with the margin that is usual for PyTorch, where nobody gave one: 3 % of the card. */
hr_status hr__engine_budget(const hr_recipe *recipe, const hr_facts *facts, hr_budget *out, hr_error *err);

/* The plan that tells of a run, with the graph of the model as far as before grad (both of them `chosen`'s, which is to
 * be zeroed and the caller's whatever comes of it). The device tier has what the driver shows at most: what is
 * allocated at its peak by category, under `gaps` what is cached beyond that, under `fixed` the context. Slots are what
 * is allocated then, by owner and call, without offsets. */
hr_status hr__engine_plan(const hr_recipe *recipe, const hr_facts *facts, const hr_rates *rates,
                          const hr_engine_run *run, hr_chosen *chosen, hr_error *err);

/* engine_search.c: as fit/search, for PyTorch. *run, which is to be zeroed, tells of what was chosen; where it is only
 * to be judged there is no plan. */
hr_status hr__engine_search(const hr_space *space, hr_search *out, hr_recipe **recipe, hr_chosen *chosen,
                            hr_engine_run *run, hr_error *err);

#endif
