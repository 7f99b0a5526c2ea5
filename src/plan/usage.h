/* Usage: the bytes of a tier over the nodes of a program, in series that sum to the tier's peak at every node: what is
 * alive by category or by owner, what of the arena is not ("gaps"), and fixed costs. */
#ifndef HR_PLAN_USAGE_H
#define HR_PLAN_USAGE_H

#include "plan/owners.h"
#include "plan/tenants.h"

enum { HR_USAGE_OWNERS = 8 }; /* that have a series of their own, by what they hold at the tier's peak */

/* The owners of a tier that have a series, the largest first; behind them one of all others, then gaps and fixed. */
typedef struct hr_usage_owners {
  char names[HR_USAGE_OWNERS][HR_MODULE_NAME];
  size_t count; /* of names; others, gaps and fixed are series count, count + 1, count + 2 */
} hr_usage_owners;
hr_status hr__usage_owners(const hr_plan *plan, hr_tier tier, hr_arena *arena, hr_usage_owners *out, hr_error *err);

/* The series that a tenant belongs to; `user` is the asker's. */
typedef size_t (*hr_usage_series)(const hr_tenant *tenant, const void *user);
size_t hr__usage_category(const hr_tenant *tenant, const void *user); /* hr_category; HR_CAT_COUNT series */
size_t hr__usage_owner(const hr_tenant *tenant, const void *user);    /* user: hr_usage_owners; count + 3 series */

/* bytes[series * nodes + position], where nodes are those of the program (at least one). The last two series are gaps
 * and fixed costs, in both orders above. The table is the arena's. */
hr_status hr__usage(const hr_plan *plan, const hr_tenants *tenants, hr_tier tier, hr_id program, size_t series,
                    hr_usage_series series_of, const void *user, hr_arena *arena, uint64_t **bytes, hr_error *err);

#endif
