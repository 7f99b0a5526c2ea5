/* What the files that make a page's layout share. Only they include this. */
#ifndef HR_REPORT_LAYING_H
#define HR_REPORT_LAYING_H

#include "job/job.h"
#include "plan/tenants.h"
#include "report/names.h"

typedef struct hr_laying {
  const hr_job *job;
  const hr_plan *plan;
  hr_arena arena; /* scratch */
  hr_names names;
  hr_tenants tenants;
  uint64_t unit; /* bytes and offsets are multiples of it, and written so */
  hr_error *err;
} hr_laying;

/* layout_buffers.c: columns of all tenants. */
hr_status hr__layout_buffers(hr_laying *l, json_t **out);
/* layout_areas.c: a tier over the nodes of every program, by category and by owner. */
hr_status hr__layout_areas(hr_laying *l, hr_tier tier, json_t **out);
/* layout_nodes.c: what the nodes of a program are, and when they run. */
hr_status hr__layout_program(hr_laying *l, hr_id program, json_t **out);

#endif
