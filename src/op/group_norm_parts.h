/* The CPU's kernels of group_norm, between its two files. */
#ifndef HR_OP_GROUP_NORM_PARTS_H
#define HR_OP_GROUP_NORM_PARTS_H

#include "graph/op.h"

hr_status hr__group_norm_run(const hr_call *call);
hr_status hr__group_norm_bwd_run(const hr_call *call);
hr_status hr__group_statistics_run(const hr_call *call);
hr_status hr__group_statistics_bwd_run(const hr_call *call);

/* Rules of group_norm that group_statistics shares. */
hr_status hr__group_channels_check(const hr_desc *x, int64_t groups, hr_error *err);
hr_desc hr__group_statistics_desc(const hr_desc *x, int64_t groups);

#endif
