/* Tenants: every buffer and workspace of a plan in its slot, each with its own life. What `dump --after plan`, the
 * areas of usage.h and pages about a plan are made from.
 *
 * Buffers of one home share a slot: each takes over from the one before at the node where that one is used last. At any
 * position where a slot is alive exactly one of its tenants is what it holds.
 */
#ifndef HR_PLAN_TENANTS_H
#define HR_PLAN_TENANTS_H

#include "plan/plan.h"

typedef struct hr_tenant {
  const char *name, *module; /* module: whose it is (hr_buffer.module) */
  hr_id slot;
  hr_category category;
  uint32_t first, last; /* node positions in the slot's program, both inclusive; 0..UINT32_MAX when persistent */
  bool passed_on;       /* at `last` another tenant is what the slot holds */
  hr_id value;          /* one that is all of the buffer, for its shape; HR_NONE: a workspace */
} hr_tenant;

typedef struct hr_tenants {
  hr_tenant *list; /* buffers in the order of the graph, then workspaces in the order of their nodes */
  size_t count;
} hr_tenants;

/* The list is the arena's. */
hr_status hr__tenants(const hr_plan *plan, hr_arena *arena, hr_tenants *out, hr_error *err);

/* "f32[4,256,256]"; "" for a workspace, which has no shape. Returns `out`. */
enum { HR_SHAPE_TEXT = 16 + HR_RANK * 24 };
const char *hr__tenant_shape(const hr_plan *plan, const hr_tenant *tenant, char out[HR_SHAPE_TEXT]);

#endif
